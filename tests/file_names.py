#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the library loads names none of its own files: file_names.py LIBRARY SOURCE.

Errors have the place of the user's call, so no `__FILE__` of the library is in it. Its debug sections, which are not
loaded, may name them."""
import pathlib
import re
import struct
import sys

PT_LOAD = 1


def loaded(elf):
    """The bytes of the file that its program headers load. Little-endian ELF, of 64 bits."""
    if elf[:6] != b"\x7fELF\x02\x01":
        sys.exit("file_names: not an ELF file of 64 bits")
    at, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    parts = []
    for k in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", elf, at + k * size)
        if kind == PT_LOAD:
            parts.append(elf[offset:offset + length])
    return b"\n".join(parts)


def main():
    library, source = (pathlib.Path(argument) for argument in sys.argv[1:])
    files = {path.name.encode() for folder in ("src", "include", "abi") for path in (source / folder).rglob("*")
             if path.suffix in (".c", ".h", ".hpp", ".def")}
    text = loaded(library.read_bytes())
    if b"ptxgen" not in text or len(files) < 100:
        sys.exit(f"file_names: found no library in {library}, or no sources in {source}")
    found = {name.decode() for name in re.findall(rb"[\w./+-]+\.(?:c|hpp|h|def)\b", text)
             if name.rsplit(b"/", 1)[-1] in files}
    if str(source.resolve()).encode() in text:
        found.add(str(source.resolve()))
    for name in sorted(found):
        print(f"file_names: the library has the name {name}; see PTXGEN_HERE of places.h")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
