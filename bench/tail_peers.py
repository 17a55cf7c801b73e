#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a training step has beside clipping and AdamW, in our step and by the formulas of PyTorch and the quantizers after
its own: GPT-2 124M in f32, each as one CUDA graph, cold.

    bench/tail_peers.py BUILD [-o FILE] [--samples N] [--only NAME]...

PyTorch's clip_grad_norm_ and fused AdamW are followed by the formula in PyTorch's operations, foreach where there is one;
timm's adaptive_clip_grad() is before it, and so is the sum of two micro-batches. What ours leaves is first held against the
same formula of its own weights and gradients. Under `python -m ptxgen emulate --device sm_90,pageable --` small shapes are
checked, and nothing is timed. Ends with 1 if a result was wrong.
"""
import argparse
import gc
import sys

import torch

import measure  # finds the package
import ptxgen.torch as pt
from scripts import gpu_or_emulator, write_lines
from shapes import GPT2

LR, DECAY, LARGEST, BLOCK = 1e-4, 0.999, 448.0, 128
E4M3 = torch.float8_e4m3fn


class Model:
    """Parameters with gradients, the same in each."""

    def __init__(self, shapes, device):
        generator = torch.Generator(device=device).manual_seed(1)
        def made(shape, size):
            return torch.randn(shape, device=device, generator=generator) * size
        self.params = [torch.nn.Parameter(made(shape, 0.02)) for shape in shapes]
        self.first, self.second = [[made(shape, 1e-3) for shape in shapes] for _ in range(2)]
        for some in (self.first, self.second):
            for g in some:
                g.view(-1)[::97] = 0.0
        self.matrices = [p for p in self.params if p.dim() == 2]

    def give(self, gradients):
        for p, g in zip(self.params, gradients):
            p.grad = g

    def weights(self):
        return [p.detach() for p in self.params]


# ---- formulas, of lists of tensors


def gradient_reports(gradients):
    return (torch.stack(torch._foreach_norm(gradients)), torch.stack(torch._foreach_norm(gradients, float("inf"))),
            torch.stack([g.numel() - torch.count_nonzero(g) for g in gradients]))


def largest(weights):
    return torch.stack(torch._foreach_norm(weights, float("inf")))


def cast(weight, scale):
    return (weight * scale).clamp(-LARGEST, LARGEST).to(E4M3)


def block_cast(x):
    """DeepGEMM's per_block_cast_to_fp8, with the padding of its edges."""
    rows, columns = x.shape
    padded = torch.nn.functional.pad(x, (0, -columns % BLOCK, 0, -rows % BLOCK))
    view = padded.view(padded.shape[0] // BLOCK, BLOCK, padded.shape[1] // BLOCK, BLOCK)
    # A divisor that is a number is a product with its rounded reciprocal on a GPU: other last bits.
    factors = view.abs().amax(dim=(1, 3), keepdim=True).clamp(1e-4) / torch.full((), LARGEST, device=x.device)
    codes = (view * (1.0 / factors)).to(E4M3).view(padded.shape)
    return codes[:rows, :columns].contiguous(), factors.view(view.shape[0], view.shape[2])


def unit_norm(x):
    return x.norm() if x.dim() < 2 else x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))


def clip_units(params, clipping=0.01, eps=1e-3):
    """timm's adaptive_clip_grad()."""
    for p in params:
        most, norm = unit_norm(p.detach()).clamp(min=eps) * clipping, unit_norm(p.grad)
        p.grad.copy_(torch.where(norm < most, p.grad, p.grad * (most / norm.clamp(min=1e-6))))


# ---- what each has beside the step: ours, and what PyTorch does before and after its own


def torch_parts(name, model):
    """Functions that PyTorch calls before the clipping, between it and the step, and after the step."""
    nothing, weights, matrices = (lambda: None), model.weights(), [p.detach() for p in model.matrices]
    if name == "reports":
        return lambda: gradient_reports(model.first), nothing, lambda: torch._foreach_norm(weights)
    if name == "amax":
        return nothing, nothing, lambda: largest(matrices)
    if name.startswith("e4m3 copy"):
        history = torch.ones(16, len(matrices), device=weights[0].device)

        def copies():
            scales = LARGEST / history.amax(dim=0)
            history.copy_(history.roll(1, 0))
            history[0] = largest(matrices)
            codes = [cast(w, scale) for w, scale in zip(matrices, scales)]
            return codes, [c.view(torch.uint8).t().contiguous() for c in codes] if "transpose" in name else None
        return nothing, nothing, copies
    if name == "e4m3 blocks":
        return nothing, nothing, lambda: [(*block_cast(w), block_cast(w.t().contiguous())) for w in matrices]
    if name == "ema":
        averages = [w.clone() for w in weights]
        return nothing, nothing, lambda: torch._foreach_lerp_(averages, weights, 1 - DECAY)
    if name == "agc":
        return nothing, lambda: clip_units(model.params), nothing
    if name == "two micro-batches":
        return lambda: torch._foreach_add_(model.first, model.second), nothing, nothing
    return nothing, nothing, nothing


OURS = {"plain": lambda: {}, "reports": lambda: {"reports": True},
        "amax": lambda: {"fp8": pt.Float8Weights(copies=False)},
        "e4m3 copy": lambda: {"fp8": pt.Float8Weights()},
        "e4m3 copy, transpose": lambda: {"fp8": pt.Float8Weights(transposed=True)},
        "e4m3 blocks": lambda: {"fp8": pt.Float8Weights(blocks="128x128", scaling="deepgemm", transposed=True)},
        "ema": lambda: {"ema_decay": DECAY}, "agc": lambda: {"agc": 0.01}, "two micro-batches": lambda: {}}


def ours(name, model):
    optimizer = pt.AdamW(model.params, lr=LR, max_grad_norm=1.0, **OURS[name]())
    model.give(model.first)
    if name != "two micro-batches":
        return optimizer, optimizer.step

    def step():
        model.give(model.second)
        optimizer.accumulate()
        model.give(model.first)
        optimizer.step()
    return optimizer, step


def of_torch(name, model):
    settings = {"capturable": True} if model.params[0].is_cuda else {}
    optimizer = torch.optim.AdamW(model.params, lr=LR, fused=True, **settings)
    before, between, after = torch_parts(name, model)
    model.give(model.first)

    def step():
        before()
        torch.nn.utils.clip_grad_norm_(model.params, 1.0)
        between()
        optimizer.step()
        return after()
    return step


# ---- whether ours left what the formulas give


def close(found, wanted, tolerance):
    return all(bool(((a - b).abs() <= tolerance * b.abs().amax()).all()) for a, b in zip(found, wanted))


def same(found, wanted):
    return all(torch.equal(a.view(torch.uint8) if a.dtype is E4M3 else a, b.view(torch.uint8) if b.dtype is E4M3 else b)
               for a, b in zip(found, wanted))


def wrong(name, make):
    """What of our second step differs from the formulas, in words; None: nothing."""
    model = make()
    optimizer, step = ours(name, model)
    step()
    before = [w.clone() for w in model.weights()]
    averages = [optimizer.state[p]["ema"].clone() for p in model.params] if name == "ema" else []
    step()
    weights, fp8 = model.weights(), optimizer.fp8
    if name == "reports":
        report, (norm, most, zeros) = optimizer.report(), gradient_reports(model.first)
        changed = [a.double() - b.double() for a, b in zip(weights, before)]
        good = (close([report.norm, report.weight_norm], [norm, torch.stack(torch._foreach_norm(weights))], 1e-5)
                and close([report.change_norm], [torch.stack(torch._foreach_norm(changed))], 1e-9)
                and same([report.largest, report.zeros, report.weight_largest], [most, zeros, largest(weights)]))
        return None if good else "reports"
    if name == "e4m3 blocks":
        for p in model.matrices:
            (codes, factors), (turned, of_turned) = block_cast(p.detach()), block_cast(p.detach().t().contiguous())
            if not same(fp8.blocks_of(p), (codes, factors, turned, of_turned)):
                return f"codes of {tuple(p.shape)}"
    elif fp8 is not None:
        for p in model.matrices:
            codes, inverse, amax, turned = fp8[p]
            if not same([amax], [p.detach().abs().amax()]):
                return "amax"
            if codes is not None and not same([codes], [cast(p.detach(), 1 / inverse)]):
                near = [cast(p.detach(), torch.nextafter(1 / inverse, inverse.new_tensor(end))) for end in (0.0, 1e9)]
                if not any(same([codes], [one]) for one in near):  # 1 / (1 / scale) may be its neighbour
                    return f"codes of {tuple(p.shape)}"
            if turned is not None and not same([turned], [codes.t().contiguous()]):
                return "transposed codes"
    if name == "ema":
        torch._foreach_lerp_(averages, weights, 1 - DECAY)
        return None if close([optimizer.state[p]["ema"] for p in model.params], averages, 1e-7) else "averages"
    twin = make()  # PyTorch's weights after as many steps
    theirs = torch.optim.AdamW(twin.params, lr=LR)
    for _ in range(2):
        twin.give([g.clone() for g in twin.first])
        if name == "two micro-batches":
            torch._foreach_add_([p.grad for p in twin.params], twin.second)
        torch.nn.utils.clip_grad_norm_(twin.params, 1.0)
        if name == "agc":
            clip_units(twin.params)
        theirs.step()
    return None if close(weights, twin.weights(), 2e-5) else "weights"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("-o", "--output")
    arguments.add_argument("--samples", type=int, default=7)
    arguments.add_argument("--only", action="append", choices=OURS)
    options = arguments.parse_args()
    on_gpu, device = gpu_or_emulator()
    shapes = GPT2 if on_gpu else [(300, 136), (136,), (5,), (64, 260)]
    clock = measure.Clock(options.samples) if on_gpu else None
    lines, failed = [], False
    for name in options.only or OURS:
        why = wrong(name, lambda: Model(shapes, device))
        failed |= why is not None
        line = {"what": name, "right": why is None, **({} if why is None else {"wrong": why})}
        if clock:
            mine, theirs = Model(shapes, device), Model(shapes, device)
            works = {"ours": measure.Work(ours(name, mine)[1]), "torch": measure.Work(of_torch(name, theirs))}
            for key, times in clock.compare(works, cold=True).items():
                line[key] = times["median_us"]
            del works, mine, theirs
            gc.collect()
            torch.cuda.empty_cache()
        lines.append(line)
    write_lines(options.output, lines)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
