#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small GPT-2 twice from the same weights on the same text: with torch.optim.Muon for its hidden matrices and
AdamW for the rest, and with ptxgen.torch.Muon for both. As train_gpt2.py, whose model, text and batches these are.

    train_muon.py BUILD FOLDER [--steps N] [--layers N --channels N]

BUILD is the Meson build folder. Writes FOLDER/muon_loss.csv (a line a step: both losses) and FOLDER/train_muon.json. Ends
with 1 if the curves part, 77 without a GPU.
"""
import argparse
import sys

import torch

import train_gpt2  # finds the package
import ptxgen.torch
from device import Device
from scripts import needs_gpu, text

MUON = {"momentum": 0.95, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
ADAMW = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


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
    needs_gpu()
    size = options.layers, options.channels
    curves, seconds = train_gpt2.both((Device(), None), {"torch": Torch, "ptxgen": Ours}, size, text(), options.steps)
    return not train_gpt2.report(options.folder, ("muon_loss.csv", "train_muon.json"), curves, {
        "machine": torch.cuda.get_device_name(), "layers": size[0], "channels": size[1], "steps": options.steps,
        "seconds": seconds})


if __name__ == "__main__":
    sys.exit(main())
