#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times Newton-Schulz alone in PyTorch, beside muon_products: five steps of batched products (baddbmm) on the same sets
of matrices, as one graph. The plain form in bf16, as torch.optim.Muon has it, and the Gram form in f16.

    muon_products.py [SET...]    gpt2, heads, convolutions, qwen; all by default
"""

import sys

import torch

import measure

SETS = {
    "gpt2": [(12, 768, 2304), (12, 768, 768), (24, 768, 3072)],
    "heads": [(1536, 128, 4096)],
    "convolutions": [(21, 64, 288), (21, 64, 576), (21, 128, 576), (21, 128, 1152), (21, 256, 1152), (21, 256, 256)],
    "qwen": [(48, 896, 896), (48, 128, 896), (72, 896, 4864)],
}
STEPS, REPETITIONS, RESTART = 5, 15, 2
A, B, C = 3.4445, -4.7750, 2.0315


def plain(x):
    for _ in range(STEPS):
        r = x @ x.mT
        z = torch.baddbmm(r, r, r, beta=B, alpha=C)
        x = torch.baddbmm(x, z, x, beta=A)
    return x


def gram(x):
    if x.shape[1] == x.shape[2]:
        return plain(x)
    r, q = x @ x.mT, None
    for step in range(1, STEPS + 1):
        z = torch.baddbmm(r, r, r, beta=B, alpha=C)
        if q is None:
            q = z.clone()
            q.diagonal(dim1=1, dim2=2).add_(A)
        else:
            q = torch.baddbmm(q, q, z, beta=A)
        if step == RESTART:
            x, q = q @ x, None
            r = x @ x.mT
        elif step < STEPS:
            t = torch.baddbmm(r, r, z, beta=A)
            r = torch.baddbmm(t, z, t, beta=A)
    return q @ x


def main():
    clock = measure.Clock(REPETITIONS)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for name in sys.argv[1:] or SETS:
        for word, form, dtype in ("plain, bf16", plain, torch.bfloat16), ("Gram, f16", gram, torch.float16):
            matrices = [torch.randn(shape, device="cuda") for shape in SETS[name]]
            matrices = [(x / x.norm(dim=(1, 2), keepdim=True)).to(dtype) for x in matrices]
            works = {word: measure.Work(lambda: [form(x) for x in matrices])}
            times = clock.compare(works)[word]
            print(f"{name:14} {word:12} {times['min_us']:9.1f} us, median {times['median_us']:9.1f} us", flush=True)


if __name__ == "__main__":
    main()
