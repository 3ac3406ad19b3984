#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds the tests: prints one line per test file, "name|suite|kind|path|timeout|parallel".

    list_tests.py TEST_FOLDER

Every .c (cmocka), .mjs (node --test), .py and .sh (print TAP) in a folder of test/ is a test, and
the first folder is its suite: test/unit/base/arena.c is "unit/base/arena" of suite "unit". Folders
called lib and data hold helpers and samples. The first comment of a file may say

    test-timeout: 300       seconds, instead of 120
    test-suite: race        another suite than its folder
    test-parallel: no       it needs the machine for itself
"""
import pathlib
import re
import sys

KINDS = {".c", ".mjs", ".py", ".sh"}
NOT_TESTS = {"lib", "data", "__pycache__", "node_modules"}
HEAD_BYTES = 4000


def notes(path):
    """The test-... lines of a file's head."""
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r"^\W*test-(\w+): *(\S+)", file.read(HEAD_BYTES), re.MULTILINE))


def find(folder):
    """The test files below a folder, sorted."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix in KINDS and len(parts) > 1 and not NOT_TESTS & set(parts[:-1]):
            yield path


def row(folder, path):
    """One line about a test file."""
    relative = path.relative_to(folder)
    name = relative.with_suffix("").as_posix().removesuffix(".test")
    note = notes(path)
    parallel = "false" if note.get("parallel") == "no" else "true"
    return "|".join([name, note.get("suite", relative.parts[0]), path.suffix[1:],
                     relative.as_posix(), str(int(note.get("timeout", 120))), parallel])


if __name__ == "__main__":
    tests = pathlib.Path(sys.argv[1])
    for found in find(tests):
        print(row(tests, found))
