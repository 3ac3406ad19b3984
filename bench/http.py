#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""http.py: jobs per second of the daemon beside beanstalkd, Redis and PostgreSQL.

Workers in closed loops claim a job and complete it. In every round each system is started on an
empty folder, filled, measured with 1, 10 and 64 connections and stopped, one system after the other
and every second round in the opposite order; medians over the rounds are shown. The client is
build-release/bench-http (bench/http/), which also checks that no job was handed out twice or lost.
bench/README.md says how to read the table.
"""
import argparse
import contextlib
import json
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import peers

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build-release"
CLIENT = BUILD / "bench-http"
DIBS = str(BUILD / "dibs")
FIGURES = ("jobsPerSecond", "p50Us", "p95Us", "p99Us", "serverCpuUs", "clientCpuUs", "othersPart")
OTHERS_PART_MAX = 0.15


@dataclass
class System:
    """A row of the table. on_disk: what is on disk when an answer leaves."""
    name: str
    on_disk: str
    protocol: str
    start: callable  # folder -> context of a Server
    start_to_fill: callable = None  # the same, for a server that only fills


SYSTEMS = (
    System("dibs", "every answer", "dibs", lambda folder: peers.dibs(DIBS, folder)),
    System("dibs unix", "every answer", "dibs",
           lambda folder: peers.dibs(DIBS, folder, unix=True)),
    System("dibs claimNext", "every answer", "dibs-next",
           lambda folder: peers.dibs(DIBS, folder)),
    System("beanstalkd -b -f0", "every answer", "beanstalkd",
           lambda folder: peers.beanstalkd(folder, synced=True),
           lambda folder: peers.beanstalkd(folder, synced=True, filling=True)),
    System("PostgreSQL", "every answer", "postgres", peers.postgres),
    System("Redis streams always", "every answer", "redis-stream",
           lambda folder: peers.redis(folder, "always")),
    System("Redis lists always", "every answer", "redis-list",
           lambda folder: peers.redis(folder, "always")),
    System("Redis streams everysec", "once a second", "redis-stream",
           lambda folder: peers.redis(folder, "everysec")),
    System("Redis lists everysec", "once a second", "redis-list",
           lambda folder: peers.redis(folder, "everysec")),
    System("beanstalkd", "never", "beanstalkd",
           lambda folder: peers.beanstalkd(folder, synced=False)),
)

# What dibs wants to reach: its row, the peer, how many times as fast.
GOALS = (("dibs", "beanstalkd -b -f0", 2.0), ("dibs", "PostgreSQL", 2.0),
         ("dibs claimNext", "Redis streams always", 1.0))
GOAL_P95_MS = 1.0


# ---- measuring ----


def client(system, server, *arguments):
    """Runs the driver against a server; its results, one for each number of connections."""
    command = [CLIENT, system.protocol, "--at", server.at, "--pid", str(server.pid), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise peers.Failure(f"{system.name}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(system, folder, tasks, options):
    """One system from its start to its end."""
    wanted = ["--tasks", str(tasks), "--connections", options.connections,
              "--seconds", str(options.seconds)]
    if options.jobs:
        wanted += ["--jobs", str(options.jobs)]
    if system.start_to_fill:
        with system.start_to_fill(folder) as server:
            client(system, server, "--tasks", str(tasks), "--fill-only")
        wanted += ["--filled", str(tasks)]
    with system.start(folder) as server:
        return client(system, server, *wanted)


def run_rounds(systems, folder, options):
    """{(tasks, connections): {system's name: [result of each round]}}"""
    results = {}
    for number in range(options.rounds):
        for tasks in options.tasks:
            for system in systems if number % 2 == 0 else reversed(systems):
                begin = time.monotonic()
                for result in measure(system, folder, tasks, options):
                    by_name = results.setdefault((tasks, result["connections"]), {})
                    by_name.setdefault(system.name, []).append(result)
                print(f"round {number + 1} of {options.rounds}, {tasks} tasks: {system.name}, "
                      f"{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return results


def medians(results):
    """The same with one result for each system: the median of each figure."""
    return {key: {name: {figure: statistics.median(r[figure] for r in rounds)
                         for figure in FIGURES}
                  for name, rounds in by_name.items()}
            for key, by_name in results.items()}


# ---- telling ----


def ratio(by_name, ours, name):
    """How many times as fast as a peer one of our rows is."""
    if ours not in by_name or name.startswith("dibs"):
        return ""
    return f"{by_name[ours]['jobsPerSecond'] / by_name[name]['jobsPerSecond']:.2f} x"


def print_tables(systems, table):
    """One table for each size of queue and number of connections."""
    on_disk = {system.name: system.on_disk for system in systems}
    for (tasks, connections), by_name in table.items():
        print(f"\nqueue of {tasks:,} tasks, {connections} connection"
              + ("s" if connections > 1 else ""))
        print(f"{'system':24}{'on disk':15}{'jobs/s':>8}{'claim p50':>11}{'p95':>8}{'p99 ms':>9}"
              f"{'CPU us/job':>12}{'others':>8}{'dibs is':>10}{'claimNext':>11}")
        for system in systems:
            r = by_name[system.name]
            print(f"{system.name:24}{on_disk[system.name]:15}{r['jobsPerSecond']:8.0f}"
                  f"{r['p50Us'] / 1e3:11.2f}{r['p95Us'] / 1e3:8.2f}{r['p99Us'] / 1e3:9.2f}"
                  f"{r['serverCpuUs']:12.1f}{r['othersPart']:8.0%}"
                  f"{ratio(by_name, 'dibs', system.name):>10}"
                  f"{ratio(by_name, 'dibs claimNext', system.name):>11}")


def judge(by_name, names, reached):
    """A row in which others had much of the machine says nothing, either way."""
    if any(by_name[name]["othersPart"] > OTHERS_PART_MAX for name in names):
        return "unsure"
    return "reached" if reached else "missed"


def print_goals(table):
    """What was to be reached, as far as it was measured."""
    lines = []
    for (tasks, connections), by_name in table.items():
        where = f"{tasks:,} tasks, {connections} connections"
        for ours, peer, times in GOALS:
            if connections > 1 and ours in by_name and peer in by_name:
                is_now = by_name[ours]["jobsPerSecond"] / by_name[peer]["jobsPerSecond"]
                lines.append((judge(by_name, (ours, peer), is_now >= times),
                              f"{where}: {ours} is {is_now:.2f} times {peer} (goal {times:.0f})"))
        if connections == 10 and "dibs" in by_name:
            p95 = by_name["dibs"]["p95Us"] / 1e3
            lines.append((judge(by_name, ("dibs",), p95 < GOAL_P95_MS),
                          f"{where}: claim p95 of dibs is {p95:.2f} ms "
                          f"(goal under {GOAL_P95_MS:.0f})"))
    if lines:
        print("\ngoals")
    for verdict, line in lines:
        print(f"{verdict:8} {line}")
    if any(verdict == "unsure" for verdict, _ in lines):
        print(f"unsure: others used more than {OTHERS_PART_MAX:.0%} of the processors meanwhile")


# ---- where the time goes ----


def writer_figures(server):
    """What /metrics tells of the writer: commits, jobs in them, seconds busy."""
    with contextlib.closing(peers.connect(server.at)) as link:
        link.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: link.recv(65536), b"")).decode()
    found = dict(re.findall(r"(?m)^dibs_writer_(\w+) ([\d.e+-]+)$", text))
    return [float(found.get(name, 0)) for name in ("commits_total", "batch_jobs_sum",
                                                   "busy_seconds_total")]


def print_report(data, title, fields, lines_max):
    """One view of what perf has recorded."""
    done = subprocess.run(["perf", "report", "--stdio", "--sort", fields, "-i", data],
                          capture_output=True, text=True)
    lines = [line.rstrip(" -") for line in done.stdout.splitlines()
             if line.strip() and line[0] != "#"]
    print(f"\n{title}")
    print("\n".join(lines[:lines_max]), flush=True)


def profile(system, folder, options):
    """Runs one of our rows under perf and prints what cost most."""
    if shutil.which("perf") is None:
        raise peers.Failure("there is no 'perf' (Debian: linux-perf)")
    tasks = str(options.tasks[-1])
    data = folder / "perf.data"
    with system.start(folder) as server:
        client(system, server, "--tasks", tasks, "--fill-only")
        before = writer_figures(server)
        perf = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999",
                                 "-o", data, "-p", str(server.pid)], stderr=subprocess.DEVNULL)
        try:
            result = client(system, server, "--filled", tasks, "--tasks", tasks, "--connections",
                            options.connections.split(",")[-1], "--seconds",
                            str(options.seconds))[-1]
        finally:
            peers.stop(perf, signal.SIGINT)
        commits, jobs, busy = (b - a for a, b in zip(before, writer_figures(server)))
    print(f"\n{system.name}, {result['connections']} connections: "
          f"{result['jobsPerSecond']:.0f} jobs/s, claim p95 {result['p95Us'] / 1e3:.2f} ms, "
          f"server CPU {result['serverCpuUs']:.0f} us/job, "
          f"others had {result['othersPart']:.0%} of the processors")
    print(f"{commits:.0f} commits, {jobs / max(commits, 1):.1f} requests in each; "
          f"the writer was busy for {busy:.2f} s of {result['seconds']:.2f} s")
    print_report(data, "by thread", "pid", options.top)
    print_report(data, "by library", "dso", options.top)
    print_report(data, "by function", "dso,symbol", options.top)


# ---- options ----


def numbers(text):
    """'20000,200000' as a list."""
    return [int(part) for part in text.split(",")]


def read_options():
    """The command line."""
    parser = argparse.ArgumentParser(prog="script/bench http", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="one round of one second each with 20,000 tasks")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="systems whose name begins so (any case); may be repeated; "
                             + ", ".join(s.name for s in SYSTEMS))
    parser.add_argument("--rounds", type=int, metavar="N", help="3")
    parser.add_argument("--tasks", type=numbers, metavar="LIST", help="20000,200000")
    parser.add_argument("--connections", default="1,10,64", metavar="LIST", help="1,10,64")
    parser.add_argument("--jobs", type=int, metavar="N", help="at most so many in one measurement")
    parser.add_argument("--seconds", type=float, metavar="S",
                        help="at most so long for one measurement: 3")
    parser.add_argument("--dir", default="/var/tmp", metavar="FOLDER", help="on a disk: /var/tmp")
    parser.add_argument("--json", action="store_true", help="every result of every round")
    parser.add_argument("--profile", action="store_true",
                        help="the rows of dibs under perf, with the last number of connections")
    parser.add_argument("--top", type=int, default=40, metavar="N", help="lines of a profile: 40")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (1.0 if options.quick else 3.0)
    options.tasks = options.tasks or ([20000] if options.quick else [20000, 200000])
    return options


def choose(names):
    """The systems asked for."""
    for name in names:
        if not any(s.name.lower().startswith(name.lower()) for s in SYSTEMS):
            raise peers.Failure(f"there is no system '{name}'; there are: "
                                + ", ".join(s.name for s in SYSTEMS))
    return [s for s in SYSTEMS
            if not names or any(s.name.lower().startswith(name.lower()) for name in names)]


def main():
    """Measures and tells."""
    options = read_options()
    peers.end_on_signals()
    try:
        systems = choose(options.only)
        with peers.scratch(options.dir) as folder:
            if options.profile:
                for system in systems:
                    if system.name.startswith("dibs"):
                        profile(system, folder, options)
                return
            results = run_rounds(systems, folder, options)
    except peers.Failure as failure:
        sys.exit(f"script/bench: {failure}")
    if options.json:
        print(json.dumps([{"system": name, "tasks": tasks, **result}
                          for (tasks, _), by_name in results.items()
                          for name, rounds in by_name.items() for result in rounds], indent=1))
        return
    table = medians(results)
    print_tables(systems, table)
    print_goals(table)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
