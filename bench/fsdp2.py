#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clip and AdamW over two GPUs: FSDP2 and DDP over GPT-2 124M's shapes in f32, ptxgen.torch beside torch.

    PYTHONPATH=build/python python3 bench/fsdp2.py RESULTS

Writes RESULTS/fsdp2.json and prints the table. No torchrun: it starts a process a GPU. For each of
fsdp2 and ddp: device time and host time of clip and step (events around the work; the host's clock
around the calls), weights after 100 steps against f64, and that one rank and two give the same bits for
the same sums. Takes less than two minutes."""

import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import ptxgen
import ptxgen.torch
from scripts import write_json

LAYERS, WIDTH = 12, 768
MAX_NORM, RATE = 1.0, 3e-4
WARM, REPEATS, STEPS = 10, 40, 100


class Block(torch.nn.Module):
    """The parameters of a GPT-2 block."""

    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(c), torch.nn.LayerNorm(c)
        self.attn, self.proj = torch.nn.Linear(c, 3 * c), torch.nn.Linear(c, c)
        self.up, self.down = torch.nn.Linear(c, 4 * c), torch.nn.Linear(4 * c, c)


class Gpt2(torch.nn.Module):
    def __init__(self, layers=LAYERS, c=WIDTH):
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(50257, c), torch.nn.Embedding(1024, c)
        self.h = torch.nn.ModuleList(Block(c) for _ in range(layers))
        self.ln_f = torch.nn.LayerNorm(c)


def made(kind, mesh, **sizes):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Gpt2(**sizes)
    if kind == "fsdp2":
        for block in model.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def local(tensor):
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def as_fsdp2(part, p):
    """This rank's part of a gradient as FSDP2 gives it to its parameter: with the parameter's spec."""
    return DTensor(part, p._spec, requires_grad=False) if isinstance(p, DTensor) else part


def give(params, seed, scale=1e-2):
    """Gradients as FSDP2 leaves them: new DTensors each step over new memory; the same over all ranks."""
    for k, p in enumerate(params):
        generator = torch.Generator(device="cuda").manual_seed(1000 * seed + k)
        whole = torch.randn(p.shape, generator=generator, device="cuda") * scale
        if isinstance(p, DTensor):
            rows = torch.chunk(whole, dist.get_world_size())
            mine = rows[dist.get_rank()] if dist.get_rank() < len(rows) else whole[:0]
            p.grad = as_fsdp2(mine.clone(), p)
        else:
            p.grad = whole


def timed(work, params):
    """Microseconds on the device and on the host: medians, minima and maxima."""
    device, host = [], []
    for k in range(WARM + REPEATS):
        for p in params:  # as a backward pass: other objects, at times other addresses
            part = local(p.grad).detach()
            p.grad = as_fsdp2(part.clone() if k % 8 == 0 else part, p)
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(20_000)  # the ranks begin together
        begin.record()
        start = time.perf_counter()
        work()
        host.append((time.perf_counter() - start) * 1e6)
        end.record()
        torch.cuda.synchronize()
        device.append(begin.elapsed_time(end) * 1e3)

    def summary(values):
        values = values[WARM:]
        return {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {"device_us": summary(device), "host_us": summary(host)}


def host_only(work, params, turns=50):
    """The host's time with the gradients where they were, and nothing waited for."""
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


def variants(kind, mesh):
    """Optimizers over models of their own, and the call that clips and steps."""
    def torch_pair(**options):
        model = made(kind, mesh)
        params = list(model.parameters())
        optimizer = torch.optim.AdamW(params, lr=RATE, **options)

        def work():
            torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
            optimizer.step()
        return params, work

    def ours_one():
        model = made(kind, mesh)
        params = list(model.parameters())
        optimizer = ptxgen.torch.AdamW(params, lr=RATE, max_grad_norm=MAX_NORM)
        return params, optimizer.step

    def ours_two():
        model = made(kind, mesh)
        params = list(model.parameters())
        optimizer = ptxgen.torch.AdamW(params, lr=RATE)

        def work():
            ptxgen.torch.clip_grad_norm_(params, MAX_NORM)
            optimizer.step()
        return params, work
    return {"torch fused": lambda: torch_pair(fused=True), "torch foreach": lambda: torch_pair(),
            "ptxgen, clip in the step": ours_one, "ptxgen, clip and step": ours_two}


def compared(kind, mesh):
    """Weights after STEPS steps, against f64: the largest difference of ours, torch's, and between."""
    sizes = {"layers": 2, "c": 192}
    models = [made(kind, mesh, **sizes) for _ in range(3)]
    lists = [list(model.parameters()) for model in models]
    ours = ptxgen.torch.AdamW(lists[0], lr=RATE, max_grad_norm=MAX_NORM)
    theirs = torch.optim.AdamW(lists[1], lr=RATE, fused=True)
    exact = [p.detach().double() for p in lists[2]]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in exact]
    for step in range(STEPS):
        give(lists[0], step)
        for p, q in zip(lists[0], lists[1]):
            q.grad = p.grad.detach().clone()
        grads = [p.grad.double() for p in lists[0]]
        torch.nn.utils.clip_grad_norm_(lists[1], MAX_NORM)
        ours.step()
        theirs.step()
        total = sum(local(g).square().sum() for g in grads)
        if kind == "fsdp2":
            dist.all_reduce(total)
        factor = torch.clamp(MAX_NORM / (total.sqrt() + 1e-6), max=1.0)
        for p, g, (m, v) in zip(exact, grads, moments):
            p, g, m, v = local(p), local(g) * factor, local(m), local(v)
            p.mul_(1 - RATE * 1e-2)
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).addcmul_(g, g, value=1e-3)
            p.sub_(RATE / (1 - 0.9 ** (step + 1)) * m
                   / ((v / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8))

    def distance(a, b):
        worst = torch.zeros((), dtype=torch.float64, device="cuda")
        for x, y in zip(a, b):
            if local(x).numel():
                worst = torch.maximum(worst, (local(x).detach().double()
                                              - local(y).detach().double()).abs().max())
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        return worst.item()
    return {"steps": STEPS, "ptxgen_to_f64": distance(lists[0], exact),
            "torch_to_f64": distance(lists[1], exact), "ptxgen_to_torch": distance(*lists[:2])}


def same_bits(mesh):
    """Sharded over two ranks and whole on one: the bits of 20 steps, given the same sums."""
    sizes = {"layers": 1, "c": 192}
    cut, whole = made("fsdp2", mesh, **sizes), made("ddp", mesh, **sizes)
    first, second = list(cut.parameters()), list(whole.parameters())
    ours = ptxgen.torch.AdamW(first, lr=RATE, max_grad_norm=MAX_NORM)
    alone = ptxgen.torch.AdamW(second, lr=RATE, max_grad_norm=MAX_NORM)
    equal_norms = same = 0
    for step in range(20):
        give(first, step)
        give(second, step)
        ours.step()
        alone.step()
        if torch.equal(ours.grad_norm, alone.grad_norm):  # a sum of f64 parts, rounded to f32
            equal_norms += 1
        same += all(torch.equal(p.full_tensor(), q.detach()) for p, q in zip(first, second))
    return {"steps": 20, "norms_equal": equal_norms, "weights_equal": same}


def rank_main(rank, world, folder, results):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=world,
                            device_id=torch.device("cuda", rank))
    mesh = init_device_mesh("cuda", (world,))
    found = {"gpu": torch.cuda.get_device_name(), "gpus": world, "torch": torch.__version__,
             "ptxgen": ptxgen.__version__, "model": "GPT-2 124M, f32, 148 tensors", "times": {}}
    for kind in ("fsdp2", "ddp"):
        found["times"][kind] = {}
        for name, make in variants(kind, mesh).items():
            params, work = make()
            give(params, 1)
            times = timed(work, params)
            times["host_still_us"] = host_only(work, params)
            found["times"][kind][name] = times
            del params, work
            torch.cuda.empty_cache()
        found["times"][kind]["weights"] = compared(kind, mesh)
    found["one_and_two_ranks"] = same_bits(mesh)
    if rank == 0:
        write_json(results, "fsdp2.json", found)
        report(found)
    dist.barrier()
    dist.destroy_process_group()


def report(found):
    print(f"{found['gpus']} x {found['gpu']}, torch {found['torch']}: {found['model']}")
    print(f"{'':8} {'clip and AdamW':28} {'device us':>10} {'min':>8} {'max':>8} {'host us':>9} {'still':>7}")
    for kind, rows in found["times"].items():
        for name, row in rows.items():
            if "device_us" in row:
                d = row["device_us"]
                print(f"{kind:8} {name:28} {d['median']:10.1f} {d['min']:8.1f} {d['max']:8.1f} "
                      f"{row['host_us']['median']:9.1f} {row['host_still_us']:7.1f}")
        w = rows["weights"]
        print(f"{kind:8} weights after {w['steps']} steps: ptxgen to f64 {w['ptxgen_to_f64']:.2e}, torch to "
              f"f64 {w['torch_to_f64']:.2e}, ptxgen to torch {w['ptxgen_to_torch']:.2e}")
    bits = found["one_and_two_ranks"]
    print(f"1 and 2 ranks: norms equal in {bits['norms_equal']}, weights in {bits['weights_equal']} of "
          f"{bits['steps']} steps")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    world = min(2, torch.cuda.device_count())
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(rank_main, (world, folder, os.path.abspath(sys.argv[1])), nprocs=world)


if __name__ == "__main__":
    main()
