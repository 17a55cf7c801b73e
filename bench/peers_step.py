#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times step plans (norm, clip, AdamW) against PyTorch's clip_grad_norm_ and fused AdamW, in a graph
and eager, on tensors of the same values; a first step of each is held against f64 before.

    peers_step.py BUILD [-o FILE] [--sets PART,...]

BUILD is the Meson build folder. PyTorch's AdamW in bf16 rounds parameters and states to nearest, ours
("stochastic") parameters and v stochastically. Ends with 1 if a result was wrong, 77 without a GPU.
"""
import argparse
import gc
import json
import os
import subprocess
import sys

import torch

import measure
import ptxgen
from measure import Work

SETS = ("LoRA 28 x 6", "2000 x 512", "GPT-2 124M", "GPT-2 350M", "GPT-2 1.5B")
HYPER = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
MAX_NORM = 1.0
SMALL_BYTES = 64 << 20
# Ours in the dtype of PyTorch's parameters, and the bytes of an element of `beside` and of the states.
FORMATS = {"f32": {"full": (0, 4), "state_bf16": (0, 2)},
           "bf16": {"stochastic": (0, 2), "remainder": (2, 4), "master": (4, 4)}}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Flat:
    """Tensors of the counts in one block of memory, each from a 512-byte boundary."""

    def __init__(self, counts, dtype):
        self.counts, self.starts, at = counts, [], 0
        for count in counts:
            self.starts.append(at)
            at += -(-count // 256) * 256
        self.memory = torch.zeros(at, device="cuda", dtype=dtype)

    def tensors(self):
        return [self.memory[s:s + n] for s, n in zip(self.starts, self.counts)]

    def addresses(self):
        size = self.memory.element_size()
        return [self.memory.data_ptr() + s * size for s in self.starts]


def random(counts, dtype, seed):
    flat = Flat(counts, dtype)
    flat.memory.normal_(generator=torch.Generator(device="cuda").manual_seed(seed))
    return flat


class Ours:
    def __init__(self, library, counts, dtype, form):
        beside, state = FORMATS[dtype][form]
        kinds = {2: torch.bfloat16, 4: torch.float32}
        self.parameter = random(counts, DTYPES[dtype], 1)
        self.gradient = random(counts, DTYPES[dtype], 2)
        self.state = [Flat(counts, kinds[state]) for _ in range(2)]
        self.beside = Flat(counts, {0: torch.uint8, 2: torch.int16, 4: torch.float32}[beside])
        if beside == 4:
            self.beside.memory.copy_(self.parameter.memory)
        self.step = torch.zeros(len(counts), device="cuda")
        rows = zip(self.parameter.addresses(), self.gradient.addresses(),
                   *[s.addresses() for s in self.state], self.beside.addresses())
        tensors = [{"parameter": p, "gradient": g, "state": (m, v), "beside": b if beside else 0,
                    "step": self.step.data_ptr() + 4 * k, "count": counts[k], "dtype": dtype,
                    "format": form, "id": k} for k, (p, g, m, v, b) in enumerate(rows)]
        torch.cuda.synchronize()
        self.plan = ptxgen.StepPlan(library, tensors, [{"rule": "adamw", **HYPER}],
                                    max_norm=MAX_NORM, eps=1e-6)

    def run(self):
        self.plan.run(torch.cuda.current_stream().cuda_stream)


class Torch:
    def __init__(self, counts, dtype):
        self.parameter = random(counts, DTYPES[dtype], 1)
        self.gradient = random(counts, DTYPES[dtype], 2)
        self.parameters = [torch.nn.Parameter(t) for t in self.parameter.tensors()]
        for p, g in zip(self.parameters, self.gradient.tensors()):
            p.grad = g
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=HYPER["lr"], betas=(HYPER["beta1"], HYPER["beta2"]),
            eps=HYPER["eps"], weight_decay=HYPER["weight_decay"], fused=True, capturable=True)

    def run(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_NORM)
        self.optimizer.step()


def exact_step(counts, dtype):
    """The parameters after one step, in f64."""
    p = random(counts, DTYPES[dtype], 1).memory.double()
    g = random(counts, DTYPES[dtype], 2)
    norm = torch.stack([t.double().square().sum() for t in g.tensors()]).sum().sqrt()
    g = g.memory.double() * min(1.0, MAX_NORM / (norm.item() + 1e-6))
    m, v = (1 - HYPER["beta1"]) * g, (1 - HYPER["beta2"]) * g * g
    p -= HYPER["lr"] * HYPER["weight_decay"] * p
    denominator = (v / (1 - HYPER["beta2"])).sqrt() + HYPER["eps"]
    return p - HYPER["lr"] * m / (1 - HYPER["beta1"]) / denominator


def error(parameter, exact):
    """The mean distance from f64: rounding to nearest moves a parameter by less than its last
    place; stochastic rounding does not move the mean."""
    return (parameter.memory.double() - exact).abs().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-o", dest="output")
    parser.add_argument("--sets", default=",".join(SETS))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit(77)
    torch.zeros(1, device="cuda")
    library = ptxgen.Library(os.path.join(options.build, "libptxgen.so"))
    output, clock, wrong = measure.Output(options.output, library), measure.Clock(), 0
    rate, copy = clock.copy_rate()
    output.line({"kind": "copy", "tb_s": rate / 1e12, **copy})
    listed = subprocess.run([os.path.join(options.build, "bench", "list_sets")], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    for line in map(json.loads, listed):
        if line["set"] not in options.sets.split(","):
            continue
        for dtype, forms in FORMATS.items():
            counts = line["counts"]
            exact = exact_step(counts, dtype) if sum(counts) < 1 << 28 else None
            works = {form: Ours(library, counts, dtype, form) for form in forms}
            works["torch"] = Torch(counts, dtype)
            for name, work in works.items():
                work.run()
                torch.cuda.synchronize()
                if exact is not None:
                    off = error(work.parameter, exact)
                    fine = off < (5e-8 if dtype == "f32" else 4e-3)
                    wrong += not fine
                    output.line({"kind": "step check", "set": line["set"], "dtype": dtype,
                                 "version": name, "mean_error": off, "ok": fine})
                    if not fine:
                        print(f"{line['set']} {dtype} {name}: mean error {off:.3g}")
            del exact
            small = sum(counts) * 28 < SMALL_BYTES
            calls = 10 if small else 1
            captured = {name: Work(w.run, calls=calls) for name, w in works.items()}
            captured["torch eager"] = Work(works["torch"].run, captured=False)
            times = clock.compare(captured)
            for name, time in times.items():
                output.line({"kind": "step", "set": line["set"], "dtype": dtype, "version": name,
                             "elements": sum(counts), "tensors": len(counts), **time})
            print(f"{line['set']} {dtype}: " + ", ".join(
                f"{name} {time['median_us']:.1f}" for name, time in times.items()), flush=True)
            for work in works.values():
                if isinstance(work, Ours):
                    work.plan.destroy()
            del captured, works
            gc.collect()
            torch.cuda.empty_cache()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
