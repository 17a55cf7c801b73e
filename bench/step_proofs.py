#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds step plans against PyTorch's optimizers, against f64, and against themselves.

    step_proofs.py BUILD [-o FILE] [--only PART,...] [--small]

BUILD is the Meson build folder. Parts:

    bits        the first step: p and states have the bits of PyTorch's fused kernels; elements that
                differ are counted, by what PyTorch computes there instead
    steps       1,000 steps of each rule: no further from f64 than PyTorch's
    scaler      GradScaler with Inf and NaN in the gradients: the same steps skipped, the same scales
    stochastic  stochastic rounding: the mean error of 10^8 elements within 4 sigma of 0
    eight       8-bit states: bitsandbytes' maps, codes and absmax, read and written
    shards      parameters cut into 1, 2, 3 and 7 shards, contiguous and strided: the same bits
    replays     10,000 replays of a graph, 10,000 runs, 10,000 runs in phases: the same bits

Every case is a line, on the screen and in FILE as JSON. With PTXGEN_LIBCUDA naming the emulator and
no GPU, it runs small (as --small) beside PyTorch's CPU kernels, which are others: `bits` and `steps`
then say nothing about a GPU. Ends with 1 if a case failed.
"""
import argparse
import ctypes
import hashlib
import math
import os
import sys
import time
from typing import get_args

import torch

from device import Device
import ptxgen
from ptxgen._library import c as library
from torch_agreement import Report

ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
SGD = {"rule": "sgd", "lr": 1e-2, "momentum": 0.9, "weight_decay": 0.01}
RULES = {"adamw": {"rule": "adamw", **ADAM},
         "adam": {"rule": "adam", **ADAM},
         "sgd": SGD,
         "sgd, nesterov": {**SGD, "nesterov": True},
         "sgd, dampening": {**SGD, "dampening": 0.25},
         "sgd, plain": {**SGD, "momentum": 0.0},
         "lion": {"rule": "lion", "lr": 1e-4, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}}
STATES = {"full": torch.float32, "state_bf16": torch.bfloat16, "master": torch.float32,
          "remainder": torch.float32, "stochastic": torch.bfloat16, "state_8bit": torch.uint8}
FORMS = [form for form in STATES if form in get_args(ptxgen.StepFormatName)]
BLOCK = 256  # elements of a state in 8 bits that share an absmax
BESIDE = {"master": torch.float32, "remainder": torch.int16}
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16"}


def states_of(rule):
    if rule["rule"] == "sgd":
        return int(rule["momentum"] != 0)
    return {"lion": 1}.get(rule["rule"], 2)


def group_of(rule):
    """A struct ptx_step_group: the scalars are in a struct of their own."""
    own = ("rule", "nesterov", "maximize")
    return {**{name: rule[name] for name in own if name in rule},
            "hyper": {name: value for name, value in rule.items() if name not in own}}


class Tools:
    def __init__(self, small):
        self.device = Device()
        self.gpu = ptxgen.Device()
        self.small = small or self.device.emulated

    def size(self, large, small):
        return small if self.small else large


class Ours:
    """A step plan of one tensor, or of a shard of it, with memory of its own."""

    def __init__(self, tools, rule, p, form="full", tensor=None, **params):
        self.device = tools.device
        n = p.numel()
        self.p, self.g = self.device.like(p), self.device.zeros(n, p.dtype)
        self.states = [self.device.zeros(n, STATES[form]) for _ in range(states_of(rule))]
        self.beside = self.device.zeros(n, BESIDE[form]) if form in BESIDE else None
        if form == "master":
            self.beside.copy_(self.p)
        self.absmax = [self.device.zeros(-(-n // BLOCK), torch.float32) for _ in self.states
                       if form == "state_8bit"]
        self.count = self.device.zeros(1, torch.float32)
        state = [s.data_ptr() for s in self.states] + [0, 0]
        if self.absmax:
            at = [a.data_ptr() for a in self.absmax] + [0]
            tensor = {"absmax": (at[0], at[1]), **(tensor or {})}
        tensor = {"parameter": self.p.data_ptr(), "gradient": self.g.data_ptr(),
                  "state": (state[0], state[1]), "step": self.count.data_ptr(), "count": n,
                  "beside": self.beside.data_ptr() if form in BESIDE else 0,
                  "dtype": NAMES[p.dtype], "format": form, **(tensor or {})}
        params = {"max_norm": math.inf, "stream": self.device.stream, **params}
        self.plan = tools.gpu.step_plan([tensor], groups=[group_of(rule)], **params)

    def step(self, g):
        self.g.copy_(g)
        self.run()

    def run(self):
        self.plan.run(self.device.stream)
        if self.device.emulated:
            self.device.synchronize()

    def arrays(self):
        return [self.p, *self.states, *self.absmax] + ([] if self.beside is None
                                                       else [self.beside])


class Lion:
    """Lion as its authors wrote it, in PyTorch's operations; PyTorch has none."""

    def __init__(self, p, rule):
        self.p, self.rule, self.m = p, rule, torch.zeros_like(p)

    @torch.no_grad()
    def step(self):
        h, g = self.rule, self.p.grad
        self.p.mul_(1 - h["lr"] * h["weight_decay"])
        update = (self.m * h["beta1"]).add_(g, alpha=1 - h["beta1"])
        self.p.add_(update.sign_(), alpha=-h["lr"])
        self.m.mul_(h["beta2"]).add_(g, alpha=1 - h["beta2"])


class Torch:
    def __init__(self, rule, p):
        self.p = torch.nn.Parameter(p.clone())
        self.p.grad = torch.zeros_like(p)
        common = {"lr": rule["lr"], "weight_decay": rule["weight_decay"], "fused": True}
        if rule["rule"] == "lion":
            self.optimizer = Lion(self.p, rule)
        elif rule["rule"] == "sgd":
            self.optimizer = torch.optim.SGD([self.p], momentum=rule["momentum"],
                                             dampening=rule.get("dampening", 0.0),
                                             nesterov=rule.get("nesterov", False), **common)
        else:
            kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[rule["rule"]]
            self.optimizer = kind([self.p], betas=(rule["beta1"], rule["beta2"]),
                                  eps=rule["eps"], **common)

    def step(self, g):
        self.p.grad.copy_(g)
        self.optimizer.step()

    def states(self):
        if isinstance(self.optimizer, Lion):
            return [self.optimizer.m]
        state = self.optimizer.state[self.p]
        names = ("exp_avg", "exp_avg_sq", "momentum_buffer")
        return [state[name] for name in names if state.get(name) is not None]


def rounded(rule):
    """The rule with its scalars rounded to f32."""
    return {k: torch.tensor(v).item() if isinstance(v, float) else v for k, v in rule.items()}


class Exact:
    """The rule in f64, in plain formulas."""

    def __init__(self, rule, p):
        self.h, self.p, self.t = rule, p.double(), 0
        self.m, self.v, self.moved = torch.zeros_like(self.p), torch.zeros_like(self.p), None

    def step(self, g):
        h, p, g = self.h, self.p, g.double()
        self.t += 1
        if h["rule"] in ("adamw", "lion"):
            p = p - h["lr"] * h["weight_decay"] * p
        else:
            g = g + h["weight_decay"] * p
        move = {"adam": self.adam, "adamw": self.adam, "sgd": self.sgd, "lion": self.lion}[h["rule"]](g)
        self.moved = (p - move - self.p).abs()
        self.p = p - move

    def adam(self, g):
        h = self.h
        self.m = h["beta1"] * self.m + (1 - h["beta1"]) * g
        self.v = h["beta2"] * self.v + (1 - h["beta2"]) * g * g
        root = (self.v / (1 - h["beta2"] ** self.t)).sqrt()
        return h["lr"] * (self.m / (1 - h["beta1"] ** self.t)) / (root + h["eps"])

    def sgd(self, g):
        h = self.h
        if h["momentum"] == 0:
            return h["lr"] * g
        self.m = g if self.t == 1 else h["momentum"] * self.m + (1 - h.get("dampening", 0.0)) * g
        return h["lr"] * (g + h["momentum"] * self.m if h.get("nesterov") else self.m)

    def lion(self, g):
        h = self.h
        update = (h["beta1"] * self.m + (1 - h["beta1"]) * g).sign()
        self.m = h["beta2"] * self.m + (1 - h["beta2"]) * g
        return h["lr"] * update


# ---- bits ----------------------------------------------------------------------------------------


def fma(a, b, c):
    """a * b + c of f32 tensors, rounded once: through f64, rounded to odd."""
    product, c = a.double() * b.double(), c.double()
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    bits = total.view(torch.int64)
    nudge = (rest != 0) & (bits % 2 == 0)
    bits = bits + torch.where(nudge, torch.where((rest > 0) == (total > 0), 1, -1), 0)
    return bits.view(torch.float64).float()


def others(rule, p, g):
    """What else PyTorch may compute in a first step: {name: p} and a {name: state} for each state.
    AdamW has none."""
    def scalar(name):
        return torch.full_like(p, rule.get(name, 0.0))
    if rule["rule"] == "lion":
        decayed = p * (1 - rule["lr"] * rule["weight_decay"])
        return ({"p * rn(1 - lr * weight_decay)": decayed - scalar("lr") * g.sign()},
                [{"rn(1 - beta2) * g": g * (1 - rule["beta2"])}])
    if rule["rule"] == "adamw":
        return {}, [{}, {}]
    if rule["rule"] == "adam":
        name = "weight_decay * p rounded before it is added"
        moved, m, v = first_adam(rounded(rule), p, g + scalar("weight_decay") * p)
        return {name: moved}, [{name: m}, {name: v}]
    h = rule
    wide = (g.double() + h["weight_decay"] * p.double()).float()
    single = fma(scalar("weight_decay"), p, g)
    ahead, fused = wide, single
    if h.get("nesterov"):
        ahead = (wide.double() + h["momentum"] * wide.double()).float()
        fused = fma(scalar("momentum"), single, single)
    return ({"in f64, scalars not rounded to f32": (p.double() - h["lr"] * ahead.double()).float(),
             "the last product and difference fused": fma(-scalar("lr"), fused, p)},
            [{"in f64, scalars not rounded to f32": wide}])


def first_adam(h, p, g):
    """p, m and v of Adam's first step in f32, with the operations of rules.h from g on."""
    def f32(x):
        return torch.full_like(p, x)
    m = fma(f32(-h["beta1"]), g, g)
    v = fma(f32(-h["beta2"]), g * g, g * g)
    root = v.sqrt() / f32((1 - h["beta2"]) ** 0.5)
    step = f32(h["lr"]) / f32(1 - h["beta1"]) * m / (root + f32(h["eps"]))
    return p - step, m, v


def explained(mine, theirs, variants):
    """How many elements differ, how many of those have the bits of each variant, and of none."""
    differ = mine != theirs
    left, found = differ.clone(), {}
    for name, values in variants.items():
        found[name] = (differ & (theirs == values)).sum().item()
        left &= theirs != values
    return differ.sum().item(), left.sum().item(), {k: v for k, v in found.items() if v}


def check_bits(tools, report):
    n = tools.size(1 << 22, 1 << 14)
    for name, rule in RULES.items():
        p = tools.device.random(n, torch.float32, 1)
        g = tools.device.random(n, torch.float32, 2, 0.1)
        ours, torchs = Ours(tools, rule, p), Torch(rule, p)
        ours.step(g)
        torchs.step(g)
        of_p, of_state = others(rule, p, g)
        arrays = [("p", ours.p, torchs.p.detach(), of_p)]
        arrays += list(zip("mv", ours.states, torchs.states(), of_state))
        for which, mine, theirs, variants in arrays:
            differ, left, found = explained(mine, theirs, variants)
            report.case("bits", f"{name}, {which}, {n} elements", left == 0, differ=differ,
                        unexplained=left, explained=found)
        ours.plan.close()


# ---- steps ---------------------------------------------------------------------------------------


def distance(p, exact):
    """|p - f64| in ulp of f32 of max(|p|, |update|)."""
    scale = torch.maximum(exact.p.abs(), exact.moved)
    _, exponent = torch.frexp(scale)
    unit = torch.ldexp(torch.ones_like(scale), exponent.clamp(min=-125) - 24)
    return (p.double() - exact.p).abs() / unit


def check_steps(tools, report):
    """No further from f64 than PyTorch: on average, beyond the luck of these elements (3 standard
    errors). The largest of so many distances, mostly of a p that has come near 0, is luck alone."""
    n, steps = tools.size(1 << 18, 1 << 12), tools.size(1000, 40)
    for name, rule in RULES.items():
        p = tools.device.random(n, torch.float32, 3)
        ours, torchs = Ours(tools, rule, p), Torch(rule, p)
        exacts = {"f32": Exact(rounded(rule), p), "f64": Exact(rule, p)}
        generator = tools.device.generator(4)
        g = torch.empty_like(p)
        for _ in range(steps):
            g.normal_(0, 0.1, generator=generator)
            for side in (ours, torchs, *exacts.values()):
                side.step(g)
        for scalars, exact in exacts.items():
            mine, theirs = distance(ours.p, exact), distance(torchs.p.detach(), exact)
            further = mine - theirs
            luck = 3 * further.std().item() / math.sqrt(n)
            report.case("steps", f"{name}, {steps} steps, f64 with scalars in {scalars}",
                        further.mean().item() <= luck, mean_ulp=mine.mean().item(),
                        torch_mean_ulp=theirs.mean().item(), luck=luck,
                        max_ulp=mine.max().item(), torch_max_ulp=theirs.max().item())
        ours.plan.close()


# ---- GradScaler ----------------------------------------------------------------------------------


def check_scaler(tools, report):
    steps, n = tools.size(1000, 60), 4129
    for name in ("adamw", "sgd", "sgd, nesterov"):
        rule = RULES[name]
        p = tools.device.random(n, torch.float32, 5)
        ours = Ours(tools, rule, p, max_norm=1.0, eps=1e-6, loss_scale=65536.0,
                    update={"interval": 20})
        torchs = Torch(rule, p)
        scaler = torch.amp.GradScaler(tools.device.where, init_scale=65536.0, growth_interval=20)
        scaler.scale(torch.zeros(1, device=tools.device.where))  # creates its state
        generator, chance = tools.device.generator(6), torch.Generator().manual_seed(7)
        bad = torch.rand(steps, generator=chance) < 0.1
        # PyTorch's SGD takes a skipped first step for the one that starts its momentum.
        bad[0] = rule["rule"] != "sgd"
        differ, skipped, changes = 0, 0, 0
        for step in range(steps):
            g = torch.randn(n, generator=generator, device=tools.device.where) * scaler.get_scale()
            if bad[step]:
                g[step * 7 % n] = (math.inf, -math.inf, math.nan)[step % 3]
            before = [ours.p.clone(), torchs.p.detach().clone()]
            ours.step(g)
            torchs.p.grad.copy_(g)
            scaler.unscale_(torchs.optimizer)
            torch.nn.utils.clip_grad_norm_([torchs.p], 1.0)
            scaler.step(torchs.optimizer)
            old = scaler.get_scale()
            scaler.update()
            moved = [(now != then).any().item()
                     for now, then in zip((ours.p, torchs.p.detach()), before)]
            state = ours.plan.read(tools.device.stream).summary.state
            theirs = (scaler.get_scale(), scaler._get_growth_tracker())
            differ += (state.scale, state.growth_tracker) != theirs or moved[0] != moved[1]
            skipped += not moved[0]
            changes += scaler.get_scale() != old
        off = (ours.p - torchs.p.detach()).abs().max().item()
        report.case("scaler", f"{name}, {steps} steps", differ == 0
                    and skipped == bad.sum().item() and off < 1e-4, steps_that_differ=differ,
                    bad_steps=bad.sum().item(), skipped=skipped, changes_of_scale=changes,
                    counted=ours.count.item(), furthest_p=off)
        ours.plan.close()


# ---- stochastic rounding -------------------------------------------------------------------------


def bias(stored, exact):
    """The sum of the errors of bf16 values rounded from f32, in sigma; of wrong neighbours, how many."""
    total, variance, wrong = 0, 0.0, 0
    for first in range(0, stored.numel(), 1 << 24):
        x = exact[first:first + (1 << 24)].view(torch.int32)
        up = (stored[first:first + (1 << 24)].view(torch.int16).int() - (x >> 16)) & 0xffff
        low = (x & 0xffff).long()
        total += (up.long() * 65536 - low).sum().item()
        variance += (low * (65536 - low)).double().sum().item()
        wrong += ((up > 1) | ((up == 1) & (low == 0))).sum().item()
    return total / math.sqrt(variance), total / 65536 / stored.numel(), wrong


def check_stochastic(tools, report):
    n = tools.size(100_000_000, 1 << 16)
    for name in ("adamw", "lion", "sgd, dampening"):
        rule = RULES[name]
        p = tools.device.random(n, torch.bfloat16, 8)
        g = tools.device.random(n, torch.bfloat16, 9, 0.1)
        # The master format's first step has what the stochastic format rounds.
        exact = Ours(tools, rule, p, "master")
        rough = Ours(tools, rule, p, "stochastic", {"id": 3}, seed=2026)
        for side in (exact, rough):
            side.step(g)
        arrays = [("p", rough.p, exact.beside),
                  ("v" if len(rough.states) == 2 else "m", rough.states[-1], exact.states[-1])]
        for which, stored, wanted in arrays:
            sigmas, mean, wrong = bias(stored, wanted)
            report.case("stochastic", f"{name}, {which}, {n} elements",
                        abs(sigmas) <= 4 and wrong == 0, sigmas=sigmas, mean_error_ulp=mean,
                        not_a_neighbour=wrong)
        if len(rough.states) == 2:
            differ = (rough.states[0] != exact.states[0].bfloat16()).sum().item()
            report.case("stochastic", f"{name}, m to nearest", differ == 0, differ=differ)
        for side in (exact, rough):
            side.plan.close()


# ---- 8-bit states --------------------------------------------------------------------------------


def dynamic_map(signed):
    """As bitsandbytes' create_dynamic_map() defines it, for 8 bits."""
    entries = [0.0, 1.0]
    for power in range(7):
        edges = torch.linspace(0.1, 1, (1 << power) * (1 if signed else 2) + 1)
        middles = (edges[:-1] + edges[1:]) / 2 * 10 ** (power - 6)
        entries += middles.tolist() + ((-middles).tolist() if signed else [])
    return torch.tensor(sorted(entries))


def in_blocks(values):
    """A row for each block; the last one is filled with 0."""
    return torch.nn.functional.pad(values, (0, -values.numel() % BLOCK)).view(-1, BLOCK)


def quantized(values, map_):
    """Codes and absmax as bitsandbytes takes them: the nearest entry to value / absmax."""
    rows = in_blocks(values)
    absmax = rows.abs().amax(1)
    x = (rows / absmax.clamp(min=2.0 ** -126)[:, None]).flatten()[:values.numel()]
    middles = (map_[:-1].double() + map_[1:].double()) / 2
    return torch.bucketize(x.double(), middles).to(torch.uint8), absmax


def read_back(codes, absmax, map_):
    each = absmax.repeat_interleave(BLOCK)[:codes.numel()]
    return map_[codes.long()] * each


def check_eight(tools, report):
    """A step from codes and absmax that bitsandbytes would have written is that of the same states
    in f32; what it writes, bitsandbytes reads as the nearest entries. The library cuts 8 of 24 bits
    before it looks for the nearest: within 2^-15 of an edge it may take the other side."""
    if "state_8bit" not in FORMS:
        print("eight: left out, the library has no 8-bit states", flush=True)
        return
    n, device = tools.size(10_000_001, (1 << 14) + 77), tools.device
    maps = [dynamic_map(signed) for signed in (True, False)]
    for map_, signed in zip(maps, (True, False)):
        ours = (ctypes.c_float * BLOCK)()
        library.ptx_step_map(signed, ours)
        differ = (torch.tensor(list(ours)) != map_).sum().item()
        report.case("eight", f"map, {'signed' if signed else 'unsigned'}", differ == 0,
                    differ=differ)
    maps = [map_.to(device.where) for map_ in maps]
    for name in ("adamw", "lion", "sgd"):
        rule = RULES[name]
        p, g = (device.random(n, torch.float32, seed, 0.1) for seed in (30, 31))
        narrow, wide = Ours(tools, rule, p, "state_8bit"), Ours(tools, rule, p, "full")
        for side in (narrow, wide):
            side.count.fill_(9.0)
        before = [device.random(n, torch.float32, 32, 0.02),
                  device.random(n, torch.float32, 33, 0.02).square_()]
        for k, values in enumerate(before[:len(narrow.states)]):
            codes, absmax = quantized(values, maps[k])
            narrow.states[k].copy_(codes)
            narrow.absmax[k].copy_(absmax)
            wide.states[k].copy_(read_back(codes, absmax, maps[k]))
        for side in (narrow, wide):
            side.step(g)
        differ = (narrow.p != wide.p).sum().item()
        report.case("eight", f"{name}, p from codes, {n} elements", differ == 0, differ=differ)
        for which, k in zip("mv", range(len(narrow.states))):
            codes, absmax = quantized(wide.states[k], maps[k])
            x = wide.states[k].double() / absmax.repeat_interleave(BLOCK)[:n].double()
            off = (maps[k][narrow.states[k].long()].double() - x).abs()
            least = (maps[k][codes.long()].double() - x).abs()
            beyond = ((off - least) / x.abs().clamp(min=2.0 ** -126)).max().item()
            report.case("eight", f"{name}, {which}, codes and absmax",
                        beyond <= 2.0 ** -14 and torch.equal(narrow.absmax[k], absmax),
                        other_codes=(codes != narrow.states[k]).sum().item(), beyond=beyond,
                        absmax_differ=(narrow.absmax[k] != absmax).sum().item())
        for side in (narrow, wide):
            side.plan.close()


# ---- shards --------------------------------------------------------------------------------------


def cuts(rows, columns, parts, strided, unit):
    """Slices of a matrix and where they lie in it, as ptx_step_whole; edges at multiples of unit."""
    size = columns if strided else rows * columns
    edges = [size * k // parts // unit * unit for k in range(parts)] + [size]
    for first, last in zip(edges, edges[1:]):
        if strided:
            yield (slice(None), slice(first, last)), (first, last - first, columns)
        else:
            yield slice(first, last), (first, 0, 0)


def shards_differ(tools, rule, form, parts, strided):
    """Takes three steps with a whole matrix and with its shards, each shard with a plan of its own
    and the whole's sums; counts elements that differ."""
    unit = BLOCK if form == "state_8bit" else 1
    rows, columns = (9, 7 * BLOCK) if unit > 1 else tools.size((640, 1234), (33, 70))
    dtype = torch.float32 if form in ("full", "state_bf16") else torch.bfloat16
    device = tools.device
    params = {"form": form, "max_norm": 1.0, "seed": 11}

    def part(matrix, where):
        return (matrix.view(rows, columns) if strided else matrix)[where].flatten()

    p = device.random(rows * columns, dtype, 10)
    whole = Ours(tools, rule, p, tensor={"id": 5}, **params)
    places = list(cuts(rows, columns, parts, strided, unit))
    shards = [Ours(tools, rule, part(p, where), tensor={"id": 5, "whole": lies}, **params)
              for where, lies in places]
    for step in range(3):
        g = device.random(rows * columns, dtype, 20 + step)
        whole.g.copy_(g)
        whole.plan.norm_sq(device.stream)
        for shard, (where, _) in zip(shards, places):
            shard.g.copy_(part(g, where))
            shard.plan.norm_sq(device.stream)
            device.copy(shard.plan.sums.address, whole.plan.sums.address, 8)
        for side in (whole, *shards):
            side.plan.finish(device.stream)
            side.plan.step(device.stream)
        device.synchronize()
    differ = sum((mine != part(all_, where)).sum().item() for shard, (where, _) in zip(shards, places)
                 for mine, all_ in zip(shard.arrays(), whole.arrays())
                 if all_.numel() == rows * columns)
    for side in (whole, *shards):
        side.plan.close()
    return differ


def check_shards(tools, report):
    for form in FORMS:
        for name in ("adamw", "lion", "sgd"):
            for strided in (False, True):
                differ = {parts: shards_differ(tools, RULES[name], form, parts, strided)
                          for parts in (1, 2, 3, 7)}
                report.case("shards", f"{name}, {form}, {'strided' if strided else 'contiguous'}",
                            not any(differ.values()), differ=differ)


# ---- replays -------------------------------------------------------------------------------------


def digest(side):
    sums = hashlib.sha256()
    for array in (*side.arrays(), side.count):
        sums.update(array.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()[:16]


def in_phases(side):
    side.plan.norm_sq(side.device.stream)
    side.plan.finish(side.device.stream)
    side.plan.step(side.device.stream)


def check_replays(tools, report):
    n, times = tools.size(1 << 18, 1 << 12), tools.size(10_000, 20)
    for name, form in (("adamw", "full"), ("adamw", "stochastic"), ("adamw", "remainder"),
                       ("lion", "stochastic"), ("sgd, nesterov", "full"),
                       ("adamw", "state_8bit")):
        if form not in FORMS:
            continue
        dtype = torch.float32 if form == "full" else torch.bfloat16
        p = tools.device.random(n, dtype, 12)
        digests = {}
        for way in ("runs", "phases", "replays"):
            side = Ours(tools, RULES[name], p, form, max_norm=1.0, seed=13)
            side.g.copy_(tools.device.random(n, dtype, 14))
            again = {"runs": side.run, "phases": lambda side=side: in_phases(side)}.get(way)
            if way == "replays":
                if tools.device.emulated:
                    continue
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=tools.device.torch_stream):
                    side.run()
                again = graph.replay
            for _ in range(times):
                again()
            tools.device.synchronize()
            digests[way] = digest(side)
            taken = side.count.item()
            side.plan.close()
        report.case("replays", f"{name}, {form}, {times} times, {n} elements",
                    len(set(digests.values())) == 1 and taken == times, **digests, counted=taken)


# The one that loads the most plans is the last.
PARTS = {"bits": check_bits, "steps": check_steps, "scaler": check_scaler,
         "stochastic": check_stochastic, "eight": check_eight, "replays": check_replays,
         "shards": check_shards}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-o", "--output")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available() and "PTXGEN_LIBCUDA" not in os.environ:
        print("step_proofs.py: PyTorch sees no GPU, and PTXGEN_LIBCUDA names no emulator",
              file=sys.stderr)
        return 77
    tools, report, lines = Tools(options.small), Report(options.output), []
    for part in options.only.split(","):
        cases, failed, begun = report.cases, report.failed, time.monotonic()
        PARTS[part](tools, report)
        lines.append(f"{part:<12} {report.cases - cases:>5} {report.failed - failed:>7} "
                     f"{time.monotonic() - begun:>8.1f}")
        torch.cuda.empty_cache()
    print("\n".join(["", "part         cases  failed  seconds", *lines]))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
