#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a momentum of few bits does to Muon's update: why ptxgen.torch.Muon refuses one in blocks.

    PYTHONPATH=build/python python3 bench/muon_states.py

STEPS steps with Nesterov's momentum of 0.95, kept in f32 beside each other format, which each step reads and writes.
Then both updates are orthogonalized in f64, by five steps with Jordan's coefficients. For each kind of gradients and each
format: the relative distance (Frobenius) of the updates, and of the orthogonalized ones; beside it that of the exact
update iterated in bf16, as torch.optim.Muon does. Needs no GPU."""

import torch

import muon_closeness
from ptxgen.torch import _formats

STEPS, SHAPE, MOMENTUM = 40, (128, 256), 0.95


def gradients(kind, generator):
    """One a step."""
    def random(*shape):
        return torch.randn(*shape, generator=generator)
    left, right = random(SHAPE[0], 16), random(16, SHAPE[1])
    sizes = 10 ** (0.7 * random(SHAPE[0], 1))
    for _ in range(STEPS):
        noise = random(*SHAPE)
        if kind == "noise":
            yield noise
        elif kind == "rank 16 and noise":
            yield (left * (1 + 0.3 * random(1, 16))) @ right + 0.1 * noise
        elif kind == "rank 16":
            yield (left * (1 + 0.3 * random(1, 16))) @ right
        else:
            yield sizes * noise


def stochastic(x, generator):
    """To bf16, as STATE_BF16 does."""
    random = torch.randint(1 << 16, x.shape, generator=generator, dtype=torch.int32)
    return (x.view(torch.int32) + random & -0x10000).view(torch.float32)


def in_blocks(fmt):
    def through(x, generator):
        codes, scale = _formats._quantized(x, x, fmt, True)
        return _formats._numbers(fmt, codes, scale, True)
    return through


def main():
    formats = {"bf16": stochastic, "f16": in_blocks(_formats._F16), "24bit": in_blocks(_formats._24BIT),
               "8bit": in_blocks(_formats._8BIT)}
    print(f"{'gradients':20} {'momentum':9} {'update':>8} {'orthogonal':>10}   in bf16 of f32")
    for kind in ("noise", "rows of many sizes", "rank 16 and noise", "rank 16"):
        generator = torch.Generator().manual_seed(31)
        momenta = {name: torch.zeros(SHAPE) for name in ("f32", *formats)}
        for g in gradients(kind, generator):
            updates = {}
            for name, m in momenta.items():
                m.lerp_(g, 1 - MOMENTUM)
                updates[name] = g.lerp(m, MOMENTUM).double()
                if name != "f32":
                    m.copy_(formats[name](m, generator))
        exact = updates.pop("f32")
        exact = exact / exact.norm()
        right = muon_closeness.iterate(exact, torch.float64)
        in_bf16 = muon_closeness.distance(muon_closeness.iterate(exact, torch.bfloat16), right)
        for name, update in updates.items():
            update = update / update.norm()
            far = muon_closeness.distance(muon_closeness.iterate(update, torch.float64), right)
            print(f"{kind:20} {name:9} {muon_closeness.distance(update, exact):8.5f} {far:10.4f}   {in_bf16:.4f}")


if __name__ == "__main__":
    main()
