#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The arrows between the folders, of includes and of symbols:

    tests/layers.py SOURCE [BUILD]

Each folder includes its own headers and those that ROOMS names; no two folders include each other,
directly or through others; no header includes itself. What plans that take norms share, the files norm*,
reaches no header of clip or step plans. With a BUILD folder, each layer of the library
uses the names of the layers below it alone, and all of its external names begin with ptx. The
command is built from nothing of tests and bench. In the folders of WITHOUT_CIRCLES and below them, no two
files and no two folders use each other, directly or through others: X.c and X.h are one file, and a file uses another
one if it includes its header or names a function that it defines. The emulator compares no opcodes: what tells
instructions apart is in their row of isa.def.
"""

import collections
import glob
import os
import re
import subprocess
import sys

TEXT = "common types ops builder control data function math memory message threads".split()
DEVICE = "common driver error device stream buffer graph module launch".split()

# Folder -> the folders, or the headers of a folder, that its files may include beside its own. A
# folder that is not listed may include anything, but without a circle.
ROOMS = {
    "abi": (),
    "include/ptxgen": (),
    "src/ptxgen": (("include/ptxgen", TEXT),),
    "src/kernels": (
        ("include/ptxgen", TEXT + ["kernels", "records", "rule", "rules"]), "src/kernels/common", "src/kernels/step",
    ),
    "src/kernels/common": (("include/ptxgen", TEXT + ["kernels"]),),
    "src/kernels/step": (("include/ptxgen", TEXT + ["rule", "rules"]), "src/kernels/common"),
    "src/kernels/step/formats": (("include/ptxgen", TEXT + ["rule", "rules"]), "src/kernels/common", "src/kernels/step"),
    "src/kernels/step/rules": (("include/ptxgen", TEXT + ["rule", "rules"]), "src/kernels/common", "src/kernels/step"),
    "src/driver": (("include/ptxgen", DEVICE), "abi"),
    "src/plans": (
        ("include/ptxgen", TEXT + DEVICE + ["kernels", "records"]),
        ("include/ptxgen", ["binding", "blocks", "operations", "norm", "clip", "muon", "rule", "rules", "step", "torch"]),
        ("src/kernels", ["norm", "clip_apply", "step_apply", "muon", "muon_parts", "blocks"]),
        ("src/kernels/common", ["parts", "vector"]),
        ("src/kernels/step", ["own_rule"]),
        ("src/kernels/step/formats", ["state_8bit"]),
        ("src/driver", ["error", "capture", "nvtx"]),
    ),
    "src/plans/operations": (
        ("include/ptxgen", TEXT + DEVICE + ["kernels", "records", "binding", "operations"]),
        ("src/kernels/common", ["pieces", "quantizer_target", "vector"]),
        ("src/driver", ["error", "launch", "nvtx"]),
        ("src/plans", ["arrays", "load", "loss_scale"]),
    ),
    "emulator/ptx": ("emulator", "abi"),
    "emulator/exec": (
        "emulator", "emulator/exec/base", "emulator/exec/lanes", "emulator/exec/check", "emulator/exec/access",
        "emulator/exec/async",
    ),
    "emulator/exec/lanes": ("emulator", "emulator/ptx"),
    "emulator/exec/base": ("emulator/ptx", "emulator/exec/lanes", "abi"),
    "emulator/exec/memory": ("emulator/exec/base",),
    "emulator/exec/check": ("emulator/exec/base",),
    "emulator/exec/access": ("emulator/exec/base", "emulator/exec/check"),
    "emulator/exec/arithmetic": (
        "emulator/ptx", "emulator/exec/base", "emulator/exec/lanes", "emulator/exec/check", "emulator/exec/access",
    ),
    "emulator/exec/async": ("emulator/exec/base", "emulator/exec/check", "emulator/exec/access"),
    "emulator/cuda": ("emulator", "emulator/ptx", ("emulator/exec/base", ["exec"]), "abi"),
    "tools": ("include/ptxgen",),
    "tools/clip": ("include/ptxgen", "tools"),
    "tests/reference": (),
    "bench/suites": ("include/ptxgen", "tools", "tests/reference", "tests/plans/rules"),
    "examples": ("include/ptxgen",),
    "examples/sharded": ("include/ptxgen",),
    "examples/train": ("include/ptxgen",),
}
# The folders in which the build looks for headers.
SEARCHED = ("", "include", "src", "src/driver", "src/plans", "emulator", "emulator/tests",
            "tools", "bench", "tests", "tests/support")

# The folders in which, with those below them, no two files and no two folders use each other.
WITHOUT_CIRCLES = ("emulator/cuda", "emulator/exec", "emulator/ptx")

# Layer -> the layers whose names it may use.
LAYERS = {
    "ptxgen": (),
    "driver": (),
    "kernels": ("ptxgen",),
    "plans": ("kernels", "driver", "ptxgen"),
}


def includes(source):
    """(file, file that it includes) of all of the project's own: git is not asked, which may be missing, so
    folders of the build are known by their names."""
    files = set()
    for folder, below, names in os.walk(source):
        if folder == source:
            below[:] = [name for name in below if not name.startswith(("build", "."))]
        files.update(os.path.relpath(os.path.join(folder, name), source) for name in names
                     if name.endswith((".c", ".h", ".cc", ".def")))
    for file in sorted(files):
        with open(os.path.join(source, file), encoding="utf-8", errors="replace") as text:
            names = re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', text.read(), re.M)
        for name in names:
            for folder in (os.path.dirname(file),) + SEARCHED:
                path = os.path.normpath(os.path.join(folder, name))
                if path in files:
                    yield file, path
                    break


def circle(graph):
    """A path of the graph that comes back to where it began, or nothing."""
    done = set()

    def visit(node, path):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        for other in sorted(graph.get(node, ())):
            found = visit(other, path + [node])
            if found:
                return found
        done.add(node)
        return None

    for node in sorted(graph):
        found = visit(node, [])
        if found:
            return found
    return None


def allowed(folder, path):
    other, header = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    for room in ROOMS[folder]:
        if room == other or room[0] == other and header in room[1]:
            return True
    return False


def reached(graph, file):
    """All files that a file includes, directly or through others."""
    found, left = set(), [file]
    while left:
        for path in graph.get(left.pop(), ()):
            if path not in found:
                found.add(path)
                left.append(path)
    return found


def wrong_peers(files):
    """What the norms' core includes of the plans that stand on it."""
    core = sorted(file for file in files if re.match(r"(include/ptxgen|src/plans|src/kernels)/norm[\w.]*$", file))
    if len(core) < 8:
        yield "the files of the norms' core are not found"
    for file in core:
        for path in sorted(reached(files, file)):
            if re.match(r"(include/ptxgen|src/plans|src/kernels(/step)?)/(clip|step|rules)[\w.]*\.h$", path):
                yield f"{file} must not reach {path}: clip and step plans add to the core by their hooks"


def wrong_includes(source):
    files = collections.defaultdict(set)
    folders = collections.defaultdict(set)
    for file, path in includes(source):
        folder, other = os.path.dirname(file), os.path.dirname(path)
        files[file].add(path)
        if folder == other:
            continue
        if folder in ROOMS and not allowed(folder, path):
            yield f"{file} must not include {path}"
        folders[folder].add(other)
    if not files:
        yield f"no includes are found in {source}"
    yield from wrong_peers(files)
    for graph in (files, folders):
        found = circle(graph)
        if found:
            yield "a circle of includes: " + " -> ".join(found)


def code(path):
    """The text of a C file without its comments and strings."""
    with open(path, encoding="utf-8") as text:
        return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text.read(), flags=re.S)


def uses(source, folder):
    """File -> the files of the folder and of those below it that it uses, by their paths from there without
    suffixes."""
    stem = lambda path: os.path.splitext(os.path.relpath(path, folder))[0]
    graph = collections.defaultdict(set)
    for file, path in includes(source):
        if file.startswith(folder + "/") and path.startswith(folder + "/") and stem(file) != stem(path):
            graph[stem(file)].add(stem(path))
    texts = {stem(os.path.relpath(file, source)): code(file)
             for file in glob.glob(os.path.join(source, folder, "**", "*.c"), recursive=True)}
    # A definition begins at the start of a line, and so does the brace after it.
    defined = {name: file for file, text in texts.items()
               for name in re.findall(r"(?m)^(?!static\b|typedef\b)\w[^\n;{}()]*?\b(\w+)\([^;{}]*\)\n\{", text)}
    for file, text in texts.items():
        graph[file].update(defined[word] for word in set(re.findall(r"\w+", text))
                           if word in defined and defined[word] != file)
    return graph


def wrong_circles(source):
    for folder in WITHOUT_CIRCLES:
        files = uses(source, folder)
        if len(files) < 4:
            yield f"{folder}: hardly any files are found"
        folders = collections.defaultdict(set)
        for file, used in files.items():
            home = os.path.join(folder, os.path.dirname(file)).rstrip("/")
            folders[home].update({os.path.join(folder, os.path.dirname(path)).rstrip("/") for path in used} - {home})
        for what, graph in (("files", files), ("folders", folders)):
            found = circle(graph)
            if found:
                yield f"{folder}: a circle of {what}: " + " -> ".join(found)


def wrong_build_lines(source):
    """The command is built from tools and the library alone: its build names no file of the tests or
    timings, whose folders are not searched for headers either."""
    lines = os.path.join(source, "tools", "meson.build")
    with open(lines, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            if re.search(r"(^|[^\w])\.\./(\.\./)*(tests|bench|emulator|examples)\b", line):
                yield f"{lines}:{number}: the command must not take {line.strip()}"


def compared_opcodes(source):
    """Comparisons with opcodes, but for those that isa.def generates. EMU_OP_COUNT is no opcode."""
    for file in sorted(glob.glob(os.path.join(source, "emulator", "**", "*.[ch]"), recursive=True)):
        if os.path.join("emulator", "tests") in file:
            continue
        with open(file, encoding="utf-8") as text:
            for number, line in enumerate(text, 1):
                if re.search(r"([=!]= |case )EMU_OP_(?!COUNT\b|#)", line):
                    yield f"{file}:{number}: compares opcodes: {line.strip()}"


def symbols(build, layer, kinds):
    archive = glob.glob(os.path.join(build, "src", layer, "*.a"))[0]
    lines = subprocess.run(["nm", archive], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(rf"(?m)\b[{kinds}] (\S+)$", lines))


def wrong_symbols(build):
    defined = {layer: symbols(build, layer, "TDBRVWC") for layer in LAYERS}
    for layer, below in LAYERS.items():
        if len(defined[layer]) < 4:
            yield f"{layer} defines hardly anything"
        for name in sorted(defined[layer]):
            if not name.startswith("ptx"):
                yield f"{layer}: the external name {name} does not begin with ptx"
        used = symbols(build, layer, "U") - defined[layer]
        used -= set().union(*(defined[other] for other in below))
        for name in sorted(used):
            if name.startswith("ptx"):
                yield f"{layer} must not use {name}"
            if re.match(r"cu[A-Z]", name):
                yield f"{layer} calls {name}, but libcuda is opened at run time"


def main():
    wrong = list(wrong_includes(sys.argv[1])) + list(wrong_build_lines(sys.argv[1]))
    wrong += wrong_circles(sys.argv[1])
    wrong += compared_opcodes(sys.argv[1])
    if len(sys.argv) > 2:
        wrong += wrong_symbols(sys.argv[2])
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
