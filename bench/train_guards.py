#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A GPT-2 with random weights through some bad batches, three times over the same data: without clipping, with clipping,
and with clipping and guards. The bad batches are random tokens, as of a broken shard; the rest is this repository's
documentation, a byte a token. Needs transformers, and no download.

    PYTHONPATH=build/python python3 bench/train_guards.py RESULTS [--steps N] [--bad N]

Writes RESULTS/bad_batch.csv (a line a step: the losses and norms of all three, and what the guards skipped),
RESULTS/bad_batch.json and, with matplotlib, RESULTS/bad_batch.svg. GPT-2 124M and a minute on an H200; on the CPU a tiny
one, with the emulator in place of libcuda. Ends with 1 if the guards let a bad batch through.
"""

import argparse
import json
import os
import sys
import time

import torch
import transformers

import measure
import ptxgen
import ptxgen.torch
from scripts import gpu_or_emulator, text, write_csv, write_json
from train_gpt2 import BATCH, rate

MAX_NORM = 1.0
RUNS = ("no clipping", "clipping", "clipping, guards")


def model_of(device, tiny):
    torch.manual_seed(1)
    size = ({"n_layer": 1, "n_embd": 16, "n_head": 1, "vocab_size": 256, "n_positions": 64} if tiny else
            {"n_layer": 12, "n_embd": 768, "n_head": 12})
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **size)).to(device).train()


def batches(data, model, steps, bad, length):
    """The tokens of each step."""
    chosen, vocabulary = torch.Generator().manual_seed(2), model.config.vocab_size
    for step in range(steps):
        starts = torch.randint(len(data) - length, (BATCH,), generator=chosen).tolist()
        noise = torch.randint(vocabulary, (BATCH, length), generator=chosen)
        yield noise if step in bad else torch.stack([data[s:s + length] for s in starts])


def train(kind, data, options, device, tiny):
    """The loss and the norm of each step, and whether it was skipped."""
    model = model_of(device, tiny)
    guards = None
    if kind == RUNS[2]:
        guards = ptxgen.torch.Guards(history=options.history, losses=True, most_skips=10 * len(options.bad))
    optimizer = ptxgen.torch.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, guards=guards,
                                   max_grad_norm=float("inf") if kind == RUNS[0] else MAX_NORM)
    rows = []
    for step, tokens in enumerate(batches(data, model, options.steps, options.bad, 64 if tiny else 512)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options.steps) * (30 if tiny else 1)
        tokens = tokens.to(device)
        with torch.autocast(device, torch.bfloat16, enabled=not tiny):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        if guards is not None:
            guards.latest_loss = loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        skipped = torch.zeros((), device=device) if guards is None else guards.skipped
        rows.append(torch.stack([loss.detach().float(), optimizer.grad_norm.clone(), skipped.clone()]))
    return torch.stack(rows).tolist()


def summary(curves, options):
    """Of each run, on good batches: mean losses before the bad ones, after them and at the end, and the worst one after."""
    first, after, count, made = min(options.bad), max(options.bad) + 1, options.steps // 15, {}
    guarded = [row[0] for row in curves[RUNS[2]]]
    for kind, rows in curves.items():
        losses = [row[0] for row in rows]
        behind = [k for k in range(after, options.steps) if losses[k] > guarded[k] + 0.05]
        made[kind] = {"before": sum(losses[first - count:first]) / count, "worst after": max(losses[after:]),
                      "after": sum(losses[after:after + count]) / count, "last": sum(losses[-count:]) / count, "good steps 0.05 behind the guarded run": len(behind),
                      "last of them": max(behind, default=None),
                      "skipped": [k for k, row in enumerate(rows) if row[2]],
                      "norms of the bad": [rows[k][1] for k in options.bad]}
    return made


def plot(curves, options, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(2, 1, sharex=True, figsize=(8, 6))
    for ax, column, label in zip(axes, (0, 1), ("loss", "norm of the gradients")):
        for kind, rows in curves.items():
            ax.plot([row[column] for row in rows], label=kind, linewidth=1)
        ax.axvspan(min(options.bad), max(options.bad), alpha=0.2, color="grey")
        ax.set_ylabel(label)
        ax.grid(alpha=0.3)
    axes[1].set_yscale("log")
    axes[1].set_xlabel("step; random tokens in the grey ones")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--bad", type=int, default=5, help="bad batches, one after another")
    options = parser.parse_args()
    gpu, device = gpu_or_emulator()
    tiny = not gpu
    options.steps = options.steps or (50 if tiny else 300)
    options.history = 16 if tiny else 128
    at = options.steps * 3 // 5
    options.bad = range(at, at + options.bad)
    data, curves, begun = text(), {}, time.monotonic()
    for kind in RUNS:
        curves[kind] = train(kind, data, options, device, tiny)
    made = {"machine": ptxgen.Device().info.name, "torch": torch.__version__, "transformers": transformers.__version__,
            "commit": measure.commit(), "steps": options.steps, "bad": list(options.bad),
            "seconds": round(time.monotonic() - begun, 1), "runs": summary(curves, options)}
    write_csv(options.folder, "bad_batch.csv",
              ["step", *(f"{what}, {kind}" for kind in RUNS for what in ("loss", "norm")), "skipped"],
              ([step, *(f"{value:.6g}" for row in rows for value in row[:2]), int(rows[2][2])]
               for step, rows in enumerate(zip(*curves.values()))))
    write_json(options.folder, "bad_batch.json", made)
    plot(curves, options, os.path.join(options.folder, "bad_batch.svg"))
    print(json.dumps(made, indent=1))
    return 0 if set(options.bad) <= set(made["runs"][RUNS[2]]["skipped"]) else 1


if __name__ == "__main__":
    sys.exit(main())
