#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Other projects' own tests on the emulator, which is in LD_LIBRARY_PATH:

    own_tests.py PROJECT [--source FOLDER] [--sample] [--most N] [--timeout SECONDS] [--log FILE] [MODULE...]
    own_tests.py PROJECT --fetch FOLDER

PROJECT is a key of PROJECTS. Its sources are fetched from their repository at one commit, or are in FOLDER; with
neither, the script ends with 77, in seconds where the repository does not answer. --fetch only fetches them into a
new FOLDER. A module is a path in the project's folder of tests, without test_ and .py;
without modules, all of them run, and with --sample those that CI runs. Needs pytest and pytest-timeout.

own_tests.txt beside this script lists the tests that do not pass, each with the reason. The script fails if
another test does not pass, or if one passes that is in the list."""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

Project = collections.namedtuple("Project", "repository commit folder environment sample plugins")
PROJECTS = {
    "tinygrad": Project(
        "https://github.com/tinygrad/tinygrad", "a9069c177a9da9cca18593edf55acd2e6073cca6", "test",
        {"DEV": "CUDA:PTX", "PYTHONPATH": ".", "CACHELEVEL": "0"},
        "backend/uops backend/const_folding backend/call backend/graph".split(), []),
    "numba_cuda_mlir": Project(
        "https://github.com/NVIDIA/numba-cuda-mlir", "10ece76b48edd680c2b9bad05a8081921b46f6fc", "tests",
        {}, "bool enum flow_control forall ptr_ops range".split(), []),
    "cuda_core": Project(
        "https://github.com/NVIDIA/cuda-python", "cb56ab9f9ae3b4a0ef19666697336945925589a5", "cuda_core/tests",
        {}, "context host launcher stream".split(), ["ptx_for_cubin"]),
    "triton": Project(
        "https://github.com/triton-lang/triton", "cc0812e3dc0a7243faa424298a9bbe68cf558879", "python/test/unit",
        {"PYTHONPATH": "python/test/unit/language"}, [],
        ["triton_on_cpu"]),
}
LIST = pathlib.Path(__file__).with_suffix(".txt")
PLUGINS = pathlib.Path(__file__).parent / "plugins"


def fetched(project, folder):
    """The project's sources in the new folder; None, with a line that says why, if they cannot be fetched."""
    folder.mkdir(parents=True)
    # timeout(1) also ends the processes that git starts, which wait for the network.
    for seconds, command in ((10, ["ls-remote", "-q", project.repository, "HEAD"]), (10, ["init", "-q"]),
                             (120, ["fetch", "-q", "--depth", "1", project.repository, project.commit]),
                             (60, ["checkout", "-q", "FETCH_HEAD"])):
        run = subprocess.run(["timeout", str(seconds), "git", "-C", folder, *command], capture_output=True, text=True,
                             env=os.environ | {"GIT_TERMINAL_PROMPT": "0"}, check=False)
        if run.returncode:
            reason = f"no answer in {seconds} s" if run.returncode == 124 else run.stderr.strip()
            print(f"skipped: git cannot fetch {project.repository}: {' '.join(reason.splitlines()[-1:])}")
            return None
    return folder


def results_of(path, module):
    """{test: (outcome, reason)} of a file that pytest wrote."""
    results = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = case.get("classname", "").rpartition(".")[2]
        name = case.get("name") if not name or name.startswith("test_") else f"{name}.{case.get('name')}"
        outcome, reason = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped") and child.get("type") != "pytest.xfail":
                outcome = "skipped" if child.tag == "skipped" else "failed"
                reason = (child.get("message") or child.text or "").strip()
        if results.get(f"{module} {name}", ("",))[0] != "failed":
            results[f"{module} {name}"] = (outcome, reason)
    return results


def pytest_command(project, *arguments):
    plugins = [word for plugin in ["own_tests_common", *project.plugins] for word in ("-p", plugin)]
    return [sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider", "-o", "addopts=", *arguments]


def module_results(project, root, module, options, scratch):
    """{test: (outcome, reason)} of a module, in a process of its own, and the seconds that it took. Where that process
    crashes, each test has one."""
    begun = time.monotonic()
    parent, _, name = module.rpartition("/")
    path = str(pathlib.Path(project.folder, parent, f"test_{name}.py"))
    report = scratch / "results.xml"
    environment = os.environ | project.environment | {"OWN_TESTS_MOST": str(options.most)}
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGINS), *filter(None, [environment.get("PYTHONPATH")])])

    def results(test):
        report.unlink(missing_ok=True)
        command = pytest_command(project, "--timeout", str(options.timeout), f"--junitxml={report}", test)
        run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        failed = {f"{module} {test.partition('::')[2] or '(the module)'}": ("failed", (run.stdout + run.stderr)[-2000:])}
        # 5: no test was collected
        return results_of(report, module) if report.exists() else {} if run.returncode == 5 else failed, run.returncode

    found, code = results(path)
    if code < 0:  # a signal
        run = subprocess.run(pytest_command(project, "--collect-only", path), cwd=root, env=environment,
                             capture_output=True, text=True, check=False)
        tests = [line for line in run.stdout.splitlines() if "::" in line]
        found = {test: result for line in tests
                 for test, result in results(f"{path}::{line.partition('::')[2]}")[0].items()} or found
    return found, time.monotonic() - begun


def listed(name):
    """{test: reason} of the project's lines of the list."""
    lines = (line.strip() for line in LIST.read_text(encoding="utf-8").splitlines())
    pairs = (line.removeprefix(f"{name} ").partition(": ") for line in lines if line.startswith(f"{name} "))
    return {test: reason for test, _, reason in pairs}


def all_modules(project, root):
    folder = root / project.folder
    paths = sorted(path.relative_to(folder) for path in folder.rglob("test_*.py"))
    return [str(path.with_name(path.stem.removeprefix("test_"))) for path in paths]


def run(name, project, root, options, scratch):
    expected, wrong, counts = listed(name), 0, collections.Counter()
    modules = options.modules or (project.sample if options.sample else all_modules(project, root))
    for module in modules:
        results, seconds = module_results(project, root, module, options, scratch)
        for test, (outcome, reason) in results.items():
            counts[outcome] += 1
            if options.log:
                print(json.dumps([test, outcome, reason[:500]]), file=options.log, flush=True)
            if outcome != "skipped" and (outcome == "failed") != (test in expected):
                wrong += 1
                print(f"{test}: {reason or 'passes, but is in the list'}", file=sys.stderr, flush=True)
        failed = sum(outcome == "failed" for outcome, _ in results.values())
        print(f"{module}: {len(results) - failed} of {len(results)} in {seconds:.1f} s", flush=True)
    print(f"{name}'s own tests: {len(modules)} modules, {counts['passed']} passed, {counts['skipped']} skipped, "
          f"{counts['failed']} as listed: {'failed' if wrong else 'ok'}")
    return wrong > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", choices=PROJECTS)
    parser.add_argument("--source", type=pathlib.Path, help="a folder with the project's sources")
    parser.add_argument("--fetch", type=pathlib.Path, help="a new folder: only fetch the project's sources into it")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a test")
    parser.add_argument("--most", type=int, default=0, help="of a module with more tests, this many, evenly spread")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--log", type=argparse.FileType("a"), help="file for the outcomes, a line of JSON each")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    options = parser.parse_intermixed_args()
    project = PROJECTS[options.project]
    if options.fetch:
        return 0 if fetched(project, options.fetch) else 77
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder, "scratch")
        scratch.mkdir()
        root = options.source.resolve() if options.source else fetched(project, pathlib.Path(folder, "sources"))
        return 77 if root is None else run(options.project, project, root, options, scratch)


if __name__ == "__main__":
    sys.exit(main())
