#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes what the outside sees of status.def: the public enum and the page of errors.

    gen_status.py header STATUS_DEF OUT    the C header dibs_status.h
    gen_status.py docs STATUS_DEF OUT      docs/errors.md

status.def stays the only list. A row that is malformed, or repeats a number or a name, stops the
build with its line.
The maps in status.c include status.def by themselves and need nothing from here.
"""
import re
import sys

ROW = re.compile(r'^STATUS\((\d+), ([A-Z][A-Z0-9_]*), (\d{3}), (\d+), '
                 r'(OUTCOME|REFUSAL|FAILURE), "([^"\\]+)"\)$')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

KINDS = (
    ("OUTCOME", "Outcomes", "Normal in a shared queue: somebody was faster, or there is nothing to "
     "do. Not an error in anybody's log."),
    ("REFUSAL", "Refusals", "The caller's to fix: the same request will be refused again."),
    ("FAILURE", "Failures", "Ours or the machine's. Whether the request took effect may be "
     "unknown: repeat it with the same idempotency key."),
)

EXITS = {
    0: "done",
    2: "bad input: the command line or the request is not valid",
    3: "nothing to claim",
    4: "somebody else holds it",
    5: "you do not hold the claim, or no longer",
    6: "no such thing",
    7: "not possible in the task's present state",
    8: "conflicts with what is there",
    9: "not allowed: the key is missing, wrong, too weak or used too often",
    10: "the store cannot be used now; try again",
    11: "the disk is full",
    12: "the data file is damaged",
    13: "the data file is too new for this program",
    14: "the data file is where it cannot be kept safely",
    15: "there is no dibs data here",
    16: "the daemon cannot be reached",
    70: "internal error",
}

INTRO = """# Errors

Every answer of dibs that is not a plain success carries one of these codes: as `"error"` in JSON,
as `DIBS_<CODE>` in C, and as the exit code of the command line. A code keeps its number and its
meaning for good; new ones are added at the end of their group. Decide by the code; the sentence
that comes with it is for people and may change.

<!-- made from src/base/status.def by src/base/gen_status.py: change the rows there -->
"""


def fail(where, text):
    sys.exit(f"{where}: {text}")


def read_rows(path):
    """read_rows(path): the rows as tuples (number, name, http, exit, kind, sentence), checked."""
    with open(path, encoding="utf-8") as f:
        # Comments become their line breaks, so that the numbers of the lines stay right.
        text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), f.read())
    rows, numbers, names = [], set(), set()
    for line_number, line in enumerate(text.splitlines(), 1):
        line, where = line.strip(), f"{path}:{line_number}"
        if not line:
            continue
        match = ROW.match(line)
        if not match:
            fail(where, f"not a row: {line}")
        number, name, http, code, kind, sentence = match.groups()
        if int(number) in numbers or name in names:
            fail(where, f"number {number} or name {name} is taken")
        if int(code) not in EXITS:
            fail(where, f"exit code {code} is not explained in gen_status.py")
        numbers.add(int(number))
        names.add(name)
        rows.append((int(number), name, int(http), int(code), kind, sentence))
    if not rows or rows[0][:2] != (0, "OK"):
        fail(path, "the first row must be 0, OK")
    return rows


def header(rows):
    out = ["/* SPDX-License-Identifier: MIT */",
           "/* dibs_status.h: every answer of dibs, made from src/base/status.def. */",
           "#ifndef DIBS_STATUS_H", "#define DIBS_STATUS_H", "", "typedef enum dibs_status {"]
    out += [f"    DIBS_{name} = {number}, /* {sentence} */"
            for number, name, _, _, _, sentence in rows]
    return "\n".join(out + ["} dibs_status;", "", "#endif", ""])


def docs(rows):
    out = [INTRO]
    for kind, title, text in KINDS:
        out += [f"## {title}", "", text, "",
                "| code | HTTP | exit | kind | meaning |", "| --- | --- | --- | --- | --- |"]
        out += [f"| `{name}` | {http} | {code} | {kind.lower()} | {sentence} |"
                for _, name, http, code, row_kind, sentence in rows if row_kind == kind]
        out.append("")
    out += ["## Exit codes", "", "| exit | meaning | codes |", "| --- | --- | --- |"]
    for code in sorted({row[3] for row in rows}):
        names = ", ".join(f"`{row[1]}`" for row in rows if row[3] == code)
        out.append(f"| {code} | {EXITS[code]} | {names} |")
    return "\n".join(out + [""])


def main(args):
    makers = {"header": header, "docs": docs}
    if len(args) != 3 or args[0] not in makers:
        sys.exit("usage: gen_status.py header|docs STATUS_DEF OUT")
    text = makers[args[0]](read_rows(args[1]))
    with open(args[2], "w", encoding="utf-8", newline="\n") as f:
        f.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
