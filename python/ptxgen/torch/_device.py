# SPDX-License-Identifier: MIT
"""Where tensors are: a GPU by torch's own memory and streams, or the CPU's memory on the emulator."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Callable, Dict, Optional

import torch

from .. import device as devices
from .._library import emulator_path
from ..arrays import reach_host_memory
from ..errors import InvalidError, NoDeviceError, NoDriverError
from . import _shortcuts

# The types that plans read and write, by torch's name.
NAMES: Dict[torch.dtype, Any] = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


_PAGEABLE = 88  # CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS


class Cuda:
    """A GPU that torch uses, through its primary context."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        torch.zeros((), device=device)  # torch initialises its context
        self.gpu = devices.Device(ordinal=device.index, primary=True)
        _shortcuts.stream.way(device.index)  # from then on it is the way that stays
        #: torch's current stream, as a CUstream.
        self.stream: Callable[[], int] = functools.partial(_shortcuts.stream.way, device.index)
        self.capturing: Callable[[], bool] = torch.cuda.is_current_stream_capturing

    def done(self, stream: int) -> None:
        """Called after launches, before torch's next work on the stream: in order by itself."""

    def tensor(self, view: devices.View) -> torch.Tensor:
        """The device memory of a view, as a tensor."""
        return torch.from_dlpack(view)  # type: ignore[attr-defined]


class Host:
    """The CPU's memory as device memory of an emulator with `pageable`. Each launch is waited for."""

    def __init__(self, device: torch.device) -> None:
        wanted = ("CPU tensors need the emulator: start the program by python -m ptxgen emulate --device "
                  "sm_90,pageable -- COMMAND")
        self.device = device
        try:
            self.gpu = devices.Device()
        except (NoDeviceError, NoDriverError) as error:
            raise InvalidError(f"{wanted}; {str(error).splitlines()[0]}") from None
        pageable = ctypes.c_int()
        if "emulator" in self.gpu.info.name:
            self._cuda = ctypes.CDLL(os.environ.get("PTXGEN_LIBCUDA", "libcuda.so.1"))
            self._cuda.cuDeviceGetAttribute(ctypes.byref(pageable), _PAGEABLE, 0)
        if not pageable.value:
            raise InvalidError(f"{wanted}; this is {self.gpu.info.name}, without pageable")

    def stream(self) -> int:
        return 0

    def capturing(self) -> bool:
        return False

    def done(self, stream: int) -> None:
        self.gpu.synchronize(stream)

    def tensor(self, view: devices.View) -> torch.Tensor:
        """A copy: call again for what is there later."""
        made = torch.zeros(view.count, dtype=torch.float32)
        context = ctypes.c_void_p(self.gpu.context)
        self._cuda.cuCtxPushCurrent_v2(context)
        try:
            code = self._cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(made.data_ptr()),
                                              ctypes.c_uint64(view.address),
                                              ctypes.c_size_t(view.nbytes))
        finally:
            self._cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        if code:
            raise RuntimeError(f"cuMemcpyDtoH: error {code}")
        return made


_KINDS: Dict[str, Any] = {"cuda": Cuda}
_devices: Dict[torch.device, Any] = {}


def emulate() -> None:
    """From now on, CPU tensors are device memory of the emulator: for training code without a GPU. Plans,
    operations and kernels take them, too. The emulator becomes this process's libcuda, if the environment
    names no other (PTXGEN_LIBCUDA) and nothing here has loaded one before, as torch does where there is NVIDIA's
    driver; it stays in the environment, for processes that this one starts."""
    added = [] if "PTXGEN_LIBCUDA" in os.environ else ["PTXGEN_LIBCUDA"]
    if added:
        os.environ["PTXGEN_LIBCUDA"] = emulator_path()
        added += [] if "PTXGEN_EMU_DEVICE" in os.environ else ["PTXGEN_EMU_DEVICE"]
        os.environ.setdefault("PTXGEN_EMU_DEVICE", "sm_90,pageable")
    try:
        _devices[torch.device("cpu")] = Host(torch.device("cpu"))
    except Exception:
        for variable in added:
            del os.environ[variable]
        raise
    _KINDS["cpu"] = Host
    reach_host_memory()


def is_usable(device: torch.device) -> bool:
    """Whether plans can run there. Does not touch the device."""
    return device.type in _KINDS and torch.version.hip is None


def of(device: torch.device) -> Optional[Any]:
    """The device, if plans can run there."""
    found = _devices.get(device)
    if found is None:
        kind = _KINDS.get(device.type)
        if kind is None or not is_usable(device):
            return None
        found = _devices.setdefault(device, kind(device))  # another thread's, if that was first
    return found


def instead(name: str) -> str:
    """What to do where an optimizer of this name does not: rules of one's own have no twin in torch."""
    return f"use {'an optimizer of torch.optim' if name == 'Optimizer' else f'torch.optim.{name}'}"


def refusal(local: torch.Tensor, name: str) -> Optional[str]:
    """Why an optimizer of this name cannot have a parameter of such a kind, and what to do."""
    why = None
    if local.device.type == "meta":
        return ("is on meta, without memory: make the optimizer when the model is on its device, after "
                "model.to_empty(device=\"cuda\")")
    if local.device.type == "cpu" and not is_usable(local.device):
        return (f"is on the CPU: move the model to a GPU first, or {instead(name)}. Where there is no GPU, "
                "after ptxgen.torch.emulate() steps of CPU parameters run on the emulator, for tests")
    if not is_usable(local.device):
        why = f"is on {local.device}"
    elif local.dtype not in NAMES:
        why = f"is in {local.dtype}"
    elif local.layout is not torch.strided:
        why = "is sparse"
    return why and f"{why}, which ptxgen.torch.{name} does not support: {instead(name)}"
