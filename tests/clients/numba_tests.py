#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Numba's own tests on the emulator: the modules of numba.cuda.tests.cudapy, each in a process of its own, which
is forked from one that has imported Numba and has called nothing of CUDA. The emulator is in LD_LIBRARY_PATH, and no libnvJitLink is found, because it links to machine code.

    numba_tests.py [--timeout SECONDS] [--jobs NUMBER] [--sample] [MODULE...]

A module is named without its "test_"; without names, all of them run. --sample runs those that CI runs. Some
modules want packages that Numba does not: pytest, filecheck, cffi, psutil, ml_dtypes, cupy.
numba_tests.txt beside this script lists the tests that do not pass, each with the reason. The script fails
if another test does not pass, or if one passes that is in the list."""
import argparse
import concurrent.futures
import ctypes
import importlib
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import unittest
from multiprocessing import forkserver

PACKAGE = "numba.cuda.tests.cudapy"
LIST = pathlib.Path(__file__).with_suffix(".txt")
# For each thing that a launch is made of: arguments, memory, exceptions, threads, devices' functions.
SAMPLE = """array_args boolean constmem cuda_array_interface exception extending_types forall idiv minmax
    multithreads recursion sm userexc""".split()
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["numba.cuda.testing"])


class Recorder(unittest.TestResult):
    """Writes a line for each test when it begins and when it ends, so that a time-out has a name."""

    def __init__(self, file):
        super().__init__()
        self.file = file
        self.clear = getattr(ctypes.CDLL("libcuda.so.1"), "cuEmulatorClearError")

    def line(self, test, outcome, reason=""):
        self.file.write(json.dumps([test.id(), outcome, reason]) + "\n")
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.line(test, "begun")

    def addSuccess(self, test):
        self.line(test, "passed")

    def addSkip(self, test, reason):
        self.line(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self.line(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.line(test, "failed", "passes although Numba expects it to fail")

    def addFailure(self, test, err):
        if err[0].__name__ == "Skipped":  # pytest.skip()
            self.addSkip(test, str(err[1]))
            return
        self.line(test, "failed", self._exc_info_to_string(err, test))
        self.clear()  # so that one launch's error does not fail the tests after it

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)


def run_module(name, path, output):
    """In a process of its own: the module's tests, a line of JSON for each into the file; what it prints into another."""
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from numba.cuda.testing import CUDATestCase

    # What the conftest.py of Numba's repository sets, which the package lacks.
    CUDATestCase._dump_failed_filechecks = False
    with open(path, "w", encoding="utf-8") as file:
        try:
            module = importlib.import_module(f"{PACKAGE}.test_{name}")
        except BaseException as error:  # pytest.skip() is no Exception
            if type(error).__name__ != "Skipped":
                raise
            file.write(json.dumps([f"{PACKAGE}.test_{name} (the module)", "skipped", str(error)]) + "\n")
            return
        unittest.defaultTestLoader.loadTestsFromModule(module).run(Recorder(file))


def module_results(name, timeout):
    """{test: (outcome, reason)} of a module, and the seconds that it took."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path, output = pathlib.Path(folder, "results"), pathlib.Path(folder, "output")
        path.touch()
        output.touch()
        process = PROCESSES.Process(target=run_module, args=(name, path, output))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            end, complete = f"more than {timeout} s for the module", False
        else:
            printed = output.read_text(encoding="utf-8", errors="replace")[-2000:]
            end, complete = f"the process ended with {process.exitcode}: {printed}", process.exitcode == 0
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    prefix = f"{PACKAGE}.test_"
    results = {}
    for test, outcome, reason in lines:
        test = test.removeprefix(prefix)
        if outcome == "begun":
            results[test] = ("failed", end)
        elif results.get(test, ("", ""))[0] != "failed" or results[test][1] == end:
            results[test] = (outcome, reason)
    if not complete and all(outcome != "failed" for outcome, _ in results.values()):
        results[f"{name} (the module)"] = ("failed", end)
    return results, time.monotonic() - begun


def listed():
    """{test: reason} of numba_tests.txt."""
    lines = (line.strip() for line in LIST.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {test: reason for test, _, reason in pairs}


def all_modules():
    folder = pathlib.Path(importlib.import_module(PACKAGE).__file__).parent
    return sorted(path.stem.removeprefix("test_") for path in folder.glob("test_*.py"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a module")
    parser.add_argument("--jobs", type=int, default=1, help="modules at once")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--log", type=argparse.FileType("a"), help="file for the outcomes, a line of JSON each")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    options = parser.parse_args()
    modules = options.modules or (SAMPLE if options.sample else all_modules())
    expected, counts, wrong = listed(), {"passed": 0, "skipped": 0, "failed": 0}, 0
    whole = 0
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    runs = pool.map(lambda name: module_results(name, options.timeout), modules)
    for name, (results, seconds) in zip(modules, runs):
        failed = {test for test, (outcome, _) in results.items() if outcome == "failed"}
        for test, (outcome, reason) in results.items():
            counts[outcome] += 1
            if options.log:
                print(json.dumps([test, outcome, reason]), file=options.log, flush=True)
            if outcome == "skipped" or (outcome == "failed") == (test in expected):
                continue
            wrong += 1
            print(f"{test}: {'passes, but is in the list' if test in expected else reason}", file=sys.stderr)
        whole += not failed
        print(f"{name}: {len(results) - len(failed)} of {len(results)} in {seconds:.1f} s", flush=True)
    print(f"numba-cuda's own tests: {whole} of {len(modules)} modules, {counts['passed']} passed, "
          f"{counts['skipped']} skipped, {counts['failed']} as listed: {'failed' if wrong else 'ok'}")
    forkserver._forkserver._stop()  # and waits for it, so that its time is this process's
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
