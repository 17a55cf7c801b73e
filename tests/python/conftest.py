# SPDX-License-Identifier: MIT
"""What the tests of the Python package share."""

import gc
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
from fractions import Fraction

import ptxgen
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

try:
    NO_GPU, ON_EMULATOR = "", "emulator" in ptxgen.Device().info.name
except (ptxgen.NoDriverError, ptxgen.NoDeviceError) as error:
    NO_GPU, ON_EMULATOR = str(error).splitlines()[0], False


def pytest_configure():
    if NO_GPU:
        pytest.exit(f"no GPU, not run: {NO_GPU}", 77)


def pytest_collection_finish():
    gc.freeze()  # the modules, of which torch has many, so that no collection looks at them again


# y[i] = a * x[i] + y[i]
SAXPY = re.search(r"```\n(// Written by.*?)```", (ROOT / "README.md").read_text(), re.S)[1]


@pytest.fixture(scope="session")
def gpu():
    return ptxgen.Device()


@pytest.fixture
def stream(gpu):
    with gpu.stream() as made:
        yield made


@pytest.fixture(scope="session")
def saxpy(gpu):
    return gpu.load(SAXPY)["saxpy"]


def free_bytes(gpu):
    """Of device memory, to the byte; None on a GPU, which others use and which has pages."""
    return gpu.memory()[0] if ON_EMULATOR else None


def python(code, *arguments, **environment):
    """Runs a program of Python with this package, and returns what became of it."""
    return subprocess.run([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=600,
                          env={**os.environ, **environment})


# ---- f32 arithmetic, each operation rounded to nearest even


def f32(x):
    """A number rounded to f32; a Fraction, too, and once."""
    if isinstance(x, Fraction):
        if x == 0:
            return 0.0
        exponent = max(math.frexp(float(x))[1] - 25, -149)
        while abs(x) / Fraction(2) ** exponent >= 1 << 24:
            exponent += 1
        return float(round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent)
    return struct.unpack("f", struct.pack("f", x))[0]


def fma(a, b, c):
    return f32(Fraction(a) * Fraction(b) + Fraction(c))


def pytest_terminal_summary(terminalreporter):
    """A line for each skip, as tests/summary.py reads them."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.write_line(f"SKIPPED: {reason.replace('Skipped: ', '', 1)}")
