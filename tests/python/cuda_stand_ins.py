#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Torch of PyPI without most of NVIDIA's libraries. They take twice the room of torch, and no test on the CPU calls them.

    cuda_stand_ins.py needs PACKAGES    prints what the packages in this folder need, without these libraries
    cuda_stand_ins.py make PACKAGES     beside torch, a library in the place of those that it links and that are not
                                        there: each function ends the program
"""

import glob
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile

# What loads torch calls the runtime, so that one is NVIDIA's; torch's CPU half has counters of the profiler.
KEPT = "cuda-toolkit[cudart,cupti]"
LIBRARIES = r"lib(?:cublas|cublasLt|cudnn|cufft|cufile|curand|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvshmem_host)\.so[.\d]*"
FUNCTION = r"(?:cublas|cudnn|cufft|cuFile|curand|cusolver|cusparse|nccl|nvrtc|nvshmem)\w*"


def needs(packages):
    found = set()
    for package in importlib.metadata.distributions(path=[packages]):
        for need in package.requires or []:
            need = re.sub(r"cuda-toolkit\[.*?\]", KEPT, need)
            if "extra ==" not in need and not re.match("nvidia-|cuda-bindings|torch", need):
                found.add(need)
    return sorted(found)


def readelf(option, *files):
    return subprocess.run(["readelf", "--wide", option, *files], check=True, stdout=subprocess.PIPE, text=True).stdout


def make(packages):
    folder = os.path.join(packages, "torch", "lib")
    there = {os.path.basename(file) for file in glob.glob(f"{packages}/**/*.so*", recursive=True)}
    names, functions = set(), {}
    for file in glob.glob(os.path.join(folder, "*.so")):
        missing = set(re.findall(rf"\(NEEDED\).*\[({LIBRARIES})\]", readelf("--dynamic", file))) - there
        if missing:
            names |= missing
            found = re.findall(rf" UND ({FUNCTION})(?:@(\S+))?", readelf("--dyn-syms", file))
            functions.update((name, version or "without") for name, version in found)
    if not names:
        return  # a build for the CPU alone
    with tempfile.TemporaryDirectory() as scratch:
        source, script = os.path.join(scratch, "stand_in.c"), os.path.join(scratch, "stand_in.map")
        with open(source, "w", encoding="utf-8") as file:
            print("#include <stdio.h>\n#include <stdlib.h>", file=file)
            print('static void stand_in(void) { fputs("a stand-in of a library of CUDA was called\\n", stderr); abort(); }', file=file)
            for name in sorted(functions):
                print(f'void {name}(void) __attribute__((alias("stand_in")));', file=file)
        with open(script, "w", encoding="utf-8") as file:
            for version in sorted(set(functions.values())):
                print(version, "{", *(f"{name};" for name in functions if functions[name] == version), "};", file=file)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", f"-Wl,--version-script={script}", source, "-o",
                        os.path.join(folder, "stand_in.so")], check=True)
    for name in names:
        os.symlink("stand_in.so", os.path.join(folder, name))


if __name__ == "__main__":
    if sys.argv[1] == "needs":
        print("\n".join(needs(sys.argv[2])))
    else:
        make(sys.argv[2])
