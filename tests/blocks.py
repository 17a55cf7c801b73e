#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""C's `continue` and `break` directly inside the builder's blocks:

    tests/blocks.py SOURCE

A block macro such as ptx_if is a C loop that runs once, so `continue` in it writes no jump into the
kernel, and `break` leaves the block open. The kernel's own are ptx_continue(), ptx_continue_if(),
ptx_break() and ptx_break_if(). Inside a C loop or switch within the block they are C's, and fine.
Reads the sources of SOURCE, names each place, FILE:LINE, and exits with 1 if there is one. Before,
it must find those of tests/blocks.c, which are marked with "// found", and no others.
"""

import glob
import os
import re
import sys

FOLDERS = "bench examples include python src tests tools".split()
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blocks.c")

BLOCKS = """ptx_entry ptx_func ptx_if ptx_else ptx_else_if ptx_for ptx_for_down ptx_grid_stride ptx_loop
ptx_while PTXGEN_BLOCK NEW_ENTRY NEW_ENTRY_WITH""".split()
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\n|[^\s]""",
    re.DOTALL,
)


class File:
    """The tokens of a file, read as statements."""

    def __init__(self, text):
        self.tokens = []
        self.found = []
        self.at = 0
        line = 1
        text = text.replace("\\\n", " \n")
        for match in TOKEN.finditer(text):
            word = match.group()
            if not (word == "\n" or word.startswith(("//", "/*"))):
                self.tokens.append((word, line))
            line += word.count("\n")
        self.tokens.append(("", line))

    def word(self):
        return self.tokens[self.at][0]

    def next_is(self, word):
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)][0] == word

    def parentheses(self, inside):
        """Skips (...), in which there may be statements, too."""
        if self.word() == "(":
            self.at += 1
            while self.word() not in (")", ""):
                self.rest(inside)
                self.at += self.word() in (";", "}", "]")
            self.at += 1

    def statement(self, inside):
        """Reads a statement; `inside` has what `break` and what `continue` leave: "block", "C"."""
        word, line = self.tokens[self.at]
        if word == "{":
            self.at += 1
            while self.word() not in ("}", ""):
                self.statement(inside)
                self.at += self.word() in (")", "]")
            self.at += 1
        elif word in ("for", "while", "switch", "if"):
            self.at += 1
            self.parentheses(inside)
            within = {"if": inside, "switch": ("C", inside[1])}.get(word, ("C", "C"))
            self.statement(within)
        elif word in ("else", "do"):
            self.at += 1
            self.statement(inside if word == "else" else ("C", "C"))
        elif word in BLOCKS and self.next_is("("):
            self.at += 1
            self.parentheses(inside)
            self.statement(("block", "block"))
        else:
            if word in ("break", "continue") and inside[word == "continue"] == "block":
                self.found.append((line, word))
            self.rest(inside)
            self.at += self.word() == ";"

    def rest(self, inside):
        """Skips up to the end of a simple statement, or to what closes the text around it."""
        while self.word() not in (";", ")", "]", "}", ""):
            if self.word() == "(":
                self.parentheses(inside)
            elif self.word() == "{" or (self.word() in BLOCKS and self.next_is("(")):
                self.statement(inside)
                if self.word() not in (",", ";", ".", ")"):
                    return
            elif self.word() == "[":
                self.at += 1
                self.rest(inside)
                self.at += 1
            else:
                self.at += 1
                if self.tokens[self.at - 1][0] == ":":
                    return  # a label, or a case


def find(path):
    """The lines, with the words."""
    with open(path, encoding="utf-8") as f:
        file = File(f.read())
    while file.word():
        file.statement(("C", "C"))
        file.at += file.word() in (")", "]", "}")
    return file.found


def example_is_found():
    with open(EXAMPLE, encoding="utf-8") as f:
        marked = [n for n, line in enumerate(f, 1) for _ in range(line.count("// found"))]
    found = [line for line, _ in find(EXAMPLE)]
    if found != marked or not marked:
        print(f"{EXAMPLE}: found in lines {found}, and marked are {marked}")
    return found == marked and bool(marked)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    good = example_is_found()
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(sys.argv[1], folder, "**"), recursive=True)):
            if not path.endswith((".c", ".h", ".cc", ".hpp")) or os.path.samefile(path, EXAMPLE):
                continue
            for line, word in find(path):
                print(f"{path}:{line}: C's {word} in a block writes no jump; ptx_{word}() does")
                good = False
    sys.exit(not good)


if __name__ == "__main__":
    main()
