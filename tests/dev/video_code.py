#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the emulator computes video instructions as the machine code does that ptxas makes of them:

    video_code.py LIBCUDA [--nvdisasm FILE] [--target sm_90] [--count 1000] [--seed 1]

LIBCUDA is the emulator's library. ptxas assembles a kernel for each of COUNT random forms of the scalar and the SIMD
video instructions, nvdisasm of the CUDA toolkit prints its code, and this program computes that code, in numpy, on
corner values in pairs and random ones. It knows the instructions that occur there, and refuses others. Prints each
form that differs, and ends with 1 if there is one.
"""

import argparse
import ctypes
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

MASK = 0xffffffff
PARTS = ["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"]


# ---- forms ----------------------------------------------------------------------------------------------

def types(*signs):
    return "".join(".s32" if sign else ".u32" for sign in signs)


def scalar(draw):
    name = draw.choice(["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr", "vmad"])
    signs = [draw.random() < 0.5 for _ in range(3)]
    parts = [draw.choice(PARTS + 3 * [""]) for _ in range(3)]
    sat = draw.choice(["", ".sat"])
    if name == "vmad":
        minus = [draw.choice(["", "-"]) for _ in range(3)]
        minus[2] = "" if minus[0] != minus[1] else minus[2]
        one = draw.choice(["", ".po"]) if minus[0] == minus[1] and not minus[2] else ""
        return (f"vmad{types(*signs)}{one}{sat}{draw.choice(['', '.shr7', '.shr15'])} %r0, "
                f"{minus[0]}%r1{parts[1]}, {minus[1]}%r2{parts[2]}, {minus[2]}%r3;")
    if name in ("vshl", "vshr"):
        written = types(signs[0], signs[1], False) + sat + draw.choice([".clamp", ".wrap"])
    elif name == "vset":
        written = types(*signs[1:]) + "." + draw.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    else:
        written = types(*signs) + sat
    kind = draw.choice(["", "", ".add", ".min", ".max", "part", "part"])
    part = draw.choice(PARTS[1:]) if kind == "part" else ""
    third = ", %r3" if kind or draw.random() < 0.3 else ""
    return f"{name}{written}{'' if part else kind} %r0{part}, %r1{parts[1]}, %r2{parts[2]}{third};"


def simd(draw):
    name = draw.choice(["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"])
    count, letter = draw.choice([(2, "h"), (4, "b")])
    signs = [draw.random() < 0.5 for _ in range(3)]
    kind = draw.choice(["", ".add"] + [".sat"] * (name != "vset"))
    compare = "." + draw.choice(["eq", "ne", "lt", "le", "gt", "ge"]) if name == "vset" else ""
    of = ["".join(str(draw.randrange(2 * count)) for _ in range(count)) for _ in range(2)]
    mask = "".join(str(k) for k in reversed(range(count)) if draw.random() < 0.6) or "0"
    written = types(*signs[1:]) + compare + kind if compare else types(*signs) + kind
    return f"{name}{count}{written} %r0.{letter}{mask}, %r1.{letter}{of[0]}, %r2.{letter}{of[1]}, %r3;"


# Row %r4 of the table, if there is one.
INDEX = """mov.u32 %r4, %ctaid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r4, %r4, 256, %r5; ld.param.u32 %r6, [n];
setp.ge.u32 %p, %r4, %r6; @%p ret; mad.wide.u32 %rd0, %r4, 16, %rd0;"""


def module(forms, target, index):
    text = [f".version 8.0\n.target {target}\n.address_size 64"]
    for number, form in enumerate(forms):
        text.append(f""".visible .entry k{number}(.param .u64 p, .param .u32 n)
{{
.reg .u32 %r<10>; .reg .u64 %rd<3>; .reg .pred %p; ld.param.u64 %rd0, [p];
{index}
ld.global.u32 %r1, [%rd0]; ld.global.u32 %r2, [%rd0+4]; ld.global.u32 %r3, [%rd0+8];
{form}
st.global.u32 [%rd0+12], %r0; ret;
}}""")
    return "\n".join(text) + "\n"


def operands(seed):
    draw = np.random.default_rng(seed)
    corners = np.array([0, 1, 2, 31, 32, 33, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff,
                        0x80000000, 0x80000001, 0xffffffff, 0xfffffffe, 0xffffff80, 0xffff8000, 0x80808080,
                        0x7f7f7f7f, 0x00ff00ff, 0xff00ff00, 0x20202020, 0x1f1f1f1f], np.int64)

    def some(count):
        values = draw.integers(0, 1 << 32, count) >> draw.integers(0, 32, count)
        return np.where(draw.random(count) < 0.5, draw.choice(corners, count), values)

    a, b = (grid.ravel() for grid in np.meshgrid(corners, corners))
    a, b = np.concatenate([a, some(2000)]), np.concatenate([b, some(2000)])
    return a, b, some(len(a))


# ---- machine code ---------------------------------------------------------------------------------------

def assemble(forms, target, nvdisasm):
    """The code of each form, of one row."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/k.ptx", "w", encoding="utf-8") as file:
            file.write(module(forms, target, ""))
        subprocess.run(["ptxas", "-arch", target, f"{folder}/k.ptx", "-o", f"{folder}/k.cubin"], check=True)
        listing = subprocess.run([nvdisasm, "-c", f"{folder}/k.cubin"], check=True, stdout=subprocess.PIPE, text=True)
    codes, code = {}, None
    for line in listing.stdout.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.k(\d+)", line)
        found = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line)
        if section:
            code = codes.setdefault(int(section[1]), [])
        elif found and code is not None:
            code.append(found[1])
    return [codes[number] for number in range(len(forms))]


def signed(x):
    return (x & MASK ^ 0x80000000) - 0x80000000


class Lanes:
    """Registers and predicates of all lanes: a number in 0 to 2^32 - 1, in 64 bits."""

    def __init__(self, values):
        self.values, self.count = values, len(values[0])
        self.registers, self.predicates, self.result = {}, {}, None

    def predicate(self, name):
        value = self.predicates.get(name.lstrip("!"), np.ones(self.count, bool))
        return ~value if name[0] == "!" else value

    def operand(self, text):
        """Before it is cut to 32 bits: -0 is 2^32, which carries as x - 0 does not borrow."""
        text = text.replace(".reuse", "")
        name = text.lstrip("-~")
        if name[0] in "RU":
            value = self.registers.get(name, np.zeros(self.count, np.int64))
        elif name.startswith("c["):
            value = np.zeros(self.count, np.int64)  # addresses
        else:
            return np.full(self.count, int(text, 0) & MASK, np.int64)
        return (1 << 32) - value if text[0] == "-" else value ^ MASK if text[0] == "~" else value

    def word(self, text):
        return self.operand(text) & MASK

    def pair(self, text):
        name = text.replace(".reuse", "")
        if name in ("RZ", "URZ"):
            return np.zeros(self.count, np.uint64)
        high = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), name)
        return self.word(high).astype(np.uint64) << np.uint64(32) | self.word(name).astype(np.uint64)

    def put(self, name, value, guard):
        if name in ("RZ", "URZ"):
            return
        before = self.registers.get(name, np.zeros(self.count, np.int64))
        self.registers[name] = np.where(guard, value & MASK, before)

    def put_predicate(self, name, value, guard):
        if name not in ("PT", "UPT"):
            self.predicates[name] = np.where(guard, value, self.predicates.get(name, False))


def permute(lanes, o):
    parts = [lanes.word(o[1]) >> 8 * k & 255 for k in range(4)] + [lanes.word(o[3]) >> 8 * k & 255 for k in range(4)]
    parts, select, result = np.stack(parts), lanes.word(o[2]), 0
    for k in range(4):
        nibble = select >> 4 * k & 15
        part = parts[nibble & 7, np.arange(lanes.count)]
        result = result | np.where(nibble & 8, np.where(part & 128, 255, 0), part) << 8 * k
    return result


def logic(lanes, o):
    x, y, z, table = lanes.word(o[1]), lanes.word(o[2]), lanes.word(o[3]), int(o[4], 0)
    result = 0
    for k in range(8):
        if table >> k & 1:
            result = result | (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
    return result


def shift(lanes, kind, o):
    low, by, high = lanes.word(o[1]), lanes.word(o[2]), lanes.word(o[3])
    both = (high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)).astype(np.int64)
    if kind == "L.U32":
        return np.where(by > 31, 0, low << np.minimum(by, 31))
    if kind == "L.U64.HI":
        return (both.astype(np.uint64) << np.minimum(by, 63).astype(np.uint64)).astype(np.int64) >> 32
    if kind in ("R.S32.HI", "R.U32.HI"):
        return (signed(high) if kind == "R.S32.HI" else high) >> np.minimum(by, 32)
    if kind == "R.S64":
        return both >> np.minimum(by, 63)
    if kind == "R.U64":
        return (both.astype(np.uint64) >> np.minimum(by, 63).astype(np.uint64)).astype(np.int64)
    raise ValueError(kind)


def compare(lanes, words, o):
    x, y = lanes.word(o[2]), lanes.word(o[3])
    if "U32" not in words:
        x, y = signed(x), signed(y)
    equal, less, greater = x == y, x < y, x > y
    if "EX" in words:  # the upper words: the last operand is the result for the lower ones
        equal = equal & lanes.predicate(o[5])
    last = {"LT": less, "GT": greater, "LE": less | equal, "GE": greater | equal, "EQ": equal, "NE": ~equal}
    if "EX" in words:
        last.update(LT=less | equal, GT=greater | equal, NE=(x != y) | lanes.predicate(o[5]))
    return last[words[1]] & lanes.predicate(o[4])


def add(lanes, o, extended, guard):
    carries = [name for name in o[1:3] if name.lstrip("U")[0] == "P"]
    rest = o[1 + len(carries):]
    total = lanes.operand(rest[0]) + lanes.operand(rest[1]) + lanes.operand(rest[2])
    for name in rest[3:] if extended else []:
        total = total + lanes.predicate(name)
    lanes.put(o[0], total, guard)
    for k, name in enumerate(carries):
        lanes.put_predicate(name, total >> 32 > k, guard)


def step(lanes, line):
    found = re.match(r"(?:@(\S+) )?(\S+) ?(.*)", line)
    guard = lanes.predicate(found[1]) if found[1] else np.ones(lanes.count, bool)
    name, o = found[2], [text.strip() for text in found[3].split(",")]
    name = name[1:] if name[0] == "U" and name.split(".")[0] != "ULDC" else name
    words = name.split(".")
    if words[0] in ("LDC", "ULDC", "DC", "LDCU", "S2R", "S2UR", "NOP"):
        return
    if words[0] == "LDG":
        offset = re.search(r"\+0x([0-9a-f]+)\]", found[3])
        lanes.put(o[0], lanes.values[int(offset[1], 16) // 4 if offset else 0], guard)
    elif words[0] == "STG":
        lanes.result = lanes.word(o[1])
    elif name in ("IADD3", "IADD3.X"):
        add(lanes, o, name == "IADD3.X", guard)
    elif words[0] == "ISETP":
        lanes.put_predicate(o[0], compare(lanes, words, o), guard)
    elif name in ("IMAD.WIDE", "IMAD.WIDE.U32"):
        x, y = lanes.word(o[1]), lanes.word(o[2])
        x, y = (signed(x), signed(y)) if name == "IMAD.WIDE" else (x, y)
        total = x.astype(np.uint64) * y.astype(np.uint64) + lanes.pair(o[3])
        lanes.put(o[0], (total & np.uint64(MASK)).astype(np.int64), guard)
        lanes.put(re.sub(r"\d+", lambda number: str(int(number[0]) + 1), o[0]),
                  (total >> np.uint64(32)).astype(np.int64), guard)
    elif name == "LEA.HI.X.SX32" and o[3] == "0x1":
        lanes.put(o[0], (signed(lanes.word(o[1])) >> 31) + lanes.word(o[2]) + lanes.predicate(o[4]), guard)
    elif words[0] == "IMAD" and name in ("IMAD", "IMAD.MOV", "IMAD.MOV.U32", "IMAD.U32", "IMAD.IADD", "IMAD.SHL.U32",
                                         "IMAD.X"):
        product = (lanes.word(o[1]).astype(np.uint64) * lanes.word(o[2]).astype(np.uint64)) & np.uint64(MASK)
        carry = lanes.predicate(o[4]) if name == "IMAD.X" else 0
        lanes.put(o[0], product.astype(np.int64) + lanes.word(o[3]) + carry, guard)
    else:
        lanes.put(o[0], value_of(lanes, name, words, o), guard)


def value_of(lanes, name, words, o):
    """Instructions with one result and no carry."""
    if name == "PRMT":
        return permute(lanes, o)
    if name == "LOP3.LUT":
        return logic(lanes, o)
    if words[0] == "SHF":
        return shift(lanes, ".".join(words[1:]), o)
    if words[0] == "SEL":
        return np.where(lanes.predicate(o[3]), lanes.word(o[1]), lanes.word(o[2]))
    if words[0] == "MOV":
        return lanes.word(o[1])
    if words[0] == "VIADD":
        return lanes.word(o[1]) + lanes.word(o[2])
    if words[0] == "IABS":
        return np.abs(signed(lanes.word(o[1])))
    if words[0] == "I2I" and words[2:] == ["S32", "SAT"]:
        bits = int(words[1][1:]) - (words[1][0] == "S")
        least = -(1 << bits) if words[1][0] == "S" else 0
        return np.clip(signed(lanes.word(o[1])), least, (1 << bits) - 1)
    if name == "LEA.HI":
        both = lanes.word(o[3]).astype(np.uint64) << np.uint64(32) | lanes.word(o[1]).astype(np.uint64)
        return (both >> np.uint64(32 - int(o[4], 0))).astype(np.int64) + lanes.word(o[2])
    if name == "LEA.HI.SX32":
        return (signed(lanes.word(o[1])) >> 32 - int(o[3], 0)) + lanes.word(o[2])
    if words[0] in ("IMNMX", "VIMNMX"):
        x, y = lanes.word(o[1]), lanes.word(o[2])
        x, y = (x, y) if "U32" in words else (signed(x), signed(y))
        return np.where(lanes.predicate(o[3]), np.minimum(x, y), np.maximum(x, y))
    raise ValueError(name)


def compute(code, values):
    """The word that is stored. The code is straight."""
    lanes = Lanes(values)
    for line in code[:code.index("EXIT")]:
        step(lanes, line)
    return lanes.result


# ---- the emulator ---------------------------------------------------------------------------------------

class Emulator:
    def __init__(self, path):
        self.cuda = ctypes.CDLL(path)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            sys.exit(f"video_code.py: {name}: {result}")

    def run(self, forms, target, values):
        """The results of each form."""
        loaded, memory, results = ctypes.c_void_p(), ctypes.c_uint64(), []
        rows = np.zeros((len(values[0]), 4), np.uint32)
        for k, column in enumerate(values):
            rows[:, k] = column
        self.call("cuModuleLoadData", ctypes.byref(loaded), module(forms, target, INDEX).encode() + b"\0")
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(rows.nbytes))
        self.call("cuMemcpyHtoD_v2", memory, rows.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(rows.nbytes))
        for number in range(len(forms)):
            function, count = ctypes.c_void_p(), ctypes.c_uint32(len(rows))
            self.call("cuModuleGetFunction", ctypes.byref(function), loaded, f"k{number}".encode())
            arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(count))
            self.call("cuLaunchKernel", function, (len(rows) + 255) // 256, 1, 1, 256, 1, 1, 0, None, arguments, None)
            out = np.zeros_like(rows)
            self.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), memory, ctypes.c_size_t(rows.nbytes))
            results.append(out[:, 3].astype(np.int64))
        self.call("cuMemFree_v2", memory)
        self.call("cuModuleUnload", loaded)
        return results


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("libcuda")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, values, wrong = random.Random(options.seed), operands(options.seed), 0
    emulator = Emulator(options.libcuda)
    for first in range(0, options.count, 200):
        forms = [(scalar if draw.random() < 0.8 else simd)(draw) for _ in range(min(200, options.count - first))]
        got = emulator.run(forms, options.target, values)
        for form, code, result in zip(forms, assemble(forms, options.target, options.nvdisasm), got):
            expected = compute(code, values)
            different = np.nonzero(expected != result)[0]
            if len(different):
                k, wrong = different[0], wrong + 1
                print(f"{form} of {', '.join(hex(column[k]) for column in values)}: {hex(result[k])}, the code "
                      f"{hex(expected[k])}; {len(different)} operands")
    print(f"{options.count} forms of {len(values[0])} operands for {options.target}, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
