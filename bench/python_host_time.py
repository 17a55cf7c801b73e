#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The host's time of a step from PyTorch, beside torch's fused AdamW with its clipping.

    PYTHONPATH=build/python python3 bench/python_host_time.py [RESULTS]

On a GPU the calls return before the work is done; only the calls are timed. DTensors are cut over two
ranks, of which this is one and the other is not there: torch's fake backend sends nothing. Without a GPU it times what
Python does, with the launches left out: PTXGEN_LIBCUDA must name the emulator, and
PTXGEN_EMU_DEVICE=sm_90,pageable must be set. Writes RESULTS/python_host_time.json."""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import ptxgen
import ptxgen.torch
from ptxgen._library import c
from scripts import gpu_or_emulator, write_json
from shapes import GPT2

# The shapes, and how many of the tensors are DTensors, as FSDP2 has them.
SETS = {"148 tensors": (GPT2, 0), "148 DTensors": (GPT2, 148), "146 DTensors, 2 others": (GPT2, 146),
        "2,000 tensors of 512": ([(512,)] * 2000, 0)}
REPEATS = 200


def parameters(shapes, dtensors, device, mesh):
    made = []
    for k, shape in enumerate(shapes):
        whole = torch.zeros(shape if device == "cuda" else 1, device=device)
        made.append(torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)]) if k < dtensors
                                       else whole))
        give(made[k], torch.ones_like(local(made[k])))
    return made


def give(p, part):
    """A gradient as a backward pass and FSDP2 leave it: a new object."""
    p.grad = DTensor(part, p._spec, requires_grad=False) if isinstance(p, DTensor) else part


def local(tensor):
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def timed(work, before, synchronize):
    times = []
    for k in range(20 + REPEATS):
        before()
        synchronize()
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e6)
    synchronize()
    return {"median": statistics.median(times[20:]), "min": min(times[20:])}


def moving(params):
    """New gradient objects each time, over one of two memories each: all move."""
    kept = [[torch.ones_like(local(p)) for p in params] for _ in range(2)]
    turn = [0]

    def move():
        turn[0] ^= 1
        for p, g in zip(params, kept[turn[0]]):
            give(p, g.detach())
    return move


def renew(params):
    for p in params:
        give(p, local(p.grad).detach())


def giving(params, new):
    """Gradients of the memory of now, for calls that let go of them. new: their objects end with the call, as after a
    backward pass; else they stay."""
    kept = [p.grad for p in params]

    def again():
        for p, g in zip(params, kept):
            if new:
                give(p, local(g).detach())
            else:
                p.grad = g
    return again


def without_launches():
    """Leaves out what a launch on the emulator takes: the calls of Python stay."""
    for name in ("ptx_step_plan_run", "ptx_step_plan_accumulate", "ptx_step_plan_norm_sq", "ptx_step_plan_finish",
                 "ptx_step_plan_step", "ptx_clip_plan_run", "ptx_clip_plan_norm_sq",
                 "ptx_clip_plan_finish", "ptx_clip_plan_apply"):
        function = getattr(c, name)
        setattr(c, name, lambda *arguments, function=function: 0)


def main():
    gpu, device = gpu_or_emulator()
    synchronize = torch.cuda.synchronize if gpu else lambda: None
    found = {"device": torch.cuda.get_device_name() if gpu else "the emulator, without launches",
             "torch": torch.__version__, "microseconds": {}}
    rows = found["microseconds"]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    mesh = init_device_mesh(device, (2,))
    for name, (shapes, dtensors) in SETS.items():
        params = parameters(shapes, dtensors, device, mesh)
        optimizer = ptxgen.torch.AdamW(params, lr=1e-4, max_grad_norm=1.0)
        optimizer.step()
        ptxgen.torch.clip_grad_norm_(params, 1.0)
        adding = ptxgen.torch.AdamW(params, lr=1e-4, max_grad_norm=1.0)
        again, renewed = giving(params, False), giving(params, True)
        adding.accumulate()
        again()
        if not gpu:
            without_launches()
            for part in optimizer._engine()._parts:
                part.device.done = lambda stream: None
        still = timed(optimizer.step, lambda: None, synchronize)
        same = timed(optimizer.step, lambda: renew(params), synchronize)
        moved = timed(optimizer.step, moving(params), synchronize)
        adds = {"accumulate": timed(adding.accumulate, again, synchronize),
                "accumulate, new objects": timed(adding.accumulate, renewed, synchronize),
                "zero_grad, new objects": timed(adding.zero_grad, renewed, synchronize)}
        again()
        clip = timed(lambda: ptxgen.torch.clip_grad_norm_(params, 1.0), lambda: None, synchronize)
        rows[name] = {"clip and step": still, "new objects, same memory": same, "all gradients moved": moved,
                      **adds,
                      "a moved gradient": (moved["median"] - still["median"]) / len(params),
                      "clip_grad_norm_ alone": clip}
        if gpu and not dtensors:
            theirs = torch.optim.AdamW(params, lr=1e-4, fused=True)
            rows[name]["torch: clip_grad_norm_"] = timed(
                lambda: torch.nn.utils.clip_grad_norm_(params, 1.0), lambda: None, synchronize)
            rows[name]["torch: fused AdamW"] = timed(theirs.step, lambda: None, synchronize)
    dist.destroy_process_group()
    print(f"{found['device']}, torch {found['torch']}, microseconds of the host")
    for name, row in rows.items():
        for what, value in row.items():
            text = f"{value:.3f}" if isinstance(value, float) else f"{value['median']:.1f} ({value['min']:.1f})"
            print(f"{name:22} {what:28} {text:>18}")
    if len(sys.argv) > 1:
        write_json(sys.argv[1], "python_host_time.json", found)


if __name__ == "__main__":
    main()
