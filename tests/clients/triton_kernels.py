# SPDX-License-Identifier: MIT
"""Kernels in Triton, each with arguments and what numpy computes from them."""
import collections

import numpy as np
import triton
import triton.language as tl

# The kernel, its grid, its arguments (numpy arrays and scalars), what is constant in it, Triton's options, the
# number of the argument that is the result, what it must be, and the tolerances.
Case = collections.namedtuple("Case", "name kernel grid arguments constants options result expected tolerance")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + i, i < columns, other=-float("inf"))
    e = tl.exp(row - tl.max(row))
    tl.store(out + tl.program_id(0) * columns + i, e / tl.sum(e), i < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * columns + i, i < columns, other=0.0)
    mean = tl.sum(v) / columns
    apart = tl.where(i < columns, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart) / columns + epsilon)
    y = apart * scale * tl.load(weight + i, i < columns) + tl.load(bias + i, i < columns)
    tl.store(out + tl.program_id(0) * columns + i, y, i < columns)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, i < n, other=0), 1, i < n)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        inside = first + k < K
        x = tl.load(a + m[:, None] * K + first + k, (m < M)[:, None] & inside, other=0.0)
        y = tl.load(b + (first + k)[:, None] * N + n, inside[:, None] & (n < N), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * N + n, total, (m < M)[:, None] & (n < N))


def cases():
    random = np.random.default_rng(7)

    def floats(*shape):
        return random.standard_normal(shape, dtype=np.float32)

    x, y = floats(300), floats(300)
    yield Case("add", add, (3, ), [x, y, np.zeros_like(x), 300], {"BLOCK": 128}, {}, 2, x + y, 0)

    rows = floats(2, 150)
    e = np.exp(rows - rows.max(1, keepdims=True))
    yield Case("softmax", softmax, (2, ), [rows, np.zeros_like(rows), 150], {"BLOCK": 256}, {}, 1,
               e / e.sum(1, keepdims=True), 1e-5)

    weight, bias = floats(150), floats(150)
    normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + np.float32(1e-5))
    yield Case("layer_norm", layer_norm, (2, ), [rows, weight, bias, np.zeros_like(rows), 150, 1e-5],
               {"BLOCK": 256}, {}, 3, normal * weight + bias, 1e-5)

    numbers = random.integers(0, 16, 300, dtype=np.int32)
    yield Case("histogram", histogram, (2, ), [numbers, np.zeros(16, np.int32), 300], {"BLOCK": 256}, {}, 1,
               np.bincount(numbers, minlength=16).astype(np.int32), 0)

    a, b = floats(40, 24).astype(np.float16), floats(24, 20).astype(np.float16)
    yield Case("matmul", matmul, (2, 1), [a, b, np.zeros((40, 20), np.float32), 40, 20, 24],
               {"BM": 32, "BN": 32, "BK": 16}, {"num_warps": 2}, 2,
               a.astype(np.float32) @ b.astype(np.float32), 1e-4)


def by_warpgroups(matmul_case):
    """The product of matrices in larger tiles, by four warps."""
    return matmul_case._replace(grid=(1, 2), constants={"BM": 64, "BN": 16, "BK": 16}, options={"num_warps": 4})
