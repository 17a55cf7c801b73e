#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules of ptxgen.optimizers beside AdamW of the library: a step of GPT-2 124M in f32 with its norm, captured, as a
ratio of the time that the bytes take at the rate of a copy; and the first step of a fresh process, with what torch's
clip_grad_norm_ and foreach AdamW, and torch.compile of AdamW alone, take for theirs.

    bench/rules_speed.py BUILD [-o FILE] [--compile SECONDS] [--times-alone | --first-alone [NAMES]]

FILE receives lines of JSON. First steps are the least of two processes after one, so kernels come from the driver's
cache. --compile: one process that compiles AdamW's step within these seconds, or is ended; then one that finds what the
first left on disk. --times-alone: no first steps. --first-alone: no times of later steps, and first steps of these
names, with commas; '' for none, as beside --compile. Needs a GPU.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

import measure
import ptxgen
import ptxgen.optimizers
import ptxgen.torch
from shapes import GPT2

FIRST = ("AdamW", "adamw_amsgrad", "cwd_adamw", "nadam", "lamb", "foreach")
PROCESSES = 2


def parameters():
    torch.manual_seed(1)
    made = [torch.randn(shape, device="cuda").requires_grad_() for shape in GPT2]
    for p in made:
        p.grad = torch.randn_like(p) * 1e-3
    return made


def optimizer_of(name):
    if name == "AdamW":
        return ptxgen.torch.AdamW(parameters(), lr=1e-4, max_grad_norm=1.0)
    if name in ("foreach", "compile"):
        return torch.optim.AdamW(parameters(), lr=torch.tensor(1e-4, device="cuda"), foreach=True, capturable=True)
    return ptxgen.torch.Optimizer(parameters(), getattr(ptxgen.optimizers, name), lr=1e-4, max_grad_norm=1.0)


def accesses_of(optimizer):
    """Of 4 bytes an element: a step reads the gradient twice; it reads and writes the parameter and each state. Sums
    over tensors read all of them once more."""
    states = next(iter(optimizer.state.values()))
    count = sum(isinstance(s, torch.Tensor) and s.shape == GPT2[0] for s in states.values())
    return 4 + 2 * count + (2 + count if getattr(getattr(optimizer, "rule", None), "sums", 0) else 0)


def first_step(name):
    """Milliseconds from an optimizer to the end of its first step; run in a process of its own."""
    parameters()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    optimizer = optimizer_of(name)

    def clipped():
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0, foreach=True)
        optimizer.step()

    step = torch.compile(optimizer.step) if name == "compile" else clipped if name == "foreach" else optimizer.step
    torch.cuda.synchronize()
    made = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return {"made_ms": round((made - begun) * 1e3, 2), "step_ms": round((time.perf_counter() - made) * 1e3, 2)}


def in_a_process(build, name, seconds=120, **environment):
    begun = time.monotonic()
    done = subprocess.run([sys.executable, __file__, build, "--first", name], check=True, text=True, timeout=seconds,
                          stdout=subprocess.PIPE, env={**os.environ, **environment})
    return {**json.loads(done.stdout.splitlines()[-1]), "process_s": round(time.monotonic() - begun, 1)}


def first_steps(build, names, seconds):
    """Yields rows: of each optimizer, of one that compiles, and of one that finds the first's caches."""
    limit = None
    for name in names:
        runs = [in_a_process(build, name) for _ in range(1 + PROCESSES)]
        row = {"first step": name, **min(runs[-PROCESSES:], key=lambda run: run["step_ms"])}
        limit = round(1.2 * row["step_ms"] + 10, 2) if name == "AdamW" else limit
        yield {**row, **({"limit_ms": limit} if limit and name not in ("AdamW", "foreach") else {})}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("compile", "compile, from its caches") if seconds else ():
            try:
                yield {"first step": kind, **in_a_process(build, "compile", seconds, TORCHINDUCTOR_CACHE_DIR=folder,
                                                          TRITON_CACHE_DIR=os.path.join(folder, "triton"))}
            except subprocess.TimeoutExpired:
                yield {"first step": kind, "made_ms": None, "step_ms": None, "process_s": f"ended after {seconds}"}
                return


def times_of_rules(output):
    clock = measure.Clock()
    rate, copy = clock.copy_rate()
    output.line({"copy": copy, "bytes_per_second": round(rate)})
    works, moved = {}, {}
    elements = sum(torch.Size(shape).numel() for shape in GPT2)
    for name in ("AdamW", *ptxgen.optimizers.__all__):
        optimizer = optimizer_of(name)
        works[name] = measure.Work(optimizer.step)
        moved[name] = 4 * accesses_of(optimizer)
    for name, times in clock.compare(works).items():
        floor = moved[name] * elements / rate * 1e6
        row = {"rule": name, "bytes_per_element": moved[name], **times,
               "of_floor": round(times["median_us"] / floor, 4)}
        output.line(row)
        print("{rule}: {median_us} us, {bytes_per_element} bytes an element, {of_floor} of the floor".format(**row))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("-o", "--output")
    arguments.add_argument("--compile", type=int, default=0, metavar="SECONDS")
    alone = arguments.add_mutually_exclusive_group()
    alone.add_argument("--times-alone", action="store_true")
    alone.add_argument("--first-alone", nargs="?", const=",".join(FIRST), metavar="NAMES")
    arguments.add_argument("--first", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.first:
        print(json.dumps(first_step(options.first)))
        return 0
    with ptxgen.Device() as gpu:
        output = measure.Output(options.output, gpu)
    if options.first_alone is None:
        times_of_rules(output)
    named = "" if options.times_alone else ",".join(FIRST) if options.first_alone is None else options.first_alone
    for row in first_steps(options.build, list(filter(None, named.split(","))), options.compile):
        output.line(row)
        print("first step, {first step}: {made_ms} ms to make, {step_ms} ms; {process_s} s in all".format(**row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
