#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether two builds of the emulator report the same faults at the same places, and compute the same:

    emulator_faults.py DIFFERENTIAL OLD NEW [COUNT [SEED]]

DIFFERENTIAL is tests/hardware/differential, which writes the random programs; OLD and NEW are the folders of
two builds of libcuda.so.1. Each program gets up to three faults: an access outside its memory or misaligned,
a value that is never written, in all lanes or in some, or a barrier less. It runs with the sanitizers on, as
warnings and off, in one thread. Compared are the results of all calls, the reports, and the memory after it.
Prints each program that differs, and ends with 1 if there is one.
"""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

IN_BYTES, OUT_BYTES = 20 * 4096 * 8, 0
WORDS = (25 * 512 + 2 * 512 + 8 * 192 + 4 * 256 + 3 * 512 * 4)
BATCH = 50
MODES = ("1", "warn", "0")


# ---- faults -----------------------------------------------------------------------------------------

def lines_like(lines, pattern):
    return [k for k, line in enumerate(lines) if re.match(pattern, line)]


def move_address(lines, chance):
    found = lines_like(lines, r"\s+(@\S+ +)?(ld|st|atom|red)\.(global|shared|local)\S* .*\[")
    if not found:
        return
    k = chance.choice(found)
    add = chance.choice([1, 2, 4, 8, 12, 64, 1 << 12, 1 << 16, 1 << 20, -4, -64, -(1 << 18)])

    def moved(match):
        offset = int(match[2] or "0") + add
        return f"[{match[1]}{'+' if offset >= 0 else ''}{offset}]"

    lines[k] = re.sub(r"\[(%?[$\w]+)(?:\+(-?\d+))?\]", moved, lines[k], count=1)


def leave_unwritten(lines, chance):
    found = lines_like(lines, r"\s+(mov|add|mul|mad|ld|cvt|and|or|xor|shl|setp|selp|st)\.\S+ ")
    if found:
        lines[chance.choice(found)] = ""


def leave_to_some(lines, chance):
    found = lines_like(lines, r"\s+(mov|add|sub|mul|mad|ld|st|cvt|and|or|xor|shl|fma|min|setp)\.\S+ ")
    start = lines_like(lines, r"\s+mov\.u32 +%r\d+, %tid\.x;")
    after = [k for k in found if start and k > start[0]]
    if not after:
        return
    k = chance.choice(after)
    lines[k] = f"    @%some {lines[k].strip()}"
    lines[start[0]] += (f"\n    .reg .pred %some;\n    .reg .b32 %lane;\n    mov.u32 %lane, %tid.x;\n"
                        f"    and.b32 %lane, %lane, {chance.choice([1, 3, 16, 31, 32, 224])};\n"
                        f"    setp.{chance.choice(['eq', 'ne'])}.u32 %some, %lane, 0;")


def leave_out_barrier(lines, chance):
    found = lines_like(lines, r"\s+(bar|barrier)\.(cta\.)?(sync|warp|arrive|red)\S* ")
    if found:
        lines[chance.choice(found)] = ""


def with_faults(text, seed):
    chance = random.Random(seed)
    lines = text.split("\n")
    some = False
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        fault = chance.choice([move_address, leave_unwritten, leave_to_some, leave_out_barrier])
        if fault is leave_to_some and some:
            continue
        some |= fault is leave_to_some
        fault(lines, chance)
    return "\n".join(lines)


# ---- in a child: one build --------------------------------------------------------------------------

def run_texts(library, paths, log):
    cuda = ctypes.CDLL(library)
    inputs = random.Random(1).randbytes(IN_BYTES)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    memory = [ctypes.c_uint64(), ctypes.c_uint64()]
    out_bytes = WORDS * 8
    for path in paths:
        called, module, function = [], ctypes.c_void_p(), ctypes.c_void_p()
        text = pathlib.Path(path).read_bytes() + b"\0"
        for at, size in zip(memory, (IN_BYTES, out_bytes)):
            called.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
        called.append(cuda.cuMemcpyHtoD_v2(memory[0], inputs, ctypes.c_size_t(IN_BYTES)))
        called.append(cuda.cuMemsetD8_v2(memory[1], 0xcc, ctypes.c_size_t(out_bytes)))
        called.append(cuda.cuModuleLoadData(ctypes.byref(module), text))
        report = b""
        if module:
            called.append(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"program"))
            pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(at) for at in memory))
            called.append(cuda.cuLaunchKernel(function, 2, 1, 1, 256, 1, 1, 0, None, pointers, None))
            called.append(cuda.cuCtxSynchronize())
            told = ctypes.c_char_p()
            cuda.cuEmulatorReport(ctypes.byref(told))
            report = told.value if called[-1] else b""
            cuda.cuEmulatorClearError()
        out = ctypes.create_string_buffer(out_bytes)
        called.append(cuda.cuMemcpyDtoH_v2(out, memory[1], ctypes.c_size_t(out_bytes)))
        cuda.cuEmulatorClearError()
        if module:
            called.append(cuda.cuModuleUnload(module))
        for at in memory:
            called.append(cuda.cuMemFree_v2(at))
        logged = pathlib.Path(log).read_text(errors="replace") if os.path.exists(log) else ""
        pathlib.Path(log).write_text("")
        print(json.dumps([called, report.decode(errors="replace"), hashlib.sha256(out.raw).hexdigest(), logged]))


# ---- both builds ------------------------------------------------------------------------------------

def results(folder, mode, paths, scratch, name):
    log = os.path.join(scratch, f"{name}-{mode}.log")
    environment = {**os.environ, "PTXGEN_EMU_SANITIZE": mode, "PTXGEN_EMU_THREADS": "1", "PTXGEN_EMU_LOG": log,
                   "PTXGEN_EMU_INSTRUCTIONS": "400000"}
    done = subprocess.run([sys.executable, __file__, "--child", os.path.join(folder, "libcuda.so.1"), log, *paths],
                          env=environment, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines + [["ended", done.returncode]] * (len(paths) - len(lines))


def compare(differential, folders, seeds):
    """(number that a report names, seeds that differ)"""
    reported, different = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for seed in seeds:
            text = subprocess.run([differential, "-p", str(seed)], stdout=subprocess.PIPE, text=True, check=True).stdout
            paths.append(os.path.join(scratch, f"{seed}.ptx"))
            pathlib.Path(paths[-1]).write_text(with_faults(text, seed))
        for mode in MODES:
            old, new = (results(folder, mode, paths, scratch, name) for folder, name in zip(folders, "on"))
            for seed, path, a, b in zip(seeds, paths, old, new):
                reported += mode == "1" and bool(a[1])
                if a == b:
                    continue
                kept = os.path.join(tempfile.gettempdir(), f"emulator-faults-{seed}.ptx")
                pathlib.Path(kept).write_text(pathlib.Path(path).read_text())
                different.append(seed)
                print(f"{kept}, PTXGEN_EMU_SANITIZE={mode}:\n  old {a}\n  new {b}", flush=True)
    return reported, different


def main():
    differential, *folders = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    batches = [range(k, min(k + BATCH, first + count)) for k in range(first, first + count, BATCH)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda seeds: compare(differential, folders, seeds), batches))
    different = sum(len(seeds) for _, seeds in done)
    print(f"{count} programs, {sum(reported for reported, _ in done)} with a report, {different} differences")
    return different != 0


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        run_texts(sys.argv[2], sys.argv[4:], sys.argv[3])
    else:
        sys.exit(main())
