// SPDX-License-Identifier: MIT
// ops.h as data.
#include "internal.h"

#define FORMS(name, shape, meaning, ...)                                                           \
    static const struct ptx_form name##_forms[] = { __VA_ARGS__ };
PTX_OPS_UNARY(FORMS)
PTX_OPS_BINARY(FORMS)
PTX_OPS_TERNARY(FORMS)
PTX_OPS_QUATERNARY(FORMS)
#undef FORMS
#define FORMS(name, meaning, text, isa, sm)                                                        \
    static const struct ptx_form name##_forms[] = { { 0, text, 0, isa, sm } };
PTX_OPS_SPECIAL(FORMS)
#undef FORMS
#define FORMS(name, meaning, ...)                                                                  \
    static const struct ptx_form atomic_##name##_forms[] = { __VA_ARGS__ };
PTX_ATOMICS(FORMS)
PTX_ATOMIC_CAS(FORMS)
#undef FORMS

#define COUNT(forms) (sizeof(forms) / sizeof *(forms))

static const struct ptx_op_info ops[PTX_OP_COUNT] = {
#define ROW(name, shape, meaning, ...)                                                             \
    [PTX_OP_##name] = { #name, shape, meaning, name##_forms, COUNT(name##_forms) },
    PTX_OPS_UNARY(ROW) PTX_OPS_BINARY(ROW) PTX_OPS_TERNARY(ROW) PTX_OPS_QUATERNARY(ROW)
#undef ROW
#define ROW(name, meaning, ...)                                                                    \
    [PTX_OP_##name] = { #name, NULL, meaning, name##_forms, COUNT(name##_forms) },
        PTX_OPS_SPECIAL(ROW)
#undef ROW
};

static const struct ptx_op_info atomics[PTX_ATOMIC_COUNT] = {
#define ROW(name, meaning, ...)                                                                    \
    [PTX_ATOMIC_##                                                                                 \
        name] = { #name, NULL, meaning, atomic_##name##_forms, COUNT(atomic_##name##_forms) },
    PTX_ATOMICS(ROW) PTX_ATOMIC_CAS(ROW)
#undef ROW
};

const struct ptx_op_info *ptx_op_info(ptx_opcode op)
{
    return op > PTX_OP_NONE && op < PTX_OP_COUNT ? &ops[op] : NULL;
}

const struct ptx_op_info *ptx_atomic_info(ptx_atomic_op op)
{
    return (unsigned)op < PTX_ATOMIC_COUNT ? &atomics[op] : NULL;
}

const struct ptx_form *ptxb_form(const struct ptx_op_info *info, ptx_type type)
{
    for (size_t k = 0; k < info->form_count; k++)
        if (info->forms[k].types >> type & 1)
            return &info->forms[k];
    return NULL;
}

// ---- opcodes spelled before ---------------------------------------------------------------------

uint64_t ptxb_op_key(const struct ptx_op_params *p, ptx_type type)
{
    if ((unsigned)p->round > PTX_RP)
        return 0;
    return SPELLED_OP | (uint64_t)p->op << 8 | (uint64_t)type << 16 | (uint64_t)p->round << 24 |
           (uint64_t)p->ftz << 28 | (uint64_t)p->sat << 29;
}

// Two places a key, side by side.
static size_t place_of(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> 58 & (SPELLINGS - 1);
}

const char *ptxb_remembered(const ptx_builder *b, uint64_t key)
{
    const size_t place = place_of(key);

    if (b->spellings[place].key == key)
        return b->spellings[place].opcode;
    return b->spellings[place ^ 1].key == key ? b->spellings[place ^ 1].opcode : NULL;
}

void ptxb_remember(ptx_builder *b, uint64_t key, const char *opcode)
{
    const size_t place = place_of(key);

    if (key)
        b->spellings[b->spellings[place].key ? place ^ 1 : place] =
            (struct spelling) { key, opcode };
}
