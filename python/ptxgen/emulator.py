# SPDX-License-Identifier: MIT
"""Programs on the emulator: a libcuda.so.1 that runs PTX on the CPU. docs/emulator.md says what it
covers and checks.

    python -m ptxgen emulate --device sm_80 -- COMMAND...
"""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._library import emulator_path
from .errors import InvalidError


class Setting(NamedTuple):
    """An option, the emulator's variable that it sets, and its help."""

    name: str
    variable: str
    help: str


SETTINGS: Tuple[Setting, ...] = (
    Setting("device", "PTXGEN_EMU_DEVICE", "the GPU, such as sm_80 or sm_90,sms=16"),
    Setting("sanitize", "PTXGEN_EMU_SANITIZE",
            "1: a finding ends the launch; warn: it is reported; 0: off"),
    Setting("seed", "PTXGEN_EMU_SEED", "another order of warps and blocks for each number"),
    Setting("driver", "PTXGEN_EMU_DRIVER", "the driver's CUDA version: 12040 is 12.4"),
    Setting("memory", "PTXGEN_EMU_MEMORY", "device memory in bytes, or with K, M or G"),
    Setting("threads", "PTXGEN_EMU_THREADS", "CPU threads that run blocks; 0: one a core"),
    Setting("timeout", "PTXGEN_EMU_TIMEOUT", "milliseconds that a launch may take without progress"),
    Setting("instructions", "PTXGEN_EMU_INSTRUCTIONS", "warp instructions that a launch may take"),
    Setting("fail", "PTXGEN_EMU_FAIL", "driver calls that fail: cuMemAlloc:2@1"),
    Setting("log", "PTXGEN_EMU_LOG", "the file for reports, in place of standard error"),
)


def environment(*, base: Optional[Mapping[str, str]] = None, **settings: object) -> Dict[str, str]:
    """`base`, or this process's environment, with what a program needs to run on the emulator:

        subprocess.run(command, env=ptxgen.emulator.environment(device="sm_80", seed=3))

    A program finds the emulator where it looks for libcuda.so.1, linked or opened. Triton hands the
    driver what ptxas makes of its PTX; it finds a ptxas that hands the PTX on."""
    path = emulator_path()
    variables = {setting.name: setting.variable for setting in SETTINGS}
    made = dict(os.environ if base is None else base)
    for name, value in settings.items():
        if name not in variables:
            raise InvalidError(f"there is no setting {name!r}; there are {', '.join(variables)}")
        if value is not None:
            made[variables[name]] = str(value)
    made["PTXGEN_LIBCUDA"] = path
    for variable in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        made[variable] = str(pathlib.Path(__file__).with_name("ptxas"))
    # Whoever opens the name gets what is loaded already; a linked program searches the folders.
    for variable, first in (("LD_LIBRARY_PATH", os.path.dirname(path)), ("LD_PRELOAD", path)):
        others = [part for part in made.get(variable, "").split(":") if part and part != first]
        made[variable] = ":".join([first, *others])
    return made


def add_options(parser: argparse.ArgumentParser) -> None:
    for setting in SETTINGS:
        parser.add_argument(f"--{setting.name}", metavar=setting.name.upper(), help=setting.help)


def main(arguments: Sequence[str]) -> int:
    """python -m ptxgen emulate: replaces this process by the command, whose exit status counts."""
    parser = argparse.ArgumentParser(
        prog="python -m ptxgen emulate", usage="%(prog)s [options] -- COMMAND [ARGUMENT...]",
        description="Runs a program that uses libcuda on the CPU.")
    add_options(parser)
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    made = environment(**options)
    try:
        os.execvpe(command[0], command, made)
    except OSError as error:
        parser.exit(126 if isinstance(error, PermissionError) else 127,
                    f"{parser.prog}: {command[0]}: {error.strerror}\n")
    return 0
