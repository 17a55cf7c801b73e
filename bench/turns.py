#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two builds of the bench program in turns, so that a drift of the machine meets both:

    bench/turns.py BEFORE AFTER [--turns 3] [-o FILE] -- SUITE [OPTION...] [-- SUITE [OPTION...]]...

BEFORE and AFTER are bench programs. Of each figure that both print, a line: the least of its medians in both, in
microseconds, and the quotient. The last line names the slowest of those above 10 us: a shorter one is mostly the
host's time.
"""

import argparse
import json
import subprocess
import sys

# What tells figures apart is every field but these.
MEASURED = ("median_us", "min_us", "max_us", "samples", "bytes", "bytes_per_second", "of_copy", "checked", "emulator")


def word(key, value):
    """A field of a figure: a text as it is, a flag by its name, a number with its name."""
    return value if isinstance(value, str) else key if value is True else f"{key} {value}"


def figures(program, arguments):
    """The device, and {name: median} of a run."""
    done = subprocess.run([program, *arguments, "-q", "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode:
        sys.exit(f"turns.py: {program} {' '.join(arguments)}: status {done.returncode}\n{done.stderr[-2000:]}")
    machine, *rows = (json.loads(line) for line in done.stdout.splitlines())
    return machine, {", ".join(word(key, value) for key, value in row.items()
                               if key not in MEASURED and value is not False): row["median_us"]
                     for row in rows if "median_us" in row}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("-o", "--output")
    where = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:where])
    runs = [[]]
    for argument in sys.argv[where + 1:]:
        if argument == "--":
            runs.append([])
        else:
            runs[-1].append(argument)

    least = ({}, {})
    machines = [None, None]
    for _ in range(options.turns):
        for arguments in runs:
            for build, program in enumerate((options.before, options.after)):
                machines[build], medians = figures(program, arguments)
                for name, median in medians.items():
                    least[build][name] = min(median, least[build].get(name, median))

    both = sorted(name for name in least[0] if name in least[1])
    if not both:
        sys.exit("turns.py: no figure is printed by both programs")
    lines = [f"# us: least of {options.turns} medians, at {machines[0]['commit']} and at {machines[1]['commit']}, and "
             f"the quotient; {machines[1]['device']}, builds in turns"]
    lines += [f"{name:<90} {least[0][name]:10.2f} {least[1][name]:10.2f} {least[1][name] / least[0][name]:7.3f}"
              for name in both]
    long = [name for name in both if least[0][name] > 10]
    if long:
        slowest = max(long, key=lambda name: least[1][name] / least[0][name])
        lines.append(f"# {len(both)} figures; of {len(long)} above 10 us the slowest is "
                     f"{least[1][slowest] / least[0][slowest]:.3f} times as long: {slowest}")
    text = "\n".join(lines) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
        print(lines[-1])
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
