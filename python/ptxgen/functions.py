# SPDX-License-Identifier: MIT
"""What operations of rules compute, in numpy. Of the functions of <ptxgen/math.h> the library writes the
instructions for f32, and a few lines here run these: the same sequence has the same bits. Those of f64 it gives as a
list of operations."""

from __future__ import annotations

import ctypes
import functools
import math
import re
from fractions import Fraction
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from . import _c
from ._library import Handle, c, checked, finish_text
from .symbols import NAMES, OPERANDS, OPS, Op

FUNCTIONS = ("EXP", "EXP2", "EXPM1", "LOG", "LOG2", "LOG1P", "SIN", "COS", "TANH", "SIGMOID", "ERF", "ERFC", "RSQRT", "POW")


# ---- instructions that numpy lacks


def limit(np: Any, x: Any, y: Any, kind: Any, least: bool) -> Any:
    """As PTX: of NaN and a number the number, and -0 is below +0."""
    x, y = np.broadcast_arrays(np.asarray(x, kind), np.asarray(y, kind))
    first = np.where(x == y, np.signbit(x) == least, (x < y) == least)
    return np.where(np.isnan(x), y, np.where(np.isnan(y) | first, x, y)).astype(kind)


def fma(np: Any, x: Any, y: Any, z: Any, kind: Any) -> Any:
    """x * y + z, rounded once. Arrays of f64, which exact references alone have, are rounded twice."""
    if kind is np.float32:
        return fma32(np, x, y, z)
    return x * y + z if np.ndim(x) or np.ndim(y) or np.ndim(z) else _fma64(np, x, y, z)


def fma32(np: Any, x: Any, y: Any, z: Any) -> Any:
    """The product of two f32 is exact in f64. Its sum with z is rounded to odd, so that the rounding to
    f32 is the only one that counts."""
    product, z = np.asarray(x, np.float64) * np.asarray(y, np.float64), np.asarray(z, np.float64)
    total = product + z
    other = total - product
    rest = (product - (total - other)) + (z - other)
    bits = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (rest != 0) & (bits & 1 == 0)
    away = (rest > 0) == (total > 0)  # from 0
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64).astype(np.float32)


def _fma64(np: Any, x: Any, y: Any, z: Any) -> Any:
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        return x * y + z
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    try:
        return np.float64(float(exact)) if exact else x * y + z
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


# ---- the library's text


class _Instruction(NamedTuple):
    name: str  # "fma", or "bra", or "" for a label
    types: Tuple[str, ...]  # "f32"; the last of them is that of operands
    modes: Tuple[str, ...]  # "hi", "rzi", "gt"
    guard: str  # "!%p1"
    operands: Tuple[str, ...]


@functools.lru_cache(maxsize=None)
def _text(name: str) -> List[_Instruction]:
    """The instructions of a function of p, or p and g, which leave its result in the last one's operand."""
    ops = [Op(OPS["P"]), Op(OPS["G"]), Op(OPS[name], 0, 1), Op(OPS["SET_P"], 2)]
    listed = (_c.ptx_rule_operation * len(ops))(*[_c.ptx_rule_operation(*op) for op in ops])
    program = _c.ptx_rule_program(update=ctypes.addressof(listed), update_count=len(ops))
    params = _c.ptx_rule_params(name=b"function", program=ctypes.addressof(program))
    rule = Handle(checked(c.ptx_rule_create(ctypes.byref(params))), c.ptx_rule_destroy)
    text = finish_text(lambda builder: c.ptx_rule_emit(builder, rule.value), None)
    own = text[text.index("// once"):]
    own = own[:own.index("st.global.f32")] + own[own.index("st.global.f32"):].split("\n")[0]
    return [_parsed(line) for line in re.sub("//.*", "", own).split("\n") if line.strip()]


def _parsed(line: str) -> _Instruction:
    guard, name, rest = re.fullmatch(r"\s*(@\S+)?\s*(\S+)(.*)", line).groups()  # type: ignore[union-attr]
    if name.endswith(":"):
        return _Instruction("", (), (), "", (name[:-1],))
    name, *parts = name.rstrip(";").split(".")
    types = tuple(part for part in parts if re.fullmatch("[fsub](32|64)|pred", part))
    return _Instruction(name, types, tuple(part for part in parts if part not in types), (guard or "@")[1:],
                        tuple(re.findall(r"[^][{}\s,;]+", rest)))


class _Run:
    """The registers of all lanes, as bits."""

    def __init__(self, np: Any, lanes: int) -> None:
        self.np, self.lanes = np, lanes
        self.registers: Dict[str, Any] = {}
        self.active = np.ones(lanes, bool)  # the others have jumped
        self.outside: Dict[str, Any] = {}  # by the label where they wait

    def read(self, word: str, kind: str) -> Any:
        np = self.np
        if kind == "pred":
            return self.registers[word]
        size = 64 if kind.endswith("64") else 32
        bits = getattr(np, f"uint{size}")
        if word.startswith("%"):
            found = self.registers[word]
        elif word.startswith("0f"):
            found = np.full(self.lanes, int(word[2:], 16), bits)
        else:
            found = np.full(self.lanes, int(word, 0) % (1 << size), bits)
        return found.view({"f": f"float{size}", "s": f"int{size}"}.get(kind[0], f"uint{size}"))

    def write(self, word: str, value: Any, kind: str) -> None:
        np = self.np
        if kind != "pred":
            value = np.ascontiguousarray(value).view(np.uint64 if kind.endswith("64") else np.uint32)
        before = self.registers.get(word)
        self.registers[word] = value if before is None else np.where(self.active, value, before)

    def step(self, one: _Instruction) -> None:
        if not one.name:  # a label
            self.active = self.active | self.outside.pop(one.operands[0], False)
            return
        if one.name == "bra":
            taken = self.active
            if one.guard:
                asked = self.registers[one.guard.lstrip("!")]
                taken = taken & (~asked if one.guard[0] == "!" else asked)
            self.outside[one.operands[0]] = self.outside.get(one.operands[0], False) | taken
            self.active = self.active & ~taken
            return
        if one.name == "mov" and len(one.operands) == 3:  # {low, high}, both
            whole = self.read(one.operands[2], "b64")
            self.write(one.operands[0], (whole & 0xffffffff).astype(self.np.uint32), "b32")
            self.write(one.operands[1], (whole >> self.np.uint64(32)).astype(self.np.uint32), "b32")
            return
        kinds = self.kinds(one)
        x = [self.read(word, kind) for word, kind in zip(one.operands[1:], kinds[1:])]
        self.write(one.operands[0], self.computed(one, x, kinds), kinds[0])

    @staticmethod
    def kinds(one: _Instruction) -> List[str]:
        """Of the result and of the operands."""
        kind, count = one.types[-1], len(one.operands) - 1
        if one.name == "setp":
            return ["pred"] + [kind] * count
        if one.name == "selp":
            return [kind, kind, kind, "pred"]
        if one.name == "cvt":
            return [one.types[0], kind]
        if "wide" in one.modes:
            wide = kind[0] + "64"
            return [wide, kind, kind, wide][:count + 1]
        return [kind] * (count + 1)

    def computed(self, one: _Instruction, x: List[Any], kinds: List[str]) -> Any:
        np, kind = self.np, kinds[1]
        if one.name == "setp":
            return {"gt": np.greater, "lt": np.less, "ge": np.greater_equal, "le": np.less_equal, "eq": np.equal,
                    "ne": np.not_equal}[one.modes[0]](x[0], x[1]) & self._ordered(one, x)
        if one.name == "cvt":
            return self._converted(one, x[0], kinds)
        if kind[0] == "f" and one.name in ("min", "max"):
            return limit(np, x[0], x[1], x[0].dtype.type, one.name == "min")
        if kind[0] == "f" and one.name == "fma":
            return fma(np, x[0], x[1], x[2], x[0].dtype.type)
        return _CALLS[one.name](np, one.modes, *x)

    def _ordered(self, one: _Instruction, x: List[Any]) -> Any:
        """setp.ne of NaN is false, where numpy says that they differ."""
        is_ne = one.modes[0] == "ne" and x[0].dtype.kind == "f"
        return ~(self.np.isnan(x[0]) | self.np.isnan(x[1])) if is_ne else True

    def _converted(self, one: _Instruction, x: Any, kinds: List[str]) -> Any:
        np = self.np
        if kinds[0][0] == "f" and "rzi" in one.modes:
            return np.trunc(x)
        dtype = {"f": "float", "s": "int"}.get(kinds[0][0], "uint") + kinds[0][1:]
        return (np.trunc(x) if x.dtype.kind == "f" and kinds[0][0] != "f" else x).astype(dtype)


def _shifted_in(np: Any, modes: Sequence[str], low: Any, high: Any, count: Any) -> Any:
    """shf.l.clamp: the upper half of high:low moved up."""
    count = np.minimum(count, 32).astype(np.uint64)
    whole = (high.astype(np.uint64) << np.uint64(32)) | low
    return (whole << count >> np.uint64(32)).astype(np.uint32)


def _product(np: Any, modes: Sequence[str], x: Any, y: Any, z: Any = None) -> Any:
    if x.dtype.kind == "f" or not modes or modes[0] == "lo":
        return x * y if z is None else x * y + z
    wide = x.astype("int64" if x.dtype.kind == "i" else "uint64") * y
    if modes[0] == "wide":
        return wide if z is None else wide + z
    return (wide >> np.uint64(32)).astype(np.uint32)


def _leading(np: Any, modes: Sequence[str], x: Any) -> Any:
    return (32 - np.frexp(x.astype(np.float64))[1]).astype(np.uint32)


_CALLS: Dict[str, Callable[..., Any]] = {
    "add": lambda np, m, x, y: x + y, "sub": lambda np, m, x, y: x - y, "mul": _product, "mad": _product,
    "div": lambda np, m, x, y: x / y, "rcp": lambda np, m, x: 1 / x, "sqrt": lambda np, m, x: np.sqrt(x),
    "neg": lambda np, m, x: -x, "abs": lambda np, m, x: np.abs(x), "mov": lambda np, m, x: x,
    "min": lambda np, m, x, y: np.minimum(x, y), "max": lambda np, m, x, y: np.maximum(x, y),
    "and": lambda np, m, x, y: x & y, "or": lambda np, m, x, y: x | y, "xor": lambda np, m, x, y: x ^ y,
    "not": lambda np, m, x: ~x, "shl": lambda np, m, x, y: x << y, "shr": lambda np, m, x, y: x >> y,
    "shf": _shifted_in, "clz": _leading, "selp": lambda np, m, x, y, which: np.where(which, x, y)}


def _run32(np: Any, name: str, operands: Sequence[Any]) -> Any:
    x = np.broadcast_arrays(*[np.asarray(one, np.float32) for one in operands])
    run = _Run(np, x[0].size)
    loads = iter([one.ravel() for one in (*x, x[0])])  # p, g
    with np.errstate(all="ignore"):
        for one in _text(name):
            if one.name == "ld":
                run.write(one.operands[0], next(loads), "f32")
            elif one.name == "st":
                return run.read(one.operands[1], "f32").reshape(x[0].shape)
            elif one.name != "mad" or "wide" not in one.modes or not one.operands[3].startswith("%rd") or (
                    one.operands[3] in run.registers):  # else an address
                run.step(one)
    raise AssertionError(f"the text of {name} has no end")


# ---- functions


def result(np: Any, name: str, operands: Sequence[Any], kind: Any) -> Any:
    """What the library computes, of f32 or, for EXP, LOG and POW, of one f64."""
    return _run32(np, name, operands) if kind is np.float32 else _run64(np, name, operands)


def in_f64(np: Any, name: str, operands: Sequence[Any]) -> Any:
    """The same in f64, from numpy and math."""
    x = operands[0]
    simple: Dict[str, Callable[[], Any]] = {
        "SIGMOID": lambda: 1 / (1 + np.exp(-x)), "RSQRT": lambda: 1 / np.sqrt(x), "POW": lambda: np.power(x, operands[1]),
        "ERF": lambda: np.vectorize(math.erf, otypes=[float])(x), "ERFC": lambda: np.vectorize(math.erfc, otypes=[float])(x)}
    return simple[name]() if name in simple else getattr(np, name.lower())(x)


@functools.lru_cache(maxsize=None)
def _list(name: str) -> Tuple[Op, ...]:
    count = c.ptx_rule_function(OPS[name], None, 0)
    made = (_c.ptx_rule_operation * count)()
    c.ptx_rule_function(OPS[name], made, count)
    return tuple(Op(op.op, op.x, op.y, op.z, op.number) for op in made)


def _run64(np: Any, name: str, operands: Sequence[Any]) -> Any:
    found: List[Any] = []
    with np.errstate(all="ignore"):
        for op in _list(name):
            found.append(_step64(np, op, found, operands))
    return found[-1]


def _step64(np: Any, op: Op, found: List[Any], operands: Sequence[Any]) -> Any:
    name = NAMES[op.op]
    if name == "ARGUMENT":
        return np.float64(operands[op.x])
    if name not in ("TRUNC", "EXPONENT", "SIGNIFICAND", "POWER_OF_2"):
        return computed(np, op, found, np.float64, False)
    x = found[op.x]
    bits = np.asarray(x, np.float64).view(np.uint64)
    if name == "TRUNC":
        return np.trunc(x)
    if name == "EXPONENT":
        return np.float64(int(bits) >> 52 & 0x7ff) - 1023
    if name == "SIGNIFICAND":
        made = int(bits) & (1 << 52) - 1 | 0x3ff << 52
    else:
        made = int(np.float64(x + (1.5 * 2.0 ** 52 + 1023)).view(np.uint64)) << 52 & (1 << 64) - 1
    return np.uint64(made).view(np.float64)


# ---- operations of rules


def computed(np: Any, op: Op, found: List[Any], kind: Any, exact: bool) -> Any:
    """What an operation gives that computes. exact: functions of mathematics in f64."""
    name = NAMES[op.op]
    if name == "NUMBER":
        return kind(op.number)
    operands: List[Any] = [found[k] if k < len(found) else None for k in (op.x, op.y, op.z)]
    x, y, z = operands
    if name == "FMA":
        return fma(np, x, y, z, kind)
    if name in ("MIN", "MAX"):
        return limit(np, x, y, kind, name == "MIN")
    if name in FUNCTIONS:
        operands = operands[:len(OPERANDS[name])]
        return in_f64(np, name, operands) if exact else result(np, name, operands, kind)
    simple: Dict[str, Callable[[], Any]] = {
        "ADD": lambda: x + y, "SUB": lambda: x - y, "MUL": lambda: x * y, "DIV": lambda: x / y,
        "SQRT": lambda: np.sqrt(x), "NEG": lambda: -x, "ABS": lambda: np.abs(x), "LT": lambda: x < y,
        "LE": lambda: x <= y, "GT": lambda: x > y, "GE": lambda: x >= y, "EQ": lambda: x == y,
        "NE": lambda: x != y, "AND": lambda: x & y, "OR": lambda: x | y, "NOT": lambda: np.logical_not(x),
        "SELECT": lambda: np.where(x, y, z)}
    made = simple[name]()
    return made if made.dtype == bool else made.astype(kind)
