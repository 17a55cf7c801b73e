#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares clip plans and one-call operations with those of PyTorch, and both with f64.

    torch_agreement.py LIBPTXGEN [-o FILE] [--steps N] [--elements N]

Every case is a line, on the screen and in FILE as JSON. Errors are in ulp of the tensors' type, from
a reference in f64. A case fails where ours is further from the reference than PyTorch's is, or where
what has to be the same bits is not. N steps of GradScaler (default 5000), tensors of N elements for
the operations (default 2^20). Ends with 1 if a case failed, 77 without a GPU.
"""
import argparse
import json
import math
import sys

import torch

import package  # noqa: F401
import ptxgen
from scripts import needs_gpu

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
          "f64": torch.float64}
# Bits of the significand, and the exponent of the least normal number.
FORMAT = {torch.float32: (24, -126), torch.bfloat16: (8, -126), torch.float16: (11, -14),
          torch.float64: (53, -1022)}


def stream():
    return torch.cuda.current_stream().cuda_stream


def ulps(values, exact, dtype):
    """|values - exact| in units in the last place of `exact` in `dtype`; 0 between equal NaNs or
    infinities, infinite between a NaN or infinity and anything else."""
    digits, least = FORMAT[dtype]
    values, exact = values.double(), exact.double()
    _, exponent = torch.frexp(exact)
    unit = torch.ldexp(torch.ones_like(exact), (exponent - 1).clamp(min=least) - (digits - 1))
    same = (values == exact) | (values.isnan() & exact.isnan())
    distance = ((values - exact).abs() / unit).nan_to_num(nan=math.inf, posinf=math.inf)
    return torch.where(same, torch.zeros_like(distance), distance)


class Report:
    """Writes a line for each case and records whether one failed."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.failed = 0
        self.cases = 0

    def case(self, check, name, good, **figures):
        self.cases += 1
        self.failed += not good
        figures = {k: round(v, 6) if isinstance(v, float) else v for k, v in figures.items()}
        shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                          for k, v in figures.items())
        print(f"{'ok    ' if good else 'FAILED'} {check:<15} {name:<44} {shown}", flush=True)
        if self.file:
            figures = {k: v if not isinstance(v, float) or math.isfinite(v) else str(v)
                       for k, v in figures.items()}
            line = {"check": check, "case": name, "good": bool(good), **figures}
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


def holders(gradients):
    """Parameters for clip_grad_norm_."""
    parameters = []
    for gradient in gradients:
        parameter = torch.nn.Parameter(torch.empty_like(gradient))
        parameter.grad = gradient
        parameters.append(parameter)
    return parameters


def plan_of(gpu, gradients, max_norm, **params):
    """One group; a max_norm of 0, on purpose, is that of each group."""
    return gpu.clip_plan(gradients, group_max_norms=[max_norm], stream=stream(), **params)


# ---- clip_grad_norm_ -----------------------------------------------------------------------------


def clip_case(gpu, report, name, counts, spread, max_norm_of):
    dtype = DTYPES[name]
    generator = torch.Generator(device="cuda").manual_seed(len(counts))
    mine = [torch.randn(n, generator=generator, device="cuda", dtype=dtype).mul_(spread)
            for n in counts]
    theirs = [g.clone() for g in mine]
    exact = torch.sqrt(sum((g.double().square().sum() for g in mine),
                           torch.zeros((), dtype=torch.float64, device="cuda")))
    max_norm = max_norm_of * exact.item()
    clip = min(1.0, max_norm / (exact.item() + 1e-6)) if exact.item() else 1.0
    wanted = [g.double() * clip for g in mine]

    plan = plan_of(gpu, mine, max_norm=max_norm, eps=1e-6)
    plan.run(stream())
    record = plan.read(stream()).records[0]
    plan.close()
    norm = torch.nn.utils.clip_grad_norm_(holders(theirs), max_norm, foreach=True,
                                          error_if_nonfinite=False)

    def norm_error(value):
        # Both as f32: PyTorch's norm of f16 and bf16 gradients has their type.
        return ulps(torch.tensor(float(value), dtype=torch.float64), exact.cpu(),
                    torch.float32).item()

    def worst(values):
        return max((ulps(v, w, dtype).max().item() for v, w in zip(values, wanted) if v.numel()),
                   default=0.0)

    def mean(values):
        total = sum((ulps(v, w, dtype).sum().item() for v, w in zip(values, wanted)), 0.0)
        return total / max(1, sum(counts))

    ours, torchs = norm_error(record.norm), norm_error(norm)
    figures = {"norm_ulp": ours, "torch_norm_ulp": torchs, "worst_ulp": worst(mine),
               "torch_worst_ulp": worst(theirs), "mean_ulp": mean(mine),
               "torch_mean_ulp": mean(theirs)}
    # Norm, sum with eps, quotient and product are rounded once each. Either result may be closer by
    # chance, by less than the roundings of the factor: 1.5 ulp of f32.
    luck = 1.5 * 2.0 ** (FORMAT[dtype][0] - 24)
    good = (ours <= max(torchs, 0.5 + 1e-6)
            and figures["worst_ulp"] <= max(figures["torch_worst_ulp"], 0.5 + 2 * luck)
            and figures["mean_ulp"] <= figures["torch_mean_ulp"] + luck)
    report.case("clip_grad_norm_", f"{name}, {len(counts)} tensors, {sum(counts)} elements, "
                f"x{max_norm_of:g}, g ~ {spread:g}", good, **figures)


def check_clip(gpu, report):
    shapes = {"one": [1 << 20], "a single element": [1], "all empty": [0, 0, 0],
              "empty ones": [0, 5, 0, 0, 70001, 1, 0, 333, 0],
              "odd": [2 * k + 1 for k in range(100)],
              "2,000": [0 if k % 97 == 0 else 512 for k in range(2000)],
              "large and small": [1 << 22, 1, 3, 1 << 16]}
    for name in ("f32", "bf16", "f16"):
        for counts in shapes.values():
            for max_norm_of in (0.37, 2.0):
                clip_case(gpu, report, name, counts, 1.0, max_norm_of)
    # Squares beyond the range of f32: PyTorch's sum overflows or underflows.
    for name, spread in (("f32", 1e25), ("f32", 1e-30), ("bf16", 1e25), ("bf16", 1e-30)):
        clip_case(gpu, report, name, [100003, 17], spread, 0.37)


# ---- GradScaler ----------------------------------------------------------------------------------


def check_scaler(gpu, report, steps, interval, first, name, rate):
    """Compares unscale_, clip_grad_norm_, step and update with a plan that does all of them."""
    dtype = DTYPES[name]
    counts = [4096, 33, 0, 1025, 7]
    theirs, mine = ([torch.zeros(n, device="cuda", dtype=dtype) for n in counts] for _ in "ab")
    optimizer = torch.optim.SGD(holders(theirs), lr=0.0)
    scaler = torch.amp.GradScaler("cuda", init_scale=first, growth_interval=interval)
    scaler.scale(torch.zeros(1, device="cuda"))  # creates its state
    state = torch.zeros(2, device="cuda", dtype=torch.int32)
    plan = plan_of(gpu, mine, max_norm=1.0, eps=1e-6, nonfinite="skip",
                   loss_scale_state=state.data_ptr(), update={"interval": interval})
    plan.set_loss_scale(first, stream=stream())
    history = torch.zeros(steps, 4, device="cuda", dtype=torch.int32)
    bad = (torch.rand(steps, generator=torch.Generator().manual_seed(5)) < rate).tolist()
    furthest = torch.zeros((), device="cuda", dtype=torch.float64)
    generator = torch.Generator(device="cuda").manual_seed(7)
    parameters = optimizer.param_groups[0]["params"]
    taken = 0
    for step in range(steps):
        for index, (a, b) in enumerate(zip(theirs, mine)):
            if a.numel():
                a.normal_(generator=generator)
                a.mul_(min(scaler.get_scale(), 1e3) if step % 50 == 0 else 8.0)
                if bad[step] and index == step % 2:
                    a[step % a.numel()] = (math.inf, -math.inf, math.nan)[step % 3]
            b.copy_(a)
        plan.run(stream())
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        scaler.step(optimizer)
        scaler.update()
        history[step, 0:1].copy_(scaler._scale.view(torch.int32))
        history[step, 1:2].copy_(scaler._growth_tracker.view(1))
        history[step, 2:4].copy_(state)
        if not bad[step]:
            taken += 1
            for a, b in zip(theirs, mine):
                if a.numel():
                    furthest = torch.maximum(furthest, ulps(b, a, dtype).max())
    plan.close()
    differ = (history[:, 0:2] != history[:, 2:4]).any(dim=1).sum().item()
    scales = history[:, 2].contiguous().view(torch.float32)
    changes = (scales[1:] != scales[:-1]).sum().item()
    # PyTorch rounds the unscaled gradient, the factor and the product; a plan rounds the factor and
    # the product.
    report.case("GradScaler", f"{name}, {steps} steps, growth every {interval}, from {first:g}",
                differ == 0 and furthest.item() <= 8, steps_that_differ=differ,
                bad_steps=sum(bad), changes_of_scale=changes, last_scale=scales[-1].item(),
                furthest_ulp_from_torch=furthest.item())


# ---- quantize ------------------------------------------------------------------------------------


def quantize_input(count, dtype, scale):
    """Random values, with ties, limits, NaN and infinity."""
    generator = torch.Generator(device="cuda").manual_seed(11)
    x = torch.randn(count, generator=generator, device="cuda", dtype=torch.float64) * 70 * scale
    k = torch.arange(count // 4, device="cuda", dtype=torch.float64)
    x[:count // 4] = ((k % 601) / 2 - 150) * scale  # whole and half steps
    special = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e38, -1e38, 1e-45]
    x[-len(special):] = torch.tensor(special, dtype=torch.float64).to(device="cuda")
    dy = torch.randn(count, generator=generator, device="cuda", dtype=torch.float64)
    return x.to(dtype).clone(), dy.to(dtype).clone()


def same(a, b):
    """The number of elements that differ; NaN equals NaN and -0 equals 0."""
    return ((a != b) & ~(a.isnan() & b.isnan())).sum().item()


def backward(operations, name, x, dy, **how):
    """Our d_input."""
    d_input = torch.empty_like(dy)
    operations.quantize_backward(stream=stream(), dtype=name, count=x.numel(), x=x, d_output=dy, d_input=d_input, **how)
    return d_input


def fake_quantize_case(report, operations, name, what, shape, torchs, **of):
    x, dy = (t.view(shape) for t in quantize_input(math.prod(shape), DTYPES[name], 0.03))
    mine = backward(operations, name, x, dy, reciprocal=True, fake_quantize=True, **of)
    leaf = x.clone().requires_grad_()
    try:
        torchs(leaf).backward(dy)
    except RuntimeError as error:
        report.case("fake_quantize", f"{name}, {what}: PyTorch has none", True, why=str(error)[:80])
        return
    differ = same(mine, leaf.grad)
    report.case("fake_quantize", f"{name}, {what}, {x.numel()} elements", differ == 0, differ=differ,
                kept=(mine != 0).sum().item())


def check_fake_quantize(report, operations, count):
    channels = 37
    shape = (16, channels, count // (16 * channels))
    scales = (0.02 + 0.001 * torch.arange(channels)).to(device="cuda").float().clone()
    points = (torch.arange(channels) % 9 - 4).to(device="cuda").int().clone()
    for name in ("f32", "bf16", "f16"):
        fake_quantize_case(report, operations, name, "a scale for the tensor", (count,),
                           lambda x: torch.fake_quantize_per_tensor_affine(x, 0.03, 3, -128, 127),
                           scale=0.03, zero_point=3)
        fake_quantize_case(report, operations, name, f"{channels} channels", shape,
                           lambda x: torch.fake_quantize_per_channel_affine(x, scales, points, 1, -128, 127),
                           scales=scales, zero_points=points, channels=channels, inner=shape[2])


def check_straight_through(report, operations, count):
    """clamp(round(x / scale) + zero point) with a straight-through gradient. PyTorch divides by a
    tensor; for a number it multiplies by the rounded reciprocal."""
    for name in ("f32", "f64", "bf16", "f16"):
        for reciprocal in (False, True):
            straight_through_case(report, operations, count, name, reciprocal)


def straight_through_case(report, operations, count, name, reciprocal):
    dtype, zero_point = DTYPES[name], 3
    compute = torch.float64 if name == "f64" else torch.float32
    divisor = torch.tensor(0.03, device="cuda", dtype=compute)
    scale = divisor.item()
    x, dy = quantize_input(count, dtype, scale)
    mine = backward(operations, name, x, dy, scale=scale, zero_point=zero_point, reciprocal=reciprocal)
    leaf = x.clone().requires_grad_()
    quotient = leaf / (scale if reciprocal else divisor)
    rounded = quotient + (torch.round(quotient) - quotient).detach()
    torch.clamp(rounded + zero_point, -128, 127).backward(dy)

    # The comparison uses the compute type (f64 for f64, else f32), not a narrower type.
    if reciprocal:
        inverse = 1 / divisor
        decides, exact = x.to(compute) * inverse, dy.double() * inverse.double()
    else:
        decides, exact = x.to(compute) / divisor, dy.double() / divisor.double()
    q = torch.round(decides) + zero_point
    exact = torch.where((q >= -128) & (q <= 127), exact, 0.0)

    def wrong(values):
        return ((values != 0) != (exact.to(dtype) != 0)).sum().item()

    def worst(values):
        agree = (values != 0) == (exact.to(dtype) != 0)
        return torch.where(agree, ulps(values, exact, dtype), 0.0).max().item()

    figures = {"wrong_range": wrong(mine), "torch_wrong_range": wrong(leaf.grad),
               "worst_ulp": worst(mine), "torch_worst_ulp": worst(leaf.grad),
               "differ": same(mine, leaf.grad)}
    # f32, then the narrow type: two roundings.
    allowed = 0.5 + 2.0 ** (FORMAT[dtype][0] - FORMAT[compute][0]) * (dtype != compute) + 1e-6
    report.case("straight_through", f"{name}, {'reciprocal' if reciprocal else 'exact'}, "
                f"{count} elements", figures["wrong_range"] == 0
                and figures["worst_ulp"] <= max(figures["torch_worst_ulp"], allowed), **figures)


# ---- lerp ----------------------------------------------------------------------------------------


def check_lerp(report, operations, count):
    for name, dtype in DTYPES.items():
        for weight in (0.3, 1.0 / 3.0, 0.0, 1.0, -2.5):
            generator = torch.Generator(device="cuda").manual_seed(13)
            dy = torch.randn(count, generator=generator, device="cuda").to(dtype).clone()
            d_a, d_b = torch.empty_like(dy), torch.empty_like(dy)
            operations.lerp_backward(stream=stream(), dtype=name, count=count, d_output=dy, d_a=d_a, d_b=d_b,
                                     weight=weight)
            a, b = (torch.zeros_like(dy).requires_grad_() for _ in range(2))
            torch.lerp(a, b, weight).backward(dy)
            for which, values, torchs, w in (("a", d_a, a.grad, 1.0 - weight),
                                             ("b", d_b, b.grad, weight)):
                exact = dy.double() * w
                ours = ulps(values, exact, dtype).max().item()
                other = ulps(torchs, exact, dtype).max().item()
                report.case("lerp", f"{name}, d_{which}, weight {weight:.4g}",
                            ours <= max(other, 0.5 + 1e-6), worst_ulp=ours, torch_worst_ulp=other,
                            differ=same(values, torchs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("-o", "--output")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--elements", type=int, default=1 << 20)
    options = parser.parse_args()
    needs_gpu()
    torch.zeros(1, device="cuda")
    gpu = ptxgen.Device()
    report = Report(options.output)
    operations = gpu.operations()
    check_clip(gpu, report)
    for check in (check_fake_quantize, check_straight_through, check_lerp):
        check(report, operations, options.elements)
    check_scaler(gpu, report, options.steps, 40, 65536.0, "f32", 0.02)
    check_scaler(gpu, report, options.steps, 2000, 65536.0, "f32", 0.001)
    check_scaler(gpu, report, options.steps // 5, 1, 2.0 ** 100, "f32", 0.05)
    torch.cuda.synchronize()
    operations.close()
    print(f"{report.cases - report.failed} of {report.cases} cases agree")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
