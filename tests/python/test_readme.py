# SPDX-License-Identifier: MIT
"""The examples of README.md and docs/python.md: each runs by itself, and a line with a print() and a
comment prints that comment."""

import re
import sys

import ptxgen
import pytest
from conftest import ROOT, python


def examples():
    for page in ("README.md", "docs/python.md"):
        text = (ROOT / page).read_text()
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.S)):
            if not re.search(r"^\s*(import|from) (torch|cupy|ptxgen\.torch|transformers)", code, re.M):
                yield pytest.param(code, id=f"{page} {number + 1}")


@pytest.mark.parametrize("code", list(examples()))
def test_an_example(code):
    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.M)
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected and done.stdout.splitlines() == expected


def test_there_are_examples():
    pages = [param.id.split()[0] for param in examples()]
    assert pages.count("README.md") == 1 and pages.count("docs/python.md") >= 4


def test_the_report_of_the_page_on_ci():
    """The kernel of docs/python.md, without its bound, gives the report that docs/ci.md shows."""
    kernel = re.search(r'SCALE = """(.*?)"""', (ROOT / "docs" / "python.md").read_text(), re.S)[1]
    unbounded = kernel.replace("@%p ret;", "").replace("setp.ge.u32 %p, %r2, %r1;", "")
    program = (f"import ptxgen; gpu = ptxgen.Device(); scale = gpu.load({unbounded!r})['scale']; "
               "scale(x=gpu.array([1.0] * 100), n=100, a=0.5, grid=1); gpu.zeros(1).tolist()")
    done = python("import runpy; runpy.run_module('ptxgen', run_name='__main__')", "emulate", "--", sys.executable, "-c",
                  program)
    shown = re.search(r"```\n(ptxgen emulator: .*?)```", (ROOT / "docs" / "ci.md").read_text(), re.S)[1]
    assert done.returncode == 1 and " ".join(shown.split()) in done.stderr


def test_every_error_and_setting_is_documented():
    page = (ROOT / "docs" / "python.md").read_text()
    for name in dir(ptxgen):
        if name.endswith("Error") and name != "Error":
            assert f"`{name}`" in page
    for setting in ptxgen.emulator.SETTINGS:
        assert f"`--{setting.name}`" in page
    variables = re.findall(r"^\| `(PTXGEN_EMU_\w+)` \|", (ROOT / "docs" / "emulator.md").read_text(), re.M)
    assert sorted(variables) == sorted(setting.variable for setting in ptxgen.emulator.SETTINGS)
