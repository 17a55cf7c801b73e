#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The host's time of a call of ptxgen.torch.quantization, beside torch's operation with the same gradients.

    PYTHONPATH=build/python python3 bench/quantizer_host_time.py [RESULTS]

On a GPU the calls return before the work is done; only the calls are timed. Without a GPU it times what Python does,
with the launches left out: PTXGEN_LIBCUDA must name the emulator, and PTXGEN_EMU_DEVICE=sm_90,pageable must be set.
A backward pass has a cost of its own, whatever it is of: so each call is timed alone, and as one of CHAIN calls that follow
each other, with one backward pass; and alone with the backward pass in the caller's thread, where torch does not hand it to
the thread of the device. Functions that compute nothing show what torch takes for one in Python. Writes
RESULTS/quantizer_host_time.json."""

import statistics
import sys
import time

import torch

from ptxgen import operations
from ptxgen.torch import quantization as q
from ptxgen.torch.quantization import _launch
from scripts import gpu_or_emulator, write_json

SHAPE, REPEATS, WARM, TURNS, CHAIN = (64, 64), 200, 30, 5, 20
COLUMNS = ("forward", "both", "forward in a chain", "both in a chain", "both in one thread")
LEVELS = {"q_min": -8, "q_max": 7}


def leaf(*shape, device):
    return torch.ones(shape, device=device).requires_grad_()


def cases(device):
    """Each: a call of a tensor, and what else than the tensor has a gradient."""
    one, each = leaf(1, device=device), leaf(SHAPE[0], device=device)
    groups = leaf(SHAPE[0], SHAPE[1] // 32, device=device)
    zero = torch.zeros(1, dtype=torch.int32, device=device)
    zeros, of_each = (leaf(n, device=device) for n in (1, SHAPE[0]))
    fixed_one = one.detach()
    module = q.LearnedQuantizer.of(torch.ones(SHAPE, device=device), axis=-1, group=32)
    learned = {"learn": "scale", "grad_factor": 0.1, **LEVELS}
    return {
        "given scale": (lambda x: q.fake_quantize(x, fixed_one, zero, **LEVELS), ()),
        "given scale, torch": (lambda x: torch.fake_quantize_per_tensor_affine(x, fixed_one, zero, -8, 7), ()),
        "learned scale": (lambda x: q.fake_quantize(x, one, **learned), (one,)),
        "learned scale, torch": (
            lambda x: torch._fake_quantize_learnable_per_tensor_affine(x, one, zeros, -8, 7, 0.1), (one,)),
        "rows": (lambda x: q.fake_quantize(x, each, axis=0, **learned), (each,)),
        "rows, torch": (
            lambda x: torch._fake_quantize_learnable_per_channel_affine(x, each, of_each, 0, -8, 7, 0.1), (each,)),
        "groups": (lambda x: q.fake_quantize(x, groups, axis=-1, group=32, **learned), (groups,)),
        "groups, LearnedQuantizer": (module, (module.scale,)),
        "no operation, autograd.Function": (Nothing.apply, ()),
        "no operation, two gradients": (lambda x: NothingOfTwo.apply(x, one), (one,)),
        "no operation, of torch": (lambda x: x.view_as(x), ()),
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


class NothingOfTwo(torch.autograd.Function):
    """The same with the gradients of a learned scale."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, dy):
        x, scale = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(scale)


def chained(call, x):
    for _ in range(CHAIN):
        x = call(x)
    return x


def of_each(call, leaves, x, gradient):
    """The work of each column, how many calls it is, and whether a backward pass has a thread of its own."""
    leaves = (x, *leaves)

    def both():
        torch.autograd.grad(call(x), leaves, gradient)
    return ((lambda: call(x), 1, True), (both, 1, True), (lambda: chained(call, x), CHAIN, True),
            (lambda: torch.autograd.grad(chained(call, x), leaves, gradient), CHAIN, True), (both, 1, False))


def median(work, calls, synchronize):
    """Microseconds of a call."""
    for _ in range(WARM // calls + 2):
        work()
    synchronize()
    times = []
    for _ in range(REPEATS // calls):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e6 / calls)
    synchronize()
    return statistics.median(times)


def main():
    gpu, device = gpu_or_emulator()
    synchronize = torch.cuda.synchronize if gpu else lambda: None
    if not gpu:
        torch.set_num_threads(1)
    x, gradient = leaf(*SHAPE, device=device), torch.ones(SHAPE, device=device)
    works = {name: of_each(*case, x, gradient) for name, case in cases(device).items()}
    for work in works.values():
        for run, _, _ in work:
            run()
    if not gpu:
        operations._run_call = lambda *arguments: 0
        for at in _launch._devices.values():
            at.done = lambda stream: None
    found = {name: [[] for _ in COLUMNS] for name in works}
    for _ in range(TURNS):  # in turns: the clock of a CPU changes
        for name, work in works.items():
            for (run, calls, threads), times in zip(work, found[name]):
                with torch.autograd.set_multithreading_enabled(threads):
                    times.append(median(run, calls, synchronize))
    report = {"device": torch.cuda.get_device_name() if gpu else "the emulator, without launches",
              "torch": torch.__version__, "shape": SHAPE, "chain": CHAIN,
              "microseconds": {name: dict(zip(COLUMNS, map(statistics.median, row))) for name, row in found.items()}}
    print(f"{report['device']}, torch {torch.__version__}, microseconds of the host: {', '.join(COLUMNS)}")
    for name, row in report["microseconds"].items():
        print(f"{name:32}" + "".join(f" {value:8.1f}" for value in row.values()))
    if len(sys.argv) > 1:
        write_json(sys.argv[1], "quantizer_host_time.json", report)


if __name__ == "__main__":
    main()
