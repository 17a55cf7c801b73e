// SPDX-License-Identifier: MIT
#include "cases.h"
#include "test.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

static struct ref_groups groups_of(const struct gpu_kernel *loaded)
{
    static const char *const levels[] = { "symmetric", "full", "asymmetric", "unsigned" };
    struct ref_groups g = { .bits = gpu_kernel_has(loaded, "bits", "4") ? 4 : 8 };
    for (int k = 0; k < 4; ++k)
        if (gpu_kernel_has(loaded, "levels", levels[k]))
            g.levels = (enum ref_levels)k;
    for (uint64_t size = 32; size <= 128; size *= 2) {
        char name[8];
        snprintf(name, sizeof name, "%" PRIu64, size);
        if (gpu_kernel_has(loaded, "group", name))
            g.group = size;
    }
    return g;
}

/// Groups whose quotients are at ties, and groups of every size of numbers: what a scale and a
/// level are at the ends of the type's range.
static void fill_groups(struct random *r, enum ref_type type, void *x, uint64_t n)
{
    static const double sizes[] = { 1,        0,         0x1p-149,        0x1p-148, 0x1.8p-146,
                                    0x1p-141, 0x1p-130,  0x1p-126,        0x1p-61,  0x1p-57,
                                    0x1p57,   0x1p61,    0x1p127,         FLT_MAX,  65504,
                                    0x1p-24,  0x1.8p-23, 0x1.fffffep-120, 448,      6 };
    const uint32_t count = sizeof sizes / sizeof *sizes;
    data_fill(r, type, DATA_PLAIN, x, n);
    for (uint64_t begin = 0; begin < n; begin += 32) {
        const uint64_t end = n - begin < 32 ? n : begin + 32;
        const uint32_t kind = random_below(r, 8);
        const double size = sizes[random_below(r, count)];
        const double tie = ldexp((double)(1 + random_below(r, 255)), (int)random_below(r, 20) - 10);
        for (uint64_t i = begin; i < end; ++i) {
            const double unit = ref_load(type, x, i) / 4;
            if (kind == 1) // halves of levels: most are at a tie for scales that are powers of 2
                ref_store(type, x, i, tie * (rint(unit * 512) / 2));
            else if (kind == 2)
                ref_store(type, x, i, random_below(r, 3) ? size * fmod(unit, 1) : size);
            else if (kind == 3) // one sign
                ref_store(type, x, i, fabs(unit) * (size == 1 ? -1 : 1));
            else if (kind == 4 && random_below(r, 2))
                ref_store(type, x, i, random_below(r, 2) ? 0.0 : -0.0);
        }
        if (kind == 5 && random_below(r, 4) == 0)
            data_fill(r, type, DATA_SPECIAL, (char *)x + begin * ref_bytes(type), end - begin);
        if (kind == 6)
            data_fill(r, type, DATA_WILD, (char *)x + begin * ref_bytes(type), end - begin);
    }
}

/// Memory for what the kernel must write.
struct groups_room {
    void *y;
    float *scale;
    int32_t *zero_point;
};

static void check_groups(struct suite *s, const struct gpu_kernel *loaded, const void *x,
                         const struct groups_room *room, uint64_t n, bool in_place, bool wanted)
{
    static const CUdeviceptr none;
    const struct ref_groups g = groups_of(loaded);
    const bool has_zero_point =
        g.levels == REF_LEVELS_ASYMMETRIC || g.levels == REF_LEVELS_UNSIGNED;
    // A tensor that is not whole groups has a rest, which stays as it is.
    const uint64_t length = in_place ? n : n - n % g.group, groups = length / g.group;
    memcpy(room->y, x, (size_t)length * ref_bytes(s->type));
    ref_fake_quantize_groups(s->type, x, room->y, length, g, room->scale, room->zero_point);
    struct gpu_case c;
    gpu_case_begin(&c, loaded, length);
    suite_mapped(s, &c, x, room->y, length, in_place);
    gpu_case_value(&c, &length, sizeof length);
    if (wanted)
        gpu_case_tensor(&c, "scale", REF_F32, groups, NULL, room->scale);
    else
        gpu_case_value(&c, &none, sizeof none);
    if (has_zero_point && wanted)
        gpu_case_tensor(&c, "zero_point", REF_F32, groups, NULL, room->zero_point);
    else if (has_zero_point)
        gpu_case_value(&c, &none, sizeof none);
    snprintf(c.note, sizeof c.note, "groups of %" PRIu64 ", %d bits, %s%s", g.group, g.bits,
             in_place ? "in place, " : "", wanted ? "scales wanted" : "no scales");
    gpu_check(&s->random, &c);
}

void check_fake_quantize_groups(ptx_type dtype)
{
    struct suite s;
    suite_begin(&s, &ptx_kernel_fake_quantize_groups, dtype);
    void *x_room = suite_room(&s);
    const size_t groups = (size_t)s.most / 32 + 1;
    struct groups_room room = { suite_room(&s), malloc(groups * sizeof(float)),
                                malloc(groups * sizeof(int32_t)) };
    assert_true(room.scale && room.zero_point);
    fill_groups(&s.random, s.type, x_room, s.most);
    for (int v = 0; v < s.count; ++v)
        for (int i = 0; i < s.size_count; ++i) {
            const uint64_t n = s.sizes[i];
            // Variants change the arithmetic, not the addresses.
            if ((n > 5000 && (v + i) % 8 > 0) || (n > 300000 && v > 0))
                continue;
            // A window that begins at a group, so that most groups are as they were filled.
            const uint64_t start = random_u64(&s.random) % (s.most - n + 1) / 32 * 32;
            const void *x = (const char *)x_room + start * ref_bytes(s.type);
            check_groups(&s, &s.loaded[v], x, &room, n, (v + i) % 2, (v + i) % 3);
        }
    free(room.zero_point);
    free(room.scale);
    free(room.y);
    free(x_room);
    suite_end(&s);
}
