#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A build folder, as far as its tests need it, with every warning:

    tests/build_for_tests.py BUILD TARGET... --no-suite SUITE...

builds these targets and what the tests outside these suites need. Every other source that `ninja` alone
would compile is checked with -fsyntax-only: clang's warnings need no more.

    tests/build_for_tests.py BUILD TARGET... --objects

builds these targets, the libraries, and the objects of everything else, which another build links.
"""

import concurrent.futures
import json
import os
import subprocess
import sys


def information(build, kind):
    with open(os.path.join(build, "meson-info", f"intro-{kind}.json"), encoding="utf-8") as file:
        return json.load(file)


def needed(build, targets, suites):
    """The files that the tests need, by their paths in the build folder."""
    depends = set()
    for test in information(build, "tests"):
        if not suites & {suite.split(":")[-1] for suite in test["suite"]}:
            depends.update(test["depends"])
    return sorted(os.path.relpath(file, build) for target in targets if target["id"] in depends
                  for file in target["filename"])


def on_request(build, targets):
    """Where the objects are of programs that are built on request alone."""
    return tuple(os.path.relpath(target["filename"][0], build) + ".p/" for target in targets
                 if target["type"] == "executable" and not target["build_by_default"])


def others(build, targets):
    """The commands of what is not compiled, but for programs that are built on request alone."""
    requested = on_request(build, targets)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        return [command["command"] for command in json.load(file)
                if not command["output"].startswith(requested)
                and not os.path.exists(os.path.join(build, command["output"]))]


def build_objects(build, targets):
    built = information(build, "targets")
    libraries = [os.path.relpath(file, build) for target in built if target["build_by_default"] and "library" in target["type"]
                 for file in target["filename"]]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        objects = [command["output"] for command in json.load(file)
                   if not command["output"].startswith(on_request(build, built))]
    return subprocess.run(["ninja", "-C", build, *targets, *libraries, *objects]).returncode


def main():
    build, more = os.path.realpath(sys.argv[1]), sys.argv[2:]
    if more[-1] == "--objects":
        return build_objects(build, more[:-1])
    targets, suites = more[:more.index("--no-suite")], set(more[more.index("--no-suite") + 1:])
    built = information(build, "targets")
    done = subprocess.run(["ninja", "-C", build, *targets, *needed(build, built, suites)])
    if done.returncode:
        return done.returncode
    commands = others(build, built)

    def check(command):
        return subprocess.run(f"{command} -fsyntax-only", shell=True, cwd=build).returncode

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = sum(map(bool, pool.map(check, commands)))
    print(f"{len(commands)} sources are only checked, {failed} of them with warnings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
