# SPDX-License-Identifier: MIT
"""Compares what ptxas makes of two folders of texts: registers, spills and stack of every entry.

    mkdir before && BUILD/tests/kernels/test_golden --texts before     (all texts of tests/golden/hashes.txt)
    python3 bench/ptxas_table.py [--jobs N] [--cache FILE] before after

A target that this ptxas does not know is replaced by the oldest that it does. Prints a summary, and each entry that
has other registers or spills. Exit status 1 if an entry spills more.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

OLDEST = 75
ENTRY = re.compile(r"Compiling entry function '([^']+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def assembled(text):
    """{entry: [registers, spill bytes, stack bytes]} of a text."""
    target = re.search(r"^\.target (sm_(\d+)\w*)", text, re.M)
    if int(target[2]) < OLDEST:
        text = re.sub(r"^\.version 6\.[0-2]", ".version 6.3", text, count=1, flags=re.M)
        text = re.sub(r"^\.target sm_\d+", f".target sm_{OLDEST}", text, count=1, flags=re.M)
        target = re.search(r"^\.target (sm_(\d+)\w*)", text, re.M)
    done = subprocess.run(["ptxas", "-v", f"-arch={target[1]}", "-o", "/dev/null", "/dev/stdin"], input=text, text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"ptxas: {done.stderr[:400]}")
    entries, name = {}, None
    for line in done.stderr.splitlines():
        if found := ENTRY.search(line):
            name = found[1]
            entries[name] = [0, 0, 0]
        elif found := STACK.search(line):
            entries[name][1:] = [int(found[2]) + int(found[3]), int(found[1])]
        elif found := USED.search(line):
            entries[name][0] = int(found[1])
    return entries


def code_of(text):
    """The text without comments, which decide nothing."""
    return re.sub(r"\s*//[^\n]*", "", text)


def table(folder, jobs, cache):
    """{(file, entry): [registers, spill bytes, stack bytes]} of a folder."""
    texts = {path.name: path.read_text() for path in sorted(pathlib.Path(folder).glob("*.ptx"))}
    keys = {name: hashlib.sha256(code_of(text).encode()).hexdigest() for name, text in texts.items()}
    left = {key: texts[name] for name, key in keys.items() if key not in cache}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for key, entries in zip(left, pool.map(assembled, left.values())):
            cache[key] = entries
    return {(name, entry): row for name, key in keys.items() for entry, row in cache[key].items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", help="a file of what was assembled already")
    parser.add_argument("before")
    parser.add_argument("after")
    args = parser.parse_args()
    file = pathlib.Path(args.cache) if args.cache else None
    cache = json.loads(file.read_text()) if file and file.exists() else {}
    try:
        before, after = (table(folder, args.jobs, cache) for folder in (args.before, args.after))
    finally:
        if file:
            file.write_text(json.dumps(cache))
    both = [key for key in before if key in after]
    changes = collections.Counter(after[key][0] - before[key][0] for key in both)
    for key in both:
        old, new = before[key], after[key]
        if old != new:
            print(f"{key[0]} {key[1]}: {old[0]} -> {new[0]} registers, {old[1]} -> {new[1]} bytes of spills, "
                  f"{old[2]} -> {new[2]} of stack")
    worse = [key for key in both if after[key][1] > before[key][1]]
    print(f"{len(both)} entries; registers: {sum(n for d, n in changes.items() if d < 0)} have fewer, "
          f"{changes[0]} as many, {sum(n for d, n in changes.items() if d > 0)} more; sum "
          f"{sum(before[key][0] for key in both)} -> {sum(after[key][0] for key in both)}")
    print("differences: " + ", ".join(f"{d:+d}: {n}" for d, n in sorted(changes.items()) if d))
    print(f"spills: {sum(before[key][1] > 0 for key in both)} -> {sum(after[key][1] > 0 for key in both)} entries, "
          f"{sum(before[key][1] for key in both)} -> {sum(after[key][1] for key in both)} bytes; more in {len(worse)}")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
