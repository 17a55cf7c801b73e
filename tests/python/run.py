#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py TEST.py...: pytest on these files; status 77 where there is no pytest, or no GPU to run on."""

import importlib.util
import sys

if importlib.util.find_spec("pytest") is None:
    print(f"skipped: no pytest for {sys.executable}")
    sys.exit(77)

import pytest  # noqa: E402

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
