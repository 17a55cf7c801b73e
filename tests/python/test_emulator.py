# SPDX-License-Identifier: MIT
"""Programs and pytest sessions on the emulator, whatever the machine has."""

import importlib.metadata
import os
import shutil
import subprocess
import sys

import ptxgen
import pytest

COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")
PROGRAM = """
#include <stdio.h>
int cuInit(unsigned);
int cuDeviceGetName(char *, int, int);
int main(void)
{
    char name[100];
    int failed = cuInit(0) || cuDeviceGetName(name, 100, 0);
    return failed || puts(name) < 0;
}
"""
OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*name_of)(char *, int, int) = (int (*)(char *, int, int))dlsym(library, "cuDeviceGetName");
    char name[100];
    int failed = init(0) || name_of(name, 100, 0);
    return failed || puts(name) < 0;
}
"""


def clean():
    """An environment as outside these tests."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("PTXGEN_", "LD_"))}


def emulate(*arguments, module="ptxgen"):
    return subprocess.run([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=600, env=clean())


@pytest.mark.parametrize("source, more", [(PROGRAM, [ptxgen.emulator_path()]), (OPENS, ["-ldl"])],
                         ids=["linked", "opened"])
def test_a_program_in_c(tmp_path, source, more):
    (tmp_path / "program.c").write_text(source)
    program = str(tmp_path / "program")
    subprocess.run([COMPILER, str(tmp_path / "program.c"), "-o", program, *more], check=True)
    done = emulate("emulate", "--device", "sm_86,name=a GPU of the test", "--", program)
    assert (done.returncode, done.stdout) == (0, "a GPU of the test\n"), done


def test_settings_and_status(tmp_path):
    code = """
import os, sys
names = ("DEVICE", "SANITIZE", "SEED", "MEMORY", "INSTRUCTIONS")
print([os.environ["PTXGEN_EMU_" + name] for name in names], sys.argv[1:])
sys.exit(5)
"""
    done = emulate("emulate", "--device", "sm_80", "--sanitize", "warn", "--seed=3", "--memory", "1G", "--instructions",
                   "1000", "--", sys.executable, "-c", code, "--seed", "--", "-x")
    assert done.returncode == 5
    assert done.stdout == "['sm_80', 'warn', '3', '1G', '1000'] ['--seed', '--', '-x']\n"
    assert emulate("emulate", "--", "sh", "-c", "kill -TERM $$").returncode == -15


@pytest.mark.parametrize("arguments, status, message", [
    (["emulate"], 2, "COMMAND"), (["emulate", "--", "no-such-program"], 127, "no-such-program: No such"),
    (["emulate", "--", "/"], 126, "/: Permission denied"), (["emulate", "--gpu", "1", "--", "true"], 2, "--gpu"),
    (["run"], 2, "emulate [options] -- COMMAND"),
])
def test_misuse(arguments, status, message):
    done = emulate(*arguments)
    assert done.returncode == status and message in done.stderr


def test_what_is_installed():
    done = emulate("emulate", "--", sys.executable, "-m", "ptxgen")
    assert done.returncode == 0 and "GPU: ptxgen emulator (sm_90), sm_90" in done.stdout
    assert f"emulator: {ptxgen.emulator_path()}\n" in done.stdout and ptxgen.library_path() in done.stdout
    assert emulate("--version").stdout == f"ptxgen {ptxgen.__version__}\n"


def test_ptxas_of_triton(tmp_path):
    """As triton.backends.nvidia calls it: the PTX itself is what it makes."""
    (tmp_path / "k.ptx").write_text(".version 8.0\n")
    script = 'cd "$1" && "$TRITON_PTXAS_PATH" -lineinfo -v --gpu-name=sm_90a k.ptx -o k.o && cmp k.ptx k.o &&' \
             '"$TRITON_PTXAS_BLACKWELL_PATH" --version'
    done = emulate("emulate", "--", "sh", "-c", script, "sh", str(tmp_path))
    assert done.returncode == 0 and "release 13.5, V13.5" in done.stdout, done


def test_environment():
    path = ptxgen.emulator_path()
    base = {"LD_LIBRARY_PATH": "/a:/b", "LD_PRELOAD": "/c.so", "X": "1"}
    made = ptxgen.emulator.environment(base=base, device="sm_80", seed=7, log=None)
    assert made.pop("TRITON_PTXAS_PATH") == made.pop("TRITON_PTXAS_BLACKWELL_PATH")
    assert made == {"X": "1", "PTXGEN_LIBCUDA": path, "PTXGEN_EMU_DEVICE": "sm_80", "PTXGEN_EMU_SEED": "7",
                    "LD_LIBRARY_PATH": f"{os.path.dirname(path)}:/a:/b", "LD_PRELOAD": f"{path}:/c.so"}
    assert made.items() <= ptxgen.emulator.environment(base=made).items()
    with pytest.raises(ptxgen.InvalidError, match="no setting 'gpu'; there are device,"):
        ptxgen.emulator.environment(gpu=1)


def test_matrices_need_sm_80():
    """Of devices, by name, and of texts."""
    code = """
import ptxgen
def refused(make):
    try:
        make()
    except ptxgen.UnsupportedError as error:
        print(error)
gpu = ptxgen.Device()
tensor = {"parameter": gpu.zeros(96), "gradient": gpu.zeros(96), "state": [gpu.zeros(96)], "step": gpu.zeros(1), "columns": 12}
groups = [{"rule": "muon", "hyper": {"momentum": 0.5}}]
refused(lambda: gpu.step_plan([tensor], groups=groups, max_norm=1.0))
refused(lambda: gpu.muon_plan([{"rows": 8, "columns": 8, "parts": [{"at": gpu.zeros(64, "f16"), "rows": 8}]}]))
refused(lambda: ptxgen.emit_step([tensor], groups=groups, max_norm=1.0, target="sm_75"))
"""
    done = emulate("emulate", "--device", "sm_75", "--", sys.executable, "-c", code)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 3, done
    assert all("uon needs sm_80 or newer" in line and "sm_75" in line for line in lines), lines
    assert "ptxgen emulator" in lines[1]
    assert emulate("emulate", "--device", "sm_80", "--", sys.executable, "-c", code.split("refused(lambda: ptxgen")[0]).stdout == ""


# ---- pytest

INSTALLED = any(entry.value == "ptxgen.pytest_plugin" for entry in importlib.metadata.entry_points()
                .get("pytest11", [])) if sys.version_info < (3, 10) else bool(
    [entry for entry in importlib.metadata.entry_points(group="pytest11")
     if entry.value == "ptxgen.pytest_plugin"])
PLUGIN = [] if INSTALLED else ["-p", "ptxgen.pytest_plugin"]


def session(folder, *arguments):
    return emulate(str(folder), "-p", "no:cacheprovider", *PLUGIN, *arguments, module="pytest")


@pytest.fixture
def suite(tmp_path):
    """Tests of somebody else, whose conftest opens CUDA, and which fail in one case."""
    (tmp_path / "conftest.py").write_text("""
import ctypes
try:
    ctypes.CDLL("libcuda.so.1").cuInit(0)
except OSError:
    pass
""")
    (tmp_path / "test_it.py").write_text("""
import ctypes, sys

def test_name():
    cuda = ctypes.CDLL("libcuda.so.1")
    name = ctypes.create_string_buffer(100)
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetName(name, 100, 0) == 0
    assert name.value.decode() == "ptxgen emulator (sm_80)"
    print("printed by a test")

def test_failing():
    print("said before failing")
    assert not "failing"
""")
    return tmp_path


def test_a_session(suite):
    done = session(suite, "--ptxgen-emulate", "--ptxgen-device", "sm_80")
    assert done.returncode == 1, done
    assert "1 failed, 1 passed" in done.stdout and "said before failing" in done.stdout
    assert "printed by a test" not in done.stdout
    assert done.stdout.count("test session starts") == 1
    assert "ptxgen: CUDA on the CPU, sm_80" in done.stdout
    done = session(suite, "--ptxgen-emulate", "--ptxgen-device", "sm_80", "-s", "-k", "name")
    assert done.returncode == 0 and "printed by a test" in done.stdout


def test_a_session_by_pytests_settings(suite):
    (suite / "pytest.ini").write_text("[pytest]\naddopts = --ptxgen-emulate --ptxgen-device sm_80 -k name\n")
    assert session(suite).returncode == 0


def test_settings_need_the_emulator(suite):
    done = session(suite, "--ptxgen-seed", "3")
    assert done.returncode == 4 and "--ptxgen-seed is for --ptxgen-emulate" in done.stderr


def test_other_sessions_are_left_alone(suite):
    done = session(suite, "-k", "failing")
    assert done.returncode == 1 and "CUDA on the CPU" not in done.stdout
