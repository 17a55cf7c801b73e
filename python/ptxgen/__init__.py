# SPDX-License-Identifier: MIT
"""ptxgen from Python: PTX text, the library's kernels, clip plans and step plans, launched through
the display driver, or on the emulator. Needs no other package.

    gpu = ptxgen.Device()
    plan = gpu.clip_plan(gradients, max_norm=1.0)
    plan.run(stream)

Arrays are those of any library with DLPack or __cuda_array_interface__, or addresses; streams those
of any library, or integers. What fails raises an Error with the library's message. A `with` block,
close() or garbage collection frees what an object holds; work that uses it must be done by then.
docs/python.md is the guide."""

from . import emulator
from ._library import VERSION as __version__
from ._library import emulator_path, library_path
from ._types import (CaptureModeName, ClipDescription, ClipParams, ClipPiece, ClipRecord, ClipSummary,
                     ClipTensor, DeviceInfo, FunctionInfo, FunctionParam, GraphInfo, LossScaleParams,
                     LossScaleState, ModuleParams, NonfiniteName, StepDescription, StepFormatName,
                     StepGradientsName, StepGroup, StepHyper, StepParams, StepRuleName, StepTensor,
                     StepWhole, TypeName)
from .arrays import Address, StreamLike
from .blocks import BlockPlan
from .device import Array, Device, Event, Graph, Stream, View, device_count
from .errors import (CaptureError, ClosedError, CompileError, DriverError, Error, ForkedError,
                     InvalidError, NoDeviceError, NoDriverError, NonfiniteError, NotFoundError,
                     OutOfMemoryError, UnsupportedError)
from .matrices import MuonPlan
from .module import Function, Kernel, KernelInfo, Launch, Module, emit, kernels
from .operations import Operations
from .plans import (SGD, Adam, AdamW, ClipPlan, Lion, PlanResult, StepPlan, describe_clip,
                    describe_step, emit_clip, emit_step, fold_reports)
from .rules import Rule, Scalar, State, rule
from .symbols import (cos, erf, erfc, exp, exp2, expm1, f32, fma, log, log1p, log2, maximum, minimum, pow,
                      rsqrt, sigmoid, sign, sin, sqrt, tanh, where)

__all__ = [
    "Adam", "AdamW", "Address", "Array", "BlockPlan", "CaptureError", "CaptureModeName", "ClipDescription",
    "ClipParams", "ClipPiece", "ClipPlan", "ClipRecord", "ClipSummary", "ClipTensor", "ClosedError",
    "CompileError", "Device", "DeviceInfo", "DriverError", "Error", "Event", "ForkedError",
    "Function", "FunctionInfo", "FunctionParam", "Graph", "GraphInfo", "InvalidError", "Kernel",
    "KernelInfo", "Launch", "Lion", "LossScaleParams", "LossScaleState", "Module", "ModuleParams",
    "MuonPlan",
    "NoDeviceError", "NoDriverError", "NonfiniteError", "NonfiniteName", "NotFoundError",
    "Operations", "OutOfMemoryError", "PlanResult", "Rule", "SGD", "Scalar", "State",
    "StepDescription", "StepFormatName", "StepGradientsName", "StepGroup", "StepHyper",
    "StepParams", "StepPlan", "StepRuleName", "StepTensor", "StepWhole", "Stream", "StreamLike",
    "TypeName", "UnsupportedError", "View", "__version__", "cos", "describe_clip", "describe_step",
    "device_count", "emit", "emit_clip", "emit_step", "emulator", "emulator_path", "erf", "erfc",
    "exp", "exp2", "expm1", "f32", "fma", "fold_reports", "kernels", "library_path", "log", "log1p",
    "log2", "maximum", "minimum", "pow", "rsqrt", "rule", "sigmoid", "sign", "sin", "sqrt", "tanh",
    "where",
]
