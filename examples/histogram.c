// SPDX-License-Identifier: MIT
// Counts how often each byte occurs. A block counts in shared memory, then adds its counts to the
// result.
#include "host.h"

#include <string.h>

enum { BINS = 256, BLOCK = BINS, BLOCKS = 64, N = 1000003 };

static void build(ptx_builder *b)
{
    ptx_entry (b, "histogram", .block = { BLOCK }) {
        ptx_ptr data = ptx_param_ptr(b, PTX_U8, "data", .length = "n", .readonly = true);
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_ptr result = ptx_param_ptr(b, PTX_U32, "result", .length = "256");

        ptx_ptr bins = ptx_shared(b, PTX_U32, BINS);
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_store(b, bins, tid, ptx_u32(0));
        ptx_barrier(b);

        ptx_grid_stride (b, i, n) {
            ptx_val byte = ptx_cvt(b, PTX_U32, ptx_load(b, data, i));
            ptx_atomic_add(b, bins, byte, ptx_u32(1));
        }
        ptx_barrier(b);

        ptx_atomic_add(b, result, tid, ptx_load(b, bins, tid));
    }
}

static bool run(struct host *host)
{
    static uint8_t data[N];
    uint32_t n = N, seed = 1, expected[BINS] = { 0 }, result[BINS];

    for (uint32_t i = 0; i < n; i++) {
        data[i] = (uint8_t)(host_random(&seed) % 199);
        expected[data[i]]++;
    }
    CUdeviceptr gpu_data = host_upload(host, data, sizeof data);
    CUdeviceptr gpu_result = host_zeros(host, sizeof result);
    const struct ptx_arg args[] = { PTX_ARG(gpu_data), PTX_ARG(n), PTX_ARG(gpu_result) };
    host_launch(host, "histogram",
                &(struct ptx_launch_params) { .grid = { BLOCKS }, .args = args, .arg_count = 3 });
    return host_download(host, gpu_result, result, sizeof result) &&
           memcmp(result, expected, sizeof expected) == 0;
}

struct example example = { "histogram", build, run };
