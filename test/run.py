#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds, runs the selected tests and counts what they did; behind script/test and script/sanitize.

Meson runs the tests; this file chooses them, configures again when files have come or gone, and
counts single cases from the TAP that each test printed. A test that crashes, hangs or does not
finish its plan counts as at least one failure.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAIN = ["--buildtype=debugoptimized", "-Dwerror=true", "-Dtests=enabled"]
# kind: folder, options, environment, how much longer a test may take
BUILDS = {
    "none": ("build", [], {}, 1),
    "address": ("build-asan", ["-Db_sanitize=address,undefined"], {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
        "DIBS_TEST_SCALE": "0.1",
    }, 4),
    "thread": ("build-tsan", ["-Db_sanitize=thread"], {
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:abort_on_error=1",
        "DIBS_TEST_SCALE": "0.05",
    }, 8),
}
PLAN_LINE = re.compile(r"^1\.\.([0-9]+)")
TEST_LINE = re.compile(r"^( *)(not ok|ok)\b(.*)$")
SKIP = re.compile(r"# skip", re.IGNORECASE)


def file_set():
    """A fingerprint of all that is found by folder: names, and what tests say of themselves."""
    found = []
    for folder in ("src", "bench", "examples", "migrations", "test", "docs", "completions",
                   "web"):
        found += sorted(str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob("*")
                        if p.is_file() and p.suffix != ".pyc")
    listed = subprocess.run([sys.executable, "-B", "test/list_tests.py", "test"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout
    return hashlib.sha256("\n".join(found + [listed]).encode()).hexdigest()


def configure(build, options):
    """Sets up the build folder, or again when the set of files or the options are not the same."""
    stamp = build / "files.sha256"
    now = file_set() + " " + " ".join(options)
    if (build / "build.ninja").exists() and stamp.exists() and stamp.read_text() == now:
        return
    again = ["--reconfigure"] if (build / "build.ninja").exists() else []
    done = subprocess.run(["meson", "setup", *again, *options, str(build), str(ROOT)],
                          cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr + "script/test: cannot configure the build")
    stamp.write_text(now)


def introspect(build, what):
    """What Meson knows of the tests or the targets."""
    out = subprocess.run(["meson", "introspect", "--" + what, str(build)], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out)


def chosen(build, names):
    """The tests whose name or suite contains one of the given names, or all."""
    def label(test):
        return test["name"] + " " + " ".join(suite.split(":")[-1] for suite in test["suite"])
    return [test for test in introspect(build, "tests")
            if not names or any(name in label(test) for name in names)]


def compile_for(build, tests, everything):
    """Builds everything, or what some tests need; on failure shows the errors and ends."""
    targets = ["all"]
    if not everything:
        files = {t["id"]: t["filename"] for t in introspect(build, "targets")}
        needed = {file for test in tests for target in test["depends"] for file in files[target]}
        targets = sorted(os.path.relpath(file, build) for file in needed)
    done = subprocess.run(["ninja", "-C", str(build), "--quiet", *targets], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout + "script/test: the build failed, no test was run\n0 passed, 1 failed")
        sys.exit(1)


class Tally:
    """Single cases of one TAP output; subtests are the indented lines above their parent's."""

    def __init__(self, tap):
        self.passed = self.failed = self.skipped = 0
        self.plan = None
        self.lines = 0  # results at the left margin, to compare with the plan
        self.deeper = []  # (indent, ok) of results not yet claimed by a parent
        yaml = None
        for line in tap.splitlines():
            if yaml is not None:
                yaml = None if line.rstrip() == yaml + "..." else yaml
            elif line.strip() == "---" and line.startswith(" "):
                yaml = line[:line.index("-")]
            elif match := PLAN_LINE.match(line):
                self.plan = int(match[1])
            elif match := TEST_LINE.match(line):
                self.count(len(match[1]), match[2] == "ok", SKIP.search(match[3]))

    def count(self, indent, ok, skipped):
        """Notes one result."""
        ok = ok or bool(skipped)  # cmocka says "not ok # SKIP"
        self.lines += indent == 0
        children = [child for child in self.deeper if child[0] > indent]
        self.deeper = [child for child in self.deeper if child[0] <= indent] + [(indent, ok)]
        if children and (ok or not all(child[1] for child in children)):
            return  # only the sum of its parts
        if skipped:
            self.skipped += 1
        elif ok:
            self.passed += 1
        else:
            self.failed += 1

    def finished(self):
        """Whether all that was planned has reported."""
        return self.plan is not None and self.plan == self.lines


def run(build, tests, repeat, environment, patience):
    """Runs tests once or more (until one fails); returns their records from Meson's log."""
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    subprocess.run(["meson", "test", "-C", str(build), "--no-rebuild", "--repeat", str(repeat),
                    "--timeout-multiplier", str(patience), *tests],
                   cwd=ROOT, env={**os.environ, **environment})
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def judge(record):
    """The tally of one record; a test that did not end well has at least one failure."""
    tally = Tally(record.get("stdout") or "")
    if not tally.failed and (record["result"] != "OK" or not tally.finished()):
        tally.failed = 1  # crashed, timed out, or stopped before its plan was done
    return tally


def report(records):
    """Prints what failed, in full, and returns (passed, failed)."""
    passed = failed = skipped = 0
    for record in records:
        tally = judge(record)
        passed += tally.passed
        failed += tally.failed
        skipped += tally.skipped
        if tally.failed:
            name = record["name"].rpartition(" / ")[2]
            print(f"\n==== {name}: {record['result']}, exit {record.get('returncode')} ====")
            print((record.get("stdout") or "") + (record.get("stderr") or ""))
    if skipped:
        print(f"{skipped} skipped")
    return passed, failed


def one_build(kind, arguments):
    """Configures, builds and tests one kind of build; returns (passed, failed)."""
    folder, options, environment, patience = BUILDS[kind]
    build = pathlib.Path(arguments.build or ROOT / folder).resolve()
    environment = {k: v for k, v in environment.items() if k not in os.environ}
    configure(build, PLAIN + options)
    tests = chosen(build, arguments.names)
    names = [test["name"] for test in tests]
    if arguments.list:
        print("\n".join(names))
        return 1, 0
    if not tests:
        print(f"script/test: no test is called anything like {' or '.join(arguments.names)}")
        return 0, 0
    compile_for(build, tests, not arguments.names)
    return report(run(build, names, arguments.repeat, environment, patience))


def main():
    """Reads the arguments, runs each kind of build, prints the sum."""
    parser = argparse.ArgumentParser(prog="script/test", description="builds dibs, runs its tests")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a test's name or suite")
    parser.add_argument("-l", "--list", action="store_true", help="list the tests")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times")
    parser.add_argument("--build", metavar="DIR", help="build folder")
    parser.add_argument("--sanitize", choices=["address", "thread", "all"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    kinds = {None: ["none"], "all": ["address", "thread"]}.get(arguments.sanitize,
                                                              [arguments.sanitize])
    passed = failed = 0
    for kind in kinds:
        if arguments.sanitize and not arguments.list:
            print(f"==== {kind} sanitizer ====", flush=True)
        good, bad = one_build(kind, arguments)
        passed, failed = passed + good, failed + bad
    if not arguments.list:
        print(f"{passed} passed, {failed} failed")
    sys.exit(0 if passed and not failed else 1)


if __name__ == "__main__":
    main()
