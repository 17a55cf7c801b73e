// SPDX-License-Identifier: MIT
#include "cases.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "reference/fp8.h"
#include "reference/small.h"

// ---- cast_fp8 -----------------------------------------------------------------------------------

/// Numbers at the places where a code begins and ends, and one step beside them, after the product
/// with `scale`, a power of two.
static void fill_boundaries(struct random *r, enum ref_type type, enum small_format format,
                            float scale, void *p, uint64_t n)
{
    const uint32_t top = small_count(format) - 1;
    for (uint64_t i = 0; i < n; ++i) {
        const uint32_t code = random_below(r, top + 1);
        const double here = small_value(format, code);
        const double above = code == top ? here * 1.0625 : small_value(format, code + 1);
        double x = random_below(r, 2) ? here : (here + above) / 2;
        x = random_below(r, 3) ? x : nextafterf((float)x, random_below(r, 2) ? 0 : INFINITY);
        ref_store(type, p, i, (random_below(r, 2) ? x : -x) / (double)scale);
    }
}

static void fill_cast(struct suite *s, int trial, enum ref_fp8 format, float scale, void *x,
                      uint64_t n)
{
    if (trial == 0)
        fill_boundaries(&s->random, s->type, format == REF_E4M3 ? SMALL_E4M3 : SMALL_E5M2, scale, x,
                        n);
    else
        data_fill(&s->random, s->type, trial == 1 ? DATA_SPECIAL : DATA_PLAIN, x, n);
}

static void check_cast(struct suite *s, const struct gpu_kernel *loaded, const void *x, uint8_t *y,
                       uint64_t n, float scale, float amax)
{
    const enum ref_fp8 format = gpu_kernel_has(loaded, "format", "e4m3") ? REF_E4M3 : REF_E5M2;
    const bool merges = gpu_kernel_has(loaded, "amax", "merge");
    float amax_after = amax;
    struct gpu_case c;
    ref_cast_fp8(s->type, x, n, format, scale, y, &amax_after);
    gpu_case_begin(&c, loaded, n);
    gpu_case_tensor(&c, "x", s->type, n, x, NULL);
    gpu_case_tensor(&c, "y", REF_U8, n, NULL, y);
    gpu_case_value(&c, &n, sizeof n);
    if (gpu_kernel_has(loaded, "scale", "device"))
        gpu_case_tensor(&c, "scale", REF_F32, 1, &scale, NULL);
    else
        gpu_case_value(&c, &scale, sizeof scale);
    if (merges)
        gpu_case_tensor(&c, "amax", REF_F32, 1, &amax, &amax_after)->exact = true;
    snprintf(c.note, sizeof c.note, "scale = %a, amax = %a", (double)scale, (double)amax);
    gpu_check(&s->random, &c);
}

void check_cast_fp8(ptx_type dtype)
{
    static const float scales[] = { 0.25f, 1, 73.3f, 0x1p-130f, FLT_MAX, INFINITY, NAN, 0 };
    static const float before[] = { 0, 0x1p-149f, 1, FLT_MAX, INFINITY };
    struct suite s;
    suite_begin(&s, &ptx_kernel_cast_fp8, dtype);
    void *x = suite_room(&s), *y = suite_room(&s);
    for (int i = 0; i < s.size_count; ++i)
        for (int v = 0; v < s.count; ++v) {
            const int trial = (int)random_below(&s.random, 3);
            if (s.sizes[i] > 5000 && random_below(&s.random, 4))
                continue; // large sizes with a quarter of the variants
            const float scale = scales[random_below(&s.random, trial == 0 ? 2 : 8)];
            const enum ref_fp8 format =
                gpu_kernel_has(&s.loaded[v], "format", "e4m3") ? REF_E4M3 : REF_E5M2;
            fill_cast(&s, trial, format, scale, x, s.sizes[i]);
            check_cast(&s, &s.loaded[v], x, y, s.sizes[i], scale,
                       before[random_below(&s.random, 5)]);
        }
    free(y);
    free(x);
    suite_end(&s);
}

// ---- delayed_scale_update -----------------------------------------------------------------------

enum { MOST_TENSORS = 1200, MOST_ENTRIES = 40000 };

/// The memory of a case, before and after it.
struct scales {
    float history[MOST_ENTRIES], history_after[MOST_ENTRIES];
    float scale[MOST_TENSORS], scale_after[MOST_TENSORS], inverse_after[MOST_TENSORS];
    uint32_t formats[MOST_TENSORS];
};

static void fill_scales(struct random *r, struct scales *s, uint64_t n, uint64_t rows)
{
    static const float special[] = { 0,    0,       INFINITY,  NAN,       -1,
                                     -NAN, FLT_MAX, 0x1p-149f, 0x1p-126f, 0x1p-120f };
    for (uint64_t i = 0; i < n * rows; ++i)
        s->history[i] = (float)fabs(random_unit(r)) * 30;
    for (uint64_t t = 0; t < n; ++t) {
        // A tensor in two has one of the special values in some of its rows, or in all of them.
        const float value = special[random_below(r, 10)];
        const uint32_t sparse = random_below(r, 4);
        for (uint64_t k = 0; k < rows && random_below(r, 2); k += 1 + sparse * random_below(r, 20))
            s->history[k * n + t] = value;
        s->scale[t] = random_below(r, 4) ? (float)random_unit(r) + 2 : special[random_below(r, 10)];
        s->formats[t] = random_below(r, 3);
    }
    if (random_below(r, 4) == 0)
        for (uint64_t i = 0; i < n * rows; ++i)
            s->history[i] = special[random_below(r, 4)];
}

static void check_update(struct random *r, const struct gpu_kernel *loaded, struct scales *s,
                         uint64_t n, uint64_t rows, int32_t margin)
{
    const bool each = gpu_kernel_has(loaded, "format", "each");
    const struct ref_delayed_scale rule = {
        .most_recent = gpu_kernel_has(loaded, "amax", "most_recent"),
        .format = gpu_kernel_has(loaded, "format", "e5m2") ? REF_E5M2 : REF_E4M3,
        .formats = each ? s->formats : NULL,
        .margin = margin,
    };
    const uint64_t count = n * rows;
    struct gpu_case c;
    fill_scales(r, s, n, rows);
    memcpy(s->history_after, s->history, sizeof s->history);
    memcpy(s->scale_after, s->scale, sizeof s->scale);
    ref_delayed_scale_update(&rule, n, rows, s->history_after, s->scale_after, s->inverse_after);
    gpu_case_begin(&c, loaded, n);
    gpu_case_tensor(&c, "scale", REF_F32, n, s->scale, s->scale_after);
    gpu_case_tensor(&c, "scale_inv", REF_F32, n, NULL, s->inverse_after);
    gpu_case_tensor(&c, "history", REF_F32, count, s->history, s->history_after);
    if (each)
        gpu_case_tensor(&c, "formats", REF_F32, n, s->formats, NULL);
    gpu_case_value(&c, &n, sizeof n);
    gpu_case_value(&c, &count, sizeof count);
    gpu_case_value(&c, &margin, sizeof margin);
    snprintf(c.note, sizeof c.note, "%u rows, margin %d", (unsigned)rows, margin);
    gpu_check(r, &c);
}

void check_delayed_scale_update(ptx_type dtype)
{
    static const uint64_t sizes[][2] = { { 1, 1 },   { 1, 1024 }, { 1, 2 },    { 3, 4097 },
                                         { 7, 511 }, { 8, 512 },  { 9, 513 },  { 37, 1024 },
                                         { 65, 16 }, { 1200, 3 }, { 1000, 1 }, { 5, 65 } };
    static const int32_t margins[] = { 0, 0, 1, -3, 100, -100 };
    struct gpu_kernel loaded[GPU_MOST_VARIANTS];
    struct random r = gpu_random("delayed_scale_update");
    const int count = gpu_load_variants(&ptx_kernel_delayed_scale_update, dtype, loaded);
    ALLOCATED(struct scales) *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int v = 0; v < count; ++v) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k)
            if (sizes[k][0] * sizes[k][1] <= gpu.max_size)
                check_update(&r, &loaded[v], s, sizes[k][0], sizes[k][1],
                             margins[random_below(&r, 6)]);
        gpu_kernel_unload(&loaded[v]);
    }
}
