#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whole steps of Muon: ptxgen.torch.Muon beside a batched form by hand (clip, momentum, Newton-Schulz with bmm in bf16
over the matrices of a shape, update), each in one CUDA graph, and torch.optim.Muon as it is, over four sets of matrices.

    bench/muon_step.py BUILD [-o FILE] [--only NAME] [--alone] [--launches] [--peers] [--package] [--torch]
                       [--products] [--samples N] [--windows N]

FILE receives lines of JSON. NAME may be parts of the names of several sets, with commas between them. Before a set is
timed, its first step is compared with that of the form by hand.

--alone     leaves out the form by hand
--launches  counts the launches of a step of ours, as the profiler sees them, over each set and over all together
--peers     adds forms by hand: with products in the Gram form in f16; in bf16 through torch.compile, whose first step (the
            compilation) is printed; and what --package adds
--package   adds the form by hand with the orthogonalization of the package gram_newton_schulz, compiled, where Python
            finds it: its torch path, and its kernels where their packages are installed, which multiply matrices of 256
            rows and more. The kernels that ran are counted
--torch     measures torch.optim.Muon, too, from Python, three times: it takes up to a second a step
--products  adds Newton-Schulz alone, batched, as muon_products.py has it: plain in bf16 and the Gram form in f16
--windows   measures, instead of all that, the step with all matrices at once and in about N windows

Needs a GPU.
"""
import argparse
import math
import sys
import time

import torch

import measure
import muon_products
import ptxgen
import ptxgen.torch
from scripts import needs_gpu
from shapes import GPT2

COEFFICIENTS, STEPS, EPS = (3.4445, -4.7750, 2.0315), 5, 1e-7
LR, MOMENTUM, DECAY, MAX_NORM = 0.02, 0.95, 0.1, 1.0
# name: the shapes of parameters, and how many matrices the rows of each are.
SETS = {
    "GPT-2 124M": (12 * [(768, 2304), (768, 768), (768, 3072), (3072, 768)], 1),
    "heads of an 8B model": (32 * [(6144, 4096)], 48),
    "convolutions": (21 * [(64, 32, 3, 3), (64, 64, 3, 3), (128, 64, 3, 3), (128, 128, 3, 3), (256, 128, 3, 3),
                           (256, 256, 1, 1)], 1),
    "Qwen2.5-0.5B": (24 * (2 * [(896, 896)] + 2 * [(128, 896)] + 2 * [(4864, 896)] + [(896, 4864)]), 1),
}


def parameters(shapes, seed=1):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    made = [torch.nn.Parameter(torch.randn(shape, device="cuda", generator=generator) * 0.02) for shape in shapes]
    for p in made:
        p.grad = torch.randn(p.shape, device="cuda", generator=generator) * 1e-3
    return made


class ByHand:
    """The same formula in PyTorch's calls on lists, with one batch of products a shape: the plain form in bf16, the
    Gram form in f16, or what a function makes of the batch."""

    def __init__(self, params, heads, gram=False, function=None):
        self.gram, self.function = gram, function
        self.gradients = [p.grad for p in params]
        self.params = params
        self.momenta = [torch.zeros_like(p) for p in params]
        self.batches = {}
        for k, p in enumerate(params):
            rows = p.shape[0] // heads
            self.batches.setdefault((rows, p.numel() // p.shape[0]), []).append(k)
        self.heads = heads

    def clip(self):
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self.gradients)))
        factor = (MAX_NORM / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(self.gradients, factor)

    def orthogonalized(self, x):
        turned = x.shape[-2] > x.shape[-1]
        x = x.mT.contiguous() if turned else x
        x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=EPS)
        if self.gram:
            x = muon_products.gram(x.half())
            return x.mT if turned else x
        a, b, c = COEFFICIENTS
        for _ in range(STEPS):
            gram = torch.bmm(x, x.mT)
            gram = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
            x = torch.baddbmm(x, gram, x, beta=a)
        return x.mT if turned else x

    @torch.no_grad()
    def step(self):
        self.clip()
        torch._foreach_lerp_(self.momenta, self.gradients, 1 - MOMENTUM)
        updates = torch._foreach_lerp(self.gradients, self.momenta, MOMENTUM)
        torch._foreach_mul_(self.params, 1 - LR * DECAY)
        for (rows, columns), which in self.batches.items():
            x = torch.cat([updates[k].reshape(-1, rows, columns) for k in which])
            x = x if self.gram or self.function else x.bfloat16()
            made = (self.function or self.orthogonalized)(x).split(self.heads)
            scale = -LR * math.sqrt(max(1, rows / columns))
            torch._foreach_add_([self.params[k] for k in which],
                                [one.reshape(self.params[k].shape).float() for k, one in zip(which, made)], alpha=scale)


def ours(params, heads, others=(), memory=None):
    groups = [{"params": params, "heads": heads if heads > 1 else None}]
    if others:
        groups.append({"params": others, "use_muon": False, "lr": 1e-3})
    return ptxgen.torch.Muon(groups, lr=LR, momentum=MOMENTUM, weight_decay=DECAY, max_grad_norm=MAX_NORM,
                              matrix_memory=memory)


def in_windows(params, heads, windows):
    """Steps at once and in windows, as works, with the launches and workspace of each."""
    works, plans = {}, {}
    for name in "ptxgen", "in windows":
        optimizer = ours(params, heads, memory=plans["ptxgen"].workspace // windows if plans else None)
        works[name] = measure.Work(optimizer.step)
        plans[name] = optimizer.describe()[0]
    return works, {name: {"launches": plan.launches, "workspace": plan.workspace} for name, plan in plans.items()}


def apart(shapes, heads, function=None):
    """The first step of both, from the same weights: the distance of the ways, against their length."""
    one, other = parameters(shapes), parameters(shapes)
    starts = [p.detach().clone() for p in one]
    ours(one, heads).step()
    ByHand(other, heads, function=function).step()
    with torch.no_grad():
        far = sum(float((p - q).double().square().sum()) for p, q in zip(one, other))
        way = sum(float((q - s).double().square().sum()) for q, s in zip(other, starts))
    return math.sqrt(far / way)


def kernels_of(step):
    """{name: launches} of kernels in a step, as the profiler sees them."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profile:
        step()
        torch.cuda.synchronize()
    counts = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset")):
            counts[event.name] = counts.get(event.name, 0) + 1
    return counts


def torchs(params, heads):
    """torch.optim.Muon over the matrices."""
    parts = [torch.nn.Parameter(part) for p in params for part in p.detach().flatten(1).chunk(heads)]
    for part in parts:
        part.grad = torch.randn_like(part) * 1e-3
    optimizer = torch.optim.Muon(parts, lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    torch.cuda.synchronize()
    return measure.Work(optimizer.step, captured=False)


def products(shapes, heads):
    """Newton-Schulz alone, over batches of matrices that lie already as they are multiplied."""
    counts = {}
    for shape in shapes:
        sides = sorted((shape[0] // heads, math.prod(shape[1:])))
        counts[tuple(sides)] = counts.get(tuple(sides), 0) + heads
    made = [torch.randn(count, *sides, device="cuda") for sides, count in counts.items()]
    made = [x / x.norm(dim=(1, 2), keepdim=True) for x in made]
    works = {}
    for name, form, dtype in ("plain", muon_products.plain, torch.bfloat16), ("Gram", muon_products.gram, torch.float16):
        batches = [x.to(dtype) for x in made]
        works[f"products alone, {name}"] = measure.Work(lambda form=form, batches=batches: [form(x) for x in batches])
    return works


def compiled(params, heads):
    torch._dynamo.reset()  # else the sizes of another set make it write code for any sizes
    step = torch.compile(ByHand(params, heads).step, dynamic=False)
    begin = time.monotonic()
    step()
    torch.cuda.synchronize()
    print(f"torch.compile: {time.monotonic() - begin:.1f} s for the first step", flush=True)
    return step


def packages(params, shapes, heads):
    """The form by hand with the products of gram_newton_schulz, with the same coefficients."""
    try:
        import gram_newton_schulz.gram_newton_schulz as package
    except ImportError as error:
        print(f"without gram_newton_schulz: {error}")
        return {}
    works = {}
    for name, kernels in ("gram_newton_schulz, torch", False), ("gram_newton_schulz, kernels", True):
        rows = max(min(shape[0] // heads, math.prod(shape[1:])) for shape in shapes)
        if kernels and rows < package.SYMMETRIC_KERNEL_TILE_SIZE:
            print(f"without {name}: it multiplies matrices of {rows} rows by torch")
            continue
        try:
            function = package.GramNewtonSchulz(ns_use_kernels=kernels, ns_coefficients=STEPS * [COEFFICIENTS],
                                                compile_kwargs={"fullgraph": True})
        except ImportError as error:
            print(f"without {name}: {error}")
            continue
        begin = time.monotonic()
        distance = apart(shapes, heads, function)
        print(f"{name}: {time.monotonic() - begin:.1f} s for the first step, {distance:.5f} apart from ours", flush=True)
        step = ByHand(params, heads, function=function).step
        ran = {kernel: count for kernel, count in kernels_of(step).items() if kernels == kernel.startswith("kernel_cutlass")}
        print(f"{name}: {sum(ran.values())} launches {'of its kernels' if kernels else 'of torch'} in a step", flush=True)
        for kernel, count in sorted(ran.items()) if kernels else ():
            print(f"    {count} of {kernel[:160]}", flush=True)
        works[name] = measure.Work(step)
    return works


def works_of(name, shapes, heads, options):
    works = {"ptxgen": measure.Work(ours(parameters(shapes), heads).step)}
    params = parameters(shapes)  # of all forms by hand: heads of several would not fit
    if not options.alone:
        works["by hand"] = measure.Work(ByHand(params, heads).step)
    if options.peers:
        works["by hand, Gram form in f16"] = measure.Work(ByHand(params, heads, gram=True).step)
        works["by hand, torch.compile"] = measure.Work(compiled(params, heads))
    if options.peers or options.package:
        works.update(packages(params, shapes, heads))
    if options.products:
        works.update(products(shapes, heads))
    if name == "GPT-2 124M":
        works["ptxgen, with AdamW of the rest"] = measure.Work(ours(parameters(shapes), heads, rest(shapes)).step)
    return works, torchs(params, heads) if options.torch else None


def rest(shapes):
    return parameters([shape for shape in GPT2 if tuple(shape) not in set(shapes)], seed=2)


def count_launches(sets):
    """Launches of a step over some sets, as the plan says and as the profiler sees, of five steps and of twelve."""
    name = " and ".join(sets)
    params = {name: parameters(shapes) for name, (shapes, _) in sets.items()}
    others = rest(sets["GPT-2 124M"][0]) if len(sets) > 1 else ()
    for steps in STEPS, 12:
        groups = [{"params": params[name], "heads": heads if heads > 1 else None} for name, (_, heads) in sets.items()]
        groups += [{"params": others, "use_muon": False, "lr": 1e-3}] if others else []
        optimizer = ptxgen.torch.Muon(groups, lr=LR, momentum=MOMENTUM, weight_decay=DECAY, max_grad_norm=MAX_NORM,
                                      ns_steps=steps)
        optimizer.step()
        ran = kernels_of(optimizer.step)
        said = optimizer.describe()[0].launches
        print(f"{name}{', with AdamW of the rest' if others else ''}: {steps} steps: {sum(ran.values())} launches, "
              f"{said} by describe(): {', '.join(f'{count} {kernel}' for kernel, count in ran.items())}", flush=True)
        del optimizer


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("-o", "--output")
    arguments.add_argument("--only", default="")
    for flag in "--alone", "--launches", "--peers", "--package", "--torch", "--products":
        arguments.add_argument(flag, action="store_true")
    arguments.add_argument("--samples", type=int, default=measure.REPETITIONS)
    arguments.add_argument("--windows", type=int, default=0)
    options = arguments.parse_args()
    needs_gpu()
    with ptxgen.Device() as gpu:
        output = measure.Output(options.output, gpu, options.samples)
    clock = measure.Clock(options.samples)
    failed = 0
    for name, (shapes, heads) in SETS.items():
        if not any(part in name for part in options.only.split(",")):
            continue
        if options.windows:
            works, plans = in_windows(parameters(shapes), heads, options.windows)
            for work, times in clock.compare(works).items():
                line = {"set": name, "work": work, "cache": "warm", **plans[work], **times}
                output.line(line)
                print("{set}: {work}, {launches} launches, {workspace} B: {median_us} us".format(**line), flush=True)
            del works
            torch.cuda.empty_cache()
            continue
        if options.launches:
            count_launches({name: (shapes, heads)})
        distance = apart(shapes, heads)
        failed += not distance < 0.05
        elements = sum(math.prod(shape) for shape in shapes)
        row = {"set": name, "matrices": len(shapes) * heads, "elements": elements, "first_step_apart": round(distance, 5)}
        works, eager = works_of(name, shapes, heads, options)
        rows = {}
        for cache, cold in ("warm", False), ("cold", True):
            rows.update({(work, cache): times for work, times in clock.compare(works, cold=cold).items()})
            if eager is not None:
                few = measure.Clock(3).compare({"torch": eager}, cold=cold)
                rows["torch.optim.Muon", cache] = few["torch"]
        for (work, cache), times in rows.items():
            line = {**row, "work": work, "cache": cache, **times}
            output.line(line)
            print("{set}: {work}, {cache}: {median_us} us ({min_us} to {max_us})".format(**line), flush=True)
        del works, eager
        torch.cuda.empty_cache()
    if options.launches and not options.only:
        count_launches(SETS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
