# SPDX-License-Identifier: MIT
"""What scripts share that measure nothing: a GPU or the emulator, a text to train on, results as files."""
import csv
import glob
import json
import os
import sys

import torch


def needs_gpu():
    """Ends the script where PyTorch sees no GPU."""
    if not torch.cuda.is_available():
        print(f"{os.path.basename(sys.argv[0])}: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(77)


def gpu_or_emulator():
    """Whether there is a GPU, and the device of tensors. Else they are the CPU's, and plans the emulator's, which
    PTXGEN_LIBCUDA names."""
    import ptxgen
    import ptxgen.torch
    gpu = torch.cuda.is_available() and "emulator" not in ptxgen.Device().info.name
    if not gpu:
        ptxgen.torch.emulate()
    return gpu, "cuda" if gpu else "cpu"


def text():
    """This repository's documentation, a byte a token."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    parts = []
    for path in sorted(glob.glob(os.path.join(root, "docs", "*.md"))
                       + glob.glob(os.path.join(root, "include", "ptxgen", "*.h"))):
        with open(path, "rb") as file:
            parts.append(file.read())
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).long()


def write_json(folder, name, found):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


def write_csv(folder, name, header, rows):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_lines(path, lines):
    """JSON lines on the screen and, where there is a path, in a file."""
    for line in lines:
        print(json.dumps(line))
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
