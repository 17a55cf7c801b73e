# SPDX-License-Identifier: MIT
"""Optimizers' rules written in Python: a function is called once with symbols, and what it does with
them becomes a program of <ptxgen/rule.h>. docs/rules.md is the guide."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import keyword
import math
import operator
import os
import re
import sys
import sysconfig
import threading
from collections.abc import Mapping, Set
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _c
from ._library import Handle, Object, c, checked, finish_text
from .errors import InvalidError
from .reference import WITHIN, Reference
from .symbols import OPS, Numbers, Op, Trace, Value, cut, number, where

_KINDS = {"signed": _c.PTX_RULE_SIGNED, "positive": _c.PTX_RULE_POSITIVE, "weight": _c.PTX_RULE_WEIGHT}
_RANGES = {"finite": _c.PTX_RULE_RANGE_FINITE, "at_least_0": _c.PTX_RULE_RANGE_AT_LEAST_0,
           "below_1": _c.PTX_RULE_RANGE_BELOW_1, "up_to_1": _c.PTX_RULE_RANGE_UP_TO_1}
_TYPES = {"f32": _c.PTX_F32, "f16": _c.PTX_F16, "bf16": _c.PTX_BF16}
_NOT_NEGATIVE = ("lr", "eps", "weight_decay", "momentum")
# What torch, its schedulers and ptxgen.torch have in groups and states.
_RESERVED = frozenset(("params", "param_names", "maximize", "foreach", "fused", "capturable", "differentiable",
                       "step", "clock", "master", "remainder", "ema", "ema_decay", "state_dtype", "max_grad_norm",
                       "seed", "process_group", "guards", "obey", "reports", "ema_dtype", "fp8", "qk_clip", "agc", "initial_lr",
                       "rule", "u", "sums", "train_mode", "train_weights", "name", "min_lr", "max_lr", "base_momentum",
                       "max_momentum", "initial_momentum", "swa_lr"))
_OF_BLOCKS = ("_absmax", "_scale")  # behind a state's name there: its scales


class State(NamedTuple):
    """An array beside the parameter. kind: "signed", "positive" (never below 0) or "weight" (as precise as
    a parameter; not in 8 bits and scaled f16). stochastic: how formats with random bits round it; None: as
    its kind, "signed" to nearest. start: 0, or "p" for the parameter before the first step. dtype: "f32", "f16"
    or "bf16", its type in every format, rounded to nearest."""

    kind: str
    stochastic: Optional[bool] = None
    start: Any = 0
    dtype: Optional[str] = None
    output: bool = False  # only written: those of outputs=


class Scalar(NamedTuple):
    """A scalar with a range of its own: "finite", "at_least_0", "below_1" or "up_to_1"."""

    default: float
    range: str = "finite"


# ---- rules


class _Data(NamedTuple):
    """All that a rule is, in plain values."""

    name: str
    version: int
    states: Tuple[Tuple[str, State], ...]
    scalars: Tuple[Tuple[str, Any], ...]  # as torch names them: a default, or a tuple of them
    flat: Tuple[Tuple[str, str, float], ...]  # as C names them: name, range, default
    clock: Tuple[Tuple[str, float], ...]
    once: Tuple[Op, ...]
    update: Tuple[Op, ...]
    sums: int = 0
    reduce: Tuple[Op, ...] = ()
    of_sums: Tuple[Op, ...] = ()
    # The weights to evaluate with, as another rule's parts.
    evaluation: Tuple[Tuple[Op, ...], ...] = ()
    keys: Tuple[Tuple[str, Any], ...] = ()  # of torch's groups: the only values that fit
    options: Tuple[Tuple[str, Any], ...] = ()  # those of the keys that were options


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

    def __call__(self, *unused: Any, **also: Any) -> Any:
        raise TypeError(f"rule {self.name} is no function any more: plans and optimizers take it, and "
                        "rule.reference()(p, g, states, t) computes a step in numpy")

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
    def sums(self) -> int:
        """How many sums over each tensor it takes."""
        return self._data.sums

    @property
    def evaluates(self) -> bool:
        """Whether it has an evaluation: weights to evaluate with, beside those to train."""
        return bool(self._data.evaluation)

    @property
    def keys(self) -> Dict[str, Any]:
        """Keys of torch's groups that say what the rule is, with its values: its options, and those of `keys`. A group
        or a dict that has another value there is of another rule."""
        return dict(self._data.keys)

    @property
    def options(self) -> Dict[str, Any]:
        """What the rule was made with, by the options' names."""
        return dict(self._data.options)

    @property
    def identity(self) -> Dict[str, Any]:
        """What a checkpoint has of the rule: another one does not fit, nor one with other options. `digest`, the
        expression's, is information."""
        ops = repr([getattr(self._data, name) for name in ("once", "update", "reduce", "of_sums")
                    if getattr(self._data, name)]).encode()
        return {"name": self.name, "version": self.version,
                "states": {name: state.kind for name, state in self.states.items()},
                "clock": list(self.clock), "options": self.options, "digest": hashlib.sha256(ops).hexdigest()[:16]}

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
            params.states[k].dtype = _TYPES[state.dtype] if state.dtype else _c.PTX_NONE
            params.states[k].output, params.states[k].start_p = state.output, state.start == "p"
        for k, (name, which, default) in enumerate(data.flat):
            params.scalars[k] = _c.ptx_rule_scalar(name.encode(), _RANGES[which], default)
        program, kept = _c.ptx_rule_program(), []
        for name in ("once", "update", "reduce", "of_sums"):
            ops = getattr(data, name)
            kept.append(_operations(ops))
            setattr(program, name, ctypes.addressof(kept[-1]))
            setattr(program, f"{name}_count", len(ops))
        params.sums, params.program = data.sums, ctypes.addressof(program)
        return Handle(checked(c.ptx_rule_create(ctypes.byref(params))), c.ptx_rule_destroy)

    def with_options(self, **options: Any) -> "Rule":
        """The rule with other options, which its function gets as they are."""
        if self._again is None:
            raise InvalidError(f"rule {self.name}: its function is not here, since it was unpickled: call with_options() "
                               "before pickling, or import the rule")
        return self._again(options)

    def emit(self, target: Optional[str] = None) -> str:
        """The PTX of an entry with the rule's code alone, to be read."""
        if target is not None and not isinstance(target, str):
            raise InvalidError(f'target: a string such as "sm_90" is needed, not {target!r:.80}')
        handle = self.handle
        return finish_text(lambda builder: c.ptx_rule_emit(builder, handle.value), target)

    def hyper(self, values: Dict[str, Any]) -> Dict[str, Any]:
        """Scalars by the names of the rule, as the fields of a struct ptx_step_hyper; those that are not
        given have their defaults."""
        unknown = [name for name in values if name not in self.scalars]
        if unknown and unknown[0] in self.options:
            raise InvalidError(f"rule {self.name}: {unknown[0]} is an option: take rule.with_options({unknown[0]}="
                               f"{values[unknown[0]]!r})")
        if unknown:
            raise InvalidError(f"rule {self.name}: there is no {unknown[0]!r}; there are {', '.join(self.scalars)}")
        flat: List[float] = []
        for name, default in self._data.scalars:
            value = values.get(name, default)
            several = isinstance(default, tuple)
            if several and (isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != len(default)):
                raise InvalidError(f"rule {self.name}: {name} has {len(default)} numbers, not {value!r:.80}")
            flat += (number(x, f"rule {self.name}: {name}") for x in (value if several else (value,)))
        fields = [name for name in _c.ptx_step_hyper.kinds if name != "more"]
        hyper: Dict[str, Any] = {"more": []}
        for (name, which, _), value in zip(self._data.flat, flat):
            if not WITHIN[which][0](ctypes.c_float(value).value):
                raise InvalidError(f"rule {self.name}: {name} is {value!r}; it must be {WITHIN[which][1]}")
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


def _operations(ops: Sequence[Op]) -> Any:
    """A list of a program in C."""
    made = (_c.ptx_rule_operation * max(len(ops), 1))()
    for k, op in enumerate(ops):
        made[k] = _c.ptx_rule_operation(*op)
    return made


def _flat(name: str, value: Any) -> Tuple[Any, List[Tuple[str, str, float]]]:
    """A scalar as torch has it, and as C has it."""
    several = isinstance(value, (tuple, list)) and not isinstance(value, Scalar)
    if several and not value:
        raise InvalidError(f"scalar {name}: it is a tuple of no numbers: leave it out")
    parts = [one if isinstance(one, Scalar) else Scalar(one, "") for one in (value if several else [value])]
    stem = name[:-1] if several and name.endswith("s") else name
    flat = []
    for k, part in enumerate(parts):
        own = f"{stem}{k + 1}" if several else name
        usual = ("at_least_0" if own in _NOT_NEGATIVE else "below_1" if re.fullmatch(r"beta\d*", own) else "finite")
        which = part.range or usual
        if not isinstance(which, str) or which not in _RANGES:
            raise InvalidError(f"scalar {name}: its range {which!r} is none of {', '.join(_RANGES)}")
        flat.append((own, which, number(part.default, f"scalar {own}")))
        if not WITHIN[which][0](ctypes.c_float(flat[-1][2]).value):
            raise InvalidError(f"scalar {own}: its default {part.default!r} must be {WITHIN[which][1]}")
    defaults = tuple(default for _, _, default in flat)
    return (defaults if several else defaults[0]), flat


def _known_names(groups: Dict[str, Any]) -> Dict[str, str]:
    """Which kind each name of a rule is."""
    known = {"p": "p", "g": "g", "t": "t"}
    for kind, names in groups.items():
        for name in names:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise InvalidError(f"{kind}: {name!r} is no name")
            if name in known or name in _RESERVED:
                raise InvalidError(f"{kind}: the name {name} is {'taken' if name in known else 'reserved'}: choose another")
            if kind in ("states", "outputs") and name.endswith(_OF_BLOCKS):
                raise InvalidError(f"{kind}: the name {name} ends as that of a state's scales in 8 bits and f16: choose another")
            known[name] = kind
    return known


def rule(*bare: Any, states: Optional[Dict[str, Any]] = None, scalars: Optional[Dict[str, Any]] = None,
         clock: Optional[Dict[str, float]] = None, options: Optional[Dict[str, Any]] = None,
         outputs: Optional[Dict[str, str]] = None, reduce: Optional[Callable[..., Any]] = None,
         apply: Optional[Callable[..., Any]] = None, evaluation: Optional[Callable[..., Any]] = None,
         keys: Optional[Dict[str, Any]] = None, name: Optional[str] = None,
         version: int = 1) -> Callable[[Callable[..., Any]], Rule]:
    """Makes a rule of a function:

        @ptxgen.rule(states=dict(exp_avg="signed"), scalars=dict(lr=1e-4, betas=(0.9, 0.99)))
        def lion(p, g, exp_avg, lr, betas):
            u = betas[0] * exp_avg + (1 - betas[0]) * g
            return p - lr * ptxgen.sign(u), betas[1] * exp_avg + (1 - betas[1]) * g

    It gets by name what it asks for: the parameter p, the gradient g, the step number t from 1 on,
    states, scalars, clock states, options. It returns the new p, the new states in their order, the outputs,
    then the new clock states. What depends on scalars, t and clock states alone is computed once a step in
    f64; all that meets p, g or a state is f32, each operation rounded once, in the written order.

    states: names with a kind, or a State. scalars: names with defaults; a tuple is one argument, as betas.
    clock: f64 numbers that last from step to step, with their starts. options: what the function gets as
    it is; with_options() gives the rule with others. outputs: names and types of arrays that are only written.

    reduce, apply: with sums over each tensor. The function then returns u, a value or a tuple of them;
    reduce(p, u) returns up to four terms of an element; apply(p, u, sums) returns what the function would, with
    their sums, in f64. Both may ask for what the function may. evaluation: a function of p, states and scalars
    that returns the weights to evaluate with. keys: keys of torch's groups and the only values that fit the rule, as
    dict(amsgrad=True); its options are such keys, too."""
    caller = sys._getframe(1)
    at = caller.f_code.co_filename, caller.f_lineno
    with _Placed(at, *bare):
        if bare or states is None or scalars is None:
            raise InvalidError('rule: states and scalars are needed: write @ptxgen.rule(states=dict(exp_avg="signed"), '
                               "scalars=dict(lr=1e-3)), with dict() for none")
    parts = _Parts(reduce, apply, evaluation)
    given = {"states": states, "outputs": outputs, "scalars": scalars, "clock": clock, "options": options, "keys": keys}
    with _Placed(at, *parts):
        if (reduce is None) != (apply is None):
            raise InvalidError(f"{'apply' if reduce is None else 'reduce'} is given without "
                               f"{'reduce' if reduce is None else 'apply'}: a rule with sums has both")

    def make(function: Callable[..., Any], chosen: Dict[str, Any]) -> Rule:
        with _Placed(at, function, *parts):
            _check_functions(function, parts, name)
            called = function.__name__ if name is None else name
            names = {kind: _names_in(kind, one) for kind, one in given.items()}
            _check_options(called, chosen, names["options"])
            names["options"] = {**names["options"], **chosen}
            made = _Made(function, parts, called, names)
            return Rule(made.data(_version(version)), lambda more: make(function, {**chosen, **more}))

    return lambda function: make(function, {})


def _names_in(kind: str, given: Any) -> Dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        like = {"states": 'exp_avg="signed"', "scalars": "lr=1e-3", "outputs": 'copy="bf16"', "clock": "product=1.0",
                "options": "nesterov=False", "keys": "amsgrad=True"}[kind]
        raise InvalidError(f"{kind}: a dict such as dict({like}) is needed, not {given!r:.80}")
    return dict(given or {})


def _check_functions(function: Any, parts: "_Parts", name: Any) -> None:
    for what, one in (("rule", function), *parts._asdict().items()):
        if (one is not None or what == "rule") and not (inspect.isfunction(one) or inspect.ismethod(one)):
            raise InvalidError(f"{what}: a function is needed, not {one!r:.80}")
        if one is not None and (inspect.isgeneratorfunction(one) or inspect.iscoroutinefunction(one) or
                                inspect.isasyncgenfunction(one)):
            raise InvalidError(f"{what}: {one.__name__}() {'yields' if inspect.isgeneratorfunction(one) else 'is async'}: it must "
                               "return its values")
    if name is not None and (not isinstance(name, str) or not name or "\0" in name):
        raise InvalidError(f"name: a string of letters, digits and '_' is needed, not {name!r:.80}")


def _check_options(name: str, chosen: Dict[str, Any], options: Dict[str, Any]) -> None:
    for one in chosen:
        if one not in options:
            raise InvalidError(f"rule {name}: there is no option {one}; there are "
                               f"{', '.join(options) or 'none'}")


def _version(given: Any) -> int:
    if isinstance(given, bool) or not hasattr(given, "__index__") or not 0 <= operator.index(given) < 1 << 32:
        raise InvalidError(f"version: a whole number from 0 to 2^32 - 1 is needed, not {given!r:.80}")
    return operator.index(given)


class _Parts(NamedTuple):
    """The functions of a rule beside the one that it is made of."""

    reduce: Optional[Callable[..., Any]]
    apply: Optional[Callable[..., Any]]
    evaluation: Optional[Callable[..., Any]]


# Files of this package, of Python and of what is installed: a caller's error is in none of them.
_OTHERS = tuple(os.path.join(os.path.realpath(folder), "") for folder in (
    os.path.dirname(__file__), *(sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib")))) + (
    os.path.join(os.path.dirname(__file__), ""), "<")


class _Placed:
    """Names, in front of an error's message, the line of the caller's that was under way, or else the first one of the
    functions, or else `at`."""

    def __init__(self, at: Tuple[str, int], *functions: Any) -> None:
        self.at = at
        self.codes = [one.__code__ for one in functions if hasattr(one, "__code__")]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, InvalidError):
            return
        files, entered = {code.co_filename for code in self.codes}, False
        at, line = (self.codes[0].co_filename, self.codes[0].co_firstlineno) if self.codes else self.at
        while trace is not None:
            code = trace.tb_frame.f_code
            entered = entered or code in self.codes
            if entered and (code.co_filename in files or not code.co_filename.startswith(_OTHERS)):  # helpers, too
                at, line = code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        raise InvalidError(f"{os.path.basename(at)}:{line}: {error}") from error


def _state_of(name: str, given: Any) -> State:
    state = given if isinstance(given, State) else State(given)
    if not isinstance(state.kind, str) or state.kind not in _KINDS:
        raise InvalidError(f"state {name}: its kind {state.kind!r} is none of {', '.join(_KINDS)}")
    if not isinstance(state.start, (int, float, str)) or state.start not in (0, "p"):
        raise InvalidError(f'state {name}: it starts as 0 or "p", not {state.start!r}')
    if state.output:
        raise InvalidError(f"state {name}: what is only written is an output: outputs=dict({name}=...)")
    if state.dtype is None:
        rounded = state.kind != "signed" if state.stochastic is None else bool(state.stochastic)
        return state._replace(stochastic=rounded)
    if not isinstance(state.dtype, str) or state.dtype not in _TYPES:
        raise InvalidError(f"state {name}: its dtype {state.dtype!r} is none of {', '.join(_TYPES)}")
    if state.stochastic:
        raise InvalidError(f"state {name}: it is stochastic, and a state with a dtype is rounded to nearest: leave one out")
    return state._replace(stochastic=False)


def _output_of(name: str, dtype: Any) -> State:
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise InvalidError(f"output {name}: its dtype {dtype!r} is none of {', '.join(_TYPES)}")
    return State("weight", False, 0, dtype, True)


class _Made:
    """A rule's functions, traced."""

    def __init__(self, function: Callable[..., Any], parts: _Parts, name: str, names: Dict[str, Dict[str, Any]]) -> None:
        self.function, self.parts, self.name = function, parts, name
        states, outputs, scalars, clock, options, keys = names.values()
        self.clock = {one: number(start, f"clock state {one}") for one, start in clock.items()}
        for one, start in self.clock.items():
            if not math.isfinite(start):
                raise InvalidError(f"clock state {one}: its start {start!r} must be finite")
        self.known = _known_names(names)
        given = {**{one: _state_of(one, state) for one, state in states.items()},
                 **{one: _output_of(one, dtype) for one, dtype in outputs.items()}}
        self.order = list(given)
        # The library has those with a type of their own behind the others.
        self.states = dict(sorted(given.items(), key=lambda item: item[1].dtype is not None))
        self.scalars: List[Tuple[str, Any]] = []
        self.flat: List[Tuple[str, str, float]] = []
        for one, value in scalars.items():
            default, own = _flat(one, value)
            self.scalars.append((one, default))
            self.flat += own
        for kind, count, most in (("states", len(states), _c.PTX_RULE_MAX_STATES),
                                  ("states and outputs", len(self.states), _c.PTX_STEP_MAX_STATES),
                                  ("scalars", len(self.flat), _c.PTX_STEP_MAX_SCALARS),
                                  ("clock states", len(clock), _c.PTX_RULE_MAX_CLOCK_STATES)):
            if count > most:
                raise InvalidError(f"rule {name}: {count} {kind}; a rule has {most} at most")
        if name == "<lambda>":
            raise InvalidError('a rule of a lambda has no name: give it one, as ptxgen.rule(..., name="mine")')
        self.options = options
        plain = (bool, int, float, str, type(None))
        for kind, values in (("options", options), ("keys", keys)):
            wrong = [one for one, value in values.items() if not isinstance(value, plain)]
            if wrong:
                raise InvalidError(f"{kind}: {wrong[0]} is True, False, None, a number or a string, which a checkpoint can "
                                   f"have, not {values[wrong[0]]!r:.80}")
            nan = [one for one, value in values.items() if value != value]
            if nan:
                raise InvalidError(f"{kind}: {nan[0]} is NaN, which is not what it is compared with: give a number, or None")
        self.keys = tuple({**options, **keys}.items())

    def values(self, trace: Trace) -> Dict[str, Any]:
        """What functions get by name."""
        t, p = trace.add("once", "T"), trace.add("update", "P")
        values = {**self.options, "t": t, "p": p, "g": trace.add("update", "G")}
        for k, (one, state) in enumerate(self.states.items()):
            if not state.output:
                values[one] = trace.add("update", "STATE", k)
        for k, (one, start) in enumerate(self.clock.items()):
            values[one] = trace.add("once", "CLOCK", k)
            if start != 0:
                values[one] = where(t == 1, float(start), values[one])
        at = 0
        for one, default in self.scalars:
            count = len(default) if isinstance(default, tuple) else 1
            found = tuple(trace.add("once", "SCALAR", at + k) for k in range(count))
            values[one] = Numbers.of(one, found) if isinstance(default, tuple) else found[0]
            at += count
        return values

    def called(self, function: Callable[..., Any], values: Dict[str, Any]) -> Any:
        asked = inspect.signature(function).parameters
        for one, parameter in asked.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidError(f"rule {self.name}: {function.__name__}() asks for {parameter}, and gets by name alone "
                                   f"what it asks for: name each one, of {', '.join(values)}")
            if one not in values:
                why = (f"is an output, which is only written: return it" if self.known.get(one) == "outputs" else
                       f"is none of its names: {', '.join(values)}")
                raise InvalidError(f"rule {self.name}: {function.__name__}() asks for {one}, which {why}")
        return function(**{one: values[one] for one in asked})

    def end(self, trace: Trace, level: str, op: str, result: Any, what: str, *index: int) -> Op:
        """An operation that sets something to a result."""
        if result is None or isinstance(result, Value) and result.predicate:
            raise InvalidError(f"rule {self.name}: what it returns for {what} is "
                               f"{'a comparison' if result is not None else 'None'}, and no number")
        if not isinstance(result, (Value, Numbers)):
            number(result, f"rule {self.name}: what it returns for {what}")
        return Op(OPS[op], trace.lift(result, level).at, *index)

    def terms(self, trace: Trace, values: Dict[str, Any]) -> List[Op]:
        """What reduce() returns; values get the sums."""
        found = self.called(self.parts.reduce, values)  # type: ignore[arg-type]
        terms = list(found) if isinstance(found, (tuple, list)) else [found]
        if not 1 <= len(terms) <= _c.PTX_RULE_MAX_SUMS:
            raise InvalidError(f"rule {self.name}: reduce returns {len(terms)} terms; there are 1 to {_c.PTX_RULE_MAX_SUMS}")
        ends = [self.end(trace, "update", "SET_TERM", term, f"term {k}", k) for k, term in enumerate(terms)]
        values["sums"] = Numbers.of("sums", [trace.add("sums", "SUM", k) for k in range(len(terms))])
        return ends

    def data(self, version: int) -> _Data:
        trace = Trace()
        values = self.values(trace)
        given = self.called(self.function, values)
        terms: List[Op] = []
        if self.parts.apply is not None:
            values["u"] = tuple(given) if isinstance(given, list) else given
            terms = self.terms(trace, values)
            given = self.called(self.parts.apply, values)
        results = list(given) if isinstance(given, (tuple, list)) else [given]
        wanted = ["p", *self.order, *self.clock]
        who = "it" if self.parts.apply is None else f"{self.parts.apply.__name__}()"
        if given is None or isinstance(given, (Mapping, Set)):
            raise InvalidError(f"rule {self.name}: {who} returns {'nothing' if given is None else type(given).__name__}, and "
                               f"must return the values in this order: {', '.join(wanted)}")
        if len(results) != len(wanted):
            raise InvalidError(f"rule {self.name}: {who} returns {len(results)} value{'s' * (len(results) != 1)}, and must "
                               f"return {len(wanted)}: {', '.join(wanted)}")
        made = dict(zip(wanted, results))
        update = [self.end(trace, "update", "SET_P", made["p"], "p")]
        update += [self.end(trace, "update", "SET_STATE", made[one], one, k) for k, one in enumerate(self.states)]
        once = [self.end(trace, "once", "SET_CLOCK", made[one], one, k) for k, one in enumerate(self.clock)]
        if len(trace.coefficients) > _c.PTX_RULE_MAX_COEFFICIENTS:
            raise InvalidError(f"rule {self.name}: {len(trace.coefficients)} numbers of the whole step meet elements; a "
                               f"rule has {_c.PTX_RULE_MAX_COEFFICIENTS} at most: combine them before they meet one")
        of = {level: [Op(OPS["SET_COEFFICIENT"], at, k) for (own, at), k in trace.coefficients.items() if own == level]
              for level in ("once", "sums")}
        lists = trace.lists
        parts = (cut(lists["once"], once + of["once"]), cut(lists["update"], update), cut(lists["update"], terms),
                 cut(lists["sums"], of["sums"]))
        for part, ops in zip(("its numbers of the whole step", "its update", "reduce", "its numbers of the sums"), parts):
            if len(ops) > _c.PTX_RULE_MAX_OPERATIONS:
                raise InvalidError(f"rule {self.name}: {len(ops)} operations in {part}; a part has "
                                   f"{_c.PTX_RULE_MAX_OPERATIONS} at most, and each pass of a loop over Python's numbers adds "
                                   "its own: write fewer passes, or what they come to")
        if terms and not of["sums"]:
            raise InvalidError(f"rule {self.name}: apply uses none of the sums: leave reduce and apply out")
        return _Data(self.name, version, tuple(self.states.items()), tuple(self.scalars), tuple(self.flat),
                     tuple(self.clock.items()),
                     parts[0], parts[1], len(terms), parts[2], parts[3], self.evaluation(), self.keys, tuple(self.options.items()))

    def evaluation(self) -> Tuple[Tuple[Op, ...], ...]:
        """The parts of the rule's evaluation."""
        if self.parts.evaluation is None:
            return ()
        trace = Trace()
        values = self.values(trace)
        for one in ("t", "g", *self.clock):
            del values[one]
        p = self.end(trace, "update", "SET_P", self.called(self.parts.evaluation, values), "the weights to evaluate with")
        once = [Op(OPS["SET_COEFFICIENT"], at, k) for (_, at), k in trace.coefficients.items()]
        return cut(trace.lists["once"], once), cut(trace.lists["update"], [p])
