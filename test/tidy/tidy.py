#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rulebook as a program: every rule is one case, and each is shown to catch a planted breach.

A rule is a function from a Tree to findings ("path:line: what"), with a small tree of files in
each of which it must find something. To add a rule, write the function and plant a breach; nothing
else.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
import c_source  # noqa: E402  (found through the line above)

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "completions", "docs", "examples", "include", "migrations", "script",
           "src", "test", "web")
ROOMS = ("base", "db", "core", "api", "server", "client", "runner", "cli")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
LONG_FILE_LINES_MAX = 900
COLUMNS_MAX = 100
COMPLEXITY_MAX = 15
HEAD = "/* SPDX-License-Identifier: MIT */\n"


@dataclass
class Tree:
    """Files by path, and the C files that the build compiles (None: not known)."""
    files: dict
    built: set = None

    def c_files(self, *folders):
        """(path, text) of the .c and .h files, of these folders or of all."""
        for path, text in self.files.items():
            if path.endswith((".c", ".h")) and (not folders or path.startswith(folders)):
                yield path, text

    def code_files(self):
        """(path, text) of everything that is written as code."""
        for path, text in self.files.items():
            if path.endswith((".c", ".h", ".js", ".mjs", ".py", ".sh", "meson.build")) \
                    or path.startswith((".ci/", "script/")):
                yield path, text


@dataclass
class Rule:
    """One line of the rulebook."""
    title: str
    check: callable
    planted: Tree
    needs: str = None  # a program without which the rule is skipped


RULES = []


def rule(title, planted, built=None, needs=None):
    """Puts the function below it into the rulebook."""
    def add(check):
        RULES.append(Rule(title, check, Tree(planted, built), needs))
        return check
    return add


def grep(pattern, files, what, clean=lambda text: text):
    """Findings for each line in which the pattern occurs."""
    for path, text in files:
        for number, line in enumerate(clean(text).split("\n"), 1):
            if match := re.search(pattern, line):
                yield f"{path}:{number}: {what.format(*match.groups())}"


# ---- size ----


@rule(f"a function has at most {FUNCTION_LINES_MAX} lines", {
    "src/base/x.c": HEAD + "int f(int a)\n{\n" + "    a++;\n" * FUNCTION_LINES_MAX + "}\n"})
def function_length(tree):
    for path, text in tree.c_files():
        for f in c_source.functions(text):
            lines = f.last_line - f.first_line + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}:{f.first_line}: {f.name} has {lines} lines"


@rule(f"a function has a complexity of at most {COMPLEXITY_MAX}", {
    "src/base/x.c": HEAD + "int f(int a)\n{\n" + "    if (a)\n        a++;\n" * 15 + "}\n"})
def complexity(tree):
    for path, text in tree.c_files():
        for f in c_source.functions(text):
            if f.complexity > COMPLEXITY_MAX:
                yield f"{path}:{f.first_line}: {f.name} has a complexity of {f.complexity}"


@rule(f"a file has at most {FILE_LINES_MAX} lines, or a reason for {LONG_FILE_LINES_MAX}", {
    "src/base/x.c": HEAD + "int x;\n" * FILE_LINES_MAX,
    "src/base/y.c": HEAD + "/* long because: it is a test */\n" + "int x;\n" * LONG_FILE_LINES_MAX})
def file_length(tree):
    for path, text in tree.code_files():
        lines = text.count("\n")
        reason = "long because: " in "".join(text.split("\n")[1:2])
        if lines > (LONG_FILE_LINES_MAX if reason else FILE_LINES_MAX):
            yield f"{path}:2: {lines} lines" + ("" if reason else ", and no 'long because: ...'")


@rule(f"a line has at most {COLUMNS_MAX} columns", {
    "src/base/x.c": HEAD + "/* " + "x" * COLUMNS_MAX + " */\n",
    "src/base/x.def": "/*\n * " + "x" * COLUMNS_MAX + "\n */\n"})
def line_length(tree):
    # the rows of a table may be as wide as they need, its comments may not
    tables = [(path, re.sub(r"(?m)^(?! \*|/\*).*$", "", text))
              for path, text in tree.files.items() if path.endswith(".def")]
    for path, text in [*tree.code_files(), *tables]:
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                yield f"{path}:{number}: {len(line)} columns"


# ---- white space and form ----


@rule("no tabs", {"script/x": "if true; then\n\techo\nfi\n"})
def no_tabs(tree):
    yield from grep("\t", tree.files.items(), "a tab")


@rule("no blanks at the end of a line, no carriage returns", {
    "src/base/x.c": HEAD + "int x; \n", "docs/x.md": "x\r\n"})
def no_trailing_blanks(tree):
    yield from grep("[ \r]$", tree.files.items(), "blank at the end of the line")


@rule("a file ends with one newline", {"src/base/x.c": HEAD + "int x;", "docs/x.md": "x\n\n"})
def newline_at_end(tree):
    for path, text in tree.files.items():
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            yield f"{path}:{text.count(chr(10)) + 1}: does not end with exactly one newline"


@rule("a C file says its licence in its first two lines", {"src/base/x.c": "\n\n" + HEAD})
def licence(tree):
    for path, text in tree.c_files():
        if "SPDX-License-Identifier: MIT" not in "".join(text.split("\n")[:2]):
            yield f"{path}:1: no SPDX-License-Identifier: MIT"


@rule("layout is what clang-format makes of it", {
    "src/base/x.c": HEAD + "int f(void){return 1;}\n"}, needs="clang-format")
def layout(tree):
    def check(item):
        path, text = item
        command = ["clang-format", f"--style=file:{ROOT}/.clang-format",
                   f"--assume-filename={path}"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        pairs = enumerate(zip(text.split("\n"), done.stdout.split("\n")), 1)
        return [f"{path}:{n}: not formatted (script/format)" for n, (a, b) in pairs if a != b][:1]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(check, tree.c_files()):
            yield from findings


# ---- what must not be there ----


@rule("nothing is left for later", {"src/base/x.c": HEAD + "/* TO" "DO: finish */\n"})
def leftovers(tree):
    yield from grep(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", tree.files.items(), "{}")


@rule("no banned call", {
    "src/base/base.h": HEAD + "#pragma GCC poison strcpy gets\n",
    "test/unit/base/x.c": HEAD + "    strcpy(a, b);\n"})
def banned_calls(tree):
    poison = re.findall(r"^#pragma GCC poison (.*)$", tree.files["src/base/base.h"], re.MULTILINE)
    words = " ".join(poison).split() + ["alloca", "tmpnam", "mktemp"]
    files = [(path, text) for path, text in tree.c_files() if path != "src/base/base.h"]
    yield from grep(r"\b(" + "|".join(words) + r")\s*\(", files, "{} is banned", c_source.code)


@rule("memory comes from src/base/memory.c", {"src/db/x.c": HEAD + "    p = malloc(3);\n"})
def bare_malloc(tree):
    files = [(path, text) for path, text in tree.c_files("src/") if path != "src/base/memory.c"]
    words = "malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf"
    yield from grep(rf"(?<![\w.>])({words})\s*\(", files, "{}: use mem_* or an arena",
                    c_source.code)


@rule("tests do not sleep", {
    "test/sim/x.c": HEAD + "    usleep(10);\n",
    "test/cli/x.mjs": "await new Promise((done) => setTimeout(done, 100));\n",
    "test/cli/y.sh": "sleep 1\n"})
def no_sleep(tree):
    tests = [(path, text) for path, text in tree.files.items()
             if path.startswith("test/") and not path.startswith(("test/lib/", "test/tidy/"))]
    patterns = {
        (".c", ".h"): r"\b((?:u|nano|clock_nano)?sleep)\s*\(",
        (".mjs", ".js"): r"(Promise.*setTimeout|timers/promises|Atomics\.wait)",
        (".py",): r"\b(sleep)\s*\(",
        (".sh",): r"^\s*(sleep)\s",
    }
    for suffixes, pattern in patterns.items():
        files = [(path, text) for path, text in tests if path.endswith(suffixes)]
        yield from grep(pattern, files, "{}: move the clock or wait for a condition")


@rule("no package registry is named", {"docs/x.md": "get it from registry.np" "mjs.org\n"})
def registries(tree):
    # written in halves, so that this file does not name them either
    hosts = [r"npm" r"js\.(?:org|com)", r"yarn" r"pkg\.com", r"py" r"pi\.org", r"ruby" r"gems\.org",
             r"python" r"hosted\.", r"crates" r"\.io", r"(?:deb|ftp|security)\.deb" r"ian\.org",
             r"\bdocker" r"\.io", r"\bgh" r"cr\.io", r"un" r"pkg\.com", r"jsde" r"livr\."]
    yield from grep("(" + "|".join(hosts) + ")", tree.files.items(), "{}")


# ---- how the house hangs together ----


@rule("includes point downwards", {"src/db/x.c": HEAD + '#include "core/core.h"\n'})
def includes(tree):
    rank = {room: number for number, room in enumerate(ROOMS)}
    for path, text in tree.c_files("src/"):
        room = path.split("/")[1]
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            other = match and match[1].split("/")[0]
            if other == ".." or other in rank and rank[other] > rank.get(room, len(ROOMS)):
                yield f"{path}:{number}: {room} must not include {match[1]}"


@rule("the public headers need nothing of ours but dibs_status.h and one another", {
    "include/dibs.h": HEAD + '#include "base/base.h"\n'})
def public_header(tree):
    foreign = r'#\s*include\s+"((?!dibs(?:_status|_swarm)?\.h)[^"]+)"'
    yield from grep(foreign, tree.c_files("include/"), "{}")


@rule("every C file is built, every header included", {
    "src/lost.c": HEAD, "src/base/lost.h": HEAD}, built=set())
def dead_files(tree):
    everything = "\n".join(text for _, text in tree.c_files())
    for path, _ in tree.c_files():
        name = re.escape(path.split("/")[-1])
        if path.endswith(".c") and tree.built is not None and path not in tree.built:
            yield f"{path}:1: no target of the build compiles it"
        included = rf'#\s*include\s+["<](?:[^"]*/)?{name}[">]'
        if path.endswith(".h") and not re.search(included, everything):
            yield f"{path}:1: nobody includes it"


# ---- running the rules ----


FINE = Tree({
    "src/base/base.h": HEAD + "#pragma GCC poison strcpy gets\n",
    "src/base/x.def": "/*\n * rows may be wide\n */\nROW(" + "x" * COLUMNS_MAX + ")\n",
    "src/base/memory.c": HEAD + "void f(void *p)\n{\n    free(p);\n}\n",
    "src/db/x.h": HEAD + "struct x {\n    void (*free)(void *block);\n};\n",
    "src/db/x.c": HEAD + """\
#include "x.h"

#include "base/base.h"

/* strcpy(a, b) and malloc(1) in a comment if for while || && ? */
const char *const words[] = {
    "strcpy(",
    "malloc(",
};
static const struct x table = {
    .free = mem_free,
};

""" + "void f(struct x *x)\n{\n" + "    x->free(x);\n" * (FUNCTION_LINES_MAX - 3) + "}\n",
    "test/lib/wait.c": HEAD + "void pause_a_little(void)\n{\n    usleep(1000);\n}\n",
    "test/cli/x.mjs": "const timer = setTimeout(() => controller.abort(), 1000);\n",
}, built={"src/base/memory.c", "src/db/x.c", "test/lib/wait.c"})
def read_tree():
    """The files of the project, without samples for tests and without build folders."""
    paths = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*"))]
    paths += [p for p in sorted(ROOT.iterdir()) if p.name != "compile_commands.json"]
    files = {}
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and not re.search(r"/data/|__pycache__|\.png$|^\.git$", name):
            files[name] = path.read_text(encoding="utf-8")
    return Tree(files, built_files())


def built_files():
    """The C files that the build in DIBS_BUILD_ROOT compiles; None without such a build."""
    build = pathlib.Path(os.environ.get("DIBS_BUILD_ROOT", ROOT / "build"))
    commands = build / "compile_commands.json"
    if not commands.exists():
        return None
    found = [(build / c["file"]).resolve() for c in json.loads(commands.read_text())]
    return {p.relative_to(ROOT).as_posix() for p in found if p.is_relative_to(ROOT)}


def tap(number, title, findings, skip=None):
    """Prints one case; returns whether it passed."""
    for finding in findings:
        print(f"# {finding}")
    note = f" # SKIP {skip}" if skip else ""
    print(f"{'not ok' if findings else 'ok'} {number} - {title}{note}")
    return not findings


def main():
    """Every rule on what is planted for it, on what is fine, and on the tree."""
    tree = read_tree()
    print(f"1..{3 * len(RULES)}")
    fine, number = True, 0
    for r in RULES:
        skip = f"there is no {r.needs}" if r.needs and not shutil.which(r.needs) else None
        check = (lambda _: []) if skip else r.check
        planted = list(check(r.planted))
        missed = [f"nothing found in the planted {path}" for path in r.planted.files
                  if path != "src/base/base.h" and not skip
                  and not any(finding.startswith(path + ":") for finding in planted)]
        cases = [("finds a breach of: " + r.title, missed),
                 ("leaves alone what is fine by: " + r.title, list(check(FINE))),
                 (r.title, list(check(tree)))]
        for title, findings in cases:
            number += 1
            fine &= tap(number, title, findings, skip)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
