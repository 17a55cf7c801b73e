#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""AdamW with states of few bits: a step of GPT-2 124M in bf16, in a CUDA graph, cold: ours beside torchao's 4 and 8 bits,
which it compiles for each shape.

    bench/state_times.py BUILD [--samples N]

torchao (pip install torchao) has no clipping, so ours is timed without it, too. Needs a GPU.
"""
import argparse

import torch

import measure  # finds the package
import ptxgen.torch
from scripts import needs_gpu
from shapes import GPT2

SETTINGS = {"lr": 1e-4, "weight_decay": 0.01}


def work(make, **settings):
    generator = torch.Generator(device="cuda").manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(shape, device="cuda", generator=generator).mul_(0.02).bfloat16())
              for shape in GPT2]
    for p in params:
        p.grad = torch.randn(p.shape, device="cuda", generator=generator).mul_(1e-3).bfloat16()
    return measure.Work(make(params, **SETTINGS, **settings).step)


def works():
    yield "ours, 8 bits", lambda: work(ptxgen.torch.AdamW, state_dtype="8bit", max_grad_norm=1.0)
    yield "ours, 8 bits, without a norm", lambda: work(ptxgen.torch.AdamW, state_dtype="8bit")
    yield "ours, bf16 states, without a norm", lambda: work(ptxgen.torch.AdamW, state_dtype="bf16")
    try:
        from torchao.optim import AdamW4bit, AdamW8bit
    except ImportError as error:
        print(f"without torchao: {error}")
        return
    yield "torchao, 4 bits", lambda: work(AdamW4bit)
    yield "torchao, 8 bits", lambda: work(AdamW8bit)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--samples", type=int, default=measure.REPETITIONS)
    options = arguments.parse_args()
    needs_gpu()
    clock = measure.Clock(options.samples)
    for name, make in works():
        times = clock.compare({name: make()}, cold=True)[name]
        print("{}: {median_us} us ({min_us} to {max_us})".format(name, **times), flush=True)


if __name__ == "__main__":
    main()
