# SPDX-License-Identifier: MIT
"""What a rule's function computes with: symbols, of which a trace notes each operation. Some are numbers of
the whole step, some of a tensor, and the others of an element."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from . import _c
from .errors import InvalidError

OPS = {row[0]: getattr(_c, f"PTX_RULE_{row[0]}") for row in _c.TABLES["PTX_RULE_OPS"]}
OPERANDS = {row[0]: row[1].split("=")[1] for row in _c.TABLES["PTX_RULE_OPS"]}  # a letter each
NAMES = {code: name for name, code in OPS.items()}
_NEGATES = frozenset(("ADD", "SUB", "MUL", "FMA"))  # whose instructions take an operand's negative
_WHERE = {row[0]: int(row[2]) for row in _c.TABLES["PTX_RULE_OPS"]}
LEVELS = ("once", "sums", "update")  # each is known where those behind it are computed
_BITS = {"once": 1, "sums": 8, "update": 2}


class Op(NamedTuple):
    op: int
    x: int = 0
    y: int = 0
    z: int = 0
    number: float = 0.0


_GREATEST = float.fromhex("0x1.ffffffp127")  # what is below rounds to an f32, to nearest


class Numbers(Tuple[Any, ...]):
    """Several values under one name, such as betas."""

    name: str

    @staticmethod
    def of(name: str, values: Sequence[Any]) -> "Numbers":
        made = Numbers(values)
        made.name = name
        return made

    def __getitem__(self, k: Any) -> Any:
        if hasattr(k, "__index__") and not -len(self) <= k < len(self):
            raise InvalidError(f"{self.name}[{k}]: {self.name} has {len(self)} number{'s' * (len(self) != 1)}, {self.listed()}")
        return super().__getitem__(k)

    def listed(self) -> str:
        return f"{self.name}[0]{f' to {self.name}[{len(self) - 1}]' if len(self) > 1 else ' alone'}"


def number(x: Any, of: str = "") -> float:
    """x as a number. of: whose it is, for an error."""
    if isinstance(x, Numbers):
        raise InvalidError(f"{x.name} where a number is needed: it is {len(x)} number{'s' * (len(x) != 1)}, {x.listed()}")
    try:
        if isinstance(x, (str, bytes)):  # float() would read it
            raise TypeError
        return float(x)
    except (TypeError, ValueError, OverflowError):
        raise InvalidError(f"{of}: a number is needed, not {x!r:.80}" if of else
                           f"a number or a traced value is needed, not {x!r:.80}") from None


def _one(x: Any) -> Any:
    """What stands beside a traced value: tensors and arrays are no numbers, also those of one number."""
    if hasattr(x, "data_ptr"):
        raise InvalidError("a tensor beside a traced value: float(x) is a tensor's number")
    if getattr(x, "ndim", 0):
        raise InvalidError(f"a number or a traced value is needed, not {x!r:.80}")
    return x


class Trace:
    """The lists of a program while the function runs, by level."""

    def __init__(self) -> None:
        self.lists: Dict[str, List[Op]] = {level: [] for level in LEVELS}
        self.coefficients: Dict[Tuple[str, int], int] = {}  # by level and place there
        self.chosen: Dict[Tuple[str, int], "Value"] = {}  # 1 or 0 for a comparison, likewise
        self.known: Dict[Tuple[Any, ...], int] = {}  # the operations of `once`: each is computed once

    def add(self, level: str, op: str, *operands: int, number: float = 0.0, predicate: bool = False) -> "Value":
        ops = self.lists[level]
        x, y, z = (*operands, 0, 0, 0)[:3]
        at = len(ops)
        if level == "once":
            at = self.known.setdefault((op, x, y, z, number.hex()), at)
        if at == len(ops):
            ops.append(Op(OPS[op], x, y, z, number))
        return Value(self, level, at, op, predicate)

    def coefficient(self, value: "Value", level: str) -> "Value":
        """A value at a later level."""
        at = value.level, value.at
        if value.predicate:
            if at not in self.chosen:
                self.chosen[at] = self.add(value.level, "SELECT", value.at, self.lift(1.0, value.level).at,
                                           self.lift(0.0, value.level).at)
            found = self.coefficient(self.chosen[at], level)
            return self.add(level, "NE", found.at, self.lift(0.0, level).at, predicate=True)
        return self.add(level, "COEFFICIENT", self.coefficients.setdefault(at, len(self.coefficients)))

    def lift(self, x: Any, level: str) -> "Value":
        """A number or a value at a level."""
        if not isinstance(x, Value):
            x = _one(x)
            if level == "update" and _GREATEST <= abs(number(x)) < math.inf:
                raise InvalidError(f"the constant {x!r:.80} beside an element, which is f32: magnitudes go up to 3.4e38")
            return self.add(level, "NUMBER", number=number(x))
        if x.trace is not self:
            raise InvalidError("a value of another rule's trace: a rule keeps nothing from call to call")
        if x.level == level:
            return x
        if LEVELS.index(x.level) > LEVELS.index(level):
            raise InvalidError(f"a value of {'an element' if x.level == 'update' else 'a tensor'} where one of the "
                               "whole step is needed: clock states and the base of ** depend on scalars and t alone")
        return self.coefficient(x, level)

    def beside(self, op: str, x: Any, level: str) -> "Value":
        """An operand. A negative one of an earlier level is negated here, which takes no instruction there: the number
        itself meets elements, too, and rows of coefficients stay short."""
        if op not in _NEGATES or not isinstance(x, Value) or x.trace is not self or x.level == level or x.op != "NEG":
            return self.lift(x, level)
        at = self.lists[x.level][x.at].x
        positive = Value(self, x.level, at, NAMES[self.lists[x.level][at].op], False)
        return self.add(level, "NEG", self.beside(op, positive, level).at)

    def apply(self, op: str, *operands: Any, predicate: bool = False, wants: Sequence[bool] = ()) -> "Value":
        level = max((x.level for x in operands if isinstance(x, Value)), key=LEVELS.index)
        if not _WHERE[op] & _BITS[level]:
            raise InvalidError(f"{op.lower()} of a number of the whole step or of a sum: there is {op.lower()} of "
                               "elements alone; compute constants with Python's math")
        lifted = [self.beside(op, x, level) for x in operands]
        for x, wanted in zip(lifted, wants or [False] * len(lifted)):
            if x.predicate != wanted:
                raise InvalidError(f"{op}: a {'comparison' if x.predicate else 'number'} where a "
                                   f"{'comparison' if wanted else 'number'} is needed; ptxgen.where(a < b, x, y) chooses")
        return self.add(level, op, *[x.at for x in lifted], predicate=predicate)


def cut(ops: List[Op], ends: Sequence[Op]) -> Tuple[Op, ...]:
    """The operations that the ends need, in their order, then the ends."""
    needed = {operand for op in ends for operand in _results(op)}
    for k in range(len(ops) - 1, -1, -1):
        if k in needed:
            needed.update(_results(ops[k]))
    places = {k: place for place, k in enumerate(sorted(needed))}
    return tuple(op._replace(**{field: places[getattr(op, field)] for field in _fields(op)})
                 for op in (*(ops[k] for k in sorted(needed)), *ends))


def _fields(op: Op) -> List[str]:
    """Which operands are the results of others."""
    return [field for kind, field in zip(OPERANDS[NAMES[op.op]], "xyz") if kind in "vp"]


def _results(op: Op) -> List[int]:
    return [getattr(op, field) for field in _fields(op)]


def _refuse(what: str, remedy: str) -> Any:
    def refused(self: Any, *unused: Any) -> Any:
        raise InvalidError(f"{what} of a traced value: {remedy}")
    return refused


def _binary(op: str, swapped: bool = False, predicate: bool = False) -> Any:
    def made(self: "Value", other: Any) -> "Value":
        pair = (other, self) if swapped else (self, other)
        return self.trace.apply(op, *pair, predicate=predicate)
    return made


def _logic(op: str) -> Any:
    def made(self: "Value", other: Any) -> "Value":
        if not isinstance(other, Value):
            raise InvalidError(f"{op}: a comparison is needed, not {other!r:.80}")
        return self.trace.apply(op, self, other, predicate=True, wants=(True, True))
    return made


# What numpy's numbers call in front of an operator. Others of its functions have other names here.
_OPERATORS: Dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "power": operator.pow, "floor_divide": operator.floordiv, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne}
_OURS = {"absolute": "abs", "fabs": "abs", "fmax": "ptxgen.maximum", "fmin": "ptxgen.minimum", "max": "ptxgen.maximum",
         "min": "ptxgen.minimum", "float_power": "ptxgen.pow", "clip": "ptxgen.minimum and ptxgen.maximum",
         "clamp": "ptxgen.minimum and ptxgen.maximum"}


# What adds up a tensor, or asks for its size.
_OF_TENSORS = frozenset(("norm", "vector_norm", "linalg_norm", "linalg_vector_norm", "mean", "sum", "std", "var", "dot",
                         "numel", "size", "shape"))
_SUMS = "a rule sees one element; sums over its tensor are terms of reduce=, which apply= gets as sums"


def _refuse_call(package: str, name: str) -> Any:
    if name in _OF_TENSORS:
        raise InvalidError(f"{package}.{name} of a traced value: {_SUMS}")
    own = "abs" if name == "abs" else _OURS.get(name) or (f"ptxgen.{name}" if name in CALLS else "")
    raise InvalidError(f"{package}.{name} of a traced value: " + (
        f"write {own}" if own else f"a rule has its own functions, {', '.join(f'ptxgen.{one}' for one in sorted(CALLS))}"))


class Value:
    """A symbol: a number that a rule computes with, or a comparison."""

    __slots__ = ("trace", "level", "at", "op", "predicate")

    def __init__(self, trace: Trace, level: str, at: int, op: str, predicate: bool) -> None:
        self.trace, self.level, self.at, self.op, self.predicate = trace, level, at, op, predicate

    __add__, __radd__ = _binary("ADD"), _binary("ADD", True)
    __sub__, __rsub__ = _binary("SUB"), _binary("SUB", True)
    __mul__, __rmul__ = _binary("MUL"), _binary("MUL", True)
    __truediv__, __rtruediv__ = _binary("DIV"), _binary("DIV", True)
    __lt__, __le__ = _binary("LT", predicate=True), _binary("LE", predicate=True)
    __gt__, __ge__ = _binary("GT", predicate=True), _binary("GE", predicate=True)
    __eq__, __ne__ = _binary("EQ", predicate=True), _binary("NE", predicate=True)
    __and__ = __rand__ = _logic("AND")
    __or__ = __ror__ = _logic("OR")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _OF_TENSORS:
            raise InvalidError(f".{name} of a traced value: {_SUMS}")
        raise InvalidError(f".{name} of a traced value: it is one number without methods; write ptxgen.sqrt(x), "
                           "ptxgen.maximum(x, 0) and the like")

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **unused: Any) -> Any:
        if method == "__call__" and function.__name__ in _OPERATORS:
            x, y = [one if isinstance(one, Value) else number(_one(one)) for one in operands]
            return _OPERATORS[function.__name__](x, y)
        return _refuse_call("numpy", function.__name__)

    def __array_function__(self, function: Any, *unused: Any) -> Any:
        return _refuse_call("numpy", function.__name__)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, operands: Any = (), named: Any = None) -> Any:
        for one in operands:
            if not isinstance(one, cls):
                _one(one)
        return _refuse_call("torch", function.__name__)

    def __repr__(self) -> str:
        return "<traced comparison>" if self.predicate else "<traced value>"

    def __invert__(self) -> "Value":
        return self.trace.apply("NOT", self, predicate=True, wants=(True,))

    def __neg__(self) -> "Value":
        return self.trace.apply("NEG", self)

    def __pos__(self) -> "Value":
        return self

    def __abs__(self) -> "Value":
        return self.trace.apply("ABS", self)

    def __pow__(self, exponent: Any) -> "Value":
        if isinstance(exponent, Value) and exponent.op == "T":
            return self.trace.add("once", "POWER", self.trace.lift(self, "once").at)
        if not isinstance(exponent, Value) and exponent == 2:
            return self.trace.apply("MUL", self, self)
        raise InvalidError(f"** {'of a traced value' if isinstance(exponent, Value) else repr(exponent)}: there are "
                           "x ** t, with the step number itself, and x ** 2; ptxgen.sqrt(x) is a root, ptxgen.pow(x, y) "
                           "any power")

    def __rpow__(self, base: Any) -> "Value":
        return self.trace.lift(base, "once") ** self

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else _refuse("a format", "it has no value yet")(self)

    __bool__ = _refuse("`if`, `while`, `and`, `or`, `not`, a chain of comparisons, max() or min()",
                       "it has no value yet; ptxgen.where(a < b, x, y) chooses, & | ~ combine comparisons, "
                       "ptxgen.maximum(x, y) and ptxgen.minimum(x, y) are for max() and min()")
    __floordiv__ = __rfloordiv__ = _refuse("integer division", "write / or multiply")
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse("a remainder", "there is none")
    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _refuse(
        "a number", "it has no value yet, for range() or int() or float(); ptxgen.exp(x) and the like are for it, math's "
        "functions for constants")
    __matmul__ = __rmatmul__ = _refuse("a product of matrices", "it is one number; ptxgen.torch.Muon multiplies matrices")
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse(
        "^, << or >>", "there are no integers; & | ~ combine comparisons")
    __hash__ = _refuse("a member of a set or a key of a dict", "it has no value yet; return values as a tuple")
    __iter__ = __len__ = _refuse("a sequence", f"it is one number, and betas is a tuple; {_SUMS}")
    __getitem__ = _refuse("an index", "it is one number: neighbours and rows are out of reach")
    __setitem__ = __delitem__ = _refuse("a store", "a rule stores nothing: return the new parameter and states")


def _of(*operands: Any) -> Trace:
    for x in operands:
        if isinstance(x, Value):
            return x.trace
    raise InvalidError("none of the arguments is a traced value: compute numbers with Python's math")


def fma(x: Any, y: Any, z: Any) -> Value:
    """x * y + z, rounded once."""
    return _of(x, y, z).apply("FMA", x, y, z)


def sqrt(x: Any) -> Value:
    """The root."""
    return _of(x).apply("SQRT", x)


def minimum(x: Any, y: Any) -> Value:
    """The smaller; of NaN and a number the number."""
    return _of(x, y).apply("MIN", x, y)


def maximum(x: Any, y: Any) -> Value:
    """The greater; of NaN and a number the number."""
    return _of(x, y).apply("MAX", x, y)


def f32(x: Any) -> Value:
    """A value of the whole step, rounded to f32. On elements each operation is rounded anyway."""
    trace = _of(x)
    return x if x.level == "update" else trace.apply("F32", x)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y. Both are computed."""
    if not isinstance(condition, Value):
        return x if condition else y  # an option's
    return condition.trace.apply("SELECT", condition, x, y, wants=(True, False, False))


def sign(x: Any) -> Value:
    """1, -1, or 0 for zeros and NaN."""
    return where(x > 0, 1.0, where(x < 0, -1.0, 0.0))  # type: ignore[no-any-return]


# ---- those of <ptxgen/math.h>; exp, log and pow in f64, too


def pow(x: Any, y: Any) -> Value:
    """x^y."""
    return _of(x, y).apply("POW", x, y)


def exp(x: Any) -> Value:
    """e^x."""
    return _of(x).apply("EXP", x)


def exp2(x: Any) -> Value:
    """2^x, of elements."""
    return _of(x).apply("EXP2", x)


def expm1(x: Any) -> Value:
    """e^x - 1, of elements."""
    return _of(x).apply("EXPM1", x)


def log(x: Any) -> Value:
    """The natural logarithm."""
    return _of(x).apply("LOG", x)


def log2(x: Any) -> Value:
    """The logarithm to base 2, of elements."""
    return _of(x).apply("LOG2", x)


def log1p(x: Any) -> Value:
    """log(1 + x), of elements."""
    return _of(x).apply("LOG1P", x)


def sin(x: Any) -> Value:
    """The sine of radians, of elements."""
    return _of(x).apply("SIN", x)


def cos(x: Any) -> Value:
    """The cosine of radians, of elements."""
    return _of(x).apply("COS", x)


def tanh(x: Any) -> Value:
    """The hyperbolic tangent, of elements."""
    return _of(x).apply("TANH", x)


def sigmoid(x: Any) -> Value:
    """1 / (1 + e^-x), of elements."""
    return _of(x).apply("SIGMOID", x)


def erf(x: Any) -> Value:
    """The error function, of elements."""
    return _of(x).apply("ERF", x)


def erfc(x: Any) -> Value:
    """1 - erf(x), of elements."""
    return _of(x).apply("ERFC", x)


def rsqrt(x: Any) -> Value:
    """1 / sqrt(x), of elements."""
    return _of(x).apply("RSQRT", x)


CALLS = frozenset(("fma", "sqrt", "minimum", "maximum", "where", "sign", "pow", "exp", "exp2", "expm1", "log", "log2", "log1p",
                   "sin", "cos", "tanh", "sigmoid", "erf", "erfc", "rsqrt"))
