#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small network quantized to 4 bits, trained with ptxgen's operations and with PyTorch's, losses beside
each other; and each operation beside PyTorch's on the same tensors. Runs on the CPU, with the emulator:

    export PTXGEN_LIBCUDA=build/emulator/libcuda.so.1 PTXGEN_EMU_DEVICE=sm_90,pageable
    PYTHONPATH=build/python python3 bench/train_quantized.py RESULTS [--steps N]

Writes RESULTS/losses.csv (every step) and RESULTS/train_quantized.json. Weights have learned scales and
zero points for the tensor, for each row or for each group of 32; the hidden layer has a moving-average
observer. The task is to imitate a random network.

A GPT-2 of 4 bits is examples/quantized_gpt2.py.
"""

import argparse
import json

import torch

import ptxgen
from scripts import write_csv, write_json

INPUTS, HIDDEN, OUTPUTS, BATCH, GROUP = 64, 128, 32, 64, 32
Q_MIN, Q_MAX = 0, 15
SCHEMES = ("tensor", "rows", "groups")


def scales_of(scheme, weight):
    """The number of scales of a weight, and the elements of each."""
    count = {"tensor": 1, "rows": weight.shape[0], "groups": weight.numel() // GROUP}[scheme]
    return count, weight.numel() // count


class Ours:
    """The three quantizers with ptxgen; tensors of the CPU are the emulator's, too."""

    def __init__(self):
        self.gpu = ptxgen.Device()
        self.operations = self.gpu.operations(any_address=True)

    def common(self, x):
        return {"dtype": "f32", "count": x.numel(), "x": x.data_ptr(), "q_min": Q_MIN, "q_max": Q_MAX}

    def finish(self):
        self.gpu.synchronize()

    def weight(self, scheme, weight, scale, zero_point, grad_factor):
        return LearnedOurs.apply(weight, scale, zero_point, grad_factor, self, scheme)

    def observer(self):
        inf = float("inf")
        state = torch.tensor([inf, -inf, inf, -inf])
        scale, zero_point = torch.ones(1), torch.zeros(1, dtype=torch.int32)

        def quantized(x):
            self.operations.observer_update(**self.common(x.detach()), state=state.data_ptr(),
                                            scales=scale.data_ptr(), zero_points=zero_point.data_ptr())
            self.finish()
            return FixedOurs.apply(x, scale, zero_point, self)
        return quantized


class LearnedOurs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, zero_point, grad_factor, ours, scheme):
        y, (count, each) = torch.empty_like(x), scales_of(scheme, x)
        channels = {} if scheme == "tensor" else {"channels": count, "inner": each}
        ours.operations.fake_quantize(**ours.common(x), **channels, y=y.data_ptr(), reciprocal=True,
                                      scales=scale.data_ptr(), zero_points=zero_point.data_ptr(),
                                      learned_zero_points=True)
        ours.finish()
        ctx.save_for_backward(x, scale, zero_point)
        ctx.how = (grad_factor, ours, {"group": GROUP} if scheme == "groups" else channels)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x, scale, zero_point), (grad_factor, ours, shape) = ctx.saved_tensors, ctx.how
        dy, dx = dy.contiguous(), torch.empty_like(x)
        d_scale, d_zero_point = torch.empty_like(scale), torch.empty_like(zero_point)
        params = {**ours.common(x), **shape, "d_output": dy.data_ptr(), "d_input": dx.data_ptr(),
                  "scales": scale.data_ptr(), "zero_points": zero_point.data_ptr(),
                  "d_scales": d_scale.data_ptr(), "d_zero_points": d_zero_point.data_ptr(),
                  "grad_factor": grad_factor, "reciprocal": True}
        workspace = torch.empty(ours.operations.quantize_learned_workspace(**params) // 8 + 1,
                                dtype=torch.float64)
        ours.operations.quantize_learned_backward(**params, workspace=workspace.data_ptr())
        ours.finish()
        return dx, d_scale, d_zero_point, None, None, None


class FixedOurs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, zero_point, ours):
        y = torch.empty_like(x)
        how = {"scales": scale.data_ptr(), "zero_points": zero_point.data_ptr(), "reciprocal": True}
        ours.operations.fake_quantize(**ours.common(x), **how, y=y.data_ptr())
        ours.finish()
        ctx.save_for_backward(x, scale.clone(), zero_point.clone())
        ctx.ours = ours
        return y

    @staticmethod
    def backward(ctx, dy):
        (x, scale, zero_point), ours = ctx.saved_tensors, ctx.ours
        dy, dx = dy.contiguous(), torch.empty_like(x)
        ours.operations.quantize_backward(**ours.common(x), d_output=dy.data_ptr(),
                                          d_input=dx.data_ptr(), scales=scale.data_ptr(),
                                          zero_points=zero_point.data_ptr(), reciprocal=True,
                                          fake_quantize=True)
        ours.finish()
        return dx, None, None, None


class Torch:
    """The same with PyTorch's own operations."""

    def weight(self, scheme, weight, scale, zero_point, grad_factor):
        if scheme == "tensor":
            return torch._fake_quantize_learnable_per_tensor_affine(weight, scale, zero_point, Q_MIN,
                                                                    Q_MAX, grad_factor)
        rows = weight.view(scales_of(scheme, weight)[0], -1)
        y = torch._fake_quantize_learnable_per_channel_affine(rows, scale, zero_point, 0, Q_MIN, Q_MAX,
                                                              grad_factor)
        return y.view_as(weight)

    def observer(self):
        observer = torch.ao.quantization.MovingAverageMinMaxObserver(
            dtype=torch.quint8, quant_min=Q_MIN, quant_max=Q_MAX)

        def quantized(x):
            observer(x.detach())
            scale, zero_point = observer.calculate_qparams()
            return torch.fake_quantize_per_tensor_affine(x, scale, zero_point.int(), Q_MIN, Q_MAX)
        return quantized


class Whole:
    """Without quantizers."""

    def weight(self, scheme, weight, scale, zero_point, grad_factor):
        return weight

    def observer(self):
        return lambda x: x


def quantizer_of(scheme, weight):
    """A scale and a zero point for each part of the weight, from its range."""
    parts = weight.detach().view(scales_of(scheme, weight)[0], -1)
    low, high = parts.amin(1), parts.amax(1)
    scale = (high - low) / (Q_MAX - Q_MIN) * 0.8
    return (scale.clone().requires_grad_(),
            (-low * 0.8 / scale).clamp(Q_MIN, Q_MAX).clone().requires_grad_())


def train(how, scheme, steps):
    """The loss of every step."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=draw)
    teacher = (normal(HIDDEN, INPUTS) / 8, normal(OUTPUTS, HIDDEN) / 11)
    weights = [(normal(HIDDEN, INPUTS) / 8).requires_grad_(),
               (normal(OUTPUTS, HIDDEN) / 11).requires_grad_()]
    quantizers = [quantizer_of(scheme, weight) for weight in weights]
    factors = [(scales_of(scheme, weight)[1] * Q_MAX) ** -0.5 for weight in weights]
    hidden = how.observer()
    optimizer = torch.optim.Adam([{"params": weights, "lr": 3e-3},
                                  {"params": [p for pair in quantizers for p in pair], "lr": 1e-3}])
    losses = []
    for _ in range(steps):
        x = normal(BATCH, INPUTS)
        want = torch.relu(x @ teacher[0].T) @ teacher[1].T
        first, second = (how.weight(scheme, w, *q, f) for w, q, f in zip(weights, quantizers, factors))
        got = hidden(torch.relu(x @ first.T)) @ second.T
        loss = torch.nn.functional.mse_loss(got, want)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- one operation at a time --------------------------------------------------------------------


def compare(scheme, count=1 << 16):
    """The same tensors through both: elements that differ, and the error of the sums relative to the
    sum of the terms' absolute values."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count // 256, 256, generator=draw)
    dy = torch.randn(x.shape, generator=draw)
    scale, zero_point = (t.detach() for t in quantizer_of(scheme, x))
    results = []
    for how in (Ours(), Torch()):
        leaves = [t.clone().requires_grad_() for t in (x, scale, zero_point)]
        y = how.weight(scheme, *leaves, 1.0)
        y.backward(dy)
        results.append((y.detach(), *(leaf.grad for leaf in leaves)))
    rows = len(scale)
    level = torch.round(x.double().view(rows, -1) / scale[:, None])
    zero = torch.round(zero_point)[:, None]
    inside = (level + zero >= Q_MIN) & (level + zero <= Q_MAX)
    residual = torch.where(inside, level - x.view(rows, -1) / scale[:, None],
                           (level + zero).clamp(Q_MIN, Q_MAX) - zero)
    terms = dy.view(rows, -1).double()
    sizes = ((terms * residual).abs().sum(1), torch.where(inside, 0, terms * scale[:, None]).abs().sum(1))
    ours, theirs = results
    return {"elements": count, "scales": rows,
            "y_differs": int((ours[0] != theirs[0]).sum()),
            "d_input_differs": int((ours[1] != theirs[1]).sum()),
            **{f"{name}_error": float(((a - b).abs() / size).nan_to_num().max())
               for name, a, b, size in zip(("d_scale", "d_zero_point"), ours[2:], theirs[2:], sizes)}}


def compare_observers(steps=50):
    """Steps in which state, scale or zero point differ."""
    draw, inf, differ = torch.Generator().manual_seed(2), float("inf"), {}
    ours = Ours()
    for symmetric in (False, True):
        observer = torch.ao.quantization.MovingAverageMinMaxObserver(
            dtype=torch.qint8,
            qscheme=torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine)
        state = torch.tensor([inf, -inf, inf, -inf])
        scale, zero_point, count = torch.empty(1), torch.empty(1, dtype=torch.int32), 0
        for step in range(steps):
            x = torch.randn(1000, generator=draw) * (1 + step % 7) + step % 3
            ours.operations.observer_update(dtype="f32", count=1000, x=x.data_ptr(), q_min=-128,
                                            q_max=127, symmetric=symmetric, state=state.data_ptr(),
                                            scales=scale.data_ptr(), zero_points=zero_point.data_ptr())
            ours.finish()
            observer(x)
            wanted = observer.calculate_qparams()
            count += not (state[0] == observer.min_val and state[1] == observer.max_val
                          and scale == wanted[0] and zero_point == wanted[1])
        differ["symmetric" if symmetric else "affine"] = count
    return {"steps": steps, "differ": differ}


# ---- all ----------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = {"whole": train(Whole(), "tensor", options.steps)}
    report = {"torch": torch.__version__, "steps": options.steps, "q_min": Q_MIN, "q_max": Q_MAX,
              "operations": {scheme: compare(scheme) for scheme in SCHEMES},
              "observers": compare_observers(), "training": {}}
    for scheme in SCHEMES:
        runs[f"{scheme} ours"] = ours = train(Ours(), scheme, options.steps)
        runs[f"{scheme} torch"] = theirs = train(Torch(), scheme, options.steps)
        apart = [abs(a - b) / b for a, b in zip(ours, theirs)]
        tail = max(1, options.steps // 10)
        report["training"][scheme] = {
            "equal_steps": next((k for k, d in enumerate(apart) if d), options.steps),
            "greatest_relative_difference": max(apart),
            **{f"last_{tail}_{name}": sum(losses[-tail:]) / tail
               for name, losses in (("ours", ours), ("torch", theirs), ("whole", runs["whole"]))}}
    write_csv(options.results, "losses.csv", ["step", *runs],
              ([step, *(f"{loss:.9g}" for loss in row)] for step, row in enumerate(zip(*runs.values()))))
    write_json(options.results, "train_quantized.json", report)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
