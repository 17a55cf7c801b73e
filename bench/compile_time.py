#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the macros of places.h cost a compiler: seconds and bytes of code of a function with 600 calls, with the
macros and without, the least of five runs in turns; of calls nested ten deep; and the lines that twelve wrong calls
print, with the first of each.

compile_time.py [--check] [INCLUDE]: --check only holds the bytes against the plain calls' (at most 1.2 times) and
fails where they are more; it exits with 77 without a compiler."""
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

COMPILERS = {"gcc": ("c", "-std=c11"), "clang": ("c", "-std=c11"),
             "g++": ("cc", "-std=c++20"), "clang++": ("cc", "-std=c++20")}
MOST = 1.2  # times the code of plain calls
TURNS = 5

# 12 calls. Plain functions take typed constants, the macros C numbers too.
CALLS = """
    x = ptx_load(b, p, i);
    y = ptx_fma(b, x, F32(0.5), ptx_mul(b, x, a));
    y = ptx_add(b, ptx_sqrt(b, y), ptx_max(b, x, ptx_sub(b, y, F32(1))));
    ptx_if (b, ptx_lt(b, i, U32(77)))
        ptx_store(b, p, i, ptx_cvt(b, PTX_F32, y));
"""
HEAD = """#include <ptxgen/builder.h>
#ifdef PTXGEN_NO_PLACES
#define U32(x) ptx_u32(x)
#define F32(x) ptx_f32(x)
#else
#define U32(x) x
#define F32(x) x
#endif
void write(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val n, ptx_val a);
void write(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_val n, ptx_val a) {
    ptx_val x = a, y = a;
    (void)p, (void)i, (void)n, (void)x, (void)y;
"""
WRONG = """ptx_add(b, x);
ptx_add(b, x, y, a);
ptx_add(b, p, x);
ptx_add(b, x, "1");
ptx_sqrt(b, p);
ptx_set(b, x, p);
ptx_load(b, x, i);
ptx_load(b, p, p);
ptx_store(b, p, p, x);
ptx_if (b, p) { }
ptx_select(b, x, y);
ptx_shfl(b, PTX_SHFL_IDX, x, i, .mask = 0);
""".splitlines()


def compiled(folder, compiler, include, text, *flags):
    """The seconds, the bytes of code (None after an error) and what the compiler printed."""
    suffix, standard = COMPILERS[compiler]
    source, made = folder / f"calls.{suffix}", folder / "calls.o"
    source.write_text(text)
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([compiler, standard, "-O2", "-Wall", "-Wno-missing-field-initializers", "-fPIC", *flags,
                           f"-I{include}", "-c", str(source), "-o", str(made)], capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
    if done.returncode:
        return seconds, None, done.stderr
    size = subprocess.run(["size", "-A", str(made)], capture_output=True, text=True, check=True).stdout
    return seconds, sum(int(line.split()[1]) for line in size.splitlines() if line.startswith(".text")), done.stderr


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = "--check" in sys.argv
    include = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[1] / "include").resolve()
    found = [compiler for compiler in COMPILERS if shutil.which(compiler)]
    if not found or not shutil.which("size"):
        print("skipped: no C compiler")
        return 77
    failed = False
    nested = HEAD + "    y = " + "ptx_add(b, " * 10 + "x" + ", a)" * 10 + ";\n}\n"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for compiler in found:
            calls = HEAD + CALLS * 50 + "}\n"
            with_macros = compiled(folder, compiler, include, calls)
            plain = compiled(folder, compiler, include, calls, "-DPTXGEN_NO_PLACES")
            if with_macros[1] is None or plain[1] is None:
                sys.exit(with_macros[2] + plain[2])
            failed |= with_macros[1] > MOST * plain[1]
            print(f"{compiler}: {with_macros[1]} bytes, plain {plain[1]}: {with_macros[1] / plain[1]:.2f}")
            if check:
                continue
            seconds, plain_seconds = with_macros[0], plain[0]
            for _ in range(TURNS - 1):
                seconds = min(seconds, compiled(folder, compiler, include, calls)[0])
                plain_seconds = min(plain_seconds, compiled(folder, compiler, include, calls, "-DPTXGEN_NO_PLACES")[0])
            print(f"    {seconds:.2f} s, plain {plain_seconds:.2f}: {seconds / plain_seconds:.2f}; ten levels "
                  f"{compiled(folder, compiler, include, nested)[0]:.2f} s")
            for wrong in WRONG:
                text = compiled(folder, compiler, include, HEAD + wrong + "\n}\n")[2].splitlines()
                errors = [line for line in text if "error:" in line]
                print(f"    {wrong:45} {len(text):3} lines: {errors[0].split('/')[-1] if errors else 'compiles'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
