#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the cases of Numba in tests/clients/texts. Needs numba-cuda 0.30.4, numba 0.68.1, cuda-toolkit[nvvm,nvrtc,
cudart,cccl] 13.5.0 and numpy, and no GPU."""
import numba_cuda
import numpy as np
from numba import cuda, float32, int64, types, uint32

from case import Case

MADE_BY = f"Made by make_numba.py with numba-cuda {numba_cuda.__version__}."
CC = (8, 0)


def total(x, out):
    block = cuda.shared.array(64, int64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    block[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            block[t] += block[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, block[0])


def bins(x, low, high, counts, most):
    i = cuda.grid(1)
    if i < x.size:
        place = int((x[i] - low) / (high - low) * counts.size)
        if 0 <= place < counts.size:
            cuda.atomic.add(counts, place, 1)
        cuda.atomic.max(most, 0, x[i])


def matrix(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        value = float32(0)
        for k in range(a.shape[1]):
            value += a[i, k] * b[k, j]
        c[i, j] = value


def unary(x, out):  # as a ufunc has it: any stride
    i = cuda.grid(1)
    if i < out.size:
        out[i] = abs(x[i])**2 // 3 % 7 - (x[i] > 1)


def say(x):
    print("thread", cuda.threadIdx.x, x[cuda.threadIdx.x])


def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i] + x[i]


def array(a, strided=False):
    """The arguments that an array is for Numba: two objects, the size, the size of an element, the data, the
    shape and the strides."""
    data = a.base if strided else a
    return [np.uint64(0), np.uint64(0), np.int64(a.size), np.int64(a.itemsize), data,
            *(np.int64(n) for n in a.shape), *(np.int64(n) for n in a.strides)]


def entry(text):
    return text.split(".visible .entry ")[1].split("(")[0]


def begin(name, function, signature):
    """The case, and the entry's name. Some functions need more than one text, which the driver's linker joins."""
    texts, _ = cuda.compile_all(function, signature, cc=CC, abi="numba", device=False, output="ptx")
    texts = [t if isinstance(t, str) else t.code if hasattr(t, "code") else t for t in texts]
    texts = [t.decode() if isinstance(t, bytes) else t for t in texts]
    case = Case(f"numba_{name}", MADE_BY, "sm_80")
    for k, text in enumerate(texts):
        case.text(text, "link" if len(texts) > 1 else "load", f"_{k}" if len(texts) > 1 else "")
    return case, entry(texts[0])


def main():
    random = np.random.default_rng(7)
    line, plane = float32[::1], float32[:, ::1]

    case, name = begin("total", total, types.void(int64[::1], int64[::1]))
    x = random.integers(-1000, 1000, 150)
    case.launch(name, (3, ), (64, ), [*array(x), *array(np.zeros(1, np.int64))])
    case.expect(11, x.sum(keepdims=True))
    case.write()

    case, name = begin("bins", bins, types.void(line, float32, float32, uint32[::1], line))
    x = random.random(100, dtype=np.float32)
    case.launch(name, (2, ), (64, ),
                [*array(x), np.float32(0.25), np.float32(1), *array(np.zeros(6, np.uint32)),
                 *array(np.full(1, -np.inf, np.float32))])
    places = ((x - np.float32(0.25)) / np.float32(0.75) * np.float64(6))
    case.expect(13, np.bincount(np.trunc(places[places > -1]).astype(int), minlength=6)[:6].astype(np.uint32))
    case.expect(20, x.max(keepdims=True))
    case.write()

    case, name = begin("matrix", matrix, types.void(plane, plane, plane))
    a, b = random.standard_normal((9, 7), dtype=np.float32), random.standard_normal((7, 5), dtype=np.float32)
    case.launch(name, (2, 1), (8, 8), [*array(a), *array(b), *array(np.zeros((9, 5), np.float32))])
    case.expect(22, a @ b, 1e-5, 1e-6)
    case.write()

    case, name = begin("unary", unary, types.void(int64[:], int64[::1]))
    x = random.integers(-100, 100, 120)[::3]
    case.launch(name, (1, ), (64, ), [*array(x, True), *array(np.zeros(40, np.int64))])
    case.expect(11, abs(x)**2 // 3 % 7 - (x > 1))
    case.write()

    case, name = begin("say", say, types.void(int64[::1]))
    x = np.array([5, -10**12, 7])
    case.launch(name, (1, ), (3, ), array(x))
    case.output("".join(f"thread {k} {x[k]}\n" for k in range(3)))
    case.write()

    case, name = begin("half", square, types.void(types.float16[::1], types.float16[::1]))
    x = random.standard_normal(40).astype(np.float16)
    case.launch(name, (1, ), (64, ), [*array(x), *array(np.zeros(40, np.float16))])
    z = x.astype(np.float64)
    case.expect(11, x * x + x)
    case.write()


main()
