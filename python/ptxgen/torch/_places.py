# SPDX-License-Identifier: MIT
"""Parameters by their places in an optimizer's groups, and dicts of states that are for others."""

from __future__ import annotations

import contextlib
from typing import Any, Collection, Dict, Hashable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from torch import Tensor


def places(groups: List[Dict[str, Any]]) -> Iterator[Tuple[int, int, Tensor, Dict[str, Any]]]:
    """Each parameter, with its group's number, its own there, and the group."""
    for g, group in enumerate(groups):
        for k, parameter in enumerate(group["params"]):
            yield g, k, parameter, group


def with_own(groups: List[Dict[str, Any]], own: List[Dict[str, Any]], names: Tuple[str, ...]) -> List[Dict[str, Any]]:
    """Loaded groups with the settings of those that there are, of these names: they are no part of a dict."""
    if len(groups) != len(own):
        return groups  # torch says so
    return [{**{k: v for k, v in group.items() if k not in names},
             **{k: v for k, v in mine.items() if k in names}} for group, mine in zip(groups, own)]


def listed(names: Iterable[Any], most: int = 80) -> str:
    """Names for a message, as many as fit, and how many more there are."""
    made = list(map(str, names))
    length, end = 0, 0
    while end < len(made) and (not end or length + len(made[end]) <= most):
        length += len(made[end]) + 2
        end += 1
    more = f" and {len(made) - end} more" if end < len(made) else ""
    return ", ".join(made[:end]) + more


def place_of(key: Any, groups: List[Dict[str, Any]]) -> Tuple[int, int]:
    """Where the parameter that a dict has by this key is: its group's number, its own there."""
    found = ((g, list(group["params"]).index(key)) for g, group in enumerate(groups)
             if key in group["params"])
    return next(found, (0, 0))


_FLAGS = ("amsgrad", "differentiable", "maximize", "nesterov", "use_muon")


def _parts(given: Dict[str, Any]) -> Iterator[Tuple[str, Any, Any, str]]:
    """Each part of a dict with its name, what it must be, and what it is in the dicts of state_dict()."""
    yield "state", given["state"], Mapping, "dict"
    yield "param_groups", given["param_groups"], Sequence, "list"
    for g, group in enumerate(given["param_groups"]):
        yield f"param_groups[{g}]", group, Mapping, "dict"
        yield f"param_groups[{g}]['params']", group.get("params"), Collection, "list"
        for k, key in enumerate(group["params"]):
            yield f"param_groups[{g}]['params'][{k}]", key, Hashable, "int"
        for flag in _FLAGS:
            if isinstance(group.get(flag), Tensor) and group[flag].numel() != 1:
                yield f"param_groups[{g}]['{flag}']", group[flag], bool, "bool"


def check_dict(given: Any, what: str, kind: Any = dict) -> None:
    """Whether it is a dict with states and groups; of what a hook gives, a Mapping."""
    if not isinstance(given, kind):
        raise TypeError(f"{what}: what state_dict() gives is needed, not {given!r:.80}")
    for key in ("state", "param_groups"):
        if key not in given:
            raise KeyError(f"{what}: there is no {key} in it, and what state_dict() gives is needed")


def check_parts(given: Any, what: str = "state_dict") -> None:
    """Whether a dict has parts as state_dict() gives them. What is in its states is looked at with the parameters."""
    check_dict(given, what, Mapping)
    for name, part, kind, usual in _parts(given):
        if not isinstance(part, kind):
            raise TypeError(f"{what}: {name} is of type {type(part).__name__}, not {usual}: what state_dict() gives is needed")


def check_keys(state: Dict[Any, Any], groups: List[Dict[str, Any]], own: List[Dict[str, Any]], what: str = "") -> None:
    """Whether the states of a dict are those of its parameters. torch would keep others, for nobody."""
    keys = [key for group in groups for key in group["params"]]
    if [len(group["params"]) for group in groups] != [len(group["params"]) for group in own]:
        return  # torch says so
    known = set(keys)
    for key, states in state.items():
        if isinstance(states, dict) and key not in known:
            raise ValueError(f"{what}state has the key {key!r}, which is no parameter of param_groups: they have "
                             f"{listed(map(repr, keys))}. Its states would be lost")


def check_has(owner: Any, state_dict: Dict[str, Any]) -> None:
    """Whether the optimizer has that of which the dict has a state."""
    for key in ("guards", "fp8"):
        if state_dict.get(key) and getattr(owner, key) is None:
            raise ValueError(f"state_dict: it has the state of {key}, and the optimizer has no {key} and would ignore it. "
                             f"Give the optimizer {key}=, or take {key!r} out of the dict")


# The key of groups by which an optimizer is known, in this order.
_KINDS = {"use_muon": "Muon", "ns_steps": "Muon", "amsgrad": "AdamW or Adam", "dampening": "SGD", "momentum_decay": "NAdam",
          "centered": "RMSprop", "lr_decay": "Adagrad", "rho": "Adadelta", "lambd": "ASGD", "beta2_decay": "Adafactor",
          "etas": "Rprop", "history_size": "LBFGS"}
_AMSGRAD = "AdamW or Adam with amsgrad=True"
_OURS = ("Muon", "AdamW or Adam", "SGD", "Lion")
_RULES = {"NAdam": "nadam", "RAdam": "radam", "RMSprop": "rmsprop", "Adagrad": "adagrad", _AMSGRAD: "adamw_amsgrad or adam_amsgrad"}
_OPTIONS = {"momentum_decay": 4e-3, "decoupled_weight_decay": False}  # of nadam and radam, and what they are without a word
_OF_SPARSE_ADAM = {"params", "param_names", "lr", "initial_lr", "betas", "eps", "maximize"}
_OF_RADAM = _OF_SPARSE_ADAM | {"weight_decay", "foreach", "capturable", "differentiable", "decoupled_weight_decay"}


def _kind_of(groups: Any, state: Any = None) -> Optional[str]:
    """Which optimizer groups, and states, seem to be of; None: not known."""
    group = next(iter(groups or ()), None)
    if not isinstance(group, dict):
        return None
    if "rule" in group:
        return "rule " + str(group["rule"]).split(",")[0]
    if "use_muon" in group and not any(one.get("use_muon") for one in groups):
        return "AdamW or Adam"
    states = {name for of in (state.values() if isinstance(state, Mapping) else ()) if isinstance(of, dict) for name in of}
    if "exp_inf" in states:
        return "Adamax"
    if group.get("amsgrad"):
        return _AMSGRAD
    kinds = [kind for key, kind in _KINDS.items() if key in group]
    if not kinds and "betas" in group:
        kinds = ["Lion"] if "eps" not in group else ["SparseAdam"] if _OF_SPARSE_ADAM.issuperset(group) else []
        if "decoupled_weight_decay" in group and _OF_RADAM.issuperset(group) and states == {"step", "exp_avg", "exp_avg_sq"}:
            kinds.append("RAdam")
    return kinds[0] if kinds else None


def _taker_of(kind: str, group: Dict[str, Any]) -> str:
    """The optimizer that takes the dicts of a kind with such groups."""
    if kind.startswith("rule "):
        return "ptxgen.torch.Optimizer with that rule"
    if kind not in _RULES:
        return ("ptxgen.torch." if kind in _OURS else "torch.optim.") + kind
    made = "ptxgen.torch.Optimizer with ptxgen.optimizers." + _RULES[kind]
    if kind == "RMSprop":
        return made + "_centered" * bool(group["centered"]) + "_momentum" * bool(group.get("momentum"))
    options = [f"{key}={group[key]!r}" for key, usual in _OPTIONS.items() if group.get(key, usual) != usual]
    return made + (f".with_options({', '.join(options)})" if options and kind != _AMSGRAD else "")


@contextlib.contextmanager
def of_kind(state_dict: Dict[str, Any], own: List[Dict[str, Any]]) -> Iterator[None]:
    """Of a refused dict that seems to be of another optimizer than that of the groups, says this, and what takes it, before
    the reason; where nothing else says so."""
    try:
        yield
    except (KeyError, ValueError) as error:
        groups: Any = state_dict.get("param_groups")
        theirs, ours = _kind_of(groups, state_dict.get("state")), _kind_of(own)
        if (theirs is None or ours is None or theirs == ours or type(error) not in (KeyError, ValueError)
                or len(error.args) != 1):  # others are a hook's
            raise
        if str(error.args[0]).startswith("the dict is of rule" if theirs != "AdamW or Adam" else "the dict is of"):
            raise
        kind = KeyError if isinstance(error, KeyError) else ValueError
        reason = error.args[0]
        if not ours.startswith("rule "):
            reason = f"load it into {_taker_of(theirs, next(iter(groups)))}, or let this optimizer begin without it ({reason})"
        raise kind(f"the dict seems to be of {theirs}, and that of {ours} is needed: {reason}") from None


@contextlib.contextmanager
def of_parameter(group: int, k: int, remedy: str = ": load the state_dict() of an optimizer over the same "
                  "parameters") -> Iterator[None]:
    """Names the parameter whose states were refused."""
    try:
        yield
    except (KeyError, ValueError) as error:
        kind = KeyError if isinstance(error, KeyError) else ValueError
        raise kind(f"parameter {k} of group {group}: {error.args[0]}{remedy}") from None
