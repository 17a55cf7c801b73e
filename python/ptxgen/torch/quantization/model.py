# SPDX-License-Identifier: MIT
"""Quantizers into a model's layers, and out again."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Callable, Dict, Iterator, List, Literal, Optional

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import parametrize

from .._ranks import DTensor
from . import _checks
from .modules import FakeQuantize, LearnableFakeQuantize

Replace = Literal["module", "parametrization"]
Keep = Literal["original", "quantized"]
Filter = Callable[[str, torch.nn.Module], bool]
_NAME, _BACK = "quantize_model()", "unquantize_model()"


class _Quantized:
    """Of layers whose weight and input pass quantizers. Parameters, hooks and keys stay those of the layer."""

    weight_quantizer: Optional[torch.nn.Module]
    activation_quantizer: Optional[torch.nn.Module]
    weight: Any

    def quantized_weight(self) -> Any:
        return self.weight if self.weight_quantizer is None else self.weight_quantizer(self.weight)

    def quantized_input(self, x: Tensor) -> Any:
        return x if self.activation_quantizer is None else self.activation_quantizer(x)


class QuantizedLinear(_Quantized, torch.nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(self.quantized_input(input), self.quantized_weight(), self.bias)


def _convolved(layer: Any, input: Tensor) -> Tensor:
    y: Tensor = layer._conv_forward(layer.quantized_input(input), layer.quantized_weight(), layer.bias)
    return y


class QuantizedConv1d(_Quantized, torch.nn.Conv1d):
    def forward(self, input: Tensor) -> Tensor:
        return _convolved(self, input)


class QuantizedConv2d(_Quantized, torch.nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        return _convolved(self, input)


class QuantizedConv3d(_Quantized, torch.nn.Conv3d):
    def forward(self, input: Tensor) -> Tensor:
        return _convolved(self, input)


_KINDS: Dict[Any, Any] = {torch.nn.Linear: QuantizedLinear, torch.nn.Conv1d: QuantizedConv1d, torch.nn.Conv2d: QuantizedConv2d,
                          torch.nn.Conv3d: QuantizedConv3d}


def _as(kind: Any, module: torch.nn.Module) -> torch.nn.Module:
    """The same layer as another class, with its own tables of parameters and modules; handles of its hooks stay good."""
    made: torch.nn.Module = kind.__new__(kind)
    made.__dict__.update(module.__dict__)
    for table in ("_parameters", "_buffers", "_modules"):
        made.__dict__[table] = copy.copy(module.__dict__[table])
    return made


def _put(model: torch.nn.Module, name: str, module: torch.nn.Module) -> None:
    """In place of the module of this name, everywhere where it is."""
    old = model.get_submodule(name)
    for parent in list(model.modules()):
        for key, child in parent._modules.items():
            if child is old:
                parent._modules[key] = module


def _quantize_input(module: Any, inputs: Any) -> Any:
    return (module.activation_quantizer(inputs[0]), *inputs[1:])


def _check(name: str, module: torch.nn.Module, replace: str, weight: Any) -> None:
    if isinstance(module, _Quantized) or "activation_quantizer" in module._modules or (
            parametrize.is_parametrized(module, "weight")):  # type: ignore[no-untyped-call, unused-ignore]
        raise ValueError(f"{_NAME}: {name} is quantized or parametrized already: call unquantize_model() first, or leave it out "
                         "in `filter`")
    if replace == "module" and type(module) not in _KINDS:
        raise TypeError(f"{_NAME}: {name} is a {type(module).__name__}: only Linear, Conv1d, Conv2d and Conv3d themselves are "
                        "replaced; leave it out in `filter`, or use replace=\"parametrization\"")
    found = module._parameters.get("weight")
    if weight is not None and found is None:
        raise TypeError(f"{_NAME}: {name}, a {type(module).__name__}, has no parameter `weight`: leave it out in `filter`")
    if isinstance(found, DTensor):
        raise TypeError(f"{_NAME}: the weight of {name} is a DTensor: call quantize_model() before fully_shard(), which gathers "
                        "what quantizers see")


def quantize_model(model: torch.nn.Module, filter: Optional[Filter] = None, *,
                   weight: Optional[Callable[[Tensor], torch.nn.Module]] = None,
                   activation: Optional[Callable[[], torch.nn.Module]] = None, replace: Replace = "module") -> List[str]:
    """Puts quantizers before the weights and inputs of layers, in place, and returns the layers' names.

    filter: of a name and a module, whether it is quantized. None: all Linear, Conv1d, Conv2d and Conv3d.
    weight: makes a quantizer for a weight: lambda w: LearnedQuantizer.of(w, q_min=-8, q_max=7, axis=-1, group=32).
    activation: makes a quantizer for a layer's first input: lambda: FakeQuantize(0, 255).
    replace: "module": layers become QuantizedLinear and the like, which have the layer's parameters under their names.
        "parametrization": the class stays, the weight is parametrized, as torch.nn.utils.parametrize does it, so its key
        becomes parametrizations.weight.original, and torch pickles a state_dict() only; the input goes through a hook.

    Call it before the optimizer is made, because learned scales are parameters, and before fully_shard()."""
    if weight is None and activation is None:
        raise ValueError(f"{_NAME}: weight and activation are both None: there is nothing to quantize")
    _checks.choice(_NAME, "replace", replace, ("module", "parametrization"))
    chosen: List[str] = []
    seen = set()
    module: Any
    for name, module in model.named_modules():
        if id(module) not in seen and (type(module) in _KINDS if filter is None else filter(name, module)):
            if not name and replace == "module":
                raise ValueError(f"{_NAME}: the model itself is a {type(module).__name__}: put it into a Sequential, or use "
                                 "replace=\"parametrization\"")
            _check(name, module, replace, weight)
            chosen.append(name)
        seen.add(id(module))
    if not chosen:
        raise ValueError(f"{_NAME}: `filter` takes no module of the model")
    made = []  # before anything changes
    for name in chosen:
        module = model.get_submodule(name)
        made.append((name, module, weight and weight(module.weight), activation and activation()))
    for name, module, of_weight, of_input in made:
        device = next((p.device for p in module.parameters(recurse=False)), None)
        for quantizer in (of_weight, of_input):
            if quantizer is not None and device is not None:
                quantizer.to(device)
        if replace == "module":
            layer = _as(_KINDS[type(module)], module)
            layer.add_module("weight_quantizer", of_weight)
            layer.add_module("activation_quantizer", of_input)
            _put(model, name, layer)
            continue
        if of_weight is not None:
            parametrize.register_parametrization(module, "weight", of_weight, unsafe=True)
        if of_input is not None:
            module.activation_quantizer = of_input
            module.__dict__["_ptxgen_hook"] = module.register_forward_pre_hook(_quantize_input)
    return chosen


@contextlib.contextmanager
def _quiet(quantizer: Optional[torch.nn.Module]) -> Iterator[None]:
    """Without observing."""
    found = [one for one in (quantizer.modules() if quantizer is not None else ())
             if isinstance(one, (FakeQuantize, LearnableFakeQuantize))]
    before = [(one._observes, one.__dict__.get("_static")) for one in found]
    for one in found:
        one._observes = False
        if isinstance(one, LearnableFakeQuantize):
            one._static = False
    try:
        yield
    finally:
        for one, (observes, static) in zip(found, before):
            one._observes = observes
            if isinstance(one, LearnableFakeQuantize):
                one._static = bool(static)


def unquantize_model(model: torch.nn.Module, *, keep: Keep = "original") -> List[str]:
    """Takes the quantizers of quantize_model() out again, in place, and returns the layers' names.

    keep: "original": weights are what was trained. "quantized": what their quantizers make of them; the same parameters."""
    _checks.choice(_BACK, "keep", keep, ("original", "quantized"))
    names = [name for name, module in model.named_modules() if isinstance(module, _Quantized) or _is_parametrized(module)]
    if not names:
        raise ValueError(f"{_BACK}: nothing in the model is quantized")
    for name in names:
        module: Any = model.get_submodule(name)
        if type(module) in _KINDS.values():
            if keep == "quantized" and module.weight_quantizer is not None:
                with torch.no_grad(), _quiet(module.weight_quantizer):
                    module.weight.copy_(module.quantized_weight())
            layer = _as(next(plain for plain, kind in _KINDS.items() if kind is type(module)), module)
            for key in ("weight_quantizer", "activation_quantizer"):
                layer._modules.pop(key, None)
                layer.__dict__.pop(key, None)
            _put(model, name, layer)
            continue
        if parametrize.is_parametrized(module, "weight"):
            with torch.no_grad(), _quiet(module.parametrizations.weight):
                original = module.parametrizations.weight.original
                value = module.weight if keep == "quantized" else None
                parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
                if value is not None:
                    original.copy_(value)
            others = [key for key in module._parameters if key != "weight"]
            module._parameters.update({key: module._parameters.pop(key) for key in others})  # weight is the first again
        if "_ptxgen_hook" in module.__dict__:
            module.__dict__.pop("_ptxgen_hook").remove()
            del module.activation_quantizer
    return names


def _is_parametrized(module: Any) -> bool:
    return "_ptxgen_hook" in module.__dict__ or (
        parametrize.is_parametrized(module, "weight")
        and any(type(one).__module__.startswith(__package__ or "") for one in module.parametrizations.weight))
