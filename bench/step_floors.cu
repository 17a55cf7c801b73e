// SPDX-License-Identifier: MIT
// What parts of a step take at the least, in CUDA C++ over flat arrays: sums of micro-batches, by
// the mix of what they read and write, and AdamW whose weights leave codes in blocks of 128 x 128.
//
//     nvcc -O3 -std=c++17 -arch=native bench/step_floors.cu -o step_floors && ./step_floors
//     [ELEMENTS] [COLUMNS]
//
//     copy, read, write   f32, for comparison
//     first               x = y, y in bf16, x in f32: 2 B are read and 4 written an element
//     later               x = x + y: 6 B are read and 4 written
//         vectors: of 4 elements a thread has in flight; streaming: .cs; bulk: the sums are
//         written by cp.async.bulk, 16 KB a block at once; resident: blocks that stay and step on
//     step                norm (2 B), a launch of one block, AdamW (26 B), g in bf16
//     apart               step, and a launch that reads the weights: codes, transposed codes
//     fused               the same codes from the launch of the step, which keeps a block of
//                         128 x 128 weights in shared memory
//
// Times are medians of graphs; `of the copy`: the rate, compared with that of the copy.
#include "floors.cuh"

#include <cuda_fp8.h>

namespace
{

enum { THREADS = 256, TILE = 128, LINES = 16 };
enum mix { COPY, READ, WRITE, FIRST, LATER };
enum how { PLAIN, STREAMING, BULK };

__device__ float4 of_bf16(uint2 y)
{
    return { __uint_as_float(y.x << 16), __uint_as_float(y.x & 0xffff0000),
             __uint_as_float(y.y << 16), __uint_as_float(y.y & 0xffff0000) };
}

template <how HOW, class T> __device__ T load(const T *p)
{
    return HOW == STREAMING ? __ldcs(p) : *p;
}

template <how HOW> __device__ void store(float4 *p, float4 x)
{
    if (HOW == STREAMING)
        __stcs(p, x);
    else
        *p = x;
}

// ---- mixes of reads and writes ------------------------------------------------------------------

template <mix MIX, how HOW, int VECTORS>
__device__ void mix_rows(uint64_t first, uint64_t vectors, float4 *x, const uint2 *y, float4 *z)
{
    float4 old[VECTORS];
    uint2 more[VECTORS];
    extern __shared__ __align__(128) float4 staged[];
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        const uint64_t at = first + k * THREADS;
        if (at >= vectors)
            continue;
        if (MIX != WRITE && MIX != FIRST)
            old[k] = load<HOW>(x + at);
        if (MIX == FIRST || MIX == LATER)
            more[k] = load<STREAMING>(y + at);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        const uint64_t at = first + k * THREADS;
        if (at >= vectors)
            continue;
        if (MIX == READ) {
            if (old[k].x + old[k].y + old[k].z + old[k].w == 1e30f)
                z[at] = old[k];
            continue;
        }
        float4 to = MIX == WRITE ? float4 { 1, 2, 3, 4 } : MIX == COPY ? old[k] : of_bf16(more[k]);
        if (MIX == LATER)
            to = { to.x + old[k].x, to.y + old[k].y, to.z + old[k].z, to.w + old[k].w };
        if (HOW == BULK)
            staged[k * THREADS + threadIdx.x] = to;
        else
            store<HOW>((MIX == COPY ? z : x) + at, to);
    }
    if (HOW == BULK) { // whole blocks alone
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                         "cp.async.bulk.commit_group;\n"
                         "cp.async.bulk.wait_group.read 0;" ::"l"(x + first),
                         "r"((uint32_t)__cvta_generic_to_shared(staged)),
                         "r"(VECTORS * THREADS * 16)
                         : "memory");
        }
        __syncthreads();
    }
}

template <mix MIX, how HOW, int VECTORS>
__global__ void __launch_bounds__(THREADS)
    mix_of(uint64_t vectors, float4 *x, const uint2 *y, float4 *z)
{
    const uint64_t span = uint64_t(gridDim.x) * THREADS * VECTORS;
    for (uint64_t first = uint64_t(blockIdx.x) * THREADS * VECTORS; first < vectors; first += span)
        mix_rows<MIX, HOW, VECTORS>(first + threadIdx.x, vectors, x, y, z);
}

// ---- AdamW and codes in blocks ------------------------------------------------------------------

struct scalars {
    float factor, step_size, root2, decay;
};

__device__ void adamw(const scalars &r, float &p, float g, float &m, float &v)
{
    p = fmaf(-r.decay, p, p);
    m = fmaf(BETA1, m, fmaf(-BETA1, g, g));
    v = fmaf(BETA2, v, fmaf(-BETA2, g * g, g * g));
    p -= r.step_size * __fdividef(m, sqrtf(v) * r.root2 + EPS);
}

__device__ void adamw4(const scalars &r, float4 &p, uint2 bits, float4 &m, float4 &v)
{
    const float4 g = of_bf16(bits);
    adamw(r, p.x, g.x * r.factor, m.x, v.x);
    adamw(r, p.y, g.y * r.factor, m.y, v.y);
    adamw(r, p.z, g.z * r.factor, m.z, v.z);
    adamw(r, p.w, g.w * r.factor, m.w, v.w);
}

// In thread 0.
__device__ double block_sum(double sum)
{
    __shared__ double warps[THREADS / 32];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    for (int k = 1; k < THREADS / 32 && threadIdx.x == 0; k++)
        sum += warps[k];
    return sum;
}

__global__ void __launch_bounds__(THREADS) norm(uint64_t vectors, const uint2 *g, double *sums)
{
    enum { VECTORS = 8 };
    const uint64_t first = uint64_t(blockIdx.x) * THREADS * VECTORS + threadIdx.x;
    double sum = 0;
    uint2 v[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; k++)
        v[k] = first + k * THREADS < vectors ? __ldcs(g + first + k * THREADS) : uint2 {};
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        const float4 x = of_bf16(v[k]);
        sum += (double(x.x) * x.x + double(x.y) * x.y) + (double(x.z) * x.z + double(x.w) * x.w);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(THREADS) finish(const double *sums, unsigned count, scalars *r)
{
    double sum = 0;
    for (unsigned k = threadIdx.x; k < count; k += THREADS)
        sum += sums[k];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        r->factor = fminf(1, 1 / (float(sqrt(sum)) + 1e-6f));
}

__global__ void __launch_bounds__(THREADS)
    step(uint64_t vectors, float4 *p, const uint2 *g, float4 *m, float4 *v, const scalars *record)
{
    const uint64_t at = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= vectors)
        return;
    const scalars r = *record;
    float4 ps = p[at], ms = m[at], vs = v[at];
    adamw4(r, ps, g[at], ms, vs);
    p[at] = ps;
    m[at] = ms;
    v[at] = vs;
}

__device__ uint32_t word_of(float4 x, float by)
{
    const uint32_t low =
        __nv_cvt_float2_to_fp8x2({ x.x * by, x.y * by }, __NV_SATFINITE, __NV_E4M3);
    const uint32_t high =
        __nv_cvt_float2_to_fp8x2({ x.z * by, x.w * by }, __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
}

__device__ float largest(float4 x)
{
    return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}

__device__ unsigned unit_at(unsigned line, unsigned unit)
{
    return line * (TILE / 4) + (unit ^ (line >> 2 & 7)) * 4;
}

// The words of GROUPS x 16 rows of a thread, to rows and, through shared memory, to columns.
template <int GROUPS>
__device__ void codes_write(unsigned rows, unsigned columns, unsigned row, unsigned column,
                            uint32_t word[GROUPS][LINES], uint8_t *codes, uint8_t *turned,
                            uint32_t *shared)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, each = TILE / LINES / GROUPS;
    const unsigned high = min(rows - row, TILE);
#pragma unroll
    for (int n = 0; n < GROUPS; n++) {
        const unsigned group = warp + n * each;
#pragma unroll
        for (int k = 0; k < LINES; k++)
            if (group * LINES + k < high)
                *(uint32_t *)(codes + uint64_t(row + group * LINES + k) * columns + column +
                              4 * lane) = word[n][k];
#pragma unroll
        for (int k = 0; k < LINES; k += 4) {
            uint32_t *x = &word[n][k];
            const uint32_t a = __byte_perm(x[0], x[1], 0x5140), b = __byte_perm(x[0], x[1], 0x7362),
                           c = __byte_perm(x[2], x[3], 0x5140), d = __byte_perm(x[2], x[3], 0x7362);
            x[0] = __byte_perm(a, c, 0x5410);
            x[1] = __byte_perm(a, c, 0x7632);
            x[2] = __byte_perm(b, d, 0x5410);
            x[3] = __byte_perm(b, d, 0x7632);
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            *(uint4 *)(shared + unit_at(4 * lane + k, group)) = { word[n][k], word[n][4 + k],
                                                                  word[n][8 + k], word[n][12 + k] };
    }
    __syncthreads();
    const unsigned unit = threadIdx.x % 8;
    for (unsigned line = threadIdx.x / 8; line < TILE; line += blockDim.x / 8)
        if (unit * 16 < high) // rows are a multiple of 16 here
            *(uint4 *)(turned + uint64_t(column + line) * rows + row + unit * 16) =
                *(uint4 *)(shared + unit_at(line, unit));
}

__device__ float tile_largest(float own, float *of_warps)
{
    own = __uint_as_float(__reduce_max_sync(0xffffffff, __float_as_uint(own)));
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    for (unsigned k = 0; k < blockDim.x / 32; k++)
        own = fmaxf(own, of_warps[k]);
    return own;
}

__global__ void __launch_bounds__(THREADS, 2) codes(unsigned rows, unsigned columns, const float *p,
                                                    uint8_t *to, uint8_t *turned, float *scales)
{
    __shared__ __align__(16) uint32_t shared[TILE * TILE / 4];
    __shared__ float of_warps[32];
    const unsigned across = columns / TILE, block = gridDim.x - 1 - blockIdx.x;
    const unsigned row = block / across * TILE, column = block % across * TILE;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4 x[LINES];
    float own = 0;
#pragma unroll
    for (int k = 0; k < LINES; k++) {
        const unsigned at = min(row + warp * LINES + k, rows - 1);
        x[k] = *(const float4 *)(p + uint64_t(at) * columns + column + 4 * lane);
    }
#pragma unroll
    for (int k = 0; k < LINES; k++)
        own = fmaxf(own, largest(x[k]));
    const float by = 448 / tile_largest(own, of_warps);
    if (threadIdx.x == 0)
        scales[block] = 1 / by;
    uint32_t word[1][LINES];
#pragma unroll
    for (int k = 0; k < LINES; k++)
        word[0][k] = word_of(x[k], by);
    codes_write<1>(rows, columns, row, column, word, to, turned, shared);
}

// AHEAD: vectors of each array that a thread reads at once.
template <int WIDTH, int BLOCKS, int AHEAD, how HOW>
__global__ void __launch_bounds__(WIDTH, BLOCKS)
    fused(unsigned rows, unsigned columns, float *p, const uint16_t *g, float *m, float *v,
          const scalars *record, uint8_t *to, uint8_t *turned, float *scales)
{
    extern __shared__ __align__(128) float4 kept[]; // TILE rows of TILE / 4
    __shared__ float of_warps[32];
    enum { WARPS = WIDTH / 32, TURNS = TILE / WARPS, GROUPS = TILE / LINES / WARPS };
    const unsigned across = columns / TILE;
    const unsigned row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const scalars r = *record;
    float own = 0;
#pragma unroll 1
    for (int k = 0; k < TURNS; k += AHEAD) {
        float4 ps[AHEAD], ms[AHEAD], vs[AHEAD];
        uint2 gs[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const unsigned at = min(row + (k + n) * WARPS + warp, rows - 1);
            const uint64_t i = uint64_t(at) * columns + column + 4 * lane;
            ps[n] = load<HOW>((const float4 *)(p + i));
            gs[n] = load<HOW>((const uint2 *)(g + i));
            ms[n] = load<HOW>((const float4 *)(m + i));
            vs[n] = load<HOW>((const float4 *)(v + i));
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            const unsigned line = (k + n) * WARPS + warp;
            adamw4(r, ps[n], gs[n], ms[n], vs[n]);
            own = fmaxf(own, largest(ps[n]));
            kept[line * 32 + lane] = ps[n];
            if (row + line >= rows)
                continue;
            const uint64_t i = uint64_t(row + line) * columns + column + 4 * lane;
            store<HOW>((float4 *)(p + i), ps[n]);
            store<HOW>((float4 *)(m + i), ms[n]);
            store<HOW>((float4 *)(v + i), vs[n]);
        }
    }
    const float by = 448 / tile_largest(own, of_warps);
    if (threadIdx.x == 0)
        scales[blockIdx.x] = 1 / by;
    uint32_t word[GROUPS][LINES];
#pragma unroll
    for (int n = 0; n < GROUPS; n++)
#pragma unroll
        for (int k = 0; k < LINES; k++)
            word[n][k] = word_of(kept[((warp + n * WARPS) * LINES + k) * 32 + lane], by);
    __syncthreads(); // the codes take the room of the weights
    codes_write<GROUPS>(rows, columns, row, column, word, to, turned, (uint32_t *)kept);
}

// ---- measuring ----------------------------------------------------------------------------------

cudaStream_t stream;
double copy_rate;

template <class F> double measure(const char *name, double bytes, F launches)
{
    enum { ROUNDS = 15, TURNS = 4 };
    const cudaGraphExec_t graph = captured(stream, launches);
    std::vector<float> times;
    for (int round = 0; round < ROUNDS + 2; round++) {
        const float us = time_of(stream, graph, TURNS);
        if (round >= 2)
            times.push_back(us);
    }
    std::sort(times.begin(), times.end());
    const double median = times[ROUNDS / 2], rate = bytes / median * 1e-3;
    if (copy_rate == 0)
        copy_rate = rate;
    std::printf("%-44s %8.1f us (%.1f to %.1f) %7.1f GB/s  %.3f of the copy\n", name, median,
                times.front(), times.back(), rate, rate / copy_rate);
    std::fflush(stdout);
    CHECK(cudaGraphExecDestroy(graph));
    return median;
}

uint64_t n;
float *f32[4]; // p, m, v and a target
uint16_t *bf16;

// resident: blocks a multiprocessor that stay; 0: a block for each part.
template <mix MIX, how HOW, int VECTORS> void mix_measure(const char *name, int resident = 0)
{
    static const int bytes[] = { 8, 4, 4, 6, 10 };
    const uint64_t vectors = n / 4, each = THREADS * VECTORS;
    const int shared = HOW == BULK ? VECTORS * THREADS * 16 : 0;
    const unsigned blocks =
        resident ? unsigned(resident) * 132u
                 : unsigned(HOW == BULK ? vectors / each : (vectors + each - 1) / each);
    char full[80];
    std::snprintf(full, sizeof full, "%s, %d vectors%s%s", name, VECTORS,
                  HOW == STREAMING ? ", streaming"
                  : HOW == BULK    ? ", bulk"
                                   : "",
                  resident ? ", resident" : "");
    auto kernel = mix_of<MIX, HOW, VECTORS>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    measure(full, double(n) * bytes[MIX], [&] {
        kernel<<<blocks, THREADS, shared, stream>>>(HOW == BULK ? vectors / each * each : vectors,
                                                    (float4 *)f32[0], (const uint2 *)bf16,
                                                    (float4 *)f32[3]);
    });
}

template <mix MIX> void mixes(const char *name)
{
    mix_measure<MIX, PLAIN, 1>(name);
    mix_measure<MIX, PLAIN, 2>(name);
    mix_measure<MIX, PLAIN, 4>(name);
    mix_measure<MIX, STREAMING, 1>(name);
    mix_measure<MIX, STREAMING, 2>(name);
    mix_measure<MIX, STREAMING, 4>(name);
    mix_measure<MIX, BULK, 2>(name);
    mix_measure<MIX, BULK, 4>(name);
    mix_measure<MIX, BULK, 8>(name);
    mix_measure<MIX, PLAIN, 4>(name, 8);
    mix_measure<MIX, BULK, 4>(name, 8);
}

struct leaves {
    unsigned rows, columns;
    uint8_t *codes, *turned;
    float *scales;
    double *sums; // of blocks
    scalars *record;
};

void norm_launch(const leaves &l)
{
    const uint64_t vectors = n / 4;
    const unsigned blocks = unsigned((vectors + THREADS * 8 - 1) / (THREADS * 8));
    norm<<<blocks, THREADS, 0, stream>>>(vectors, (const uint2 *)bf16, l.sums);
    finish<<<1, THREADS, 0, stream>>>(l.sums, blocks, l.record);
}

void step_launch(const leaves &l)
{
    const uint64_t vectors = n / 4;
    step<<<unsigned((vectors + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        vectors, (float4 *)f32[0], (const uint2 *)bf16, (float4 *)f32[1], (float4 *)f32[2],
        l.record);
}

template <int WIDTH, int BLOCKS, int AHEAD, how HOW> void fused_measure(const leaves &l)
{
    auto kernel = fused<WIDTH, BLOCKS, AHEAD, HOW>;
    const int shared = TILE * TILE * 4;
    const unsigned tiles = (l.rows + TILE - 1) / TILE * (l.columns / TILE);
    char name[80];
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    cudaFuncAttributes is;
    CHECK(cudaFuncGetAttributes(&is, kernel));
    std::snprintf(name, sizeof name, "fused, %d x %d threads, %d ahead%s, %d regs%s", BLOCKS, WIDTH,
                  AHEAD, HOW == STREAMING ? ", streaming" : "", is.numRegs,
                  is.localSizeBytes ? ", spills" : "");
    measure(name, double(n) * 30, [&] {
        norm_launch(l);
        kernel<<<tiles, WIDTH, shared, stream>>>(l.rows, l.columns, f32[0], bf16, f32[1], f32[2],
                                                 l.record, l.codes, l.turned, l.scales);
    });
}

} // namespace

int main(int argc, char **argv)
{
    leaves l = {};
    l.columns = argc > 2 ? unsigned(std::atoi(argv[2])) : 768;
    if (l.columns == 0 || l.columns % TILE) {
        std::fprintf(stderr, "columns: a multiple of %d is needed\n", TILE);
        return 2;
    }
    n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 124439808;
    l.rows = unsigned(n / l.columns / 16 * 16);
    n = uint64_t(l.rows) * l.columns;
    for (float *&x : f32)
        x = memory<float>(n, 0x3d);
    bf16 = memory<uint16_t>(n, 0x3c);
    l.codes = memory<uint8_t>(n);
    l.turned = memory<uint8_t>(n);
    l.scales = memory<float>(n / TILE);
    l.sums = memory<double>(n / THREADS);
    const scalars start = { 1, 1e-6f, 1, 1e-7f };
    l.record = memory<scalars>(1);
    CHECK(cudaMemcpy(l.record, &start, sizeof start, cudaMemcpyHostToDevice));
    CHECK(cudaStreamCreate(&stream));
    std::printf("%u x %u elements\n", l.rows, l.columns);
    measure("copy by the driver", double(n) * 8, [&] {
        CHECK(cudaMemcpyAsync(f32[3], f32[0], n * 4, cudaMemcpyDeviceToDevice, stream));
    });
    mix_measure<COPY, PLAIN, 2>("copy");
    mix_measure<READ, PLAIN, 4>("read");
    mix_measure<WRITE, PLAIN, 2>("write");
    mixes<FIRST>("first");
    mixes<LATER>("later");
    for (int k = 1; k < 3; k++)
        CHECK(cudaMemset(f32[k], 0x3a, n * 4));
    CHECK(cudaMemset(f32[0], 0x3d, n * 4));
    measure("step", double(n) * 28, [&] {
        norm_launch(l);
        step_launch(l);
    });
    const unsigned tiles = (l.rows + TILE - 1) / TILE * (l.columns / TILE);
    measure("apart", double(n) * 34, [&] {
        norm_launch(l);
        step_launch(l);
        codes<<<tiles, THREADS, 0, stream>>>(l.rows, l.columns, f32[0], l.codes, l.turned,
                                             l.scales);
    });
    fused_measure<256, 3, 1, PLAIN>(l);
    fused_measure<256, 3, 1, STREAMING>(l);
    fused_measure<256, 3, 2, PLAIN>(l);
    fused_measure<256, 3, 2, STREAMING>(l);
    fused_measure<256, 3, 4, PLAIN>(l);
    fused_measure<256, 2, 2, PLAIN>(l);
    fused_measure<256, 2, 4, PLAIN>(l);
    fused_measure<256, 2, 8, PLAIN>(l);
    return 0;
}
