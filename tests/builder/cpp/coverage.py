#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which functions of C the headers of C++ call, and which they leave to C:

    python3 coverage.py COMPILER INCLUDE [CPP.md]

Prints those that are left to C, by header. With a page, fails unless each header's line of its table
"What is C's alone" has the same ones. An operator, a method or a function counts where it calls the
function; so do rows of tables.
"""

import collections
import re
import subprocess
import sys

HEADERS = ("entry function data control threads words memory message matrix asm convert math ops builder "
           "device stream buffer module launch graph clip step muon rule rules norm guard report "
           "operations binding kernels types").split()
# What no user calls: what macros are made of, lists for scripts; constants; rows of ptx_atomic() and
# ptx_special(), which C++ has in one method each; rows of ptx_operation_run().
NOT_CALLS = re.compile(r"ptxgen_|ptx_\w+_(get_info|describe|parse|name)$|ptx_(imm|number|vec\d)|ptx_arg_type_of"
                       r"|ptx_special$|ptx_atomic_(add|min|max|inc|dec|and|or|xor|exch)$|ptx_type_bytes$"
                       r"|ptx_(quantize_\w+|fake_quantize\w*|observer_update\w*|lerp_backward\w*|fp8_cast\w*)$"
                       r"|ptx_(delayed_scale_update\w*|loss_scale_update\w*)$"
                       r"|ptx_(u|s|b|f)(16|32|64)$|ptx_(bool|zero|isa_exists|target_at|op_get_info|version)$")


def texts(compiler, include):
    """header: its preprocessed text, with the rows of tables."""
    source = '#include <ptxgen/ptxgen.hpp>\n'
    done = subprocess.run([*compiler.split(), "-std=c++17", "-DPTXGEN_NO_PLACES", "-E", f"-I{include}", "-x", "c++", "-"],
                          input=source, stdout=subprocess.PIPE, text=True, check=True)
    found, header = collections.defaultdict(list), ""
    for line in done.stdout.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            header = marker[1].rsplit("/", 1)[-1] if "ptxgen/" in marker[1] else ""
        elif header:
            found[header].append(line)
    return {header: " ".join(lines) for header, lines in found.items()}


def declared(text):
    """Functions: those with the visibility of PTXGEN_API, and inline ones."""
    names = re.findall(r'visibility ?\("default"\)[^;{=()]*\)\)\)?[^;{=()]*?\b(ptx_\w+) ?\(', text)
    return names + re.findall(r"static inline [^;{=()]*?\b(ptx_\w+) ?\(", text)


def main():
    compiler, include = sys.argv[1:3]
    text = texts(compiler, include)
    called = set()
    for header, lines in text.items():
        if header.endswith(".hpp"):
            lines = re.sub(r"[^;{}]*= ?delete ?;", " ", lines)  # what C++ refuses
            called.update(re.findall(r"\bptx_\w+", lines))
    left, count = {}, 0
    for header in HEADERS:
        functions = [name for name in dict.fromkeys(declared(text.get(header + ".h", ""))) if not NOT_CALLS.match(name)]
        count += len(functions)
        missing = [name for name in functions if name not in called]
        if missing:
            left[header] = missing
    for header, names in left.items():
        print(f"{header}.h: {' '.join(names)}")
    print(f"{count} functions, {sum(map(len, left.values()))} are left to C")
    if count < 200:
        sys.exit("coverage.py: the headers were not read")
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as file:
            page = file.read()
        listed = {}
        for row in re.findall(r"^\| `(\w+)\.h` \| (.*?) \|$", page, re.M):
            listed[row[0]] = sorted(re.findall(r"`(ptx_\w+)\(\)`", row[1]))
        wrong = [f"{name}.h: {' '.join(left.get(name, []))}; the page has {' '.join(listed.get(name, []))}"
                 for name in sorted(set(left) | set(listed)) if sorted(left.get(name, [])) != listed.get(name, [])]
        if wrong:
            sys.exit("coverage.py: docs/cpp.md has another list:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
