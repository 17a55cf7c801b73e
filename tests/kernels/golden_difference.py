# SPDX-License-Identifier: MIT
"""Prints how texts differ from those that tests/golden/hashes.txt records. test_golden calls it.

    golden_difference.py PROGRAM NAME...

PROGRAM is this build's test_golden. The recorded texts are made again by the commit that recorded them last, which
is built in the build folder for that, in about a minute. Needs git and a compiler; says so where there is none.
"""

import difflib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HASHES = "tests/golden/hashes.txt"
LINES = 120  # shown of a difference
SECONDS = 300


def output_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, **options).stdout


def built(folder, commit):
    """test_golden of a commit, kept in the folder."""
    program = folder / "build/tests/kernels/test_golden"
    if program.is_file():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "source").mkdir(parents=True)
    output_of("tar", "-x", "-C", str(folder / "source"), input=output_of("git", "-C", str(ROOT), "archive", commit))
    output_of("meson", "setup", str(folder / "build"), str(folder / "source"), "-Dtests=enabled", "-Dtools=disabled",
              "-Dbench=disabled", "-Dpython=no", "-Doptimization=0")
    output_of("ninja", "-C", str(folder / "build"), "tests/kernels/test_golden")
    return program


def main():
    program, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    try:
        if not (ROOT / ".git").exists():
            raise OSError("this is no git checkout")
        commit = output_of("git", "-C", str(ROOT), "log", "-1", "--format=%H", "--", HASHES, text=True).strip()
        if not commit:
            raise OSError(f"no commit has {HASHES}")
        recorded = output_of("git", "-C", str(ROOT), "show", f"{commit}:{HASHES}", text=True).splitlines()
        if recorded != (ROOT / HASHES).read_text().splitlines():
            print(f"{HASHES} was changed since {commit:.12}; differences are from the texts of that commit")
        before = built(program.parents[2] / f"golden-{commit:.12}", commit)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or getattr(error, "stdout", None) or b""
        said = said if isinstance(said, str) else said.decode(errors="replace")
        print(f"the texts of the last commit cannot be made: {error}\n{said[-1000:]}".rstrip())
        return
    for name in names:
        old, new = (subprocess.run([str(path), "--text", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, check=False, timeout=SECONDS, env=dict(os.environ, LC_ALL="C"))
                    for path in (before, program))
        if old.returncode != 0 or new.returncode != 0:
            print(f"{name}: {(old.stderr or new.stderr).strip()}")
            continue
        lines = list(difflib.unified_diff(old.stdout.splitlines(), new.stdout.splitlines(),
                                          f"{name}, commit {commit:.12}", f"{name}, now", lineterm=""))
        print("\n".join(lines[:LINES]))
        if len(lines) > LINES:
            print(f"... and {len(lines) - LINES} more lines")


main()
