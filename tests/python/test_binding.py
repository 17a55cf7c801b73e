# SPDX-License-Identifier: MIT
"""The generated binding against a C compiler: sizes, offsets, enumerators, constants."""

import ctypes
import os
import re
import shutil
import subprocess

import ptxgen
from conftest import ROOT
from ptxgen import _c, _types

COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")  # a test needs one


def c_name(cls):
    """A struct's type in C; some have a typedef of the same name."""
    return cls.__name__ if cls.__name__ in TYPEDEFS else f"struct {cls.__name__}"


TYPEDEFS = ("ptx_val", "ptx_vec", "ptx_ptr", "ptx_label")


def test_structs_and_constants_against_c(tmp_path):
    lines, expected = [], []
    for cls in _c.STRUCTS.values():
        name = c_name(cls)
        lines.append(f"sizeof({name})")
        expected.append(ctypes.sizeof(cls))
        for field, *_ in cls._fields_:
            lines += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
            expected += [getattr(cls, field).offset, getattr(cls, field).size]
    constants = [name for name in dir(_c) if name.startswith("PTX")]
    lines += constants
    expected += [getattr(_c, name) for name in constants]
    assert len(_c.STRUCTS) > 30 and len(constants) > 60
    source = tmp_path / "binding.c"
    source.write_text("#include <ptxgen/ptxgen.h>\n#include <stdio.h>\nint main(void)\n{\n"
                      + "".join(f'    printf("%lld\\n", (long long)({line}));\n' for line in lines)
                      + "    return 0;\n}\n")
    subprocess.run([COMPILER, "-std=c11", f"-I{ROOT / 'include'}", str(source), "-o",
                    str(tmp_path / "binding")], check=True)
    printed = subprocess.run([str(tmp_path / "binding")], stdout=subprocess.PIPE, text=True, check=True)
    found = [int(line) for line in printed.stdout.split()]
    assert [(a, b, c) for a, b, c in zip(lines, expected, found) if b != c] == []
    assert len(found) == len(lines)


RESULTS = {ctypes.c_int: "int", ctypes.c_uint: "unsigned", ctypes.c_bool: "_Bool",
           ctypes.c_size_t: "size_t", ctypes.c_ulonglong: "unsigned long long",
           ctypes.c_char_p: "const char *", ctypes.c_void_p: "void *"}


def test_prototypes_against_c(tmp_path):
    """Each function's number of parameters, which must compile, and the size of its result.

    Macros that name the caller's place would hide the functions."""
    text = ["#include <ptxgen/ptxgen.h>"]
    for name, (result, parameters) in _c.FUNCTIONS.items():
        zeros = ", ".join(f"({c_name(p)}){{ 0 }}" if p in _c.STRUCTS.values() else "0" for p in parameters)
        if result is None:
            text.append(f"__typeof__({name}({zeros})) *{name}_is_void(void);")
        else:
            kind = RESULTS.get(result) or c_name(result)
            text.append(f'_Static_assert(sizeof({name}({zeros})) == sizeof({kind}), "{name}");')
    source = tmp_path / "prototypes.c"
    source.write_text("\n".join(text) + "\n")
    subprocess.run([COMPILER, "-std=gnu11", "-fsyntax-only", "-DPTXGEN_NO_PLACES",
                    f"-I{ROOT / 'include'}", str(source)], check=True)
    assert len(text) > 100


def test_every_public_function_is_there():
    """All that the headers of driver, kernels and plans declare, found by another reading."""
    declared = set()
    skipped = {"asm.h", "ops.h", "convert.h", "math.h", "memory.h", "threads.h", "control.h", "function.h", "message.h",
               "places.h"}
    for header in (ROOT / "include" / "ptxgen").glob("*.h"):
        if header.name not in skipped:
            text = re.sub(r"//.*|\\\n", " ", header.read_text())
            declared |= set(re.findall(r"PTXGEN_API [^;{=]*?\b(ptx\w+)\(", text))
    assert declared - set(_c.FUNCTIONS) == {"ptx_builder_fail", "ptx_builder_fail_value"}  # printf-like
    assert set(_c.FUNCTIONS) <= declared


def test_types_name_the_fields_of_structs():
    for name in dir(_types):
        made = getattr(_types, name)
        tag = (made.__doc__ or "") if isinstance(made, type) else ""
        if not tag.startswith("struct ptx_"):
            continue
        fields = {field for field, *_ in _c.STRUCTS[tag.split()[1]]._fields_}
        assert set(made.__annotations__) <= fields, name
        assert set(made.__annotations__) == set(re.findall(r"\w+", tag.partition(":")[2])), name  # for help()


def test_the_library_that_was_built():
    assert os.path.isfile(ptxgen.library_path()) and os.path.isfile(ptxgen.emulator_path())
    project = (ROOT / "meson.build").read_text().split("version: '")[1].split("'")[0]
    assert ptxgen.__version__ == project
