#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plots of what peers.py measured: FOLDER/kernels.svg, bandwidth against size, and FOLDER/clip.svg,
the time of each set; of peers_step.py: FOLDER/step.svg, and FOLDER/sweep.svg, the time against
tensors and bytes; of train_gpt2.py's loss.csv: FOLDER/loss.svg; of train_muon.py's, in a folder
muon: FOLDER/muon_loss.svg. Needs matplotlib.

    plot.py FILE FOLDER
"""
import csv
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tables import (STEP_BYTES, STEP_OTHERS, VERSIONS, copy_rate, floor_us, present, read, rows_of,
                    step_floor_us)

COLOURS = {"ours": "#d62728", "torch": "#1f77b4", "torch.compile": "#17becf",
           "CUDA C++": "#2ca02c", "CUDA C++, f64 sums": "#98df8a", "apex-style": "#9467bd",
           "Triton": "#ff7f0e", "original": "#7f7f7f", "torch grad_scale": "#aec7e8",
           "multi_tensor": "#9467bd", "full": "#d62728", "stochastic": "#d62728",
           "state_bf16": "#ff9896", "remainder": "#e377c2", "master": "#f7b6d2",
           "state_8bit": "#8c564b"}


def plot_kernels(lines, copy, caption, path):
    names = list(dict.fromkeys(k["kernel"] for k in lines))
    dtypes = list(dict.fromkeys(k["dtype"] for k in lines))
    figure, axes = plt.subplots(len(names), len(dtypes), squeeze=False, sharex=True, sharey="row",
                                figsize=(4 * len(dtypes), 3 * len(names)))
    shown = {}
    for name, row in zip(names, axes):
        for dtype, ax in zip(dtypes, row):
            here = [k for k in lines if (k["kernel"], k["dtype"]) == (name, dtype)]
            for version in [v for v in VERSIONS if any(k["version"] == v for k in here)]:
                points = [(k["n"], k["tb_s"]) for k in here if k["version"] == version]
                shown[version], = ax.plot(*zip(*points), marker="o", markersize=3,
                                          linewidth=2 if version == "ours" else 1,
                                          zorder=3 if version == "ours" else 2,
                                          color=COLOURS[version])
            shown["device copy"] = ax.axhline(copy, color="black", linewidth=0.8, linestyle=":")
            ax.set_xscale("log", base=2)
            ax.set_title(f"{name}, {dtype}", fontsize=9)
            ax.grid(alpha=0.3)
        row[0].set_ylim(bottom=0)
        row[0].set_ylabel("TB/s")
    for ax in axes[-1]:
        ax.set_xlabel("elements")
    figure.suptitle("Bandwidth against size; where the tensors fit into the L2 cache, from it.  "
                    + caption, fontsize=10)
    figure.legend(shown.values(), shown.keys(), loc="lower center", ncol=len(shown))
    figure.tight_layout(rect=(0, 0.03, 1, 0.98))
    figure.savefig(path, metadata={"Date": None})


def plot_clip(lines, copy, caption, path):
    figure, axes = plt.subplots(2, 2, figsize=(15, 10), sharey="row", squeeze=False)
    for row, clipped in zip(axes, (True, False)):
        for ax, dtype in zip(row, ("f32", "bf16")):
            here = [k for k in lines if (k["form"], k["cache"], k["clipped"], k["dtype"])
                    == ("graph", "warm", clipped, dtype)]
            rows = rows_of(here, lambda k: k["set"])
            versions = present(rows)
            width = 0.85 / max(1, len(versions))
            for index, version in enumerate(versions):
                bars = [(at - 0.425 + (index + 0.5) * width, row_of[version]["median_us"])
                        for at, row_of in enumerate(rows.values()) if version in row_of]
                ax.bar(*zip(*bars), width=width, color=COLOURS[version], label=version)
            for at, row_of in enumerate(rows.values()):
                ax.hlines(floor_us(row_of["ours"], copy), at - 0.45, at + 0.45, color="black",
                          linewidth=0.8)
            ax.set_yscale("log")
            ax.set_xticks(range(len(rows)), rows.keys(), rotation=25, ha="right", fontsize=8)
            ax.set_title(f"{'clipped' if clipped else 'nothing to clip'}, {dtype}", fontsize=10)
            ax.grid(axis="y", alpha=0.3)
        row[0].set_ylabel("us, one replay of a graph")
    axes[0][0].legend(fontsize=8)
    figure.suptitle("Clipping a list of gradients; the line is what the bytes take at the rate of "
                    "a device copy.  " + caption, fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(path, metadata={"Date": None})


def plot_step(lines, copy, caption, path):
    rows = rows_of([k for k in lines if k["form"] == "graph"], lambda k: k["part"])
    figure, axes = plt.subplots(1, len(rows), figsize=(3.2 * len(rows), 5), squeeze=False)
    for ax, (part, row) in zip(axes[0], rows.items()):
        versions = [v for v in (*STEP_BYTES, *STEP_OTHERS) if v in row]
        for at, version in enumerate(versions):
            ax.bar(at, row[version]["median_us"], color=COLOURS[version])
            if version in STEP_BYTES:
                ax.hlines(step_floor_us(row[version], copy), at - 0.45, at + 0.45, color="black",
                          linewidth=1)
        ax.set_xticks(range(len(versions)), versions, rotation=60, ha="right", fontsize=8)
        ax.set_title(part, fontsize=9)
        ax.grid(axis="y", alpha=0.3)
    axes[0][0].set_ylabel("us, one replay of a graph")
    figure.suptitle("Norm, clip and AdamW; the line is what the bytes take at the rate of a device "
                    "copy.  " + caption, fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    figure.savefig(path, metadata={"Date": None})


def plot_sweep(lines, caption, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    for form in dict.fromkeys(k["format"] for k in lines):
        here = [k for k in lines if k["format"] == form]
        for name, style in (("many", "-"), ("one", ":")):
            points = [(k["elements"], k["median_us"]) for k in here
                      if k["kind"] == "sweep tensors" and k["list"] == name]
            left.plot(*zip(*points), style, marker="o", markersize=3,
                      label=f"{form}, {'tensors of 4,096' if name == 'many' else 'one tensor'}")
        right.plot(*zip(*[(k["elements"], k["median_us"]) for k in here
                          if k["kind"] == "sweep bytes"]), marker="o", markersize=3, label=form)
    for ax, title in ((left, "Many tensors, and one of as many elements"), (right, "One tensor")):
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xlabel("elements")
        ax.set_title(title, fontsize=10)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    left.set_ylabel("us, one replay of a graph")
    figure.suptitle("A step against tensors and bytes.  " + caption, fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    figure.savefig(path, metadata={"Date": None})


LOSS = {False: "GPT-2 trained with clip_grad_norm_ and fused AdamW, and with a step plan",
        True: "GPT-2 trained with clip_grad_norm_, torch.optim.Muon and fused AdamW, and with ptxgen.torch.Muon"}


def plot_loss(source, title, path):
    with open(source, encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    steps = [int(row[0]) for row in rows]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, height_ratios=(3, 1))
    curves = {name: [float(row[k + 1]) for row in rows] for k, name in enumerate(head[1:])}
    for name, style in (("torch", "-"), ("ptxgen", "--")):
        top.plot(steps, curves[name], style, label=name, linewidth=1.5,
                 color=COLOURS["torch" if name == "torch" else "ours"])
    bottom.plot(steps, [a - b for a, b in zip(curves["ptxgen"], curves["torch"])], color="black",
                linewidth=0.8)
    top.set_ylabel("loss")
    top.legend()
    bottom.set_ylabel("ptxgen - torch")
    bottom.set_xlabel("step")
    for ax in (top, bottom):
        ax.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, metadata={"Date": None})


def main():
    plt.rcParams.update({"svg.hashsalt": "ptxgen", "svg.fonttype": "none"})
    if sys.argv[1].endswith(".csv"):
        of_muon = os.path.basename(os.path.dirname(os.path.abspath(sys.argv[1]))) == "muon"
        plot_loss(sys.argv[1], LOSS[of_muon], os.path.join(sys.argv[2], "muon_loss.svg" if of_muon else "loss.svg"))
        return
    lines, folder = read(sys.argv[1]), sys.argv[2]
    head = lines[0]
    caption = f"{head['machine']}, PyTorch {head['torch']}, commit {head['commit']}"
    copy = copy_rate(lines)
    kernels = [k for k in lines if k.get("kind") == "kernel"]
    clips = [k for k in lines if k.get("kind") == "clip"]
    steps = [k for k in lines if k.get("kind") == "step"]
    sweeps = [k for k in lines if k.get("kind", "").startswith("sweep")]
    if steps:
        plot_step(steps, copy, caption, os.path.join(folder, "step.svg"))
    if {"sweep tensors", "sweep bytes"} <= {k["kind"] for k in sweeps}:
        plot_sweep(sweeps, caption, os.path.join(folder, "sweep.svg"))
    if kernels:
        plot_kernels(kernels, copy, caption, os.path.join(folder, "kernels.svg"))
    if clips:
        plot_clip(clips, copy, caption, os.path.join(folder, "clip.svg"))


if __name__ == "__main__":
    main()
