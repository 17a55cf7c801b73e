#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the cases of NVRTC and CUB in tests/clients/texts. Needs cuda-core 1.2.2, cuda-toolkit[nvrtc,cudart,cccl]
13.5.0 and numpy, and no GPU. The bytes of the texts depend on these versions alone. Variables that nothing names
are left out."""
import collections
import math
import pathlib
import re

import numpy as np
import nvidia.cu13
from cuda.bindings import nvrtc

from case import Case

FOLDER = pathlib.Path(nvidia.cu13.__path__[0])
INCLUDES = [FOLDER / "include", FOLDER / "include" / "cccl", FOLDER / "cccl" / "include"]
MADE_BY = "Made by make_nvrtc.py with NVRTC {}.{}.".format(*nvrtc.nvrtcVersion()[1:])

CUB = r"""
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
extern "C" __global__ void reduce(const int *x, int *out)
{
    using Reduce = cub::BlockReduce<int, 96>;
    __shared__ Reduce::TempStorage room;
    int sum = Reduce(room).Sum(x[threadIdx.x]);
    __syncthreads();
    int most = Reduce(room).Reduce(x[threadIdx.x], [](int a, int b) { return a > b ? a : b; });
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = most;
    }
}
extern "C" __global__ void scan(const long long *x, long long *out, long long *total)
{
    using Scan = cub::BlockScan<long long, 64, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ Scan::TempStorage room;
    long long items[2] = { x[2 * threadIdx.x], x[2 * threadIdx.x + 1] }, all;
    Scan(room).ExclusiveSum(items, items, all);
    out[2 * threadIdx.x] = items[0];
    out[2 * threadIdx.x + 1] = items[1];
    if (threadIdx.x == 0)
        *total = all;
}
extern "C" __global__ void warp_reduce(const float *x, float *out)
{
    using Reduce = cub::WarpReduce<float, 16>;
    __shared__ Reduce::TempStorage room[4];
    float sum = Reduce(room[threadIdx.x / 16]).Sum(x[threadIdx.x]);
    if (threadIdx.x % 16 == 0)
        out[threadIdx.x / 16] = sum;
}
"""
SORT = r"""
#include <cub/block/block_radix_sort.cuh>
extern "C" __global__ void sort(int *keys, unsigned short *values)
{
    using Sort = cub::BlockRadixSort<int, 64, 3, unsigned short>;
    __shared__ Sort::TempStorage room;
    int k[3];
    unsigned short v[3];
    for (int i = 0; i < 3; i++) {
        k[i] = keys[3 * threadIdx.x + i];
        v[i] = values[3 * threadIdx.x + i];
    }
    Sort(room).Sort(k, v);
    for (int i = 0; i < 3; i++) {
        keys[3 * threadIdx.x + i] = k[i];
        values[3 * threadIdx.x + i] = v[i];
    }
}
"""
GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void groups(const int *x, int *sums, int *active, int *order)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int value = x[block.thread_rank()];
    int sum = cg::reduce(tile, value, cg::plus<int>());
    if (tile.thread_rank() == 0)
        sums[block.thread_rank() / 8] = sum;
    if (value > 0) {
        auto together = cg::coalesced_threads();
        active[block.thread_rank()] = together.size();
        order[block.thread_rank()] = together.shfl(together.thread_rank(), 0) + together.thread_rank();
    }
}
"""
LIBM = r"""
extern "C" __global__ void libm(const float *x, const double *y, float *f, double *d, int n)
{
    int i = threadIdx.x;
    f[i] = sinf(x[i]);
    f[n + i] = expf(x[i] * 0.1f);
    f[2 * n + i] = logf(fabsf(x[i]));
    f[3 * n + i] = powf(fabsf(x[i]), 0.3f);
    f[4 * n + i] = tanhf(x[i]);
    f[5 * n + i] = erff(x[i]);
    d[i] = exp(y[i]);
    d[n + i] = cbrt(y[i]);
    d[2 * n + i] = atan2(y[i], 2.0);
    d[3 * n + i] = fmod(y[i] * 1e6, 7.0);
}
"""
HALF = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void halves(const __half *x, __half *out, const __nv_bfloat16 *y, __nv_bfloat16 *bf, int n)
{
    int i = threadIdx.x;
    out[i] = x[i] * x[i] + __float2half(0.5f);
    out[n + i] = __hfma(x[i], x[i], x[i]);
    out[2 * n + i] = __hmax(x[i], __float2half(0.25f));
    out[3 * n + i] = __float2half(sqrtf(fabsf(__half2float(x[i]))));
    bf[i] = __hadd(y[i], y[(i + 1) % n]);
    bf[n + i] = __float2bfloat16(__bfloat162float(y[i]) * 3.0f);
}
"""
MESSAGES = r"""
extern "C" __global__ void say(const char *name, double x)
{
    printf("thread %d of %s: %5.2f %#llx\n", threadIdx.x, name, x * threadIdx.x, 1ull << (32 + threadIdx.x));
}
extern "C" __global__ void check(const int *x)
{
    assert(x[threadIdx.x] < 3);
}
extern "C" __global__ void heap(int **room, int *out)
{
    if (threadIdx.x == 0)
        *room = (int *)malloc(blockDim.x * sizeof(int));
    __syncthreads();
    (*room)[threadIdx.x] = threadIdx.x * threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = (*room)[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        free(*room);
        *room = 0;
    }
}
"""


def checked(program, answer):
    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        size = nvrtc.nvrtcGetProgramLogSize(program)[1]
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    return answer[1:]


def compiled(source, sm):
    program, = checked(None, nvrtc.nvrtcCreateProgram(source.encode(), b"source.cu", 0, [], []))
    options = [f"--gpu-architecture=compute_{sm}", "--std=c++17",
               *(f"--include-path={path}" for path in INCLUDES)]
    checked(program, nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options]))
    size, = checked(program, nvrtc.nvrtcGetPTXSize(program))
    text = b" " * size
    checked(program, nvrtc.nvrtcGetPTX(program, text))
    return without_unused(text.decode().rstrip("\0"))


def without_unused(text):
    """Headers leave hundreds of variables that nothing names, half of the text."""
    names = collections.Counter(re.findall(r"[\w$]+", text))
    variable = re.compile(r"\.global .*?([\w$]+)(\[\d+\])?( = .*)?;$")
    lines = ((line, variable.match(line)) for line in text.split("\n"))
    return "\n".join(line for line, match in lines if not match or names[match[1]] > 1)


def begin(name, source, sm):
    case = Case(name, MADE_BY, f"sm_{sm}")
    case.text(compiled(source, sm))
    return case


def cub(random):
    case = begin("cub_reduce_scan", CUB, 80)
    x = random.integers(-1000, 1000, 96, dtype=np.int32)
    case.launch("reduce", (1, ), (96, ), [x, np.zeros(2, np.int32)])
    case.expect(1, np.array([x.sum(), x.max()], np.int32))
    x = random.integers(-2**40, 2**40, 128)
    case.launch("scan", (1, ), (64, ), [x, np.zeros(128, np.int64), np.zeros(1, np.int64)])
    case.expect(1, np.cumsum(x) - x)
    case.expect(2, x.sum(keepdims=True))
    x = random.standard_normal(64, dtype=np.float32)
    case.launch("warp_reduce", (1, ), (64, ), [x, np.zeros(4, np.float32)])
    case.expect(1, x.reshape(4, 16).sum(1), 1e-5, 1e-6)
    case.write()
    case = begin("cub_sort", SORT, 80)
    keys = random.integers(-50, 50, 192, dtype=np.int32)
    case.launch("sort", (1, ), (64, ), [keys, np.arange(192, dtype=np.uint16)])
    case.expect(0, np.sort(keys))
    case.expect(1, np.argsort(keys, kind="stable").astype(np.uint16))
    case.write()


def groups(random):
    case = begin("nvrtc_groups", GROUPS, 90)
    x = random.integers(-9, 10, 64, dtype=np.int32)
    case.launch("groups", (1, ), (64, ), [x, *(np.zeros(n, np.int32) for n in (8, 64, 64))])
    positive = (x > 0).reshape(2, 32)
    case.expect(1, x.reshape(8, 8).sum(1).astype(np.int32))
    case.expect(2, (positive * positive.sum(1, keepdims=True)).astype(np.int32))
    case.expect(3, (positive * (positive.cumsum(1) - 1)).astype(np.int32))
    case.write()


def libm(random):
    case = begin("nvrtc_libm", LIBM, 90)
    n = 32
    x = (random.standard_normal(n) * 10).astype(np.float32)
    y = random.standard_normal(n) * 5
    z = x.astype(np.float64)
    case.launch("libm", (1, ), (n, ), [x, y, np.zeros(6 * n, np.float32), np.zeros(4 * n), np.int32(n)])
    f = [np.sin(z), np.exp(z * np.float64(np.float32(0.1))), np.log(abs(z)), abs(z)**np.float64(np.float32(0.3)),
         np.tanh(z), np.array([math.erf(v) for v in z])]
    case.expect(2, np.concatenate(f).astype(np.float32), 1e-6, 0)
    case.expect(3, np.concatenate([np.exp(y), np.cbrt(y), np.arctan2(y, 2.0), np.fmod(y * 1e6, 7.0)]), 1e-15, 0)
    case.write()


def bfloat(x):
    """Rounded to bf16, as bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def half(random):
    case = begin("nvrtc_half", HALF, 90)
    n = 32
    x = random.standard_normal(n).astype(np.float16)
    y = bfloat(random.standard_normal(n))
    wide = (y.astype(np.uint32) << 16).view(np.float32)
    case.launch("halves", (1, ), (n, ), [x, np.zeros(4 * n, np.float16), y, np.zeros(2 * n, np.uint16), np.int32(n)])
    z = x.astype(np.float64)
    with np.errstate(all="ignore"):
        out = [x * x + np.float16(0.5), (z * z + z).astype(np.float16), np.maximum(x, np.float16(0.25)),
               np.sqrt(abs(x.astype(np.float32))).astype(np.float16)]
    case.expect(1, np.concatenate(out))  # the fused one: a product of halves and its sum are exact in f64
    case.expect(3, np.concatenate([bfloat(wide + np.roll(wide, -1)), bfloat(wide * np.float32(3))]))
    case.write()


def messages():
    case = begin("nvrtc_messages", MESSAGES, 90)
    case.launch("say", (1, ), (3, ), [np.frombuffer(b"three\0", np.uint8), np.float64(1.5)])
    case.output("".join(f"thread {k} of three: {1.5 * k:5.2f} {1 << (32 + k):#x}\n" for k in range(3)))
    case.launch("heap", (1, ), (40, ), [np.zeros(1, np.uint64), np.zeros(40, np.int32)])
    case.expect(0, np.zeros(1, np.uint64))
    case.expect(1, (np.arange(40)[::-1]**2).astype(np.int32))
    case.launch("check", (1, ), (4, ), [np.arange(4, dtype=np.int32)], error=710)  # CUDA_ERROR_ASSERT
    case.write()


def main():
    random = np.random.default_rng(7)
    cub(random)
    groups(random)
    libm(random)
    half(random)
    messages()


main()
