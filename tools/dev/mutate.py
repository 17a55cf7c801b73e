#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Changes one thing in the sources, and says whether a test notices.

    python3 tools/dev/mutate.py [--seed S] [--count N] [--scratch FOLDER] [--pick 3,17] [FILE...]

Each mutant is one change: an operator, a constant, a condition or a dropped statement, chosen at
random from the C files of src/ptxgen, src/kernels, src/plans and src/driver, or from those named.
It is built in a scratch copy of HEAD. The tests of its layer run first, then all others that are
fast, up to the first failure. A mutant that does not compile is replaced by another.

A mutant that survives shows a missing assertion, or changes nothing that can be seen ("equivalent":
the growth of a buffer, say). Tests that need a GPU, tests of the emulator alone, and tests slower
than --slowest seconds are left out. The scratch folder is kept and used again. The same seed gives the same mutants of the same sources.
"""

import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src/ptxgen", "src/kernels", "src/plans", "src/driver"]
# The tests to begin with, by the folder of the change: folders of test programs, or names.
FIRST = {
    "src/ptxgen": ["tests/builder/", "golden", "program texts", "instructions"],
    "src/kernels": ["golden", "tests/kernels/"],
    "src/plans": ["golden", "tests/plans/"],
    "src/driver": ["tests/driver/"],
}
LEFT_OUT = re.compile(r"gpu|ptxas|op floors|cuda abi|emulator (parse|exec|cuda|fuzz|isa|memory|abi|host)"
                      r"|example|readme|half|reference")

OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"],
    "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["&"],
    "+=": ["-="], "-=": ["+="], "|=": ["&="], "&=": ["|="], "++": ["--"], "--": ["++"],
}
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    r"|0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|[A-Za-z_]\w*"
    r"|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S", re.S | re.M)
WORD = re.compile(r"[A-Za-z_]\w*|\d.*")
STATEMENT = re.compile(r"^[ \t]+(?!return|break|continue|goto|case|default|static|const|struct|enum)"
                       r"(?:[A-Za-z_][\w.\->\[\]]*(?:\(.*\)| [-+|&]?= .*)|[+-]{2}.*|.*[+-]{2});$", re.M)
NO_OPERAND = {"return", "case", "sizeof"}


class Mutant:
    def __init__(self, path, begin, end, new, kind):
        self.path, self.begin, self.end, self.new, self.kind = path, begin, end, new, kind

    def text(self, old):
        return old[:self.begin] + self.new + old[self.end:]


def condition_end(text, begin):
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return begin


def mutants_of(path, text):
    """Every change of one file."""
    found = []
    tokens = [m for m in TOKEN.finditer(text) if not re.match(r"//|/\*|[ \t]*#", m.group())]
    for k, token in enumerate(tokens):
        word, before = token.group(), tokens[k - 1].group() if k else ""
        after = tokens[k + 1] if k + 1 < len(tokens) else None
        begin, end = token.span()
        if word in ("if", "while") and after and after.group() == "(":
            close = condition_end(text, after.start())
            found.append(Mutant(path, after.end(), close, "!(" + text[after.end():close] + ")",
                                "condition"))
        elif word in ("true", "false"):
            found.append(Mutant(path, begin, end, "false" if word == "true" else "true", "constant"))
        elif re.fullmatch(r"\d+", word):
            for new in {int(word) + 1, max(int(word) - 1, 0)} - {int(word)}:
                found.append(Mutant(path, begin, end, str(new), "constant"))
        elif word in OPERATORS:
            binary = (WORD.fullmatch(before) and before not in NO_OPERAND) or before in (")", "]")
            spaced = text[begin - 1] == " " and text[end:end + 1] in (" ", "\n")
            if word in ("++", "--") or (binary and spaced):
                found += [Mutant(path, begin, end, new, "operator") for new in OPERATORS[word]]
    for line in STATEMENT.finditer(text):
        code = line.group()
        if code.count("(") == code.count(")"):
            indent = len(code) - len(code.lstrip())
            found.append(Mutant(path, line.start() + indent, line.end(), ";", "statement"))
    return found


class Test:
    def __init__(self, entry, build):
        self.name, self.command, self.tap = entry["name"], entry["cmd"], entry["protocol"] == "tap"
        self.folder, self.seconds = entry["workdir"] or build, 0.0
        self.env = dict(os.environ, MALLOC_PERTURB_="165", **entry["env"])
        program = entry["cmd"][0]
        self.program = os.path.relpath(program, build) if program.startswith(str(build)) else ""

    def run(self, limit):
        """None if it passes, else why not."""
        try:
            done = subprocess.run(self.command, env=self.env, cwd=self.folder, timeout=limit,
                                  stdin=subprocess.DEVNULL, capture_output=True)
        except subprocess.TimeoutExpired:
            return "runs on"
        if self.tap and re.search(rb"^not ok", done.stdout, re.M):
            return "not ok"
        return None if done.returncode in (0, 77) else f"exit {done.returncode}"


class Scratch:
    """A copy of HEAD with a build, and its tests with the seconds that each takes."""

    def __init__(self, folder, jobs, slowest):
        self.folder, self.build, self.jobs = folder, folder / "build", jobs
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True,
                                 check=True)
        subprocess.run(["tar", "x", "-m", "-C", folder], input=archive.stdout, check=True)
        if not self.build.exists():
            subprocess.run(["meson", "setup", "-Dwerror=false", self.build, folder], check=True,
                           stdout=subprocess.DEVNULL)
        errors = self.make([])
        if errors:
            sys.exit(f"the sources do not build:\n{errors}")
        listed = subprocess.run(["meson", "introspect", self.build, "--tests"], check=True,
                                capture_output=True).stdout
        self.tests = [Test(e, self.build) for e in json.loads(listed)
                      if not LEFT_OUT.search(e["name"])]
        self.measure(slowest)
        self.tests.sort(key=lambda t: t.seconds)

    def measure(self, slowest):
        """Runs each test on the unchanged sources; what fails or takes too long is left out."""
        kept = []
        for test in self.tests:
            start = time.monotonic()
            why = test.run(slowest)
            test.seconds = time.monotonic() - start
            if why:
                print(f"left out: {test.name} ({why})", flush=True)
            else:
                kept.append(test)
        self.tests = kept

    def make(self, targets):
        """The compiler's errors, or None."""
        done = subprocess.run(["ninja", "-C", self.build, f"-j{self.jobs}", *targets],
                              capture_output=True, text=True)
        return done.stdout[-2000:] if done.returncode else None

    def first_failure(self, tests):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            waiting = {pool.submit(t.run, 10 + 8 * t.seconds): t for t in tests}
            for done in concurrent.futures.as_completed(waiting):
                if done.cancelled() or not done.result():
                    continue
                for other in waiting:
                    other.cancel()
                return f"{waiting[done].name}: {done.result()}"
        return None

    def killer(self, mutant):
        """What fails with the mutant's file in place: a test, or None; "" if it does not build."""
        wanted = next(v for k, v in FIRST.items() if mutant.path.startswith(k))
        first = [t for t in self.tests
                 if any(t.name == w or t.program.startswith(w) for w in wanted)]
        if self.make(sorted({t.program for t in first if t.program})):
            return ""
        why = self.first_failure(first)
        if not why:
            if self.make([]):
                return ""
            why = self.first_failure([t for t in self.tests if t not in first])
        return why


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="sources, relative to the root")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--pick", default="", help="only these of the mutants, by number")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slowest", type=float, default=30, help="seconds of the slowest test")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/tmp/ptxgen-mutants"))
    args = parser.parse_args()

    scratch = None if args.list else Scratch(args.scratch.resolve(), args.jobs, args.slowest)
    files = args.files or sorted(str(p.relative_to(ROOT)) for f in FOLDERS
                                 for p in (ROOT / f).rglob("*.c"))
    texts = {f: (ROOT / f).read_text() for f in files}
    all_mutants = [m for f in files for m in mutants_of(f, texts[f])]
    print(f"{len(all_mutants)} possible changes in {len(files)} files, seed {args.seed}", flush=True)
    random.Random(args.seed).shuffle(all_mutants)
    picked = {int(k) for k in args.pick.split(",") if k}
    killed, survived = 0, []
    for number, mutant in enumerate(all_mutants):
        if killed + len(survived) == args.count or (picked and number > max(picked)):
            break
        if picked and number not in picked:
            continue
        old = texts[mutant.path]
        new = mutant.text(old)
        diff = "".join(line + "\n" for line in difflib.unified_diff(
            old.splitlines(), new.splitlines(), mutant.path, mutant.path, lineterm="", n=1))
        if args.list:
            print(f"#{number} {diff}")
            survived.append(number)
            continue
        place = args.scratch.resolve() / mutant.path
        place.write_text(new)
        why = scratch.killer(mutant)
        place.write_text(old)
        if why == "":
            continue
        line = old.count("\n", 0, mutant.begin) + 1
        print(f"#{number} {mutant.path}:{line} {mutant.kind}: {'killed by ' + why if why else 'SURVIVED'}")
        if why:
            killed += 1
        else:
            survived.append(number)
            print(diff)
        sys.stdout.flush()
    if not args.list:
        total = killed + len(survived)
        print(f"{killed} of {total} killed ({100 * killed / max(total, 1):.0f} %); survivors: "
              f"{','.join(map(str, survived)) or 'none'}")


if __name__ == "__main__":
    main()
