// SPDX-License-Identifier: MIT
#include "carry_chain.h"

#include <inttypes.h>

#include "random.h"

// ---- making -------------------------------------------------------------------------------------

static int load(unsigned step, unsigned operand)
{
    return -1 - (int)(3 * step + operand);
}

static struct chain_step random_step(struct random *r, const struct chain *chain, unsigned k)
{
    struct chain_step s = { .op = (enum chain_op)random_below(r, 4) };

    s.takes = k > 0 && random_below(r, 4) > 0;
    s.sets = k == 0 || random_below(r, 4) > 0;
    s.wide = k > 0 && random_below(r, 8) ? chain->step[k - 1].wide : random_below(r, 2);
    s.is_signed = random_below(r, 4) == 0;
    for (unsigned n = 0; n < 3; n++) {
        const unsigned from = random_below(r, 2 * CHAIN_MOST);
        s.operand[n] = from < k && chain->step[from].wide == s.wide ? (int)from : load(k, n);
    }
    return s;
}

// Shifts the remainder and quotient left by one bit, over three words, and subtracts the divisor.
// The last difference, 0 - 0 with the flag, is all ones if the divisor is the greater one.
static void make_division(struct chain *chain, bool wide)
{
    const struct chain_step steps[] = {
        { CHAIN_ADD, false, true, .operand = { -1, -1 } },
        { CHAIN_ADD, true, true, .operand = { -2, -2 } },
        { CHAIN_ADD, true, false, .operand = { -3, -3 } },
        { CHAIN_SUB, false, true, .operand = { 1, -4 } },
        { CHAIN_SUB, true, true, .operand = { 2, -5 } },
        { CHAIN_SUB, true, false, .operand = { -6, -6 } },
    };

    chain->count = sizeof steps / sizeof *steps;
    for (unsigned k = 0; k < chain->count; k++) {
        chain->step[k] = steps[k];
        chain->step[k].wide = wide;
    }
}

void chain_make(struct chain *chain, uint64_t seed)
{
    struct random r = { seed * UINT64_C(0x9e3779b97f4a7c15) + 7 };

    if (seed % 4 == 0) {
        make_division(chain, seed % 8 == 0);
        return;
    }
    chain->count = 2 + random_below(&r, CHAIN_MOST - 1);
    for (unsigned k = 0; k < chain->count; k++)
        chain->step[k] = random_step(&r, chain, k);
}

void chain_inputs(uint64_t seed, unsigned thread, uint64_t in[CHAIN_LOADS])
{
    static const uint64_t corners[] = {
        0,
        1,
        UINT64_MAX,
        UINT64_MAX - 1,
        UINT64_C(0x8000000000000000),
        UINT64_C(0x7fffffffffffffff),
        UINT64_C(0x00000000ffffffff),
        UINT64_C(0xffffffff00000000),
        UINT64_C(0x0000000080000000),
        UINT64_C(0x8000000080000000),
    };
    struct random r = { seed << 16 | thread };

    for (unsigned k = 0; k < CHAIN_LOADS; k++) {
        const uint64_t bits = random_u64(&r);
        in[k] = bits >> 62 ? corners[bits % 10] : random_u64(&r);
    }
}

// ---- PTX ----------------------------------------------------------------------------------------

void chain_write_header(FILE *to)
{
    fputs(".version 6.3\n.target sm_75\n.address_size 64\n", to);
}

static void write_operand(FILE *to, const struct chain_step *s, int operand)
{
    fprintf(to, ", %%%c%s%d", s->wide ? 'd' : 's', operand < 0 ? "in" : "",
            operand < 0 ? -1 - operand : operand);
}

static void write_step(FILE *to, const struct chain_step *s, unsigned k)
{
    static const char *const names[] = { "add", "sub", "mad", "mad" };
    static const char *const halves[] = { "", "", ".lo", ".hi" };
    const unsigned operands = s->op >= CHAIN_MAD_LO ? 3 : 2;

    fprintf(to, "    %s%s%s%s.%c%d %%%c%u", names[s->op], s->takes ? "c" : "", halves[s->op],
            s->sets ? ".cc" : "", s->is_signed ? 's' : 'u', s->wide ? 64 : 32, s->wide ? 'd' : 's',
            k);
    for (unsigned n = 0; n < operands; n++)
        write_operand(to, s, s->operand[n]);
    fputs(";\n", to);
}

// Every word is loaded, so that ptxas knows no value; also as 32 bits.
void chain_write(FILE *to, const struct chain *chain, uint64_t seed)
{
    fprintf(to,
            ".visible .entry chain_%" PRIu64 "(.param .u64 in, .param .u64 out)\n{\n"
            "    .reg .b64 %%d<%d>, %%din<%d>, %%p<3>;\n    .reg .b32 %%s<%d>, %%sin<%d>, %%r<3>;\n"
            "    ld.param.u64 %%p0, [in];\n    ld.param.u64 %%p1, [out];\n"
            "    mov.u32 %%r0, %%tid.x;\n    mad.wide.u32 %%p0, %%r0, %d, %%p0;\n"
            "    mad.wide.u32 %%p1, %%r0, %d, %%p1;\n",
            seed, CHAIN_MOST, CHAIN_LOADS + 1, CHAIN_MOST, CHAIN_LOADS + 1, 8 * (CHAIN_LOADS + 1),
            8 * CHAIN_RESULTS);
    for (unsigned k = 0; k <= CHAIN_LOADS; k++)
        fprintf(to, "    ld.global.u64 %%din%u, [%%p0+%u];\n    cvt.u32.u64 %%sin%u, %%din%u;\n", k,
                8 * k, k, k);
    for (unsigned k = 0; k < chain->count; k++)
        write_step(to, &chain->step[k], k);
    fprintf(to, "    addc.u32 %%r1, %%sin%d, %%sin%d;\n", CHAIN_LOADS,
            CHAIN_LOADS); // two words of zeros
    for (unsigned k = 0; k < chain->count; k++) {
        if (!chain->step[k].wide)
            fprintf(to, "    cvt.u64.u32 %%d%u, %%s%u;\n", k, k);
        fprintf(to, "    st.global.u64 [%%p1+%u], %%d%u;\n", 8 * k, k);
    }
    fprintf(to, "    cvt.u64.u32 %%p2, %%r1;\n    st.global.u64 [%%p1+%u], %%p2;\n    ret;\n}\n",
            8 * CHAIN_MOST);
}

// ---- plain C ------------------------------------------------------------------------------------

__extension__ typedef unsigned __int128 unsigned_wide;
__extension__ typedef __int128 signed_wide;

static unsigned_wide product(const struct chain_step *s, uint64_t x, uint64_t y)
{
    if (!s->is_signed)
        return (unsigned_wide)x * y;
    return s->wide ? (unsigned_wide)((signed_wide)(int64_t)x * (int64_t)y)
                   : (unsigned_wide)((int64_t)(int32_t)x * (int32_t)y);
}

static uint64_t compute(const struct chain_step *s, const uint64_t v[3], bool *flag)
{
    const unsigned width = s->wide ? 64 : 32;
    const uint64_t mask = s->wide ? UINT64_MAX : UINT32_MAX;
    const bool subtracts = s->op == CHAIN_SUB;
    uint64_t x = v[0], y = v[1];

    if (s->op >= CHAIN_MAD_LO) {
        x = (uint64_t)(product(s, x, y) >> (s->op == CHAIN_MAD_HI ? width : 0)) & mask;
        y = v[2];
    }
    if (subtracts)
        y = ~y & mask;
    const unsigned_wide sum = (unsigned_wide)x + y + (s->takes ? *flag : subtracts);
    if (s->sets)
        *flag = sum >> width & 1;
    return (uint64_t)sum & mask;
}

void chain_compute(const struct chain *chain, const uint64_t in[CHAIN_LOADS],
                   uint64_t out[CHAIN_RESULTS])
{
    bool flag = false;

    for (unsigned k = 0; k < chain->count; k++) {
        const struct chain_step *s = &chain->step[k];
        uint64_t v[3];
        for (unsigned n = 0; n < 3; n++) {
            v[n] = s->operand[n] < 0 ? in[-1 - s->operand[n]] : out[s->operand[n]];
            v[n] &= s->wide ? UINT64_MAX : UINT32_MAX;
        }
        out[k] = compute(s, v, &flag);
    }
    out[CHAIN_MOST] = flag;
}
