// SPDX-License-Identifier: MIT
// The tables of ops.h and the functions of their rows: values in, one value out.
#include "internal.h"

#include <assert.h>

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

// The letters of a shape after "T=".
const uint8_t ptxb_op_operands[PTX_OP_COUNT] = {
#define ROW(name, shape, ...) [PTX_OP_##name] = sizeof(shape) - sizeof "T=",
    PTX_OPS_UNARY(ROW) PTX_OPS_BINARY(ROW) PTX_OPS_TERNARY(ROW) PTX_OPS_QUATERNARY(ROW)
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

bool ptxb_is_spelled(const char *name, size_t length)
{
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++)
        for (size_t k = 0; ops[op].shape && k < ops[op].form_count; k++) {
            const char *const text = ops[op].forms[k].text;
            const size_t part = *text == *name ? strcspn(text, ".%") : length + 1;
            if (part <= length && !memcmp(name, text, part) &&
                (part == length || name[part] == '.' || name[part] == ':'))
                return true;
        }
    return false;
}

static_assert(PTX_KIND_NUMBER == 4 && PTX_KIND_IMMEDIATE < 4, "emit_op() tests one bit");

// ---- checks -------------------------------------------------------------------------------------

static const char *const operand_names[] = { "x", "y", "z", "w" };

static ptx_type wider(ptx_type type)
{
    return (ptx_type)(type + 1); // u16 u32 u64, s16 s32 s64
}

static ptx_type shape_type(char letter, ptx_type type)
{
    if (letter == 'T') // most
        return type;
    switch (letter) {
    case 'W':
        return wider(type);
    case 'u':
    case 'f':
    case 'i':
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

// Lists the types that the instruction accepts, for the message, separated by spaces.
static void fail_type(ptx_builder *b, const struct ptx_op_info *info, ptx_type type)
{
    char list[160];
    uint32_t set = 0;

    for (size_t k = 0; k < info->form_count; k++)
        set |= info->forms[k].types;
    ptxb_fail(b, info->name, "x is %s; the instruction takes %s", ptx_type_name(type),
              ptxb_type_list(set, list));
}

// The form for these operands; NULL after an error.
static const struct ptx_op_form *operands_form(ptx_builder *b, const struct ptx_op_info *info,
                                               const ptx_val *src, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if (!ptxb_usable(b, info->name, operand_names[k], src[k]))
            return NULL;
    const ptx_type type = (ptx_type)src[0].type;
    const struct ptx_op_form *form = ptxb_form(info, type);
    if (!form)
        fail_type(b, info, type);
    for (unsigned k = 0; form && k < count; k++) {
        const ptx_type wanted = shape_type(info->shape[2 + k], type);
        if (src[k].type == wanted)
            continue;
        fail_operands(b, info, src, k, wanted);
        return NULL;
    }
    return form;
}

// What of ptx_op_params is beside the operands, in one number; 0 is none.
enum { SAT = 1, FTZ = 2, ROUND = 4 };

static bool modifiers_fit(ptx_builder *b, const char *call, const struct ptx_op_form *form,
                          ptx_type type, unsigned modifiers)
{
    const unsigned asked = (modifiers / ROUND ? PTX_MOD_ROUND : 0u) |
                           (modifiers & FTZ ? PTX_MOD_FTZ : 0u) |
                           (modifiers & SAT ? PTX_MOD_SAT : 0u);
    const unsigned refused = asked & ~form->modifiers;

    if (refused)
        ptxb_fail(b, call, "%s has no %s for %s", form->text,
                  refused & PTX_MOD_ROUND ? "choice of rounding"
                  : refused & PTX_MOD_FTZ ? ".ftz"
                                          : ".sat",
                  ptx_type_name(type));
    return !refused;
}

static bool call_fits(ptx_builder *b, const struct ptx_op_info *info,
                      const struct ptx_op_form *form, const ptx_val *src, unsigned count,
                      unsigned modifiers)
{
    const char last = info->shape[1 + count];
    for (unsigned k = 1; (last == 'f' || last == 'i') && k < count; k++) {
        const char letter = info->shape[2 + k];
        const bool immediate = src[k].kind == PTX_KIND_IMMEDIATE;
        if (letter == 'i' && (!immediate || src[k].bits > 255))
            ptxb_fail(b, info->name, "%s, the truth table, must be an immediate from 0 to 255",
                      operand_names[k]);
        else if (letter == 'f' && immediate && src[k].bits > 255)
            ptxb_fail(b, info->name, "%s is %llu; an immediate position or length is 0 to 255",
                      operand_names[k], (unsigned long long)src[k].bits);
    }
    if (b->failed)
        return false;
    return !modifiers || modifiers_fit(b, info->name, form, (ptx_type)src[0].type, modifiers);
}

// ---- the functions ------------------------------------------------------------------------------

// Spelling + modifiers + type; a '%' in the spelling stands for the modifiers.
static uint32_t spell(ptx_builder *b, const struct ptx_op_form *form, ptx_type of,
                      unsigned modifiers)
{
    static const char *const rounds[] = { ".rn", ".rn", ".rz", ".rm", ".rp" };
    const char *round = form->modifiers & PTX_MOD_ROUND ? rounds[modifiers / ROUND] : "";
    const char *ftz = modifiers & FTZ ? ".ftz" : "", *sat = modifiers & SAT ? ".sat" : "";
    const char *type = ptx_type_name(of);
    const size_t length = strlen(form->text);
    const char *place = strchr(form->text, '%');
    char head[OPCODE_BYTES] = "";

    if (place) {
        memcpy(head, form->text, (size_t)(place - form->text));
        return ptxb_spell(b, head, round, ftz, sat, place + 1, ".", type, NULL);
    }
    if (length > 2 && !strcmp(form->text + length - 2, ".b")) // types of bits: ".b32"
        return ptxb_spell(b, form->text, ptx_type_name(ptxb_bits_type(of)) + 1, NULL);
    if (form->modifiers & PTX_MOD_TWICE)
        return ptxb_spell(b, form->text, round, ftz, sat, ".", type, ".", type, NULL);
    return ptxb_spell(b, form->text, round, ftz, sat, ".", type, NULL);
}

// Gives numbers among the operands their types: that of an operand of the row's type, or what the
// shape says.
static bool give_types(ptx_builder *b, const struct ptx_op_info *info, ptx_val *src, unsigned count)
{
    const char *shape = info->shape + 2;
    ptx_type type = PTX_NONE;

    for (unsigned k = 0; k < count; k++)
        if (src[k].kind != PTX_KIND_NUMBER && type == PTX_NONE && shape[k] == 'T')
            type = (ptx_type)src[k].type;
    for (unsigned k = 0; type == PTX_NONE && k < count; k++) // what is poison would have had one
        if (src[k].kind == PTX_KIND_POISON && !ptxb_usable(b, info->name, operand_names[k], src[k]))
            return false;
    for (unsigned k = 0; k < count; k++) {
        const ptx_type wanted = shape[k] == 'T' ? type : shape_type(shape[k], type);
        if (wanted != PTX_NONE && !(shape[k] == 'W' && type == PTX_NONE))
            src[k] = ptxb_typed(b, info->name, operand_names[k], src[k], wanted);
        if ((src[k].kind & PTX_KIND_NUMBER) &&
            !ptxb_usable(b, info->name, operand_names[k], src[k]))
            return false;
    }
    return !b->failed;
}

static bool is_constant(ptx_val x, uint64_t bits)
{
    return x.kind == PTX_KIND_IMMEDIATE && x.bits == bits;
}

// What the result is without an instruction: an operand where x + 0, x << 0, x * 1 and the like
// have it, or the negative of a constant. Of integers; floats keep every operation. Poison: it
// takes the instruction.
static ptx_val known_result(ptx_opcode op, const ptx_val *src)
{
    const ptx_val none = { 0 };

    switch (op) {
    case PTX_OP_add:
    case PTX_OP_or:
    case PTX_OP_xor:
        return is_constant(src[1], 0) ? src[0] : is_constant(src[0], 0) ? src[1] : none;
    case PTX_OP_sub:
    case PTX_OP_shl:
    case PTX_OP_shr:
        return is_constant(src[1], 0) ? src[0] : none;
    case PTX_OP_mul:
        return is_constant(src[1], 1) ? src[0] : is_constant(src[0], 1) ? src[1] : none;
    case PTX_OP_neg:
        return src[0].kind == PTX_KIND_IMMEDIATE
                   ? ptx_imm_bits((ptx_type)src[0].type,
                                  (0 - src[0].bits) &
                                      (UINT64_MAX >> (64 - ptxb_bits((ptx_type)src[0].type))))
                   : none;
    default:
        return none;
    }
}

// `row` is the spelling of a row and its modifiers, without a type.
static ptx_val emit_op(ptx_builder *b, uint32_t row, const ptx_val *src)
{
    const ptx_opcode op = (ptx_opcode)(row >> 5 & 127);
    const unsigned modifiers = row >> 12;
    const struct ptx_op_info *info = &ops[op];
    const unsigned count = ptxb_op_operands[op];
    const ptx_val poison = { 0 };
    ptx_val typed[4];
    unsigned kinds = 0;

    if (!b || b->failed || !ptxb_ready(b, info->name))
        return poison;
    for (unsigned k = 0; k < count; k++)
        kinds |= src[k].kind;
    if (kinds & PTX_KIND_NUMBER) {
        memcpy(typed, src, count * sizeof *src);
        if (!give_types(b, info, typed, count))
            return poison;
        src = typed;
    }
    const struct ptx_op_form *form = operands_form(b, info, src, count);
    if (!form || !call_fits(b, info, form, src, count, modifiers))
        return poison;
    const ptx_type type = (ptx_type)src[0].type;
    if (b->restriction.within && (op == PTX_OP_div || op == PTX_OP_rem) &&
        (PTX_TYPES_I >> type & 1)) {
        ptxb_fail(b, info->name,
                  "%.64s may not divide integers, here %s: by 0 a GPU gives any number; ptx_cvt() "
                  "makes them f32 or f64",
                  b->restriction.within, ptx_type_name(type));
        return poison;
    }
    const uint32_t spelling = row | type;
    uint32_t opcode = ptxb_noted(b, spelling);
    if (!opcode)
        opcode = ptxb_note(
            b, spelling,
            ptxb_required(b, info->name, form->isa, form->sm, spell(b, form, type, modifiers)));
    const ptx_val known =
        (PTX_TYPES_BITS >> type & 1) && !modifiers && opcode ? known_result(op, src) : poison;
    // A copy, which settle.c drops: where the result may be used is what it was.
    const ptx_val result = known.kind != PTX_KIND_POISON
                               ? ptxb_mov(b, known)
                               : ptxb_emit(b, shape_type(info->shape[0], type), opcode, count, src);
    if (b->restriction.made && !modifiers)
        b->restriction.made(b->restriction.context, result, op, src);
    return result;
}

ptx_val ptxb_op_emit(ptx_builder *b, ptx_opcode op, const ptx_val *src)
{
    return emit_op(b, ptxb_spelling(op, PTX_NONE, 0), src);
}

ptx_val ptx_op_emit(ptx_builder *b, struct ptx_op_params p)
{
    const struct ptx_op_info *info = ptx_op_get_info(p.op);
    const ptx_val src[] = { p.x, p.y, p.z, p.w };

    if (!b || b->failed)
        return (ptx_val) { 0 };
    if (!info || !info->shape) {
        ptxb_fail(b, "op",
                  info ? "ptx_op() does not emit %s, which has a function of its own"
                       : "the opcode is not one of ptx_opcode%s",
                  info ? info->name : "");
        return (ptx_val) { 0 };
    }
    const unsigned count = ptxb_op_operands[p.op];
    for (unsigned k = count; k < 4; k++)
        if (ptxb_is_given(src[k]) && ptxb_ready(b, info->name))
            ptxb_fail(b, info->name, "%s is given; the instruction takes %u operand%s",
                      operand_names[k], count, count == 1 ? "" : "s");
    if ((unsigned)p.round > PTX_ROUND_RP && ptxb_ready(b, info->name))
        ptxb_fail(b, info->name,
                  "%d is not a rounding; there are PTX_ROUND_RN, PTX_ROUND_RZ, PTX_ROUND_RM and "
                  "PTX_ROUND_RP",
                  (int)p.round);
    const unsigned modifiers = (unsigned)p.round * ROUND + p.ftz * FTZ + p.sat * SAT;
    return emit_op(b, ptxb_spelling(p.op, PTX_NONE, modifiers), src);
}

#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x)                                                  \
    {                                                                                              \
        return ptxb_op_emit(b, PTX_OP_##name, (const ptx_val[]) { x });                            \
    }
PTX_OPS_UNARY(DEFINE)
#undef DEFINE
#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y)                                       \
    {                                                                                              \
        return ptxb_op_emit(b, PTX_OP_##name, (const ptx_val[]) { x, y });                         \
    }
PTX_OPS_BINARY(DEFINE)
#undef DEFINE
#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z)                            \
    {                                                                                              \
        return ptxb_op_emit(b, PTX_OP_##name, (const ptx_val[]) { x, y, z });                      \
    }
PTX_OPS_TERNARY(DEFINE)
#undef DEFINE
#define DEFINE(name, ...)                                                                          \
    ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z, ptx_val w)                 \
    {                                                                                              \
        return ptxb_op_emit(b, PTX_OP_##name, (const ptx_val[]) { x, y, z, w });                   \
    }
PTX_OPS_QUATERNARY(DEFINE)
#undef DEFINE

ptx_val ptx_select(ptx_builder *b, ptx_val cond, ptx_val x, ptx_val y)
{
    if (!b)
        return (ptx_val) { 0 };
    cond = ptxb_typed(b, "select", "the condition", cond, PTX_PRED);
    if (!ptxb_is_condition(b, "select", cond))
        return (ptx_val) { 0 };
    const char *within = b->within;
    b->within = within ? within : "select";
    const ptx_val result = ptx_selp(b, x, y, cond);
    b->within = within;
    return result;
}

// ---- variables ----------------------------------------------------------------------------------

ptx_val ptx_var(ptx_builder *b, ptx_val init)
{
    if (!ptxb_ready(b, "var") || !ptxb_usable(b, "var", "init", init))
        return (ptx_val) { 0 };
    ptx_val var = ptxb_mov(b, init);
    if (b->failed)
        return (ptx_val) { 0 };
    b->regs.at[var.reg].variable = true;
    var.kind = PTX_KIND_VARIABLE;
    return var;
}

void ptx_set(ptx_builder *b, ptx_val var, ptx_val x)
{
    if (!ptxb_ready(b, "set") || !ptxb_usable(b, "set", "the variable", var))
        return;
    x = ptxb_typed(b, "set", "the value", x, (ptx_type)var.type);
    if (!ptxb_usable(b, "set", "the value", x))
        return;
    if (var.kind != PTX_KIND_VARIABLE) {
        ptxb_fail(b, "set", "the first value is not a variable; ptx_var() makes one");
        return;
    }
    if (var.type != x.type) {
        ptxb_fail(b, "set", "the variable is %s and the value %s",
                  ptx_type_name((ptx_type)var.type), ptx_type_name((ptx_type)x.type));
        return;
    }
    ptxb_assign(b, var, x);
}

ptx_val ptx_copy(ptx_builder *b, ptx_val x)
{
    if (!ptxb_ready(b, "copy") || !ptxb_usable(b, "copy", "x", x))
        return (ptx_val) { 0 };
    return ptxb_mov(b, x);
}

// ---- special registers --------------------------------------------------------------------------

static ptx_val read_special(ptx_builder *b, const char *call, const char *text, ptx_type type,
                            int isa, int sm, bool varying)
{
    if (!ptxb_ready(b, call) || !ptxb_require(b, call, isa, sm, text))
        return (ptx_val) { 0 };
    ptx_val result = ptxb_register(b, type);
    const uint32_t opcode = ptxb_mov_value(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, 1);
    if (!insn)
        return (ptx_val) { 0 };
    ptxb_result(b, insn, 0, result);
    ptxb_text_operand(b, insn, 1, OPERAND_TEXT, text);
    insn->varying = varying;
    return result;
}

static const struct special {
    const char *call, *text[3]; // by axis; one without axes has the first
    uint8_t type, isa, sm;
    bool varying;
} specials[] = {
#define VECTOR(name, text, meaning, isa, sm, varying)                                              \
    { #name, { text ".x", text ".y", text ".z" }, PTX_U32, isa, sm, varying },
#define SCALAR(name, text, type, meaning, isa, sm, varying)                                        \
    { #name, { text }, PTX_##type, isa, sm, varying },
    PTX_SPECIAL_VECTORS(VECTOR) PTX_SPECIAL_SCALARS(SCALAR)
#undef VECTOR
#undef SCALAR
};

ptx_val ptx_special(ptx_builder *b, ptx_special_register special, ptx_axis axis)
{
    if ((unsigned)special >= PTX_SPECIAL_COUNT) {
        if (ptxb_ready(b, "special"))
            ptxb_fail(b, "special", "%d is no special register; see ptx_special_register",
                      (int)special);
        return (ptx_val) { 0 };
    }
    const struct special *s = &specials[special];
    if (!ptxb_ready(b, s->call))
        return (ptx_val) { 0 };
    if ((unsigned)axis > PTX_Z) {
        ptxb_fail(b, s->call, "%d is not an axis; there are PTX_X, PTX_Y and PTX_Z", (int)axis);
        return (ptx_val) { 0 };
    }
    if (!s->text[axis]) {
        ptxb_fail(b, s->call, "the register has no axis; it is read with PTX_X");
        return (ptx_val) { 0 };
    }
    return read_special(b, s->call, s->text[axis], (ptx_type)s->type, s->isa, s->sm, s->varying);
}

bool ptxb_special_varies(const char *name)
{
    // %clock stands for %clock_hi, too, %tid for %tid.x.
#define IS(text, varies)                                   || (varies && !strncmp(name, text, strlen(text)))
#define VECTOR(name, text, meaning, isa, sm, varies)       IS(text, varies)
#define SCALAR(name, text, type, meaning, isa, sm, varies) IS(text, varies)
    return (name[1] == 'p' && name[2] == 'm' && name[3] >= '0' && name[3] <= '9')
        PTX_SPECIAL_VECTORS(VECTOR) PTX_SPECIAL_SCALARS(SCALAR);
#undef SCALAR
#undef VECTOR
#undef IS
}
