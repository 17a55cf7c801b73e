#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether compilers vectorise the lane functions of f32 and f64, with the same results:

    lanes_vector.py SOURCE LIBRARY... -- FLAG...
    lanes_vector.py OBJECT

The first builds exec/lanes/float.c and directed.c for AVX2 with gcc, with clang and with the wheel's compiler (zig's),
as far as they are there. Every float operation of the functions below must be a vector instruction, which
objdump counts. Then lanes_record.c, linked with the same objects and the libraries, compares the results with
the recordings of a GPU, in all rounding modes. The second counts those of an object that is there: python/wheel.sh
gives it the wheel's.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The instruction that each function is made of.
WANTED = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "rcp": "div", "sqrt": "sqrt", "fma": "fmadd",
          "min": "cmp", "max": "cmp", "neg": "cmp", "abs": "cmp"}
FLOAT = re.compile(r"\sv?(add|sub|mul|div|sqrt|cmp|u?comi|fn?m(?:add|sub))\w*?([sp])([sd])\s")


def compilers():
    for name in ("gcc", "clang"):
        if shutil.which(name):
            yield name, [name]
    zig = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True)
    if zig.returncode == 0:
        yield "zig cc", [sys.executable, "-m", "ziglang", "cc"]


def build(compiler, flags, source, folder):
    emulator = os.path.join(source, "emulator")
    common = [*compiler, "-std=gnu11", "-O3", "-fPIC", "-DEMU_VARIANT=tested", "-I", emulator, "-I", source]
    for name in ("float", "directed"):
        more = ["-frounding-math"] if name == "directed" else []
        subprocess.run([*common, *flags, *more, "-mavx2", "-mfma", "-c", os.path.join(emulator, "exec/lanes", name + ".c"),
                        "-o", os.path.join(folder, name + ".o")], check=True)
    return common


def counts(path):
    """(function, operation, "s" or "p") -> how often it is in the object file."""
    found = collections.Counter()
    text = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    function = ""
    for line in text.splitlines():
        head = re.match(r"[0-9a-f]+ <(\w+)>:", line)
        function = head[1] if head else function
        hit = FLOAT.search(line)
        if hit:
            found[function, hit[1], hit[2]] += 1
    return found


def check_vectors(name, path):
    found = counts(path)
    bad = 0
    for stem, operation in WANTED.items():
        for kind in ("f32", "f64"):
            function = f"{stem}_{kind}"
            scalar = sum(n for (where, _, how), n in found.items() if where == function and how == "s")
            vector = sum(n for (where, what, how), n in found.items()
                         if where == function and how == "p" and what == operation)
            if scalar or not vector:
                print(f"{name}: {function} has {vector} vector and {scalar} scalar instructions")
                bad += 1
    total = sum(n for (_, _, how), n in found.items() if how == "p")
    print(f"{name}: {2 * len(WANTED)} functions, {total} vector instructions in float.c")
    return bad


def main():
    if not shutil.which("objdump"):
        print("skipped: no objdump")
        return 77
    if len(sys.argv) == 2:
        return check_vectors("the object", sys.argv[1]) != 0
    end = sys.argv.index("--")
    source, libraries, flags = sys.argv[1], sys.argv[2:end], sys.argv[end + 1:]
    known = list(compilers())
    bad = 0
    tests = os.path.join(source, "tests")
    for name, compiler in known:
        with tempfile.TemporaryDirectory() as folder:
            common = build(compiler, flags, source, folder)
            bad += check_vectors(name, os.path.join(folder, "float.o"))
            program = os.path.join(folder, "lanes_record")
            subprocess.run([*common, os.path.join(source, "emulator/tests/lanes_record.c"),
                            os.path.join(tests, "hardware/op_inputs.c"), os.path.join(folder, "float.o"),
                            os.path.join(folder, "directed.o"), *libraries, "-I", os.path.join(source, "include"),
                            "-I", os.path.join(tests, "support"), "-I", os.path.join(tests, "hardware"),
                            "-lm", "-lpthread", "-o", program], check=True)
            if "avx2" in open("/proc/cpuinfo", encoding="utf-8").read():
                bad += subprocess.run([program, os.path.join(tests, "hardware/h200.txt")]).returncode != 0
            else:
                print(f"{name}: this processor cannot run AVX2: results not compared")
    print(f"{bad} failures, {len(known)} compilers")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
