// SPDX-License-Identifier: MIT
// ops.h as data.
#include "internal.h"

#include <assert.h>

static_assert(PTX_OP_COUNT <= 256 && PTX_TYPE_COUNT <= 32,
              "keys have 8 bits for either, operands 5 for a type");

#define FORMS(name, shape, meaning, ...)                                                           \
    static const struct ptx_op_form name##_forms[] = { __VA_ARGS__ };
PTX_OPS_UNARY(FORMS)
PTX_OPS_BINARY(FORMS)
PTX_OPS_TERNARY(FORMS)
PTX_OPS_QUATERNARY(FORMS)
#undef FORMS
#define FORMS(name, meaning, text, isa, sm)                                                        \
    static const struct ptx_op_form name##_forms[] = { { 0, text, 0, isa, sm } };
PTX_OPS_SPECIAL(FORMS)
#undef FORMS
#define FORMS(name, meaning, ...)                                                                  \
    static const struct ptx_op_form atomic_##name##_forms[] = { __VA_ARGS__ };
PTX_ATOMICS(FORMS)
PTX_ATOMICS_CAS(FORMS)
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
    PTX_ATOMICS(ROW) PTX_ATOMICS_CAS(ROW)
#undef ROW
};

const struct ptx_op_info *ptx_op_get_info(ptx_opcode op)
{
    return op > PTX_OP_NONE && op < PTX_OP_COUNT ? &ops[op] : NULL;
}

const struct ptx_op_info *ptx_atomic_get_info(ptx_atomic_op op)
{
    return (unsigned)op < PTX_ATOMIC_COUNT ? &atomics[op] : NULL;
}

const struct ptx_op_form *ptxb_form(const struct ptx_op_info *info, ptx_type type)
{
    for (size_t k = 0; k < info->form_count; k++)
        if (info->forms[k].types >> type & 1)
            return &info->forms[k];
    return NULL;
}

// ---- opcodes spelled before ---------------------------------------------------------------------

uint32_t ptxb_remember(ptx_builder *b, uint64_t key, const char *text)
{
    if (b->failed || !text || !ROOM_FOR(b, b->opcodes, 1))
        return 0;
    const uint32_t number = b->opcodes.count++;
    struct opcode *opcode = &b->opcodes.at[number];
    const size_t length = strlen(text);
    const size_t padded = length < OPERAND_COLUMN ? OPERAND_COLUMN : length + 1;

    *opcode = (struct opcode) {
        .key = key, .text = text, .length = (uint8_t)length, .padded = (uint8_t)padded
    };
    if (padded <= sizeof opcode->line) {
        memset(opcode->line, ' ', sizeof opcode->line);
        memcpy(opcode->line, text, length);
    }
    if (key) {
        uint32_t *newest = &b->opcode_at[ptxb_opcode_place(key)];
        opcode->next = *newest;
        *newest = number;
    }
    return number;
}
