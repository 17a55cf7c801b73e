#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one change in the sources and reports whether a test detects it.

    python3 tests/dev/mutate.py [--seed S] [--count N] [--scratch FOLDER] [--pick 3,17] [FILE...]

Each mutant is one change: an operator, a constant, a condition or a dropped statement, chosen at
random from the C files of src/ptxgen, src/kernels, src/plans and src/driver, or from those named, which
may be files of python/ptxgen. It is built in a scratch copy of HEAD. The tests of its layer run up to the
first failure; those that survive them all meet the other fast tests in the end. A mutant that does not
compile is replaced by another.

For Python, the tests that run a changed line are known from one run under coverage: `python3`, and
$PTXGEN_TORCH_PYTHON for ptxgen.torch, need pytest and pytest-cov. Coverage does not see the processes that a
test starts, so a change that survives meets all tests of the files that import its source.

A mutant that survives shows a missing assertion, or changes nothing that can be seen ("equivalent":
the growth of a buffer, say). Tests that need a GPU, tests of the emulator alone, and tests slower
than --slowest seconds are left out. The scratch folder is kept and used again. The same seed gives the same mutants of the same sources.
"""

import argparse
import concurrent.futures
import io
import json
import os
import pathlib
import random
import re
import sqlite3
import subprocess
import sys
import tarfile
import time

from mutants import mutants_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src/ptxgen", "src/kernels", "src/plans", "src/driver"]
# The tests of a layer, in groups that are built and run one after the other: folders of test programs,
# or names. Golden texts come first, because that one program detects most changes of the text.
LAYER_TESTS = {
    "src/ptxgen": [["golden", "program texts"], ["tests/builder/", "instructions"]],
    "src/kernels": [["golden"], ["tests/kernels/", "plan text", "step plan emulator"]],
    "src/plans": [["golden"], ["plan text", "step plan emulator"], ["tests/plans/"]],
    "src/driver": [["tests/driver/"]],
    "python/ptxgen": [["python "]],
}
LEFT_OUT = re.compile(r"gpu|kernels emulator|ptxas|op floors|cuda abi|emulator (parse|exec|cuda|fuzz|isa|memory|abi|host)"
                      r"|example|readme|half|reference")

class Test:
    def __init__(self, entry, build):
        self.name, self.command, self.tap = entry["name"], entry["cmd"], entry["protocol"] == "tap"
        self.folder, self.seconds = entry["workdir"] or build, 0.0
        # Random tests use the same seed for every mutant.
        self.env = dict(os.environ, MALLOC_PERTURB_="165", PTXGEN_TEST_SEED="1", **entry["env"])
        program = entry["cmd"][0]
        self.program = os.path.relpath(program, build) if program.startswith(str(build)) else ""

    def run(self, limit):
        """None if it passes, else the reason."""
        return self.start(self.command, self.env, limit)

    def start(self, command, env, limit):
        try:
            done = subprocess.run(command, env=env, cwd=self.folder, timeout=limit,
                                  stdin=subprocess.DEVNULL, capture_output=True)
        except subprocess.TimeoutExpired:
            return "runs on"
        if self.tap and re.search(rb"^not ok", done.stdout, re.M):
            return "not ok"
        return None if done.returncode in (0, 77) else f"exit {done.returncode}"


class PythonTest(Test):
    """A file of pytest tests. `mutant` is set before each run but the first, which measures coverage."""

    def __init__(self, entry, build):
        super().__init__(entry, build)
        self.data = str(build / (self.name.replace(" ", "-") + ".coverage"))
        self.mutant, self.blind, self.covered = None, False, True

    def run(self, limit):
        if self.mutant is None:
            env = dict(self.env, COVERAGE_FILE=self.data,
                       PYTEST_ADDOPTS="--cov=ptxgen --cov-context=test --cov-report=")
            self.covered = self.start(self.command, env, None) is None
            return None if self.covered else self.start(self.command, self.env, None)
        tests = self.reaching()
        return self.start(self.command[:-1] + tests, dict(self.env, PYTEST_ADDOPTS="-x"),
                          60 + 3 * self.seconds) if tests else None

    def reaching(self):
        """The tests that run the changed statement; the file, if an import runs it. Blind: the file, if it imports the
        source, since tests that leave the work to other processes are not in the data."""
        file = self.command[-1]
        if not self.covered or self.mutant.statement is None:  # or the change is in C
            return [] if self.blind else [file]
        first, last = self.mutant.statement
        with sqlite3.connect(self.data) as data:
            rows = data.execute("select context.context, line_bits.numbits from line_bits join context on"
                                " context.id = context_id join file on file.id = file_id where path like ?",
                                ("%/" + self.mutant.path.split("/", 1)[1],)).fetchall()
        names = {name for name, bits in rows
                 if any(k // 8 < len(bits) and bits[k // 8] >> k % 8 & 1 for k in range(first, last + 1))}
        if self.blind:
            return [file] if rows and "" not in names else []
        if "" in names:
            return [file]
        return sorted({file + "::" + name.split("::", 1)[1].split("|")[0] for name in names if "::" in name})


class Scratch:
    """A copy of HEAD with a build, and its tests with their durations in seconds."""

    def __init__(self, folder, jobs, slowest):
        self.folder, self.build, self.jobs = folder, folder / "build", jobs
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True,
                                 check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            for member in tar.getmembers():
                place = folder / member.name
                new = tar.extractfile(member).read() if member.isfile() else None
                if new is not None and not (place.exists() and place.read_bytes() == new):
                    tar.extract(member, folder, filter="data")
                    os.utime(place)
        if not self.build.exists():
            subprocess.run(["meson", "setup", "-Dwerror=false", self.build, folder], check=True,
                           stdout=subprocess.DEVNULL)
        errors = self.make([])
        if errors:
            sys.exit(f"the sources do not build:\n{errors}")
        listed = subprocess.run(["meson", "introspect", self.build, "--tests"], check=True,
                                capture_output=True).stdout
        tests = [(PythonTest if e["name"].startswith("python ") else Test)(e, self.build)
                 for e in json.loads(listed) if not LEFT_OUT.search(e["name"])]
        self.layers, others = {}, tests
        for layer, groups in LAYER_TESTS.items():
            self.layers[layer] = [[t for t in tests for w in group
                                   if t.name == w or (w[-1] == "/" and t.program.startswith(w))
                                   or (w[-1] == " " and t.name.startswith(w))]
                                  for group in groups]
            others = [t for t in others if not any(t in g for g in self.layers[layer])]
        self.others, self.slowest, self.left_out = others, slowest, []

    def measure(self, tests):
        """Runs each test on the unchanged sources; drops tests that fail or take too long."""
        for test in tests:
            if test.seconds or test in self.left_out:
                continue
            start = time.monotonic()
            why = test.run(self.slowest)
            test.seconds = time.monotonic() - start
            if why:
                print(f"left out: {test.name} ({why})", flush=True)
                self.left_out.append(test)

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

    def killer(self, groups):
        """The test that fails with a mutant in place, or None; "" if it does not build."""
        for group in groups:
            tests = sorted((t for t in group if t not in self.left_out), key=lambda t: t.seconds)
            if self.make(sorted({t.program for t in tests if t.program})):
                return ""
            why = self.first_failure(tests)
            if why:
                return why
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="sources, relative to the root")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--pick", default="", help="only these of the mutants, by number")
    parser.add_argument("--quick", action="store_true", help="run the tests of the layer alone")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slowest", type=float, default=30, help="seconds of the slowest test")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/tmp/ptxgen-mutants"))
    args = parser.parse_args()

    files = args.files or sorted(str(p.relative_to(ROOT)) for f in FOLDERS
                                 for p in (ROOT / f).rglob("*.c"))
    texts = {f: (ROOT / f).read_text() for f in files}
    all_mutants = [m for f in files for m in mutants_of(f, texts[f])]
    print(f"{len(all_mutants)} possible changes in {len(files)} files, seed {args.seed}", flush=True)
    random.Random(args.seed).shuffle(all_mutants)
    picked = {int(k) for k in args.pick.split(",") if k}
    if args.list:
        for number, mutant in enumerate(all_mutants[:args.count]):
            print(f"#{number} {mutant.diff(texts[mutant.path])}")
        return
    scratch = Scratch(args.scratch.resolve(), args.jobs, args.slowest)
    for layer in {l for l in LAYER_TESTS for f in files if f.startswith(l)}:
        for group in scratch.layers[layer]:
            scratch.measure(group)

    def killer(mutant, groups):
        place = scratch.folder / mutant.path
        place.write_text(mutant.text(texts[mutant.path]))
        python = [t for group in groups for t in group if isinstance(t, PythonTest)]
        why = None
        # Whole files follow where no test that is known to run the statement fails.
        for blind in (False, True) if python else (False,):
            for test in python:
                test.mutant, test.blind = mutant, blind
            why = scratch.killer(groups) if why is None else why
        place.write_text(texts[mutant.path])
        return why

    killed, survived = 0, []
    for number, mutant in enumerate(all_mutants):
        if killed + len(survived) == args.count or (picked and number > max(picked)):
            break
        if picked and number not in picked:
            continue
        layer = next(l for l in LAYER_TESTS if mutant.path.startswith(l))
        why = killer(mutant, scratch.layers[layer])
        if why == "":
            continue
        print(f"#{number} {mutant.place(texts[mutant.path])}: {'killed by ' + why if why else 'alive'}",
              flush=True)
        killed += why is not None
        if not why:
            survived.append(number)
            print(mutant.diff(texts[mutant.path]), flush=True)
    # Tests of C do not run Python.
    again = [] if args.quick else [number for number in survived if all_mutants[number].statement is None]
    if again:
        scratch.make([])
        scratch.measure(scratch.others)
    for number in again:
        mutant = all_mutants[number]
        rest = [scratch.others] + [g for groups in scratch.layers.values() for g in groups]
        why = killer(mutant, rest)
        print(f"#{number} {mutant.place(texts[mutant.path])}: {'killed by ' + why if why else 'SURVIVED'}",
              flush=True)
        if why:
            survived.remove(number)
            killed += 1
        else:
            print(mutant.diff(texts[mutant.path]), flush=True)
    total = killed + len(survived)
    print(f"{killed} of {total} killed ({100 * killed / max(total, 1):.0f} %); survivors: "
          f"{','.join(map(str, survived)) or 'none'}")


if __name__ == "__main__":
    main()
