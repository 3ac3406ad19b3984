#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the static libdibs.a, in which only the DIBS_API names can be seen from outside.

    localize.py CC OBJCOPY AR OUT ARCHIVE...

A static library normally exposes every function of every object, so buf_init of ours would clash
with buf_init of the program that links it. Here all objects become one, hidden symbols become local
to it, and what is left is what the shared library exports too.
"""
import pathlib
import subprocess
import sys

cc, objcopy, ar, out = sys.argv[1:5]
archives = sys.argv[5:]
joined = out + ".o"
pathlib.Path(out).unlink(missing_ok=True)
subprocess.run(
    [cc, "-r", "-nostdlib", "-o", joined]
    + ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive"],
    check=True,
)
subprocess.run([objcopy, "--localize-hidden", joined], check=True)
subprocess.run([ar, "rcsD", out, joined], check=True)
pathlib.Path(joined).unlink()
