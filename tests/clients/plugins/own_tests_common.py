# SPDX-License-Identifier: MIT
"""A plugin of pytest for all projects' own tests, which own_tests.py runs."""
import ctypes
import os

import pytest

clear = ctypes.CDLL("libcuda.so.1").cuEmulatorClearError


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    """A launch that fails leaves its error to every test after it in the process."""
    del item
    clear()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Of more tests than OWN_TESTS_MOST, that many, evenly spread."""
    most = int(os.environ.get("OWN_TESTS_MOST", "0"))
    if 0 < most < len(items):
        kept = {index * len(items) // most for index in range(most)}
        config.hook.pytest_deselected(items=[item for index, item in enumerate(items) if index not in kept])
        items[:] = [item for index, item in enumerate(items) if index in kept]
