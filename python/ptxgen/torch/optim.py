# SPDX-License-Identifier: MIT
"""torch.optim's AdamW, Adam and SGD, and Lion, through step plans: clipping, the optimizer's step and
what a GradScaler asks for in three launches."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from itertools import chain
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.optim import optimizer as _module

from . import _formats, _ranks
from ._engine import Engine, is_number, limit_of

_profiling = getattr(torch.autograd, "_profiler_enabled", lambda: True)
# torch.compile breaks its graph at a step; as torch.optim's methods, without an import at import time.
_uncompiled: Callable[[Any], Any] = getattr(torch, "_disable_dynamo", lambda function: function)


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """Optimizer.profile_hook_step, which torch puts around step(), without a range for the profiler
    where there is no profiler: the range takes longer than the step."""

    @functools.wraps(step)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _profiling():
            with torch.autograd.profiler.record_function(f"Optimizer.step#{type(self).__name__}.step"):
                return with_hooks(self, *args, **kwargs)
        return with_hooks(self, *args, **kwargs)

    def with_hooks(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = getattr(self, "_optimizer_step_pre_hooks", {})
        everywhere = getattr(_module, "_global_optimizer_pre_hooks", {})
        if before or everywhere:
            for hook in chain(everywhere.values(), before.values()):
                result = hook(self, (self, *args), kwargs)
                if result is None:
                    continue
                if not isinstance(result, tuple) or len(result) != 2:
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), "
                                       f"but got {result}.")
                (_, *args), kwargs = result
        out = step(self, *args, **kwargs)
        after = getattr(self, "_optimizer_step_post_hooks", {})
        everywhere = getattr(_module, "_global_optimizer_post_hooks", {})
        if after or everywhere:
            for hook in chain(after.values(), everywhere.values()):
                hook(self, (self, *args), kwargs)
        return out

    outside: Callable[..., Any] = _uncompiled(wrapper)
    outside.hooked = True  # type: ignore[attr-defined]
    return outside


class _Kept:
    """States on their way through torch's load_state_dict, which would cast them to the parameter's
    type."""

    def __init__(self, states: Dict[str, Any]) -> None:
        self.states = states


def _places(groups: List[Dict[str, Any]]) -> Iterator[Tuple[int, int, Tensor, Dict[str, Any]]]:
    """Each parameter, with its group's number, its own there, and the group."""
    for g, group in enumerate(groups):
        for k, parameter in enumerate(group["params"]):
            yield g, k, parameter, group


@contextlib.contextmanager
def _of_parameter(group: int, k: int) -> Iterator[None]:
    """Names the parameter whose states were refused."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"parameter {k} of group {group}: {error}: load the state_dict() of an optimizer over "
                         "the same parameters") from None


class Stepped(torch.optim.Optimizer):
    """What the optimizers share.

    max_grad_norm: the norm that gradients are clipped to in the step, None for neither norm nor
    clipping; it may be changed between steps. state_dtype: docs/python.md has the table. seed: of the
    random bits of "bf16" and "8bit". process_group: the ranks that have a part each of what the
    parameters stand for, for those that are no DTensors."""

    _names: Tuple[str, ...]  # of the states
    _numbers: Dict[str, int]  # the groups' keys, and how many numbers each is

    def _set(self, max_grad_norm: Optional[float], state_dtype: str, seed: int,
             process_group: Optional[Any]) -> None:
        if state_dtype not in _formats.STATE_DTYPES:
            raise ValueError(f"state_dtype: {state_dtype!r} is none of "
                             f"{', '.join(_formats.STATE_DTYPES)}")
        limit_of(max_grad_norm)
        if not hasattr(seed, "__index__") or not 0 <= operator.index(seed) < 1 << 64:
            raise ValueError(f"seed: {seed!r} is not an integer in 0 to 2^64 - 1")
        if process_group is not None:
            _ranks.ranks_of(process_group)
        self.max_grad_norm = max_grad_norm
        self.state_dtype, self.seed = state_dtype, operator.index(seed)
        self.process_group = process_group
        self._step_supports_amp_scaling = True
        for group in self.param_groups:
            self._check(group)

    def _check(self, group: Dict[str, Any]) -> None:
        """Whether the group's settings are numbers, and what plans do."""
        for key in ("amsgrad", "differentiable"):
            if group.get(key):
                raise ValueError(f"{key}=True is not supported: use torch.optim.{type(self).__name__}")
        for key, kind in self._numbers.items():
            value = group.get(key)
            one_each = value if kind == 2 and isinstance(value, (tuple, list)) else [value]
            if len(one_each) != kind or not all(map(is_number, one_each)):
                raise ValueError(f"{key}: {'a pair of numbers' if kind == 2 else 'a number'} is needed in "
                                 f"each group of {type(self).__name__}, not {value!r}")
        for p in group["params"]:
            if p.is_complex() or p.is_sparse:
                raise ValueError(f"a {'complex' if p.is_complex() else 'sparse'} parameter is not "
                                 f"supported: use torch.optim.{type(self).__name__}")

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if hasattr(self, "state_dtype"):
            try:
                self._check(self.param_groups[-1])
            except ValueError:
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
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._engine().step(self)
        return loss

    @property
    def grad_norm(self) -> Optional[Tensor]:
        """The norm of the last step's gradients, unscaled, before clipping, on the device; the next
        step overwrites it. None without max_grad_norm, and before the first step."""
        return self._engine().grad_norm()

    @property
    def found_inf(self) -> Optional[Tensor]:
        """Whether the last step found NaN or infinity in its gradients, and so did nothing: 1.0 or 0.0
        on the device. None without max_grad_norm, and before the first step."""
        given = self.__dict__.get("_amp_found_inf")
        return given if given is not None else self._engine().found_inf()

    @found_inf.setter
    def found_inf(self, value: Optional[Tensor]) -> None:
        self.__dict__["_amp_found_inf"] = value  # GradScaler.step()

    @found_inf.deleter
    def found_inf(self) -> None:
        self.__dict__.pop("_amp_found_inf", None)

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        """The rule of a group, and what of it a plan is made for: maximize, nesterov, momentum; whether
        no plan can be."""
        raise NotImplementedError

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        """beta1, beta2, eps, weight_decay, momentum, dampening."""
        raise NotImplementedError

    def _names_of(self, group: Dict[str, Any]) -> Tuple[str, ...]:
        """The states that parameters of the group have."""
        return self._names

    # ---- states

    def state_dict(self, *, format: Optional[str] = None) -> Dict[str, Any]:
        """As torch's. format="torch": states as torch.optim's optimizer of the same name has them."""
        if format not in (None, "torch"):
            raise ValueError(f"format: {format!r} is not 'torch'")
        made: Dict[str, Any] = super().state_dict()
        if format is None:
            made["state"] = {k: dict(v) if isinstance(v, dict) else v for k, v in made["state"].items()}
            return made
        on_device = {k: bool(group.get("fused") or group.get("capturable"))
                     for group in made["param_groups"] for k in group["params"]}
        made["state"] = {k: _formats.to_torch(v, self._names, on_device.get(k, False))
                         for k, v in made["state"].items()}
        return made

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes a state_dict() of an optimizer here, in any format, or of torch.optim's. After an error
        everything is as before."""
        if not isinstance(state_dict, dict):
            raise TypeError(f"state_dict: what state_dict() gives is needed, not {state_dict!r:.80}")
        before = {key: self.__dict__[key] for key in ("state", "param_groups")}
        try:
            self._load(state_dict)
        except BaseException:
            self.__dict__.update(before)
            raise

    def _load(self, state_dict: Dict[str, Any]) -> None:
        def keep(self: Any, given: Dict[str, Any]) -> Dict[str, Any]:
            return {**given, "state": {k: _Kept(v) if isinstance(v, dict) else v
                                       for k, v in given["state"].items()}}

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
        made = dict(super().__getstate__())
        for key in ("max_grad_norm", "state_dtype", "seed", "_step_supports_amp_scaling"):
            made[key] = getattr(self, key)
        return made

    def __setstate__(self, state: Dict[str, Any]) -> None:
        kept = {k: v.states for k, v in state["state"].items() if isinstance(v, _Kept)}
        for k, v in kept.items():
            state["state"][k] = dict(v)
        self.__dict__.setdefault("process_group", None)
        for g, k, parameter, _ in _places(state["param_groups"]):
            with _of_parameter(g, k):
                self._check_states(state["state"].get(parameter, {}), parameter in kept)
        super().__setstate__(state)
        for group in self.param_groups:
            self._check(group)
        for g, k, parameter, group in _places(self.param_groups):
            if parameter in kept:
                with _of_parameter(g, k):
                    self.state[parameter] = self._adopted(parameter, kept[parameter], group)
        self.__dict__.pop("_ptxgen_engine", None)

    def _check_states(self, states: Any, loaded: bool) -> None:
        """What torch's optimizers look at before states are adopted."""
        if not isinstance(states, dict):
            raise ValueError(f"its states are a {type(states).__name__}, and no dict")
        if not loaded or not states:
            return
        if states.get("step") is not None:
            _formats.check_count(states["step"])
        elif "exp_avg_sq" in self._names:
            raise ValueError(f"there is no step among its states, which are {', '.join(map(str, states))}")

    def _adopted(self, parameter: Tensor, states: Dict[str, Any], group: Dict[str, Any]) -> Any:
        """Loaded states, as tensors of this optimizer's own. The parameter may be loaded later."""
        fmt = _formats.format_of(parameter, self.state_dtype)
        with torch.no_grad():
            own = {k: v.clone() if isinstance(v, Tensor) else v for k, v in states.items()}
            return _formats.adopt(parameter, own, fmt, self._names_of(group), now=False)



_Rate = Union[float, Tensor]
_Params = Iterable[Any]


class _Adam(Stepped):
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
    """torch.optim.AdamW, with the arguments of all optimizers here: see Stepped."""

    def __init__(self, params: _Params, lr: _Rate = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
                 max_grad_norm: Optional[float] = None, state_dtype: str = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, **torch_options: Any) -> None:
        self._check({"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "params": []})
        torch.optim.AdamW.__init__(self, params, lr, betas, eps, weight_decay, amsgrad,
                                   **torch_options)
        self._set(max_grad_norm, state_dtype, seed, process_group)


class Adam(_Adam, torch.optim.Adam):
    """torch.optim.Adam, with the arguments of all optimizers here: see Stepped."""

    def __init__(self, params: _Params, lr: _Rate = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
                 max_grad_norm: Optional[float] = None, state_dtype: str = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, **torch_options: Any) -> None:
        self._check({"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "params": []})
        torch.optim.Adam.__init__(self, params, lr, betas, eps, weight_decay, amsgrad, **torch_options)
        self._set(max_grad_norm, state_dtype, seed, process_group)


class SGD(Stepped, torch.optim.SGD):
    """torch.optim.SGD, with the arguments of all optimizers here: see Stepped. Its states have a
    `step`, too: the first step is that without a momentum buffer, so momentum that starts later counts
    from 0."""

    _names = ("momentum_buffer",)
    _numbers = {"lr": 1, "momentum": 1, "dampening": 1, "weight_decay": 1}

    def __init__(self, params: _Params, lr: _Rate = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float = 0, nesterov: bool = False, *,
                 max_grad_norm: Optional[float] = None, state_dtype: str = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, **torch_options: Any) -> None:
        self._check({"lr": lr, "momentum": momentum, "dampening": dampening,
                     "weight_decay": weight_decay, "params": []})
        torch.optim.SGD.__init__(self, params, lr, momentum, dampening, weight_decay, nesterov,
                                 **torch_options)
        self._set(max_grad_norm, state_dtype, seed, process_group)

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        return ("sgd", bool(group.get("maximize")), bool(group["nesterov"]), group["momentum"] != 0)

    def _names_of(self, group: Dict[str, Any]) -> Tuple[str, ...]:
        return self._names if group["momentum"] != 0 else ()

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        return (0.0, 0.0, 0.0, float(group["weight_decay"]), float(group["momentum"]),
                float(group["dampening"]))


class Lion(Stepped):
    """Lion (Chen et al. 2023), with the arguments of all optimizers here: see Stepped."""

    _names = ("exp_avg",)
    _numbers = {"lr": 1, "betas": 2, "weight_decay": 1}

    def __init__(self, params: _Params, lr: _Rate = 1e-4, betas: Tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False,
                 max_grad_norm: Optional[float] = None, state_dtype: str = "float32", seed: int = 0,
                 process_group: Optional[Any] = None) -> None:
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
        self._set(max_grad_norm, state_dtype, seed, process_group)

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        return "lion", bool(group["maximize"]), False, False

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return float(beta1), float(beta2), 0.0, float(group["weight_decay"]), 0.0, 0.0
