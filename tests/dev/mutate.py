#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes one change in the sources and reports whether a test detects it.

    python3 tests/dev/mutate.py [--seed S] [--count N] [--scratch FOLDER] [--pick 3,17] [--table FILE] [FILE...]

Each mutant is one change (mutants.py lists the kinds), chosen at random from the C files of src and emulator,
or from those named, which may be files of python/ptxgen. A line with many possible changes is as likely as one with
a single change. The mutant is built in a scratch copy of HEAD. The tests of its layer run up to the first failure, the
quickest first. Those that survive meet all other tests in the end: first all survivors at once, since most tests pass
then, and where a test fails, halves of them. A mutant that does not compile is counted, and replaced by
another. --table keeps a line for each: where, what, which test detected it, and the seconds of processor time of its
build and tests.

For Python, the tests that run a changed line are known from one run under coverage: `python3`, and
$PTXGEN_TORCH_PYTHON for ptxgen.torch, need pytest and pytest-cov. Coverage does not see the processes that a
test starts, so a change that survives meets all tests of the files that import its source.

A mutant that survives shows a missing assertion, or changes nothing that can be seen ("equivalent":
the growth of a buffer, say). Tests that need a GPU, tests of packages, and tests that take more than --slowest
seconds of processor time are left out. The scratch folder, and the seconds of its tests, are kept and used again; CC
names its compiler. The same seed gives the same mutants of the same sources.
"""

import argparse
import concurrent.futures
import io
import json
import os
import pathlib
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tarfile

from mutants import mutants_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src", "emulator"]
# The tests of a layer, in groups that are built and run one after the other: folders of test programs,
# or names. Golden texts come first, because that one program detects most changes of the text.
LAYER_TESTS = {
    "src/ptxgen": [["golden"], ["tests/builder/", "instructions"], ["program texts"]],
    "src/kernels": [["golden"], ["tests/kernels/", "step plan emulator"]],
    "src/plans": [["golden"], ["plan ", "rule ", "arrays", "binding", "torch"], ["tests/plans/"]],
    "src/driver": [["tests/driver/"]],
    "emulator/ptx": [["emulator parse ", "emulator isa"], ["emulator exec ", "emulator cuda ", "emulator fuzz "]],
    "emulator/exec": [["emulator exec ", "emulator lanes "], ["tests/hardware/", "emulator memory"]],
    "emulator/cuda": [["emulator cuda ", "emulator abi", "emulator host "], ["tests/driver/"]],
    "python/ptxgen": [["python "]],
}
LEFT_OUT = re.compile(r"\bgpu\b|ptxas|op floors|^docs$|^names$|blocks$|^layers$|summary|quickstart|reasons|gpu check"
                      r"|api reference|c\+\+ compilers|code of macros|kernel in c\+\+")
EMULATOR = "emulator/libcuda.so.1"
MOST_MEMORY = 8 << 30  # bytes of a test's process

class Test:
    def __init__(self, entry, build):
        self.name, self.command, self.tap = entry["name"], entry["cmd"], entry["protocol"] == "tap"
        self.folder, self.seconds = entry["workdir"] or build, 0.0
        # Random tests use the same seed for every mutant.
        self.env = dict(os.environ, MALLOC_PERTURB_="165", PTXGEN_TEST_SEED="1", **entry["env"])
        self.env.pop("PTXGEN_GOLDEN_DIFFERENCE", None)  # it builds the last commit
        program = entry["cmd"][0]
        self.program = os.path.relpath(program, build) if program.startswith(str(build)) else ""

    def run(self, limit):
        """None if it passes, else the reason."""
        return self.start(self.command, self.env, limit)

    def start(self, command, env, limit):
        """With a limit of processor time, because other work may run beside it."""
        limits = ["prlimit", f"--cpu={limit}:{limit + 5}", f"--data={MOST_MEMORY}"]
        child = subprocess.Popen(limits + command, env=env, cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            output = child.communicate(timeout=30 + 10 * limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return "waits on"
        if child.returncode == -signal.SIGXCPU:
            return "runs on"
        if self.tap and re.search(rb"^not ok", output, re.M):
            return "not ok"
        return None if child.returncode in (0, 77) else f"exit {child.returncode}"


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
            self.covered = self.start(self.command, env, limit) is None
            return None if self.covered else self.start(self.command, self.env, limit)
        tests = self.reaching()
        return self.start(self.command[:-1] + tests, dict(self.env, PYTEST_ADDOPTS="-x"),
                          60 + 3 * int(self.seconds)) if tests else None

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

    def __init__(self, folder, jobs, slowest, python):
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
            subprocess.run(["meson", "setup", "-Dwerror=false", "-Dtests=enabled", "-Dtools=enabled",
                            "--buildtype=release", self.build, folder], check=True,
                           stdout=subprocess.DEVNULL)
        errors = self.make([])
        if errors:
            sys.exit(f"the sources do not build:\n{errors}")
        listed = subprocess.run(["meson", "introspect", self.build, "--tests"], check=True,
                                capture_output=True).stdout
        tests = [(PythonTest if python and e["name"].startswith("python ") else Test)(e, self.build)
                 for e in json.loads(listed) if not LEFT_OUT.search(e["name"])]
        self.known = folder / "seconds.json"
        seconds = json.loads(self.known.read_text()) if self.known.exists() and not python else {}
        for test in tests:
            test.seconds = seconds.get(test.name, 0.0)
        self.tests, self.layers = tests, {}
        for layer, groups in LAYER_TESTS.items():
            self.layers[layer] = [[t for t in tests for w in group
                                   if t.name == w or (w[-1] == "/" and t.program.startswith(w))
                                   or (w[-1] == " " and t.name.startswith(w))]
                                  for group in groups]
        self.slowest, self.later, self.left_out = slowest, slowest, []

    def measure(self, tests):
        """Runs each test on the unchanged sources; drops tests that fail or take too long."""
        for test in tests:
            if test.seconds or test in self.left_out:
                continue
            start = seconds_of_children()
            why = test.run(self.slowest)
            test.seconds = seconds_of_children() - start
            if why:
                print(f"left out: {test.name} ({why})", flush=True)
                self.left_out.append(test)
        self.known.write_text(json.dumps({t.name: t.seconds for t in self.tests
                                          if t.seconds and t not in self.left_out}, indent=1))

    def make(self, targets):
        """The compiler's errors, or None."""
        done = subprocess.run(["ninja", "-C", self.build, f"-j{self.jobs}", *targets],
                              capture_output=True, text=True)
        wrong = done.returncode or re.search(r"-W(incompatible-pointer-types|int-conversion)\]", done.stdout)
        return done.stdout[-2000:] if wrong else None

    def first_failure(self, tests):
        failed = []

        def run(test):
            why = None if failed else test.run(5 + 3 * int(test.seconds))
            if why:
                failed.append(f"{test.name}: {why}")
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(run, tests))
        return failed[0] if failed else None

    def groups_for(self, layer, path):
        """Tests named as the file follow the golden texts. What scripts start is built at the end."""
        tests = [t for group in self.layers[layer] for t in group]
        words = set(pathlib.Path(path).stem.split("_"))
        golden = [t for t in tests if t.name == "golden"]
        subject = [t for t in tests if words & set(t.name.split())]
        done, groups = set(), []
        for group in [golden, subject, *self.layers[layer]]:
            groups.append([t for t in group if t not in done and
                           (isinstance(t, PythonTest) or (t.program and t.seconds <= self.later))])
            done.update(group)
        return groups

    def killer(self, groups):
        """The test that fails with a mutant in place, or None; "" if it does not build."""
        for group in groups:
            tests = sorted((t for t in group if t not in self.left_out), key=lambda t: t.seconds)
            if tests and self.make(sorted({t.program for t in tests if t.program} | {EMULATOR})):
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
    parser.add_argument("--quick", action="store_true", help="run the quick tests of the layer alone")
    parser.add_argument("--late", action="store_true", help="run the other tests alone, on --pick")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slowest", type=int, default=60, help="seconds of processor time of the slowest test")
    parser.add_argument("--later", type=float, default=4, help="slower tests meet all survivors at once")
    parser.add_argument("--table", type=pathlib.Path, help="a file for the results, a line each")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/tmp/ptxgen-mutants"))
    args = parser.parse_args()

    files = args.files or sorted(str(p.relative_to(ROOT)) for f in FOLDERS
                                 for p in (ROOT / f).rglob("*.c") if "tests" not in p.parts)
    texts = {f: (ROOT / f).read_text() for f in files}
    all_mutants = [m for f in files for m in mutants_of(f, texts[f])]
    print(f"{len(all_mutants)} possible changes in {len(files)} files, seed {args.seed}", flush=True)
    choose, lines = random.Random(args.seed), {}
    for mutant in all_mutants:
        lines.setdefault(mutant.line(texts[mutant.path]), []).append(mutant)
    all_mutants = [choose.choice(of) for of in lines.values()]
    choose.shuffle(all_mutants)
    picked = {int(k) for k in args.pick.split(",") if k}
    if args.list:
        for number, mutant in enumerate(all_mutants[:args.count]):
            print(f"#{number} {mutant.diff(texts[mutant.path])}")
        return
    scratch = Scratch(args.scratch.resolve(), args.jobs, args.slowest,
                      any(f.endswith(".py") for f in files))
    scratch.later = args.later
    for layer in {l for l in LAYER_TESTS for f in files if f.startswith(l) and not args.late}:
        for group in scratch.layers[layer]:
            scratch.measure(group)

    def put(mutants):
        """The sources with these changes, and no others."""
        for path, text in texts.items():
            for mutant in sorted((m for m in mutants if m.path == path), key=lambda m: -m.begin):
                text = mutant.text(text)
            place = scratch.folder / path
            if place.read_text() != text:
                place.write_text(text)

    def killer(mutant, groups):
        put([mutant])
        python = [t for group in groups for t in group if isinstance(t, PythonTest)]
        why = None
        # Whole files follow where no test that is known to run the statement fails.
        for blind in (False, True) if python else (False,):
            for test in python:
                test.mutant, test.blind = mutant, blind
            why = scratch.killer(groups) if why is None else why
        put([])
        return why

    def note(number, why, seconds):
        mutant = all_mutants[number]
        text = texts[mutant.path]
        what = "does not compile" if why == "" else f"killed by {why}" if why else "alive"
        line = f"#{number} {mutant.place(text)}, {mutant.change(text)}: {what}, {seconds:.1f} s"
        print(line, flush=True)
        if args.table:
            with args.table.open("a") as table:
                table.write(line + "\n")

    killed, survived = 0, sorted(picked) if args.late else []
    for number, mutant in enumerate(all_mutants):
        if args.late or killed + len(survived) == args.count or (picked and number > max(picked)):
            break
        if picked and number not in picked:
            continue
        layer = next(l for l in LAYER_TESTS if mutant.path.startswith(l))
        start = seconds_of_children()
        why = killer(mutant, scratch.groups_for(layer, mutant.path))
        note(number, why, seconds_of_children() - start)
        if why == "":
            continue
        killed += why is not None
        if not why:
            survived.append(number)
            print(mutant.diff(texts[mutant.path]), flush=True)
    # Tests of C do not run Python.
    again = [] if args.quick else [number for number in survived if all_mutants[number].statement is None]
    if again:
        put([])
        scratch.make([])
        scratch.measure(scratch.tests)

    def failure(numbers, test):
        put([all_mutants[number] for number in numbers])
        scratch.make([test.program, EMULATOR] if test.program else [])
        return scratch.first_failure([test])

    def detected(numbers, test):
        """Those of the mutants that the test detects, one by one: found by halves."""
        nonlocal killed
        start = seconds_of_children()
        why = failure(numbers, test) if numbers else None
        if why and len(numbers) == 1:
            note(numbers[0], why, seconds_of_children() - start)
            again.remove(numbers[0])
            survived.remove(numbers[0])
            killed += 1
        elif why:
            detected(numbers[:len(numbers) // 2], test)
            detected(numbers[len(numbers) // 2:], test)

    # What a script starts is not known, so everything is built for it.
    for test in sorted(scratch.tests, key=lambda t: (not t.program, t.seconds)):
        if test not in scratch.left_out:
            detected(list(again), test)
    put([])
    total = killed + len(survived)
    print(f"{killed} of {total} killed ({100 * killed / max(total, 1):.0f} %); survivors: "
          f"{','.join(map(str, survived)) or 'none'}")


if __name__ == "__main__":
    main()
