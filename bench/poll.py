#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""poll.py: how soon work is begun: wake-up of a runner, polls of waiting agents, cost of waiting.

Measured with the release build in /var/tmp: the time from the request that creates a task to the
start of the command that `dibs run` starts for it; how many polls 100 waiting agents are answered
in a second when each task is assigned to one of them; and the processor time of the daemon while
1,000 pollers wait and nothing happens.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import selectors
import statistics
import subprocess
import sys
import time

import peers
from idle import ask, receive, request

DIBS = str(pathlib.Path(__file__).resolve().parents[1] / "build-release" / "dibs")
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """User and system time of a process, all its threads included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def percentile(values, share):
    """The value below which that share of them lies."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


# ---- from a new task to its command ----


@contextlib.contextmanager
def runner(folder):
    """`dibs run` that notes when each command starts: date prints it, and that is the result."""
    with open(folder / "runner.log", "w", encoding="utf-8") as out:
        process = subprocess.Popen([DIBS, "--data", str(folder / "dibs"), "run", "--",
                                    "date", "+%s%N"],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process
    finally:
        peers.stop(process)


def started_at(task):
    """What date printed, out of a task's result."""
    result = task["result"]
    return int(result["output"] if isinstance(result, dict) else result)


def wake_ups_ms(at, folder, count):
    """How long each of so many tasks waited for its command, created one after the other."""
    took = []
    with contextlib.closing(peers.connect(at)) as link, runner(folder) as process:
        for number in range(count + 1):
            begin = time.time_ns()
            name = ask(link, "POST", "/api/tasks", {"title": "wake up"})["task"]["id"]
            while True:
                task = ask(link, "GET", f"/api/tasks/{name}")["task"]
                if task["status"] == "completed":
                    break
                if process.poll() is not None:
                    raise peers.Failure((folder / "runner.log").read_text())
                time.sleep(0.005)
            if number > 0:  # the first one waits for the runner to come up
                took.append((started_at(task) - begin) / 1e6)
    return took


# ---- agents that wait ----


class Agent:
    """One agent on one connection: polls, completes what it is given, polls again."""

    def __init__(self, at, name):
        self.name = name
        self.link = peers.connect(at)
        ask(self.link, "POST", "/api/agents", {"name": name})
        self.data = b""
        self.poll()

    def poll(self):
        """Asks, and waits for a minute."""
        self.link.sendall(request("GET", f"/api/poll?agentId={self.name}&wait=60s"))

    def answer(self):
        """A whole answer out of what has come, or None."""
        self.data += receive(self.link)
        head, found, rest = self.data.partition(b"\r\n\r\n")
        if not found:
            return None
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                      if line.lower().startswith(b"content-length:"))
        if len(rest) < length:
            return None
        if not head.startswith(b"HTTP/1.1 200"):
            raise peers.Failure(f"{self.name}: {(head + rest).decode(errors='replace')}")
        self.data = rest[length:]
        return json.loads(rest[:length])

    def complete(self, trigger):
        """Reports the task as done."""
        self.link.sendall(request("POST", f"/api/tasks/{trigger['taskId']}/complete",
                                  {"sessionId": self.name, "token": trigger["claim"]["token"]}))


def polls_per_second(at, count, seconds):
    """Each agent waits, is assigned a task, completes it, waits again."""
    agents = [Agent(at, f"agent-{i}") for i in range(count)]
    polls = 0
    with selectors.DefaultSelector() as selector, contextlib.closing(peers.connect(at)) as feeder:
        for agent in agents:
            selector.register(agent.link, selectors.EVENT_READ, agent)
        ask(feeder, "POST", "/api/tasks",
            [{"title": "x", "assignee": agent.name} for agent in agents])
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            idle = []
            for key, _ in selector.select(1):
                answer = key.data.answer()
                if answer is None:
                    continue
                if answer.get("trigger"):
                    polls += 1
                    key.data.complete(answer["trigger"])
                else:
                    key.data.poll()
                    idle.append({"title": "x", "assignee": key.data.name})
            if idle:
                ask(feeder, "POST", "/api/tasks", idle)
        took = time.monotonic() - begin
    for agent in agents:
        agent.link.close()
    return polls / took


def waiting_cost(server, count, seconds):
    """Part of one processor that the daemon needs while so many wait and nothing happens."""
    agents = [Agent(server.at, f"waiter-{i}") for i in range(count)]
    time.sleep(2)  # until the last of them waits
    before = processor_seconds(server.pid)
    time.sleep(seconds)
    used = processor_seconds(server.pid) - before
    for agent in agents:
        agent.link.close()
    return used / seconds


# ---- telling ----


def run(folder, options):
    """Everything, in one store."""
    with peers.dibs(DIBS, folder, keep=True) as server:
        took = wake_ups_ms(server.at, folder, options.tasks)
        print(f"{'task created to command started, ms':52}{statistics.median(took):10.2f}   "
              f"p99 {percentile(took, .99):.2f}, longest {max(took):.2f}", flush=True)
        rate = polls_per_second(server.at, options.agents, options.seconds)
        print(f"{f'polls per second, {options.agents} waiting agents':52}{rate:10.0f}", flush=True)
        used = waiting_cost(server, options.waiting, options.seconds)
        print(f"{f'processor used by {options.waiting} waiting pollers, percent':52}"
              f"{used * 100:10.2f}", flush=True)


def main():
    """Measures and tells."""
    parser = argparse.ArgumentParser(prog="script/bench poll", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=300, metavar="N", help="wake-ups: 300")
    parser.add_argument("--agents", type=int, default=100, metavar="N", help="100")
    parser.add_argument("--waiting", type=int, default=1000, metavar="N", help="1000")
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="10")
    parser.add_argument("--dir", default="/var/tmp", metavar="FOLDER", help="on a disk: /var/tmp")
    options = parser.parse_args()
    peers.end_on_signals()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.waiting + 1024), hard))
    try:
        with peers.scratch(options.dir) as folder:
            run(folder, options)
    except (peers.Failure, OSError) as failure:
        sys.exit(f"script/bench: {failure}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
