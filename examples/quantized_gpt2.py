#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A GPT-2 whose linear layers have weights of 4 bits in groups of 32 with learned step sizes (lsq), or are NVFP4Linear (nvfp4),
by ptxgen.torch.quantization; beside it plain autograd code of the same formulas, and the model without quantizers. The text is
the documentation that lies beside this folder, a byte a token. Then the trained weights are exported, saved, and loaded into
another model.

    python3 quantized_gpt2.py RESULTS [--size LAYERS CHANNELS] [--steps N] [--recipe lsq|nvfp4] [--nearest]

12 768, the size unless another is given, are 124M weights: for a GPU. Without one it runs on the emulator: --size 1 32
--steps 3.
Writes RESULTS/gpt2_RECIPE.csv, the losses, and RESULTS/gpt2_RECIPE.json; ends with 1 if the losses part or the loaded model's
is another. --nearest: nvfp4 without stochastic rounding, whose random bits are others in the plain code."""

import argparse
import csv
import glob
import json
import os
import statistics
import sys
import time

import ptxgen
import ptxgen.torch
import torch
from ptxgen.torch.quantization import (Int4Groups, LearnedQuantizer, NVFP4Blocks, NVFP4Linear, export_int4, export_nvfp4,
                                       fake_quantize_block, quantize_model)
from torch.nn import functional

GROUP = 32
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
    return LearnedQuantizer.of(weight, -8, 7, axis=-1, group=GROUP)


class Lsq:
    def __init__(self, nearest):
        self.kinds = {"ours": by_ours, "plain autograd": PlainQuantizer}

    def put(self, model, kind):
        quantize_model(model, lambda name, _: name.endswith(QUANTIZED), weight=self.kinds[kind])

    def export(self, layer):
        return tuple(export_int4(layer.weight, layer.weight_quantizer, dtype=torch.float32))

    def load(self, layer, codes):
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
        rows = fake_quantize_block(x.detach().flatten(0, -2).bfloat16(), "nvfp4")
        return ((rows @ self.weight.t()).view(*x.shape[:-1], -1).float() + self.bias).to(x.dtype)


class Nvfp4:
    def __init__(self, nearest):
        self.stochastic = not nearest

    def put(self, model, kind):
        for block in model.blocks:
            for name in QUANTIZED:
                layer = getattr(block, name)
                if kind == "ours":
                    setattr(block, name, NVFP4Linear.of(layer, stochastic=self.stochastic))
                else:
                    layer.__class__, layer.stochastic = PlainLinear, self.stochastic

    def export(self, layer):
        return tuple(export_nvfp4(layer))

    def load(self, layer, codes):
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
    parser.add_argument("--size", type=int, nargs=2, metavar=("LAYERS", "CHANNELS"), default=(12, 768))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--recipe", choices=RECIPES, default="lsq")
    parser.add_argument("--nearest", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    report = compare_gpt2(options.size, options.steps, options.results, options.recipe, options.nearest)
    with open(os.path.join(options.results, f"gpt2_{options.recipe}.json"), "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    print(json.dumps(report, indent=1))
    sys.exit(report["apart"] > MOST_APART or report["trained"] != report["loaded"])


if __name__ == "__main__":
    main()
