# SPDX-License-Identifier: MIT
"""What modules share with torch.ao's, where torch has torch.ao."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

try:
    import torch.ao.quantization as _quantization
    import torch.ao.quantization.fake_quantize as _fake_quantize
    _Theirs: Any = _fake_quantize.FakeQuantizeBase
    ao: Any = _quantization
except (ImportError, AttributeError):
    ao = None

    class _Like(torch.nn.Module):
        """Its buffers and methods."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
            self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

        def enable_fake_quant(self, enabled: bool = True) -> None:
            raise NotImplementedError

        def enable_observer(self, enabled: bool = True) -> None:
            raise NotImplementedError

        def disable_fake_quant(self) -> None:
            self.enable_fake_quant(False)

        def disable_observer(self) -> None:
            self.enable_observer(False)

    _Theirs = _Like

EPS = 2.0**-23


def keep_f32(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of Module._apply(): moves as it does, and leaves floats in f32 where model.bfloat16() would round scales."""
    def kept(tensor: Any) -> Any:
        moved = fn(tensor)
        if tensor.is_floating_point() and moved.dtype != tensor.dtype:
            return tensor.to(moved.device)
        return moved
    return kept


class Float32(torch.nn.Module):
    """A module whose parameters and buffers stay in f32."""

    def _apply(self, fn: Any, *more: Any, **how: Any) -> Any:
        apply: Any = super()._apply
        return apply(keep_f32(fn), *more, **how)


class FakeQuantizeBase(Float32, _Theirs):  # type: ignore[misc]
    """torch.ao's, without a wait: what is enabled is known on the host, from the methods and from loading. The buffers follow."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._quantizes = self._observes = True

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self._quantizes = bool(enabled)
        self.fake_quant_enabled.fill_(int(enabled))

    def enable_observer(self, enabled: bool = True) -> None:
        self._observes = bool(enabled)
        self.observer_enabled.fill_(int(enabled))

    def _begun(self) -> bool:
        """Whether scales come from anything: an observed range, or what was loaded or learned. Waits."""
        of: Any = self.activation_post_process
        scale: Any = self.scale
        low, high = of.averages()
        return bool((low.isfinite() | high.isfinite()).any()) or bool((scale != 1).any())

    def _follow_buffers(self) -> None:
        self._quantizes, self._observes = bool(self.fake_quant_enabled.item()), bool(self.observer_enabled.item())

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        of: Any = self.activation_post_process
        ranges = () if of.axis is None else (of.min_val, state_dict.get(prefix + "activation_post_process.min_val"))
        fresh = any(one is not None and not one.numel() for one in ranges)  # the number of channels is not known, here or there
        for name in ("scale", "zero_point"):
            value, own = state_dict.get(prefix + name), getattr(self, name)
            if value is None or isinstance(own, torch.nn.Parameter) or value.shape == own.shape:
                continue
            if value.dim() == 1 if fresh else of.axis is None and value.numel() == 1:  # else torch says what differs
                own.resize_(value.shape)
        super()._load_from_state_dict(state_dict, prefix, *more)
        if not self.fake_quant_enabled.is_meta:
            self._follow_buffers()


def scheme(symmetric: bool, axis: Any) -> torch.qscheme:
    if axis is None:
        return torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    return torch.per_channel_symmetric if symmetric else torch.per_channel_affine
