#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# test-timeout: 180
"""Installs the build into an empty folder and uses it as a stranger would: through pkg-config.

A small program that defines functions with our internal names is compiled against the shared and
the static library and run; so is every file in examples/. Skipped in sanitizer builds, whose
libraries need the sanitizer's runtime.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["DIBS_SOURCE_ROOT"])
BUILD = os.environ["DIBS_BUILD_ROOT"]
CC = os.environ.get("CC", "cc")
STRICT = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
PROGRAM = r"""
#include <dibs.h>
#include <stdio.h>
#include <string.h>

/* names that the library uses inside: they must not meet */
int buf_init(void);
int db_open(void);
int mem_alloc(void);
int buf_init(void) { return 1; }
int db_open(void) { return 2; }
int mem_alloc(void) { return 3; }

int main(int argc, char **argv)
{
    struct dibs_error err = {0};
    struct dibs_options options = {.data_dir = argv[argc - 1], .create = true};
    dibs *d = NULL;
    if (dibs_open(&options, &d, &err) != DIBS_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    dibs_arena *a = dibs_arena_new();
    struct dibs_session me = {0};
    struct dibs_task_list made = {0};
    struct dibs_claim claim = {0};
    struct dibs_claim_take take = {.task_id = "t1", .session_id = "s1"};
    bool fine = dibs_session_register(d, a, &(struct dibs_session_new){.id = "s1"}, &me, &err) ==
                    DIBS_OK &&
                dibs_task_create(d, a, &(struct dibs_task_new){.id = "t1", .title = "first"}, 1,
                                 &made, &err) == DIBS_OK &&
                dibs_claim_take(d, a, &take, &claim, &err) == DIBS_OK &&
                strcmp(claim.session_id, "s1") == 0 && buf_init() + db_open() + mem_alloc() == 6;
    if (!fine)
        fprintf(stderr, "%s\n", err.message);
    dibs_arena_free(a);
    dibs_close(d);
    printf("%s %s\n", dibs_version(), fine ? "fine" : "failed");
    return fine ? 0 : 1;
}
"""


class Installed:
    """An installation below a folder of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.root = self.folder / "root"
        run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet",
             "--destdir", str(self.root)])
        self.pc = next(self.root.rglob("dibs.pc"))
        self.lib = self.pc.parent.parent
        prefix = re.search(r"^prefix=/(.*)$", self.pc.read_text(), re.MULTILINE)[1]
        self.prefix = self.root / prefix

    def flags(self, *what):
        """What pkg-config says of dibs, with our paths inside the folder."""
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}
        out = run(["pkg-config", f"--define-variable=prefix={self.prefix}", *what, "dibs"],
                  env=environment)
        return out.split()

    def compile(self, source, name, static):
        """Compiles one file against the installed library; returns the program."""
        program = self.folder / name
        flags = self.flags("--cflags", "--libs", *(["--static"] if static else []))
        if static:  # ours from the archive, the system's as they come
            flags = [f"{self.lib}/libdibs.a" if f == "-ldibs" else f for f in flags]
        run([CC, *STRICT, str(source), "-o", str(program), *flags])
        return program

    def execute(self, program, *arguments):
        """Runs a program that may need the shared library."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.lib)}
        return run([str(program), *arguments], env=environment)


def run(command, env=None):
    """Runs a command; its output, or an error that holds it."""
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n"
                             + done.stdout + done.stderr)
    return done.stdout


def check(condition, text):
    """A requirement in words."""
    if not condition:
        raise AssertionError(text)


def test_the_headers_and_the_program_are_where_they_belong(place):
    for path in ("include/dibs.h", "include/dibs_status.h", "bin/dibs"):
        check((place.prefix / path).is_file(), f"{path} is not installed")
    version = run([str(place.prefix / "bin/dibs"), "--version"])
    check(re.search(r"\d+\.\d+", version), f"dibs --version says {version!r}")


def test_manual_and_completions_are_where_shells_and_man_look(place):
    for path in ("share/man/man1/dibs.1", "share/bash-completion/completions/dibs",
                 "share/zsh/site-functions/_dibs", "share/fish/vendor_completions.d/dibs.fish"):
        check((place.prefix / path).is_file(), f"{path} is not installed")


def test_program_and_library_are_hardened(place):
    for file in (place.prefix / "bin/dibs", place.lib / "libdibs.so"):
        said = run(["readelf", "-hldW", "--dyn-syms", str(file)])
        for mark in ("DYN", "GNU_RELRO", "NOW", "__stack_chk_fail", "_chk@"):
            check(mark in said, f"{file.name}: no {mark}")
        check(not re.search(r"GNU_STACK.*RWE", said), f"{file.name}: its stack can be executed")


def test_the_shared_library_shows_only_dibs_names(place):
    names = run(["nm", "-D", "--defined-only", str(place.lib / "libdibs.so")])
    strange = [n for n in re.findall(r" [A-Z] (\S+)", names) if not n.startswith("dibs_")]
    check(not strange, f"also exported: {strange}")


def test_the_static_library_shows_the_same_names_as_the_shared_one(place):
    def exported(*command):
        return set(re.findall(r" [TDBRW] (\S+)", run([*command])))
    shared = exported("nm", "-D", "--defined-only", str(place.lib / "libdibs.so"))
    static = exported("nm", "--defined-only", str(place.lib / "libdibs.a"))
    check(shared == static, f"differ: {sorted(shared ^ static)}")


def program_works(place, static):
    """Compiles and runs PROGRAM."""
    source = place.folder / "program.c"
    source.write_text(PROGRAM, encoding="utf-8")
    name = "static" if static else "shared"
    program = place.compile(source, name, static)
    said = place.execute(program, str(place.folder / (name + ".dibs")))
    check(said.endswith(" fine\n"), f"it said {said!r}")
    return program


def test_a_program_links_the_shared_library_by_pkg_config(place):
    program = program_works(place, static=False)
    check("libdibs.so.0" in run(["readelf", "-d", str(program)]), "it does not use libdibs.so.0")


def test_a_program_links_the_static_library_and_its_own_names_do_not_clash(place):
    program = program_works(place, static=True)
    check("libdibs" not in run(["readelf", "-d", str(program)]), "it uses the shared library")


def test_every_example_compiles_against_both(place):
    for example in sorted((ROOT / "examples").glob("*.c")):
        place.compile(example, example.stem, static=False)
        place.compile(example, example.stem + "-static", static=True)


def test_the_header_can_be_included_from_cpp(place):
    if not shutil.which("c++"):
        return
    source = place.folder / "cpp.cc"
    source.write_text("#include <dibs.h>\nint main() { return dibs_version() == nullptr; }\n")
    run(["c++", "-Wall", "-Werror", "-fsyntax-only", str(source), *place.flags("--cflags")])


def main():
    """Runs the cases one after the other."""
    if os.environ.get("DIBS_SANITIZED") == "1":
        print("1..0 # SKIP a sanitizer build")
        return 0
    cases = [f for n, f in globals().items() if n.startswith("test_")]
    print(f"1..{len(cases)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dibs-install-") as folder:
        place = Installed(folder)
        for number, case in enumerate(cases, 1):
            title = case.__name__.removeprefix("test_").replace("_", " ")
            try:
                case(place)
                print(f"ok {number} - {title}")
            except AssertionError as error:
                failed += 1
                print("".join(f"# {line}\n" for line in str(error).split("\n")), end="")
                print(f"not ok {number} - {title}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
