// SPDX-License-Identifier: MIT
#include "cases.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_formula.h"
#include "data.h"
#include "skip.h"

/// The largest number of elements that squared_sum cuts into short chunks, and the largest that the
/// clip kernel reads before the scale.
enum { SUM_SWITCH = 1 << 22, CLIP_SWITCH = 1 << 18 };

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
    ALLOCATED(void) *partials = malloc((size_t)(count + 1) * sizeof(double));
    assert_non_null(partials);
    ref_squared_sum(s->type, x, n, f32, partials);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, n);
    gpu_case_tensor(&c, "x", s->type, n, x, NULL);
    gpu_case_value(&c, &n, sizeof n);
    struct gpu_tensor *out =
        gpu_case_tensor(&c, "partials", f32 ? REF_F32 : REF_F64, count, NULL, partials);
    out->exact = true; // every NaN has the same bits
    snprintf(c.note, sizeof c.note, "data of kind %d", kind);
    gpu_check(&s->random, &c);
}

/// C-SQSUM-001. The reference has no alignment. So if the result equals it at every alignment, the
/// bits are the same at every alignment.
void check_squared_sum(ptx_type dtype)
{
    struct suite s;
    suite_begin(&s, &ptx_kernel_squared_sum, dtype);
    void *room = suite_room(&s);
    for (int kind = DATA_PLAIN; kind <= DATA_SPECIAL; ++kind) {
        // So few special values that some chunks have one and others none.
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

/// For sizes of `last` and one more. Skips the test and says so if the environment excludes them.
static void begin_at_switch(struct suite *s, const ptx_kernel *kernel, ptx_type dtype,
                            uint64_t last)
{
    if (gpu.max_size <= last)
        skip_because("%s of %" PRIu64 " elements: left out by %s", kernel->name, last + 1,
                     gpu.limit);
    suite_begin(s, kernel, dtype);
    s->most = last + 1;
}

void check_squared_sum_at_switch(ptx_type dtype)
{
    struct suite s;
    begin_at_switch(&s, &ptx_kernel_squared_sum, dtype, SUM_SWITCH);
    void *x = suite_room(&s);
    data_fill(&s.random, s.type, DATA_PLAIN, x, s.most);
    for (int v = 0; v < s.count; ++v)
        for (uint64_t n = SUM_SWITCH; n <= s.most; ++n)
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
    if (kind == 5) // in f64: a finite sum whose norm is too large for f32
        ref_store(s->type, partials, at, s->type == REF_F64 ? 1e90 : 3e38);
    if (kind == 6) { // in f64: a norm that is 0 in f32
        memset(partials, 0, (size_t)count * ref_bytes(s->type));
        ref_store(s->type, partials, at, s->type == REF_F64 ? 0x1p-310 : 0x1p-149);
    }
}

/// The kernel's bits are the reference's; here is the formula beside both.
static void check_formula(const struct suite *s, const void *partials, uint64_t count,
                          struct ref_clip clip, const float out[3])
{
    double sum = 0;
    for (uint64_t i = 0; i < count; ++i)
        sum += ref_load(s->type, partials, i);
    assert_true((out[2] != 0.0f) == !isfinite(sum));
    if (!isfinite(sum))
        return;
    const struct clip_bounds bounds = clip_formula(sum, clip.max_norm, clip.eps, 1);
    if (!((double)out[0] >= bounds.least && (double)out[0] <= bounds.most))
        fail_msg("sum %a, max_norm %a, eps %a: scale %a; should be %a to %a", sum,
                 (double)clip.max_norm, (double)clip.eps, (double)out[0], bounds.least,
                 bounds.most);
}

static void check_reduce(struct suite *s, const struct gpu_kernel *loaded, const void *partials,
                         uint64_t count, struct ref_clip clip)
{
    float out[3];
    ref_clip_scale_reduce(s->type, partials, count, clip, out);
    check_formula(s, partials, count, clip, out);
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
    gpu_check(&s->random, &c);
}

/// C-FUSEDCLIP-001.
void check_clip_scale_reduce(ptx_type dtype)
{
    static const float max_norms[] = { 1.0f, 0.0f, 0.1f, 3e38f, 0x1p-149f, 1e-20f, INFINITY };
    static const float epsilons[] = { 0.0f, 1e-6f, 1.0f, 3e38f };
    struct suite s;
    suite_begin(&s, &ptx_kernel_clip_scale_reduce, dtype);
    void *partials = suite_room(&s);
    for (int i = 0; i < s.size_count; ++i)
        for (int kind = 0; kind < 7; ++kind) {
            uint64_t count = s.sizes[i];
            fill_partials(&s, kind, partials, count);
            for (int v = 0; v < s.count; ++v) {
                struct ref_clip clip = { policy_of(&s.loaded[v]),
                                         max_norms[random_below(&s.random, 7)],
                                         epsilons[random_below(&s.random, 4)] };
                check_reduce(&s, &s.loaded[v], partials, count, clip);
            }
        }
    // A norm equal to max_norm is not clipped. A norm of 0 in f32 is not 0: all or nothing is
    // clipped.
    double f64[2] = { 9.0, 16.0 }, tiny[2] = { 0x1p-320, 0 };
    float f32[2] = { 9.0f, 16.0f };
    for (int v = 0; v < s.count; ++v)
        check_reduce(&s, &s.loaded[v], s.type == REF_F64 ? (void *)f64 : (void *)f32, 2,
                     (struct ref_clip) { policy_of(&s.loaded[v]), 5.0f, 0.0f });
    for (int v = 0; v < s.count && s.type == REF_F64; ++v)
        for (int k = 0; k < 7; ++k)
            check_reduce(&s, &s.loaded[v], tiny, 2,
                         (struct ref_clip) { policy_of(&s.loaded[v]), max_norms[k], 0.0f });
    free(partials);
    suite_end(&s);
}

static void check_clip(struct suite *s, const struct gpu_kernel *loaded, const void *gradient,
                       void *clipped, uint64_t n, const float record[3])
{
    enum ref_nonfinite policy = policy_of(loaded);
    memcpy(clipped, gradient, (size_t)n * ref_bytes(s->type));
    ref_gradient_clip_from_device_scale(s->type, clipped, n, policy, record);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, n);
    struct gpu_tensor *g = gpu_case_tensor(&c, "gradient", s->type, n, gradient, clipped);
    // A scale of 1 writes nothing, so NaNs keep their payloads. A product would change them.
    g->exact = record[0] == 1.0f;
    gpu_case_value(&c, &n, sizeof n);
    gpu_case_tensor(&c, "record", REF_F32, policy == REF_ZERO ? 3 : 1, record, NULL);
    snprintf(c.note, sizeof c.note, "record = { %a, %a, %a }", (double)record[0], (double)record[1],
             (double)record[2]);
    gpu_check(&s->random, &c);
}

void check_gradient_clip_from_device_scale(ptx_type dtype)
{
    static const float records[][3] = {
        { 0.37f, 2.7f, 0.0f },      { 1.0f, 0.5f, 0.0f },     { NAN, NAN, 1.0f },
        { 0.0f, INFINITY, 1.0f },   { 1.0f, NAN, 1.0f },      { 0x1.fffffep-1f, 1.0f, 0.0f },
        { 0x1p-149f, 1e30f, 0.0f }, { 0.0f, INFINITY, 0.0f },
    };
    struct suite s;
    suite_begin(&s, &ptx_kernel_gradient_clip_from_device_scale, dtype);
    void *room = suite_room(&s), *clipped = suite_room(&s);
    data_fill(&s.random, s.type, DATA_SPECIAL, room, s.most);
    for (int v = 0; v < s.count; ++v)
        for (int i = 0; i < s.size_count; ++i)
            for (int k = 0; k < (s.sizes[i] > 5000 ? 3 : 8); ++k) {
                const void *gradient = suite_window(&s, room, s.sizes[i]);
                check_clip(&s, &s.loaded[v], gradient, clipped, s.sizes[i], records[k]);
            }
    for (int v = 0; v < s.count && ref_bytes(s.type) == 2; ++v) {
        const struct clip_product product = clip_rounded_twice(&s.random, s.type);
        const float record[3] = { product.factor, 1.0f, 0.0f };
        uint16_t element, result;
        ref_store(s.type, &element, 0, product.element);
        check_clip(&s, &s.loaded[v], &element, &result, 1, record);
        assert_true(result == clip_rounded(s.type, product.element, product.factor, true));
        assert_true(result != clip_rounded(s.type, product.element, product.factor, false));
    }
    free(clipped);
    free(room);
    suite_end(&s);
}

void check_gradient_clip_at_switch(ptx_type dtype)
{
    static const float records[][3] = { { 0.37f, 2.7f, 0.0f },
                                        { 1.0f, 0.5f, 0.0f },
                                        { 1.0f, NAN, 1.0f } };
    struct suite s;
    begin_at_switch(&s, &ptx_kernel_gradient_clip_from_device_scale, dtype, CLIP_SWITCH);
    void *gradient = suite_room(&s), *clipped = suite_room(&s);
    data_fill(&s.random, s.type, DATA_SPECIAL, gradient, s.most);
    for (int v = 0; v < s.count; ++v)
        for (uint64_t n = CLIP_SWITCH; n <= s.most; ++n)
            for (int k = 0; k < 3; ++k)
                check_clip(&s, &s.loaded[v], gradient, clipped, n, records[k]);
    free(clipped);
    free(gradient);
    suite_end(&s);
}
