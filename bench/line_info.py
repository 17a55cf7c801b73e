#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What .line_info costs: bytes and time of the examples' texts, and whether ptxas makes the same machine code.

    python3 bench/line_info.py BUILD [EXAMPLE...]

BUILD has libptxgen.so; a C compiler and ptxas are in the path.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

EXAMPLES = ("attention", "matmul", "scan", "layer_norm", "softmax", "gelu")
TARGETS = (80, 90, 120)
SOURCES = pathlib.Path(__file__).resolve().parent.parent


def code(cubin):
    """The sections of an ELF file that have machine code."""
    at, size, count, names = (struct.unpack_from(f, cubin, o)[0] for f, o in (("<Q", 40), ("<H", 58), ("<H", 60), ("<H", 62)))
    headers = [struct.unpack_from("<IIQQQQ", cubin, at + k * size) for k in range(count)]
    found = {}
    for name, _, _, _, offset, length in headers:
        begin = headers[names][4] + name
        text = cubin[begin : cubin.index(b"\0", begin)]
        if text.startswith(b".text."):
            found[text] = cubin[offset : offset + length]
    return found


def machine_code(path, target):
    cubin = path.with_suffix(".cubin")
    subprocess.run(["ptxas", f"-arch=sm_{target}", "-o", cubin, path], check=True)
    return code(cubin.read_bytes())


def main():
    build, *examples = sys.argv[1:]
    build = pathlib.Path(build).resolve()
    print("# example: bytes of the text without and with .line_info; median us of 401, then the least; machine code")
    for example in examples or EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            sources = [f"examples/{example}.c", "examples/rows.c", "bench/line_info.c"]
            subprocess.run(
                ["cc", "-std=gnu11", "-O2", "-Iinclude", "-Iexamples", f"-I{build}/include", *sources, "-o", folder / "a",
                 f"-L{build}", f"-Wl,-rpath,{build}", "-lptxgen", "-lm"],
                check=True, cwd=SOURCES,
            )
            same = []
            for target in TARGETS:
                out = subprocess.run([folder / "a", folder, str(target)], check=True, stdout=subprocess.PIPE, text=True)
                if target == TARGETS[0]:
                    row = [float(x) for x in out.stdout.split()]
                texts = [machine_code(folder / f"{way}.ptx", target) for way in ("without", "with")]
                same.append(f"sm_{target} {'same' if texts[0] and texts[0] == texts[1] else 'DIFFERENT'}")
            print(
                f"{example:10} {row[0]:6.0f} {row[1]:6.0f} {row[1] / row[0]:5.2f}   {row[2]:6.1f} {row[3]:6.1f} "
                f"{row[3] / row[2]:5.2f}   {row[4]:6.1f} {row[5]:6.1f} {row[5] / row[4]:5.2f}   {', '.join(same)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
