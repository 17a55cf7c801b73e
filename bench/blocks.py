#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fake quantization in block formats of a list of 8 tensors of 4096 x 6144 in bf16, whose amaxes are known, captured: ours in
one launch, a copy of the list, and torch.compile of the formula of nvfp4. Times in turns, a result is checked first.

    bench/blocks.py BUILD [-o FILE] [--no-compile] [--learned]

--learned: in place of these, learned amaxes of the blocks of a tensor of 2^26 elements in bf16, and the gradients, beside copies of as
many bytes and torch.compile of the formula of the gradients.

Needs a GPU.
"""
import argparse

import torch

import measure  # finds the package
from ptxgen.torch.quantization import _learned_blocks, fake_quantize_block
from scripts import write_lines

ROWS, COLUMNS, TENSORS = 4096, 6144, 8
LARGEST = torch.finfo(torch.float32).max


def formula(x, amax):
    tensor = (amax.new_full((), 2688.0) / amax).clamp(max=LARGEST)
    blocks = x.float().view(x.shape[0], -1, 16)
    part = blocks.abs().amax(-1, keepdim=True) * (tensor * (1 / 6))
    times = part.clamp(max=448).to(torch.float8_e4m3fn).float() * (1 / tensor)
    a = (blocks * (1 / times).clamp(max=LARGEST)).abs().clamp(max=6)
    q = torch.where(a < 2, (a * 2).round() * 0.5, torch.where(a < 4, a.round(), (a * 0.5).round() * 2))
    return torch.copysign(q * times, blocks).view(x.shape).to(x.dtype)


def gradients_formula(x, dy, amax, of_tensor, factor):
    tensor = (amax.new_full((), 2688.0) / of_tensor).clamp(max=LARGEST)
    times = (amax.clamp(min=0) * (tensor * (1 / 6))).clamp(max=448).to(torch.float8_e4m3fn).float() * (1 / tensor)
    u = x.float().view(-1, 16) * (1 / times).clamp(max=LARGEST).view(-1, 1)
    within = u.clamp(-6, 6)
    a = within.abs()
    q = torch.copysign(torch.where(a < 2, (a * 2).round() * 0.5, torch.where(a < 4, a.round(), (a * 0.5).round() * 2)), within)
    inside = within == u
    d = dy.float().view(-1, 16)
    d_amax = (d * torch.where(inside, q - u, q)).sum(1) * (factor / 6)
    return torch.where(inside, d, 0).view(x.shape).to(x.dtype), d_amax.view(amax.shape)


def learned(small, compiles):
    """Times of one tensor, and the greatest difference of the amaxes' gradients, relative to the largest."""
    rows, columns = (128, 256) if small else (8192, 8192)
    x, dy = (torch.randn(rows, columns, device="cuda").bfloat16() for _ in range(2))
    amax = x.float().view(rows, -1, 16).abs().amax(-1) * 0.9
    of_tensor, factor = amax.max().view(1), _learned_blocks.LSQ_FACTOR

    def gradients():
        return _learned_blocks.gradients([dy], [x], [of_tensor], [amax], "te", factor)
    works = {"quantize": measure.Work(lambda: _learned_blocks.launch([x], [of_tensor], [amax], "te")), "gradients": measure.Work(gradients)}
    for name, bytes in (("copy of 4.25 B an element", 4.25), ("copy of 6.5 B an element", 6.5)):
        data = [torch.zeros(int(rows * columns * bytes / 2), dtype=torch.uint8, device="cuda") for _ in range(2)]
        works[name] = measure.Work(lambda data=data: data[0].copy_(data[1]))
    apart = None
    if compiles:
        compiled = torch.compile(gradients_formula, dynamic=False)
        works["gradients, torch.compile"] = measure.Work(lambda: compiled(x, dy, amax, of_tensor, factor))
        (dx, d_amax), (wanted_x, wanted) = gradients(), compiled(x, dy, amax, of_tensor, factor)
        apart = [int((dx != wanted_x).sum()), ((d_amax - wanted).abs().max() / wanted.abs().max()).item()]
    return measure.Clock(20).compare(works), apart


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("-o", "--output")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--small", action="store_true", help="tensors of 128 x 256, to try the script")
    parser.add_argument("--learned", action="store_true")
    options = parser.parse_args()
    rows, columns = (128, 256) if options.small else (ROWS, COLUMNS)
    torch.manual_seed(1)
    if options.learned:
        times, apart = learned(options.small, not options.no_compile)
        head = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "commit": measure.commit(), "apart": apart}
        lines = [head] + [{"work": name, **time} for name, time in times.items()]
        write_lines(options.output, lines)
        return
    xs = [torch.randn(rows, columns, device="cuda").bfloat16() for _ in range(TENSORS)]
    amaxes = [x.abs().max().float() for x in xs]
    seed = torch.ones(1, dtype=torch.int64, device="cuda")
    ours = {
        "nvfp4": lambda: fake_quantize_block(xs, "nvfp4", amaxes),
        "nvfp4, stochastic": lambda: fake_quantize_block(xs, "nvfp4", amaxes, rounding="stochastic", seed=seed),
        "nvfp4, Hadamard": lambda: fake_quantize_block(xs, "nvfp4", amaxes, hadamard=True),
        "nvfp4, Hadamard, stochastic": lambda: fake_quantize_block(xs, "nvfp4", amaxes, hadamard=True, rounding="stochastic",
                                                                   seed=seed),
        "nvfp4, without amaxes": lambda: fake_quantize_block(xs, "nvfp4"),
        "nvfp4, 16 x 16": lambda: fake_quantize_block(xs, "nvfp4", amaxes, two_dimensional=True),
        "nvfp4, like torchao": lambda: fake_quantize_block(xs, "nvfp4", amaxes, like="torchao"),
    }
    for format in ("mxfp8_e4m3", "fp8_128x128"):
        ours[format] = lambda format=format: fake_quantize_block(xs, format)
    works = {name: measure.Work(run) for name, run in ours.items()}
    copies = [torch.empty_like(x) for x in xs]
    works["copy"] = measure.Work(lambda: torch._foreach_copy_(copies, xs))
    different = None
    if not options.no_compile:
        one = torch.compile(formula, dynamic=False)

        def compiled():
            return [one(x, amax) for x, amax in zip(xs, amaxes)]

        found, wanted = fake_quantize_block(xs, "nvfp4", amaxes), compiled()
        different = sum((a != b).sum().item() for a, b in zip(found, wanted))
        works["nvfp4, torch.compile"] = measure.Work(compiled)
    clock = measure.Clock(20)
    times = clock.compare(works)
    small = torch.randn(16, 64, device="cuda", requires_grad=True)
    amax, dy = small.detach().abs().max(), torch.ones(16, 64, device="cuda")
    host = {"forward": measure.Work(lambda: fake_quantize_block(small, "nvfp4", amax), captured=False),
            "forward and backward": measure.Work(lambda: fake_quantize_block(small, "nvfp4", amax).backward(dy), captured=False),
            "torch's fake_quantize": measure.Work(lambda: torch.fake_quantize_per_tensor_affine(small, 0.1, 0, -8, 7), captured=False),
            "its forward and backward": measure.Work(
                lambda: torch.fake_quantize_per_tensor_affine(small, 0.1, 0, -8, 7).backward(dy), captured=False)}
    hosts = clock.host(host)
    print(f"{TENSORS} x [{rows}, {columns}] bf16, us; of {TENSORS * rows * columns} elements of nvfp4 {different} differ from torch.compile's")
    write_lines(options.output, [{"machine": torch.cuda.get_device_name(), "torch": torch.__version__,
                                  "commit": measure.commit(), "different": different},
                                 *({"work": name, **time} for name, time in times.items()),
                                 *({"host": name, **time} for name, time in hosts.items())])


if __name__ == "__main__":
    main()
