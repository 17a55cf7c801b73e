# SPDX-License-Identifier: MIT
"""An optimizer for a rule that is written in Python."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..rules import Rule
from . import _checkpoint, _evaluation, _formats
from ._formats import EmaDtype, StateDtype
from ._places import check_parts
from ._shortcuts import local
from ._units import Agc
from .fp8 import Float8Weights
from .guards import Guards
from .optim import _ARGUMENTS, Stepped
from .qk_clip import QKClip

# The key of torch.optim's groups that says that there is a state of this name.
_OF_STATES = {"max_exp_avg_sq": "amsgrad", "grad_avg": "centered"}
_SET = (*_OF_STATES.values(), "nesterov")  # a rule that says nothing of them is not of groups that have them set


def _label(rule: Rule) -> str:
    """The identity of a rule in a line."""
    known = rule.identity
    states = ", ".join(f"{name} {kind}" for name, kind in known["states"].items()) or "no states"
    return f"{known['name']}, version {known['version']}: {states}" + "".join(f", clock {name}" for name in known["clock"])


class Optimizer(Stepped):
    __doc__ = """An optimizer with a rule of one's own, in a few launches:

        optimizer = ptxgen.torch.Optimizer(model.parameters(), rule, lr=3e-4, max_grad_norm=1.0)

    The rule's scalars are the settings of groups, with its defaults. `maximize` steps along the
    gradient. A rule with an evaluation, such as the schedule-free ones, has two modes: eval() makes the weights
    to evaluate with and to save, train() restores those to train, to the bit; a step in eval mode is an
    error. docs/rules.md has how to write a rule.""" + _ARGUMENTS

    rule: Rule

    def __init__(self, params: Iterable[Any], rule: Rule, *, maximize: bool = False,
                 max_grad_norm: Optional[float] = None, state_dtype: StateDtype = "float32", seed: int = 0,
                 process_group: Optional[Any] = None, guards: Optional[Guards] = None,
                 obey: Optional[Guards] = None, reports: bool = False, ema_decay: Optional[float] = None,
                 ema_dtype: EmaDtype = "float32", fp8: Optional[Float8Weights] = None,
                 qk_clip: Optional[Sequence[QKClip]] = None, agc: Optional[Agc] = None, **scalars: Any) -> None:
        if isinstance(params, Rule):
            raise TypeError(f"params is rule {params.name}: the parameters come first, Optimizer(params, rule)")
        if not isinstance(rule, Rule):
            raise TypeError(f"rule: what @ptxgen.rule makes is needed, not {type(rule).__name__}")
        if "lr" not in rule.scalars:
            raise ValueError(f"rule {rule.name} has no scalar lr, which torch's groups and schedulers have: give it one")
        unknown = [name for name in scalars if name not in rule.scalars]
        if unknown and unknown[0] in rule.options:
            raise TypeError(f"{unknown[0]} is an option of rule {rule.name}: give rule.with_options({unknown[0]}="
                            f"{scalars[unknown[0]]!r}) in place of the rule")
        if unknown:
            raise TypeError(f"rule {rule.name} has no scalar {unknown[0]!r}; it has {', '.join(rule.scalars)}")
        self.__dict__["rule"] = rule
        # A flattened checkpoint has of a group what the optimizer's own groups have.
        defaults = {**rule.scalars, **scalars, "maximize": bool(maximize), **rule.options, "rule": _label(rule)}
        if rule.evaluates:
            defaults["train_mode"] = True
        if rule.evaluates and fp8 is not None:
            raise ValueError(f"fp8 with rule {rule.name}: eval() would leave the codes of the weights to train; leave fp8 out")
        if rule.evaluates and qk_clip:
            raise ValueError(f"qk_clip with rule {rule.name}: eval() and the next step would make the weights of its states, "
                             "which have no factors; leave qk_clip out")
        self._check({**defaults, "params": []})
        super().__init__(params, defaults)
        self._set(max_grad_norm, state_dtype, seed, process_group, guards, obey, reports, ema_decay, ema_dtype,
                  fp8, qk_clip, agc)

    @property
    def _names(self) -> Tuple[str, ...]:  # type: ignore[override]
        found = self.__dict__.get("_own_names")
        if found is None:
            found = self.__dict__["_own_names"] = _formats.Names.of(self.rule)
        return found

    @property
    def _numbers(self) -> Dict[str, int]:  # type: ignore[override]
        return {name: len(usual) if isinstance(usual, tuple) else 1 for name, usual in self.rule.scalars.items()}

    _refused = ("differentiable",)

    def _rule(self, group: Dict[str, Any]) -> Tuple[Any, ...]:
        if self.rule.options:  # which a group may have been given since it was checked
            self._check_keys(group)
        return self.rule, bool(group.get("maximize")), False, False

    def _scalars(self, group: Dict[str, Any]) -> Tuple[float, ...]:
        flat: List[float] = []
        for name, usual in self.rule.scalars.items():
            if name != "lr":
                value = group[name]
                if isinstance(usual, tuple) and (not isinstance(value, (tuple, list)) or len(value) != len(usual)):
                    self._check(group)  # which says what is needed
                flat += map(float, value) if isinstance(usual, tuple) else [float(value)]
        return tuple(flat)

    def _hyper(self, lr: float, scalars: Tuple[float, ...]) -> Dict[str, Any]:
        values, rest = {}, iter(scalars)
        for name, usual in self.rule.scalars.items():
            values[name] = (lr if name == "lr" else tuple(next(rest) for _ in usual) if isinstance(usual, tuple)
                            else next(rest))
        return {**self.rule.hyper(values), "ema_decay": next(rest)}

    def _keys(self) -> Dict[str, Any]:
        """The keys of groups that say what the rule does."""
        return {**{key: True for state, key in _OF_STATES.items() if state in self.rule.states}, **self.rule.keys}

    def _check_keys(self, group: Dict[str, Any]) -> None:
        """Whether the group is one of this rule."""
        known, label = self._keys(), _label(self.rule)
        if group.get("rule", label) != label:
            raise ValueError(f"rule is {group['rule']!r} in a group, and this optimizer has {label}: leave the key out")
        for key, own in known.items():
            if key in group and group[key] != own:
                raise ValueError(f"{key} is {group[key]!r} in a group, and rule {self.rule.name} is that of {key}={own!r}: "
                                 "take another rule, or rule.with_options() for an option")
        for key in _SET:
            if group.get(key) and key not in known and key not in self.rule.scalars:
                raise ValueError(f"{key} is {group[key]!r} in a group, and rule {self.rule.name} has no such option: take "
                                 "another rule")

    def _check_options(self, theirs: Dict[str, Any]) -> None:
        """Whether the options of a dict's rule are this one's. Dicts of before have none."""
        ours = self.rule.options
        for name, value in theirs.items():
            if name not in ours:
                raise ValueError(f"the dict is of rule {self.rule.name} with {name}={value!r}, and this optimizer's has no such "
                                 "option")
            if value != ours[name]:
                raise ValueError(f"the dict is of rule {self.rule.name} with {name}={value!r}, and this optimizer's has "
                                 f"{name}={ours[name]!r}: take rule.with_options({name}={value!r})")

    def _check(self, group: Dict[str, Any]) -> None:
        self._check_keys(group)
        super()._check(group)
        if self.rule.evaluates and not isinstance(group.get("train_mode", True), bool):
            raise ValueError(f"train_mode: {group['train_mode']!r} is neither True nor False: call train() or eval()")
        self._hyper(0.0 if isinstance(group["lr"], Tensor) else float(group["lr"]), (*self._scalars(group), 0.0))
        weights = [name for name, state in self.rule.states.items() if state.kind == "weight" and not state.dtype]
        state_dtype = group.get("state_dtype", self.__dict__.get("state_dtype"))
        if weights and state_dtype in ("8bit", "f16", "24bit"):
            raise ValueError(f"state_dtype={state_dtype!r} has too few bits for {weights[0]}, a weight, of rule "
                             f"{self.rule.name}: use another one")

    def _check_states(self, states: Any, loaded: bool, group: Dict[str, Any]) -> None:
        super()._check_states(states, loaded, group)
        if loaded and states and self.rule.evaluates and bool(group.get("train_mode")) is ("train_weights" in states):
            raise ValueError("its group is in eval mode, and there are no train_weights among its states: call train() "
                             "before a flattened dict is made, or else"
                             if "train_weights" not in states else
                             "train_weights among its states, and its group is in train mode")

    def _check_parameters(self, g: int) -> None:
        self._check(self.param_groups[g])  # now that the optimizer's state_dtype is known
        super()._check_parameters(g)

    # ---- modes

    def eval(self) -> None:
        """Makes the parameters the weights to evaluate with. Those to train are `train_weights` among the states
        meanwhile, and in a state_dict() of now; `train_mode` of the groups is False."""
        found = [(group, parameters, _evaluation.numbers(self.rule, self._flat(group)))
                 for group, parameters in self._in_mode("eval", True)]
        for group, parameters, numbers in found:
            for p in parameters:
                states = self.state[p]
                states["train_weights"] = p.detach().clone()
                with torch.no_grad():
                    local(p).copy_(_evaluation.weights(self.rule, p, states, self._names, numbers))
            group["train_mode"] = False

    def train(self) -> None:
        """Makes the parameters the weights to train again."""
        for group, parameters in self._in_mode("train", False):
            for p in parameters:
                p.copy_(self.state[p].pop("train_weights"))
            group["train_mode"] = True

    def _in_mode(self, name: str, mode: bool) -> Iterator[Tuple[Dict[str, Any], List[Tensor]]]:
        """The groups that are in a mode, and those of their parameters that have had a step."""
        if not self.rule.evaluates:
            raise ValueError(f"{name}(): rule {self.rule.name} has no evaluation, so its weights are the same to train and "
                             "to evaluate: leave it out")
        if self.__dict__.get("_ptxgen_averaged"):
            raise RuntimeError(f"{name}() within ema_weights(): leave it first")
        with torch.no_grad():
            for group in self.param_groups:
                if group["train_mode"] is mode:
                    yield group, [p for p in group["params"] if self.state.get(p)]

    def _check_mode(self, call: str) -> None:
        super()._check_mode(call)
        if self.rule.evaluates and not all(group["train_mode"] for group in self.param_groups):
            raise RuntimeError(f"{call} in eval mode, where the parameters are those to evaluate with: call train() first")

    def _flat(self, group: Dict[str, Any]) -> List[float]:
        """The scalars as the rule's program has them."""
        flat: List[float] = []
        for name, usual in self.rule.scalars.items():
            flat += map(float, group[name]) if isinstance(usual, tuple) else [float(group[name])]
        return flat

    # ---- checkpoints

    def state_dict(self, **given: Any) -> Dict[str, Any]:
        """As Stepped's, with the identity of the rule; distributed checkpoints have that of the groups alone.
        format="torch": groups have the keys by which torch.optim knows what the rule does."""
        made = super().state_dict(**given)
        for group in made["param_groups"] if given.get("format") == "torch" else ():
            del group["rule"]
            group.update(self._keys())
        _checkpoint.watch(keys=self.rule.options)
        return {**made, "rule": self.rule.identity}

    def _load(self, state_dict: Dict[str, Any]) -> None:
        check_parts(state_dict)
        found, ours = state_dict.get("rule"), self.rule.identity
        theirs: Dict[str, Any] = found if isinstance(found, dict) else ours
        for key in ("name", "version", "states", "clock"):
            if theirs.get(key) != ours[key]:
                raise ValueError(f"the dict is of rule {theirs.get('name')}, version {theirs.get('version')}, and this "
                                 f"optimizer has {ours['name']}, version {ours['version']}: its {key} is "
                                 f"{theirs.get(key)!r}, not {ours[key]!r}")
        groups, label = [{"rule": _label(self.rule), **group} for group in state_dict["param_groups"]], _label(self.rule)
        for group in groups:
            if group["rule"] != label:
                raise ValueError(f"the dict is of rule {group['rule']}, and this optimizer has {label}")
        self._check_options(theirs.get("options") or {})
        for group in groups:
            self._check_keys(group)
        groups = [{**self.rule.options, **group} for group in groups]
        rest = {name: value for name, value in state_dict.items() if name != "rule"}
        states = {k: _formats.with_clock(of, self._names) for k, of in state_dict["state"].items()}
        super()._load({**rest, "param_groups": groups, "state": states})

    def __getstate__(self) -> Dict[str, Any]:
        made = super().__getstate__()
        apart = {p: _formats.apart(v) if isinstance(v, dict) else v for p, v in self.state.items()}
        return {**made, "state": type(self.state)(dict, apart), "rule": self.rule}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        if "rule" in state:
            self.__dict__["rule"] = state["rule"]
        for group in state["param_groups"]:
            for key, value in {**self.rule.options, "rule": _label(self.rule)}.items():
                group.setdefault(key, value)
        super().__setstate__(state)
