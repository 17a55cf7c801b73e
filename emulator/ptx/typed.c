// SPDX-License-Identifier: MIT
// Operands against the types that an instruction has for them.
#include "typed.h"

#include <string.h>

bool emu_is_integer(enum emu_type type)
{
    return type >= EMU_U8 && type <= EMU_S64;
}

bool emu_is_bits(enum emu_type type)
{
    return type >= EMU_B8 && type <= EMU_B64;
}

bool emu_is_float(enum emu_type type)
{
    return type >= EMU_F16 && type <= EMU_BF16X2;
}

bool emu_fits(enum emu_type declared, enum emu_type wanted, bool relaxed)
{
    const unsigned have = emu_bits(declared), need = emu_bits(wanted);

    if (declared == EMU_PRED || wanted == EMU_PRED)
        return declared == wanted;
    if (relaxed ? have < need : have != need)
        return false;
    if (emu_is_bits(wanted))
        return true;
    if (emu_is_integer(wanted))
        return !emu_is_float(declared);
    return declared == wanted || emu_is_bits(declared);
}

bool emu_mismatch(const struct emu_typing *t, const struct emu_written *w)
{
    return emu_error(t->p, &w->at, "Arguments mismatch for instruction '%.*s'",
                     EMU_TEXT(&t->spelled->name));
}

bool emu_put_operand(struct emu_typing *t, struct emu_operand operand)
{
    *t->out++ = operand;
    if (t->destination)
        t->spelled->insn.dst_count++;
    else
        t->spelled->insn.src_count++;
    return true;
}

bool emu_unknown(const struct emu_typing *t, const struct emu_written *w)
{
    return emu_error(t->p, &w->at, "Unknown symbol '%.*s'", EMU_TEXT(&w->at));
}

enum emu_type emu_declared_type(const struct emu_typing *t, const struct emu_written *w)
{
    const struct emu_function *f = &t->p->module->functions[t->p->body->function];
    return (enum emu_type)f->registers[w->name->index].type;
}

bool emu_put_register(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted,
                      bool relaxed)
{
    if (!w->name)
        return emu_unknown(t, w);
    if (w->name->kind != EMU_NAME_REGISTER || w->offset_given)
        return emu_mismatch(t, w);
    if (!emu_fits(emu_declared_type(t, w), wanted, relaxed))
        return emu_mismatch(t, w);
    if (w->negated && (t->destination || wanted != EMU_PRED))
        return emu_mismatch(t, w);
    return emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_REGISTER,
                                                     .index = w->name->index,
                                                     .negated = w->negated });
}

// mov and cvt alone read special registers.
static bool put_special(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const uint16_t opcode = t->spelled->insn.opcode;
    const unsigned bits = emu_bits(wanted);
    const bool halves = w->special == EMU_TID || w->special == EMU_NTID ||
                        w->special == EMU_CTAID || w->special == EMU_NCTAID;

    if (t->destination)
        return emu_error(t->p, &w->at, "Read-only special register cannot be destination argument");
    if ((opcode != EMU_OP_MOV && opcode != EMU_OP_CVT) || emu_is_float(wanted))
        return emu_error(t->p, &w->at,
                         "Special register argument not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    const bool fits = bits == w->special_bits || (bits == 16 && halves) ||
                      (bits == 32 && w->special == EMU_GRIDID);
    if (!fits || w->negated)
        return emu_mismatch(t, w);
    return emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SPECIAL,
                                                     .special = w->special,
                                                     .index = w->axis });
}

static bool put_constant(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted)
{
    uint64_t bits;

    if (t->destination)
        return emu_error(t->p, &w->at, "Result register required for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    if (!emu_constant_in(&w->constant, wanted, &bits))
        return emu_mismatch(t, w);
    return emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE, .bits = bits });
}

static bool put_sink(struct emu_typing *t, const struct emu_written *w, bool element)
{
    const uint16_t opcode = t->spelled->insn.opcode;
    const bool allowed =
        opcode == EMU_OP_ATOM || opcode == EMU_OP_MATCH_ALL || opcode == EMU_OP_SETP;

    if (!t->destination || w->negated)
        return emu_mismatch(t, w);
    if (!allowed && !element)
        return emu_error(t->p, &w->at, "Result discard mode is not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    return emu_put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SINK });
}

bool emu_put_plain(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted,
                   bool relaxed, bool element)
{
    switch (w->syntax) {
    case EMU_SYNTAX_NAME:
        return emu_put_register(t, w, wanted, relaxed);
    case EMU_SYNTAX_CONSTANT:
        return put_constant(t, w, wanted);
    case EMU_SYNTAX_SPECIAL:
        return put_special(t, w, wanted);
    case EMU_SYNTAX_SINK:
        return put_sink(t, w, element);
    default:
        return emu_mismatch(t, w);
    }
}

// ---- vectors ------------------------------------------------------------------------------------

static bool put_vector(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const unsigned lanes = t->spelled->insn.lanes;

    if (w->syntax != EMU_SYNTAX_VECTOR) {
        if (lanes > 1)
            return emu_error(t->p, &w->at,
                             t->destination ? "Result vector expected"
                                            : "Argument vector expected");
        return emu_put_plain(t, w, wanted, true, false);
    }
    if (w->lanes != lanes)
        return emu_error(t->p, &w->at, "Argument vector size mismatch for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    for (unsigned k = 0; k < lanes; k++)
        if (!emu_put_plain(t, &t->list->elements[w->first + k], wanted, true, lanes > 1))
            return false;
    return true;
}

// mov between one register and the parts of a vector.
static bool put_parts(struct emu_typing *t, const struct emu_written *w, enum emu_type whole)
{
    static const uint8_t parts[] = { [1] = EMU_B8, [2] = EMU_B16, [4] = EMU_B32 };
    const unsigned bytes = emu_bits(whole) / 8;

    if (!emu_is_bits(whole) || w->lanes < 2 || bytes % w->lanes || (w->lanes & (w->lanes - 1)) != 0)
        return emu_mismatch(t, w);
    for (unsigned k = 0; k < w->lanes; k++) {
        const struct emu_written *element = &t->list->elements[w->first + k];
        if (element->syntax == EMU_SYNTAX_SPECIAL ||
            !emu_put_plain(t, element, (enum emu_type)parts[bytes / w->lanes], false, true))
            return element->syntax == EMU_SYNTAX_SPECIAL ? emu_mismatch(t, w) : false;
    }
    return true;
}

static bool put_mov(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const struct emu_written *other = &t->list->at[w == &t->list->at[0] ? 1 : 0];

    if (w->syntax != EMU_SYNTAX_VECTOR)
        return emu_put_movable(t, w, wanted);
    if (other->syntax == EMU_SYNTAX_VECTOR)
        return emu_mismatch(t, w);
    return put_parts(t, w, wanted);
}

// ---- by letter ----------------------------------------------------------------------------------

static enum emu_type wide(enum emu_type type)
{
    switch (type) {
    case EMU_U16:
        return EMU_U32;
    case EMU_S16:
        return EMU_S32;
    case EMU_U32:
        return EMU_U64;
    case EMU_S32:
        return EMU_S64;
    default:
        return EMU_NONE;
    }
}

// What only tells caches what to keep: it is read, and left out.
static bool skip_policy(struct emu_typing *t, const struct emu_written *w)
{
    struct emu_operand *const out = t->out;
    const uint8_t count = t->spelled->insn.src_count;
    const bool fine = emu_put_plain(t, w, EMU_B64, false, false);

    t->out = out;
    t->spelled->insn.src_count = count;
    return fine;
}

static bool put_size(struct emu_typing *t, const struct emu_written *w)
{
    const bool is_register =
        w->syntax == EMU_SYNTAX_NAME && w->name && w->name->kind == EMU_NAME_REGISTER;
    const bool predicate = is_register && emu_declared_type(t, w) == EMU_PRED;

    return emu_put_plain(t, w, predicate ? EMU_PRED : EMU_U32, false, false);
}

static bool put_letter(struct emu_typing *t, char letter, const struct emu_written *w)
{
    const enum emu_type type = (enum emu_type)t->spelled->types[0];
    const enum emu_type second = (enum emu_type)t->spelled->types[1];

    switch (letter) {
    case 't':
        return t->spelled->insn.opcode == EMU_OP_MOV ? put_mov(t, w, type)
                                                     : emu_put_plain(t, w, type, false, false);
    case 's':
        return emu_put_plain(t, w, second, false, false);
    case 'T':
        return emu_put_plain(t, w, type, true, false);
    case 'S':
        return emu_put_plain(t, w, second, true, false);
    case 'w':
        return emu_put_plain(t, w, wide(type), false, false);
    case 'u':
        return emu_put_plain(t, w, EMU_U32, false, false);
    case 'p':
    case 'q':
        return emu_put_plain(t, w, EMU_PRED, false, false);
    case 'a':
        return emu_put_address(t, w);
    case 'v':
        return put_vector(t, w, type);
    case 'm':
        return t->spelled->insn.opcode == EMU_OP_MOV ? put_mov(t, w, type)
                                                     : emu_put_movable(t, w, type);
    case 'i':
        return emu_put_pointer(t, w);
    case 'g':
        return emu_put_global_address(t, w);
    case 'h':
        return skip_policy(t, w);
    case 'j':
        return emu_put_targets(t, w);
    case 'x':
        return w->syntax == EMU_SYNTAX_NAME && !w->name ? emu_unknown(t, w) : true;
    case 'z':
        return put_size(t, w);
    case 'k':
        return w->syntax == EMU_SYNTAX_CONSTANT ? put_constant(t, w, EMU_U32) : emu_mismatch(t, w);
    default:
        return emu_put_label(t, w);
    }
}

bool emu_type_operands(struct emu_parser *p, struct emu_spelled *spelled,
                       const struct emu_form *form, const struct emu_written_list *list,
                       struct emu_operand *operands)
{
    struct emu_typing t = { p, spelled, list, operands, true };
    unsigned k = 0;

    for (const char *c = form->operands; *c; c++) {
        if (*c == '=') {
            t.destination = false;
            continue;
        }
        if ((*c == 'q' && !list->at[0].pair) || (*c == 'h' && !(spelled->groups & EMU_G(HINT))))
            continue;
        const struct emu_written *w = &list->at[k];
        const bool paired = c[1] == 'q';
        if (w->pair && !(paired && k == 0))
            return emu_mismatch(&t, w);
        if (*c == 'q' && w->syntax == EMU_SYNTAX_SINK) {
            k++; // r|_ is r
            continue;
        }
        if (!put_letter(&t, *c, w))
            return false;
        k++;
    }
    return true;
}
