#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training step captured into a graph beside the same step launched kernel by kernel: the ratio that contract
F-GRAPH-BWD-003 is about.

    bench/captured.py BUILD [-o FILE]

BUILD/examples/train takes the times: forward, backward and step plan of two layers with LoRA adapters, 1,000
steps, batch 4, the fastest of five runs of each form. It first requires equal losses, norms and weights of both
forms, every bit. FILE receives a line of JSON for each size. Exit status: 0 if the captured step is at least
1.10 times as fast in every size, 1 if not or if a result is wrong, 77 without a GPU.
"""
import argparse
import json
import os
import re
import subprocess
import sys

WANTED = 1.10
BATCH = 4
SIZES = ((1024, 8), (1024, 16))  # width of a layer, rank of its adapters


def measure(program, width, rank):
    """The row of a size, or the exit status."""
    done = subprocess.run([program, "--width", str(width), "--rank", str(rank), "--batch", str(BATCH),
                           "--steps", "1000", "--repeats", "5"], capture_output=True, text=True, check=False)
    found = re.search(r"time of a step: ([\d.]+) us launched one by one, ([\d.]+) us captured", done.stdout)
    if done.returncode != 0 or not found:
        print(done.stdout[-2000:] * (done.returncode != 77) + done.stderr, end="")
        return done.returncode or 1
    launched, captured = float(found[1]), float(found[2])
    return {"contract": "F-GRAPH-BWD-003", "machine": re.match(r"train on (.*?):", done.stdout)[1], "width": width,
            "rank": rank, "batch": BATCH, "gradient_elements": 4 * width * rank, "launched_us": launched,
            "captured_us": captured, "ratio": round(launched / captured, 3), "wanted": WANTED}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("-o", "--output")
    options = arguments.parse_args()
    if "emulator" in os.environ.get("PTXGEN_LIBCUDA", ""):
        print("captured.py: the emulator's times say nothing about a GPU")
        return 77
    rows = [measure(os.path.join(options.build, "examples", "train"), width, rank) for width, rank in SIZES]
    failed = [row for row in rows if isinstance(row, int)]
    if failed:
        return 77 if set(failed) == {77} else 1
    for row in rows:
        print("{machine}: width {width}, rank {rank}, batch {batch}: {launched_us} us launched one by one, "
              "{captured_us} us captured, {ratio} times as fast; wanted {wanted}".format(**row))
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return 0 if all(row["ratio"] >= WANTED for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
