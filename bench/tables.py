#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Markdown tables of the results of peers.py and peers_step.py.

    tables.py FILE > TABLES
"""
import json
import sys

VERSIONS = ("ours", "ours, exact division", "torch", "torch.compile", "CUDA C++", "CUDA C++, f64 sums", "apex-style",
            "Triton", "original")
# Of peers_step.py: our formats with the bytes an element that a step moves, the norm's included; the
# other versions.
STEP_BYTES = {"full": 32, "state_bf16": 24, "stochastic": 16, "remainder": 28, "master": 30,
              "state_8bit": 12.0625}
STEP_OTHERS = ("torch", "torch grad_scale", "torch.compile", "CUDA C++", "multi_tensor")
STEP_FORMS = {"graph": "One replay of a graph", "eager": "One call from Python",
              "cold graph": "One replay of a graph, nothing of it in the cache",
              "host": "Time of the host alone, one call from Python"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def rows_of(lines, key):
    """{key: {version: line}}, in the order of the file."""
    rows = {}
    for line in lines:
        rows.setdefault(key(line), {})[line["version"]] = line
    return rows


def table(head, body):
    aligned = [":---" if k == 0 else "---:" for k in range(len(head))]
    for row in [head, aligned, *body]:
        print("| " + " | ".join(row) + " |")
    print()


def copy_rate(lines):
    """TB/s of the run's device copy: the faster one, because a slow phase is no reference."""
    return max(k["tb_s"] for k in lines if k.get("kind") == "copy")


def floor_us(line, copy):
    """The time of the bytes at that rate: read once; if it clips, also read and written again."""
    return (3 if line["clipped"] else 1) * line["bytes"] / copy / 1e6


def microseconds(time):
    return f"{time:.2f}" if time < 100 else f"{time:.1f}" if time < 1000 else f"{time:,.0f}"


def present(rows):
    found = {version for row in rows.values() for version in row}
    return [v for v in VERSIONS if v in found]


def kernel_tables(lines):
    names = dict.fromkeys(line["kernel"] for line in lines)
    for name in names:
        rows = rows_of([k for k in lines if k["kernel"] == name],
                       lambda k: (k["dtype"], k["n"]))
        versions = present(rows)
        others = [v for v in versions if not v.startswith("ours")]
        print(f"### {name}\n")
        body = []
        for (dtype, n), row in rows.items():
            best = min(row[v]["median_us"] for v in others if v in row)
            ours = row["ours"]
            body.append([f"{dtype} 2^{n.bit_length() - 1}",
                         *[microseconds(row[v]["median_us"]) if v in row else "" for v in versions],
                         f"{ours['tb_s']:.2f}", f"{ours['of_copy']:.3f}",
                         f"{best / ours['median_us']:.2f}"])
        table(["us", *versions, "ours, TB/s", "of the copy", "best other / ours"], body)


def clip_tables(lines, copy):
    for form, cache, clipped in (("graph", "warm", True), ("graph", "warm", False),
                                 ("eager", "warm", True), ("eager", "warm", False),
                                 ("graph", "cold", True), ("graph", "cold", False)):
        chosen = [k for k in lines if (k["form"], k["cache"], k["clipped"])
                  == (form, cache, clipped)]
        rows = rows_of(chosen, lambda k: (k["set"], k["dtype"]))
        if not rows:
            continue
        versions = present(rows)
        how = {"graph": "one replay of a graph", "eager": "one call from Python"}[form]
        print(f"### {'Clipped' if clipped else 'Nothing to clip'}, {how}"
              f"{', nothing of it in the cache' if cache == 'cold' else ''}\n")
        body = []
        for (name, dtype), row in rows.items():
            ours = row["ours"]
            body.append([f"{name}, {dtype}",
                         *[microseconds(row[v]["median_us"]) if v in row else "" for v in versions],
                         microseconds(floor_us(ours, copy)),
                         f"{row['torch']['median_us'] / ours['median_us']:.2f}"])
        table(["us", *versions, "floor", "torch / ours"], body)


def step_floor_us(line, copy):
    return STEP_BYTES[line["version"]] * line["elements"] / copy / 1e6


def step_tables(lines, copy):
    for form, title in STEP_FORMS.items():
        rows = rows_of([k for k in lines if k["kind"] == "step" and k["form"] == form],
                       lambda k: k["part"])
        if not rows:
            continue
        print(f"### {title}\n")
        others = [v for v in STEP_OTHERS if any(v in row for row in rows.values())]
        body = []
        for part, row in rows.items():
            for name in [v for v in STEP_BYTES if v in row]:
                ours = row[name]["median_us"]
                floor = step_floor_us(row[name], copy)
                body.append([f"{part}, {name}", microseconds(ours),
                             *[microseconds(row[v]["median_us"]) if v in row else ""
                               for v in others], microseconds(floor),
                             f"{floor / ours:.2f}", f"{row['torch']['median_us'] / ours:.2f}"])
        table(["us", "ours", *others, "floor", "floor / ours", "torch / ours"], body)


def sweep_tables(lines):
    for kind, title in (("sweep tensors", "Tensors of 4,096 elements, and one of as many"),
                        ("sweep split", "The same elements in more and more tensors"),
                        ("sweep bytes", "One tensor")):
        here = [k for k in lines if k["kind"] == kind]
        if not here:
            continue
        print(f"### {title}\n")
        body = [[k["format"], f"{k['tensors']:,}", f"{k['elements']:,}",
                 microseconds(k["median_us"]), f"{1e3 * k['median_us'] / k['elements']:.4f}"]
                for k in here]
        table(["format", "tensors", "elements", "us", "ns an element"], body)


def main():
    lines = read(sys.argv[1])
    head = lines[0]
    print(f"{head['machine']}, CUDA {head['driver'] // 1000}.{head['driver'] % 1000 // 10}, "
          f"PyTorch {head['torch']}, commit {head['commit']}. Medians of {head['repetitions']}, in "
          f"microseconds of the device. Device copy: {copy_rate(lines):.3f} TB/s, both directions counted.\n")
    kernels = [k for k in lines if k.get("kind") == "kernel"]
    clips = [k for k in lines if k.get("kind") == "clip"]
    if kernels:
        print("## Kernels\n")
        kernel_tables(kernels)
    if clips:
        print("## Clip plans\n")
        clip_tables(clips, copy_rate(lines))
    steps = [k for k in lines if k.get("kind") == "step" or k.get("kind", "").startswith("sweep")]
    if steps:
        print("## Step plans\n")
        step_tables(steps, copy_rate(lines))
        sweep_tables(steps)


if __name__ == "__main__":
    main()
