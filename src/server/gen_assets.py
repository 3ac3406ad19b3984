#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the files of the web page into the program.

    gen_assets.py OUT.c FOLDER

Every file below FOLDER whose kind is known becomes an element of asset_files (src/server/asset.h)
under its path in the folder, "/style.css"; index.html is also "/". Beside its bytes stand the
gzipped form (where that is smaller), the content type, and an ETag for each form. The same files
make the same bytes, whenever and wherever they are built.
"""
import gzip
import hashlib
import pathlib
import re
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
HEAD = """/* SPDX-License-Identifier: MIT */
/* Made by gen_assets.py from the files of the web page; do not edit. */
#include "server/asset.h"

"""


def array(name, data):
    """The bytes as an array."""
    rows = (", ".join(str(b) for b in data[i : i + 24]) for i in range(0, len(data), 24))
    return f"static const unsigned char {name}[] = {{\n    " + ",\n    ".join(rows) + ",\n};\n\n"


def squeeze(data):
    """The gzipped form without a time in it; None when it is not worth having."""
    small = gzip.compress(data, 9, mtime=0)
    # the byte that names the operating system differs between versions of Python
    small = small[:9] + b"\xff" + small[10:]
    return small if len(small) < len(data) * 9 // 10 else None


def element(number, path, data):
    """(arrays, element of the table) for one file."""
    etag = hashlib.sha256(data).hexdigest()[:24]
    small = squeeze(data)
    arrays = array(f"plain_{number}", data)
    forms = f'.plain = {{plain_{number}, sizeof plain_{number}, "\\"{etag}\\""}}'
    if small:
        arrays += array(f"gzip_{number}", small)
        forms += f',\n     .gzip = {{gzip_{number}, sizeof gzip_{number}, "\\"{etag}-gz\\""}}'
    kind = TYPES[pathlib.Path(path).suffix]
    return arrays, f'    {{.path = "{path}",\n     .content_type = "{kind}",\n     {forms}}},\n'


def read(folder):
    """(path, bytes) of every file that is served."""
    for path in sorted(folder.rglob("*")):
        name = "/" + path.relative_to(folder).as_posix()
        if not path.is_file() or path.suffix not in TYPES:
            continue
        if not re.fullmatch(r"[A-Za-z0-9._/-]+", name) or path.stat().st_size == 0:
            sys.exit(f"{path}: the name needs escaping, or the file is empty")
        yield name, path.read_bytes()


def main():
    """Reads the folder, writes the C file."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    files = list(read(pathlib.Path(sys.argv[2])))
    if not any(name == "/index.html" for name, _ in files):
        sys.exit(f"{sys.argv[2]}: no index.html")
    elements = [element(number, name, data) for number, (name, data) in enumerate(files)]
    out = HEAD + "".join(arrays for arrays, _ in elements)
    out += "static const struct asset all[] = {\n" + "".join(row for _, row in elements) + "};\n\n"
    out += "const struct asset_list asset_files = {all, COUNT_OF(all)};\n"
    pathlib.Path(sys.argv[1]).write_text(out, encoding="ascii")


main()
