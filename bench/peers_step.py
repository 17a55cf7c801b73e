#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times step plans (norm, clip, AdamW) against PyTorch, torch.compile, CUDA C++ and apex's way, on
tensors of the same values; what the first step of each version left is held against f64 before.

    peers_step.py BUILD [-o FILE] [--peers LIBRARY] [--only PART,...] [--compile-seconds N] [--warm]

BUILD is the Meson build folder, LIBRARY is made of peers_*.cu (gpu_bench.sh makes it); without it
the versions in CUDA C++ are left out. A part is "SET/dtype", as in "LoRA 28 x 6/f32", or "sweep":
time against the number of tensors and against bytes. Versions, besides our formats:

    torch             clip_grad_norm_ and fused AdamW
    torch grad_scale  the norm, and fused AdamW that divides the gradients: opt.grad_scale
    torch.compile     clip_grad_norm_ and AdamW compiled together; left out where that takes more
                      than N seconds (default 60)
    CUDA C++          all parameters as one array, two launches
    multi_tensor      tables in the kernels' arguments, as in apex and Transformer Engine

In bf16, ours ("stochastic") and CUDA C++ round parameters and v stochastically, the others to
nearest. "host" is the time of the call alone, without the wait for the GPU. --warm compiles what
torch.compile needs and times nothing: what it keeps on disk makes a later run quicker. Ends with 1 if a result
was wrong, 77 without a GPU.
"""
import argparse
import ctypes
import gc
import json
import math
import os
import signal
import subprocess
import sys
import time
from ctypes import c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import get_args

import torch
import torch._inductor.config

import measure
import ptxgen
from measure import Work
from peers_kernels import CODES, DTYPES, stream
from scripts import needs_gpu

# Set and dtype, our formats, and whether torch.compile is tried.
CASES = {"LoRA 28 x 6/f32": (("full",), True), "2000 x 512/f32": (("full",), False),
         "GPT-2 124M/f32": (("full", "state_bf16"), True),
         "GPT-2 124M/bf16": (("stochastic", "remainder", "master", "state_8bit"), True),
         "Qwen2.5-0.5B/bf16": (("stochastic", "master", "state_8bit"), False),
         "GPT-2 1.5B/bf16": (("stochastic", "state_8bit"), False)}
HYPER = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
MAX_NORM = 1.0
SMALL_BYTES = 64 << 20
SLICE = 1 << 26
BLOCK = 256  # elements that share an absmax in 8 bits
# The types of a format's `beside` and states.
FORMATS = {"full": (None, torch.float32), "state_bf16": (None, torch.bfloat16),
           "master": (torch.float32, torch.float32), "remainder": (torch.int16, torch.float32),
           "stochastic": (None, torch.bfloat16), "state_8bit": (None, torch.uint8)}


class Flat:
    """Tensors of the counts in one block of memory, each from a boundary of 256 elements; zeros."""

    def __init__(self, counts, dtype):
        self.counts, self.starts, at = counts, [], 0
        for count in counts:
            self.starts.append(at)
            at += -(-count // 256) * 256
        self.memory = torch.zeros(at, device="cuda", dtype=dtype)

    def tensors(self):
        return [self.memory[s:s + n] for s, n in zip(self.starts, self.counts)]

    def addresses(self, elements_each=1):
        size = self.memory.element_size()
        return [self.memory.data_ptr() + s // elements_each * size for s in self.starts]


def random(counts, dtype, seed):
    """Normally distributed; 0 between the tensors, so that the whole has the tensors' norm."""
    flat = Flat(counts, DTYPES[dtype])
    flat.memory.normal_(generator=torch.Generator(device="cuda").manual_seed(seed))
    for start, count in zip(flat.starts, counts):
        if count % 256:
            flat.memory[start + count:start + -(-count // 256) * 256].zero_()
    return flat


class Version:
    """Parameters and gradients of the same values in every version, and states of zeros."""

    def __init__(self, counts, dtype, state=None):
        self.parameter, self.gradient = random(counts, dtype, 1), random(counts, dtype, 2)
        self.state = [Flat(counts, state or DTYPES[dtype]) for _ in range(2)]

    moves = True  # parameters take a step of lr on average, whatever they are rounded to

    def values(self, part):
        """A slice of the parameters, in f64."""
        return self.parameter.memory[part].double()

    def destroy(self):
        pass


class Ours(Version):
    def __init__(self, gpu, counts, dtype, form):
        beside, state = FORMATS[form]
        super().__init__(counts, dtype, state)
        self.beside = Flat(counts, beside) if beside else None
        if form == "master":
            self.beside.memory.copy_(self.parameter.memory)
        self.step = torch.zeros(len(counts), device="cuda")
        tensors = [{"parameter": p, "gradient": g, "state": (m, v), "count": n, "dtype": dtype,
                    "step": self.step.data_ptr() + 4 * k, "id": k,
                    "format": form}
                   for k, (p, g, m, v, n) in enumerate(zip(
                       self.parameter.addresses(), self.gradient.addresses(),
                       *[s.addresses() for s in self.state], counts))]
        if beside:
            for tensor, address in zip(tensors, self.beside.addresses()):
                tensor["beside"] = address
        if form == "state_8bit":
            blocks = -(-self.parameter.memory.numel() // BLOCK)
            self.absmax = [torch.zeros(blocks, device="cuda") for _ in range(2)]
            for tensor, start in zip(tensors, self.parameter.starts):
                tensor["absmax"] = tuple(a.data_ptr() + start // BLOCK * 4 for a in self.absmax)
        self.form = form
        torch.cuda.synchronize()
        self.plan = gpu.step_plan(tensors, groups=[{"rule": "adamw", "hyper": HYPER}],
                                  max_norm=MAX_NORM, eps=1e-6)

    def values(self, part):
        """With what a parameter of 16 bits has beside it."""
        if self.form == "master":
            return self.beside.memory[part].double()
        if self.form != "remainder":
            return super().values(part)
        high = self.parameter.memory[part].view(torch.int16).int() << 16
        return (high + self.beside.memory[part].int()).view(torch.float32).double()

    def run(self):
        self.plan.run(stream())

    def destroy(self):
        self.plan.close()


class Torch(Version):
    how = {"fused": True}

    def __init__(self, counts, dtype):
        super().__init__(counts, dtype)
        self.moves = dtype == "f32"
        self.parameters = [torch.nn.Parameter(t) for t in self.parameter.tensors()]
        for p, g in zip(self.parameters, self.gradient.tensors()):
            p.grad = g
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=HYPER["lr"], betas=(HYPER["beta1"], HYPER["beta2"]),
            eps=HYPER["eps"], weight_decay=HYPER["weight_decay"], capturable=True, **self.how)
        for p, m, v in zip(self.parameters, *[s.tensors() for s in self.state]):
            self.optimizer.state[p] = {"step": torch.zeros((), device="cuda"), "exp_avg": m,
                                       "exp_avg_sq": v}

    def run(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_NORM)
        self.optimizer.step()


class GradScale(Torch):
    """The fused step divides the gradients by grad_scale, and writes them back."""

    def run(self):
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters])
        self.optimizer.grad_scale = (norm.float() / MAX_NORM).clamp(min=1.0)
        self.optimizer.step()


class Compiled(Torch):
    how = {"foreach": True}

    def __init__(self, counts, dtype):
        super().__init__(counts, dtype)
        self.run = torch.compile(super().run)

    def restart(self, parameter, gradient):
        self.parameter.memory.copy_(parameter)
        self.gradient.memory.copy_(gradient)
        for flat in self.state:
            flat.memory.zero_()
        for state in self.optimizer.state.values():
            state["step"].zero_()


class Cuda(Version):
    """In CUDA C++: a list as apex takes it, or everything between the first and the last tensor."""

    def __init__(self, peers, counts, dtype, apex):
        super().__init__(counts, dtype)
        flats = [self.parameter, self.gradient, *self.state]
        if not apex:
            counts = [self.parameter.memory.numel()]
        lists = [(c_uint64 * len(counts))(*flat.addresses()[:len(counts)]) for flat in flats]
        table = (c_void_p * 4)(*[ctypes.addressof(list_) for list_ in lists])
        scalars = (c_float * 6)(*[HYPER[k] for k in ("lr", "beta1", "beta2", "eps",
                                                     "weight_decay")], MAX_NORM)
        peers.peers_step_create.restype = c_void_p
        self.peers, self.moves = peers, dtype == "f32" or not apex
        self.handle = c_void_p(peers.peers_step_create(
            c_int(CODES[dtype]), c_int(apex), table, (c_uint64 * len(counts))(*counts),
            c_size_t(len(counts)), scalars))
        if not self.handle:
            raise RuntimeError("libpeers: no memory")

    def run(self):
        if self.peers.peers_step_run(self.handle, c_void_p(stream())):
            raise RuntimeError("libpeers: a launch failed")

    def destroy(self):
        self.peers.peers_step_destroy(self.handle)


# ---- the first step ------------------------------------------------------------------------------


def slices(count):
    return [slice(first, min(first + SLICE, count)) for first in range(0, count, SLICE)]


class Reference:
    """The first step in f64, by slices of the whole."""

    def __init__(self, counts, dtype):
        self.parameter, self.gradient = random(counts, dtype, 1), random(counts, dtype, 2)
        self.parts = slices(self.parameter.memory.numel())
        squares = [self.gradient.memory[s].double().square().sum().item() for s in self.parts]
        self.factor = min(1.0, MAX_NORM / (math.sqrt(sum(squares)) + 1e-6))

    def errors(self, version):
        """The mean distance of the parameters in their own unit, that of the states over their mean;
        and how much too far the parameters went on average, in lr."""
        off, size, drift = [0.0] * 3, [0.0] * 3, 0.0
        for s in self.parts:
            g = self.gradient.memory[s].double() * self.factor
            m, v = (1 - HYPER["beta1"]) * g, (1 - HYPER["beta2"]) * g * g
            p = self.parameter.memory[s].double() * (1 - HYPER["lr"] * HYPER["weight_decay"])
            p -= HYPER["lr"] * g / (g.abs() + HYPER["eps"])
            mine = version.values(s)
            states = [] if version.state[0].memory.dtype == torch.uint8 else version.state
            states = [flat.memory[s].double() for flat in states]
            for k, (value, exact) in enumerate(zip([mine, *states], (p, m, v))):
                off[k] += (value - exact).abs().sum().item()
                size[k] += exact.abs().sum().item()
            drift += ((p - mine) * g.sign()).sum().item()
        count = self.parameter.memory.numel()
        errors = {"p_error": off[0] / count, "drift": abs(drift) / count / HYPER["lr"]}
        if states:
            errors.update(m_error=off[1] / size[1], v_error=off[2] / size[2])
        return errors


def tolerances(version, dtype):
    """Of the norm, as far as the version's sums go: PyTorch's of bf16 gradients is a bf16. Of states
    besides, a unit. Of parameters of about 1, what rounding moves them by."""
    norm = 1e-6
    if not isinstance(version, Ours):
        norm = 1.6e-2 if dtype == "bf16" and isinstance(version, Torch) else 1e-4
    unit = 2.0 ** -8 if version.state[0].memory.dtype == torch.bfloat16 else 1e-6
    wide = dtype == "f32" or getattr(version, "form", None) in ("master", "remainder")
    # Rounded to nearest, a bf16 parameter of about 1 does not move at all.
    return {"p_error": 5e-8 if wide else 4e-3, "drift": 0.02 if version.moves else 1.1,
            "m_error": unit + norm, "v_error": unit + 2 * norm}


# ---- the bench -----------------------------------------------------------------------------------


class OutOfTime(Exception):
    pass


def within(seconds, run):
    """Runs it; raises OutOfTime if that takes longer, whatever the compiler makes of it."""
    fired = []

    def stop(*_):
        fired.append(True)
        raise OutOfTime
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        run()
    except Exception:
        if fired:
            raise OutOfTime from None
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Bench(measure.Bench):
    def __init__(self, options):
        # Tuning results from when everything was compiling at once are not valid.
        torch._inductor.config.autotune_local_cache = False
        super().__init__(options)
        self.peers = ctypes.CDLL(options.peers) if options.peers else None
        self.begun = time.monotonic()
        self.time_copy()

    def say(self, text):
        print(f"{time.monotonic() - self.begun:6.1f} s  {text}", flush=True)

    def versions(self, part, counts, dtype):
        forms, compiled = CASES[part]
        for form in forms:
            if form in get_args(ptxgen.StepFormatName):
                yield form, Ours(self.gpu, counts, dtype, form)
        yield "torch", Torch(counts, dtype)
        yield "torch grad_scale", GradScale(counts, dtype)
        if self.peers:
            yield "CUDA C++", Cuda(self.peers, counts, dtype, apex=0)
            yield "multi_tensor", Cuda(self.peers, counts, dtype, apex=1)
        if compiled and self.options.compile_seconds:
            yield "torch.compile", Compiled(counts, dtype)

    def compiles(self, line, version):
        """Whether torch.compile manages in time, and what it made can be captured. The parameters
        are as before afterwards."""
        kept = [flat.memory.clone() for flat in (version.parameter, version.gradient)]
        try:
            within(self.options.compile_seconds, version.run)
            Work(version.run)
        except OutOfTime:
            why = f"not within {self.options.compile_seconds} s"
        except Exception as error:  # whatever the compiler raises is a result, not ours to mend
            why = f"{type(error).__name__}: {error}"[:300]
        else:
            version.restart(*kept)
            return True
        self.say(f"{line['part']} {line['version']}: left out, {why}")
        self.output.line({**line, "left_out": why})
        return False

    def checked(self, part, counts, dtype):
        """The versions whose first step was taken, each of them checked."""
        reference, made = Reference(counts, dtype), {}
        for name, version in self.versions(part, counts, dtype):
            line = {"kind": "step check", "part": part, "version": name}
            begun = time.monotonic()
            if name == "torch.compile" and not self.compiles(line, version):
                continue
            version.run()
            torch.cuda.synchronize()
            errors, allowed = reference.errors(version), tolerances(version, dtype)
            fine = all(errors[k] <= allowed[k] for k in errors)
            self.wrong += not fine
            self.output.line({**line, **errors, "allowed": allowed, "ok": fine,
                              "first_seconds": round(time.monotonic() - begun, 3)})
            if not fine:
                self.say(f"WRONG {part} {name}: {errors}, allowed {allowed}")
            made[name] = version
        return made

    def times(self, part, counts, form, times):
        for name, time_ in times.items():
            self.output.line({"kind": "step", "part": part, "version": name, "form": form,
                              "elements": sum(counts), "tensors": len(counts), **time_})
        self.say(f"{part}, {form}: " + ", ".join(
            f"{name} {time_['median_us']:.1f}" for name, time_ in times.items()))

    def case(self, part, counts):
        dtype = part.split("/")[1]
        made = self.checked(part, counts, dtype)
        small = sum(counts) * 28 < SMALL_BYTES
        calls = 10 if small else 1
        graphs = {name: Work(version.run, calls=calls) for name, version in made.items()}
        self.times(part, counts, "graph", self.clock.compare(graphs))
        if small:
            del graphs
            graphs = {name: Work(version.run) for name, version in made.items()}
            self.times(part, counts, "cold graph", self.clock.compare(graphs, cold=True))
        plain = {name: Work(version.run, captured=False) for name, version in made.items()}
        self.times(part, counts, "eager", self.clock.compare(plain))
        self.times(part, counts, "host", self.clock.host(plain))
        del graphs, plain
        for version in made.values():
            version.destroy()

    # ---- against tensors and bytes ---------------------------------------------------------------

    def compare_lists(self, kind, form, dtype, lists):
        """Times lists of tensors, {name: counts}, in turns."""
        made = {name: Ours(self.gpu, counts, dtype, form) for name, counts in lists.items()}
        small = max(map(sum, lists.values())) * 28 < SMALL_BYTES
        works = {name: Work(v.run, calls=10 if small else 1) for name, v in made.items()}
        times = self.clock.compare(works)
        for name, time_ in times.items():
            self.output.line({"kind": kind, "format": form, "list": str(name),
                              "elements": sum(lists[name]), "tensors": len(lists[name]), **time_})
        del works
        for version in made.values():
            version.destroy()
        return {name: time_["median_us"] for name, time_ in times.items()}

    def sweep(self):
        for form, dtype in (("full", "f32"), ("stochastic", "bf16")):
            for power in range(6):  # tensors of 4,096 elements, and one of as many
                n = 10 ** power
                us = self.compare_lists("sweep tensors", form, dtype,
                                        {"many": [4096] * n, "one": [4096 * n]})
                self.say(f"sweep {form}: {n} x 4096 {us['many']:.1f}, one {us['one']:.1f}: "
                         f"{us['many'] / us['one']:.3f}")
            total = 4096 * 100_000
            us = self.compare_lists("sweep split", form, dtype,
                                    {n: [total // n] * n for n in (1, 10, 100, 1000, 10_000)})
            self.say(f"sweep {form}: {total} elements in " + ", ".join(
                f"{n} {time_:.0f}" for n, time_ in us.items()))
            for power in range(22, 32):
                us = self.compare_lists("sweep bytes", form, dtype, {"one": [1 << power]})
                self.say(f"sweep {form}: 2^{power} elements {us['one']:.1f}")
            free_memory()


def free_memory():
    gc.collect()
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    time.sleep(0.3)  # the driver wipes what was freed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-o", dest="output")
    parser.add_argument("--peers")
    parser.add_argument("--only", default=",".join([*CASES, "sweep"]))
    parser.add_argument("--compile-seconds", type=int, default=60)
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    needs_gpu()
    bench = None if options.warm else Bench(options)
    listed = subprocess.run([os.path.join(options.build, "bench", "list_sets")], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    sets = {line["set"]: line["counts"] for line in map(json.loads, listed)}
    if options.warm:
        for part in options.only.split(","):
            if part in CASES and CASES[part][1]:
                Compiled(sets[part.split("/")[0]], part.split("/")[1]).run()
        return 0
    if "state_8bit" not in get_args(ptxgen.StepFormatName):
        bench.say("8-bit states: left out, the library has no such format")
    for part in options.only.split(","):
        if part == "sweep":
            bench.sweep()
        else:
            bench.case(part, sets[part.split("/")[0]])
        free_memory()
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
