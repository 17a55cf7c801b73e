# SPDX-License-Identifier: MIT
"""torch.ao's fake quantizers over the library's kernels: the same buffers, parameters, keys and methods."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import _ao, _checks
from ._fake_quantize import Division, fake_quantize
from ._statistics import MovingAverage


def _observer_of(name: str, module: Any) -> Any:
    """torch's observer, if it is one whose numbers are ours."""
    observer: Any = getattr(module, "activation_post_process", None)
    known = (_ao.ao.MovingAverageMinMaxObserver, _ao.ao.MovingAveragePerChannelMinMaxObserver) if _ao.ao else ()
    if type(observer) not in known:
        raise TypeError(f"{name}: the observer is a {type(observer).__name__}: MovingAverageMinMaxObserver or "
                        "MovingAveragePerChannelMinMaxObserver is needed")
    if observer.qscheme == torch.per_channel_affine_float_qparams:
        raise TypeError(f"{name}: {observer.qscheme} has zero points of its own, which are not supported")
    if getattr(observer, "is_dynamic", False):
        raise TypeError(f"{name}: a dynamic observer is not supported")
    return observer


def _arguments(observer: Any) -> Any:
    """What makes a quantizer of ours as torch's observer."""
    symmetric = observer.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric)
    zero = None
    if symmetric and observer.dtype is torch.quint8 and not observer.has_customized_qrange:
        zero = 128
    return {"axis": observer.ch_axis if observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine) else None,
            "symmetric": symmetric, "symmetric_zero_point": zero, "averaging_constant": observer.averaging_constant,
            "eps": float(observer.eps), "device": observer.eps.device}


def _theirs(name: str, statistics: MovingAverage) -> Tuple[Any, Any]:
    """torch's class of observers, and arguments for it."""
    if _ao.ao is None:
        raise RuntimeError(f"{name}: this torch has no torch.ao")
    info = torch.iinfo(statistics.dtype)
    if statistics.quant_min < info.min or statistics.quant_max > info.max:
        raise ValueError(f"{name}: levels {statistics.quant_min} to {statistics.quant_max} are more than {statistics.dtype} has")
    made = {"dtype": statistics.dtype, "qscheme": statistics.qscheme, "averaging_constant": statistics.averaging_constant,
            "eps": statistics.eps_value}
    if statistics.axis is None:
        return _ao.ao.MovingAverageMinMaxObserver, made
    return _ao.ao.MovingAveragePerChannelMinMaxObserver, {**made, "ch_axis": statistics.axis}


class _Observing(_ao.FakeQuantizeBase):
    """What both have in common: the observer's description as torch.ao's attributes, and conversions."""

    def _describe(self, of: MovingAverage, axis: Optional[int], division: Division) -> None:
        self.quant_min, self.quant_max, self.axis, self.division = of.quant_min, of.quant_max, axis, division
        self.dtype, self.qscheme, self.ch_axis = of.dtype, of.qscheme, of.ch_axis

    def _states(self) -> Any:
        """What is enabled, by name."""
        return {"observes": self._observes, "quantizes": self._quantizes}

    def extra_repr(self) -> str:
        states = ", ".join(f"{name}={value}" for name, value in self._states().items())
        return f"q_min={self.quant_min}, q_max={self.quant_max}, axis={self.axis}, qscheme={self.qscheme}, {states}"

    @staticmethod
    def _converted(made: Any, module: Any) -> Any:
        """`made` with the state and mode of `module`."""
        scale: Any = module.scale
        made = made.to(scale.device)
        state = module.state_dict()  # with the versions that torch 1.13 looks at
        state.update({name: value.to(torch.uint8) for name, value in state.items() if name.endswith("_enabled")})
        made.load_state_dict(state)
        for name in ("scale", "zero_point"):
            if isinstance(getattr(made, name), torch.nn.Parameter):
                getattr(made, name).requires_grad = getattr(module, name).requires_grad
        return made.train(module.training)


class FakeQuantize(_Observing):
    """torch.ao.quantization.FakeQuantize with a moving-average observer: its keys, buffers and numbers, with the library's
    kernels and without a wait.

    q_min, q_max: the levels, 0 among them.
    axis: None: one scale; else one for each index of this axis, whose range torch's operations take.
    symmetric, symmetric_zero_point, averaging_constant, eps: of the observer, as ObserverState has them.
    division: "reciprocal", as torch, or "exact".

    A forward pass observes (enable_observer()), then quantizes (enable_fake_quant()). These methods and loading tell the host;
    what is written into the buffers is not seen. scale (f32) and zero_point (int32) have one element, or one for each channel
    from the first forward pass on. from_torch() and to_torch() convert."""

    _version = 1

    def __init__(self, q_min: int = -128, q_max: int = 127, *, axis: Optional[int] = None, symmetric: bool = False,
                 symmetric_zero_point: Optional[int] = None, averaging_constant: float = 0.01, eps: float = _ao.EPS,
                 division: Division = "reciprocal", device: Any = None, factory_kwargs: Any = None) -> None:
        super().__init__()
        device = (factory_kwargs or {}).get("device", device)
        _checks.choice("FakeQuantize()", "division", division, ("exact", "reciprocal"))
        self.activation_post_process = MovingAverage("FakeQuantize()", q_min, q_max, axis, symmetric, symmetric_zero_point,
                                                     averaging_constant, eps, device)
        self._describe(self.activation_post_process, axis, division)
        self.is_dynamic, self.is_per_channel = False, axis is not None
        self.scale: Tensor
        self.zero_point: Tensor
        self.register_buffer("scale", torch.ones(1, device=device))
        self.register_buffer("zero_point", torch.zeros(1, dtype=torch.int32, device=device))
        if device is not None:
            self.to(device)

    def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
        """Scale and zero point from the averages."""
        return self.activation_post_process.quantizer()

    def forward(self, X: Tensor) -> Tensor:
        scale, zero_point = self.scale, self.zero_point
        if self._observes or self._quantizes:
            known = not self._observes or self.axis is None or self.activation_post_process.min_val.numel() > 0
            _checks.of_module("FakeQuantize()", X, self.axis, scale, known and X.numel() > 0 if isinstance(X, Tensor) else False)
        if self._observes:
            self.activation_post_process.observe(X, scale, zero_point)
            scale, zero_point = scale.clone(), zero_point.clone()  # the next pass may come before this one's backward pass
        if not self._quantizes or not X.numel():
            return X
        return fake_quantize(X, scale, zero_point, q_min=self.quant_min, q_max=self.quant_max, axis=self.axis,
                             division=self.division)

    @classmethod
    def from_torch(cls, module: Any) -> "FakeQuantize":
        """Of torch.ao's FakeQuantize or FusedMovingAvgObsFakeQuantize, with its state."""
        observer = _observer_of("FakeQuantize.from_torch()", module)
        made: "FakeQuantize" = cls._converted(cls(observer.quant_min, observer.quant_max, **_arguments(observer)), module)
        return made

    def to_torch(self) -> Any:
        """torch.ao's FakeQuantize with this state."""
        observer, how = _theirs("FakeQuantize.to_torch()", self.activation_post_process)
        return self._converted(_ao.ao.FakeQuantize(observer, quant_min=self.quant_min, quant_max=self.quant_max, **how), self)


class LearnableFakeQuantize(_Observing):
    """torch.ao's _LearnableFakeQuantize: scale and zero point are parameters in f32, which learn, or which an observer writes.

    channels: with axis, how many scales there are.
    use_grad_scaling: their gradients times 1 / sqrt(elements of x * q_max), as torch has it.

    enable_param_learning(), enable_static_estimate() and enable_static_observation() are torch's. At first it estimates."""

    def __init__(self, q_min: int = 0, q_max: int = 255, *, scale: float = 1.0, zero_point: float = 0.0,
                 axis: Optional[int] = None, channels: Optional[int] = None, use_grad_scaling: bool = False,
                 symmetric: bool = False, symmetric_zero_point: Optional[int] = None, averaging_constant: float = 0.01,
                 eps: float = _ao.EPS, division: Division = "reciprocal", device: Any = None) -> None:
        super().__init__()
        name = "LearnableFakeQuantize()"
        _checks.choice(name, "division", division, ("exact", "reciprocal"))
        if (axis is None) != (channels is None):
            raise ValueError(f"{name}: axis={axis!r} and channels={channels!r}: give both, or neither for one scale")
        count = 1 if channels is None else _checks.integer(name, "channels", channels, 1)
        if use_grad_scaling and q_max <= 0:
            raise ValueError(f"{name}: use_grad_scaling with q_max {q_max}: the factor is 1 / sqrt(elements * q_max)")
        self.activation_post_process = MovingAverage(name, q_min, q_max, axis, symmetric, symmetric_zero_point,
                                                     averaging_constant, eps, device)
        self._describe(self.activation_post_process, axis, division)
        self.use_grad_scaling, self._static, self._learns = bool(use_grad_scaling), True, False
        self.scale = torch.nn.Parameter(torch.full((count,), _checks.positive(name, "scale", scale), device=device))
        self.zero_point = torch.nn.Parameter(torch.full((count,), _checks.number(name, "zero_point", zero_point), device=device))
        self.static_enabled: Tensor
        self.learning_enabled: Tensor
        self.register_buffer("static_enabled", torch.tensor([1], dtype=torch.uint8, device=device))
        self.register_buffer("learning_enabled", torch.tensor([0], dtype=torch.uint8, device=device))
        self.register_buffer("eps", torch.tensor([_ao.EPS], device=device))
        if device is not None:
            self.to(device)

    def enable_param_learning(self) -> "LearnableFakeQuantize":
        """Scale and zero point learn, and nothing observes."""
        return self.toggle_qparam_learning(True).toggle_fake_quant(True).toggle_observer_update(False)

    def enable_static_estimate(self) -> None:
        """The observer writes scale and zero point."""
        self.toggle_qparam_learning(False).toggle_fake_quant(True).toggle_observer_update(True)

    def enable_static_observation(self) -> None:
        """The observer does, and the output is the input."""
        self.toggle_qparam_learning(False).toggle_fake_quant(False).toggle_observer_update(True)

    def toggle_observer_update(self, enabled: bool = True) -> "LearnableFakeQuantize":
        self._static = bool(enabled)
        self.static_enabled.fill_(int(enabled))
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> "LearnableFakeQuantize":
        self._learns = bool(enabled)
        self.learning_enabled.fill_(int(enabled))
        self.scale.requires_grad = self.zero_point.requires_grad = bool(enabled)
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> "LearnableFakeQuantize":
        self.enable_fake_quant(enabled)
        return self

    def _follow_buffers(self) -> None:
        super()._follow_buffers()
        self._static, self._learns = bool(self.static_enabled.item()), bool(self.learning_enabled.item())

    def calculate_qparams(self) -> Tuple[Tensor, Tensor]:
        with torch.no_grad():
            self.scale.data.clamp_(min=_ao.EPS)
            return self.scale.detach(), self.zero_point.detach().round().clamp(self.quant_min, self.quant_max).long()

    def forward(self, X: Tensor) -> Tensor:
        if self._static or self._quantizes:
            _checks.of_module("LearnableFakeQuantize()", X, self.axis, self.scale, True)
        if self._static:
            found = self.scale.detach().clone(), self.zero_point.detach().round().to(torch.int32)
            self.activation_post_process.observe(X, *found)
            self.scale.data.copy_(found[0])
            self.zero_point.data.copy_(found[1])
        else:
            self.scale.data.clamp_(min=_ao.EPS)
        if not self._quantizes:
            return X
        if self.activation_post_process.symmetric:
            self.zero_point.data.zero_()
        factor = (max(X.numel(), 1) * self.quant_max) ** -0.5 if self.use_grad_scaling else 1.0
        return fake_quantize(X, self.scale, self.zero_point, q_min=self.quant_min, q_max=self.quant_max, axis=self.axis,
                             learn="both", grad_factor=factor, division=self.division)

    def _next(self) -> Tuple[Tensor, Tensor]:
        """Scale and zero point as the next forward pass takes them."""
        zero = self.zero_point.detach()
        return self.scale.detach().clamp(min=_ao.EPS), torch.zeros_like(zero) if self.activation_post_process.symmetric else zero

    def _states(self) -> Any:
        return {"observes": self._static, "learns": self._learns, "quantizes": self._quantizes}

    @classmethod
    def from_torch(cls, module: Any) -> "LearnableFakeQuantize":
        """Of torch.ao's _LearnableFakeQuantize, with its state."""
        observer = _observer_of("LearnableFakeQuantize.from_torch()", module)
        how = _arguments(observer)
        made: "LearnableFakeQuantize" = cls._converted(
            cls(module.quant_min, module.quant_max, use_grad_scaling=module.use_grad_scaling, **how,
                channels=None if how["axis"] is None else module.scale.numel()), module)
        return made

    def to_torch(self) -> Any:
        """torch.ao's, with this state."""
        observer, how = _theirs("LearnableFakeQuantize.to_torch()", self.activation_post_process)
        from torch.ao.quantization import _learnable_fake_quantize
        cls: Any = _learnable_fake_quantize._LearnableFakeQuantize
        return self._converted(cls(observer, self.quant_min, self.quant_max, use_grad_scaling=self.use_grad_scaling,
                                   channel_len=-1 if self.axis is None else self.scale.numel(), **how), self)
