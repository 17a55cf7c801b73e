#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""AdamW as a caller's rule in Python beside ptxgen.torch.AdamW, twice, which shows what the place of arrays does: steps
of small sets with a count for each parameter, microseconds a step: 100 in a CUDA graph, and, behind a slash, one in a
graph, which sets gradients, scalars and the limit again, launched 100 times.

    bench/rule_step.py BUILD

Needs a GPU.
"""
import torch

import measure  # finds the package
import ptxgen
import ptxgen.torch

LAYER = [1536 * 16, 16 * 1536, 1536 * 16, 16 * 256, 1536, 1536]
SETS = {"LoRA layer": LAYER, "LoRA 28 x 6": 28 * LAYER, "2000 x 512": 2000 * [512]}
RUNS, TURNS = 100, 15
AHEAD = 3_000_000  # cycles, until all are launched
SETTINGS = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "max_grad_norm": 1.0}


@ptxgen.rule(states=dict(exp_avg="signed", exp_avg_sq="positive"),
             scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01))
def my_adamw(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay):
    b1, b2 = map(ptxgen.f32, betas)
    p = ptxgen.fma(-(ptxgen.f32(lr) * ptxgen.f32(weight_decay)), p, p)
    m = ptxgen.fma(b1, exp_avg, ptxgen.fma(-b1, g, g))
    gg = g * g
    v = ptxgen.fma(b2, exp_avg_sq, ptxgen.fma(-b2, gg, gg))
    step = ptxgen.f32(lr) / ptxgen.f32(1 - b1 ** t)
    return p - step * m / (ptxgen.sqrt(v) / ptxgen.sqrt(1 - b2 ** t) + eps), m, v


def works_of(make, sizes, dtype):
    """Many steps in a graph, and a graph of one step, launched as often."""
    generator = torch.Generator(device="cuda").manual_seed(1)

    def random(size, scale):
        return (torch.randn(size, device="cuda", generator=generator) * scale).to(dtype)

    params = [torch.nn.Parameter(random(size, 0.02)) for size in sizes]
    for p in params:
        p.grad = random(p.shape, 1e-3)
    optimizer = make(params)
    return measure.Work(optimizer.step, calls=RUNS), measure.Work(optimizer.step, replays=RUNS)


def main():
    clock = measure.Clock(TURNS, AHEAD)
    for name, sizes in SETS.items():
        for dtype, more in ((torch.float32, {}), (torch.bfloat16, {"state_dtype": "bf16"})):
            settings = {**SETTINGS, **more}

            def library(params):
                return ptxgen.torch.AdamW(params, **settings)

            def rule(params):
                return ptxgen.torch.Optimizer(params, my_adamw, **settings)

            works = {(form, k): work for form, make in (("AdamW", library), ("AdamW again", library), ("a rule", rule))
                     for k, work in enumerate(works_of(make, sizes, dtype))}
            times = {of: time["median_us"] for of, time in clock.compare(works).items()}
            found = "; ".join(f"{form} {times[form, 0]:.2f} / {times[form, 1]:.2f} us" for form, k in works if not k)
            print(f"{name:12} {str(dtype)[6:]:9} {found}", flush=True)


if __name__ == "__main__":
    main()
