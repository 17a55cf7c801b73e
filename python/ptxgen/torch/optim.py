# SPDX-License-Identifier: MIT
"""torch.optim's AdamW, Adam and SGD, and Lion, through step plans: clipping, the optimizer's step and
what a GradScaler asks for in three launches."""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
import operator
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Literal, Optional, Sequence, Tuple,
                    TypeVar, Union)

import torch
from torch import Tensor

from .._types import StepDescription
from . import (_bitsandbytes, _checkpoint, _device, _flashoptim, _formats, _ranks, _shortcuts, _units, fp8 as _fp8, guards as _guards,
               qk_clip as _qk_clip)
from ._engine import Engine
from ._formats import EmaDtype, StateDtype
from ._items import is_number, limit_of
from ._part import Piece
from ._places import check_dict, check_has, check_keys, check_parts, of_kind, of_parameter, place_of, places, with_own
from ._units import Agc
from .fp8 import Float8Weights
from .guards import Guards
from .qk_clip import QKClip
from .reports import Report

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _uncompiled(method: _Function) -> _Function:
    """torch.compile breaks its graph at the method; as torch.optim's, without an import at import time. Eager calls do
    not pay for it."""
    disable: Any = getattr(torch, "_disable_dynamo", None)
    if disable is None:
        return method
    disabled: Any = disable(method)
    if not hasattr(torch.library, "custom_op"):  # before torch 2.4 it is not shown that is_compiling() answers
        return disabled  # type: ignore[no-any-return]

    @functools.wraps(method)
    def outside(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (disabled if torch.compiler.is_compiling() else method)(self, *args, **kwargs)
    return outside  # type: ignore[return-value]


def _in_a_range(step: _Function) -> Any:
    """What torch 1.13 puts around step()."""

    @functools.wraps(step)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.autograd.profiler.record_function(f"Optimizer.step#{type(self).__name__}.step"):
            return step(self, *args, **kwargs)
    return wrapper


def _hooked(step: _Function) -> _Function:
    """step() with what torch puts around it, where a hook or a profiler is there to see it."""
    observed = getattr(torch.optim.Optimizer, "profile_hook_step", _in_a_range)(step)

    @functools.wraps(step)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (step if _shortcuts.unobserved.way(self) else observed)(self, *args, **kwargs)

    outside: Any = _uncompiled(wrapper)
    outside.hooked = True
    return outside  # type: ignore[no-any-return]


class _Kept:
    """States on their way through torch's load_state_dict, which would cast them to the parameter's
    type."""

    def __init__(self, states: Dict[str, Any]) -> None:
        self.states = states


_OF_GROUPS = ("state_dtype", "ema_decay", "agc")  # arguments that torch does not have, and groups may have
_OF_ALL = ("max_grad_norm", "seed", "process_group", "guards", "obey", "reports", "ema_dtype", "fp8", "qk_clip")  # and may not
_WITH_NORM = "After a step with max_grad_norm, grad_norm and found_inf are on the device."
_NO_NORM = "neither norm nor clipping"
_ARGUMENTS = f"""

    Arguments beside torch's, which docs/python.md has with a table of all formats:

    max_grad_norm: a number of at least 0 to which the step clips the norm of all gradients, or None, the
        default: {_NO_NORM}. It may be changed between steps.
    state_dtype: how states are stored:
        "float32", the default: in f32; beside bf16 and f16 parameters an f32 master
        "master": the same
        "remainder": in f32; beside bf16 parameters the lower 16 bits of an f32
        "bf16": in bf16; parameters in 16 bits are rounded stochastically
        "8bit": in 8 bits, as bitsandbytes has them; parameters in 16 bits are rounded stochastically
        "f16": in f16 with a scale for each 256; parameters in 16 bits are rounded stochastically
        "24bit": as FlashOptim has them: in 8 bits with an f16 for each 32, beside parameters in 16 bits 8 more
        A group may have a state_dtype of its own.
    seed: an integer from 0 to 2^64 - 1, of the random bits of "bf16", "8bit" and "f16" with
        parameters in 16 bits; 0 by default.
    process_group: the ranks that have a part each of what the parameters stand for, for those that are
        no DTensors; None, the default, where each rank has all of them.
    guards: ptxgen.torch.Guards(...), which skip steps or clip further; None, the default: none.
    obey: the Guards of clip_grad_norm_(guards=...): a step whose gradients they skip is skipped.
    reports: each step leaves what report() gives. It takes the norm, as max_grad_norm does.
    ema_decay: a number from 0 to 1 with which each step moves an average of the weights, which begins as a copy
        of them: lerp_(p, 1 - ema_decay). It is `ema` among the states; ema_weights() evaluates with it. None, the
        default: no average. It may be changed between steps, and a group may have its own.
    ema_dtype: the average's type: "float32", the default, or "bf16", rounded stochastically.

{_units.HELP}    fp8: ptxgen.torch.Float8Weights(...): each step leaves codes of its weights in float8 and their largest
        magnitudes; None, the default: neither.
    qk_clip: a list of ptxgen.torch.QKClip(parameter, factors, ...): each step multiplies its new rows or columns by
        factors on the device; None, the default: none.

    state_dict(format="torch") is for torch.optim, "flashoptim" for its optimizers; load_state_dict() takes dicts of
    torch.optim's, of bitsandbytes' and of FlashOptim's, too. {_WITH_NORM}"""


class Stepped(torch.optim.Optimizer):
    __doc__ = """What the optimizers share.""" + _ARGUMENTS

    _names: Tuple[str, ...]  # of the states
    _numbers: Dict[str, int]  # the groups' keys, and how many numbers each is
    _refused: Tuple[str, ...] = ("amsgrad", "differentiable")  # what no group may have set
    _of_groups: Tuple[str, ...] = _OF_GROUPS
    _of_all: Tuple[str, ...] = _OF_ALL
    _dicts_of_torch: Tuple[str, ...] = ()  # names of those that are several in a dict, where torch has several optimizers
    _with_flashoptim = False  # whether that package has an optimizer of this rule
    _clips_units = True  # whether groups may have agc
    matrix_memory = 0  # of Muon
    _takes_norm = False  # whether each step takes the norm, whatever the settings

    def _set(self, max_grad_norm: Optional[float], state_dtype: str, seed: int,
             process_group: Optional[Any], guards: Optional[Guards], obey: Optional[Guards],
             reports: bool, ema_decay: Optional[float], ema_dtype: str, fp8: Optional[Float8Weights],
             qk_clip: Optional[Sequence[QKClip]], agc: Optional[Agc] = None) -> None:
        self._check_state_dtype(state_dtype)
        _units.settings(agc)
        self.agc = agc
        if ema_dtype not in _formats.EMA_DTYPES:
            raise ValueError(f"ema_dtype: {ema_dtype!r} is none of {', '.join(_formats.EMA_DTYPES)}")
        self.ema_decay, self.ema_dtype = ema_decay, ema_dtype
        limit_of(max_grad_norm)
        if not hasattr(seed, "__index__") or not 0 <= operator.index(seed) < 1 << 64:
            raise ValueError(f"seed: {seed!r} is not an integer in 0 to 2^64 - 1")
        if process_group is not None:
            _ranks.ranks_of(process_group)
        self.max_grad_norm = max_grad_norm
        self.state_dtype, self.seed = state_dtype, operator.index(seed)
        self.process_group = process_group
        _guards.check("guards", guards)
        _guards.check("obey", obey)
        if guards is not None and guards is obey:
            raise ValueError("guards and obey are one object: `obey` is for guards of clip_grad_norm_()")
        self.guards, self.obey, self.reports = guards, obey, bool(reports)
        _fp8.check(fp8)
        self.fp8 = fp8
        self.qk_clip = _qk_clip.check(qk_clip)
        for one in self.qk_clip:
            one.check([p for group in self.param_groups for p in group["params"]])
        self._step_supports_amp_scaling = True
        for g, group in enumerate(self.param_groups):
            self._check(group)
            self._check_parameters(g)
        self._place_guards()
        if fp8 is not None:
            fp8.bind(self)

    def _place_guards(self) -> None:
        """The state of the guards, on the parameters' device from the start."""
        trained = (p for group in self.param_groups for p in group["params"] if p.requires_grad)
        first = next(trained, None)
        for guards in (self.guards, self.obey) if first is not None else ():
            if guards is not None:
                guards.place(_shortcuts.local(first).device)

    def _check_parameters(self, g: int) -> None:
        """Whether plans can step the parameters of a group, of those that get gradients."""
        group = self.param_groups[g]
        for k, parameter in enumerate(group["params"]):
            if not parameter.requires_grad:
                continue
            why = _device.refusal(_shortcuts.local(parameter), type(self).__name__)
            if why:
                raise ValueError(f"parameter {k} of group {g} {why}")
            with of_parameter(g, k, ""):
                _formats.format_of(parameter, self._state_dtype_of(group))

    def _decay_of(self, group: Dict[str, Any]) -> Optional[float]:
        return group.get("ema_decay", self.__dict__.get("ema_decay"))  # type: ignore[no-any-return,unused-ignore]

    def _agc_of(self, group: Dict[str, Any]) -> Optional[Tuple[float, float]]:
        """The clipping and eps of a group's units; None: they are not clipped."""
        return _units.settings(group.get("agc", self.__dict__.get("agc")))

    def _ema_of(self, group: Dict[str, Any]) -> Optional[torch.dtype]:
        """The type of the averages of a group's weights; None: there are none."""
        return None if self._decay_of(group) is None else _formats.EMA_DTYPES[self.ema_dtype]

    @staticmethod
    def _check_state_dtype(state_dtype: Any) -> None:
        if state_dtype not in _formats.STATE_DTYPES:
            raise ValueError(f"state_dtype: {state_dtype!r} is none of "
                             f"{', '.join(_formats.STATE_DTYPES)}")

    def _state_dtype_of(self, group: Dict[str, Any]) -> str:
        return group.get("state_dtype", self.state_dtype)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        names = ("max_grad_norm", "seed", "state_dtype", *(() if self.ema_decay is None else ("ema_decay", "ema_dtype")),
                 *(() if self.agc is None else ("agc",)))
        own = "".join(f"    {name}: {getattr(self, name)}\n" for name in names)
        return f"{super().__repr__()[:-1]}All Groups\n{own})"

    def _check(self, group: Dict[str, Any]) -> None:
        """Whether the group's settings are numbers, and what plans do."""
        for key in self._refused:
            if group.get(key):
                raise ValueError(f"{key}=True is not supported: {_device.instead(type(self).__name__)}")
        for key in self._of_all:
            if key in group:
                raise ValueError(f"{key} is in a group, and is one for all groups of an optimizer: give it to "
                                 f"{type(self).__name__}(), or make an optimizer for each group")
        self._check_spelling(group)
        if "state_dtype" in group:
            self._check_state_dtype(group["state_dtype"])
        if self._agc_of(group) is not None and not self._clips_units:
            raise ValueError(f"agc is not for {type(self).__name__}, whose update of a matrix has the same length whatever its "
                             "gradient's: leave it out")
        decay = self._decay_of(group)
        if decay is not None and (isinstance(decay, (bool, Tensor)) or not is_number(decay) or not 0 <= float(decay) <= 1):
            raise ValueError(f"ema_decay: {decay!r} is not a number from 0 to 1, or None for no average")
        for key, kind in self._numbers_of(group).items():
            value = group.get(key)
            one_each = value if kind > 1 and isinstance(value, (tuple, list)) else [value]
            if len(one_each) != kind or not all(map(is_number, one_each)):
                wanted = {1: "a number", 2: "a pair of numbers"}.get(kind, f"a tuple of {kind} numbers")
                raise ValueError(f"{key}: {wanted} is needed in each group of {type(self).__name__}, not {value!r}")
        for p in group["params"]:
            if p.is_complex() or p.is_sparse:
                raise ValueError(f"a {'complex' if p.is_complex() else 'sparse'} parameter is not "
                                 f"supported: {_device.instead(type(self).__name__)}")

    def _check_spelling(self, group: Dict[str, Any]) -> None:
        """Refuses keys that are nearly one of ours. Others stay, as torch's do: schedulers have some. So does one
        with all words of ours, and more: max_momentum."""
        known = {"params", "param_names", *self._of_groups, *self._of_all, *self._numbers, *self.__dict__.get("defaults", ())}
        for key in group:
            if not isinstance(key, str) or key in known:
                continue
            for near in difflib.get_close_matches(key, sorted(known), 1, 0.8):
                if not set(near.split("_")) <= set(key.split("_")):
                    raise ValueError(f"{key!r} is in a group, and nothing here reads it: is {near!r} meant? Else give "
                                     "it another name")

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if hasattr(self, "state_dtype"):
            try:
                self._check(self.param_groups[-1])
                self._check_parameters(len(self.param_groups) - 1)
            except Exception:  # a function among the settings may raise any
                self.param_groups.pop()
                raise

    # ---- the step

    def _engine(self) -> Engine:
        found = self.__dict__.get("_ptxgen_engine")
        if found is None:
            found = self.__dict__["_ptxgen_engine"] = Engine()
        return found

    @_hooked
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step. Does not wait for the GPU."""
        self._check_mode("step()")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._engine().step(self)
        return loss

    @_uncompiled
    def accumulate(self) -> None:
        """Adds the gradients of a micro-batch to sums in f32 on the device, in one launch, and sets them to None.
        The next step() adds those that there are then, and takes the step of the sums. Does not wait for the GPU."""
        self._check_mode("accumulate()")
        self._engine().accumulate(self)

    def _check_mode(self, call: str) -> None:
        """Whether the parameters are those to train."""
        self._check_averages(call)

    def _check_averages(self, call: str) -> None:
        if self.__dict__.get("_ptxgen_averaged"):
            raise RuntimeError(f"{call} within ema_weights(), where the parameters are their averages, and get their own "
                               "values back after it: leave it first")

    @property
    def grad_norm(self) -> Optional[Tensor]:
        """The norm of the last step's gradients, unscaled, before clipping, on the device; the next
        step overwrites it. None where steps take no norm, which max_grad_norm asks for, and before the first step."""
        return self._engine().grad_norm()

    @property
    def found_inf(self) -> Optional[Tensor]:
        """Whether the last step found NaN or infinity in its gradients, and so did nothing: 1.0 or 0.0
        on the device. None where steps take no norm, which max_grad_norm asks for, and before the first step."""
        given = self.__dict__.get("_amp_found_inf")
        return given if given is not None else self._engine().found_inf()

    @found_inf.setter
    def found_inf(self, value: Optional[Tensor]) -> None:
        self.__dict__["_amp_found_inf"] = value  # GradScaler.step()

    @found_inf.deleter
    def found_inf(self) -> None:
        self.__dict__.pop("_amp_found_inf", None)

    @property
    def skipped(self) -> Optional[Tensor]:
        """Why the last step was skipped: see Guards.skipped. None without guards."""
        return None if self.guards is None else self.guards.skipped

    def weights_changed(self) -> None:
        """With agc: takes the norms of the weights anew. Needed where torch does not see that something has written
        them: through `.data`, or between replays of a captured step."""
        self._engine().weights_changed()

    def report(self, *, local: bool = False) -> Optional[Report]:
        """Norm, largest magnitude, zeros and first non-finite element of each raw gradient of the last step, norm,
        change and largest magnitude of each parameter, by the names of parameters (their numbers without names), on
        the device. Over ranks of whole parameters: one all-gather, so all ranks call it; with local=True of this
        rank's parts alone. Parameters without a gradient have absent=1. None without reports=True, and before the
        first step."""
        return self._engine().report(self, local)

    def describe(self) -> Tuple[StepDescription, ...]:
        """What the plans of the last step do, one a device, as StepPlan.describe(): launches, bytes, registers, and a
        warning of what makes steps slow. None of them before the first step."""
        return self._engine().describe()

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        """The rule of a group, and what of it a plan is made for: maximize, nesterov, momentum; whether
        no plan can be."""
        raise NotImplementedError

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        """beta1, beta2, eps, weight_decay, momentum, dampening."""
        raise NotImplementedError

    def _all_scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        """These, and ema_decay."""
        decay = self._decay_of(group)
        return (*self._scalars(group), 0.0 if decay is None else float(decay))

    def _hyper(self, lr: float, scalars: Tuple[float, ...]) -> Dict[str, Any]:
        """The fields of a struct ptx_step_hyper, from a rate and what _all_scalars() gives."""
        beta1, beta2, eps, weight_decay, momentum, dampening, ema_decay = scalars
        return {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay,
                "momentum": momentum, "dampening": dampening, "ema_decay": ema_decay}

    def _names_of(self, group: Dict[str, Any]) -> Tuple[str, ...]:
        """The states that parameters of the group have."""
        return self._names

    def _numbers_of(self, group: Dict[str, Any]) -> Dict[str, int]:
        """The numbers that the group must have, as _numbers."""
        return self._numbers

    def _of_rule(self, rule: Tuple[Any, ...]) -> Dict[str, Any]:
        """What a group of a plan has beside its rule, from what _rule() gives."""
        return {}

    def _pieces(self, group: Dict[str, Any], parameter: Tensor, what: str, name: Optional[str]) -> Optional[List[Piece]]:
        """The matrices that a parameter consists of, for a rule that steps matrices. `what` names it in messages."""
        return None

    def _matrices_over_ranks(self, group: Dict[str, Any], parameter: Tensor, what: str, name: Optional[str]) -> List[Any]:
        """Those of a parameter whose rows are on several ranks, each with where they are."""
        return []

    # ---- averages

    @contextlib.contextmanager
    def ema_weights(self) -> Iterator[None]:
        """Within it the parameters have the values of their averages, to evaluate with or to save. Their own come
        back after it, to the bit; a copy of them is kept meanwhile. Parameters without an average, such as those
        that had no step, stay as they are. A step within it is an error."""
        if all(self._decay_of(group) is None for group in self.param_groups):
            raise ValueError("there are no averages of the weights: give ema_decay")
        if self.__dict__.get("_ptxgen_averaged"):
            raise RuntimeError("ema_weights() within ema_weights()")
        pairs = [(p, self.state[p]["ema"]) for group in self.param_groups for p in group["params"]
                 if self.state.get(p, {}).get("ema") is not None]
        with torch.no_grad():
            own = [p.detach().clone() for p, _ in pairs]
            for p, average in pairs:
                p.copy_(average)
        self.__dict__["_ptxgen_averaged"] = True
        try:
            yield
        finally:
            self.__dict__.pop("_ptxgen_averaged")
            with torch.no_grad():
                for (p, _), before in zip(pairs, own):
                    p.copy_(before)

    # ---- states

    def state_dict(self, *, format: Optional[Literal["torch", "flashoptim"]] = None) -> Dict[str, Any]:
        """As torch's. format="torch": states as torch.optim's optimizer of the same name has them; "flashoptim": as
        FlashAdamW, FlashAdam, FlashSGD and FlashLion have them, in 24 bits."""
        if format not in (None, "torch", "flashoptim"):
            raise ValueError(f"format: {format!r} is neither 'torch' nor 'flashoptim'")
        if format == "flashoptim" and not self._with_flashoptim:
            raise ValueError(f"format='flashoptim': FlashOptim has no optimizer of the rule of {type(self).__name__}")
        made: Dict[str, Any] = super().state_dict()
        for group in made["param_groups"]:  # settings of the optimizer, not of a checkpoint
            for key in self._of_groups:
                group.pop(key, None)
        if format is None:
            if self.guards is not None:
                made["guards"] = self.guards.state_dict()
            if self.fp8 is not None:
                made["fp8"] = self.fp8.state_dict()
            made["state"] = {k: _formats.portable(v) if isinstance(v, dict) else v
                             for k, v in made["state"].items()}
            _checkpoint.watch(self._names)
            return made
        if format == "flashoptim":
            return self._for_flashoptim(made)
        on_device = {k: bool(group.get("fused") or group.get("capturable"))
                     for group in made["param_groups"] for k in group["params"]}
        made["state"] = {k: _formats.to_torch(v, self._names, on_device.get(k, False))
                         for k, v in made["state"].items()}
        return made

    def _for_flashoptim(self, made: Dict[str, Any]) -> Dict[str, Any]:
        keys = [key for group in made["param_groups"] for key in group["params"]]
        own = [(p, self._names_of(group)) for group in self.param_groups for p in group["params"]]
        for key, (p, names) in zip(keys, own):
            states = made["state"].get(key)
            if states:
                with torch.no_grad():
                    states = _formats.adopt(p, states, _formats.format_of(p, "24bit"), names)
                made["state"][key] = _flashoptim.given_back(states, names, p.dtype)
        made["param_groups"] = [_flashoptim.group_given_back(group) for group in made["param_groups"]]
        return made

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes a state_dict() of an optimizer here, in any format, of torch.optim's, bitsandbytes' or FlashOptim's.
        After an error everything is as before."""
        if not (isinstance(state_dict, dict) and state_dict and set(state_dict) <= set(self._dicts_of_torch)):
            check_dict(state_dict, "state_dict")
        self._check_averages("load_state_dict()")
        check_has(self, state_dict)
        before = {key: self.__dict__[key] for key in ("state", "param_groups")}
        guards = None if self.guards is None or "guards" not in state_dict else self.guards
        of_guards = None if guards is None else guards.state_dict()
        before["_ptxgen_engine"] = self._engine()  # it has the sums
        try:
            with of_kind(state_dict, self.param_groups):
                self._load(state_dict)
            if guards is not None:
                guards.load_state_dict(state_dict["guards"])
            if self.fp8 is not None and "fp8" in state_dict:
                self.fp8.load_state_dict(state_dict["fp8"])
        except BaseException:
            self.__dict__.update(before)
            if guards is not None and of_guards is not None:
                guards.load_state_dict(of_guards)
            raise

    def _load(self, state_dict: Dict[str, Any]) -> None:
        def keep(self: Any, given: Dict[str, Any]) -> Dict[str, Any]:
            check_parts(given)
            made: Dict[Any, Any] = {}
            groups = with_own(given["param_groups"], self.param_groups, self._of_groups)
            check_keys(given["state"], groups, self.param_groups)
            if any(map(_bitsandbytes.are_theirs, given["state"].values())):
                groups = [_bitsandbytes.group_of(group, self._numbers) for group in groups]
            of_flashoptim = {k for k, states in given["state"].items() if _flashoptim.are_theirs(states)}
            group_of = {key: group for group in groups for key in group["params"]} if of_flashoptim else {}
            if of_flashoptim:
                groups = [_flashoptim.group_of(group) for group in groups]
            for k, states in given["state"].items():
                if k in of_flashoptim:
                    with of_parameter(*place_of(k, groups)):
                        states = _flashoptim.converted(states, self._names, group_of[k])
                if _bitsandbytes.are_theirs(states):
                    with of_parameter(*place_of(k, groups)):
                        states = _bitsandbytes.converted(states, self._names)
                made[k] = _Kept(states) if isinstance(states, dict) else states
            return {**given, "state": made, "param_groups": groups}

        hooks = getattr(self, "_optimizer_load_state_dict_pre_hooks", None)
        if hooks is None:  # before torch 2.1
            super().load_state_dict(keep(self, state_dict))
            return
        handle = self.register_load_state_dict_pre_hook(keep)  # after those of others
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()

    def __getstate__(self) -> Dict[str, Any]:
        self._check_averages("a copy")
        made = dict(super().__getstate__())
        for key in ("max_grad_norm", "state_dtype", "seed", "guards", "obey", "reports", "ema_decay", "ema_dtype", "fp8",
                    "qk_clip", "agc", "matrix_memory", "_step_supports_amp_scaling"):
            made[key] = getattr(self, key)
        return made

    def __setstate__(self, state: Dict[str, Any]) -> None:
        kept = {k: v.states for k, v in state["state"].items() if isinstance(v, _Kept)}
        for k, v in kept.items():
            state["state"][k] = dict(v)
        for key, usual in (("process_group", None), ("guards", None), ("obey", None), ("reports", False),
                           ("ema_decay", None), ("ema_dtype", "float32"), ("fp8", None), ("qk_clip", ()),
                           ("agc", None), ("matrix_memory", 0)):
            self.__dict__.setdefault(key, state.get(key, usual))
        for group in state["param_groups"]:
            self._check(group)
        for g, k, parameter, group in places(state["param_groups"]):
            with of_parameter(g, k):
                self._check_states(state["state"].get(parameter, {}), parameter in kept, group)
        super().__setstate__(state)
        for g, k, parameter, group in places(self.param_groups):
            if parameter in kept:
                with of_parameter(g, k):
                    self.state[parameter] = self._adopted(parameter, kept[parameter], group)
        self._place_guards()
        if self.fp8 is not None and self.fp8.owner is None:
            self.fp8.bind(self)  # of a copy
        self.__dict__["_ptxgen_engine"] = Engine(self.__dict__.get("_ptxgen_engine"))

    def _check_states(self, states: Any, loaded: bool, group: Dict[str, Any]) -> None:
        """Whether loaded states are there, and are this optimizer's, before torch's look at them."""
        if not isinstance(states, dict):
            raise ValueError(f"its states are a {type(states).__name__}, and no dict")
        if not loaded or not states:
            return
        _formats.check_names(states, self._names, self._names_of(group), self._decay_of(group) is not None)
        if states.get("step") is not None:
            _formats.check_count(states["step"])

    def _adopted(self, parameter: Tensor, states: Dict[str, Any], group: Dict[str, Any]) -> Any:
        """Loaded states, as tensors of this optimizer's own. The parameter may be loaded later."""
        if not states:
            return {}
        fmt = _formats.format_of(parameter, self._state_dtype_of(group), self._ema_of(group))
        with torch.no_grad():
            own = {k: v.clone() if isinstance(v, Tensor) else v for k, v in states.items()}
            return _formats.adopt(parameter, own, fmt, self._names_of(group), now=False)


_Rate = Union[float, Tensor]
_Params = Iterable[Any]


def _given(**options: Optional[bool]) -> Dict[str, Any]:
    """Options of torch's that are not as they are without a word: an older torch lacks some."""
    return {name: value for name, value in options.items()
            if value or value is False and name in ("foreach", "fused")}


class _Adam(Stepped):
    _with_flashoptim = True
    _names = ("exp_avg", "exp_avg_sq")
    _numbers = {"lr": 1, "betas": 2, "eps": 1, "weight_decay": 1}

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        decoupled = group.get("decoupled_weight_decay", isinstance(self, torch.optim.AdamW))
        return ("adamw" if decoupled else "adam", bool(group.get("maximize")), False, False,
                bool(group.get("amsgrad")))

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return (float(beta1), float(beta2), float(group["eps"]), float(group["weight_decay"]), 0.0, 0.0)


class AdamW(_Adam, torch.optim.AdamW):
    __doc__ = """torch.optim.AdamW in a few launches.""" + _ARGUMENTS

    def __init__(self, params: _Params, lr: _Rate = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
                 maximize: bool = False, foreach: Optional[bool] = None, capturable: bool = False,
                 differentiable: bool = False, fused: Optional[bool] = None,
                 max_grad_norm: Optional[float] = None, state_dtype: StateDtype = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, guards: Optional[Guards] = None,
                 obey: Optional[Guards] = None, reports: bool = False, ema_decay: Optional[float] = None,
                 ema_dtype: EmaDtype = "float32", fp8: Optional[Float8Weights] = None,
                 qk_clip: Optional[Sequence[QKClip]] = None, agc: Optional[Agc] = None) -> None:
        self._check({"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "params": []})
        torch.optim.AdamW.__init__(self, params, lr, betas, eps, weight_decay, amsgrad, **_given(
            maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable,
            fused=fused))
        self._set(max_grad_norm, state_dtype, seed, process_group, guards, obey, reports, ema_decay,
                  ema_dtype, fp8, qk_clip, agc)


class Adam(_Adam, torch.optim.Adam):
    __doc__ = """torch.optim.Adam in a few launches.""" + _ARGUMENTS

    def __init__(self, params: _Params, lr: _Rate = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
                 maximize: bool = False, foreach: Optional[bool] = None, capturable: bool = False,
                 differentiable: bool = False, fused: Optional[bool] = None,
                 decoupled_weight_decay: bool = False,
                 max_grad_norm: Optional[float] = None, state_dtype: StateDtype = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, guards: Optional[Guards] = None,
                 obey: Optional[Guards] = None, reports: bool = False, ema_decay: Optional[float] = None,
                 ema_dtype: EmaDtype = "float32", fp8: Optional[Float8Weights] = None,
                 qk_clip: Optional[Sequence[QKClip]] = None, agc: Optional[Agc] = None) -> None:
        self._check({"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "params": []})
        torch.optim.Adam.__init__(self, params, lr, betas, eps, weight_decay, amsgrad, **_given(
            maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable,
            fused=fused, decoupled_weight_decay=decoupled_weight_decay))
        self._set(max_grad_norm, state_dtype, seed, process_group, guards, obey, reports, ema_decay,
                  ema_dtype, fp8, qk_clip, agc)


class SGD(Stepped, torch.optim.SGD):
    __doc__ = """torch.optim.SGD in a few launches. Its states have a `step`, too: the first step is that
    without a momentum buffer, so momentum that starts later counts from 0.""" + _ARGUMENTS

    _with_flashoptim = True
    _names = ("momentum_buffer",)
    _numbers = {"lr": 1, "momentum": 1, "dampening": 1, "weight_decay": 1}

    def __init__(self, params: _Params, lr: _Rate = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float = 0, nesterov: bool = False, *,
                 maximize: bool = False, foreach: Optional[bool] = None, differentiable: bool = False,
                 fused: Optional[bool] = None,
                 max_grad_norm: Optional[float] = None, state_dtype: StateDtype = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, guards: Optional[Guards] = None,
                 obey: Optional[Guards] = None, reports: bool = False, ema_decay: Optional[float] = None,
                 ema_dtype: EmaDtype = "float32", fp8: Optional[Float8Weights] = None,
                 qk_clip: Optional[Sequence[QKClip]] = None, agc: Optional[Agc] = None) -> None:
        self._check({"lr": lr, "momentum": momentum, "dampening": dampening,
                     "weight_decay": weight_decay, "params": []})
        torch.optim.SGD.__init__(self, params, lr, momentum, dampening, weight_decay, nesterov, **_given(
            maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused))
        self._set(max_grad_norm, state_dtype, seed, process_group, guards, obey, reports, ema_decay,
                  ema_dtype, fp8, qk_clip, agc)

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        return "sgd", bool(group.get("maximize")), bool(group.get("nesterov")), group.get("momentum") != 0

    def _names_of(self, group: Dict[str, Any]) -> Tuple[str, ...]:
        return self._names if group["momentum"] != 0 else ()

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        return (0.0, 0.0, 0.0, float(group["weight_decay"]), float(group["momentum"]),
                float(group["dampening"]))


class Lion(Stepped):
    __doc__ = """Lion (Chen et al. 2023) in a few launches.""" + _ARGUMENTS

    _with_flashoptim = True
    _names = ("exp_avg",)
    _numbers = {"lr": 1, "betas": 2, "weight_decay": 1}

    def __init__(self, params: _Params, lr: _Rate = 1e-4, betas: Tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False,
                 max_grad_norm: Optional[float] = None, state_dtype: StateDtype = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, guards: Optional[Guards] = None,
                 obey: Optional[Guards] = None, reports: bool = False, ema_decay: Optional[float] = None,
                 ema_dtype: EmaDtype = "float32", fp8: Optional[Float8Weights] = None,
                 qk_clip: Optional[Sequence[QKClip]] = None, agc: Optional[Agc] = None) -> None:
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        self._check({**defaults, "params": []})
        rate = float(lr) if not isinstance(lr, Tensor) or lr.device.type == "cpu" else 0.0
        if not 0 <= rate < math.inf:
            raise ValueError(f"Invalid learning rate: {lr}")
        for k, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid beta parameter at index {k}: {beta}")
        if not 0 <= weight_decay < math.inf:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, defaults)
        self._set(max_grad_norm, state_dtype, seed, process_group, guards, obey, reports, ema_decay,
                  ema_dtype, fp8, qk_clip, agc)

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        return "lion", bool(group.get("maximize")), False, False

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return float(beta1), float(beta2), 0.0, float(group["weight_decay"]), 0.0, 0.0
