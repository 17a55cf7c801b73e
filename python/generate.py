#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the Python side of the public headers:

    generate.py --include FOLDER --package FOLDER --libdir FOLDER --c _c.py --types _types.py -- CC...

_c.py has every struct, enumeration, constant and function of <ptxgen/ptxgen.h> for ctypes, without
the headers of instructions: Python hands over PTX as text. _types.py has the same structs as types
for checkers and for callers: a TypedDict for what is passed in, a NamedTuple for what comes back.

The compiler preprocesses the headers, so that X-macros and conditions are expanded as in C. What is
left is a small language: enumerations, structs, typedefs and prototypes. Anything else is an error.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
import textwrap

# The headers whose declarations write instructions.
INSTRUCTIONS = {"asm.h", "ops.h", "convert.h", "math.h", "memory.h", "threads.h", "control.h", "function.h", "message.h", "places.h"}

CELL = r'(?:\w+|"[^"]*")'  # of a row of an X-macro

BASE = {
    "void": None, "_Bool": "c_bool", "char": "c_char", "signed char": "c_byte",
    "unsigned char": "c_ubyte", "short": "c_short", "unsigned short": "c_ushort", "int": "c_int",
    "unsigned": "c_uint", "unsigned int": "c_uint", "long": "c_long", "unsigned long": "c_ulong",
    "long long": "c_longlong", "unsigned long long": "c_ulonglong", "float": "c_float",
    "double": "c_double", "size_t": "c_size_t", "int8_t": "c_int8", "int16_t": "c_int16",
    "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8", "uint16_t": "c_uint16",
    "uint32_t": "c_uint32", "uint64_t": "c_uint64",
}


class Headers:
    """What the headers declare, in their order."""

    def __init__(self):
        self.constants = {}  # name: value, of enumerators and numeric macros
        self.tables = {}  # name: [(word or text, ...)], of X-macros with several of them a row
        self.enums = {}  # type name: [enumerator]
        self.structs = {}  # tag: [(field, C type, array length or None)]
        self.typedefs = {}  # name: C type
        self.functions = {}  # name: (C type of the result, [C type])

    def resolve(self, c_type):
        """A C type without const and typedefs of scalars: "ptx_clip_tensor *", "float"."""
        words = c_type.replace("*", " * ").split()
        words = [word for word in words if word not in ("const", "struct", "enum")]
        stars = words.count("*")
        base = " ".join(word for word in words if word != "*")
        while base in self.typedefs and base not in self.enums and base not in self.structs:
            target = self.typedefs[base]
            if target.rstrip("* ").split()[-1] == base:
                break
            return self.resolve(target + " *" * stars)
        return base + " *" * stars


# ---- reading -------------------------------------------------------------------------------------


def preprocessed(compiler, include):
    """The headers' text and their numeric macros, without system headers and instructions."""
    command = compiler + ["-E", "-dD", "-I", include, "-x", "c", f"{include}/ptxgen/ptxgen.h"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"generate.py: {' '.join(command)} failed")
    text, macros, here = [], {}, False
    for line in done.stdout.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            path = marker[1].split("/")
            here = path[-2:-1] == ["ptxgen"] and path[-1] not in INSTRUCTIONS
        elif line.startswith("#"):
            macro = re.match(r"#define (PTX\w+)(?:\(X\))? (.+)", line)
            if here and macro:
                macros[macro[1]] = macro[2]
        elif here:
            text.append(line)
    return "\n".join(text), macros


def number(text, known):
    """The value of a constant expression, None if it is none."""
    text = re.sub(r"\bUINT32_MAX\b", "0xffffffff", text)
    text = re.sub(r"\bU?INT(?:32|64)_C\((\w+)\)", r"\1", text)
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    try:
        tree = ast.parse(text.strip(), mode="eval")
        allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load,
                   ast.operator, ast.unaryop)
        if not all(isinstance(node, allowed) for node in ast.walk(tree)):
            return None
        value = eval(compile(tree, "constant", "eval"), {"__builtins__": {}}, dict(known))
    except (SyntaxError, NameError):
        return None
    return value if isinstance(value, int) else None


def declarations(text):
    """The declarations at file level, each without its semicolon; bodies of functions are left out."""
    depth, start, at = 0, 0, 0
    while at < len(text):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0 and text[start:at].lstrip().startswith("static inline"):
                start = at + 1
        elif text[at] == ";" and depth == 0:
            yield " ".join(text[start:at].split())
            start = at + 1
        at += 1
    if text[start:].strip():
        sys.exit(f"generate.py: not read: {text[start:].strip()[:80]}")


def enumerators(headers, body, name):
    value, names = -1, []
    for item in filter(None, (item.strip() for item in body.split(","))):
        word, _, expression = (part.strip() for part in item.partition("="))
        value = number(expression, headers.constants) if expression else value + 1
        if value is None:
            sys.exit(f"generate.py: {word} has no value: {expression}")
        headers.constants[word] = value
        names.append(word)
    if name:
        headers.enums[name] = names


def fields(headers, body):
    """(name, C type, array length) of each field of a struct."""
    for line in filter(None, (line.strip() for line in body.split(";"))):
        function = re.fullmatch(r".*\(\*(\w+)\)\(.*\)", line)
        if function:
            yield function[1], "void *", None
            continue
        found = re.fullmatch(r"(.*?[\s*])(\w+(?:\[[^]]*\])?(?:, ?\w+(?:\[[^]]*\])?)*)", line)
        if not found:
            sys.exit(f"generate.py: not a field: {line}")
        for declarator in found[2].split(","):
            name, _, length = declarator.strip().rstrip("]").partition("[")
            yield name, found[1].strip(), number(length, headers.constants) if length else None


def parameters(text):
    """The C types of a prototype's parameters."""
    if text.strip() in ("", "void"):
        return []
    types = []
    for parameter in text.split(","):
        parameter = parameter.strip()
        array = parameter.endswith("]")
        words = re.fullmatch(r"(.*?)(?:(?<=[\s*])\w+(?:\[[^]]*\])?)?", parameter)[1].strip()
        types.append((words or parameter) + (" *" if array else ""))
    return types


def read(text, macros):
    headers = Headers()
    for line in declarations(text):
        line = re.sub(r"__attribute__ ?\(\(__format__ ?\(.*?\)\)\)", "", line).strip()
        exported = line.startswith("__attribute__")
        line = re.sub(r'__attribute__ ?\(\(visibility ?\("default"\)\)\)', "", line).strip()
        block = re.fullmatch(r"(typedef )?(enum|struct)(?: (\w+))? ?\{(.*)\} ?(\w*)", line)
        if block:
            name = block[3] or block[5]
            if block[2] == "enum":
                enumerators(headers, block[4], name)
            else:
                headers.structs[name] = list(fields(headers, block[4]))
        elif line.startswith("typedef"):
            words = re.fullmatch(r"typedef (.*?)(\w+)", line)
            headers.typedefs[words[2]] = words[1].strip()
        elif line.startswith("extern") or re.fullmatch(r"struct \w+", line):
            continue  # a kernel's row, which ptx_kernel_find() finds; a declaration
        elif exported and "..." not in line:
            found = re.fullmatch(r"(.*?[\s*])(\w+)\((.*)\)", line)
            if not found:
                sys.exit(f"generate.py: not a function: {line}")
            headers.functions[found[2]] = (found[1].strip(), parameters(found[3]))
        elif not exported:
            sys.exit(f"generate.py: not read: {line}")
    for name, value in macros.items():
        if re.fullmatch(rf"(X\({CELL}(, {CELL})+\) ?)+", value):
            headers.tables[name] = [tuple(cell.strip('"') for cell in re.findall(CELL, row))
                                    for row in re.findall(rf"X\(({CELL}(?:, {CELL})+)\)", value)]
        value = number(value, headers.constants)
        if value is not None:
            headers.constants[name] = value
    return headers


# ---- ctypes --------------------------------------------------------------------------------------


def ctype(headers, c_type, in_struct):
    """The ctypes class of a C type. A pointer is an address, except a string."""
    resolved = headers.resolve(c_type)
    if resolved.endswith("*"):
        return "c_char_p" if resolved == "char *" and "const" in c_type else "c_void_p"
    if resolved in headers.enums:
        return "c_int"
    if resolved in headers.structs:
        return resolved
    if resolved not in BASE:
        sys.exit(f"generate.py: no ctypes class for {c_type}")
    return BASE[resolved]


def kind(headers, c_type):
    """What a field holds, for those who fill it: "address", "stream", "bool", "int", "float",
    "text", "opaque", an enumeration, a struct, or "*" and what it points to."""
    bare = " ".join(word for word in c_type.split() if word not in ("const", "struct", "enum"))
    if bare in ("CUdeviceptr",):
        return "address"
    if bare == "CUstream":
        return "stream"
    resolved = headers.resolve(c_type)
    if resolved == "char *":
        return "text"
    if resolved.endswith("*"):
        target = resolved[:-1].strip()
        if target in headers.structs or BASE.get(target) in ("c_float", "c_double"):
            return "*" + kind(headers, target)
        return "opaque"
    if resolved in headers.enums or resolved in headers.structs:
        return resolved
    simple = {"c_bool": "bool", "c_float": "float", "c_double": "float", "c_char": "text"}
    return simple.get(BASE[resolved], "int")


def write_c(headers, libdir, out):
    out.write('# SPDX-License-Identifier: MIT\n"""The public headers for ctypes. Written by generate.py."""\n')
    out.write("from ctypes import *  # noqa: F401,F403\nfrom ctypes import Structure\nfrom typing import Any, Dict\n\n")
    out.write(f"# From this package's folder, where `meson install` put both.\nLIBDIR = {libdir!r}\n\n"
              "# ---- constants\n\n")
    for name, value in headers.constants.items():
        out.write(f"{name} = {value}\n")
    out.write("\n# ---- enumerations: the enumerators in their order\n\nENUMS = {\n")
    for name, names in headers.enums.items():
        out.write(f"    {name!r}: {names!r},\n")
    out.write(f"}}\n\n# ---- tables: the rows of X-macros\n\nTABLES: Dict[str, Any] = {headers.tables!r}\n")
    out.write("\n# ---- structs; kinds: what a field holds\n")
    for name, members in headers.structs.items():
        out.write(f"\n\nclass {name}(Structure):\n    _fields_ = [\n")
        for field, c_type, length in members:
            one = ctype(headers, c_type, True)
            out.write(f"        ({field!r}, {one}{f' * {length}' if length else ''}),\n")
        out.write("    ]\n    kinds = {\n")
        for field, c_type, length in members:
            out.write(f"        {field!r}: {kind(headers, c_type)!r},\n")
        out.write("    }\n")
    out.write("\n\nSTRUCTS = {\n")
    for name in headers.structs:
        out.write(f"    {name!r}: {name},\n")
    out.write("}\n\n# ---- functions: result, parameters\n\nFUNCTIONS = {\n")
    for name, (result, types) in headers.functions.items():
        listed = ", ".join(ctype(headers, c_type, False) for c_type in types)
        out.write(f"    {name!r}: ({ctype(headers, result, False)}, [{listed}]),\n")
    out.write("}\n")


# ---- types for checkers --------------------------------------------------------------------------

MAY_BE_NULL = {("ptx_step_description", "warning")}  # texts that come back
PASSED_IN = re.compile(r"ptx_(?!builder|device|launch)\w+_(params|tensor|group|hyper|whole|spread|range|clip|agc)$")
COMES_BACK = re.compile(r"ptx_(function_param|\w+_(info|record|report|summary|description|piece|state))$")


def class_name(tag):
    return "".join(word.capitalize() for word in tag[len("ptx_"):].split("_"))


def choices(headers, enum):
    """The names that a caller gives: "adamw" for PTX_STEP_RULE_ADAMW."""
    names = [name for name in headers.enums[enum] if not name.endswith("_COUNT")]
    stem = next((enum[:-len(end)] for end in ("_mode", "_op") if enum.endswith(end)), enum)
    prefix = stem.upper() + "_"
    return [name[len(prefix):].lower() if name.startswith(prefix) else name[len("PTX_"):].lower()
            for name in names]


def hint(headers, what, length, back):
    """The type of a field, as a caller writes it."""
    if what.startswith("*"):
        inner = hint(headers, what[1:], None, back)
        return inner if what.endswith("_params") else f"Sequence[{inner}]"
    if what in headers.enums:
        one = "str" if back else "DType" if what == "ptx_type" else class_name(what) + "Name"
    elif what in headers.structs:
        one = class_name(what)
    else:
        one = {"address": "int" if back else "Address", "stream": "StreamLike", "text": "str",
               "opaque": "object"}.get(what, what)
    if length is None or what == "text":
        return one
    return f"Tuple[{', '.join([one] * length)}]" if back else f"Sequence[{one}]"


def write_types(headers, out):
    out.write('# SPDX-License-Identifier: MIT\n"""The public headers\' structs as types. Written by generate.py."""\n')
    out.write("from __future__ import annotations\n\n"
              "from typing import Literal, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union\n\n"
              "from .arrays import Address, OtherDType, StreamLike\n\n")
    for enum in sorted(headers.enums):
        names = ", ".join(f'"{name}"' for name in choices(headers, enum))
        out.write(f"{class_name(enum)}Name = Literal[{names}]\n")
    out.write("# A type by the library's name, or as numpy and torch have it.\n"
              "DType = Union[TypeName, OtherDType]\n")
    named = {tag for tag in headers.structs if COMES_BACK.match(tag) or PASSED_IN.match(tag)}
    for tag in (tag for tag in headers.structs if tag in named):
        members, back = headers.structs[tag], bool(COMES_BACK.match(tag))
        inner = {kind(headers, c_type).lstrip("*") for _, c_type, _ in members}
        if not inner & set(headers.structs) <= named:
            continue  # the builder's: values of kernels
        base = "NamedTuple" if back else "TypedDict, total=False"
        out.write(f"\n\nclass {class_name(tag)}({base}):\n")
        arrays = {name for name, c_type, _ in members if kind(headers, c_type).startswith("*")}
        hints = {}
        for field, c_type, length in members:
            if field.endswith("_count") and field[:-len("_count")] + "s" in arrays:
                continue  # the sequence has it
            if field == "tensors":
                continue  # an argument of its own
            of = hint(headers, kind(headers, c_type), length, back)
            hints[field] = f"Optional[{of}]" if (tag, field) in MAY_BE_NULL else of
        # help() shows the methods of a dict or a tuple, and no field.
        fields = textwrap.fill(", ".join(hints) + ".", 100, initial_indent="    ", subsequent_indent="    ")
        out.write(f'    """struct {tag} with these fields:\n\n{fields}\n    """\n\n')
        for field, of in hints.items():
            hides = "  # type: ignore[assignment]" if back and field in ("count", "index") else ""
            out.write(f"    {field}: {of}{hides}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", required=True)
    parser.add_argument("--package", required=True, help="where the package is installed")
    parser.add_argument("--libdir", required=True, help="where the library is installed")
    parser.add_argument("--c", required=True)
    parser.add_argument("--types", required=True)
    parser.add_argument("compiler", nargs="+")
    options = parser.parse_args()
    headers = read(*preprocessed(options.compiler, options.include))
    with open(options.c, "w", encoding="utf-8") as out:
        write_c(headers, os.path.relpath(options.libdir, options.package), out)
    with open(options.types, "w", encoding="utf-8") as out:
        write_types(headers, out)


if __name__ == "__main__":
    main()
