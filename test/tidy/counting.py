#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The last line of script/test can be believed: what run.py counts, case by case."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import run  # noqa: E402  (found through the line above)

# title: (output of a test, result in Meson's log, passed, failed)
CASES = {
    "passed cases are counted": ("1..2\nok 1 - a\nok 2 - b\n", "OK", 2, 0),
    "a failed case is counted": ("1..2\nok 1 - a\nnot ok 2 - b\n", "FAIL", 1, 1),
    "a crash after a passed case is a failure": ("1..2\nok 1 - a\n", "FAIL", 1, 1),
    "an end before the plan is done is a failure": ("1..2\nok 1 - a\n", "OK", 1, 1),
    "silence is a failure": ("", "OK", 0, 1),
    "a time-out is a failure": ("1..1\n", "TIMEOUT", 0, 1),
    "a non-zero exit after passed cases is a failure": ("1..1\nok 1 - a\n", "FAIL", 1, 1),
    "what is skipped neither passed nor failed": (
        "1..3\nok 1 - a\nok 2 - b # SKIP no c++\nnot ok 3 # SKIP c\n", "OK", 1, 0),
    "a file that is skipped as a whole neither passed nor failed": ("1..0 # SKIP\n", "OK", 0, 0),
    "subtests are counted, not their parent": (
        "    ok 1 - a\n    ok 2 - b\n    1..2\nok 1 - group\n1..1\n", "OK", 2, 0),
    "a failed subtest is counted once": (
        "    ok 1 - a\n    not ok 2 - b\n    1..2\nnot ok 1 - group\n1..1\n", "FAIL", 1, 1),
    "a parent that fails by itself is a failure": (
        "    ok 1 - a\n    1..1\nnot ok 1 - group\n1..1\n", "FAIL", 1, 1),
    "details of a case are not read as cases": (
        "not ok 1 - a\n  ---\n  error: |\n    ok 2 - no\n  ...\n1..1\n", "FAIL", 0, 1),
}

bad = 0
print(f"1..{len(CASES)}")
for number, (title, (tap, result, *expected)) in enumerate(CASES.items(), 1):
    tally = run.judge({"stdout": tap, "result": result})
    found = [tally.passed, tally.failed]
    if found != expected:
        bad += 1
        print(f"# expected {expected}, counted {found}")
    print(f"{'ok' if found == expected else 'not ok'} {number} - {title}")
sys.exit(bad != 0)
