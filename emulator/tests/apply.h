// SPDX-License-Identifier: MIT
/// For tests of the emulator's arithmetic: one instruction over arrays, through PTX text.
#ifndef PTXGEN_TESTS_EMULATOR_APPLY_H
#define PTXGEN_TESTS_EMULATOR_APPLY_H

#include "fixture.h"
#include "random.h"

enum { APPLY_COUNT = 1024 };

/// What is loaded and stored, and in which registers: b16 in %h, b32 in %r, b64 in %rd.
struct apply {
    const char *instruction; ///< as "add.rz.f32"
    unsigned out_bits;
    unsigned in_bits[4]; ///< 0: no such operand
};

static inline const char *apply_register(unsigned bits)
{
    return bits == 64 ? "%rd" : bits == 32 ? "%r" : "%h";
}

/// out[i] = instruction(in[0][i], in[1][i], ...), for 1024 elements, each in 64 bits.
static inline void apply(struct emulator *e, const struct apply *a, const uint64_t *const in[4],
                         uint64_t *out)
{
    char body[2048], operands[256];
    size_t used = 0, listed = 0;
    static uint64_t data[5 * APPLY_COUNT];
    memset(data, 0, sizeof(data));
    used += (size_t)snprintf(body, sizeof(body),
                             "mul.wide.u32 %%rd40, %%r0, 8;\nadd.u64 %%rd41, %%rd0, %%rd40;\n");
    listed += (size_t)snprintf(operands, sizeof(operands), "%s10", apply_register(a->out_bits));
    for (unsigned k = 0; k < 4 && a->in_bits[k]; k++) {
        const char *reg = apply_register(a->in_bits[k]);
        memcpy(data + k * APPLY_COUNT, in[k], sizeof(uint64_t) * APPLY_COUNT);
        used +=
            (size_t)snprintf(body + used, sizeof(body) - used, "ld.global.b%u %s%u, [%%rd41+%u];\n",
                             a->in_bits[k], reg, 11 + k, k * APPLY_COUNT * 8);
        listed +=
            (size_t)snprintf(operands + listed, sizeof(operands) - listed, ", %s%u", reg, 11 + k);
    }
    used +=
        (size_t)snprintf(body + used, sizeof(body) - used, "%s %s;\n", a->instruction, operands);
    snprintf(body + used, sizeof(body) - used, "st.global.b%u [%%rd41+%u], %s10;\nret;",
             a->out_bits, 4 * APPLY_COUNT * 8, apply_register(a->out_bits));
    uint64_t at = emulator_upload(e, data, sizeof(data));
    e->block = APPLY_COUNT;
    emulator_expect(e, emulator_body(e, body, at, 0, 0), 0, "");
    const uint64_t *words = emulator_at(e, at, sizeof(data));
    memcpy(out, words + 4 * APPLY_COUNT, sizeof(uint64_t) * APPLY_COUNT);
    emu_memory_free(e->memory, at);
}

/// Corner values in all pairs, then random bits.
static inline void apply_inputs(uint64_t in[3][APPLY_COUNT], const uint64_t *corners,
                                unsigned count, unsigned bits, uint64_t seed)
{
    struct random r = { seed };
    for (unsigned i = 0; i < APPLY_COUNT; i++)
        for (unsigned k = 0; k < 3; k++) {
            uint64_t x = random_u64(&r);
            if (i < count * count)
                x = corners[k == 0 ? i % count : k == 1 ? i / count : (i * 7 + i / count) % count];
            in[k][i] = bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
        }
}

#endif
