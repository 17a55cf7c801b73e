# SPDX-License-Identifier: MIT
"""Tensors for PyTorch and ptxgen alike, on a GPU or on the emulator."""
import ctypes
import os
from ctypes import byref, c_char, c_size_t, c_uint64, c_void_p

import torch

import package  # noqa: F401
import ptxgen


class Device:
    """PyTorch's GPU and a stream of it; or the emulator, if PTXGEN_LIBCUDA names it and there is no
    GPU, with tensors that PyTorch takes for the host's. To be made before a ptxgen.Device."""

    def __init__(self):
        self.emulated = not torch.cuda.is_available()
        self.where = "cpu" if self.emulated else "cuda"
        self.cu = ctypes.CDLL(os.environ.get("PTXGEN_LIBCUDA", "libcuda.so.1"))
        if not self.emulated:
            self.torch_stream = torch.cuda.Stream()
            torch.cuda.set_stream(self.torch_stream)
            self.stream = self.torch_stream.cuda_stream
            self.empty(1, torch.float32)
            return
        context, stream = c_void_p(), c_void_p()
        for status in (self.cu.cuInit(0), self.cu.cuDevicePrimaryCtxRetain(byref(context), 0),
                       self.cu.cuCtxSetCurrent(context), self.cu.cuStreamCreate(byref(stream), 1)):
            self._check(status)
        self.stream = stream.value

    @staticmethod
    def _check(status):
        if status != 0:
            raise ptxgen.Error(f"a call of libcuda failed with {status}")

    def empty(self, count, dtype):
        if not self.emulated:
            return torch.empty(count, device="cuda", dtype=dtype)
        size, address = max(1, count) * dtype.itemsize, c_uint64()
        self._check(self.cu.cuMemAllocManaged(byref(address), c_size_t(size), 1))
        memory = (c_char * size).from_address(address.value)
        return torch.frombuffer(memory, dtype=dtype, count=max(1, count))[:count]

    def zeros(self, count, dtype):
        return self.empty(count, dtype).zero_()

    def like(self, tensor):
        """A copy of the tensor on the device."""
        return self.empty(tensor.numel(), tensor.dtype).copy_(tensor.flatten())

    def generator(self, seed):
        return torch.Generator(device=self.where).manual_seed(seed)

    def random(self, count, dtype, seed, spread=1.0):
        """Normally distributed, of the same values in every dtype but for their rounding."""
        values = torch.randn(count, device=self.where, generator=self.generator(seed))
        return self.empty(count, dtype).copy_(values.mul_(spread))

    def copy(self, to, source, size):
        """`size` bytes between device addresses, in stream order."""
        self._check(self.cu.cuMemcpyDtoDAsync_v2(c_uint64(to), c_uint64(source), c_size_t(size),
                                                 c_void_p(self.stream)))

    def synchronize(self):
        self._check(self.cu.cuStreamSynchronize(c_void_p(self.stream)))
