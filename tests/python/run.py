#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py [torch] TEST.py...: pytest on these files; status 77 where there is no pytest, or no GPU to run
on. `torch`: with $PTXGEN_TORCH_PYTHON, if it is set; status 77 where that python has no torch."""

import importlib.util
import os
import sys


def main():
    needs, tests = ["pytest"], sys.argv[1:]
    if tests[0] == "torch":
        needs.append(tests.pop(0))
        other = os.environ.pop("PTXGEN_TORCH_PYTHON", "")
        if other:
            os.execv(other, [other, *sys.argv])
    for package in needs:
        if importlib.util.find_spec(package) is None:
            print(f"skipped: no {package} for {sys.executable}")
            return 77

    import pytest
    return pytest.main(["-q", "-p", "no:cacheprovider", "--durations=5", "--durations-min=5", *tests])


if __name__ == "__main__":  # processes that a test starts import this file again
    sys.exit(main())
