#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the files below a folder that end in a suffix, one per line, sorted.

    list_sources.py ROOT FOLDER [SUFFIX]    relative to ROOT; the suffix is .c unless given

meson.build asks this at configure time, so that a new file needs no list to be edited; script/test
configures again when the answer has changed.
"""
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
suffix = sys.argv[3] if len(sys.argv) > 3 else ".c"
for path in sorted((root / sys.argv[2]).rglob("*" + suffix)):
    if path.is_file():
        print(path.relative_to(root).as_posix())
