# SPDX-License-Identifier: MIT
"""Counts what a reader of our texts could do without: copies, zeros and reinterpretations, long lines, and the
longest stretch without a comment.

    python3 tests/dev/text_waste.py [FILE.ptx...]     default: those of tests/golden

The golden texts had 7,717 instructions, of which 9.30 % were copies, zeros and reinterpretations (169 copies and six
zeros were written once), four lines of more than 120 columns, and 1,013 lines in a row without a comment. Since
addresses are computed once and copies that nothing needs are dropped they have 7,386, 6.61 % (two), none, and 40.
"""

import collections
import pathlib
import re
import sys

INSTRUCTION = re.compile(r"(?:@!?%\w+ )?([a-z][\w.:]*)\s*(.*);")
REGISTER = re.compile(r"%[a-z]+\d+")
ZERO = re.compile(r"0|0x0+|0[fd]0+")
COLUMNS = 120


def results_of(opcode, operands):
    if opcode.startswith(("st.", "red.", "bra", "bar", "ret")):
        return []
    return REGISTER.findall(operands[:operands.index("}")] if operands.startswith("{") else operands.split(",")[0])


def count_entry(lines, count):
    code = [found.groups() for line in lines if (found := INSTRUCTION.match(line.split("//")[0].strip()))]
    writes = collections.Counter(reg for opcode, operands in code for reg in results_of(opcode, operands))
    for opcode, operands in code:
        count["instructions"] += 1
        if not opcode.startswith("mov.") or operands.count(",") != 1 or "{" in operands:
            continue
        to, source = (part.strip() for part in operands.split(","))
        once = "written once" if writes[to] == 1 else "of variables"
        if REGISTER.fullmatch(source):
            same = to.rstrip("0123456789") == source.rstrip("0123456789")
            count[f"{'copies' if same else 'reinterpretations'}, {once}"] += 1
        elif ZERO.fullmatch(source):
            count[f"zeros, {once}"] += 1


def main():
    golden = pathlib.Path(__file__).resolve().parents[1] / "golden"
    files = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(golden.glob("*.ptx"))
    count, longest, where = collections.Counter(), 0, ""
    for file in files:
        entry, last = [], 0
        for number, line in enumerate(file.read_text().splitlines(), 1):
            count["long lines"] += len(line) > COLUMNS
            begins = line.startswith(".visible")
            if line[:1] not in ("", " ", "$") or re.match(r"\s*(// |\.)", line):
                if not begins and number - last - 1 > longest:
                    longest, where = number - last - 1, f"{file.name}:{last}"
                last = number
            entry = [] if begins else entry + [line]
            if line.startswith("}"):
                count_entry(entry, count)
    for what, number in sorted(count.items()):
        print(f"{what}: {number}")
    waste = sum(number for what, number in count.items() if "," in what)
    print(f"copies, zeros and reinterpretations: {100 * waste / count['instructions']:.2f} % of instructions")
    print(f"longest stretch without a comment: {longest} lines, at {where}")


main()
