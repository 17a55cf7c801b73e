#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sums of `ptxgen_bench load` in Triton: time from a warm context to the first result, each
sample in a process of its own, with an empty cache and with a full one.

    load_triton.py [COLD [WARM]]     numbers of samples, 3 and 5 unless given
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

CHUNKS, CHUNK = 16, 4096


def sample():
    import torch
    import triton
    import triton.language as tl

    x = torch.ones(CHUNKS * CHUNK, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()

    @triton.jit
    def squared_sum(x, n, out, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
        first = tl.program_id(0) * CHUNK
        total = tl.zeros([BLOCK], dtype=tl.float64)
        for i in range(0, CHUNK, BLOCK):
            at = first + i + tl.arange(0, BLOCK)
            v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float64)
            total += v * v
        tl.store(out + tl.program_id(0), tl.sum(total, axis=0))

    out = torch.empty(CHUNKS, device="cuda", dtype=torch.float64)
    squared_sum[(CHUNKS,)](x, x.numel(), out, CHUNK=CHUNK, BLOCK=1024)
    sums = out.cpu().tolist()
    end = time.perf_counter()
    assert sums == [float(CHUNK)] * CHUNKS, sums
    print(json.dumps((end - start) * 1e3))


def measure(way, samples, folders):
    times = []
    for folder in folders:
        environment = dict(os.environ, TRITON_CACHE_DIR=folder, PTXGEN_TRITON_SAMPLE="1")
        output = subprocess.run([sys.executable, __file__], env=environment, check=True,
                                capture_output=True, text=True).stdout
        times.append(json.loads(output.splitlines()[-1]))
    times = times[-samples:]
    print(json.dumps({"way": way, "samples": len(times),
                      "total_ms": round(statistics.median(times), 4),
                      "min_ms": round(min(times), 4), "max_ms": round(max(times), 4)}))


def main():
    cold = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    warm = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as scratch:
        # The first run fills the caches of the disk and of Triton.
        measure("triton", cold, [f"{scratch}/{i}" for i in range(cold + 1)])
        measure("triton cache", warm, [f"{scratch}/warm"] * (warm + 1))


if os.environ.get("PTXGEN_TRITON_SAMPLE"):
    sample()
else:
    main()
