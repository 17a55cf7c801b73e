# SPDX-License-Identifier: MIT
"""Writes a case of tests/clients/texts: PTX that a compiler made, a launch of it, and what numpy says must be in
memory afterwards. test_texts.c runs it. A case has a line for each of these, in this order:

    device NAME                  PTXGEN_EMU_DEVICE; then the driver is initialised
    load FILE | link FILE        the text beside the case; `link`: each is an input to the driver's linker
    refused FILE WORD            instead: the text does not load, and the message has the word
    launch NAME GX GY GZ BX BY BZ SHARED
    value HEX                    an argument, as the bytes of memory
    array HEX | zeros BYTES      an argument: the address of memory that has these bytes
    error NUMBER                 the launch ends with this CUresult
    run
    expect ARGUMENT TYPE RELATIVE ABSOLUTE HEX
                                 the memory of this argument; bytes, f32 and f64 are types
    output HEX                   what all launches so far have printed"""
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "texts"


class Case:

    def __init__(self, name, made_by, device):
        self.name = name
        self.lines = [f"# {made_by}", f"device {device}"]
        self.files = 0

    def text(self, ptx, word="load", suffix=""):
        file = f"{self.name}{suffix}.ptx"
        text = ptx.rstrip("\0").rstrip() + "\n"
        (FOLDER / file).write_text("\n".join(line.rstrip() for line in text.split("\n")), encoding="ascii")
        self.lines.append(f"{word} {file}")

    def refused(self, ptx, reason):
        self.text(ptx, "refused")
        self.lines[-1] += f" {reason}"

    def launch(self, name, grid, block, arguments, shared=0, error=0):
        """Arrays are numpy arrays, scalars are numpy scalars."""
        sizes = [*grid, *(1, ) * (3 - len(grid)), *block, *(1, ) * (3 - len(block)), shared]
        self.lines.append(" ".join(["launch", name, *map(str, sizes)]))
        for a in arguments:
            if not isinstance(a, np.ndarray):
                self.lines.append(f"value {a.tobytes().hex()}")
            elif a.any():
                self.lines.append(f"array {a.tobytes().hex()}")
            else:
                self.lines.append(f"zeros {a.nbytes}")
        if error:
            self.lines.append(f"error {error}")
        self.lines.append("run")

    def expect(self, argument, array, relative=0.0, absolute=0.0):
        array = np.ascontiguousarray(array)
        kind = {"float32": "f32", "float64": "f64"}.get(str(array.dtype), "bytes")
        kind = kind if relative or absolute else "bytes"
        self.lines.append(f"expect {argument} {kind} {relative:g} {absolute:g} {array.tobytes().hex()}")

    def output(self, text):
        self.lines.append(f"output {text.encode().hex()}")

    def write(self):
        (FOLDER / f"{self.name}.case").write_text("\n".join(self.lines) + "\n", encoding="ascii")
