# SPDX-License-Identifier: MIT
"""A plugin of pytest for Triton's own tests, which own_tests.py runs: PyTorch's tensors of the CPU stand for those of
a GPU. torch.cuda answers for the emulator, tensors of the device "cuda" are made on the CPU, and each launch registers
the memory of its tensors with the driver, which makes it memory of the device with checked bounds."""
import ctypes
import os
import pathlib
import time
import types

import pytest
import torch
from torch.overrides import TorchFunctionMode

STAND_IN = str(pathlib.Path(__file__).parents[3] / "python" / "ptxgen" / "ptxas")
os.environ |= {"TRITON_PTXAS_PATH": STAND_IN, "TRITON_PTXAS_BLACKWELL_PATH": STAND_IN}
libcuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        text = ctypes.c_char_p()
        libcuda.cuGetErrorString(code, ctypes.byref(text))
        libcuda.cuEmulatorClearError()
        raise RuntimeError((text.value or b"").decode(errors="replace"))


class OnCpu(TorchFunctionMode):
    """Tensors that are asked for on the device "cuda" are on the CPU."""

    def __torch_function__(self, function, types_, args=(), kwargs=None):
        def on_cpu(value):
            device = isinstance(value, torch.device) and value.type == "cuda"
            return "cpu" if device or isinstance(value, str) and value.split(":")[0] == "cuda" else value

        if function is torch.Tensor.cuda:
            return args[0]
        kwargs = {name: on_cpu(value) if name == "device" else value for name, value in (kwargs or {}).items()}
        if function is torch.Tensor.to:
            args = tuple(on_cpu(value) for value in args)
        return function(*args, **kwargs)


class Event:
    """An event of a stream. A launch of the emulator has ended when it returns."""

    def __init__(self, *_, **__):
        self.time = 0.0

    def record(self, *_):
        self.time = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1000 * (end.time - self.time)


class Generator(torch.Generator):
    """A generator of random numbers for tensors of the device "cuda", which are on the CPU."""

    def __new__(cls, device=None):
        del device
        return super().__new__(cls, "cpu")


def answer_for_cuda():
    context = ctypes.c_void_p()
    check(libcuda.cuInit(0))
    check(libcuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(libcuda.cuCtxSetCurrent(context))
    capability = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int()
        check(libcuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0))
        capability.append(value.value)
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    properties = types.SimpleNamespace(name="emulator", multi_processor_count=132, major=capability[0],
                                       minor=capability[1], total_memory=8 << 30)
    for name, value in {"is_available": True, "current_device": 0, "device_count": 1, "set_device": None,
                        "synchronize": None, "get_device_capability": tuple(capability), "current_stream": stream,
                        "get_device_properties": properties, "empty_cache": None}.items():
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)
    torch.cuda.Event, torch.Generator = Event, Generator
    torch._C._cuda_getCurrentRawStream = lambda device: 0  # pylint: disable=protected-access
    return context


def memory_of(values):
    """(address, bytes) of the memory of each tensor among the values, however deep."""
    found = {}
    for value in values:
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            if storage.nbytes():
                found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, (tuple, list)):
            found |= memory_of(value)
        elif hasattr(value, "base"):
            found |= memory_of([value.base])
    return found


def register_in_launches(context):
    from triton.backends.nvidia import driver  # pylint: disable=import-outside-toplevel

    create = driver.CudaLauncher.__init__

    def init(self, *args, **kwargs):
        create(self, *args, **kwargs)
        launch = self.launch

        def registered(*values):
            memory = memory_of(values)
            check(libcuda.cuCtxSetCurrent(context))
            for address, size in memory.items():
                check(libcuda.cuMemHostRegister_v2(ctypes.c_void_p(address), ctypes.c_size_t(size), 0))
            try:
                launch(*values)
                check(libcuda.cuCtxSynchronize())
            finally:
                for address in memory:
                    libcuda.cuMemHostUnregister(ctypes.c_void_p(address))

        self.launch = registered

    driver.CudaLauncher.__init__ = init


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    del config
    register_in_launches(answer_for_cuda())
    OnCpu().__enter__()
