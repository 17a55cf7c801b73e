# SPDX-License-Identifier: MIT
"""What calls are given: tensors, numbers and choices. Errors name the function, the argument and what to do."""

from __future__ import annotations

import importlib
import math
import operator
import sys
from typing import Any, Callable, Optional, Sequence, Tuple, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .. import _device
from .._ranks import DTensor

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
PLAIN = frozenset((Tensor, torch.nn.Parameter))  # of which calls with others of their kind are known
_S32 = 1 << 31
_forward: Any = forward_ad

# torch 2.4 and newer compile what calls custom operators.
OPERATORS: bool = hasattr(torch.library, "custom_op")


_Function = TypeVar("_Function", bound=Callable[..., Any])


def breaks(function: _Function) -> _Function:
    """A call that torch.compile does not trace where torch has no custom operators: the graph breaks there."""
    if OPERATORS or not hasattr(torch, "compile"):
        return function
    disable: Any = importlib.import_module("torch._dynamo").disable
    found: _Function = disable(function)
    return found


def _never() -> bool:
    return False


#: Whether torch.compile traces the call, with custom operators in place of autograd functions.
compiling: Callable[[], bool] = torch.compiler.is_compiling if OPERATORS else _never


asked: Any = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)  # torch 2 has it


def wrapped(x: Tensor) -> bool:
    """Whether the tensor is one of vmap, torch.func.grad and the like, or has a tangent."""
    if _forward._current_level >= 0 and _forward.unpack_dual(x).tangent is not None:
        return True
    if asked is not None:
        return bool(asked(x))
    module = getattr(torch._C, "_functorch", None) or getattr(sys.modules.get("functorch"), "_C", None)
    for name in ("is_batchedtensor", "is_gradtrackingtensor"):
        ask = getattr(module, name, None)
        if ask is not None and ask(x):
            return True
    return False


def _plain(function: str, name: str, x: Tensor) -> None:
    if wrapped(x):
        raise RuntimeError(f"{function}: {name} is a tensor of vmap, of another transform of torch.func, or of forward-mode "
                           "derivatives, which there is no rule for: call it outside, or on the whole batch")
    if x.is_neg():
        raise TypeError(f"{function}: {name} is a view whose numbers torch negates when it reads them: use {name}.resolve_neg()")


def values(function: str, name: str, x: Any, dtypes: Sequence[torch.dtype] = DTYPES) -> None:
    """Whether torch's operations can read it."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}: {name}: a tensor is needed, not {x!r:.80}")
    if x.dtype not in dtypes:
        wanted = ", ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"{function}: {name} is in {x.dtype}, and it must be one of {wanted}: convert it before the call")
    if compiling():
        return
    if isinstance(x, DTensor):
        raise TypeError(f"{function}: {name} is a DTensor: quantize what the forward pass has, as fully_shard gathers it, or "
                        f"{name}.to_local()")
    _plain(function, name, x)
    if x.layout is not torch.strided:
        raise TypeError(f"{function}: {name} is sparse: use {name}.to_dense()")
    if x.is_meta:
        raise ValueError(f"{function}: {name} is on meta, where it has no values: materialize it first")


def tensor(function: str, name: str, x: Any, dtypes: Sequence[torch.dtype] = DTYPES) -> None:
    """Whether kernels can read it."""
    values(function, name, x, dtypes)
    if not compiling() and not _device.is_usable(x.device):
        raise ValueError(f"{function}: {name} is on {x.device}: move it to a GPU, or call ptxgen.torch.emulate() first, after "
                         "which tensors of the CPU are taken")


def beside(function: str, name: str, given: Tensor, x: Tensor) -> None:
    """Whether it is where x is."""
    if not isinstance(given, Tensor):
        raise TypeError(f"{function}: {name}: a tensor is needed, not {given!r:.80}")
    if given.device != x.device:
        raise ValueError(f"{function}: {name} is on {given.device}, and x on {x.device}: move it there")
    if not compiling():
        _plain(function, name, given)
        if given.layout is not torch.strided:
            raise TypeError(f"{function}: {name} is sparse: use {name}.to_dense()")


def as_saved(what: str, given: Tensor, dtype: torch.dtype, count: int, like: Tensor) -> Tensor:
    """What a backward pass is given of what the forward pass saved, contiguous: hooks of saved tensors, or a leaf that has
    changed since, may give it otherwise. Another layout is taken; kernels would read another type or size wrongly."""
    if given.dtype is not dtype or given.numel() != count or given.device != like.device:
        raise RuntimeError(f"the backward pass is given {what} with {given.numel()} elements in {given.dtype} on {given.device}, and "
                           f"the forward pass had {count} in {dtype} on {like.device}: hooks of saved tensors must give back what "
                           "they got, and modules must not be converted between the two passes")
    return given.contiguous()


def choice(function: str, name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{function}: {name}: {value!r} is none of {', '.join(map(repr, choices))}")


def integer(function: str, name: str, value: Any, least: int = -_S32, most: int = _S32 - 1) -> int:
    if isinstance(value, (bool, Tensor)) or not hasattr(value, "__index__"):
        raise TypeError(f"{function}: {name}: an integer is needed, not {value!r:.80}")
    found = operator.index(value)
    if not least <= found <= most:
        raise ValueError(f"{function}: {name}: {found} is not from {least} to {most}")
    return found


def number(function: str, name: str, value: Any) -> float:
    if isinstance(value, (bool, Tensor)) or not hasattr(value, "__float__"):
        raise TypeError(f"{function}: {name}: a number is needed, not {value!r:.80}")
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{function}: {name}: {found} is not finite")
    return found


def positive(function: str, name: str, value: Any) -> float:
    """Above 0, and still so in f32."""
    found = number(function, name, value)
    if not 2.0**-149 <= found < 2.0**128:
        raise ValueError(f"{function}: {name}: {found} must be above 0 and finite in f32")
    return found


def levels(function: str, q_min: Any, q_max: Any) -> Tuple[int, int]:
    least, most = integer(function, "q_min", q_min), integer(function, "q_max", q_max)
    if least > most:
        raise ValueError(f"{function}: q_min {least} is above q_max {most}")
    if least == most == 0:
        raise ValueError(f"{function}: q_min and q_max are both 0: a quantizer of one level, 0, is not supported")
    return least, most


def axis(function: str, given: Any, x: Tensor) -> Optional[int]:
    """The axis, counted from the front."""
    if given is None:
        return None
    n = x.dim()
    if n == 0:
        raise ValueError(f"{function}: axis={given}: x has no dimensions")
    return integer(function, "axis", given, -n, n - 1) % n


@breaks
def of_module(function: str, x: Any, at: Optional[int], scale: Tensor, known: bool) -> None:
    """Whether a quantizer with these scales, if it knows their number, takes the input."""
    tensor(function, "x", x)
    if at is not None:
        channels = x.shape[axis(function, at, x)]
        if known and channels != scale.numel():
            raise ValueError(f"{function}: x has {channels} channels along axis {at}, and the quantizer {scale.numel()}: use "
                             "another quantizer for it")
