// SPDX-License-Identifier: MIT
// Numbers what the functions of a caller's rule write.
#include "own_code.h"

static void add(struct ptxk_own_code *code, uint64_t x)
{
    code->hash = (code->hash ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    code->hash ^= code->hash >> 29;
}

// How many instructions ago x was made, from 1; 0: it was given, is a variable, or is older than
// those that are kept. Registers have rising numbers.
static uint32_t age_of(const struct ptxk_own_code *code, ptx_val x)
{
    uint32_t first = code->count < PTXK_OWN_CODE_MADE ? 0 : code->count - PTXK_OWN_CODE_MADE;
    uint32_t end = code->count;

    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        const uint32_t reg = code->reg[middle % PTXK_OWN_CODE_MADE];
        if (reg == x.reg)
            return code->count - middle;
        if (reg < x.reg)
            first = middle + 1;
        else
            end = middle;
    }
    return 0;
}

static void add_value(struct ptxk_own_code *code, ptx_val x)
{
    const bool is_number = x.kind == PTX_KIND_IMMEDIATE || x.kind == PTX_KIND_NUMBER;

    add(code, (uint64_t)is_number << 8 | x.type);
    add(code, is_number ? x.bits : x.kind == PTX_KIND_REGISTER ? age_of(code, x) : 0);
}

void ptxk_own_code_made(struct ptxk_own_code *code, ptx_val result, ptx_opcode op,
                        const ptx_val *operands, unsigned count)
{
    add(code, (uint64_t)op);
    for (unsigned k = 0; k < count; k++)
        add_value(code, operands[k]);
    code->reg[code->count++ % PTXK_OWN_CODE_MADE] = result.reg;
}

void ptxk_own_code_set(struct ptxk_own_code *code, uint32_t k, ptx_val x)
{
    add(code, k);
    add_value(code, x);
}

void ptxk_own_code_check(ptx_builder *b, const struct ptxk_step_rule *rule,
                         enum ptxk_own_function function, const ptx_val *c, uint64_t hash)
{
    static const char *const names[] = { "once", "reduce", "of_sums", "update" };
    const struct ptxk_own_rule *own = rule->own;
    bool known = own->code[function] != 0;

    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS && c; k++)
        known = known && c[k].kind != PTX_KIND_IMMEDIATE;
    if (own->noted)
        own->noted[function] = hash;
    else if (known && own->code[function] != hash)
        ptx_builder_fail_value(b, (ptx_val) { 0 }, "rule %s: %s " PTXK_OWN_OTHER_CODE, rule->name,
                               names[function]);
}
