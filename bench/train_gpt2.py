#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a GPT-2 twice from the same weights on the same text: with PyTorch's clip_grad_norm_ and
fused AdamW, and with a step plan. Needs transformers, and no download: the text is this
repository's documentation, a byte a token.

    train_gpt2.py BUILD FOLDER [--steps N] [--seconds N] [--layers N --channels N]

BUILD is the Meson build folder. Writes FOLDER/loss.csv (a line a step: both losses) and
FOLDER/train.json. Takes GPT-2 124M if both runs fit into N seconds (default 120), else a smaller
one. Matrix products are bf16, parameters, gradients and states f32; weights decay, biases and norms
do not. Ends with 1 if the curves part, 77 without a GPU or emulator (PTXGEN_LIBCUDA).
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products

import torch
import transformers

import measure
import ptxgen
from device import Device
from scripts import needs_gpu, text, write_csv, write_json

SIZES = ((12, 768), (6, 384), (2, 64))  # layers and channels; the first that fits in time
BATCH, LENGTH, WARM_UP, PEAK = 8, 512, 20, 6e-4
HYPER = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
DECAYS = (0.1, 0.0)
MAX_NORM = 1.0
MOST_APART = 0.02  # of the losses' means over the last steps


def model_of(device, layers, channels):
    """The same weights each time, in memory that the device reads."""
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=layers, n_embd=channels, n_head=max(1, channels // 64), resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager", use_cache=False,
        vocab_size=50257 if channels >= 384 else 256))
    model.to(device.where).train()
    for p in model.parameters():
        p.data = device.like(p.data).view_as(p)
        p.grad = device.zeros(p.numel(), p.dtype).view_as(p)
    return model


def rate(step, steps):
    """Warm-up, then a straight line down to a tenth."""
    if step < WARM_UP:
        return PEAK * (step + 1) / WARM_UP
    return PEAK * (1 - 0.9 * (step - WARM_UP) / max(1, steps - WARM_UP))


class Torch:
    def __init__(self, tools, model):
        self.parameters = list(model.parameters())
        groups = [{"params": [p for p in self.parameters if (p.dim() < 2) == bool(k)],
                   "weight_decay": decay} for k, decay in enumerate(DECAYS)]
        self.optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=(HYPER["beta1"], HYPER["beta2"]),
                                           eps=HYPER["eps"], fused=True)

    def step(self, lr):
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_NORM)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def destroy(self):
        pass


class Ours:
    def __init__(self, tools, model):
        self.device, gpu = tools
        self.parameters = list(model.parameters())
        self.states = [[self.device.zeros(p.numel(), torch.float32) for _ in range(2)]
                       for p in self.parameters]
        self.count = self.device.zeros(1, torch.float32)
        tensors = [{"parameter": p.data_ptr(), "gradient": p.grad.data_ptr(), "dtype": "f32",
                    "format": "full", "count": p.numel(), "group": int(p.dim() < 2),
                    "state": (m.data_ptr(), v.data_ptr()), "step": self.count.data_ptr()}
                   for p, (m, v) in zip(self.parameters, self.states)]
        self.device.synchronize()
        self.plan = gpu.step_plan(
            tensors, groups=[{"rule": "adamw", "hyper": self.hyper(PEAK, decay)} for decay in DECAYS],
            max_norm=MAX_NORM, eps=1e-6, gradients="zero", stream=self.device.stream)

    @staticmethod
    def hyper(lr, decay):
        return {"lr": lr, "weight_decay": decay, **HYPER}

    def step(self, lr):
        for group, decay in enumerate(DECAYS):
            self.plan.set_hyper(group, self.hyper(lr, decay), stream=self.device.stream)
        self.plan.run(self.device.stream)
        if self.device.emulated:
            self.device.synchronize()

    def destroy(self):
        self.plan.close()


def train(tools, kind, size, data, steps, of):
    """The losses of the first `steps` steps of a run of `of`."""
    device = tools[0]
    model = model_of(device, *size)
    optimizer, losses = kind(tools, model), torch.zeros(steps, device=device.where)
    chosen = torch.Generator().manual_seed(2)
    length = min(LENGTH, size[1])
    for step in range(steps):
        starts = torch.randint(len(data) - length, (BATCH,), generator=chosen)
        batch = torch.stack([data[s:s + length] for s in starts.tolist()]).to(device.where)
        with torch.autocast(device.where, torch.bfloat16):
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        losses[step] = loss.detach()
        optimizer.step(rate(step, of))
    losses = losses.tolist()
    optimizer.destroy()
    return losses


def size_that_fits(tools, data, options):
    if options.layers:
        return options.layers, options.channels
    for size in SIZES:
        train(tools, Torch, size, data, 2, options.steps)
        begun = time.monotonic()
        train(tools, Torch, size, data, 5, options.steps)
        needed = (time.monotonic() - begun) / 5 * options.steps * 2
        print(f"{size[0]} layers of {size[1]}: about {needed:.0f} s", flush=True)
        if needed <= options.seconds:
            break
    return size


def both(tools, kinds, size, data, steps):
    """{name: losses} and {name: seconds} of both optimizers."""
    curves, seconds = {}, {}
    for name, kind in kinds.items():
        begun = time.monotonic()
        curves[name] = train(tools, kind, size, data, steps, steps)
        seconds[name] = round(time.monotonic() - begun, 1)
        print(f"{name}: loss {curves[name][0]:.4f} to {curves[name][-1]:.4f}, {seconds[name]} s", flush=True)
    return curves, seconds


def report(folder, names, curves, facts):
    """Writes a file of losses and one of what there is to say. Whether the curves stay together."""
    rows = list(zip(*curves.values()))
    write_csv(folder, names[0], ["step", *curves], ([step + 1, *row] for step, row in enumerate(rows)))
    last = [sum(curve[-20:]) / len(curve[-20:]) for curve in curves.values()]
    result = {"torch": torch.__version__, "commit": measure.commit(), **facts, "first_steps_alike": next(
        (k for k, (a, b) in enumerate(rows) if a != b), len(rows)),
              "most_apart": max(abs(a - b) for a, b in rows), "mean_of_last_20": last}
    write_json(folder, names[1], result)
    print(json.dumps(result))
    return abs(last[0] - last[1]) <= MOST_APART * last[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--channels", type=int, default=64)
    options = parser.parse_args()
    if "PTXGEN_LIBCUDA" not in os.environ:
        needs_gpu()
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = Device()
    tools = device, ptxgen.Device()
    data = text()
    size = size_that_fits(tools, data, options)
    curves, seconds = both(tools, {"torch": Torch, "ptxgen": Ours}, size, data, options.steps)
    return not report(options.folder, ("loss.csv", "train.json"), curves, {
        "machine": "emulator" if device.emulated else torch.cuda.get_device_name(),
        "transformers": transformers.__version__, "layers": size[0], "channels": size[1],
        "parameters": sum(p.numel() for p in model_of(device, *size).parameters()),
        "steps": options.steps, "batch": BATCH, "length": min(LENGTH, size[1]), "seconds": seconds})


if __name__ == "__main__":
    sys.exit(main())
