#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands of docs/command.md and debugging.md, run as they stand there, print what the page says.

    test_page.py PAGE PTXGEN EMULATOR SAXPY ROW_SUMS

Each block of shell is run in a folder with examples/ of the sources, with a build that has ROW_SUMS and the emulator,
and with the text of SAXPY as kernel.ptx; a nvcc that prints that text stands for a compiler. A block of plain text after it is what it prints: "..." stands for
what is left out, and blanks and line breaks count alike."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


# Where a command prints one of these, its status is 1.
FAILED = (" failed: ", " failed with ", "must have the same type")


def blocks(page):
    """(language, text) of each block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def missing(shown, printed):
    """The first part of what the page shows that is not printed after the part before it; None if all are."""
    at, printed = 0, " ".join(printed.split())
    for part in shown.split("..."):
        part = " ".join(part.split())
        found = printed.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def main():
    page, ptxgen, emulator, saxpy, row_sums = (pathlib.Path(name).resolve() for name in sys.argv[1:])
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("PTXGEN_", "LD_LIBRARY_PATH"))}
    environment |= {"PTXGEN_LIBCUDA": str(emulator), "PTXGEN_EMULATOR": str(emulator)}
    commands, wrong = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = subprocess.run([saxpy, "--emit"], capture_output=True, check=True).stdout
        folder.joinpath("kernel.ptx").write_bytes(text)
        folder.joinpath("examples").symlink_to(page.parent.parent / "examples")
        for program in row_sums, emulator:
            link = folder / "build" / program.parent.name / program.name
            link.parent.mkdir(parents=True)
            link.symlink_to(program)
        folder.joinpath("bin").mkdir()
        folder.joinpath("bin/ptxgen").symlink_to(ptxgen)
        folder.joinpath("bin/nvcc").write_text("#!/bin/sh\ncat kernel.ptx\n", encoding="utf-8")
        folder.joinpath("bin/nvcc").chmod(0o755)
        environment["PATH"] = f"{folder}/bin:{environment['PATH']}"
        printed = None
        for language, text in blocks(page):
            if language == "sh":
                run = subprocess.run(["sh", "-c", text], cwd=folder, env=environment, text=True, check=False,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                printed, commands = run.stdout, commands + 1
                if run.returncode != int(any(word in printed for word in FAILED)):
                    wrong += 1
                    print(f"status {run.returncode} of:\n{text}{printed}")
            elif language == "" and printed is not None:
                lost = missing(text, printed)
                if lost is not None:
                    wrong += 1
                    print(f"{page.name} shows `{lost}`, which is not printed:\n{printed}")
                printed = None
        written = folder.joinpath("out.safetensors").exists()
    if not written or commands < 3:
        print(f"{commands} blocks are run, and {'an' if written else 'no'} output is written")
        return 1
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
