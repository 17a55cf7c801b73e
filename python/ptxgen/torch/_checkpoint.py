# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint reads into the tensors that state_dict() gives, without a look at their
types: codes of 8 bits would be read as numbers, and numbers as codes. What differs is an error here that
says how the states come in."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, Iterable

import torch

_states = {"exp_avg", "exp_avg_sq", "momentum_buffer"}  # and those of rules whose optimizers gave a dict
_MISSING = re.compile(r"Missing key .*\bstate\..*\.(?:master|remainder|correction|ema|(\w+)_(?:absmax|scale))\b")
_keys = {"rule"}  # of groups, and the options of rules: those of other optimizers may lack them
_WAY = ("The checkpoint has its states in another format than this optimizer: load it into an optimizer that "
        "stores them as the one that saved it, such as torch.optim's over the same parameters, and give its "
        "state_dict() to load_state_dict() of this one, which converts them")
_CODES = (' What goes to torch.optim is state_dict(format="torch") of the optimizer that has the codes: save that, or '
          "load the checkpoint into ptxgen.torch's optimizer with the state_dtype that it was saved with, and give its "
          'state_dict(format="torch") to torch.optim\'s')


def _codes_of(name: str, dtype: Any, beside: Any) -> Any:
    """The type of a state's codes; None: it has numbers."""
    return dtype if dtype in (torch.uint8, torch.int8) or dtype is torch.float16 and name + "_scale" in beside else None


def _is_state(name: str) -> bool:
    return re.search(r"\bstate\.", name) is not None and name.rpartition(".")[2] in _states


def _is_key(name: str) -> bool:
    return re.search(r"\bparam_groups\.", name) is not None and name.rpartition(".")[2] in _keys


def watch(names: Iterable[str] = (), keys: Iterable[str] = ()) -> None:
    """From now on, reading a checkpoint says so where states are stored otherwise. names: of states; keys: of groups,
    the options of rules."""
    _states.update(names)
    _keys.update(keys)
    module = sys.modules.get("torch.distributed.checkpoint.default_planner")
    plan = getattr(module, "create_default_local_load_plan", None)
    if plan is None or hasattr(plan, "ptxgen"):
        return

    @functools.wraps(plan)
    def watched(state_dict: Any, metadata: Any, *rest: Any, **named: Any) -> Any:
        # Groups of other optimizers do not name a rule, nor those of before its options.
        state_dict = {name: value for name, value in state_dict.items()
                      if name in metadata.state_dict_metadata or not _is_key(name)}
        for name in filter(_is_state, state_dict):
            found = metadata.state_dict_metadata.get(name)
            saved = getattr(getattr(found, "properties", None), "dtype", None)
            here = getattr(state_dict[name], "dtype", None)
            codes = _codes_of(name, saved, metadata.state_dict_metadata)
            if None not in (saved, here) and codes != _codes_of(name, here, state_dict):
                raise ValueError(f"{name} is stored as {saved}, and the tensor to read it into is {here}. "
                                 f"{_WAY}{_CODES if codes else ''}")
        try:
            return plan(state_dict, metadata, *rest, **named)
        except RuntimeError as error:
            missing = _MISSING.search(str(error))
            if missing is not None and (missing[1] is None or missing[1] in _states):
                raise RuntimeError(f"{error} {_WAY}") from None
            raise

    watched.ptxgen = True  # type: ignore[attr-defined]
    module.create_default_local_load_plan = watched  # type: ignore[union-attr]
