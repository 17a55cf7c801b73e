// SPDX-License-Identifier: MIT
// y = a x + y, one element a thread.
#include "host.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, N = 100003 };

static void build(ptx_builder *b)
{
    ptx_entry (b, "saxpy", .block = { BLOCK }) {
        ptx_val n = ptx_param(b, PTX_U32, "n"), a = ptx_param(b, PTX_F32, "a");
        ptx_ptr x = ptx_param_ptr(b, PTX_F32, "x", .length = "n", .readonly = true);
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .length = "n");
        ptx_val i = ptx_global_index(b, PTX_X);
        ptx_if (b, ptx_lt(b, i, n))
            ptx_store(b, y, i, ptx_fma(b, a, ptx_load(b, x, i), ptx_load(b, y, i)));
    }
}

static bool run(struct host *host)
{
    static float x[N], y[N], result[N];
    uint32_t n = N;
    float a = 0.75f;

    host_random_floats(x, N, -1, 1);
    host_random_floats(y, N, -10, 10);
    CUdeviceptr gpu_x = host_upload(host, x, sizeof x);
    CUdeviceptr gpu_y = host_upload(host, y, sizeof y);
    const struct ptx_arg args[] = { PTX_ARG(n), PTX_ARG(a), PTX_ARG(gpu_x), PTX_ARG(gpu_y) };
    host_launch(host, "saxpy",
                &(struct ptx_launch_params) {
                    .grid = { (n + BLOCK - 1) / BLOCK }, .args = args, .arg_count = 4 });
    if (!host_download(host, gpu_y, result, sizeof result))
        return false;

    for (uint32_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
    return memcmp(result, y, sizeof y) == 0;
}

struct example example = { "saxpy", build, run };
