#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is generated and kept in the repository is what the generator makes today."""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("DIBS_SOURCE_ROOT") or pathlib.Path(__file__).parents[2])
# file in the repository: how to make it
KEPT = {
    "docs/errors.md": ["src/base/gen_status.py", "docs", "src/base/status.def"],
}

failed = 0
print(f"1..{len(KEPT)}")
for number, (kept, (generator, *arguments)) in enumerate(KEPT.items(), 1):
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "made"
        subprocess.run([sys.executable, "-B", generator, *arguments, made], cwd=ROOT, check=True)
        same = (ROOT / kept).exists() and made.read_bytes() == (ROOT / kept).read_bytes()
    if not same:
        failed += 1
        print(f"# run: python3 {generator} {' '.join(arguments)} {kept}")
    print(f"{'ok' if same else 'not ok'} {number} - {kept} is up to date")
sys.exit(failed != 0)
