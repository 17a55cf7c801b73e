# SPDX-License-Identifier: MIT
"""torch.optim.Muon through step plans, with AdamW for the parameters that are no matrices."""

from __future__ import annotations

import contextlib
import math
import operator
from ctypes import byref
from typing import Any, Callable, Dict, Iterable, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .. import _c
from .._library import c, check
from ..errors import InvalidError
from . import _units
from ._exchange import Matrix, Rows, rows_of
from ._formats import EmaDtype, StateDtype
from ._items import is_number
from ._part import Piece
from ._places import check_keys, check_parts
from ._shortcuts import local
from .fp8 import Float8Weights
from .guards import Guards
from .optim import _ARGUMENTS, _NO_NORM, _OF_ALL, _OF_GROUPS, _WITH_NORM, Stepped
from .qk_clip import QKClip

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan's, and torch's default

_Triple = Tuple[float, float, float]
_Rate = Union[float, Tensor]
AdjustLr = Literal["original", "match_rms_adamw"]
_ADJUST = ("original", "match_rms_adamw")
_NO_BLOCKS = ("float32", "master", "remainder", "bf16")  # state_dtypes of matrices
_MATRICES = ("heads", "uncovered", "of_3d", "in_by_out")  # of a group with use_muon: what its matrices are
_MOST = (1 << 63) - 1  # of a range's numbers
_MUON = ("momentum", "nesterov", "ns_coefficients", "ns_steps", "adjust_lr_fn", *_MATRICES)  # what AdamW has not
# What torch.optim.AdamW's groups have beside ours.
_TORCHS = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
           "fused": None, "decoupled_weight_decay": True}


class MatrixRange(NamedTuple):
    """Rows of a parameter that are a matrix of their own: `run` of them from `first` on. With a stride the
    matrix has the `run` rows from first + stride on, too, and so on. columns: these are columns."""

    first: int
    run: int
    stride: int = 0
    columns: bool = False


_Range = Union[MatrixRange, Tuple[int, ...]]
Heads = Union[int, Sequence[_Range], Callable[[str, Tuple[int, ...]], Union[int, Sequence[_Range], None]]]


class Muon(Stepped):
    __doc__ = """torch.optim.Muon in a constant number of launches, for any number of matrices; AdamW for
    groups with use_muon=False, in the same step and under the same norm:

        optimizer = ptxgen.torch.Muon(
            [{"params": matrices, "lr": 0.02}, {"params": others, "use_muon": False, "lr": 3e-4}],
            max_grad_norm=1.0)

    A parameter with two dimensions is a matrix, a convolution's with four is one of (out, rest); vectors are
    refused. lr, weight_decay, momentum, nesterov, eps, ns_steps and adjust_lr_fn are torch's; ns_coefficients is a
    triple as torch's, or a list with a triple for each step. These come on top:

    heads: how many equal matrices the rows of a parameter are, with in_by_out its columns; or a list of
        MatrixRange(first, run, stride, columns); or a function of a parameter's name and shape that gives
        either, or None for one matrix. With of_3d="batch" of each of its matrices.
    uncovered: what becomes of what no range of `heads` has: "error", the default, or "matrix": one of it.
    of_3d: what a parameter with three dimensions is: "batch", matrices of the last two, or "convolution", one
        matrix of (out, rest); None, the default, refuses it.
    in_by_out: weights are stored in x out, as GPT-2's Conv1D has them.
    adamw_lr, adamw_betas, adamw_eps, adamw_weight_decay: of groups with use_muon=False that lack lr, betas, eps
        or weight_decay. adamw_lr=None is lr.
    matrix_memory: the most bytes that a plan takes for matrices besides their states; where all need more, they are
        stepped in windows, with the same bits. None, the default: all at once. Not for matrices over ranks.

    Groups may have heads, uncovered, of_3d and in_by_out, too. Of the following, state_dtype "8bit", "f16" and "24bit" are
    for groups with use_muon=False alone; agc is refused, and so is maximize of matrices.
    docs/muon.md is the guide.""" + _ARGUMENTS.replace(
        _units.HELP, "").replace(_NO_NORM, "no clipping; the norm is taken nevertheless").replace(
            _WITH_NORM, "After a step grad_norm and found_inf are on the device.")

    _names = ("momentum_buffer", "exp_avg", "exp_avg_sq")
    _numbers = {"lr": 1, "momentum": 1, "betas": 2, "eps": 1, "weight_decay": 1}
    _of_groups = (*_OF_GROUPS, *_MATRICES)
    _of_all = (*_OF_ALL, "matrix_memory")
    _dicts_of_torch = ("muon", "adamw")
    _takes_norm = True  # as the rule does
    _clips_units = False

    def __init__(self, params: Iterable[Any], lr: _Rate = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: Union[_Triple, Sequence[_Triple]] = COEFFICIENTS,
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: Optional[AdjustLr] = None, *,
                 heads: Optional[Heads] = None, uncovered: Literal["error", "matrix"] = "error",
                 of_3d: Optional[Literal["batch", "convolution"]] = None, in_by_out: bool = False,
                 adamw_lr: Optional[_Rate] = None, adamw_betas: Tuple[float, float] = (0.9, 0.999),
                 adamw_eps: float = 1e-8, adamw_weight_decay: float = 1e-2,
                 max_grad_norm: Optional[float] = None, state_dtype: StateDtype = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, guards: Optional[Guards] = None,
                 obey: Optional[Guards] = None, reports: bool = False, ema_decay: Optional[float] = None,
                 ema_dtype: EmaDtype = "float32", fp8: Optional[Float8Weights] = None,
                 qk_clip: Optional[Sequence[QKClip]] = None, matrix_memory: Optional[int] = None, agc: None = None,
                 maximize: Literal[False] = False) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                    "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
                    "use_muon": True, "heads": heads, "uncovered": uncovered, "of_3d": of_3d, "in_by_out": in_by_out,
                    "adamw_lr": adamw_lr, "adamw_betas": adamw_betas, "adamw_eps": adamw_eps,
                    "adamw_weight_decay": adamw_weight_decay}
        if matrix_memory is not None and (isinstance(matrix_memory, bool) or not hasattr(matrix_memory, "__index__")
                                          or operator.index(matrix_memory) < 1):
            raise ValueError(f"matrix_memory: {matrix_memory!r} is neither a number of bytes nor None")
        self.matrix_memory = 0 if matrix_memory is None else operator.index(matrix_memory)
        self._check({**defaults, "agc": agc, "maximize": maximize, "params": []})  # both are refused, with a reason
        try:
            self._check({"use_muon": False, **_adamw(defaults), "params": []})
        except ValueError as error:
            raise ValueError(f"adamw_{error}") from None  # it begins with the name
        super().__init__(params, defaults)
        self._set(max_grad_norm, state_dtype, seed, process_group, guards, obey, reports, ema_decay,
                  ema_dtype, fp8, qk_clip)

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        if isinstance(param_group, dict):
            _check_kind(param_group)
            if not param_group.get("use_muon", True):
                for key, value in _adamw(self.defaults).items():
                    param_group.setdefault(key, value)
            _take_names(param_group)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for key in [key for key in group if key.startswith("adamw_") or key in _MUON and not group["use_muon"]]:
            del group[key]  # defaults that torch gave to the group

    # ---- settings

    def _numbers_of(self, group: Dict[str, Any]) -> Dict[str, int]:
        other = "betas" if group.get("use_muon", True) else "momentum"
        return {key: kind for key, kind in self._numbers.items() if key != other}

    def _names_of(self, group: Dict[str, Any]) -> Tuple[str, ...]:
        return self._names[:1] if group["use_muon"] else self._names[1:]

    def _check(self, group: Dict[str, Any]) -> None:
        try:
            self._check_settings(group)
        except ValueError as error:
            which = [g for g, one in enumerate(self.__dict__.get("param_groups", ())) if one is group]
            raise ValueError(f"group {which[0]}: {error}" if which else str(error)) from None

    def _check_settings(self, group: Dict[str, Any]) -> None:
        _check_whole(group)
        super()._check(group)
        lr = group["lr"]
        if not (isinstance(lr, Tensor) and lr.device.type != "cpu") and not 0 <= float(lr) < math.inf:
            raise ValueError(f"lr: {lr!r} is not a number of at least 0")
        for key in ("eps", "weight_decay"):
            if not 0 <= float(group[key]) < math.inf:
                raise ValueError(f"{key}: {group[key]!r} is not a number of at least 0")
        below_1 = {"momentum": [group["momentum"]]} if group.get("use_muon", True) else {"betas": group["betas"]}
        for key, values in below_1.items():
            if not all(0 <= float(value) < 1 for value in values):
                raise ValueError(f"{key}: {group[key]!r} is not from 0 to below 1")
        if group.get("use_muon", True):
            self._check_muon(group)

    def _check_muon(self, group: Dict[str, Any]) -> None:
        if group.get("maximize"):
            raise ValueError("maximize=True is not supported in a group with use_muon=True, as in torch.optim.Muon: give "
                             "it gradients of the opposite sign")
        dampening = group.get("dampening")
        if dampening is not None and not (is_number(dampening) and dampening == 0):
            raise ValueError(f"dampening: {dampening!r} is in a group with use_muon=True, and Muon's momentum has none: "
                             "leave it out, or make it 0")
        for key in ("nesterov", "in_by_out"):
            if group.get(key, False) not in (True, False):
                raise ValueError(f"{key}: {group[key]!r} is neither True nor False")
        steps, most = -1, _c.PTX_MUON_MOST_STEPS
        with contextlib.suppress(TypeError):
            steps = -1 if isinstance(group["ns_steps"], bool) else operator.index(group["ns_steps"])
        if not 0 <= steps <= most:
            raise ValueError(f"ns_steps: {group['ns_steps']!r} is not an integer from 0 to {most}")
        _triples(group["ns_coefficients"], steps)
        if group["adjust_lr_fn"] not in (None, *_ADJUST):
            raise ValueError(f"adjust_lr_fn: {group['adjust_lr_fn']!r} is not supported; there are {', '.join(_ADJUST)}, "
                             "and None, which is the first")
        if group.get("uncovered", "error") not in ("error", "matrix"):
            raise ValueError(f"uncovered: {group['uncovered']!r} is none of error, matrix")
        if group.get("of_3d") not in (None, "batch", "convolution"):
            raise ValueError(f"of_3d: {group['of_3d']!r} is none of batch, convolution, and None, which refuses parameters "
                             "with three dimensions")
        state_dtype = group.get("state_dtype", self.__dict__.get("state_dtype", "float32"))
        if state_dtype not in _NO_BLOCKS:
            raise ValueError(f"state_dtype={state_dtype!r} has states in blocks, which a group with use_muon=True cannot "
                             f"have: give the group one of {', '.join(_NO_BLOCKS)}")

    def _check_parameters(self, g: int) -> None:
        group = self.param_groups[g]
        self._check(group)  # now that the optimizer's state_dtype is known
        super()._check_parameters(g)
        names = group.get("param_names") or [None] * len(group["params"])
        for k, (parameter, name) in enumerate(zip(group["params"], names)):
            if parameter.requires_grad:
                self._pieces(group, parameter, f"parameter {k} of group {g}" + (f" ({name})" if name else ""), name)

    # ---- what a plan is made of

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        if ("nesterov" in group) is not bool(group["use_muon"]):
            _check_whole(group)
        if not group["use_muon"]:
            return "adamw", bool(group.get("maximize")), False, False, bool(group.get("amsgrad"))
        nesterov = bool(group["nesterov"] and group["momentum"] != 0)  # without momentum it changes nothing
        return ("muon", bool(group.get("maximize")), nesterov, group["ns_steps"], _as_it_is(group["ns_coefficients"]),
                group["adjust_lr_fn"], *(_as_it_is(group.get(key)) for key in _MATRICES))

    def _of_rule(self, rule: Tuple[Any, ...]) -> Dict[str, Any]:
        if rule[0] != "muon":
            return {}
        steps, coefficients, adjust, in_by_out = rule[3], rule[4], rule[5], rule[-1]
        triples = [one for triple in _triples(coefficients, operator.index(steps)) for one in triple]
        return {"muon": {"steps": steps, "triples": triples, "adjust": adjust or _ADJUST[0], "in_by_out": bool(in_by_out)}}

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        eps, decay = float(group["eps"]), float(group["weight_decay"])
        if group["use_muon"]:
            return 0.0, 0.0, eps, decay, float(group["momentum"]), float(group.get("dampening") or 0.0)
        beta1, beta2 = group["betas"]
        return float(beta1), float(beta2), eps, decay, 0.0, 0.0

    def _pieces(self, group: Dict[str, Any], parameter: Tensor, what: str, name: Optional[str]) -> Optional[List[Piece]]:
        return _matrices(group, parameter, what, name) if group["use_muon"] else None

    def _matrices_over_ranks(self, group: Dict[str, Any], parameter: Tensor, what: str,
                             name: Optional[str]) -> List[Tuple[Matrix, Rows]]:
        if not group["use_muon"]:
            return []
        over = rows_of(parameter, what)
        batch, rows, columns = _shape_of(group, parameter, what)
        if over is None or batch or not parameter.numel():
            return []
        muon = self._of_rule(self._rule(group))["muon"]
        slices = _slices(group, tuple(parameter.shape), what, name) or [_Slice(0, rows, columns)]
        return [(Matrix(parameter, number, one.rows, one.columns,
                        [one.below(end, columns) - one.below(first, columns) for first, end in over.spans], muon), over)
                for number, one in enumerate(slices)]

    # ---- checkpoints

    def state_dict(self, *, format: Optional[Literal["torch", "flashoptim"]] = None) -> Dict[str, Any]:
        """As Stepped's. format="torch": {"muon": ..., "adamw": ...}, dicts for torch.optim.Muon over the parameters of
        groups with use_muon, and for torch.optim.AdamW over those of the others, in their order. A list of triples is
        an error then, because torch.optim.Muon has one."""
        made = super().state_dict(format=format)
        if format is None:
            return made
        return {"muon": _apart(made, True), "adamw": _apart(made, False)}

    def _load(self, state_dict: Dict[str, Any]) -> None:
        super()._load(self._of_both(state_dict))

    def _of_both(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """A dict as state_dict() gives it, from this, from torch's two, or from one of torch's where all groups are
        of its kind."""
        kinds = [bool(group["use_muon"]) for group in self.param_groups]
        if "param_groups" not in given and given and set(given) <= {"muon", "adamw"}:
            given = _joined(given, kinds)
        check_parts({**given, "state": {}})  # of states hooks may make a dict
        groups = given["param_groups"]
        named = [group["use_muon"] for group in groups if "use_muon" in group]
        if not named and len(set(kinds)) > 1:
            raise ValueError('the dict is of an optimizer without groups of use_muon=False, which this one has: of '
                             'torch.optim, give {"muon": the dict of its Muon, "adamw": the dict of its AdamW}')
        if not named and kinds:
            for group in groups:
                if ("betas" in group) is kinds[0]:
                    raise ValueError(f"the groups of the dict have {'' if kinds[0] else 'no '}betas, and this optimizer has "
                                     f"{'Muon' if kinds[0] else 'AdamW'}'s groups alone")
            given = {**given, "param_groups": [{**group, "use_muon": kinds[0]} for group in groups]}
        for k, (group, own) in enumerate(zip(given["param_groups"], kinds)):
            if (group.get("use_muon") or False) != own:
                raise ValueError(f"group {k} of the dict has use_muon={group.get('use_muon')!r}, and that of the optimizer "
                                 f"{own}: its groups must be those of the optimizer that saved it")
        return given


# ---- groups


def _adamw(defaults: Dict[str, Any]) -> Dict[str, Any]:
    """The settings of a group with use_muon=False that has none of its own."""
    made = {key: defaults["adamw_" + key] for key in ("lr", "betas", "eps", "weight_decay")}
    if made["lr"] is None:
        made["lr"] = defaults["lr"]
    return made


def _check_kind(group: Dict[str, Any]) -> None:
    """Whether a group that the caller gives has the settings of its rule alone."""
    uses = group.get("use_muon", True)
    if uses not in (True, False):
        raise ValueError(f"use_muon: {uses!r} is neither True nor False")
    for key in group:
        if uses and key == "betas":
            raise ValueError("betas is in a group whose parameters are matrices: give the group use_muon=False, or leave "
                             "betas out")
        if not uses and key in _MUON:
            raise ValueError(f"{key} is in a group with use_muon=False, which AdamW steps: leave it out, or give it to a "
                             "group of matrices")
        if str(key).startswith("adamw_"):
            raise ValueError(f"{key} is in a group, and is for groups that have none: give the group {key[6:]} and "
                             "use_muon=False")


def _check_whole(group: Dict[str, Any]) -> None:
    """Whether a group that is there has the settings of its rule, which is not another than it was made for."""
    uses = bool(group.get("use_muon", True))
    if group.get("amsgrad"):
        raise ValueError("amsgrad=True is not supported" + (", nor has Muon a v: leave it out" if uses else ": torch.optim.AdamW "
                         "has it"))
    for key in ("nesterov", "ns_coefficients", "ns_steps", "adjust_lr_fn") if uses else ("betas",):
        if key not in group:
            raise ValueError(f"{key} is missing in a group with use_muon={uses}: use_muon cannot be changed, since what steps a "
                             "group is fixed when it is made; and the groups of a dict that is loaded have all settings")


def _take_names(group: Dict[str, Any]) -> None:
    """Pairs of names and parameters, which torch takes since 2.6."""
    given = group.get("params")
    if isinstance(given, (Tensor, set)) or given is None:
        return
    group["params"] = params = list(given)
    if params and all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in params):
        group["param_names"] = [name for name, _ in params]
        group["params"] = [parameter for _, parameter in params]


def _as_it_is(given: Any) -> Any:
    """A setting that stays what it is, where a list, or one in it, may be changed in place."""
    try:
        hash(given)  # tuples without lists stay: each step looks at all of them
    except TypeError:
        return tuple(map(_as_it_is, given)) if isinstance(given, (list, tuple)) else given
    return given


def _triples(given: Any, steps: int) -> Tuple[_Triple, ...]:
    """A triple for each step."""
    rows = given if isinstance(given, (tuple, list)) else [given]
    if len(rows) == 3 and all(is_number(one) and not isinstance(one, Tensor) for one in rows):
        rows = [rows] * steps
    elif len(rows) != steps or not steps:
        raise ValueError(f"ns_coefficients: {given!r:.80} is neither three numbers nor a list of {steps} triples, one for "
                         f"each of ns_steps={steps}")
    for k, row in enumerate(rows):
        if (not isinstance(row, (tuple, list)) or len(row) != 3 or not all(map(is_number, row))
                or not all(abs(float(one)) <= torch.finfo(torch.float32).max for one in row)):
            raise ValueError(f"ns_coefficients: the triple of step {k} is {row!r:.80}, and three numbers that are finite in "
                             "f32 are needed")
    return tuple((float(a), float(b), float(c)) for a, b, c in rows)


# ---- matrices


class _Slice(NamedTuple):
    """A matrix of a parameter: its first element there, its sides, and where its elements are, as struct
    ptx_muon_spread has it."""

    first: int
    rows: int
    columns: int
    run: int = 0
    stride: int = 0

    def below(self, line: int, width: int) -> int:
        """How many of its rows are above row `line` of the parameter, whose rows have `width` elements."""
        if self.columns != width:  # columns of all rows
            return min(line, self.rows)
        run = self.run or self.rows * self.columns
        turns, rest = divmod(max(0, line * width - self.first), self.stride or run)
        return min(self.rows, (turns * run + min(rest, run)) // width)


def _shape_of(group: Dict[str, Any], parameter: Tensor, what: str) -> Tuple[int, int, int]:
    """How many matrices are in a batch, 0 where it is none; rows and columns of one."""
    shape = tuple(parameter.shape)
    if len(shape) == 2 or len(shape) == 4 or len(shape) == 3 and group.get("of_3d") == "convolution":
        return 0, shape[0], math.prod(shape[1:])
    if len(shape) == 3 and group.get("of_3d") == "batch":
        return shape
    if len(shape) == 3:
        raise ValueError(f"{what} of shape {shape} has three dimensions: of_3d=\"batch\" in its group takes it for "
                         f"{shape[0]} matrices of {shape[1]} x {shape[2]}, of_3d=\"convolution\" for one of {shape[0]} x "
                         f"{shape[1] * shape[2]}")
    kind = "a scalar" if not shape else "a vector" if len(shape) == 1 else f"of {len(shape)} dimensions"
    raise ValueError(f"{what} of shape {shape} is {kind}, and no matrix: put it into a group with use_muon=False")


def _matrices(group: Dict[str, Any], parameter: Tensor, what: str, name: Optional[str]) -> List[Piece]:
    """The matrices of a parameter, or what of them is on this rank."""
    here, shape = local(parameter), tuple(parameter.shape)
    batch, rows, columns = _shape_of(group, parameter, what)
    over = rows_of(parameter, what)
    slices = _slices(group, shape, what, name) or [_Slice(0, rows, columns)]
    for one in slices:
        _check_sides(one.rows, one.columns, what)
    begin, end = (0, shape[0]) if over is None else over.spans[over.rank]
    if not here.numel():
        return [Piece(0, 0, max(columns, 1), 0, whole_rows=rows if over is not None and not batch else 0)]
    in_rows = here.is_contiguous() if batch else end - begin == 1 or here.stride(0) * (end - begin) == here.numel()
    if not in_rows:
        raise ValueError(f"{what} of shape {shape} does not lie row by row in memory: its strides are {here.stride()}. "
                         "Give Muon a parameter that is contiguous")
    if batch:  # whole matrices, whichever are here
        return [Piece((k - begin) * rows * columns + one.first, one.rows * one.columns, one.columns,
                      k * rows * columns + one.first, number, run=one.run, stride=one.stride)
                for k in range(begin, end) for number, one in enumerate(slices, k * len(slices))]
    spans, mine = ([(0, shape[0])], 0) if over is None else (over.spans, over.rank)
    of_ranks = [[_piece(one, number, columns, *span, over is not None, what) for span in spans]  # all refuse alike
                for number, one in enumerate(slices)]
    return [piece for pieces in of_ranks for piece in pieces[mine]]


def _piece(one: _Slice, number: int, width: int, begin: int, end: int, is_cut: bool, what: str) -> List[Piece]:
    """What the parameter's rows `begin` to `end`, of `width` elements, have of a matrix."""
    low, high = one.below(begin, width), one.below(end, width)
    if low == high:
        return []
    start, elements, run, stride = low * one.columns, (high - low) * one.columns, one.run, one.stride
    within = start % run if run else 0
    at = one.first + (start // run * stride + within if run else start) - begin * width
    if within + elements <= run and within:
        run = stride = 0  # part of one run
    elif within:
        raise ValueError(f"{what}: matrix {number} of `heads` has strided rows, and the rows of a rank begin within a run "
                         f"of them, at row {begin}: shard the parameter where runs begin, or give Muon ranges without strides")
    return [Piece(at, elements, one.columns, one.first, number, start, one.rows if is_cut else 0, run, stride)]


def _check_sides(rows: int, columns: int, what: str) -> None:
    if min(rows, columns) > _c.PTX_MUON_MOST_ROWS:
        raise ValueError(f"{what} has a matrix of {rows} x {columns}, whose smaller side is above "
                         f"{_c.PTX_MUON_MOST_ROWS}: put it into a group with use_muon=False")
    if max(rows, columns) > _c.PTX_MUON_MOST_COLUMNS:
        raise ValueError(f"{what} has a matrix of {rows} x {columns}, with a side above {_c.PTX_MUON_MOST_COLUMNS}: put it "
                         "into a group with use_muon=False")


def _slices(group: Dict[str, Any], shape: Tuple[int, ...], what: str, name: Optional[str]) -> List[_Slice]:
    """The matrices that `heads` makes of a parameter, or of each in a batch; none: it is one."""
    heads = group.get("heads")
    if callable(heads):
        if name is None:
            raise ValueError(f"{what} has no name, and `heads` is a function of names: give the optimizer "
                             "model.named_parameters()")
        try:
            heads = heads(name, shape)
        except Exception as error:  # the caller's own, which stays as it is
            note = f"`heads` of {what}"
            with contextlib.suppress(Exception):  # Python has notes since 3.11, and an error may refuse them
                if note not in getattr(error, "__notes__", ()):
                    getattr(error, "add_note")(note)
            raise
    if heads is None or 0 in shape:
        return []
    if len(shape) == 3 and group.get("of_3d") == "batch":
        shape = shape[1:]
    if len(shape) != 2:
        raise ValueError(f"{what} of shape {shape} has {len(shape)} dimensions, and `heads` is for parameters with two, and with "
                         "three of of_3d=\"batch\": give it a group of its own without heads, or make `heads` a function of "
                         "names that returns None for it")
    if hasattr(heads, "__index__") and not isinstance(heads, bool):
        heads = _equal(operator.index(heads), shape, bool(group.get("in_by_out")), what)
    if not isinstance(heads, (list, tuple)):
        raise ValueError(f"{what}: `heads` gives {heads!r:.80}, and a number of matrices, a list of ranges or None is "
                         "needed")
    ranges = [_range(one, what) for one in heads]
    made = (_c.ptx_muon_range * len(ranges))(*[_c.ptx_muon_range(*one) for one in ranges])
    slices, count = (_c.ptx_muon_slice * (len(ranges) + 1))(), _c.c_size_t()
    try:
        check(c.ptx_muon_slices(*shape, made, len(ranges), group.get("uncovered") == "matrix", slices, byref(count)))
    except InvalidError as error:
        words = str(error).split(": ", 1)[-1]  # without the call's name
        if words.endswith("as one matrix"):
            words += ', uncovered="matrix"'
        raise ValueError(f"{what}, `heads`: {words}") from None
    return [_Slice(one.first, one.count // one.columns, one.columns, one.spread.run, one.spread.stride)
            for one in slices[:count.value]]


def _equal(count: int, shape: Tuple[int, ...], columns: bool, what: str) -> List[MatrixRange]:
    """So many equal matrices, of rows, or of columns where weights are stored in x out."""
    lines, kind = (shape[1], "columns") if columns else (shape[0], "rows")
    if count < 1 or lines % count:
        raise ValueError(f"{what} of shape {shape} has {lines} {kind}, which are not {count} equal matrices, as `heads` says")
    each = lines // count
    return [MatrixRange(k * each, each, columns=columns) for k in range(count)]


def _range(given: Any, what: str) -> MatrixRange:
    try:
        one = MatrixRange(*given)
        first, run, stride = map(operator.index, one[:3])
    except TypeError:
        raise ValueError(f"{what}: {given!r:.80} of `heads` is no range: MatrixRange(first, run) is needed") from None
    if min(first, run, stride) < 0 or max(first, run, stride) > _MOST or one.columns not in (True, False):
        raise ValueError(f"{what}: {given!r:.80} of `heads` is no range: first, run and stride are not negative and below "
                         "2^63, and columns is True or False")
    return MatrixRange(first, run, stride, bool(one.columns))


# ---- torch's two dicts


def _apart(made: Dict[str, Any], muon: bool) -> Dict[str, Any]:
    """The dict of one of torch's optimizers, from that of both."""
    groups: List[Dict[str, Any]] = []
    places: Dict[Any, int] = {}
    for k, group in enumerate(made["param_groups"]):
        if bool(group["use_muon"]) is not muon:
            continue
        one = {key: value for key, value in group.items() if key != "use_muon"}
        one["params"] = [places.setdefault(key, len(places)) for key in group["params"]]
        if muon:
            triples = set(_triples(one["ns_coefficients"], one["ns_steps"]))
            if len(triples) > 1:
                raise ValueError(f"group {k} has a list of {len(triples)} different triples in ns_coefficients, and "
                                 "torch.optim.Muon has one for all steps: its states cannot go to torch. state_dict() "
                                 "without a format has them")
            one["ns_coefficients"] = next(iter(triples), tuple(one["ns_coefficients"]))
        groups.append(one if muon else {**_TORCHS, **one})
    state = {places[key]: ({name: value for name, value in states.items() if name != "step"} if muon else states)
             for key, states in made["state"].items() if key in places}
    return {"state": state, "param_groups": groups}


def _joined(given: Dict[str, Any], kinds: List[bool]) -> Dict[str, Any]:
    """One dict from those of torch's Muon and AdamW, for groups of these kinds."""
    parts = {True: given.get("muon"), False: given.get("adamw")}
    for kind, name in ((True, "muon"), (False, "adamw")):
        one = parts[kind]
        if one is not None:
            check_parts(one, f"the dict {name!r}")
        has = 0 if one is None else len(one["param_groups"])
        if has != kinds.count(kind):
            raise ValueError(f"the dict {name!r} has {has} groups, and the optimizer {kinds.count(kind)} with "
                             f"use_muon={kind}")
        if one is not None:
            check_keys(one["state"], one["param_groups"], one["param_groups"], f"the dict {name!r}: ")
    state: Dict[Any, Any] = {}
    groups: List[Dict[str, Any]] = []
    waiting = {kind: iter(one["param_groups"] if one else ()) for kind, one in parts.items()}
    for kind in kinds:
        group, of = next(waiting[kind]), parts[kind]
        taken = sum(len(one["params"]) for one in groups)
        places = {key: taken + k for k, key in enumerate(group["params"])}
        state.update({places[key]: states for key, states in of["state"].items() if key in places})  # type: ignore[index]
        groups.append({**group, "use_muon": kind, "params": list(places.values())})
    return {"state": state, "param_groups": groups}
