// SPDX-License-Identifier: MIT
#include "cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data.h"

static enum ref_nonfinite policy_of(const struct gpu_kernel *loaded)
{
    const char *value = variant_value(loaded->kernel, &loaded->spec, "nonfinite");
    return strcmp(value, "skip") == 0   ? REF_SKIP
           : strcmp(value, "zero") == 0 ? REF_ZERO
                                        : REF_PROPAGATE;
}

static void check_sums(struct suite *s, const struct gpu_kernel *loaded, const void *x, uint64_t n,
                       int kind)
{
    bool f32 = gpu_kernel_has(loaded, "partials", "f32");
    uint64_t count = ref_partial_count(n);
    void *partials = malloc((size_t)(count + 1) * sizeof(double));
    assert_non_null(partials);
    ref_squared_sum(s->type, x, n, f32, partials);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, n);
    gpu_case_tensor(&c, "x", s->type, n, x, NULL);
    gpu_case_value(&c, &n, sizeof n);
    struct gpu_tensor *out =
        gpu_case_tensor(&c, "partials", f32 ? REF_F32 : REF_F64, count, NULL, partials);
    out->exact = true; // the one NaN of partials
    snprintf(c.note, sizeof c.note, "data of kind %d", kind);
    gpu_check(s->gpu, &s->random, &c);
    free(partials);
}

/// C-SQSUM-001. The reference knows no alignment: to equal it at all of them is to give the same
/// bits at all of them.
void check_squared_sum(struct gpu *gpu, ptx_type dtype)
{
    struct suite s;
    suite_begin(&s, gpu, &ptx_kernel_squared_sum, dtype);
    void *room = suite_room(&s);
    for (int kind = DATA_PLAIN; kind <= DATA_SPECIAL; ++kind) {
        // So few that some chunks hold one and others none.
        data_fill(&s.random, s.type, kind == DATA_WILD ? DATA_WILD : DATA_PLAIN, room, s.most);
        for (uint64_t i = 0; kind == DATA_SPECIAL && i < 40 && s.most; ++i)
            data_fill(&s.random, s.type, DATA_SPECIAL,
                      (char *)room + random_u64(&s.random) % s.most * ref_bytes(s.type), 1);
        for (int v = 0; v < s.count; ++v)
            for (int i = 0; i < s.size_count; ++i) {
                uint64_t n = s.sizes[i];
                check_sums(&s, &s.loaded[v], suite_window(&s, room, n), n, kind);
            }
    }
    free(room);
    suite_end(&s);
}

void check_squared_sum_at_switch(struct gpu *gpu, ptx_type dtype)
{
    enum { SWITCH = 1 << 21 };
    struct suite s;
    if (gpu->max_size <= SWITCH) {
        fprintf(stderr, "SKIPPED, squared_sum of 2^21 elements: left out by the environment\n");
        skip();
    }
    suite_begin(&s, gpu, &ptx_kernel_squared_sum, dtype);
    s.most = SWITCH + 1;
    void *x = suite_room(&s);
    data_fill(&s.random, s.type, DATA_PLAIN, x, s.most);
    for (int v = 0; v < s.count; ++v)
        for (uint64_t n = SWITCH; n <= s.most; ++n)
            check_sums(&s, &s.loaded[v], x, n, DATA_PLAIN);
    free(x);
    suite_end(&s);
}

static void fill_partials(struct suite *s, int kind, void *partials, uint64_t count)
{
    memset(partials, 0, (size_t)count * ref_bytes(s->type));
    if (kind > 0)
        data_fill(&s->random, s->type, kind == 2 ? DATA_WILD : DATA_PLAIN, partials, count);
    data_make_positive(s->type, partials, count);
    if (count == 0)
        return;
    uint64_t at = random_u64(&s->random) % count;
    if (kind == 3)
        ref_store(s->type, partials, at, (double)NAN);
    if (kind == 4)
        ref_store(s->type, partials, at, (double)INFINITY);
    if (kind == 5) // in f64 a finite sum whose norm is beyond f32
        ref_store(s->type, partials, at, s->type == REF_F64 ? 1e90 : 3e38);
}

static void check_reduce(struct suite *s, const struct gpu_kernel *loaded, const void *partials,
                         uint64_t count, struct ref_clip clip)
{
    float out[3];
    ref_clip_scale_reduce(s->type, partials, count, clip, out);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, count);
    gpu_case_tensor(&c, "partials", s->type, count, partials, NULL);
    gpu_case_value(&c, &count, sizeof count);
    if (gpu_kernel_has(loaded, "max_norm", "device"))
        gpu_case_tensor(&c, "max_norm", REF_F32, 1, &clip.max_norm, NULL);
    else
        gpu_case_value(&c, &clip.max_norm, sizeof clip.max_norm);
    gpu_case_value(&c, &clip.eps, sizeof clip.eps);
    gpu_case_tensor(&c, "out", REF_F32, 3, NULL, out);
    snprintf(c.note, sizeof c.note, "max_norm = %a, eps = %a", (double)clip.max_norm,
             (double)clip.eps);
    gpu_check(s->gpu, &s->random, &c);
}

/// C-FUSEDCLIP-001.
void check_clip_scale_reduce(struct gpu *gpu, ptx_type dtype)
{
    static const float max_norms[] = { 1.0f, 0.0f, 0.1f, 3e38f, 0x1p-149f, 1e-20f, INFINITY };
    static const float epsilons[] = { 0.0f, 1e-6f, 1.0f };
    struct suite s;
    suite_begin(&s, gpu, &ptx_kernel_clip_scale_reduce, dtype);
    void *partials = suite_room(&s);
    for (int i = 0; i < s.size_count; ++i)
        for (int kind = 0; kind < 6; ++kind) {
            uint64_t count = s.sizes[i];
            fill_partials(&s, kind, partials, count);
            for (int v = 0; v < s.count; ++v) {
                struct ref_clip clip = { policy_of(&s.loaded[v]),
                                         max_norms[random_below(&s.random, 7)],
                                         epsilons[random_below(&s.random, 3)] };
                check_reduce(&s, &s.loaded[v], partials, count, clip);
            }
        }
    // A norm that is max_norm itself is not clipped.
    double f64[2] = { 9.0, 16.0 };
    float f32[2] = { 9.0f, 16.0f };
    for (int v = 0; v < s.count; ++v)
        check_reduce(&s, &s.loaded[v], s.type == REF_F64 ? (void *)f64 : (void *)f32, 2,
                     (struct ref_clip) { policy_of(&s.loaded[v]), 5.0f, 0.0f });
    free(partials);
    suite_end(&s);
}

void check_gradient_clip_from_device_scale(struct gpu *gpu, ptx_type dtype)
{
    static const float records[][3] = {
        { 0.37f, 2.7f, 0.0f },      { 1.0f, 0.5f, 0.0f },     { NAN, NAN, 1.0f },
        { 0.0f, INFINITY, 1.0f },   { 1.0f, NAN, 1.0f },      { 0x1.fffffep-1f, 1.0f, 0.0f },
        { 0x1p-149f, 1e30f, 0.0f }, { 0.0f, INFINITY, 0.0f },
    };
    struct suite s;
    suite_begin(&s, gpu, &ptx_kernel_gradient_clip_from_device_scale, dtype);
    void *room = suite_room(&s), *clipped = suite_room(&s);
    data_fill(&s.random, s.type, DATA_SPECIAL, room, s.most);
    for (int v = 0; v < s.count; ++v)
        for (int i = 0; i < s.size_count; ++i)
            for (int k = 0; k < 8; ++k) {
                uint64_t n = s.sizes[i];
                if (n > 5000 && k > 2)
                    continue;
                enum ref_nonfinite policy = policy_of(&s.loaded[v]);
                const void *gradient = suite_window(&s, room, n);
                memcpy(clipped, gradient, (size_t)n * ref_bytes(s.type));
                ref_gradient_clip_from_device_scale(s.type, clipped, n, policy, records[k]);
                struct gpu_case c;
                gpu_case_begin(&c, &s.loaded[v], n);
                struct gpu_tensor *g =
                    gpu_case_tensor(&c, "gradient", s.type, n, gradient, clipped);
                // A scale of 1 writes nothing: NaNs keep their payloads, which a product would not.
                g->exact = records[k][0] == 1.0f;
                gpu_case_value(&c, &n, sizeof n);
                gpu_case_tensor(&c, "record", REF_F32, policy == REF_ZERO ? 3 : 1, records[k],
                                NULL);
                snprintf(c.note, sizeof c.note, "record = { %a, %a, %a }", (double)records[k][0],
                         (double)records[k][1], (double)records[k][2]);
                gpu_check(gpu, &s.random, &c);
            }
    free(clipped);
    free(room);
    suite_end(&s);
}
