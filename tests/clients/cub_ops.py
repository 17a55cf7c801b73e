# SPDX-License-Identifier: MIT
"""CUB and libcu++ on the emulator: NVRTC compiles CUB's algorithms for blocks and warps, and atomics and barriers
of libcu++, and each kernel is compared with numpy. The emulator is in LD_LIBRARY_PATH."""
import pathlib

import numpy as np
import nvidia.cu13
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

FOLDER = pathlib.Path(nvidia.cu13.__path__[0])
THREADS, ITEMS = 128, 4
SOURCE = r"""
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/std/array>
#include <cuda/std/complex>

constexpr int THREADS = 128, ITEMS = 4;
using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;

template <typename Step> __device__ void through(const int *x, int *out, Step step)
{
    __shared__ union { Load::TempStorage load; Store::TempStorage store; } room;
    int items[ITEMS];
    Load(room.load).Load(x, items);
    __syncthreads();
    step(items);
    __syncthreads();
    Store(room.store).Store(out, items);
}
extern "C" __global__ void reduce_raking(const int *x, int *out)
{
    using Reduce = cub::BlockReduce<int, THREADS, cub::BLOCK_REDUCE_RAKING>;
    __shared__ Reduce::TempStorage room;
    int sum = Reduce(room).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0)
        out[0] = sum;
}
extern "C" __global__ void inclusive_sum(const int *x, int *out)
{
    using Scan = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_RAKING>;
    __shared__ Scan::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) { Scan(room).InclusiveSum(items, items); });
}
extern "C" __global__ void exclusive_max(const int *x, int *out)
{
    using Scan = cub::BlockScan<int, THREADS>;
    __shared__ Scan::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) {
        Scan(room).ExclusiveScan(items, items, -1000000, [](int a, int b) { return a > b ? a : b; });
    });
}
extern "C" __global__ void radix_sort(const int *x, int *out)
{
    using Sort = cub::BlockRadixSort<int, THREADS, ITEMS>;
    __shared__ Sort::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) { Sort(room).SortDescending(items); });
}
extern "C" __global__ void merge_sort(const int *x, int *out)
{
    using Sort = cub::BlockMergeSort<int, THREADS, ITEMS>;
    __shared__ Sort::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) { Sort(room).Sort(items, [](int a, int b) { return a < b; }); });
}
extern "C" __global__ void difference(const int *x, int *out)
{
    using Difference = cub::BlockAdjacentDifference<int, THREADS>;
    __shared__ Difference::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) {
        Difference(room).SubtractLeft(items, items, [](int a, int b) { return a - b; });
    });
}
extern "C" __global__ void heads(const int *x, int *out)
{
    using Heads = cub::BlockDiscontinuity<int, THREADS>;
    __shared__ Heads::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) {
        int flags[ITEMS];
        for (int i = 0; i < ITEMS; i++)
            items[i] /= 100;
        Heads(room).FlagHeads(flags, items, [](int a, int b) { return a != b; });
        for (int i = 0; i < ITEMS; i++)
            items[i] = flags[i];
    });
}
extern "C" __global__ void striped(const int *x, int *out)
{
    using Exchange = cub::BlockExchange<int, THREADS, ITEMS>;
    __shared__ Exchange::TempStorage room;
    through(x, out, [&](int (&items)[ITEMS]) { Exchange(room).BlockedToStriped(items, items); });
}
extern "C" __global__ void histogram(const int *x, int *out)
{
    using Histogram = cub::BlockHistogram<unsigned char, THREADS, 1, 16, cub::BLOCK_HISTO_ATOMIC>;
    __shared__ Histogram::TempStorage room;
    __shared__ unsigned bins[16];
    unsigned char digits[1] = { (unsigned char)(x[threadIdx.x] & 15) };
    Histogram(room).Histogram(digits, bins);
    __syncthreads();
    if (threadIdx.x < 16)
        out[threadIdx.x] = bins[threadIdx.x];
}
extern "C" __global__ void rotate(const int *x, int *out)
{
    using Shuffle = cub::BlockShuffle<int, THREADS>;
    __shared__ Shuffle::TempStorage room;
    Shuffle(room).Rotate(x[threadIdx.x], out[threadIdx.x], 5);
}
extern "C" __global__ void warp_scan(const int *x, int *out)
{
    using Scan = cub::WarpScan<int>;
    __shared__ Scan::TempStorage room[THREADS / 32];
    Scan(room[threadIdx.x / 32]).InclusiveSum(x[threadIdx.x], out[threadIdx.x]);
}
extern "C" __global__ void warp_most(const int *x, int *out)
{
    using Reduce = cub::WarpReduce<int>;
    __shared__ Reduce::TempStorage room[THREADS / 32];
    int most = Reduce(room[threadIdx.x / 32]).Reduce(x[threadIdx.x], [](int a, int b) { return a > b ? a : b; });
    if (threadIdx.x % 32 == 0)
        out[threadIdx.x / 32] = most;
}
extern "C" __global__ void atomics(const int *x, int *out)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]), most(out[1]);
    sum.fetch_add(x[threadIdx.x], cuda::memory_order_relaxed);
    most.fetch_max(x[threadIdx.x]);
}
extern "C" __global__ void barriers(const int *x, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int room[THREADS];
    if (threadIdx.x == 0)
        init(&barrier, THREADS);
    __syncthreads();
    room[threadIdx.x] = x[threadIdx.x];
    barrier.arrive_and_wait();
    out[threadIdx.x] = room[THREADS - 1 - threadIdx.x];
}
extern "C" __global__ void complex(const int *x, int *out)
{
    cuda::std::complex<float> z((float)(x[threadIdx.x] % 50), 2), w = z * z;
    cuda::std::array<int, 2> parts = { (int)w.real(), (int)w.imag() };
    out[threadIdx.x] = parts[0] + 10000 * parts[1];
}
"""


def expected(x):
    """What numpy says of each kernel: {name: (elements of the result, its beginning)}."""
    first = x[:THREADS]
    z = np.fmod(first, 50).astype(np.complex64) + 2j
    padded = np.concatenate(([-1000000], x))
    tens = np.trunc(x / 100).astype(np.int32)
    warps = first.reshape(-1, 32)
    return {
        "reduce_raking": [first.sum()],
        "inclusive_sum": np.cumsum(x),
        "exclusive_max": np.maximum.accumulate(padded)[:-1],
        "radix_sort": np.sort(x)[::-1],
        "merge_sort": np.sort(x),
        "difference": np.concatenate(([x[0]], np.diff(x))),
        "heads": np.concatenate(([1], tens[1:] != tens[:-1])),
        "striped": x.reshape(ITEMS, THREADS).T.ravel(),
        "histogram": np.bincount(first & 15, minlength=16),
        "rotate": np.roll(first, -5),
        "warp_scan": np.cumsum(warps, axis=1).ravel(),
        "warp_most": warps.max(axis=1),
        "atomics": [first.sum(), max(first.max(), 0)],
        "barriers": first[::-1],
        "complex": (z * z).real.astype(int) + 10000 * (z * z).imag.astype(int),
    }


def main():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    paths = [str(FOLDER / "include"), str(FOLDER / "include" / "cccl"), str(FOLDER / "cccl" / "include")]
    options = ProgramOptions(arch="compute_90", std="c++17", include_path=paths)
    code = Program(SOURCE, code_type="c++", options=options).compile("ptx")
    x = np.random.default_rng(3).integers(-1000, 1000, THREADS * ITEMS, dtype=np.int32)
    memory = [device.memory_resource.allocate(x.nbytes, stream=stream) for _ in range(2)]
    driver.cuMemcpyHtoD(int(memory[0].handle), x.ctypes.data, x.nbytes)
    kernels = expected(x)
    for name, numbers in kernels.items():
        out = np.zeros_like(x)
        driver.cuMemcpyHtoD(int(memory[1].handle), out.ctypes.data, out.nbytes)
        launch(stream, LaunchConfig(grid=1, block=THREADS), code.get_kernel(name), *memory)
        stream.sync()
        driver.cuMemcpyDtoH(out.ctypes.data, int(memory[1].handle), out.nbytes)
        np.testing.assert_array_equal(out[:len(numbers)], numbers, err_msg=name)
    print(f"CUB and libcu++: {len(kernels)} kernels of algorithms for blocks and warps, atomics, barriers: ok", flush=True)


main()
