#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""idle.py: what the daemon costs when little happens: start, memory, 10,000 idle connections.

Measured with the release build, on a store with 20,000 tasks in /var/tmp: the time from the start
of the program to its first answer, the memory of the idle daemon, its memory with 10,000 idle
keep-alive connections and 1,000 readers of events at once, the claims it still serves then, and how
long one event takes to reach all readers.
"""
import argparse
import contextlib
import json
import pathlib
import resource
import selectors
import statistics
import subprocess
import sys
import time

import peers

DIBS = str(pathlib.Path(__file__).resolve().parents[1] / "build-release" / "dibs")
TASKS = 20000
STARTS = 9
ANSWER_SECONDS = 30
GOAL_START_MS, GOAL_IDLE_MB, GOAL_CROWD_MB = 100, 15, 100


# ---- a small client ----


def request(method, path, body=None, more=""):
    """The bytes of a request."""
    text = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    return head.encode() + b"\r\n" + text


def ask(link, method, path, body=None):
    """Sends a request and waits for its answer: the object in it. Must be a success."""
    link.sendall(request(method, path, body))
    data = b""
    while b"\r\n\r\n" not in data:
        data += receive(link)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = [int(line.split(b":")[1]) for line in head.split(b"\r\n")
              if line.lower().startswith(b"content-length:")]
    while len(rest) < length[0]:
        rest += receive(link)
    if not head.startswith(b"HTTP/1.1 2"):
        raise peers.Failure(f"{method} {path}: {(head + rest).decode(errors='replace')}")
    return json.loads(rest) if rest.startswith(b"{") else rest


def receive(link):
    """At least one byte."""
    part = link.recv(1 << 20)
    if not part:
        raise peers.Failure("the daemon has closed a connection")
    return part


def fill(at, count):
    """Creates so many tasks."""
    with contextlib.closing(peers.connect(at)) as link:
        for first in range(0, count, 1000):
            ask(link, "POST", "/api/tasks",
                [{"title": f"task {first + i}"} for i in range(min(1000, count - first))])


# ---- looking ----


def memory_mb(pid):
    """Resident memory, and how much of it belongs to nobody else."""
    def field(path, name):
        for line in pathlib.Path(f"/proc/{pid}/{path}").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
        return 0.0
    return field("status", "VmRSS"), field("smaps_rollup", "Pss_Anon")


def first_answer_ms(data, log):
    """From the start of the program to the first answer of one that is then stopped again."""
    at = f"127.0.0.1:{peers.free_port()}"
    with open(log, "w", encoding="utf-8") as out:
        begin = time.monotonic()
        process = subprocess.Popen([DIBS, "serve", "--listen", at, "--data", str(data)],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        while True:
            try:
                with contextlib.closing(peers.connect(at)) as link:
                    ask(link, "GET", "/healthz")
                    return (time.monotonic() - begin) * 1e3
            except OSError:
                if process.poll() is not None:
                    raise peers.Failure(log.read_text()) from None
            time.sleep(0.0005)
    finally:
        peers.stop(process)


class Crowd:
    """Many connections at once: some idle after one answer, some that read events."""

    def __init__(self, at, idle, readers):
        self.idle = [self._join(at, request("GET", "/healthz")) for _ in range(idle)]
        self.readers = [self._join(at, request("GET", "/api/events", more="Accept: "
                                               "text/event-stream\r\n")) for _ in range(readers)]
        self._wait_for_all(self.idle + self.readers, b"HTTP/1.1 200")

    @staticmethod
    def _join(at, first):
        link = peers.connect(at)
        link.sendall(first)
        return link

    @staticmethod
    def _wait_for_all(links, sign):
        """Until each has received the sign; what came before and after it is thrown away."""
        deadline = time.monotonic() + ANSWER_SECONDS
        with selectors.DefaultSelector() as selector:
            for link in links:
                selector.register(link, selectors.EVENT_READ, bytearray())
            while selector.get_map():
                for key, _ in selector.select(1):
                    key.data.extend(receive(key.fileobj))
                    if sign in key.data:
                        selector.unregister(key.fileobj)
                if time.monotonic() > deadline:
                    raise peers.Failure(f"{len(selector.get_map())} of {len(links)} connections "
                                        "have heard nothing")

    def wait_for_event(self, sign):
        """Until every reader has been told."""
        self._wait_for_all(self.readers, sign)

    def leave(self):
        """Closes all."""
        for link in self.idle + self.readers:
            link.close()


def claims_ms(at, count):
    """How long each of so many claims took, one after the other."""
    took = []
    with contextlib.closing(peers.connect(at)) as link:
        for _ in range(count):
            begin = time.monotonic()
            task = ask(link, "POST", "/api/tasks/claim", {"worker_id": "idle"})["task"]
            took.append((time.monotonic() - begin) * 1e3)
            ask(link, "POST", f"/api/tasks/{task['id']}/complete",
                {"sessionId": "idle", "token": task["token"]})
    return took


def tell_all_ms(at, crowd, number):
    """From the request that makes an event to its arrival at the last reader."""
    name = f"bell-{number}"
    with contextlib.closing(peers.connect(at)) as link:
        begin = time.monotonic()
        ask(link, "POST", "/api/tasks", {"id": name, "title": "told to everybody"})
        crowd.wait_for_event(name.encode())
        return (time.monotonic() - begin) * 1e3


# ---- telling ----


def line(what, value, goal=None):
    """One row; with a goal, whether it was reached."""
    text = f"{what:52}{value:>10.1f}"
    if goal is not None:
        text += f"   {'reached' if value < goal else 'missed'} (goal under {goal})"
    print(text, flush=True)


def spread(what, values):
    """Median and tail of many."""
    values = sorted(values)
    print(f"{what:52}{statistics.median(values):10.2f}   p95 {values[int(len(values) * .95)]:.2f}, "
          f"longest {values[-1]:.2f}", flush=True)


def run(folder, options):
    """Everything, in one store."""
    with peers.dibs(DIBS, folder, keep=True) as server:
        time.sleep(0.5)
        resident, own = memory_mb(server.pid)
        line("memory of the idle daemon, empty store, MB", resident, GOAL_IDLE_MB)
        line("  of which its own", own)
        fill(server.at, TASKS)
        spread("a claim, ms", claims_ms(server.at, options.claims))
        line(f"memory with {TASKS} tasks, MB", memory_mb(server.pid)[0])
        crowd = Crowd(server.at, options.connections, options.readers)
        try:
            resident, own = memory_mb(server.pid)
            line(f"memory with {options.connections} idle connections and {options.readers} "
                 "readers, MB", resident, GOAL_CROWD_MB)
            line("  of which its own", own)
            spread("a claim beside them, ms", claims_ms(server.at, options.claims))
            tell_all_ms(server.at, crowd, "first")  # behind what the claims have left unread
            spread(f"one event to {options.readers} readers, ms",
                   [tell_all_ms(server.at, crowd, i) for i in range(9)])
            line("memory after that, MB", memory_mb(server.pid)[0])
        finally:
            crowd.leave()
    starts = [first_answer_ms(folder / "dibs", folder / "log") for _ in range(STARTS)]
    line("start to first answer, ms", statistics.median(starts), GOAL_START_MS)


def main():
    """Measures and tells."""
    parser = argparse.ArgumentParser(prog="script/bench idle", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10000, metavar="N", help="10000")
    parser.add_argument("--readers", type=int, default=1000, metavar="N", help="1000")
    parser.add_argument("--claims", type=int, default=200, metavar="N", help="200")
    parser.add_argument("--dir", default="/var/tmp", metavar="FOLDER", help="on a disk: /var/tmp")
    options = parser.parse_args()
    peers.end_on_signals()
    wanted = options.connections + options.readers + 500
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < wanted:
        sys.exit(f"script/bench: {wanted} open files are needed, {hard} are allowed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, 1024), hard))
    try:
        with peers.scratch(options.dir) as folder:
            run(folder, options)
    except (peers.Failure, OSError) as failure:
        sys.exit(f"script/bench: {failure}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
