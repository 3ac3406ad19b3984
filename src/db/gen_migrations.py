#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the migrations into the program.

    gen_migrations.py MIGRATIONS_DIR OUT.c

Every MIGRATIONS_DIR/NNNN_name.sql becomes an element of db_migrations (src/db/migrate.h), in the
order of its number. One of the first five lines must say `-- breaking: yes` or `-- breaking: no`:
whether a program that does not know the migration must keep away from the store. Numbers start at 1
and leave no gap, so that two people who add one at the same time notice.
"""
import pathlib
import re
import sys

HEAD = """/* SPDX-License-Identifier: MIT */
/* Made by gen_migrations.py from the .sql files; do not edit. */
#include "db/migrate.h"

"""


def char(byte):
    """One byte as a C character constant."""
    if byte == 10:
        return "'\\n'"
    if byte in b"'\\" or not 32 <= byte < 127:
        return "'\\x%02x'" % byte
    return "'%c'" % byte


def array(name, data):
    """The bytes as an array and not as a literal: compilers limit the length of a literal."""
    chars = [char(b) for b in data] + ["0"]
    lines = ["    " + ", ".join(chars[i : i + 16]) + "," for i in range(0, len(chars), 16)]
    return "static const char %s[] = {\n%s\n};\n\n" % (name, "\n".join(lines))


def read(path, number):
    """(number, name, breaking, bytes) of one file, or the end with a sentence."""
    match = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", path.name)
    if not match:
        sys.exit(f"{path}: the name must be like 0001_first.sql")
    if int(match[1]) != number:
        sys.exit(f"{path}: the next migration is number {number:04d}")
    data = path.read_bytes()
    if 0 in data:
        sys.exit(f"{path}: NUL byte")
    first = data.decode("utf-8").splitlines()[:5]
    said = [m[1] for m in (re.fullmatch(r"--\s*breaking:\s*(yes|no)\s*", x) for x in first) if m]
    if len(said) != 1:
        sys.exit(f"{path}: one of the first five lines must be '-- breaking: yes' or '... no'")
    return number, match[2], said[0] == "yes", data


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.sql"))
    if not paths:
        sys.exit(f"{sys.argv[1]}: no migrations")
    items = [read(path, i + 1) for i, path in enumerate(paths)]
    out = HEAD
    for number, _, _, data in items:
        out += array(f"sql_{number:04d}", data)
    out += "static const struct migration all[] = {\n"
    for number, name, breaking, _ in items:
        out += f'    {{{number}, "{name}", {str(breaking).lower()}, sql_{number:04d}}},\n'
    out += "};\n\nconst struct migration_list db_migrations = {all, COUNT_OF(all)};\n"
    pathlib.Path(sys.argv[2]).write_text(out, encoding="ascii")


main()
