# SPDX-License-Identifier: MIT
"""A rule in numpy: what a step plan computes with it, bit for bit."""

from __future__ import annotations

import ctypes
import importlib
import math
import operator
from collections.abc import Mapping
from typing import Any, Callable, Dict, List, Optional, Tuple

from .errors import InvalidError
from .functions import computed
from .symbols import NAMES, OPERANDS, Op, number

# The ranges of scalars: what is in them, as an f32.
WITHIN: Dict[str, Tuple[Callable[[float], bool], str]] = {
    "finite": (math.isfinite, "finite in f32"),
    "at_least_0": (lambda x: 0 <= x < math.inf, "finite in f32, and 0 or more"),
    "below_1": (lambda x: 0 <= x < 1, "0 or more, and below 1 when rounded to f32"),
    "up_to_1": (lambda x: 0 <= x <= 1, "from 0 to 1")}

_INPUTS = ("P", "G", "T")  # and those of an index:
_ARRAYS = ("STATE", "SCALAR", "CLOCK", "COEFFICIENT", "SUM")


class Reference:
    """A rule in numpy: one step of arrays in f32, or in f64."""

    def __init__(self, data: Any, exact: bool) -> None:
        self._data = data
        self._numpy: Any = importlib.import_module("numpy")
        self._exact = exact
        self._kind: Any = self._numpy.float64 if exact else self._numpy.float32

    def __call__(self, p: Any, g: Any, states: Dict[str, Any], t: int, scalars: Optional[Dict[str, Any]] = None,
                 clock: Optional[Dict[str, float]] = None) -> Tuple[Any, Dict[str, Any], Dict[str, float]]:
        """The new parameter, states with outputs, and clock states. t: the number of this step, from 1; scalars: by the
        rule's names (betas) or C's (beta1, beta2), those that are not given have their defaults."""
        np, data = self._numpy, self._data
        for name, x in (("p", p), ("g", g), *(states.items() if isinstance(states, Mapping) else ())):
            if np.iscomplexobj(x):
                raise self._error(f"{name} is complex, and a rule computes with real numbers")
        p, g = np.asarray(p, self._kind), np.asarray(g, self._kind)
        self._check_shape("g", g, p)
        arrays, t = self._states(states, p, self._kind), self._step(t)
        if t == 1:
            arrays = [p if state.start == "p" else x for x, (_, state) in zip(arrays, data.states)]
        with np.errstate(all="ignore"):
            once = self._run(data.once, np.float64, {
                "T": np.float64(t), "SCALAR": self._scalars(scalars),
                "CLOCK": self._clock(clock, t)})
            c = self._coefficients(once)
            given = {"P": p, "G": g, "STATE": arrays, "COEFFICIENT": c}
            if data.sums:
                terms = self._run(data.reduce, self._kind, given)
                c.update(self._coefficients(self._run(data.of_sums, np.float64, {
                    "SUM": [self._sum(np.broadcast_to(terms["SET_TERM", k], p.shape)) for k in range(data.sums)],
                    "COEFFICIENT": {k: np.float64(x) for k, x in c.items()}})))
            made = self._run(data.update, self._kind, given)
        made = {key: np.broadcast_to(x, p.shape).copy() for key, x in made.items()}
        return (made["SET_P", 0], {name: self._stored(made["SET_STATE", k], state.dtype)
                                   for k, (name, state) in enumerate(data.states)},
                {name: float(once["SET_CLOCK", k]) for k, (name, _) in enumerate(data.clock)})

    def evaluation(self, p: Any, states: Dict[str, Any], scalars: Optional[Dict[str, Any]] = None) -> Any:
        """The weights to evaluate with: from f32, in f64, rounded once."""
        np, data = self._numpy, self._data
        if not data.evaluation:
            raise self._error("it has no evaluation")
        once, update = data.evaluation
        with np.errstate(all="ignore"):
            made = self._run(once, np.float64, {"SCALAR": self._scalars(scalars)})
            c = {k: x for (name, k), x in made.items() if name == "SET_COEFFICIENT"}
            if not all(map(np.isfinite, c.values())):
                raise self._error("it has no weights to evaluate with at these scalars: they would not be finite")
            p = np.asarray(p, np.float64)
            found = self._run(update, np.float64, {"P": p, "STATE": self._states(states, p, np.float64), "COEFFICIENT": c})
        return np.broadcast_to(found["SET_P", 0], p.shape).astype(self._kind)

    def _error(self, what: str) -> InvalidError:
        return InvalidError(f"rule {self._data.name}: {what}")

    def _check_shape(self, name: str, x: Any, p: Any) -> None:
        if x.shape != p.shape:
            raise self._error(f"{name} has the shape {x.shape}, and p {p.shape}: they have an element for each other")

    def _states(self, given: Any, p: Any, kind: Any) -> List[Any]:
        """The arrays of states; of outputs there are none."""
        known = [name for name, _ in self._data.states]
        listed = ", ".join(known) or "none"
        if not isinstance(given, Mapping):
            raise self._error(f"states: a dict by name is needed, of {listed}, not {given!r:.80}")
        unknown = [name for name in given if name not in known]
        if unknown:
            raise self._error(f"there is no state {unknown[0]!r}; there are {listed}")
        arrays = []
        for name, state in self._data.states:
            if name not in given and not state.output:
                raise self._error(f"there is no {name} among the states; the rule has {listed}, zeros at first")
            arrays.append(None if state.output else self._numpy.asarray(given[name], kind))
            if not state.output:
                self._check_shape(name, arrays[-1], p)
        return arrays

    def _step(self, t: Any) -> int:
        whole = operator.index(t) if hasattr(t, "__index__") else None
        if whole is None or not 1 <= whole < 1 << 32:
            raise self._error(f"t is the number of this step, a whole number from 1 on, not {t!r:.80}")
        return whole

    def _scalars(self, given: Optional[Dict[str, Any]]) -> List[Any]:
        data = self._data
        values = {name: default for name, _, default in data.flat}
        names = iter(list(values))
        parts = {name: [next(names) for _ in (usual if isinstance(usual, tuple) else (usual,))] for name, usual in data.scalars}
        for name, value in (given or {}).items():
            if name in values:
                values[name] = value
                continue
            if name not in parts:
                raise self._error(f"there is no scalar {name!r}; there are {', '.join(parts)}")
            if not hasattr(value, "__len__") or len(value) != len(parts[name]):
                raise self._error(f"{name} has {len(parts[name])} numbers, not {value!r:.80}")
            values.update(zip(parts[name], value))
        for name, which, _ in data.flat:
            if not WITHIN[which][0](ctypes.c_float(number(values[name], f"rule {data.name}: {name}")).value):
                raise self._error(f"{name} is {values[name]!r}; it must be {WITHIN[which][1]}")
        return [self._numpy.float64(value) for value in values.values()]

    def _clock(self, given: Optional[Dict[str, float]], t: int) -> List[Any]:
        names = [name for name, _ in self._data.clock]
        if given is not None and not isinstance(given, Mapping):
            raise self._error(f"clock: a dict by name is needed, of {', '.join(names) or 'none'}, not {given!r:.80}")
        unknown = [name for name in given or {} if name not in names]
        if unknown:
            raise self._error(f"there is no clock state {unknown[0]!r}; there are {', '.join(names) or 'none'}")
        missing = [name for name in names if name not in (given or {})]
        if missing and t > 1:
            raise self._error(f"there is no {missing[0]} in clock: step {t} takes the numbers that the step before returned, of "
                              f"{', '.join(names)}; step 1 needs none")
        return [self._numpy.float64(number((given or {}).get(name, 0.0), f"rule {self._data.name}: {name}"))
                for name in names]

    def _coefficients(self, made: Dict[Tuple[str, int], Any]) -> Dict[int, Any]:
        return {k: self._kind(x) for (name, k), x in made.items() if name == "SET_COEFFICIENT"}

    def _sum(self, terms: Any) -> Any:
        """The plan adds in an order of its own, in f64, where this rounds once."""
        np = self._numpy
        flat = terms.ravel().astype(np.float64)
        return np.float64(math.fsum(flat)) if np.isfinite(flat).all() else flat.sum()

    def _stored(self, x: Any, dtype: Optional[str]) -> Any:
        """x as an array of this type has it."""
        np = self._numpy
        if dtype in (None, "f32") or self._exact:
            return x
        if dtype == "f16":
            with np.errstate(all="ignore"):
                return x.astype(np.float16).astype(np.float32)
        bits = x.view(np.uint32).astype(np.uint64)
        rounded = ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)
        return np.where(np.isnan(x), x, rounded)

    def _run(self, ops: Tuple[Op, ...], kind: Any, given: Dict[str, Any]) -> Dict[Tuple[str, int], Any]:
        """What a list sets, by operation and index."""
        found: List[Any] = []
        made: Dict[Tuple[str, int], Any] = {}
        for op in ops:
            name, result = NAMES[op.op], None
            if name in _INPUTS:
                result = given[name]
            elif name in _ARRAYS:
                result = given[name][op.x]
            elif name.startswith("SET_"):
                made[name, op.y if "i" in OPERANDS[name] else 0] = found[op.x]
            elif name == "POWER":
                result = self._power(found[op.x], int(given["T"]))
            elif name == "F32":
                result = self._numpy.float64(self._kind(found[op.x]))
            else:
                result = computed(self._numpy, op, found, kind, self._exact)
            found.append(result)
        return made

    def _power(self, x: Any, t: int) -> Any:
        result = self._numpy.float64(1)
        for bit in bin(t)[2:]:
            result = result * result
            result = result * x if bit == "1" else result
        return result
