// SPDX-License-Identifier: MIT
// What clipping by the norm of each row (AGC) adds to norm, clip and AdamW at the least: the same
// two passes over flat arrays, where rows follow one another and none is cut.
//
//     nvcc -O3 -std=c++17 -arch=native bench/agc_cost.cu -o agc_cost && ./agc_cost [ELEMENTS]
//     [COLUMNS]
//
//     plain   a norm launch (4 B an element), a launch of one block, a step launch (28 B)
//     agc     the norm launch leaves a sum of squares for each 128 elements of a gradient, the step
//             launch adds those of its row and those of the weights, which the step before left,
//             clips its row's gradient, and leaves new sums of the weights
//     rows    the same, but one launch more makes each row's factor of its sums
//     apart   plain, after a launch that reads gradient and weights, and writes the rows that it
//     clips
//
// Times are medians of graphs of one step each; the share of rows that were clipped is shown.
#include "floors.cuh"

#include <cmath>
#include <type_traits>

namespace
{

enum { THREADS = 256, VECTORS = 8, PART = 128, BLOCK = THREADS * VECTORS * 4 };

struct scalars {
    float factor, norm, step_size, root2, decay;
};

constexpr float LAMBDA = 0.01f, AGC_EPS = 1e-3f;

__device__ double squares(const float4 &v)
{
    return (double(v.x) * v.x + double(v.y) * v.y) + (double(v.z) * v.z + double(v.w) * v.w);
}

__device__ double warp_sum(double sum)
{
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, d);
    return sum;
}

__device__ double block_sum(double sum)
{
    __shared__ double warps[THREADS / 32];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    return threadIdx.x < 32 ? warp_sum(threadIdx.x < THREADS / 32 ? warps[threadIdx.x] : 0.0) : 0.0;
}

// PARTS: a sum for each PART elements, too, each of one warp's vectors.
template <bool PARTS>
__global__ void __launch_bounds__(THREADS)
    norm(uint64_t n, const float4 *g, double *sums, double *parts)
{
    const uint64_t first = uint64_t(blockIdx.x) * THREADS * VECTORS + threadIdx.x;
    float4 v[VECTORS];
    double sum = 0;
#pragma unroll
    for (int k = 0; k < VECTORS; k++)
        v[k] = first + k * THREADS < n / 4 ? g[first + k * THREADS] : float4 {};
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        double one = squares(v[k]);
        if (PARTS) {
            one = warp_sum(one);
            if (threadIdx.x % 32 == 0 && first + k * THREADS < n / 4)
                parts[(first + k * THREADS) / 32] = one;
            sum += threadIdx.x % 32 == 0 ? one : 0.0;
        } else {
            sum += one;
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(THREADS) finish(const double *sums, unsigned count, scalars *out)
{
    double sum = 0;
    for (unsigned k = threadIdx.x; k < count; k += THREADS)
        sum += sums[k];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        out->norm = float(sqrt(sum));
        out->factor = fminf(1, 1 / (out->norm + 1e-6f));
    }
}

__device__ void adamw(const scalars &r, float &p, float g, float &m, float &v)
{
    p = fmaf(-r.decay, p, p);
    m = fmaf(BETA1, m, fmaf(-BETA1, g, g));
    v = fmaf(BETA2, v, fmaf(-BETA2, g * g, g * g));
    p -= r.step_size * m / (sqrtf(v) / r.root2 + EPS);
}

// A row's factor from the parts of both its norms: timm's formula of the clipped gradient.
__device__ float of_row(double gg, double ww, float factor)
{
    const float norm = float(sqrt(gg)) * factor;
    const float most = LAMBDA * fmaxf(float(sqrt(ww)), AGC_EPS);
    return norm < most ? factor : factor * (most / fmaxf(norm, 1e-6f));
}

enum kind { PLAIN, AGC, ROWS };

template <kind KIND>
__global__ void __launch_bounds__(THREADS)
    step(uint64_t n, unsigned columns, float4 *p, const float4 *g, float4 *m, float4 *v,
         const scalars *record, const double *g_parts, double *w_parts, const float *factors,
         unsigned *clipped)
{
    const uint64_t at = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= n / 4)
        return;
    scalars r = *record;
    float4 ps = p[at], gs = g[at], ms = m[at], vs = v[at];
    if (KIND == ROWS)
        r.factor = factors[at / (columns / 4)];
    if (KIND ==
        AGC) { // the warp's lanes take a part each of its row, of which all elements are one row's
        const unsigned each = columns / PART, lane = threadIdx.x % 32;
        const uint64_t row = at / 32 / each * each;
        double gg = 0, ww = 0;
        for (unsigned k = lane; k < each; k += 32) {
            gg += g_parts[row + k];
            ww += w_parts[row + k];
        }
        gg = warp_sum(gg);
        ww = warp_sum(ww);
        const float factor = of_row(gg, ww, r.factor);
        if (factor != r.factor && at / 32 == row && lane == 0)
            atomicAdd(clipped, 1);
        r.factor = factor;
    }
    adamw(r, ps.x, gs.x * r.factor, ms.x, vs.x);
    adamw(r, ps.y, gs.y * r.factor, ms.y, vs.y);
    adamw(r, ps.z, gs.z * r.factor, ms.z, vs.z);
    adamw(r, ps.w, gs.w * r.factor, ms.w, vs.w);
    p[at] = ps;
    m[at] = ms;
    v[at] = vs;
    if (KIND != PLAIN) {
        const double sum = warp_sum(squares(ps));
        if (threadIdx.x % 32 == 0)
            w_parts[at / 32] = sum;
    }
}

__global__ void __launch_bounds__(THREADS)
    row_factors(uint64_t rows, unsigned each, const double *g_parts, const double *w_parts,
                const scalars *record, float *factors)
{
    const uint64_t row = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (row >= rows)
        return;
    double gg = 0, ww = 0;
    for (unsigned k = 0; k < each; k++) {
        gg += g_parts[row * each + k];
        ww += w_parts[row * each + k];
    }
    factors[row] = of_row(gg, ww, record->factor);
}

// A block a row.
__global__ void __launch_bounds__(THREADS) clip_rows(unsigned columns, const float4 *p, float4 *g)
{
    __shared__ float shared;
    const uint64_t row = uint64_t(blockIdx.x) * columns / 4;
    double gg = 0, ww = 0;
    for (unsigned k = threadIdx.x; k < columns / 4; k += THREADS) {
        gg += squares(g[row + k]);
        ww += squares(p[row + k]);
    }
    gg = block_sum(gg);
    __syncthreads();
    ww = block_sum(ww);
    if (threadIdx.x == 0)
        shared = of_row(gg, ww, 1);
    __syncthreads();
    const float factor = shared;
    if (factor == 1)
        return;
    for (unsigned k = threadIdx.x; k < columns / 4; k += THREADS) {
        float4 x = g[row + k];
        g[row + k] = { x.x * factor, x.y * factor, x.z * factor, x.w * factor };
    }
}

__global__ void fill(uint64_t n, float *x, float size, uint32_t seed)
{
    const uint64_t k = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint32_t bits = uint32_t(k) * 2654435761u + seed;
    bits = (bits ^ bits >> 15) * 2246822519u;
    bits ^= bits >> 13;
    if (k < n)
        x[k] = size * (float(bits) * 0x1p-31f - 1);
}

} // namespace

int main(int argc, char **argv)
{
    const unsigned columns = argc > 2 ? unsigned(std::atoi(argv[2])) : 768;
    if (columns == 0 || columns % PART) {
        std::fprintf(stderr, "columns: a multiple of %d is needed\n", PART);
        return 2;
    }
    const uint64_t rows = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 124439808) / columns,
                   n = rows * columns;
    const unsigned blocks = unsigned((n + BLOCK - 1) / BLOCK),
                   steps = unsigned((n / 4 + THREADS - 1) / THREADS);
    float *arrays[4]; // p, g, m, v
    for (int k = 0; k < 4; k++) {
        arrays[k] = memory<float>(n);
        if (k < 2)
            fill<<<unsigned((n + 255) / 256), 256>>>(n, arrays[k], k ? 2e-3f : 0.05f,
                                                     7u + unsigned(k));
    }
    double *sums = memory<double>(blocks), *g_parts = memory<double>(n / PART),
           *w_parts = memory<double>(n / PART);
    unsigned *clipped = memory<unsigned>(1);
    float *factors = memory<float>(rows);
    scalars *record = memory<scalars>(1);
    const scalars start = { 1, 0, 1e-5f, 1, 1e-7f };
    CHECK(cudaMemcpy(record, &start, sizeof start, cudaMemcpyHostToDevice));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    auto run = [&](auto of, bool apart) {
        constexpr kind KIND = decltype(of)::value;
        float4 *const p = (float4 *)arrays[0], *const g = (float4 *)arrays[1];
        if (apart)
            clip_rows<<<unsigned(rows), THREADS, 0, stream>>>(columns, p, g);
        norm<KIND != PLAIN><<<blocks, THREADS, 0, stream>>>(n, g, sums, g_parts);
        finish<<<1, THREADS, 0, stream>>>(sums, blocks, record);
        if (KIND == ROWS)
            row_factors<<<unsigned((rows + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
                rows, columns / PART, g_parts, w_parts, record, factors);
        // agc writes sums of weights in place: a row's blocks may read what others of it have
        // written already, which changes its factor, and no time. A plan has two tables, in turn.
        step<KIND><<<steps, THREADS, 0, stream>>>(n, columns, p, g, (float4 *)arrays[2],
                                                  (float4 *)arrays[3], record, g_parts, w_parts,
                                                  factors, clipped);
    };
    enum { KINDS = 4 };
    const char *const names[KINDS] = { "plain", "agc", "rows", "apart" };
    const cudaGraphExec_t graphs[KINDS] = {
        captured(stream, [&] { run(std::integral_constant<kind, PLAIN>(), false); }),
        captured(stream, [&] { run(std::integral_constant<kind, AGC>(), false); }),
        captured(stream, [&] { run(std::integral_constant<kind, ROWS>(), false); }),
        captured(stream, [&] { run(std::integral_constant<kind, PLAIN>(), true); }),
    };
    std::vector<float> times[KINDS];
    for (int round = 0; round < 45; round++) {
        for (int k = 0; k < KINDS; k++) {
            const float us = time_of(stream, graphs[k], 5);
            if (round >= 5)
                times[k].push_back(us);
        }
    }
    unsigned rows_clipped;
    CHECK(cudaMemcpy(&rows_clipped, clipped, sizeof rows_clipped, cudaMemcpyDeviceToHost));
    std::printf("%llu rows of %u, f32; %.1f %% of the rows clipped\n", (unsigned long long)rows,
                columns, 100.0 * rows_clipped / (45.0 * 5 * double(rows)));
    float plain = 0;
    for (int k = 0; k < KINDS; k++) {
        std::sort(times[k].begin(), times[k].end());
        const float median = times[k][times[k].size() / 2];
        plain = k ? plain : median;
        std::printf("%-6s %8.2f us (%.2f to %.2f)  %.3f of plain\n", names[k], median,
                    times[k].front(), times[k].back(), median / plain);
    }
    return 0;
}
