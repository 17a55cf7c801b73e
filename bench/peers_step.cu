// SPDX-License-Identifier: MIT
// Norm, clip and AdamW in CUDA C++, in two versions: flat arrays, two launches, one vector a
// thread; and a list of tensors as apex's and Transformer Engine's multi_tensor_apply takes it,
// with tables in the kernels' arguments, so that launches grow with the tensors. Parameter,
// gradient and states have one type. In bf16 flat arrays round p and v stochastically
// (Philox4x32-7, 16 bits an element), lists to nearest. Nothing is written if the norm is NaN or
// infinite.
#include "peers_list.cuh"

namespace
{

struct hyper {
    float lr, beta1, beta2, eps, weight_decay;
};

struct step_record : record {
    hyper h;
    float t, step_size, root2; // of the step being taken
};

__device__ void finish(step_record *out, double sum)
{
    finish((record *)out, sum);
    if (!isfinite(out->norm))
        return;
    out->t += 1;
    out->step_size = out->h.lr / float(1 - pow(double(out->h.beta1), double(out->t)));
    out->root2 = float(sqrt(1 - pow(double(out->h.beta2), double(out->t))));
}

__device__ void adamw(const step_record &r, float &p, float g, float &m, float &v)
{
    g *= r.factor;
    p -= r.h.lr * r.h.weight_decay * p;
    m = fmaf(r.h.beta1, m, fmaf(-r.h.beta1, g, g));
    v = fmaf(r.h.beta2, v, fmaf(-r.h.beta2, g * g, g * g));
    p -= r.step_size * m / (sqrtf(v) / r.root2 + r.h.eps);
}

// ---- flat arrays --------------------------------------------------------------------------------

__device__ uint4 philox(uint4 x)
{
    uint2 key = { 2026, 0 };
#pragma unroll
    for (int round = 0; round < 7; round++) {
        const uint32_t a = __umulhi(0xd2511f53, x.x), b = __umulhi(0xcd9e8d57, x.z);
        x = { b ^ x.y ^ key.x, 0xcd9e8d57 * x.z, a ^ x.w ^ key.y, 0xd2511f53 * x.x };
        key.x += 0x9e3779b9;
        key.y += 0xbb67ae85;
    }
    return x;
}

// `random`: 16 bits.
__device__ __nv_bfloat16 stochastic(float x, uint32_t random)
{
    if (!isfinite(x))
        return __float2bfloat16(x);
    return __ushort_as_bfloat16((unsigned short)((__float_as_uint(x) + random) >> 16));
}

__device__ uint32_t half_of(const uint4 &words, int lane)
{
    const uint32_t all[] = { words.x, words.y, words.z, words.w };
    return lane % 2 ? all[lane / 2] >> 16 : all[lane / 2] & 0xffff;
}

// n is a multiple of the lanes.
template <class T>
__global__ void __launch_bounds__(THREADS)
    adamw_flat(uint64_t n, T *p, const T *g, T *m, T *v, const step_record *record)
{
    const uint64_t index = uint64_t(blockIdx.x) * THREADS + threadIdx.x, at = index * lanes<T>;
    const step_record r = *record;
    if (at >= n || !isfinite(r.norm))
        return;
    vector<T> ps = load(p + at), gs = load(g + at), ms = load(m + at), vs = load(v + at);
    uint4 of_p = {}, of_v = {};
    if (sizeof(T) == 2) {
        of_p = philox({ uint32_t(index), uint32_t(index >> 32), uint32_t(r.t), 0 });
        of_v = philox({ uint32_t(index), uint32_t(index >> 32) | 1u << 31, uint32_t(r.t), 0 });
    }
#pragma unroll
    for (int k = 0; k < lanes<T>; k++) {
        float x = float(ps.lane[k]), first = float(ms.lane[k]), second = float(vs.lane[k]);
        adamw(r, x, float(gs.lane[k]), first, second);
        ms.lane[k] = T(first);
        if constexpr (sizeof(T) == 2) {
            ps.lane[k] = stochastic(x, half_of(of_p, k));
            vs.lane[k] = stochastic(second, half_of(of_v, k));
        } else {
            ps.lane[k] = x;
            vs.lane[k] = second;
        }
    }
    store(p + at, ps);
    store(m + at, ms);
    store(v + at, vs);
}

// ---- a list -------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(APEX_THREADS)
    adamw_list(const __grid_constant__ table<4> t, const step_record *record)
{
    const int tensor = t.block_to_tensor[blockIdx.x], first = t.block_to_chunk[blockIdx.x];
    const int n = min(t.sizes[tensor] - first * APEX_CHUNK, int(APEX_CHUNK));
    const step_record r = *record;
    T *lists[4];
    if (!isfinite(r.norm))
        return;
    for (int k = 0; k < 4; k++)
        lists[k] = (T *)t.addresses[k][tensor] + size_t(first) * APEX_CHUNK;
    auto [p, g, m, v] = lists;
    const int quads = n % ILP == 0 ? n / ILP : 0;
    for (int i = threadIdx.x; i < quads; i += APEX_THREADS) {
        quad<T> ps = load_quad(p + i * ILP), gs = load_quad(g + i * ILP),
                ms = load_quad(m + i * ILP), vs = load_quad(v + i * ILP);
#pragma unroll
        for (int k = 0; k < ILP; k++) {
            float x = float(ps.lane[k]), m1 = float(ms.lane[k]), m2 = float(vs.lane[k]);
            adamw(r, x, float(gs.lane[k]), m1, m2);
            ps.lane[k] = T(x);
            ms.lane[k] = T(m1);
            vs.lane[k] = T(m2);
        }
        *(bits<T, ILP> *)(p + i * ILP) = from_bits<bits<T, ILP>>(ps);
        *(bits<T, ILP> *)(m + i * ILP) = from_bits<bits<T, ILP>>(ms);
        *(bits<T, ILP> *)(v + i * ILP) = from_bits<bits<T, ILP>>(vs);
    }
    for (int i = quads * ILP + int(threadIdx.x); i < n; i += APEX_THREADS) {
        float x = float(p[i]), m1 = float(m[i]), m2 = float(v[i]);
        adamw(r, x, float(g[i]), m1, m2);
        p[i] = T(x);
        m[i] = T(m1);
        v[i] = T(m2);
    }
}

// ---- a step of either kind ----------------------------------------------------------------------

struct step {
    list_norm<step_record> measured;
    std::vector<table<4>> tables;
    void *flat[4]; // p, g, m, v
    uint64_t count;
};

template <class F> int with_step_type(int dtype, F f)
{
    return with_type_of<float, __nv_bfloat16>(dtype, f);
}

} // namespace

// `lists`: the addresses of p, g, m and v, one for each tensor; with `apex` any number of tensors,
// otherwise one, whose count is a multiple of 8. `scalars`: lr, beta1, beta2, eps, weight_decay,
// max_norm. NULL if memory ran out or an argument is wrong.
extern "C" void *peers_step_create(int dtype, int apex, void *const *const *lists,
                                   const uint64_t *counts, size_t tensors, const float *scalars)
{
    if (!apex && (tensors != 1 || counts[0] % 8 != 0))
        return nullptr;
    step_record in = {};
    in.max_norm = scalars[5];
    in.unscale = 1;
    in.h = { scalars[0], scalars[1], scalars[2], scalars[3], scalars[4] };
    step *s = new step {};
    s->count = counts[0];
    for (int k = 0; k < 4; k++)
        s->flat[k] = lists[k][0];
    s->tables = tables_of<4>(lists, counts, tensors);
    if (norm_create(&s->measured, dtype, apex != 0, lists[1], counts, tensors) == cudaSuccess &&
        cudaMemcpy(s->measured.out, &in, sizeof in, cudaMemcpyHostToDevice) == cudaSuccess)
        return s;
    delete s;
    return nullptr;
}

extern "C" int peers_step_run(void *handle, cudaStream_t stream)
{
    const step *s = (const step *)handle;
    const list_norm<step_record> *n = &s->measured;
    const int status = norm_run(n, stream);
    if (status != cudaSuccess)
        return status;
    return with_step_type(n->dtype, [=](auto of) {
        using T = decltype(of);
        if (n->apex) {
            for (const table<4> &t : s->tables)
                adamw_list<T><<<t.blocks, APEX_THREADS, 0, stream>>>(t, n->out);
            return;
        }
        const uint64_t vectors = s->count / lanes<T>;
        adamw_flat<<<unsigned((vectors + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            s->count, (T *)s->flat[0], (const T *)s->flat[1], (T *)s->flat[2], (T *)s->flat[3],
            n->out);
    });
}

extern "C" void peers_step_destroy(void *handle)
{
    step *s = (step *)handle;
    norm_destroy(&s->measured);
    delete s;
}
