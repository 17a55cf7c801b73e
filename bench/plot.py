#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plots of what peers.py measured: FOLDER/kernels.svg, bandwidth against size, and FOLDER/clip.svg,
the time of each set. Needs matplotlib.

    plot.py FILE FOLDER
"""
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tables import VERSIONS, copy_rate, floor_us, present, read, rows_of

COLOURS = {"ours": "#d62728", "torch": "#1f77b4", "torch.compile": "#17becf",
           "CUDA C++": "#2ca02c", "CUDA C++, f64 sums": "#98df8a", "apex-style": "#9467bd",
           "Triton": "#ff7f0e", "original": "#7f7f7f"}


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


def main():
    lines, folder = read(sys.argv[1]), sys.argv[2]
    head = lines[0]
    caption = f"{head['machine']}, PyTorch {head['torch']}, commit {head['commit']}"
    copy = copy_rate(lines)
    kernels = [k for k in lines if k.get("kind") == "kernel"]
    clips = [k for k in lines if k.get("kind") == "clip"]
    plt.rcParams.update({"svg.hashsalt": "ptxgen", "svg.fonttype": "none"})
    if kernels:
        plot_kernels(kernels, copy, caption, os.path.join(folder, "kernels.svg"))
    if clips:
        plot_clip(clips, copy, caption, os.path.join(folder, "clip.svg"))


if __name__ == "__main__":
    main()
