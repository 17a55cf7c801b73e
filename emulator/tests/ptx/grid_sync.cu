// SPDX-License-Identifier: MIT
// The grid barrier of cooperative groups: blocks write, wait for each other, and read.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void reversed(const int *in, int *middle, int *out, long long count)
{
    cg::grid_group grid = cg::this_grid();
    for (long long i = (long long)grid.thread_rank(); i < count; i += (long long)grid.size())
        middle[i] = 2 * in[i];
    grid.sync();
    for (long long i = (long long)grid.thread_rank(); i < count; i += (long long)grid.size())
        out[i] = middle[count - 1 - i] + (int)grid.num_blocks();
}

extern "C" __global__ void in_halves(int *sums, int *out, long long rounds)
{
    cg::grid_group grid = cg::this_grid();
    for (long long k = 0; k < rounds; k++) {
        if (threadIdx.x == 0)
            sums[blockIdx.x] += (int)blockIdx.x + 1;
        auto token = grid.barrier_arrive();
        grid.barrier_wait(static_cast<decltype(token) &&>(token));
        if (threadIdx.x == 0)
            out[blockIdx.x] = sums[(blockIdx.x + 1) % gridDim.x];
        grid.sync();
    }
}
