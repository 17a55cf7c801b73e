# SPDX-License-Identifier: MIT
"""Parameters by their places in an optimizer's groups, and dicts of states that are for others."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

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


def _parts(given: Dict[str, Any]) -> Iterator[Tuple[str, Any, Any]]:
    """Each part of a dict with its name and what it must be."""
    yield "state", given["state"], (dict,)
    for key in ("guards", "fp8"):
        if given.get(key) is not None:
            yield key, given[key], (dict, Mapping)
    yield "param_groups", given["param_groups"], (list, tuple)
    for g, group in enumerate(given["param_groups"]):
        yield f"param_groups[{g}]", group, (dict,)
        yield f"param_groups[{g}]['params']", group.get("params"), (list, tuple)
        for k, key in enumerate(group["params"]):
            yield f"param_groups[{g}]['params'][{k}]", key, (int, str)
        for flag in _FLAGS:
            if isinstance(group.get(flag), Tensor):
                yield f"param_groups[{g}]['{flag}']", group[flag], (bool,)


def check_parts(given: Any, what: str) -> None:
    """Whether a dict has the parts that state_dict() gives. What is in its states is looked at with the parameters."""
    if not isinstance(given, dict):
        raise TypeError(f"{what}: what state_dict() gives is needed, not {given!r:.80}")
    for key in ("state", "param_groups"):
        if key not in given:
            raise KeyError(f"{what}: there is no {key} in it, and what state_dict() gives is needed")
    for name, part, kinds in _parts(given):
        if not isinstance(part, kinds):
            raise TypeError(f"{what}: {name} is of type {type(part).__name__}, not {kinds[0].__name__}: what state_dict() "
                            "gives is needed")


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


def _kind_of(state_dict: Dict[str, Any]) -> Optional[str]:
    """Which optimizer a dict seems to be of, or its groups; None: not known."""
    group = next(iter(state_dict.get("param_groups") or ()), None)
    if not isinstance(group, dict):
        return None
    if "rule" in group:
        return "rule " + str(group["rule"]).split(",")[0]
    states = {name for states in state_dict.get("state", {}).values() if isinstance(states, dict) for name in states}
    if "exp_inf" in states:
        return "Adamax"
    if group.get("amsgrad"):
        return _AMSGRAD
    kinds = [kind for key, kind in _KINDS.items() if key in group]
    if not kinds and "betas" in group:
        kinds = [kind for key, kind in (("eps", "Lion"), ("weight_decay", "SparseAdam")) if key not in group]
        kinds += ["RAdam"] if "foreach" in group and ("decoupled_weight_decay" in group or "exp_avg_sq" in states) else []
    return kinds[0] if kinds else None


def _taker_of(kind: str) -> str:
    """The optimizer that takes the dicts of a kind."""
    if kind.startswith("rule "):
        return "ptxgen.torch.Optimizer with that rule"
    if kind in _RULES:
        return f"ptxgen.torch.Optimizer with ptxgen.optimizers.{_RULES[kind]}"
    return ("ptxgen.torch." if kind in _OURS else "torch.optim.") + kind


@contextlib.contextmanager
def of_kind(state_dict: Dict[str, Any], own: List[Dict[str, Any]]) -> Iterator[None]:
    """Of a refused dict that seems to be of another optimizer than that of the groups, says this in place of what is
    missing, and what takes it; where nothing else says so."""
    try:
        yield
    except (KeyError, ValueError) as error:
        theirs, ours = _kind_of(state_dict), _kind_of({"param_groups": own})
        if (theirs is None or ours is None or theirs == ours or type(error) not in (KeyError, ValueError)
                or len(error.args) != 1):  # others are a hook's
            raise
        if str(error.args[0]).startswith("the dict is of rule" if theirs != "AdamW or Adam" else "the dict is of"):
            raise
        kind = KeyError if isinstance(error, KeyError) else ValueError
        if ours.startswith("rule "):
            raise kind(f"the dict seems to be of {theirs}, and that of {ours} is needed: {error.args[0]}") from None
        raise kind(f"the dict seems to be of {theirs}, and that of {ours} is needed: load it into {_taker_of(theirs)}, or let "
                   "this optimizer begin without it") from error


@contextlib.contextmanager
def of_parameter(group: int, k: int, remedy: str = ": load the state_dict() of an optimizer over the same "
                  "parameters") -> Iterator[None]:
    """Names the parameter whose states were refused."""
    try:
        yield
    except (KeyError, ValueError) as error:
        kind = KeyError if isinstance(error, KeyError) else ValueError
        raise kind(f"parameter {k} of group {group}: {error.args[0]}{remedy}") from None
