# SPDX-License-Identifier: MIT
"""pytest on the emulator: pytest --ptxgen-emulate. The session starts again with the emulator in
place of libcuda before any test is collected, so that every library in it finds no other."""

from __future__ import annotations

import os
import sys
from typing import Any, Iterator, List, Optional

import pytest

from .emulator import SETTINGS, environment


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("ptxgen", "CUDA on the CPU, by ptxgen's emulator")
    group.addoption("--ptxgen-emulate", action="store_true", default=False,
                    help="run this session on the emulator")
    for setting in SETTINGS:
        group.addoption(f"--ptxgen-{setting.name}", default=None, metavar=setting.name.upper(),
                        help=f"emulator: {setting.help}")


def _command(config: Any) -> List[str]:
    """The command of this session."""
    original: Optional[List[str]] = getattr(sys, "orig_argv", None)  # Python 3.10
    if original:
        return [sys.executable, *original[1:]]
    return [sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]


def _begin_again(config: Any, options: Any) -> None:
    """Replaces the process, unless this session is wanted as it is."""
    settings = {setting.name: getattr(options, f"ptxgen_{setting.name}") for setting in SETTINGS}
    if not options.ptxgen_emulate:
        given = [name for name, value in settings.items() if value is not None]
        if given:
            raise pytest.UsageError(f"--ptxgen-{given[0]} is for --ptxgen-emulate")
        return
    wanted = environment(**settings)
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # the files that it replaced are the next session's
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, _command(config), wanted)


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> Iterator[None]:
    _begin_again(early_config, early_config.known_args_namespace)  # before a conftest opens CUDA
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: Any) -> None:
    _begin_again(config, config.option)  # where a conftest has loaded this plugin


def pytest_report_header(config: Any) -> Optional[str]:
    if not config.getoption("ptxgen_emulate"):
        return None
    return f"ptxgen: CUDA on the CPU, {os.environ.get('PTXGEN_EMU_DEVICE', 'sm_90')}"
