#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The host's time of a call of ptxgen.torch.quantization, beside torch's operation with the same gradients.

    PYTHONPATH=build/python python3 bench/quantizer_host_time.py [RESULTS]

On a GPU the calls return before the work is done; only the calls are timed. Without a GPU it times what Python does,
with the launches left out: PTXGEN_LIBCUDA must name the emulator, and PTXGEN_EMU_DEVICE=sm_90,pageable must be set.
Writes RESULTS/quantizer_host_time.json."""

import json
import os
import statistics
import sys
import time

import torch

import ptxgen
import ptxgen.torch
from ptxgen._library import c
from ptxgen.torch import quantization as q
from ptxgen.torch.quantization import _launch

SHAPE, REPEATS, WARM, TURNS = (64, 64), 200, 30, 5
LEVELS = {"q_min": -8, "q_max": 7}


def leaf(*shape, device):
    return torch.ones(shape, device=device).requires_grad_()


def cases(device):
    """Each: a call, and what its gradients are of."""
    x, one, each = leaf(*SHAPE, device=device), leaf(1, device=device), leaf(SHAPE[0], device=device)
    groups = leaf(SHAPE[0], SHAPE[1] // 32, device=device)
    zero = torch.zeros(1, dtype=torch.int32, device=device)
    zeros, of_each = (leaf(n, device=device) for n in (1, SHAPE[0]))
    fixed_one, module = one.detach(), q.LearnedQuantizer.of(x.detach(), axis=-1, group=32)
    return {
        "given scale": (lambda: q.fake_quantize(x, fixed_one, zero, **LEVELS), (x,)),
        "given scale, torch": (lambda: torch.fake_quantize_per_tensor_affine(x, fixed_one, zero, -8, 7), (x,)),
        "learned scale": (lambda: q.fake_quantize(x, one, learn="scale", grad_factor=0.1, **LEVELS), (x, one)),
        "learned scale, torch": (
            lambda: torch._fake_quantize_learnable_per_tensor_affine(x, one, zeros, -8, 7, 0.1), (x, one)),
        "rows": (lambda: q.fake_quantize(x, each, axis=0, learn="scale", grad_factor=0.1, **LEVELS), (x, each)),
        "rows, torch": (
            lambda: torch._fake_quantize_learnable_per_channel_affine(x, each, of_each, 0, -8, 7, 0.1), (x, each)),
        "groups": (lambda: q.fake_quantize(x, groups, axis=-1, group=32, learn="scale", grad_factor=0.1, **LEVELS), (x, groups)),
        "groups, LearnedQuantizer": (lambda: module(x), (x, module.scale)),
        "no operation, autograd.Function": (lambda: Nothing.apply(x), (x,)),
    }


class Nothing(torch.autograd.Function):
    """What torch takes for a function in Python."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, dy):
        return torch.empty_like(ctx.saved_tensors[0])


def median(work, synchronize):
    for _ in range(WARM):
        work()
    synchronize()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e6)
    synchronize()
    return statistics.median(times)


def main():
    gpu = torch.cuda.is_available() and "emulator" not in ptxgen.Device().info.name
    device = "cuda" if gpu else "cpu"
    synchronize = torch.cuda.synchronize
    if not gpu:
        ptxgen.torch.emulate()
        torch.set_num_threads(1)

        def synchronize():
            pass
    of = cases(device)
    gradient = torch.ones(SHAPE, device=device)
    for call, leaves in of.values():
        torch.autograd.grad(call(), leaves, gradient)
    if not gpu:
        c.ptx_operation_run = lambda *arguments: 0
        for at in _launch._devices.values():
            at.done = lambda stream: None
    found = {name: {"forward": [], "both": []} for name in of}
    for _ in range(TURNS):  # in turns: the clock of a CPU changes
        for name, (call, leaves) in of.items():
            found[name]["forward"].append(median(call, synchronize))
            found[name]["both"].append(median(lambda: torch.autograd.grad(call(), leaves, gradient), synchronize))
    report = {"device": torch.cuda.get_device_name() if gpu else "the emulator, without launches",
              "torch": torch.__version__, "shape": SHAPE,
              "microseconds": {name: {what: statistics.median(times) for what, times in row.items()} for name, row in found.items()}}
    print(f"{report['device']}, torch {torch.__version__}, microseconds of the host: forward, forward and backward")
    for name, row in report["microseconds"].items():
        print(f"{name:32} {row['forward']:8.1f} {row['both']:8.1f}")
    if len(sys.argv) > 1:
        os.makedirs(sys.argv[1], exist_ok=True)
        with open(os.path.join(sys.argv[1], "quantizer_host_time.json"), "w") as out:
            json.dump(report, out, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
