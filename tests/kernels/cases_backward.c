// SPDX-License-Identifier: MIT
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

// ---- quantize_ste_backward ----------------------------------------------------------------------

/// Scales and bounds to try; the bounds hold for target = any.
struct quantization {
    double scale; ///< for f64 tensors; f32_scale for the others
    float f32_scale;
    int32_t zero_point, q_min, q_max;
};

static const struct quantization quantizations[] = {
    { 0.03, 0.03f, 0, -8, 7 },
    { 1.0, 1.0f, INT32_MAX, INT32_MIN, INT32_MAX },
    { 1.0, 1.0f, INT32_MIN, INT32_MIN, INT32_MAX },
    { 0x1p-1070, 0x1p-145f, 3, 0, 15 },
    { 1e306, 3e36f, -5, -20, -1 },
    { 0.7071, 0.7071f, 100, -1000, 1000 },
};

static int32_t clamp(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}

static struct ref_quantize parameters(const struct gpu_kernel *loaded, const struct quantization *q)
{
    struct ref_quantize p = {
        .reciprocal = gpu_kernel_has(loaded, "division", "reciprocal"),
        .fake_quantize = gpu_kernel_has(loaded, "gradient", "fake_quantize"),
        .scale = loaded->type == REF_F64 ? q->scale : (double)q->f32_scale,
        .q_min = q->q_min,
        .q_max = q->q_max,
    };
    if (gpu_kernel_has(loaded, "target", "s8")) {
        p.q_min = -128;
        p.q_max = 127;
    } else if (gpu_kernel_has(loaded, "target", "u8")) {
        p.q_min = 0;
        p.q_max = 255;
    }
    p.zero_point = clamp(q->zero_point, p.q_min, p.q_max);
    return p;
}

static void check_quantize(struct suite *s, const struct gpu_kernel *loaded, const void *x,
                           const void *d_output, void *d_input, uint64_t n, struct ref_quantize p,
                           bool in_place)
{
    float f32_scale = (float)p.scale;
    bool f64 = s->type == REF_F64, device = gpu_kernel_has(loaded, "scalars", "device");
    const void *scale = f64 ? (const void *)&p.scale : (const void *)&f32_scale;
    ref_quantize_ste_backward(s->type, x, d_output, d_input, n, p);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, n);
    struct gpu_tensor *dx = suite_quantized(s, &c, x, d_output, d_input, n, in_place);
    dx->exact = p.fake_quantize; // the bits of d_output
    gpu_case_value(&c, &n, sizeof n);
    if (device) {
        gpu_case_tensor(&c, "scale", f64 ? REF_F64 : REF_F32, 1, scale, NULL);
        gpu_case_tensor(&c, "zero_point", REF_F32, 1, &p.zero_point, NULL);
    } else {
        gpu_case_value(&c, scale, f64 ? sizeof p.scale : sizeof f32_scale);
        gpu_case_value(&c, &p.zero_point, sizeof p.zero_point);
    }
    if (gpu_kernel_has(loaded, "target", "any")) {
        gpu_case_value(&c, &p.q_min, sizeof p.q_min);
        gpu_case_value(&c, &p.q_max, sizeof p.q_max);
    }
    snprintf(c.note, sizeof c.note, "scale = %a, zero_point = %d, %d to %d", p.scale, p.zero_point,
             p.q_min, p.q_max);
    gpu_check(&s->random, &c);
}

void check_quantize_ste_backward(ptx_type dtype)
{
    struct suite s;
    suite_begin(&s, &ptx_kernel_quantize_ste_backward, dtype);
    void *x_room = suite_room(&s), *dy_room = suite_room(&s), *d_input = suite_room(&s);
    data_fill(&s.random, s.type, DATA_SPECIAL, dy_room, s.most);
    for (int q = 0; q < (int)(sizeof quantizations / sizeof *quantizations); ++q) {
        struct quantization quantization = quantizations[q];
        double scale = s.type == REF_F64 ? quantization.scale : (double)quantization.f32_scale;
        data_fill_ties(&s.random, s.type, scale, x_room, s.most);
        for (int v = 0; v < s.count; ++v)
            for (int i = 0; i < s.size_count; ++i) {
                uint64_t n = s.sizes[i];
                // The rarer scales change the arithmetic, not the addresses.
                if (q > 0 && n > 5000)
                    continue;
                if (q > 0 && (i + v + q) % 3)
                    continue;
                check_quantize(&s, &s.loaded[v], suite_window(&s, x_room, n),
                               suite_window(&s, dy_room, n), d_input, n,
                               parameters(&s.loaded[v], &quantization), (i + v + q) % 2);
            }
    }
    free(d_input);
    free(dy_room);
    free(x_room);
    suite_end(&s);
}

// ---- fake_quantize ------------------------------------------------------------------------------

static void check_fake(struct suite *s, const struct gpu_kernel *loaded, const void *x, void *y,
                       uint64_t n, struct ref_quantize p, bool in_place)
{
    static const double beside[] = { 0, 0.5, -0.5, 0.25, 1e30, (double)NAN };
    const bool f64 = s->type == REF_F64, device = gpu_kernel_has(loaded, "scalars", "device");
    const bool learned = gpu_kernel_has(loaded, "zero_point", "learned");
    const enum ref_type compute = f64 ? REF_F64 : REF_F32, zero_type = learned ? compute : REF_F32;
    double scale, zero; // of the types of the parameters
    ref_store(compute, &scale, 0, p.scale);
    if (learned) {
        ref_store(compute, &zero, 0, p.zero_point + beside[random_below(&s->random, 6)]);
        p.zero_point = ref_nearest_level(ref_load(compute, &zero, 0), p.q_min, p.q_max);
    } else {
        memcpy(&zero, &p.zero_point, sizeof p.zero_point);
    }
    ref_fake_quantize(s->type, x, y, n, p);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, n);
    suite_mapped(s, &c, x, y, n, in_place);
    gpu_case_value(&c, &n, sizeof n);
    if (device) {
        gpu_case_tensor(&c, "scale", compute, 1, &scale, NULL);
        gpu_case_tensor(&c, "zero_point", zero_type, 1, &zero, NULL);
    } else {
        gpu_case_value(&c, &scale, ref_bytes(compute));
        gpu_case_value(&c, &zero, ref_bytes(zero_type));
    }
    gpu_case_value(&c, &p.q_min, sizeof p.q_min);
    gpu_case_value(&c, &p.q_max, sizeof p.q_max);
    snprintf(c.note, sizeof c.note, "scale = %a, zero_point = %d, %d to %d", p.scale, p.zero_point,
             p.q_min, p.q_max);
    gpu_check(&s->random, &c);
}

void check_fake_quantize(ptx_type dtype)
{
    // What a host does not check: on the device there may be anything.
    static const double scales[] = { 0, -0.03, (double)INFINITY, (double)NAN };
    enum { LISTED = sizeof quantizations / sizeof *quantizations };
    struct suite s;
    suite_begin(&s, &ptx_kernel_fake_quantize, dtype);
    void *x_room = suite_room(&s), *y = suite_room(&s);
    for (int q = 0; q < LISTED + 4; ++q) {
        struct quantization quantization = quantizations[q % LISTED];
        if (q >= LISTED)
            quantization.f32_scale = (float)(quantization.scale = scales[q - LISTED]);
        const double scale =
            s.type == REF_F64 ? quantization.scale : (double)quantization.f32_scale;
        data_fill_ties(&s.random, s.type, q < LISTED ? scale : 0.03, x_room, s.most);
        for (int v = 0; v < s.count; ++v)
            for (int i = 0; i < s.size_count; ++i) {
                const uint64_t n = s.sizes[i];
                if (q > 0 && (n > 5000 || (i + v + q) % 3))
                    continue;
                struct ref_quantize p = { .scale = scale,
                                          .q_min = quantization.q_min,
                                          .q_max = quantization.q_max };
                p.reciprocal = gpu_kernel_has(&s.loaded[v], "division", "reciprocal");
                p.zero_point = clamp(quantization.zero_point, p.q_min, p.q_max);
                check_fake(&s, &s.loaded[v], suite_window(&s, x_room, n), y, n, p, (i + v + q) % 2);
            }
    }
    free(y);
    free(x_room);
    suite_end(&s);
}

// ---- lerp_backward ------------------------------------------------------------------------------

enum alias { ALIAS_NONE, ALIAS_A, ALIAS_B };

static void check_lerp(struct suite *s, const struct gpu_kernel *loaded, const void *d_output,
                       void *d_a, void *d_b, uint64_t n, double weight, enum alias alias)
{
    bool a = !gpu_kernel_has(loaded, "outputs", "db"), b = !gpu_kernel_has(loaded, "outputs", "da");
    if (alias != ALIAS_NONE && !(alias == ALIAS_A ? a : b))
        return;
    ref_lerp_backward(s->type, d_output, a ? d_a : NULL, b ? d_b : NULL, n, weight);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, n);
    struct gpu_tensor *dy = gpu_case_tensor(&c, "d_output", s->type, n, d_output, NULL);
    if (alias != ALIAS_NONE)
        dy->after = alias == ALIAS_A ? d_a : d_b;
    if (a && alias == ALIAS_A)
        gpu_case_alias(&c, dy);
    else if (a)
        gpu_case_tensor(&c, "d_a", s->type, n, NULL, d_a);
    if (b && alias == ALIAS_B)
        gpu_case_alias(&c, dy);
    else if (b)
        gpu_case_tensor(&c, "d_b", s->type, n, NULL, d_b);
    gpu_case_value(&c, &n, sizeof n);
    if (gpu_kernel_has(loaded, "weight", "device"))
        gpu_case_tensor(&c, "weight", REF_F64, 1, &weight, NULL);
    else
        gpu_case_value(&c, &weight, sizeof weight);
    snprintf(c.note, sizeof c.note, "weight = %a%s", weight,
             alias == ALIAS_A   ? ", d_a = d_output"
             : alias == ALIAS_B ? ", d_b = d_output"
                                : "");
    gpu_check(&s->random, &c);
}

void check_lerp_backward(ptx_type dtype)
{
    // 1 - 0.9 differs between f32 and f64. In f32, 1e300 is infinite and 1e-300 is zero.
    static const double weights[] = { 0.9, 0.0, 1.0, 0.1, -0.25, 1e300, 1e-300, 0x1p-140 };
    struct suite s;
    suite_begin(&s, &ptx_kernel_lerp_backward, dtype);
    void *room = suite_room(&s), *d_a = suite_room(&s), *d_b = suite_room(&s);
    data_fill(&s.random, s.type, DATA_SPECIAL, room, s.most);
    for (int v = 0; v < s.count; ++v)
        for (int i = 0; i < s.size_count; ++i)
            for (int w = 0; w < 8; ++w) {
                uint64_t n = s.sizes[i];
                if (n > 5000 && w > 0)
                    break;
                if (w > 0 && (i + v + w) % 2)
                    continue;
                for (int alias = ALIAS_NONE; alias <= ALIAS_B; ++alias)
                    check_lerp(&s, &s.loaded[v], suite_window(&s, room, n), d_a, d_b, n, weights[w],
                               (enum alias)alias);
            }
    free(d_b);
    free(d_a);
    free(room);
    suite_end(&s);
}
