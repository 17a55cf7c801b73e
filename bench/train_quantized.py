#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small network quantized to 4 bits, trained with ptxgen's operations and with PyTorch's, losses beside
each other; and each operation beside PyTorch's on the same tensors. Runs on the CPU, with the emulator:

    export PTXGEN_LIBCUDA=build/emulator/libcuda.so.1 PTXGEN_EMU_DEVICE=sm_90,pageable
    PYTHONPATH=build/python python3 bench/train_quantized.py RESULTS [--steps N]

Writes RESULTS/losses.csv (every step) and RESULTS/train_quantized.json. Weights have learned scales and
zero points for the tensor, for each row or for each group of 32; the hidden layer has a moving-average
observer. The task is to imitate a random network.

    python3 bench/train_quantized.py RESULTS --gpt2 LAYERS CHANNELS [--steps N] [--recipe lsq|nvfp4] [--nearest]

A GPT-2 instead (12 768: 124M), on a GPU if there is one: linear layers with weights of 4 bits in groups of 32 and learned
step sizes (lsq), or as NVFP4Linear (nvfp4), by ptxgen.torch.quantization and by plain autograd code of the same formulas; the
text is this repository's documentation, a byte a token. Then the trained weights are exported, saved and loaded into another
model. Writes RESULTS/gpt2_RECIPE.csv, the losses, and RESULTS/gpt2_RECIPE.json; ends with 1 if the losses part or the loaded
model's is another. --nearest: nvfp4 without stochastic rounding, whose random bits are others in the plain code.
"""

import argparse
import csv
import glob
import json
import os
import statistics
import sys
import time

import torch
from torch.nn import functional

import ptxgen

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


# ---- a GPT-2 ------------------------------------------------------------------------------------

SEQUENCES, MOST_LENGTH, VOCABULARY = 8, 256, 50304
QUANTIZED = ("qkv", "out", "up", "down")
MOST_APART = 0.02  # of the losses' means over the last steps


class Block(torch.nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(channels), torch.nn.LayerNorm(channels)
        self.qkv, self.out = torch.nn.Linear(channels, 3 * channels), torch.nn.Linear(channels, channels)
        self.up, self.down = torch.nn.Linear(channels, 4 * channels), torch.nn.Linear(4 * channels, channels)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(torch.nn.Module):
    def __init__(self, layers, channels, device):
        super().__init__()
        torch.manual_seed(1)
        words = VOCABULARY if channels >= 384 else 256
        self.words, self.places = torch.nn.Embedding(words, channels), torch.nn.Embedding(MOST_LENGTH, channels)
        self.blocks = torch.nn.Sequential(*(Block(channels, max(1, channels // 64)) for _ in range(layers)))
        self.norm, self.head = torch.nn.LayerNorm(channels), torch.nn.Linear(channels, words, bias=False)
        self.head.weight = self.words.weight
        with torch.no_grad():
            for p in self.parameters():
                if p.dim() > 1:
                    p.normal_(0, 0.02)
        self.to(device)

    def forward(self, tokens):
        places = self.places.weight[:tokens.shape[1]]
        return self.head(self.norm(self.blocks(self.words(tokens) + places)))


# ---- weights with learned step sizes


class PlainStep(torch.autograd.Function):
    """The scale's gradient times a factor."""

    @staticmethod
    def forward(ctx, scale, factor):
        ctx.factor = factor
        return scale.view_as(scale)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class PlainQuantizer(torch.nn.Module):
    """Learned step sizes as papers' code has them (Esser et al., 2020)."""

    def __init__(self, weight):
        super().__init__()
        groups = weight.detach().view(weight.shape[0], -1, GROUP)
        self.scale = torch.nn.Parameter(2 * groups.abs().mean(-1) / 7 ** 0.5)

    def forward(self, weight):
        step = PlainStep.apply(self.scale, (GROUP * 7) ** -0.5)[..., None]
        quotient = (weight.view(*self.scale.shape, GROUP) / step).clamp(-8, 7)
        level = quotient + (quotient.round() - quotient).detach()
        return (level * step).view(weight.shape)


def by_ours(weight):
    from ptxgen.torch.quantization import LearnedQuantizer
    return LearnedQuantizer.of(weight, -8, 7, axis=-1, group=GROUP)


class Lsq:
    def __init__(self, nearest):
        self.kinds = {"ours": by_ours, "plain autograd": PlainQuantizer}

    def put(self, model, kind):
        from ptxgen.torch.quantization import quantize_model
        quantize_model(model, lambda name, _: name.endswith(QUANTIZED), weight=self.kinds[kind])

    def export(self, layer):
        from ptxgen.torch.quantization import export_int4
        return tuple(export_int4(layer.weight, layer.weight_quantizer, dtype=torch.float32))

    def load(self, layer, codes):
        from ptxgen.torch.quantization import Int4Groups
        layer.weight = torch.nn.Parameter(Int4Groups(*codes).dequantize())
        return layer


# ---- layers in nvfp4

SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)


def transform_of(x):
    """The Hadamard transform of 16 elements along rows, in bf16."""
    h = torch.ones(1, 1, device=x.device)
    for _ in range(4):
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    signs = torch.tensor(SIGNS, dtype=torch.float32, device=x.device)
    with torch.autocast(x.device.type, enabled=False):
        return ((x.float().view(-1, 16) * signs) @ h * 0.25).bfloat16().view(x.shape)


def plain_nvfp4(x, high=1, transform=False, stochastic=False):
    """nvfp4 and back, in blocks of `high` rows and 16 columns, of bf16, by the formulas of <ptxgen/blocks.h>."""
    blocks = (transform_of(x) if transform else x).float().view(x.shape[0] // high, high, x.shape[1] // 16, 16)
    amax = blocks.abs().amax((1, 3), keepdim=True)
    of_tensor = torch.full_like(amax, 2688) / amax.amax()
    times = (amax * (of_tensor * (1 / 6))).clamp(max=448).to(torch.float8_e4m3fn).float() * of_tensor.reciprocal()
    a = (blocks * times.reciprocal()).nan_to_num(0).abs().clamp(max=6)
    step = torch.where(a < 2, 0.5, torch.where(a < 4, 1.0, 2.0))
    level = (a / step + torch.rand_like(a)).floor() if stochastic else (a / step).round()
    return (level * step * times).copysign(blocks).bfloat16().view(x.shape)


class PlainProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, stochastic):
        rows, weight = x.bfloat16(), plain_nvfp4(weight.bfloat16(), high=16)
        ctx.save_for_backward(rows, weight)
        ctx.stochastic = stochastic
        return (plain_nvfp4(rows) @ weight.t()).float()

    @staticmethod
    def backward(ctx, dy):
        (x, weight), dy = ctx.saved_tensors, dy.bfloat16()
        of_dy = plain_nvfp4(dy.t().contiguous(), transform=True, stochastic=ctx.stochastic)
        of_x = plain_nvfp4(x.t().contiguous(), transform=True)
        return ((plain_nvfp4(dy, stochastic=ctx.stochastic) @ weight).float(), (of_dy @ of_x.t()).float(), None)


class PlainLinear(torch.nn.Linear):
    """The products of an NVFP4Linear, by torch's operations."""

    def forward(self, x):
        y = PlainProducts.apply(x.flatten(0, -2), self.weight, self.stochastic).view(*x.shape[:-1], -1)
        return (y + self.bias).to(x.dtype)


class LoadedLinear(torch.nn.Linear):
    """A weight that is quantized, and inputs that are."""

    def forward(self, x):
        from ptxgen.torch.quantization import fake_quantize_block
        rows = fake_quantize_block(x.detach().flatten(0, -2).bfloat16(), "nvfp4")
        return ((rows @ self.weight.t()).view(*x.shape[:-1], -1).float() + self.bias).to(x.dtype)


class Nvfp4:
    def __init__(self, nearest):
        self.stochastic = not nearest

    def put(self, model, kind):
        from ptxgen.torch.quantization import NVFP4Linear
        for block in model.blocks:
            for name in QUANTIZED:
                layer = getattr(block, name)
                if kind == "ours":
                    setattr(block, name, NVFP4Linear.of(layer, stochastic=self.stochastic))
                else:
                    layer.__class__, layer.stochastic = PlainLinear, self.stochastic

    def export(self, layer):
        from ptxgen.torch.quantization import export_nvfp4
        return tuple(export_nvfp4(layer))

    def load(self, layer, codes):
        from ptxgen.torch.quantization import NVFP4Blocks
        layer.weight = torch.nn.Parameter(NVFP4Blocks(*codes).dequantize(torch.bfloat16))
        layer.__class__ = LoadedLinear
        return layer


RECIPES = {"lsq": Lsq, "nvfp4": Nvfp4}


# ---- training


def text():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "*.md")
    parts = []
    for path in sorted(glob.glob(root)):
        with open(path, "rb") as file:
            parts.append(file.read())
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).long()


def batches(size, device, steps):
    data, draw = text(), torch.Generator().manual_seed(2)
    length = min(MOST_LENGTH, size[1])
    for _ in range(steps):
        starts = torch.randint(len(data) - length, (SEQUENCES,), generator=draw).tolist()
        yield torch.stack([data[s:s + length] for s in starts]).to(device)


def loss_of(model, batch):
    with torch.autocast(batch.device.type, torch.bfloat16):
        scores = model(batch)
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), batch[:, 1:].flatten())


def train_gpt2(model, size, device, steps):
    """The loss and the milliseconds of every step."""
    scales = [p for name, p in model.named_parameters() if name.endswith("_quantizer.scale")]
    of_scales = set(map(id, scales))
    groups = [{"params": [p for p in model.parameters() if id(p) not in of_scales], "lr": 6e-4}]
    if scales:
        groups.append({"params": scales, "lr": 1e-4, "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=device == "cuda")
    losses, times = [], []
    for batch in batches(size, device, steps):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append((time.perf_counter() - start) * 1e3)
    return losses, times


def export_gpt2(model, recipe, size, device, path):
    """The loss of the trained model, and that of another one with the exported weights, from a file."""
    state = {name: value for name, value in model.state_dict().items() if "_quantizer." not in name}
    for k, block in enumerate(model.blocks):
        for name in QUANTIZED:
            state[f"blocks.{k}.{name}.weight"] = recipe.export(getattr(block, name))
    torch.save(state, path)
    state = torch.load(path, map_location=device)
    loaded = Gpt2(*size, device)
    loaded.load_state_dict({name: value for name, value in state.items() if not isinstance(value, tuple)}, strict=False)
    for k, block in enumerate(loaded.blocks):
        for name in QUANTIZED:
            setattr(block, name, recipe.load(getattr(block, name), state[f"blocks.{k}.{name}.weight"]))
    batch = next(batches(size, device, 1))
    with torch.no_grad():
        return loss_of(model, batch).item(), loss_of(loaded, batch).item()


def compare_gpt2(size, steps, folder, of="lsq", nearest=False):
    import ptxgen.torch
    device = "cuda" if torch.cuda.is_available() and "emulator" not in ptxgen.Device().info.name else "cpu"
    if device == "cpu":
        ptxgen.torch.emulate()
    recipe, losses, times = RECIPES[of](nearest), {}, {}
    for name in ("ours", "plain autograd", "not quantized"):
        model = Gpt2(*size, device)
        if name != "not quantized":
            recipe.put(model, name)
        losses[name], times[name] = train_gpt2(model, size, device, steps)
        if name == "ours":
            path = os.path.join(folder, "exported.pt")
            trained, loaded = export_gpt2(model, recipe, size, device, path)
            exported = os.path.getsize(path)
            os.remove(path)
        del model
    tail = max(1, steps // 10)
    last = {name: sum(row[-tail:]) / tail for name, row in losses.items()}
    with open(os.path.join(folder, f"gpt2_{of}.csv"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["step", *losses])
        table.writerows([step, *(f"{loss:.6g}" for loss in row)] for step, row in enumerate(zip(*losses.values())))
    return {"torch": torch.__version__, "device": torch.cuda.get_device_name() if device == "cuda" else "the emulator",
            "layers": size[0], "channels": size[1], "steps": steps, "recipe": of + " nearest" * nearest,
            "milliseconds": {name: statistics.median(row[steps // 3:]) for name, row in times.items()},
            f"last_{tail}": last, "first_losses": {name: row[0] for name, row in losses.items()},
            "apart": abs(last["ours"] - last["plain autograd"]) / last["plain autograd"],
            "greatest_difference": max(abs(a - b) / b for a, b in zip(losses["ours"], losses["plain autograd"])),
            "trained": trained, "loaded": loaded, "bytes": exported}


# ---- all ----------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--gpt2", type=int, nargs=2, metavar=("LAYERS", "CHANNELS"))
    parser.add_argument("--recipe", choices=RECIPES, default="lsq")
    parser.add_argument("--nearest", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    if options.gpt2:
        report = compare_gpt2(options.gpt2, options.steps, options.results, options.recipe, options.nearest)
        with open(os.path.join(options.results, f"gpt2_{options.recipe}.json"), "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
        print(json.dumps(report, indent=1))
        sys.exit(report["apart"] > MOST_APART or report["trained"] != report["loaded"])
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
    with open(os.path.join(options.results, "losses.csv"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["step", *runs])
        table.writerows([step, *(f"{loss:.9g}" for loss in row)]
                        for step, row in enumerate(zip(*runs.values())))
    with open(os.path.join(options.results, "train_quantized.json"), "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
