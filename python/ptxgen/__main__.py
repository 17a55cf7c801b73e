# SPDX-License-Identifier: MIT
"""python -m ptxgen: what is installed; python -m ptxgen emulate: see emulator.py."""

import argparse
import sys
from typing import List

from . import Device, Error, __version__, emulator_path, library_path
from .emulator import main as emulate


def show() -> int:
    print(f"ptxgen {__version__}: {library_path()}")
    print(f"emulator: {emulator_path()}")
    try:
        with Device() as device:
            print(f"GPU: {device.info.name}, {device.target}, through {device.info.library_path}")
    except Error as error:
        print(f"GPU: none: {error}")
    return 0


def main(arguments: List[str]) -> int:
    if arguments[:1] == ["emulate"]:
        return emulate(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m ptxgen", description="Shows what is installed, or runs a program on the emulator.",
        usage="%(prog)s [-h] [--version]\n       %(prog)s emulate [options] -- COMMAND [ARGUMENT...]")
    parser.add_argument("--version", action="version", version=f"ptxgen {__version__}")
    parser.parse_args(arguments)
    return show()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
