#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists the public functions and who calls them, by room:

    python3 tests/dev/surface.py [--all] [--names]

The functions are those that the headers declare with PTXGEN_API, rows of tables included. A room is a
folder that calls them as a user does. A use through a macro of the same stem counts for the function:
ptx_load() for ptx_load_emit(). Instructions, one a row of a table, and what the macros of places.h
call, are counted as groups. The other functions that tests alone use, or nobody, are printed; --all
prints every one.

--names prints names that do not pair: a function that makes and none that frees, a _prepare or
_describe without a call of its stem, a get_info or a struct of parameters of another stem than its
function.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include/ptxgen"
# Room -> folders, files. A layer counts as a user of the layers below it, not of its own functions.
ROOMS = {
    "examples": ["examples"],
    "kernels": ["src/kernels"],
    "plans": ["src/plans"],
    "tools": ["tools", "bench"],
    "c++": ["include/ptxgen/*.hpp"],
    "python": ["python"],
    "docs": ["docs", "README.md"],
    "tests": ["tests", "emulator"],
}
SOURCES = (".c", ".h", ".cc", ".hpp", ".cu", ".py", ".md", ".def")
# What is no use: this script, and lists of what there is.
LEFT_OUT = {"tests/dev", "docs/reference.py", "docs/instructions.md", "docs/names.md"}
# Tables whose rows are instructions, or the macro layer.
GROUPS = (
    ("rows of ops.h", re.compile(r"PTX_(OPS_|ATOMICS|WARP_REDUCTIONS|SPECIAL_)")),
    ("rows of math.h", re.compile(r"PTX_MATH_")),
)


PAIRS = (("create", "destroy"), ("open", "close"), ("load", "unload"), ("alloc", "free"))
# Names that pair otherwise, and why.
IRREGULAR = {
    "ptx_label_create": "a label goes with its entry",
    "ptx_fragment_load": "an instruction",
    "ptx_atomic_get_info": "atomics have the columns of instructions",
    "ptx_data": "of ptx_global() and ptx_const()",
    "ptx_message": "of ptx_trap_message() and ptx_assert()",
}


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def joined(header):
    """A header without comments, one directive a line."""
    return re.sub(r"\\\n", " ", without_comments(text_of(header)))


def declared(compiler):
    """function: (header, table that it is a row of), from the preprocessed headers."""
    tables = {}  # a row's function: its table
    every = "\n".join(joined(header) for header in sorted(HEADERS.glob("*.h")))
    for header in sorted(HEADERS.glob("*.h")):
        text = joined(header)
        for shape, body in re.findall(r"#define PTX_DECLARE\(name[^)]*\)\s+PTXGEN_API [^\n]*?(\w+##name\w*)\(([^\n]*)", text):
            at = text.index(body)
            for table in re.findall(r"^(PTX_\w+)\(PTX_DECLARE\)", text[at:text.index("#undef PTX_DECLARE", at)], re.M):
                rows = re.search(rf"#define {table}\(X\)([^\n]*)", every)[1]
                for name in re.findall(r"\bX\((\w+)", rows):
                    tables[shape.replace("##name", name)] = table
    done = subprocess.run(compiler.split() + ["-E", "-DPTXGEN_NO_PLACES", f"-I{ROOT}/include", "-x", "c",
                           str(HEADERS / "ptxgen.h")], stdout=subprocess.PIPE, text=True, check=True)
    functions, header = {}, ""
    text = []
    for line in done.stdout.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            header = os.path.basename(marker[1]) if "/ptxgen/" in marker[1] else ""
        elif header:
            text.append((header, line))
    whole = " ".join(line for _, line in text)
    where = {}
    for header, line in text:
        for name in re.findall(r"\b(ptx(?:gen)?_\w+)\(", line):
            where.setdefault(name, header)
    for name in re.findall(r'visibility ?\("default"\)[^;{=]*?\b(ptx(?:gen)?_\w+)\(', whole):
        functions[name] = (where[name], tables.get(name, ""))
    return functions


def macros(functions):
    """macro: the functions that it calls, for macros of another name than the function's."""
    found = collections.defaultdict(set)
    for header in HEADERS.glob("*.h"):
        text = joined(header)
        for macro, body in re.findall(r"^#define (ptx_\w+)\([^)]*\)([^\n]*)", text, re.M):
            for name in re.findall(r"\bptx_\w+\b", body):
                if name in functions and name != macro:
                    found[macro].add(name)
    return found


def files(places):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                             *places], stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if name.endswith(SOURCES) and not any(name == out or name.startswith(out + "/") for out in LEFT_OUT):
            path = ROOT / name
            if path.is_file():
                yield path


def uses(functions):
    """function: {room: uses}. In Python the prefix stays, since the binding calls by name."""
    through = macros(functions)
    counts = {name: collections.Counter() for name in functions}
    for room, places in ROOMS.items():
        for path in files(places):
            text = text_of(path)
            text = text if path.suffix in (".md", ".py") else without_comments(text)
            own = defines(path, text)
            for name, number in collections.Counter(re.findall(r"\bptx(?:gen)?_\w+", text)).items():
                for function in {name} & counts.keys() | through.get(name, set()):
                    if function not in own:
                        counts[function][room] += number
    return counts


def defines(path, text):
    """The functions that a source defines, whose name there is no use."""
    if path.suffix != ".c" or "src" not in path.parts:
        return set()
    return set(re.findall(r"^(?!\s)[^;=#\n]*\b(ptx_\w+)\([^;{]*\)\s*\{", text, re.M))


def group(name, table):
    if name.startswith("ptxgen_") and name != "ptxgen_version":
        return "called by the macros of places.h"
    for title, pattern in GROUPS:
        if pattern.match(table):
            return title
    return None


def unpaired(functions):
    """What is irregular among the names."""
    names = {name for name in functions if not name.startswith("ptxgen_")}
    for made, freed in PAIRS:
        for name in sorted(names):
            if name.endswith(f"_{made}") and not functions[name][1] and name not in IRREGULAR:
                if name[:-len(made)] + freed not in names:
                    yield f"{name}: no {name[:-len(made)]}{freed}"
    for name in sorted(names):
        for verb in ("prepare", "describe"):
            stem = name[:-len(verb)]
            if name.endswith("_" + verb) and not {stem[:-1], stem + "run", stem + "plan_run"} & names:
                yield f"{name}: no call of that stem"
    text = "".join(text_of(header) for header in sorted(HEADERS.glob("*.h")))
    text = re.sub(r"//[^\n]*", "", text)
    for result, name in re.findall(r"struct (ptx_\w+) \*?(ptx_\w+_get_info)\(", text):
        if name in names and result != name.replace("_get_info", "_info") and name not in IRREGULAR:
            yield f"{name}: returns struct {result}"
    for tag in sorted(set(re.findall(r"^struct (ptx_\w+)_params \{", text, re.M))):
        takers = set(re.findall(r"\b(ptx_\w+)\([^;(]*?\bstruct " + tag + r"_params\b", text)) & names
        if takers and tag not in IRREGULAR and not any(name.startswith(tag) for name in takers):
            yield f"struct {tag}_params: taken by {', '.join(sorted(takers))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="print every function")
    parser.add_argument("--names", action="store_true", help="print names that do not pair")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    options = parser.parse_args()
    functions = declared(options.cc)
    if options.names:
        found = list(unpaired(functions))
        print("\n".join(found) or "all names pair")
        return 1 if found else 0
    counts = uses(functions)
    groups = collections.Counter(group(name, table) or "other functions" for name, (_, table) in functions.items())
    print(f"{len(functions)} functions: " + ", ".join(f"{number} {title}" for title, number in groups.most_common()))
    width = max(map(len, functions))
    shown = collections.defaultdict(list)
    for name, (header, table) in functions.items():
        real = sum(number for room, number in counts[name].items() if room not in ("tests", "docs"))
        if options.all or not real and group(name, table) is None:
            shown[header].append(name)
    print("\n" + " " * (width + 2) + " ".join(f"{room:>8}" for room in ROOMS))
    for header, names in shown.items():
        print(header)
        for name in names:
            print(f"  {name:{width}}" + " ".join(f"{counts[name][room] or '-':>8}" for room in ROOMS))
    print(f"{sum(map(len, shown.values()))} shown")
    return 0


if __name__ == "__main__":
    sys.exit(main())
