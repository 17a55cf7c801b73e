# SPDX-License-Identifier: MIT
"""Quantizers into a model's layers, and out again."""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from typing import Any, Callable, Dict, Iterator, List, Literal, Optional, Tuple

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
_MARK = "_ptxgen_quantized"


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


_BY_NAME = "with_kwargs" in inspect.signature(torch.nn.Module.register_forward_pre_hook).parameters  # torch 2.0 and newer


def _quantize_input(module: Any, inputs: Any, named: Any = None) -> Any:
    if inputs:
        found = (module.activation_quantizer(inputs[0]), *inputs[1:])
        return found if named is None else (found, named)
    first = next(iter(inspect.signature(module.forward).parameters), "input")
    if not named or first not in named:
        raise TypeError(f"{type(module).__name__}: its input, `{first}`, is quantized, and must be its first argument, without "
                        "a name")
    return inputs, {**named, first: module.activation_quantizer(named[first])}


def _check(name: str, module: torch.nn.Module, replace: str, weight: Any) -> None:
    if _is_quantized(module):
        raise ValueError(f"{_NAME}: {name} is quantized already: call unquantize_model() first, or leave it out in `filter`")
    if parametrize.is_parametrized(module, "weight"):  # type: ignore[no-untyped-call, unused-ignore]
        raise ValueError(f"{_NAME}: the weight of {name} is parametrized already: call "
                         "torch.nn.utils.parametrize.remove_parametrizations() first, or leave it out in `filter`")
    if "weight_g" in module._parameters:
        raise TypeError(f"{_NAME}: the weight of {name} is made by weight_norm(): call torch.nn.utils.remove_weight_norm() first, "
                        "or leave it out in `filter`")
    if replace == "module" and type(module) not in _KINDS:
        raise TypeError(f"{_NAME}: {name} is a {type(module).__name__}: only Linear, Conv1d, Conv2d and Conv3d themselves are "
                        "replaced; leave it out in `filter`, or use replace=\"parametrization\"")
    found = module._parameters.get("weight")
    if weight is not None and found is None:
        raise TypeError(f"{_NAME}: {name}, a {type(module).__name__}, has no parameter `weight`: leave it out in `filter`")
    if isinstance(found, DTensor):
        raise TypeError(f"{_NAME}: the weight of {name} is a DTensor: call quantize_model() before fully_shard(), which gathers "
                        "what quantizers see")


def _factory(name: str, given: Any, example: str) -> None:
    if given is not None and (isinstance(given, torch.nn.Module) or not callable(given)):
        raise TypeError(f"{_NAME}: {name}: what makes a quantizer for each layer is needed, as {example}, not {given!r:.80}")


def _made(argument: str, layer: str, factory: Any, *given: Any) -> Any:
    """A quantizer for a layer. Errors name both."""
    try:
        found = factory(*given)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{_NAME}: {argument}: for {layer} it failed: {error}") from error
    if not isinstance(found, torch.nn.Module):
        raise TypeError(f"{_NAME}: {argument}: for {layer} it returned {found!r:.80}, and a module is needed")
    return found


def _without(left: List[str], already: List[str]) -> str:
    """Why there is nothing to quantize, without `filter`."""
    if already:
        return f"{', '.join(already[:4])}: quantized already: call unquantize_model() first"
    if left:
        return (f"there are only subclasses of Linear and Conv1d to Conv3d, which are not replaced: {', '.join(left[:4])}: choose "
                "them with `filter`, and replace=\"parametrization\"")
    return "the model has no Linear, Conv1d, Conv2d or Conv3d: choose others with `filter`, and replace=\"parametrization\""


def _refuse_pickling(made: Any) -> None:
    """Of the class that torch has made for a parametrized module alone."""
    before = made.__getstate__

    def state(module: Any) -> Any:
        if _MARK not in module.__dict__:
            return before(module)
        raise RuntimeError(f"{_NAME}: a {type(module).__name__} cannot be pickled, because torch makes its class at run time: save "
                           "state_dict(), pickle after unquantize_model(), or use replace=\"module\"")
    made.__getstate__ = state


def quantize_model(model: torch.nn.Module, filter: Optional[Filter] = None, *,
                   weight: Optional[Callable[[Tensor], torch.nn.Module]] = None,
                   activation: Optional[Callable[[], torch.nn.Module]] = None, replace: Replace = "module") -> List[str]:
    """Puts quantizers before the weights and inputs of layers, in place, and returns the layers' names.

    filter: of a name and a module, whether it is quantized. None: all Linear, Conv1d, Conv2d and Conv3d; subclasses of these
        are left as they are, with a warning that names them, and so is what is quantized already.
    weight: makes a quantizer for a weight: lambda w: LearnedQuantizer.of(w, q_min=-8, q_max=7, axis=-1, group=32).
    activation: makes a quantizer for a layer's first input: lambda: FakeQuantize(0, 255).
    replace: "module": layers become QuantizedLinear and the like, which have the layer's parameters under their names.
        "parametrization": the class stays, the weight is parametrized, as torch.nn.utils.parametrize does it, so its key
        becomes parametrizations.weight.original, and torch pickles a state_dict() only; the input goes through a hook.

    Call it before the optimizer is made, because learned scales are parameters, and before fully_shard()."""
    if weight is None and activation is None:
        raise ValueError(f"{_NAME}: weight and activation are both None: there is nothing to quantize")
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{_NAME}: model: a module is needed, not {model!r:.80}")
    if filter is not None and not callable(filter):
        raise TypeError(f"{_NAME}: filter: a function of a name and a module is needed, not {filter!r:.80}")
    _factory("weight", weight, "lambda w: LearnedQuantizer.of(w, axis=0)")
    _factory("activation", activation, "lambda: FakeQuantize(0, 255)")
    _checks.choice(_NAME, "replace", replace, ("module", "parametrization"))
    left: List[str] = []
    already: List[str] = []
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
        elif id(module) not in seen and filter is None and _is_quantized(module):
            already.append(name or "the model")
        elif id(module) not in seen and filter is None and isinstance(module, tuple(_KINDS)):
            left.append(f"{name or 'the model'} ({type(module).__name__})")
        seen.add(id(module))
    if not chosen:
        raise ValueError(f"{_NAME}: {'`filter` takes no module of the model' if filter else _without(left, already)}")
    made = []  # before anything changes
    for name in chosen:
        module = model.get_submodule(name)
        made.append((name, module, weight and _made("weight", name, weight, module.weight),
                     activation and _made("activation", name, activation)))
    for name, module, of_weight, of_input in made:
        device = next((p.device for p in module.parameters(recurse=False)), None)
        for quantizer in (of_weight, of_input):
            if quantizer is not None:
                quantizer.train(module.training)
                if device is not None:
                    quantizer.to(device)
        if replace == "module":
            layer = _as(_KINDS[type(module)], module)
            layer.add_module("weight_quantizer", of_weight)
            layer.add_module("activation_quantizer", of_input)
            _put(model, name, layer)
            continue
        module.__dict__[_MARK] = True
        if of_weight is not None:
            parametrize.register_parametrization(module, "weight", of_weight, unsafe=True)
            _refuse_pickling(type(module))
        if of_input is not None:
            module.activation_quantizer = of_input
            by_name: Any = {"with_kwargs": True} if _BY_NAME else {}
            module.__dict__["_ptxgen_hook"] = module.register_forward_pre_hook(_quantize_input, **by_name)
    if left:
        warnings.warn(f"{_NAME}: subclasses are left as they are: {', '.join(left)}: `filter` and replace=\"parametrization\" take "
                      "them", stacklevel=2)
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


def _values(model: torch.nn.Module, names: List[str]) -> List[Tuple[Any, Tensor]]:
    """Parameters, and what their quantizers make of them. Nothing changes where one cannot."""
    found: Dict[int, Tuple[str, Any, Any, Tensor]] = {}
    own = set()  # modules that have these parameters
    for name in names:
        module: Any = model.get_submodule(name)
        if type(module) in _KINDS.values():
            holder, key, quantizers = module, "weight", module.weight_quantizer
        elif parametrize.is_parametrized(module, "weight"):
            quantizers = holder = module.parametrizations.weight
            key = "original"
        else:
            continue
        if quantizers is None:
            continue
        for one in quantizers.modules():
            if hasattr(one, "_begun") and not one._begun():
                raise ValueError(f"{_BACK}: keep=\"quantized\": the weight quantizer of {name}, a {type(one).__name__}, has not "
                                 "observed yet: run the model on data first, or use keep=\"original\"")
            scale = getattr(one, "scale", None)
            if isinstance(scale, Tensor) and not bool(scale.detach().isfinite().all()):
                raise ValueError(f"{_BACK}: keep=\"quantized\": the weight quantizer of {name}, a {type(one).__name__}, has a scale of "
                                 "NaN or infinity: load a state from before, or use keep=\"original\"")
        own.add(id(holder))
        parameter = getattr(holder, key)
        try:
            with torch.no_grad(), _quiet(quantizers):
                value = module.quantized_weight() if holder is module else module.weight
        except Exception as error:
            raise RuntimeError(f"{_BACK}: keep=\"quantized\": the quantizer of {name} failed, and nothing was changed: "
                               f"{error}") from error
        if not isinstance(value, Tensor) or value.shape != parameter.shape:
            raise TypeError(f"{_BACK}: keep=\"quantized\": the quantizer of {name} does not give a tensor of its weight's shape")
        first = found.setdefault(id(parameter), (name, quantizers, parameter, value))
        if first[0] != name and not torch.equal(first[3], value):
            raise ValueError(f"{_BACK}: keep=\"quantized\": {first[0]} and {name} have one weight, and quantizers that make "
                             "different values of it: untie them, or use keep=\"original\"")
    for at, module in model.named_modules():
        for key, parameter in module._parameters.items():
            if id(parameter) in found and id(module) not in own:
                raise ValueError(f"{_BACK}: keep=\"quantized\": the weight of {found[id(parameter)][0]} is {key} of {at}, too, a "
                                 f"{type(module).__name__} without its quantizer: untie them, or use keep=\"original\"")
    return [(parameter, value) for _, _, parameter, value in found.values()]


def unquantize_model(model: torch.nn.Module, *, keep: Keep = "original") -> List[str]:
    """Takes the quantizers of quantize_model() out again, in place, and returns the layers' names.

    keep: "original": weights are what was trained. "quantized": what their quantizers make of them; the same parameters. All
        values are computed before anything changes. Refused where a quantizer has not observed yet, and where tied weights
        would get different values, or a layer without their quantizer has them, too."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{_BACK}: model: a module is needed, not {model!r:.80}")
    _checks.choice(_BACK, "keep", keep, ("original", "quantized"))
    names = [name for name, module in model.named_modules() if _is_quantized(module)]
    if not names:
        raise ValueError(f"{_BACK}: nothing in the model is quantized")
    values = _values(model, names) if keep == "quantized" else []
    with torch.no_grad():
        for parameter, value in values:
            parameter.copy_(value)
    for name in names:
        module: Any = model.get_submodule(name)
        if type(module) in _KINDS.values():
            layer = _as(next(plain for plain, kind in _KINDS.items() if kind is type(module)), module)
            for key in ("weight_quantizer", "activation_quantizer"):
                layer._modules.pop(key, None)
                layer.__dict__.pop(key, None)
            _put(model, name, layer)
            continue
        module.__dict__.pop(_MARK, None)
        if parametrize.is_parametrized(module, "weight"):
            with torch.no_grad(), _quiet(module.parametrizations.weight):
                parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
            others = [key for key in module._parameters if key != "weight"]
            module._parameters.update({key: module._parameters.pop(key) for key in others})  # weight is the first again
        if "_ptxgen_hook" in module.__dict__:
            module.__dict__.pop("_ptxgen_hook").remove()
            del module.activation_quantizer
    return names


def _is_parametrized(module: Any) -> bool:
    return _MARK in module.__dict__ or (
        parametrize.is_parametrized(module, "weight")
        and any(type(one).__module__.startswith(__package__ or "") for one in module.parametrizations.weight))


def _is_quantized(module: Any) -> bool:
    return isinstance(module, _Quantized) or _is_parametrized(module)
