// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

// f32 from -S to S; bf16 values are the upper halves of such numbers.
static void fill(struct part *part, uint32_t seed)
{
    for (uint64_t i = 0; i < part->count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float x = SHARDED_LOSS_SCALE * (0x1p-23f * (float)(seed >> 8) - 1);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (part->dtype == PTX_F32)
            ((float *)part->data)[i] = x;
        else
            ((uint16_t *)part->data)[i] = (uint16_t)(bits >> 16);
    }
}

static long double exact_sum(const struct part *part)
{
    long double sum = 0;
    for (uint64_t i = 0; i < part->count; i++) {
        float x;
        if (part->dtype == PTX_F32) {
            x = ((const float *)part->data)[i];
        } else {
            const uint32_t bits = (uint32_t)((const uint16_t *)part->data)[i] << 16;
            memcpy(&x, &bits, sizeof x);
        }
        sum += (long double)x * (long double)x;
    }
    return sum;
}

static bool make_part(struct part *part, ptx_type dtype, uint64_t count, uint32_t seed)
{
    const size_t bytes = (size_t)count * (dtype == PTX_F32 ? 4 : 2);
    *part = (struct part) { .dtype = dtype, .count = count, .bytes = bytes, .data = malloc(bytes) };
    if (part->data)
        fill(part, seed);
    return part->data != NULL;
}

bool make_parts(struct world *world, uint64_t elements)
{
    struct part shared;
    bool made = make_part(&shared, PTX_F32, elements / 8 + 3, 1);
    shared.weight = 1.0 / world->ranks;
    for (unsigned r = 0; r < (unsigned)world->ranks; r++) {
        world->parts[r][OWN_PARTS] = shared;
        made = made && make_part(&world->parts[r][0], PTX_F32, elements + r, 2 * r + 2) &&
               make_part(&world->parts[r][1], PTX_BF16, elements / 2 + 5 * r, 2 * r + 3);
    }
    return made;
}

size_t rank_bytes(const struct part *parts)
{
    size_t bytes = 0;
    for (int k = 0; k < RANK_PARTS; k++)
        bytes += parts[k].bytes;
    return bytes;
}

void free_parts(struct world *world)
{
    free(world->parts[0][OWN_PARTS].data);
    for (int r = 0; r < world->ranks; r++)
        for (int k = 0; k < OWN_PARTS; k++)
            free(world->parts[r][k].data);
}

long double exact_norm(const struct world *world)
{
    long double sum = exact_sum(&world->parts[0][OWN_PARTS]);
    for (int r = 0; r < world->ranks; r++)
        for (int k = 0; k < OWN_PARTS; k++)
            sum += exact_sum(&world->parts[r][k]);
    return sqrtl(sum) / (long double)SHARDED_LOSS_SCALE;
}
