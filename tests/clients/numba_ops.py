# SPDX-License-Identifier: MIT
"""numba-cuda, or with the argument mlir numba-cuda-mlir, on the emulator: kernels compared with numpy; atomics,
shared memory, float16 (whose helpers are a second PTX, so that the driver's linker is used), print() and an
access outside an array. The emulator is in LD_LIBRARY_PATH, and no libnvJitLink is found, because it links to
machine code."""
import sys
import warnings

import numpy as np

if sys.argv[1:] == ["mlir"]:
    from numba_cuda_mlir import cuda
    from numba_cuda_mlir.numba_cuda.core.errors import NumbaPerformanceWarning
else:
    from numba import cuda
    from numba.core.errors import NumbaPerformanceWarning

warnings.simplefilter("ignore", NumbaPerformanceWarning)


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def total(x, out):
    block = cuda.shared.array(128, np.int64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    block[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            block[t] += block[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, block[0])


@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def say(x):
    print("thread", cuda.threadIdx.x, x[0])


@cuda.jit
def outside(x):
    x[cuda.grid(1) + 1000] = 1


random = np.random.default_rng(7)
a, b = (random.standard_normal(1000, dtype=np.float32) for _ in range(2))
out = np.zeros_like(a)
add[8, 128](a, b, out)
np.testing.assert_array_equal(out, a + b)
numbers, result = random.integers(-1000, 1000, 1000), np.zeros(1, np.int64)
total[8, 128](numbers, result)
assert result[0] == numbers.sum()
half, squares = a.astype(np.float16), np.zeros(1000, np.float16)
square[8, 128](half, squares)
np.testing.assert_array_equal(squares, half * half)
say[1, 2](numbers)
cuda.synchronize()
try:
    outside[1, 32](np.zeros(4))
except cuda.cudadrv.driver.CudaAPIError as error:
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error), error
else:
    raise AssertionError("an access outside an array was not noticed")
print(f"{cuda.__name__}: sums, shared memory, atomics, float16, print and a bad access: ok", flush=True)
