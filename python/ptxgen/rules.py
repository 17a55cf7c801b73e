# SPDX-License-Identifier: MIT
"""Optimizers' rules written in Python: a function is called once with symbols, and what it does with
them becomes a program of <ptxgen/rule.h>. docs/rules.md is the guide."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import inspect
import math
import re
import threading
from fractions import Fraction
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _c
from ._library import Handle, Object, c, checked, choice, finish_text
from .errors import InvalidError

_OPS = {row[0]: getattr(_c, f"PTX_RULE_{row[0]}") for row in _c.TABLES["PTX_RULE_OPS"]}
_OPERANDS = {row[0]: row[1].split("=")[1] for row in _c.TABLES["PTX_RULE_OPS"]}  # a letter each
_NAMES = {code: name for name, code in _OPS.items()}
_KINDS = {"signed": _c.PTX_RULE_SIGNED, "positive": _c.PTX_RULE_POSITIVE, "weight": _c.PTX_RULE_WEIGHT}
_RANGES = {"finite": _c.PTX_RULE_RANGE_FINITE, "at_least_0": _c.PTX_RULE_RANGE_AT_LEAST_0,
           "below_1": _c.PTX_RULE_RANGE_BELOW_1, "up_to_1": _c.PTX_RULE_RANGE_UP_TO_1}
_WITHIN: Dict[str, Tuple[Callable[[float], bool], str]] = {
    "finite": (math.isfinite, "finite in f32"),
    "at_least_0": (lambda x: 0 <= x < math.inf, "finite in f32, and 0 or more"),
    "below_1": (lambda x: 0 <= x < 1, "0 or more, and below 1 when rounded to f32"),
    "up_to_1": (lambda x: 0 <= x <= 1, "from 0 to 1")}
_NOT_NEGATIVE = ("lr", "eps", "weight_decay", "momentum")
# What torch and ptxgen.torch have in groups and states.
_RESERVED = frozenset(("params", "param_names", "maximize", "foreach", "fused", "capturable", "differentiable",
                       "step", "clock", "master", "remainder", "ema", "ema_decay", "state_dtype", "max_grad_norm",
                       "seed", "process_group", "guards", "obey", "reports", "ema_dtype", "fp8", "initial_lr", "rule"))


class State(NamedTuple):
    """An array beside the parameter. kind: "signed", "positive" (never below 0) or "weight" (as precise as
    a parameter; not in 8 bits and scaled f16). stochastic: how formats with random bits round it; None: as
    its kind, "signed" to nearest. start: 0, or "p" for the parameter before the first step."""

    kind: str
    stochastic: Optional[bool] = None
    start: Any = 0


class Scalar(NamedTuple):
    """A scalar with a range of its own: "finite", "at_least_0", "below_1" or "up_to_1"."""

    default: float
    range: str = "finite"


class _Op(NamedTuple):
    op: int
    x: int = 0
    y: int = 0
    z: int = 0
    number: float = 0.0


def _number(x: Any) -> float:
    try:
        if isinstance(x, (str, bytes)):  # float() would read it
            raise TypeError
        return float(x)
    except (TypeError, ValueError):
        raise InvalidError(f"a number or a traced value is needed, not {x!r:.80}") from None


class _Trace:
    """The two lists of a program while the function runs."""

    def __init__(self) -> None:
        self.lists: Dict[str, List[_Op]] = {"once": [], "update": []}
        self.coefficients: Dict[int, int] = {}  # by the place in `once`
        self.chosen: Dict[int, "Value"] = {}  # 1 or 0 for a comparison, likewise

    def add(self, level: str, op: str, *operands: int, number: float = 0.0, predicate: bool = False) -> "Value":
        ops = self.lists[level]
        x, y, z = (*operands, 0, 0, 0)[:3]
        ops.append(_Op(_OPS[op], x, y, z, number))
        return Value(self, level, len(ops) - 1, op, predicate)

    def coefficient(self, value: "Value") -> "Value":
        """A value of `once` where elements are."""
        if value.predicate:
            if value.at not in self.chosen:
                self.chosen[value.at] = self.add("once", "SELECT", value.at, self.lift(1.0, "once").at,
                                                 self.lift(0.0, "once").at)
            number = self.coefficient(self.chosen[value.at])
            return self.add("update", "NE", number.at, self.lift(0.0, "update").at, predicate=True)
        k = self.coefficients.setdefault(value.at, len(self.coefficients))
        return self.add("update", "COEFFICIENT", k)

    def lift(self, x: Any, level: str) -> "Value":
        """A number or a value at a level."""
        if not isinstance(x, Value):
            return self.add(level, "NUMBER", number=_number(x))
        if x.trace is not self:
            raise InvalidError("a value of another rule's trace: a rule keeps nothing from call to call")
        if x.level == level:
            return x
        if level == "once":
            raise InvalidError("a value of an element where one of the whole step is needed: clock states and the "
                               "base of ** depend on scalars and t alone")
        return self.coefficient(x)

    def apply(self, op: str, *operands: Any, predicate: bool = False, wants: Sequence[bool] = ()) -> "Value":
        level = "update" if any(isinstance(x, Value) and x.level == "update" for x in operands) else "once"
        lifted = [self.lift(x, level) for x in operands]
        for x, wanted in zip(lifted, wants or [False] * len(lifted)):
            if x.predicate != wanted:
                raise InvalidError(f"{op}: a {'comparison' if x.predicate else 'number'} where a "
                                   f"{'comparison' if wanted else 'number'} is needed; ptxgen.where(a < b, x, y) chooses")
        return self.add(level, op, *[x.at for x in lifted], predicate=predicate)


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


class Value:
    """A symbol: a number that a rule computes with, or a comparison."""

    __slots__ = ("trace", "level", "at", "op", "predicate")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numpy's numbers leave operators to this class

    def __init__(self, trace: _Trace, level: str, at: int, op: str, predicate: bool) -> None:
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
                           "x ** t, with the step number itself, and x ** 2; ptxgen.sqrt(x) is a root")

    def __rpow__(self, base: Any) -> "Value":
        return self.trace.lift(base, "once") ** self

    __bool__ = _refuse("`if`, `and`, `or`, `not` or a chain of comparisons",
                       "it has no value yet; ptxgen.where(a < b, x, y) chooses, & | ~ combine comparisons")
    __floordiv__ = __rfloordiv__ = _refuse("integer division", "write / or multiply")
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse("a remainder", "there is none")
    __float__ = __int__ = __index__ = _refuse("a number", "it has no value yet; constants are Python's")
    __iter__ = __len__ = _refuse("a sequence", "it is one number; betas is the tuple")
    __getitem__ = _refuse("an index", "it is one number: neighbours and rows are out of reach")


def _of(*operands: Any) -> _Trace:
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


# ---- rules


class _Data(NamedTuple):
    """All that a rule is, in plain values."""

    name: str
    version: int
    states: Tuple[Tuple[str, State], ...]
    scalars: Tuple[Tuple[str, Any], ...]  # as torch names them: a default, or a tuple of them
    flat: Tuple[Tuple[str, str, float], ...]  # as C names them: name, range, default
    clock: Tuple[Tuple[str, float], ...]
    once: Tuple[_Op, ...]
    update: Tuple[_Op, ...]


class Rule(Object):
    """An optimizer's rule: see ptxgen.rule. Two are equal if they compute the same."""

    def __init__(self, data: _Data, again: Optional[Callable[..., "Rule"]] = None) -> None:
        self._data, self._again = data, again
        self._lock = threading.Lock()
        self._handle: Optional[Handle] = None
        self.__name__, self.name, self.version = data.name, data.name, data.version
        self.states: Dict[str, State] = dict(data.states)
        self.scalars: Dict[str, Any] = dict(data.scalars)
        self.clock: Dict[str, float] = dict(data.clock)
        self.handle  # noqa: B018: what the library refuses is an error here

    def __reduce__(self) -> Any:
        return Rule, (self._data,)

    def __deepcopy__(self, memo: Any) -> "Rule":
        return self

    def __copy__(self) -> "Rule":
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self._data == other._data

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"<rule {self.name}, version {self.version}: {', '.join(self.states) or 'no states'}>"

    @property
    def identity(self) -> Dict[str, Any]:
        """What a checkpoint has of the rule: another one does not fit. `digest`, the expression's, is
        information."""
        ops = repr((self._data.once, self._data.update)).encode()
        return {"name": self.name, "version": self.version,
                "states": {name: state.kind for name, state in self.states.items()},
                "clock": list(self.clock), "digest": hashlib.sha256(ops).hexdigest()[:16]}

    @property
    def handle(self) -> Handle:
        """The rule in C."""
        with self._lock:
            if self._handle is None:
                self._handle = self._create()
            return self._handle

    def _create(self) -> Handle:
        data, params = self._data, _c.ptx_rule_params()
        params.name, params.version, params.clock_states = data.name.encode(), data.version, len(data.clock)
        for k, (name, state) in enumerate(data.states):
            params.states[k].name, params.states[k].kind = name.encode(), _KINDS[state.kind]
            params.states[k].stochastic = bool(state.stochastic)
        for k, (name, which, default) in enumerate(data.flat):
            params.scalars[k] = _c.ptx_rule_scalar(name.encode(), _RANGES[which], default)
        once, update = map(_operations, (data.once, data.update))
        program = _c.ptx_rule_program(ctypes.addressof(once), ctypes.addressof(update), len(data.once),
                                      len(data.update))
        params.program = ctypes.addressof(program)
        return Handle(checked(c.ptx_rule_create(ctypes.byref(params))), c.ptx_rule_destroy)

    def with_options(self, **options: Any) -> "Rule":
        """The rule with other options, which its function gets as they are."""
        if self._again is None:
            raise InvalidError(f"rule {self.name}: its function is not here, since it was unpickled")
        return self._again(options)

    def emit(self, target: Optional[str] = None) -> str:
        """The PTX of an entry with the rule's code alone, to be read."""
        handle = self.handle
        return finish_text(lambda builder: c.ptx_rule_emit(builder, handle.value), target)

    def hyper(self, values: Dict[str, Any]) -> Dict[str, Any]:
        """Scalars by the names of the rule, as the fields of a struct ptx_step_hyper; those that are not
        given have their defaults."""
        unknown = [name for name in values if name not in self.scalars]
        if unknown:
            raise InvalidError(f"rule {self.name}: there is no {unknown[0]!r}; there are {', '.join(self.scalars)}")
        flat: List[float] = []
        for name, default in self._data.scalars:
            value = values.get(name, default)
            given = tuple(value) if isinstance(default, tuple) else (value,)
            if isinstance(default, tuple) and len(given) != len(default):
                raise InvalidError(f"rule {self.name}: {name} has {len(default)} numbers, not {value!r:.80}")
            flat += map(float, given)
        fields = [name for name in _c.ptx_step_hyper.kinds if name != "more"]
        hyper: Dict[str, Any] = {"more": []}
        for (name, which, _), value in zip(self._data.flat, flat):
            if not _WITHIN[which][0](ctypes.c_float(value).value):
                raise InvalidError(f"rule {self.name}: {name} is {value!r}; it must be {_WITHIN[which][1]}")
            if name in fields:
                hyper[name] = value
            else:
                hyper["more"].append(value)
        return hyper

    def group(self, *, maximize: bool = False, lr_at: Any = None, hyper_at: Any = None,
              ema_decay: Optional[float] = None, **scalars: Any) -> Any:
        """A group of tensors that the rule steps, for Device.step_plan(groups=...)."""
        hyper = self.hyper(scalars)
        if ema_decay is not None:
            hyper["ema_decay"] = ema_decay
        group: Dict[str, Any] = {"own_rule": self, "maximize": maximize, "hyper": hyper}
        group.update({name: at for name, at in (("lr_at", lr_at), ("hyper_at", hyper_at)) if at is not None})
        return group

    def reference(self, *, exact: bool = False) -> "Reference":
        """The same rule in numpy, bit for bit but for the bits of NaN. exact: in f64 throughout, without a
        rounding to f32, to see what those cost."""
        return Reference(self._data, exact)


def _operations(ops: Sequence[_Op]) -> Any:
    """A list of a program in C."""
    made = (_c.ptx_rule_operation * max(len(ops), 1))()
    for k, op in enumerate(ops):
        made[k] = _c.ptx_rule_operation(*op)
    return made


def _flat(name: str, value: Any) -> Tuple[Any, List[Tuple[str, str, float]]]:
    """A scalar as torch has it, and as C has it."""
    several = isinstance(value, (tuple, list)) and not isinstance(value, Scalar)
    parts = [one if isinstance(one, Scalar) else Scalar(one, "") for one in (value if several else [value])]
    stem = name[:-1] if several and name.endswith("s") else name
    flat = []
    for k, part in enumerate(parts):
        own = f"{stem}{k + 1}" if several else name
        usual = ("at_least_0" if own in _NOT_NEGATIVE else "below_1" if re.fullmatch(r"beta\d*", own) else "finite")
        which = part.range or usual
        if which not in _RANGES:
            raise InvalidError(f"scalar {name}: its range {which!r} is none of {', '.join(_RANGES)}")
        flat.append((own, which, _number(part.default)))
    defaults = tuple(default for _, _, default in flat)
    return (defaults if several else defaults[0]), flat


def _checked_names(function: Any, groups: Dict[str, Any]) -> Dict[str, str]:
    """Which kind each name of a rule is."""
    known = {"p": "p", "g": "g", "t": "t"}
    for kind, names in groups.items():
        for name in names:
            if not isinstance(name, str) or not name.isidentifier():
                raise InvalidError(f"{kind}: {name!r} is no name")
            if name in known or name in _RESERVED:
                raise InvalidError(f"{kind}: the name {name} is {'taken' if name in known else 'reserved'}: choose another")
            known[name] = kind
    for name in inspect.signature(function).parameters:
        if name not in known:
            raise InvalidError(f"rule {function.__name__}: its argument {name} is none of its names: "
                               f"{', '.join(known)}")
    return known


def rule(*, states: Dict[str, Any], scalars: Dict[str, Any], clock: Optional[Dict[str, float]] = None,
         options: Optional[Dict[str, Any]] = None, name: Optional[str] = None,
         version: int = 1) -> Callable[[Callable[..., Any]], Rule]:
    """Makes a rule of a function:

        @ptxgen.rule(states=dict(exp_avg="signed"), scalars=dict(lr=1e-4, betas=(0.9, 0.99)))
        def lion(p, g, exp_avg, lr, betas):
            u = betas[0] * exp_avg + (1 - betas[0]) * g
            return p - lr * ptxgen.sign(u), betas[1] * exp_avg + (1 - betas[1]) * g

    It gets by name what it asks for: the parameter p, the gradient g, the step number t from 1 on,
    states, scalars, clock states, options. It returns the new p, the new states in their order, then the
    new clock states. What depends on scalars, t and clock states alone is computed once a step in f64; all
    that meets p, g or a state is f32, each operation rounded once, in the written order.

    states: names with a kind, or a State. scalars: names with defaults; a tuple is one argument, as betas.
    clock: f64 numbers that last from step to step, with their starts. options: what the function gets as
    it is; with_options() gives the rule with others."""

    def make(function: Callable[..., Any], chosen: Dict[str, Any]) -> Rule:
        unknown = [one for one in chosen if one not in (options or {})]
        if unknown:
            raise InvalidError(f"rule {function.__name__}: there is no option {unknown[0]}; there are "
                               f"{', '.join(options or {}) or 'none'}")
        data = _traced(function, states, scalars, clock or {}, {**(options or {}), **chosen},
                       name or function.__name__, version)
        return Rule(data, lambda more: make(function, {**chosen, **more}))

    return lambda function: make(function, {})


def _state_of(name: str, given: Any) -> State:
    state = given if isinstance(given, State) else State(given)
    if state.kind not in _KINDS:
        raise InvalidError(f"state {name}: its kind {state.kind!r} is none of {', '.join(_KINDS)}")
    if state.start not in (0, "p"):
        raise InvalidError(f'state {name}: it starts as 0 or "p", not {state.start!r}')
    rounded = state.kind != "signed" if state.stochastic is None else bool(state.stochastic)
    return state._replace(stochastic=rounded)


def _traced(function: Callable[..., Any], states: Dict[str, Any], scalars: Dict[str, Any],
            clock: Dict[str, float], options: Dict[str, Any], name: str, version: int) -> _Data:
    asked = inspect.signature(function).parameters
    _checked_names(function, {"states": states, "scalars": scalars, "clock": clock, "options": options})
    trace, values = _Trace(), dict(options)
    made = {one: _state_of(one, given) for one, given in states.items()}
    t, p = trace.add("once", "T"), trace.add("update", "P")
    values.update(t=t, p=p, g=trace.add("update", "G"))
    for k, (one, state) in enumerate(made.items()):
        values[one] = trace.add("update", "STATE", k)
        if state.start == "p":
            values[one] = where(t == 1, p, values[one])
    for k, (one, start) in enumerate(clock.items()):
        values[one] = trace.add("once", "CLOCK", k)
        if start != 0:
            values[one] = where(t == 1, float(start), values[one])
    usual: List[Tuple[str, Any]] = []
    flat: List[Tuple[str, str, float]] = []
    for one, given in scalars.items():
        default, own = _flat(one, given)
        found = tuple(trace.add("once", "SCALAR", len(flat) + k) for k in range(len(own)))
        values[one] = found if isinstance(default, tuple) else found[0]
        usual.append((one, default))
        flat += own
    for kind, count, most in (("states", len(made), _c.PTX_STEP_MAX_STATES), ("scalars", len(flat), _c.PTX_STEP_MAX_SCALARS),
                              ("clock states", len(clock), _c.PTX_RULE_MAX_CLOCK_STATES)):
        if count > most:
            raise InvalidError(f"rule {name}: {count} {kind}; a rule has {most} at most")
    given = function(**{one: values[one] for one in asked})
    results = list(given) if isinstance(given, (tuple, list)) else [given]
    wanted = ["p", *made, *clock]
    if len(results) != len(wanted):
        raise InvalidError(f"rule {name}: it returns {len(results)} value{'s' * (len(results) != 1)}, and must "
                           f"return {len(wanted)}: {', '.join(wanted)}")
    for one, result in zip(wanted, results):
        if result is None or isinstance(result, Value) and result.predicate:
            raise InvalidError(f"rule {name}: what it returns for {one} is "
                               f"{'a comparison' if result is not None else 'None'}, and no number")
    trace.add("update", "SET_P", trace.lift(results[0], "update").at)
    for k in range(len(made)):
        trace.add("update", "SET_STATE", trace.lift(results[1 + k], "update").at, k)
    for k in range(len(clock)):
        trace.add("once", "SET_CLOCK", trace.lift(results[1 + len(made) + k], "once").at, k)
    if len(trace.coefficients) > _c.PTX_RULE_MAX_COEFFICIENTS:
        raise InvalidError(f"rule {name}: {len(trace.coefficients)} numbers of the whole step meet elements; a rule has "
                           f"{_c.PTX_RULE_MAX_COEFFICIENTS} at most")
    for at, k in trace.coefficients.items():
        trace.add("once", "SET_COEFFICIENT", at, k)
    return _Data(name, version, tuple(made.items()), tuple(usual), tuple(flat),
                 tuple((one, float(start)) for one, start in clock.items()), tuple(_used(trace.lists["once"])),
                 tuple(_used(trace.lists["update"])))


def _used(ops: List[_Op]) -> List[_Op]:
    """The operations whose results are used, in their order."""
    needed = [_NAMES[op.op].startswith("SET_") for op in ops]
    for k in range(len(ops) - 1, -1, -1):
        if needed[k]:
            for kind, operand in zip(_OPERANDS[_NAMES[ops[k].op]], (ops[k].x, ops[k].y, ops[k].z)):
                if kind in "vp":
                    needed[operand] = True
    places: Dict[int, int] = {}
    kept: List[_Op] = []
    for k, op in enumerate(ops):
        if not needed[k]:
            continue
        places[k] = len(kept)
        x, y, z = (places[x] if kind in "vp" else x
                   for kind, x in zip(_OPERANDS[_NAMES[op.op]].ljust(3, "i"), (op.x, op.y, op.z)))
        kept.append(_Op(op.op, x, y, z, op.number))
    return kept


# ---- the reference


class Reference:
    """A rule in numpy: one step of arrays in f32, or in f64."""

    def __init__(self, data: _Data, exact: bool) -> None:
        self._data = data
        self._numpy: Any = importlib.import_module("numpy")
        self._kind: Any = self._numpy.float64 if exact else self._numpy.float32

    def __call__(self, p: Any, g: Any, states: Dict[str, Any], t: int, scalars: Optional[Dict[str, Any]] = None,
                 clock: Optional[Dict[str, float]] = None) -> Tuple[Any, Dict[str, Any], Dict[str, float]]:
        """The new parameter, states and clock states. t: the number of this step, from 1; scalars: by C's
        names (beta1, beta2), those that are not given have their defaults."""
        np, data = self._numpy, self._data
        given = {name: default for name, _, default in data.flat}
        given.update(scalars or {})
        with np.errstate(all="ignore"):
            c, after = self._once([np.float64(given[name]) for name, _, _ in data.flat], t,
                                  [np.float64((clock or {}).get(name, 0.0)) for name, _ in data.clock])
            arrays = [np.asarray(states[name], self._kind) for name, _ in data.states]
            p, arrays = self._update(np.asarray(p, self._kind), np.asarray(g, self._kind), arrays, c)
        return (p, {name: array for (name, _), array in zip(data.states, arrays)},
                {name: float(x) for (name, _), x in zip(data.clock, after)})

    def _once(self, scalars: List[Any], t: int, clock: List[Any]) -> Tuple[Dict[int, Any], List[Any]]:
        np = self._numpy
        c: Dict[int, Any] = {}
        after, found = list(clock), []  # type: ignore[var-annotated]
        for op in self._data.once:
            name, result = _NAMES[op.op], None
            if name == "SCALAR":
                result = scalars[op.x]
            elif name == "T":
                result = np.float64(t)
            elif name == "CLOCK":
                result = clock[op.x]
            elif name == "POWER":
                result = np.float64(1)
                for bit in bin(t)[2:]:
                    result = result * result
                    result = result * found[op.x] if bit == "1" else result
            elif name == "F32":
                result = np.float64(self._kind(found[op.x]))
            elif name == "SET_CLOCK":
                after[op.y] = found[op.x]
            elif name == "SET_COEFFICIENT":
                c[op.y] = self._kind(found[op.x])
            else:
                result = self._computed(name, op, found, np.float64)
            found.append(result)
        return c, after

    def _update(self, p: Any, g: Any, states: List[Any], c: Dict[int, Any]) -> Tuple[Any, List[Any]]:
        np = self._numpy
        inputs = {"P": p, "G": g}
        new_p, after, found = p, list(states), []  # type: ignore[var-annotated]
        for op in self._data.update:
            name, result = _NAMES[op.op], None
            if name in inputs:
                result = inputs[name]
            elif name == "STATE":
                result = states[op.x]
            elif name == "COEFFICIENT":
                result = c[op.x]
            elif name == "SET_P":
                new_p = np.broadcast_to(found[op.x], p.shape).copy()
            elif name == "SET_STATE":
                after[op.y] = np.broadcast_to(found[op.x], p.shape).copy()
            else:
                result = self._computed(name, op, found, self._kind)
            found.append(result)
        return new_p, after

    def _computed(self, name: str, op: _Op, found: List[Any], kind: Any) -> Any:
        np = self._numpy
        if name == "NUMBER":
            return kind(op.number)
        operands: List[Any] = [found[k] if k < len(found) else None for k in (op.x, op.y, op.z)]
        x, y, z = operands
        if name == "FMA":
            return self._fma32(x, y, z) if kind is np.float32 else x * y + z if np.ndim(z) else self._fma64(x, y, z)
        if name in ("MIN", "MAX"):
            return self._limit(x, y, kind, name == "MIN")
        simple: Dict[str, Callable[[], Any]] = {
            "ADD": lambda: x + y, "SUB": lambda: x - y, "MUL": lambda: x * y, "DIV": lambda: x / y,
            "SQRT": lambda: np.sqrt(x), "NEG": lambda: -x, "ABS": lambda: np.abs(x), "LT": lambda: x < y,
            "LE": lambda: x <= y, "GT": lambda: x > y, "GE": lambda: x >= y, "EQ": lambda: x == y,
            "NE": lambda: x != y, "AND": lambda: x & y, "OR": lambda: x | y, "NOT": lambda: np.logical_not(x),
            "SELECT": lambda: np.where(x, y, z)}
        result = simple[name]()
        return result if _OPERANDS[name] == "" or result.dtype == bool else result.astype(kind)

    def _limit(self, x: Any, y: Any, kind: Any, least: bool) -> Any:
        """As PTX: of NaN and a number the number, and -0 is below +0."""
        np = self._numpy
        x, y = np.broadcast_arrays(np.asarray(x, kind), np.asarray(y, kind))
        first = np.where(x == y, np.signbit(x) == least, (x < y) == least)
        return np.where(np.isnan(x), y, np.where(np.isnan(y) | first, x, y)).astype(kind)

    def _fma32(self, x: Any, y: Any, z: Any) -> Any:
        """The product of two f32 is exact in f64. Its sum with z is rounded to odd, so that the rounding to
        f32 is the only one that counts."""
        np = self._numpy
        product, z = np.asarray(x, np.float64) * np.asarray(y, np.float64), np.asarray(z, np.float64)
        total = product + z
        other = total - product
        rest = (product - (total - other)) + (z - other)
        bits = np.asarray(total).view(np.int64)
        inexact = np.isfinite(total) & (rest != 0) & (bits & 1 == 0)
        away = (rest > 0) == (total > 0)  # from 0
        return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64).astype(np.float32)

    def _fma64(self, x: Any, y: Any, z: Any) -> Any:
        np = self._numpy
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            return x * y + z
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        return np.float64(float(exact)) if exact else x * y + z
