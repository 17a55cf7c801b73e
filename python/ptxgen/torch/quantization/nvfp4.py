# SPDX-License-Identifier: MIT
"""Linear layers in nvfp4, trained: every operand of their three products is quantized, and the products are in bf16. And weights in nvfp4
whose blocks' amaxes are learned."""

from __future__ import annotations

from typing import Any, Dict, Literal, Optional, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from . import _ao, _checks
from ._learned_blocks import LSQ_FACTOR
from ._no_second import first_only
from .blocks import Like, fake_quantize_block

_BLOCK = 16
_NAME = "NVFP4Linear"


def _weight_gradient(x: Tensor, dy: Tensor, hadamard: bool, how: Dict[str, Any]) -> Tensor:
    """dy^T x, both in blocks along tokens, with zeros at the end. The transform is orthogonal, so it leaves the product."""
    rest = -x.shape[0] % _BLOCK
    of_x, of_dy = (F.pad(one, (0, 0, 0, rest)).t().contiguous() for one in (x, dy))
    of_dy = fake_quantize_block(of_dy, "nvfp4", hadamard=hadamard, **how)
    return torch.mm(of_dy, fake_quantize_block(of_x, "nvfp4", hadamard=hadamard).t())


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, hadamard: bool, stochastic: bool) -> Tensor:
        rows = x.to(torch.bfloat16)
        quantized = fake_quantize_block(weight.to(torch.bfloat16), "nvfp4", two_dimensional=True)
        ctx.save_for_backward(x if x.dtype is torch.bfloat16 else rows, quantized)
        ctx.how = hadamard, stochastic, x.dtype, weight.dtype
        return torch.mm(fake_quantize_block(rows, "nvfp4"), quantized.t())

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        hadamard, stochastic, of_x, of_weight = ctx.how
        dx = dw = None
        with torch.no_grad(), torch.autocast(dy.device.type, enabled=False):
            of_rows: Dict[str, Any] = {}
            of_columns: Dict[str, Any] = {}
            if stochastic:
                seed = torch.randint(-(1 << 63), (1 << 63) - 1, (1,), dtype=torch.int64, device=x.device)
                of_rows = {"rounding": "stochastic", "seed": seed, "offset": 0}
                of_columns = {**of_rows, "offset": 1}
            if ctx.needs_input_grad[0]:
                dx = torch.mm(fake_quantize_block(dy, "nvfp4", **of_rows), weight).to(of_x)
            if ctx.needs_input_grad[1]:
                dw = _weight_gradient(x, dy, hadamard, of_columns).to(of_weight)
        return (*first_only(_NAME, (dx, dw), (dy, x, weight)), None, None)


def _cpu_autocast() -> bool:
    ask: Any = torch.is_autocast_enabled
    return bool(ask("cpu") if _checks.OPERATORS else torch.is_autocast_cpu_enabled())


def _sizes(inputs: int, outputs: int) -> None:
    for name, size in (("in_features", inputs), ("out_features", outputs)):
        if size % _BLOCK or not size:
            raise ValueError(f"{_NAME}: {name} is {size}; it must be a multiple of {_BLOCK}: blocks lie along both axes of the weight")


class NVFP4Linear(torch.nn.Linear):
    """A linear layer whose products have operands in nvfp4, as Blackwell trains, on any GPU from sm_80 on:

    | product | operands |
    |---|---|
    | output | the input in blocks along features; the weight in blocks of 16 x 16 |
    | gradient of the input | the output's gradient in blocks along features, stochastically rounded; the same weight |
    | gradient of the weight | the output's gradient, stochastically rounded, and the input, both in blocks along tokens of their \
Hadamard transform along tokens |

    Operands are rounded to bf16 before, and the products are torch's in bf16. A bias is added in its own type, bf16 or f32, to the
    product in bf16, and its gradient is summed so. The output has the input's type, under autocast, too; gradients have the types
    of their tensors. Keys and shapes are torch.nn.Linear's. Tokens that are no multiple of 16 are filled up with zeros.

    hadamard, stochastic: False leaves the transform, or the stochastic rounding, out."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None,
                 *, hadamard: bool = True, stochastic: bool = True) -> None:
        _sizes(in_features, out_features)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.hadamard, self.stochastic = hadamard, stochastic

    @classmethod
    def of(cls, layer: torch.nn.Linear, *, hadamard: bool = True, stochastic: bool = True) -> NVFP4Linear:
        """With the parameters of a layer, which are shared, and its mode."""
        if type(layer) is not torch.nn.Linear:
            kind = type(layer).__name__
            if isinstance(layer, torch.nn.Linear):
                raise TypeError(f"{_NAME}.of(): a {kind} is a subclass of torch.nn.Linear, whose forward() may do more: subclasses are "
                                "refused; make a torch.nn.Linear with its parameters first")
            raise TypeError(f"{_NAME}.of(): torch.nn.Linear is needed, not {kind}")
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, "meta", hadamard=hadamard, stochastic=stochastic)
        made.weight, made.bias = layer.weight, layer.bias
        return made.train(layer.training)

    def forward(self, x: Tensor) -> Tensor:
        _checks.tensor(_NAME, "x", x, (torch.float32, torch.float16, torch.bfloat16))
        _checks.tensor(_NAME, "weight", self.weight, (torch.float32, torch.float16, torch.bfloat16))
        _checks.beside(_NAME, "weight", self.weight, x)
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"{_NAME}: x is of {list(x.shape)}, and its last axis must be {self.in_features}")
        if torch.is_autocast_enabled() if x.is_cuda else _cpu_autocast():
            with torch.autocast(x.device.type, enabled=False):
                return self._with_bias(x)
        return self._with_bias(x)

    def _with_bias(self, x: Tensor) -> Tensor:
        y, bias = _product(x.reshape(-1, self.in_features), self.weight, self.hadamard, self.stochastic), self.bias
        if bias is not None:
            y = y + (bias if bias.dtype is torch.bfloat16 else bias.to(torch.float32))
        return y.to(x.dtype).view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, hadamard={self.hadamard}, stochastic={self.stochastic}"


def _product(x: Tensor, weight: Tensor, hadamard: bool, stochastic: bool) -> Tensor:
    y: Tensor = _Linear.apply(x, weight, hadamard, stochastic)
    return y


class LearnedBlocks(_ao.Float32):
    """A quantizer of weights in nvfp4 whose blocks have a learned amax each: fake_quantize_block() with block_amax, and the gradient factor
    of learned step sizes, 1 / sqrt(16 * 6) (Esser et al., 2020). For quantize_model():

        quantize_model(model, weight=LearnedBlocks.of)

    shape: of the tensor that it quantizes, whose last axis is a multiple of 16.
    start: of of() and start_from(): "max", the greatest magnitude of a block, as without learning; or "lsq", 12 mean|x| / sqrt(6).
    like: as of fake_quantize_block()."""

    def __init__(self, shape: Sequence[int], *, start: Literal["max", "lsq"] = "max", like: Optional[Like] = None, device: Any = None) -> None:
        super().__init__()
        _checks.choice("LearnedBlocks()", "start", start, ("max", "lsq"))
        if not shape or shape[-1] % _BLOCK:
            raise ValueError(f"LearnedBlocks(): shape is {list(shape)}; its last axis must be a multiple of {_BLOCK}")
        self.start, self.like = start, like
        self.amax = torch.nn.Parameter(torch.ones((*shape[:-1], shape[-1] // _BLOCK), device=device))

    @classmethod
    def of(cls, x: Tensor, *, start: Literal["max", "lsq"] = "max", like: Optional[Like] = None) -> LearnedBlocks:
        """For such a tensor, whose values the amaxes begin with."""
        _checks.values("LearnedBlocks.of()", "x", x)
        made = cls(x.shape, start=start, like=like, device=x.device)
        made.start_from(x)
        if not bool(made.amax.isfinite().all()):
            raise ValueError("LearnedBlocks.of(): x has NaN or infinity, so that amaxes would begin so: take them out first")
        return made

    def start_from(self, x: Tensor) -> None:
        """Amaxes anew, from this tensor. Nothing waits."""
        _checks.values("LearnedBlocks()", "x", x)
        if x.shape != (*self.amax.shape[:-1], self.amax.shape[-1] * _BLOCK):
            raise ValueError(f"LearnedBlocks(): x is of {list(x.shape)}, and there are amaxes of {list(self.amax.shape)}: one for each "
                             f"{_BLOCK} elements of the last axis is needed")
        with torch.no_grad():
            sizes = x.detach().to(torch.float32).abs().reshape(*self.amax.shape, _BLOCK)
            self.amax.data.copy_(sizes.amax(-1) if self.start == "max" else sizes.mean(-1) * (12 / 6 ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return fake_quantize_block(x, "nvfp4", like=self.like, block_amax=self.amax, grad_factor=LSQ_FACTOR)

    def extra_repr(self) -> str:
        return f"amax of {list(self.amax.shape)}, start={self.start!r}, like={self.like!r}"
