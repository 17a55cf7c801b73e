#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small GPT-2 twice from the same weights on the same text: with torch.optim.Muon for its hidden matrices and
AdamW for the rest, and with ptxgen.torch.Muon for both. As train_gpt2.py, whose model, text and batches these are.

    train_muon.py BUILD FOLDER [--steps N] [--layers N --channels N]

BUILD is the Meson build folder. Writes FOLDER/muon_loss.csv (a line a step: both losses) and FOLDER/train_muon.json. Ends
with 1 if the curves part, 77 without a GPU.
"""
import argparse
import csv
import json
import os
import sys
import time

import torch

import train_gpt2
import measure
import ptxgen.torch
from device import Device

MUON = {"momentum": 0.95, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
ADAMW = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
MOST_APART = 0.02  # of the losses' means over the last steps


def split(model):
    """The hidden matrices, and the rest."""
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and ".h." in name]
    chosen = set(map(id, matrices))
    return matrices, [p for p in model.parameters() if id(p) not in chosen]


class Torch:
    def __init__(self, tools, model):
        self.parameters = list(model.parameters())
        matrices, others = split(model)
        self.optimizers = [torch.optim.Muon(matrices, **MUON), torch.optim.AdamW(others, fused=True, **ADAMW)]

    def step(self, lr):
        torch.nn.utils.clip_grad_norm_(self.parameters, train_gpt2.MAX_NORM)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    def destroy(self):
        pass


class Ours:
    def __init__(self, tools, model):
        matrices, others = split(model)
        self.optimizer = ptxgen.torch.Muon([{"params": matrices, **MUON}, {"params": others, "use_muon": False, **ADAMW}],
                                           max_grad_norm=train_gpt2.MAX_NORM)

    def step(self, lr):
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def destroy(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--channels", type=int, default=384)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("train_muon.py: PyTorch sees no GPU", file=sys.stderr)
        return 77
    tools, data, size = (Device(), None), train_gpt2.text(), (options.layers, options.channels)
    curves, seconds = {}, {}
    for name, kind in (("torch", Torch), ("ptxgen", Ours)):
        begun = time.monotonic()
        curves[name] = train_gpt2.train(tools, kind, size, data, options.steps, options.steps)
        seconds[name] = round(time.monotonic() - begun, 1)
        print(f"{name}: loss {curves[name][0]:.4f} to {curves[name][-1]:.4f}, {seconds[name]} s", flush=True)
    rows = list(zip(*curves.values()))
    with open(os.path.join(options.folder, "muon_loss.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", *curves])
        writer.writerows([step + 1, *row] for step, row in enumerate(rows))
    last = [sum(curve[-20:]) / len(curve[-20:]) for curve in curves.values()]
    result = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "commit": measure.commit(),
              "layers": size[0], "channels": size[1], "steps": options.steps, "seconds": seconds,
              "most_apart": max(abs(a - b) for a, b in rows), "mean_of_last_20": last}
    with open(os.path.join(options.folder, "train_muon.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    print(json.dumps(result))
    return 0 if abs(last[0] - last[1]) <= MOST_APART * last[0] else 1


if __name__ == "__main__":
    sys.exit(main())
