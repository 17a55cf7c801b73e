#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What states of few bits lose: the formats of ptxgen.torch beside torchao's 4 bits, of the same states of Adam.

    pip download --no-deps torchao==0.15.0 && unzip torchao-*.whl 'torchao/optim/*'
    PYTHONPATH=build/python python3 bench/state_errors.py torchao/optim/quant_utils.py

torchao's file is taken as it is, with blocks of 128 and the maps of its subclass_4bit.py. The states are those after
STEPS steps with gradients whose rows and columns have sizes of their own. For each format: the bytes an element that a
step of a bf16 parameter moves, the norm's included; the root mean square of the error of m and of sqrt(v), over that of
the exact one; the median relative error of the update m / (sqrt(v) + eps); the shares of elements whose v became 0, whose
update is off by more than half of it, and whose update turned around. Needs no GPU."""

import importlib.util
import sys

import torch

from ptxgen.torch import _formats

STEPS, SHAPE, EPS = 200, (512, 1024), 1e-8


def states():
    r = torch.Generator().manual_seed(29)
    size = (10 ** (torch.randn(SHAPE[0], 1, generator=r) * 0.7)) * 10 ** (torch.randn(1, SHAPE[1], generator=r) * 0.5) * 1e-4
    mean = torch.randn(SHAPE, generator=r) * 0.3
    m, v = torch.zeros(SHAPE), torch.zeros(SHAPE)
    for _ in range(STEPS):
        g = size * (mean + torch.randn(SHAPE, generator=r))
        m.lerp_(g, 0.1)
        v.lerp_(g * g, 0.001)
    return m, v


def of_ours(fmt):
    def through(x, signed):
        codes, scale = _formats._quantized(x, x, fmt, signed)
        return _formats._numbers(fmt, codes, scale, signed)
    return through


def of_torchao(module):
    maps = {True: torch.tensor(module.create_dynamic_map(True, 3, 4)), False: torch.linspace(0, 1, 17)[1:]}

    def through(x, signed):
        scaled, scale = module.scale_tensor(x.flatten(), 128)
        codes = module.quantize_4bit_with_qmap(scaled, maps[signed])
        return module.dequant_with_qmap(codes, maps[signed], scale).view(x.shape)
    return through


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    spec = importlib.util.spec_from_file_location("quant_utils", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    m, v = states()
    exact = m / (v.sqrt() + EPS)
    rows = [("bf16", 16.0, lambda x, signed: x.bfloat16().float()), ("f16", 16 + 4 * 4 / 256, of_ours(_formats._F16)),
            ("24bit", 14 + 4 * 2 / 32, of_ours(_formats._24BIT)), ("8bit", 12 + 4 * 4 / 256, of_ours(_formats._8BIT)),
            ("torchao's 4 bits", 10 + 4 * 4 / 128, of_torchao(module))]

    def error(x, y):
        return float(((x.double() - y.double()).square().mean() / y.double().square().mean()).sqrt())

    print(f"{'format':18} bytes       m   sqrt(v)   update   v is 0   > half   turned")
    for name, size, through in rows:
        a, b = through(m, True), through(v, False)
        update = a / (b.sqrt() + EPS)
        off = ((update - exact).abs() / exact.abs()).double()
        shares = [float(x.double().mean()) for x in (b == 0, off > 0.5, update * exact < 0)]
        print(f"{name:18} {size:5.2f} {error(a, m):7.4f} {error(b.sqrt(), v.sqrt()):9.4f} {float(off.median()):8.4f} "
              + " ".join(f"{share:8.4f}" for share in shares))


if __name__ == "__main__":
    main()
