#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One vocabulary for skips:

    tests/reasons.py SOURCE

Each reason for a skip in the sources of the tests is one that tests/summary.py can prove or refute.
Otherwise it is noticed only on a machine that lacks something.
"""

import os
import re
import sys

import summary

# A C or Python string of several parts, as an argument.
TEXT = r'f?((?:"[^"\n]*"\s*|PRI\w+\s*)+)'
REASONS = {
    (".c", ".h", ".cc"): (rf"\b(?:skip_because|skipped)\(\s*{TEXT}",
                          r'(?<=[\s(])((?="(?:\w+: )?SKIPPED[,:])(?:"[^"\n]*"\s*)+)'),
    (".sh",): (r"""\bskip (?:'[^']*'|"[^"]*") ('[^']*'|"[^"]*")""", r'echo "skipped: ([^"]*)"'),
    (".py",): (rf"\bpytest\.skip\(\s*{TEXT}", rf"\breason={TEXT}", r'print\(f?"skipped: ([^"]*)"'),
}
# What is not among the tests of meson, and what writes a reason that is an argument.
NOT_HERE = ("tests/packages/", "tests/subproject/", "tests/python/check_", "tests/clients/", "tests/summary.py",
            "tests/test_summary.sh", "tests/support/skip.h")
# What stands for an argument: the proofs ask for words of a form.
ARGUMENT = r"%\.?\*?s|%PRI\w+|\{[^}]*\}|\$\w+"
VALUES = ("PTXGEN_TEST_X", "sm_90", "torch")


def given(source):
    for top in ("tests", "emulator/tests", "examples", "docs"):
        for folder, _, names in os.walk(os.path.join(source, top)):
            for path in sorted(os.path.join(folder, name) for name in names):
                if os.path.relpath(path, source).startswith(NOT_HERE):
                    continue
                for patterns in (patterns for ends, patterns in REASONS.items() if path.endswith(ends)):
                    with open(path, encoding="utf-8") as file:
                        text = file.read()
                    for pattern in patterns:
                        for found in re.findall(pattern, text):
                            yield path, re.sub(r'"\s*"|[\'"\s]*$|^[\'"]|\\n|"\s*(?=PRI)|(?<=PRI...)\s*"', "", found)


def main():
    reasons = list(given(sys.argv[1]))
    wrong = 0
    for path, reason in reasons:
        words = re.sub(r"%d", "1", re.sub(r"%\.3f", "1.0", reason))
        if re.fullmatch(r"\w+: SKIPPED: %s%?s?", words):
            continue  # an argument
        if not any(summary.proof_of(re.sub(ARGUMENT, value, words)) for value in VALUES):
            print(f"{path}: tests/summary.py has no proof of: {reason}")
            wrong += 1
    print(f"{len(reasons)} reasons, {wrong} without a proof")
    return 1 if wrong or len(reasons) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
