# SPDX-License-Identifier: MIT
"""Quantizers for training, as functions of torch's tensors, on a GPU or on the emulator.

    from ptxgen.torch.quantization import fake_quantize
    w = fake_quantize(self.weight, self.scale, q_min=-8, q_max=7, axis=-1, group=32, learn="scale")

docs/quantization.md is the guide."""

from . import _checks, blocks
from ._cast import fp8_cast
from ._codes import quantize_ste
from ._fake_quantize import fake_quantize
from ._mix import lerp
from ._observe import ObserverState, observe
from .blocks import fake_quantize_block
from .dynamic import DynamicQuantizer
from .export import Int4Groups, IntGroups, export_int4, export_int8
from .export_blocks import MXBlocks, NVFP4Blocks, export_mx, export_nvfp4
from .learned import DelayedScaling, LearnedQuantizer
from .model import (QuantizedConv1d, QuantizedConv2d, QuantizedConv3d, QuantizedLinear, quantize_model, unquantize_model)
from .modules import FakeQuantize, LearnableFakeQuantize
from .nvfp4 import LearnedBlocks, NVFP4Linear

if _checks.OPERATORS:
    from . import _operators
    _operators.define()
    blocks.define()

__all__ = [
    "DelayedScaling", "DynamicQuantizer", "FakeQuantize", "Int4Groups", "IntGroups", "LearnableFakeQuantize", "LearnedBlocks",
    "LearnedQuantizer", "MXBlocks", "NVFP4Blocks", "NVFP4Linear", "ObserverState", "QuantizedConv1d", "QuantizedConv2d",
    "QuantizedConv3d", "QuantizedLinear", "export_int4", "export_int8", "export_mx", "export_nvfp4", "fake_quantize",
    "fake_quantize_block", "fp8_cast", "lerp", "observe", "quantize_model", "quantize_ste", "unquantize_model",
]
