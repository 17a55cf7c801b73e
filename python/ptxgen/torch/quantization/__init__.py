# SPDX-License-Identifier: MIT
"""Quantizers for training, as functions of torch's tensors, on a GPU or on the emulator.

    from ptxgen.torch.quantization import fake_quantize
    w = fake_quantize(self.weight, self.scale, q_min=-8, q_max=7, axis=-1, group=32, learn="scale")

docs/quantization.md is the guide."""

import torch

from . import _checks
from ._cast import fp8_cast
from ._codes import quantize_ste
from ._fake_quantize import fake_quantize
from ._mix import lerp
from ._observe import ObserverState, observe

if _checks.OPERATORS:
    from . import _operators
    _operators.define()
elif hasattr(torch, "compile"):  # the graph breaks at a call
    import torch._dynamo
    fake_quantize, fp8_cast, lerp, observe, quantize_ste = map(
        torch._dynamo.disable, (fake_quantize, fp8_cast, lerp, observe, quantize_ste))

__all__ = ["ObserverState", "fake_quantize", "fp8_cast", "lerp", "observe", "quantize_ste"]
