// SPDX-License-Identifier: MIT
// The functions of ops.h: values in, one value out.
#include "internal.h"

#include <string.h>

static const char *const operand_names[] = { "x", "y", "z", "w" };

static ptx_type wider(ptx_type type)
{
    return (ptx_type)(type + 1); // u16 u32 u64, s16 s32 s64
}

static ptx_type shape_type(char letter, ptx_type type)
{
    switch (letter) {
    case 'W':
        return wider(type);
    case 'u':
        return PTX_U32;
    case 's':
        return PTX_S32;
    case 'p':
        return PTX_PRED;
    default:
        return type;
    }
}

static void fail_operands(ptx_builder *b, const struct ptx_op_info *info, const ptx_val *src,
                          unsigned k, ptx_type wanted)
{
    if (info->shape[2 + k] == 'T')
        ptxb_fail(b, info->name, "x is %s and %s is %s; both must have the same type",
                  ptx_type_name((ptx_type)src[0].type), operand_names[k],
                  ptx_type_name((ptx_type)src[k].type));
    else
        ptxb_fail(b, info->name, "%s is %s; it must be %s where x is %s", operand_names[k],
                  ptx_type_name((ptx_type)src[k].type), ptx_type_name(wanted),
                  ptx_type_name((ptx_type)src[0].type));
}

// A comma-free list of what the instruction takes, for the message.
static void fail_type(ptx_builder *b, const struct ptx_op_info *info, ptx_type type)
{
    char list[160];
    uint32_t set = 0;

    for (size_t k = 0; k < info->form_count; k++)
        set |= info->forms[k].types;
    ptxb_fail(b, info->name, "x is %s; the instruction takes %s", ptx_type_name(type),
              ptxb_type_list(set, list));
}

static const char *modifiers(ptx_builder *b, const char *call, const struct ptx_op_form *form,
                             const struct ptx_op_params *p, ptx_type type)
{
    static const char *const rounds[] = { ".rn", ".rn", ".rz", ".rm", ".rp" };
    const unsigned asked = (p->round != PTX_ROUND_DEFAULT ? PTX_MOD_ROUND : 0u) |
                           (p->ftz ? PTX_MOD_FTZ : 0u) | (p->sat ? PTX_MOD_SAT : 0u);
    const unsigned refused = asked & ~form->modifiers;

    if ((unsigned)p->round > PTX_ROUND_RP) {
        ptxb_fail(b, call,
                  "%d is not a rounding; there are PTX_ROUND_RN, PTX_ROUND_RZ, PTX_ROUND_RM and "
                  "PTX_ROUND_RP",
                  (int)p->round);
        return NULL;
    }
    if (refused) {
        ptxb_fail(b, call, "%s has no %s for %s", form->text,
                  refused & PTX_MOD_ROUND ? "choice of rounding"
                  : refused & PTX_MOD_FTZ ? ".ftz"
                                          : ".sat",
                  ptx_type_name(type));
        return NULL;
    }
    return ptxb_join(b, form->modifiers & PTX_MOD_ROUND ? rounds[p->round] : "",
                     p->ftz ? ".ftz" : "", p->sat ? ".sat" : "", NULL);
}

// spelling + modifiers + type; '%' in the spelling stands for the modifiers.
static const char *spell(ptx_builder *b, const struct ptx_op_form *form, const char *mods,
                         ptx_type type)
{
    const size_t length = strlen(form->text);
    const char *place = strchr(form->text, '%');
    const char *name = ptx_type_name(type);
    char head[32] = "";

    if (!mods)
        return NULL;
    if (place) {
        memcpy(head, form->text, (size_t)(place - form->text));
        return ptxb_join(b, head, mods, place + 1, ".", name, NULL);
    }
    if (length > 2 && !strcmp(form->text + length - 2, ".b")) // bits: ".b32"
        return ptxb_join(b, form->text, ptxb_bits_name(type) + 1, NULL);
    if (form->modifiers & PTX_MOD_TWICE)
        return ptxb_join(b, form->text, mods, ".", name, ".", name, NULL);
    return ptxb_join(b, form->text, mods, ".", name, NULL);
}

static bool operands_fit(ptx_builder *b, const struct ptx_op_info *info, const ptx_val *src,
                         unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if (!ptxb_usable(b, info->name, operand_names[k], src[k]))
            return false;
    const ptx_type type = (ptx_type)src[0].type;
    if (!ptxb_form(info, type)) {
        fail_type(b, info, type);
        return false;
    }
    for (unsigned k = 0; k < count; k++) {
        ptx_type wanted = shape_type(info->shape[2 + k], type);
        if (src[k].type != wanted) {
            fail_operands(b, info, src, k, wanted);
            return false;
        }
    }
    return true;
}

// Whether an immediate operand is part of what the instruction does.
static bool has_field(ptx_opcode op)
{
    return op == PTX_OP_lop3 || op == PTX_OP_bfe || op == PTX_OP_bfi;
}

// The last two operands are a bit field's place and length.
static bool fields_fit(ptx_builder *b, const struct ptx_op_info *info, const ptx_val *src,
                       unsigned count)
{
    for (unsigned k = count - 2; k < count; k++) {
        if (src[k].kind != PTX_KIND_IMMEDIATE || src[k].bits <= 255)
            continue;
        ptxb_fail(b, info->name, "%s is %llu; an immediate position or length is 0 to 255",
                  operand_names[k], (unsigned long long)src[k].bits);
        return false;
    }
    return true;
}

// The opcode, checked with its operands; 0 after an error.
static uint32_t op_opcode(ptx_builder *b, uint64_t key, const struct ptx_op_params *p,
                          const ptx_val *src)
{
    const struct ptx_op_info *info = ptx_op_get_info(p->op);
    unsigned count = 1; // of the letters after "T="

    if (!info || !info->shape) {
        ptxb_fail(b, "op",
                  info ? "ptx_op() does not emit %s, which has a function of its own"
                       : "the opcode is not one of ptx_opcode%s",
                  info ? info->name : "");
        return 0;
    }
    while (info->shape[2 + count])
        count++;
    if (!ptxb_ready(b, info->name) || !operands_fit(b, info, src, count))
        return 0;
    for (unsigned k = count; k < 4; k++) {
        if (!ptxb_is_given(src[k]))
            continue;
        ptxb_fail(b, info->name, "%s is given; the instruction takes %u operand%s",
                  operand_names[k], count, count == 1 ? "" : "s");
        return 0;
    }
    if (p->op == PTX_OP_lop3 && (p->w.kind != PTX_KIND_IMMEDIATE || p->w.bits > 255)) {
        ptxb_fail(b, info->name, "w, the truth table, must be an immediate from 0 to 255");
        return 0;
    }
    if (p->op != PTX_OP_lop3 && has_field(p->op) && !fields_fit(b, info, src, count))
        return 0;
    const uint32_t known = ptxb_remembered(b, key);
    if (known)
        return known;
    const ptx_type type = (ptx_type)src[0].type;
    const struct ptx_op_form *form = ptxb_form(info, type);
    const char *text = spell(b, form, modifiers(b, info->name, form, p, type), type);
    const uint32_t number =
        ptxb_require(b, info->name, form->isa, form->sm, text) ? ptxb_remember(b, key, text) : 0;
    struct opcode *opcode = &b->opcodes.at[number];
    for (unsigned k = 0; number && k < count; k++)
        opcode->operand[k] = (uint8_t)shape_type(info->shape[2 + k], type);
    if (number) {
        opcode->result = (uint8_t)shape_type(info->shape[0], type);
        opcode->count = (uint8_t)count;
        opcode->any_immediate = !has_field(p->op);
    }
    return number;
}

// The usual case at once: an opcode spelled before, with operands that it takes as they are.
static inline bool fits_known(const ptx_builder *b, const struct opcode *opcode, unsigned count,
                              const ptx_val *src)
{
    if (opcode->count != count || !opcode->any_immediate || !b->blocks.count || b->finished)
        return false;
    for (unsigned k = 0; k < count; k++)
        if (src[k].type != opcode->operand[k] || !ptxb_is_alive(b, &src[k]) ||
            !ptxb_has_literal(&src[k]))
            return false;
    return true;
}

static ptx_val emit_op(ptx_builder *b, ptx_opcode op, unsigned count, const ptx_val src[4])
{
    if (!b || b->failed)
        return (ptx_val) { 0 };
    const uint64_t key = ptxb_op_key(op, (ptx_type)src[0].type);
    uint32_t number = ptxb_remembered(b, key);
    const struct opcode *opcode = &b->opcodes.at[number];
    if (fits_known(b, opcode, count, src))
        return ptxb_emit_plain(b, (ptx_type)opcode->result, number, count, src);
    const struct ptx_op_params p = { .op = op, .w = src[3] };
    number = op_opcode(b, key, &p, src);
    return ptxb_emit(b, (ptx_type)b->opcodes.at[number].result, number, count, src);
}

ptx_val ptx_op_emit(ptx_builder *b, struct ptx_op_params p)
{
    const ptx_val src[] = { p.x, p.y, p.z, p.w };

    if (!b || b->failed)
        return (ptx_val) { 0 };
    // 0: a rounding that is none is not remembered.
    const uint64_t key = (unsigned)p.round > PTX_ROUND_RP
                             ? 0
                             : ptxb_op_key(p.op, (ptx_type)p.x.type) | (uint64_t)p.round << 24 |
                                   (uint64_t)p.ftz << 28 | (uint64_t)p.sat << 29;
    const uint32_t number = op_opcode(b, key, &p, src);
    const struct opcode *opcode = &b->opcodes.at[number];
    return ptxb_emit(b, (ptx_type)opcode->result, number, opcode->count, src);
}

#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x)                                                  \
    {                                                                                              \
        return emit_op(b, PTX_OP_##name, 1, (const ptx_val[4]) { x });                             \
    }
PTX_OPS_UNARY(DEFINE)
#undef DEFINE
#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y)                                       \
    {                                                                                              \
        return emit_op(b, PTX_OP_##name, 2, (const ptx_val[4]) { x, y });                          \
    }
PTX_OPS_BINARY(DEFINE)
#undef DEFINE
#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z)                            \
    {                                                                                              \
        return emit_op(b, PTX_OP_##name, 3, (const ptx_val[4]) { x, y, z });                       \
    }
PTX_OPS_TERNARY(DEFINE)
#undef DEFINE
#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z, ptx_val w)                 \
    {                                                                                              \
        return emit_op(b, PTX_OP_##name, 4, (const ptx_val[4]) { x, y, z, w });                    \
    }
PTX_OPS_QUATERNARY(DEFINE)
#undef DEFINE

// ---- special registers --------------------------------------------------------------------------

static ptx_val read_special(ptx_builder *b, const char *call, const char *text, ptx_type type,
                            int isa, int sm, bool varying)
{
    if (!ptxb_ready(b, call) || !ptxb_require(b, call, isa, sm, text))
        return (ptx_val) { 0 };
    ptx_val result = ptxb_register(b, type);
    const uint32_t opcode = ptxb_opcode(b, type == PTX_U64 ? "mov.u64" : "mov.u32");
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, 1);
    if (!insn)
        return (ptx_val) { 0 };
    ptxb_result(insn, 0, result);
    ptxb_text_operand(b, insn, 1, OPERAND_TEXT, text);
    insn->varying = varying;
    return result;
}

static ptx_val read_axis(ptx_builder *b, const char *call, const char *const text[3], ptx_axis axis,
                         int isa, int sm, bool varying)
{
    if (!ptxb_ready(b, call))
        return (ptx_val) { 0 };
    if ((unsigned)axis > PTX_Z) {
        ptxb_fail(b, call, "%d is not an axis; there are PTX_X, PTX_Y and PTX_Z", (int)axis);
        return (ptx_val) { 0 };
    }
    return read_special(b, call, text[axis], PTX_U32, isa, sm, varying);
}

#define DEFINE(name, text, meaning, isa, sm, varying)                                              \
    ptx_val ptx_##name(ptx_builder *b, ptx_axis axis)                                              \
    {                                                                                              \
        static const char *const texts[] = { text ".x", text ".y", text ".z" };                    \
        return read_axis(b, #name, texts, axis, isa, sm, varying);                                 \
    }
PTX_SPECIAL_VECTORS(DEFINE)
#undef DEFINE
#define DEFINE(name, text, type, meaning, isa, sm, varying)                                        \
    ptx_val ptx_##name(ptx_builder *b)                                                             \
    {                                                                                              \
        return read_special(b, #name, text, PTX_##type, isa, sm, varying);                         \
    }
PTX_SPECIAL_SCALARS(DEFINE)
#undef DEFINE
