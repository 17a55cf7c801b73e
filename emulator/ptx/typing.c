// SPDX-License-Identifier: MIT
// Operands as the form of their instruction takes them: the types that its letters give.
#include "typing.h"

#include "body.h"
#include "names.h"
#include "type.h"

#include <string.h>

// ---- by type ------------------------------------------------------------------------------------

// The context of the conversion of one operand.
struct typing {
    struct emu_parser *p;
    struct emu_spelled *spelled;
    const struct emu_written_list *list;
    struct emu_operand *out; // the next one to fill
    bool destination;
    char letter; // of the operand, in the form
};

static bool mismatch(const struct typing *t, const struct emu_written *w)
{
    return emu_error(t->p, &w->at, "Arguments mismatch for instruction '%.*s'",
                     EMU_TEXT(&t->spelled->name));
}

static bool put_operand(struct typing *t, struct emu_operand operand)
{
    *t->out++ = operand;
    if (t->destination)
        t->spelled->insn.dst_count++;
    else
        t->spelled->insn.src_count++;
    return true;
}

static bool unknown(const struct typing *t, const struct emu_written *w)
{
    return emu_error(t->p, &w->at, "Unknown symbol '%.*s'", EMU_TEXT(&w->at));
}

static enum emu_type declared_type(const struct typing *t, const struct emu_written *w)
{
    const struct emu_function *f = &t->p->module->functions[t->p->body->function];
    return (enum emu_type)f->registers[w->name->index].type;
}

static bool wrong_space(const struct typing *t, const struct emu_written *w)
{
    return emu_error(t->p, &w->at,
                     "State space mismatch between instruction and address in instruction '%.*s'",
                     EMU_TEXT(&t->spelled->name));
}

// The address of a variable, or one at a distance from it.
static bool put_symbol(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const struct emu_symbol *symbol = &t->p->module->symbols[w->name->index];
    if (emu_is_float(wanted) || emu_bits(wanted) < 32 || t->destination || w->negated)
        return mismatch(t, w);
    if (t->letter == 'm' && t->spelled->insn.space != symbol->space)
        return wrong_space(t, w);
    if (emu_bits(wanted) < 64 && symbol->space == EMU_GLOBAL)
        return emu_error(t->p, &w->at,
                         "32-bit addresses require .shared, .local, .const or .param space");
    return emu_refer(t->p, w->name->index, false, &w->at) &&
           put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SYMBOL,
                                                 .index = w->name->index,
                                                 .offset = w->offset });
}

// r+4 stands for a register with the sum.
static bool put_sum(struct typing *t, const struct emu_written *w)
{
    const enum emu_type type = declared_type(t, w);
    const struct emu_insn *insn = &t->spelled->insn;
    const uint32_t sum = emu_new_register(t->p, "%sum", 4, (uint8_t)type);
    const struct emu_operand operands[] = {
        { .kind = EMU_OPERAND_REGISTER, .index = sum },
        { .kind = EMU_OPERAND_REGISTER, .index = w->name->index },
        { .kind = EMU_OPERAND_IMMEDIATE, .bits = (uint64_t)w->offset }
    };
    const enum emu_type unsigned_type = emu_bits(type) == 64   ? EMU_U64
                                        : emu_bits(type) == 32 ? EMU_U32
                                                               : EMU_U16;
    const struct emu_insn add = { .letters = "t=tt",
                                  .opcode = EMU_OP_ADD,
                                  .type = (uint8_t)unsigned_type,
                                  .source_type = (uint8_t)unsigned_type,
                                  .lanes = 1,
                                  .dst_count = 1,
                                  .src_count = 2,
                                  .guard = insn->guard,
                                  .guard_negated = insn->guard_negated,
                                  .line = insn->line };

    return sum != EMU_NO_REGISTER && emu_append(t->p, &add, operands) &&
           put_operand(t, operands[0]);
}

static bool put_register(struct typing *t, const struct emu_written *w, enum emu_type wanted,
                         bool relaxed)
{
    if (!w->name)
        return unknown(t, w);
    if (w->name->kind == EMU_NAME_SYMBOL && w->offset_given && !w->minus)
        return put_symbol(t, w, wanted);
    const bool sum = w->offset_given;
    if (w->name->kind != EMU_NAME_REGISTER || (sum && (t->destination || w->minus || w->select)))
        return mismatch(t, w);
    if (sum && (emu_is_float(declared_type(t, w)) || emu_bits(declared_type(t, w)) < 16))
        return emu_error(t->p, &w->at,
                         "The sum of '%.*s' and a constant is not supported by the emulator here",
                         EMU_TEXT(&w->at));
    if (!emu_fits(declared_type(t, w), wanted, relaxed))
        return mismatch(t, w);
    if (w->negated && (t->destination || wanted != EMU_PRED))
        return mismatch(t, w);
    if (w->select && t->letter != 'e' && t->letter != 'E')
        return emu_error(t->p, &w->at, "Video selector is not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    if (w->minus && t->letter != 'E')
        return emu_error(t->p, &w->at, "Operand negation not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    if (sum)
        return put_sum(t, w);
    return put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_REGISTER,
                                                 .index = w->name->index,
                                                 .negated = w->negated });
}

// Only mov and cvt read special registers.
static bool put_special(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const unsigned bits = emu_bits(wanted);
    const bool halves = w->special == EMU_TID || w->special == EMU_NTID ||
                        w->special == EMU_CTAID || w->special == EMU_NCTAID;

    if (t->destination)
        return emu_error(t->p, &w->at, "Read-only special register cannot be destination argument");
    if (t->letter == 'P' && w->special == EMU_IS_EXPLICIT_CLUSTER && !w->negated)
        return put_operand(
            t, (struct emu_operand) { .kind = EMU_OPERAND_SPECIAL, .special = w->special });
    if ((t->letter != 'M' && t->letter != 'S') || emu_is_float(wanted))
        return emu_error(t->p, &w->at,
                         "Special register argument not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    const bool fits = bits == w->special_bits || (bits == 16 && halves) ||
                      (bits == 32 && w->special == EMU_GRIDID);
    if (!fits || w->negated)
        return mismatch(t, w);
    return put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SPECIAL,
                                                 .special = w->special,
                                                 .index = w->axis });
}

static bool put_constant(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    uint64_t bits;

    if (t->destination)
        return emu_error(t->p, &w->at, "Result register required for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    if (!emu_constant_in(&w->constant, wanted, &bits))
        return mismatch(t, w);
    return put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE, .bits = bits });
}

static bool put_sink(struct typing *t, const struct emu_written *w, bool element)
{
    const bool allowed = strchr(t->spelled->insn.letters, '_') != NULL;

    if (!t->destination || w->negated)
        return mismatch(t, w);
    if (!allowed && !element)
        return emu_error(t->p, &w->at, "Result discard mode is not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    return put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SINK });
}

static bool put_plain(struct typing *t, const struct emu_written *w, enum emu_type wanted,
                      bool relaxed, bool element)
{
    if (element && w->offset_given)
        return mismatch(t, w);
    switch (w->syntax) {
    case EMU_SYNTAX_NAME:
        return put_register(t, w, wanted, relaxed);
    case EMU_SYNTAX_CONSTANT:
        return put_constant(t, w, wanted);
    case EMU_SYNTAX_SPECIAL:
        return put_special(t, w, wanted);
    case EMU_SYNTAX_SINK:
        return put_sink(t, w, element);
    default:
        return mismatch(t, w);
    }
}

// ---- addresses, variables, labels ---------------------------------------------------------------

static bool put_symbol_address(struct typing *t, const struct emu_written *w)
{
    struct emu_insn *insn = &t->spelled->insn;
    const struct emu_symbol *symbol = &t->p->module->symbols[w->name->index];

    if (insn->space == EMU_GENERIC)
        insn->space = symbol->space; // the variable's name gives the space
    if (insn->space != symbol->space)
        return wrong_space(t, w);
    return emu_refer(t->p, w->name->index, false, &w->at) &&
           put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_SYMBOL_ADDRESS,
                                                 .index = w->name->index,
                                                 .offset = w->offset });
}

static bool put_address(struct typing *t, const struct emu_written *w)
{
    if (w->syntax == EMU_SYNTAX_NAME && w->name && w->name->kind == EMU_NAME_SYMBOL &&
        w->offset_given)
        return put_symbol_address(t, w); // a[1], without brackets
    if (w->syntax != EMU_SYNTAX_ADDRESS)
        return mismatch(t, w);
    if (!w->name) {
        if (t->spelled->insn.space != EMU_LOCAL)
            return emu_error(t->p, &w->at,
                             "Immediate addresses allowed only for .local state space");
        return put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_ADDRESS,
                                                     .index = EMU_NO_REGISTER,
                                                     .offset = w->offset });
    }
    if (w->name->kind == EMU_NAME_SYMBOL)
        return put_symbol_address(t, w);
    if (w->name->kind == EMU_NAME_PARAM)
        return wrong_space(t, w);
    const enum emu_type type = declared_type(t, w);
    if (emu_bits(type) < 32 || emu_is_float(type))
        return emu_error(t->p, &w->at,
                         "Illegal to use symbol '%.*s' as address operand. Use integer or bit only",
                         EMU_TEXT(&w->at));
    const uint8_t space = t->spelled->insn.space;
    if (emu_bits(type) < 64 && (space == EMU_GENERIC || space == EMU_GLOBAL))
        return emu_error(t->p, &w->at,
                         "32-bit addresses require .shared, .local, .const or .param space");
    return put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_ADDRESS,
                                                 .index = w->name->index,
                                                 .offset = w->offset });
}

static bool put_function(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    if (emu_is_float(wanted) || emu_bits(wanted) < 64 || t->destination || w->negated ||
        t->letter == 'm')
        return mismatch(t, w);
    return emu_refer(t->p, w->name->index, true, &w->at) &&
           put_operand(
               t, (struct emu_operand) { .kind = EMU_OPERAND_FUNCTION, .index = w->name->index });
}

// That of its copy in local memory. ptxas 13.0 makes the address of the kernel's parameters of
// cvta.param.
static bool put_param_address(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    if (emu_is_float(wanted) || emu_bits(wanted) < 32 || t->destination || w->negated)
        return mismatch(t, w);
    if (t->letter == 'm' && t->spelled->insn.space != EMU_PARAM)
        return wrong_space(t, w);
    if (t->letter == 'm')
        return emu_error(t->p, &w->at,
                         "The generic address of '%.*s', a parameter of a function, is not "
                         "supported by the emulator",
                         EMU_TEXT(&w->at));
    const uint32_t symbol = emu_param_symbol(t->p, &w->at, w->name->index);
    return symbol != EMU_NO_REGISTER &&
           put_operand(t, (struct emu_operand) {
                              .kind = EMU_OPERAND_SYMBOL, .index = symbol, .offset = w->offset });
}

// A register or the address of a variable or function: mov and cvta.
static bool put_movable(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    if (w->syntax != EMU_SYNTAX_NAME || !w->name)
        return put_plain(t, w, wanted, false, false);
    if (w->name->kind == EMU_NAME_FUNCTION)
        return put_function(t, w, wanted);
    if (w->name->kind == EMU_NAME_PARAM)
        return put_param_address(t, w, wanted);
    if (w->name->kind != EMU_NAME_SYMBOL)
        return put_plain(t, w, wanted, false, false);
    return put_symbol(t, w, wanted);
}

static bool put_label(struct typing *t, const struct emu_written *w)
{
    if (w->syntax != EMU_SYNTAX_NAME || w->negated ||
        (w->name && w->name->kind == EMU_NAME_REGISTER))
        return emu_error(t->p, &w->at, "Label expected for argument 0 of instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    return emu_use_label(t->p, &w->at, false);
}

static bool put_pointer(struct typing *t, const struct emu_written *w)
{
    if (w->syntax != EMU_SYNTAX_NAME || !w->name || w->name->kind != EMU_NAME_REGISTER)
        return w->syntax == EMU_SYNTAX_NAME && !w->name ? unknown(t, w) : mismatch(t, w);
    const enum emu_type type = declared_type(t, w);
    t->spelled->insn.type = emu_bits(type) == 32 ? EMU_U32 : EMU_U64;
    return put_register(t, w, (enum emu_type)t->spelled->insn.type, false);
}

// For brx: the instruction refers to the list by its targets.
static bool put_targets(struct typing *t, const struct emu_written *w)
{
    if (w->syntax != EMU_SYNTAX_NAME || !w->name)
        return w->syntax == EMU_SYNTAX_NAME ? unknown(t, w) : mismatch(t, w);
    if (w->name->kind != EMU_NAME_TARGETS)
        return mismatch(t, w);
    t->spelled->insn.target = w->name->index;
    t->spelled->insn.target_count = w->name->count;
    return true;
}

static bool put_global_address(struct typing *t, const struct emu_written *w)
{
    const uint8_t space = t->spelled->insn.space;

    t->spelled->insn.space = EMU_GLOBAL;
    const bool put = put_address(t, w);
    t->spelled->insn.space = space;
    return put;
}

// ---- vectors ------------------------------------------------------------------------------------

static bool put_vector(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const unsigned lanes = t->spelled->insn.lanes;

    if (w->syntax != EMU_SYNTAX_VECTOR) {
        if (lanes > 1)
            return emu_error(t->p, &w->at,
                             t->destination ? "Result vector expected"
                                            : "Argument vector expected");
        return put_plain(t, w, wanted, true, false);
    }
    if (w->lanes != lanes || w->wide)
        return emu_error(t->p, &w->at, "Argument vector size mismatch for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    for (unsigned k = 0; k < lanes; k++)
        if (!put_plain(t, &t->list->elements[w->first + k], wanted, true, lanes > 1))
            return false;
    return true;
}

// Registers of 32 bits, also for smaller elements; of 64 for f64.
static bool put_fragment(struct typing *t, const struct emu_written *w)
{
    const unsigned count = emu_fragment_registers(&t->spelled->insn, t->letter);
    const bool sums = t->letter == 'C' || t->letter == 'D';
    enum emu_type type = t->letter == 'C'   ? (enum emu_type)t->spelled->insn.sum_type
                         : t->letter == 'D' ? (enum emu_type)t->spelled->types[0]
                                            : EMU_B32;

    if (t->spelled->types[0] == EMU_F64)
        type = EMU_F64;
    type = emu_bits(type) >= 32 ? type : EMU_B32;
    if (w->syntax != EMU_SYNTAX_VECTOR || w->lanes != count || w->wide)
        return emu_error(t->p, &w->at, "A vector of %u registers is expected in instruction '%.*s'",
                         count, EMU_TEXT(&t->spelled->name));
    for (unsigned k = 0; k < count; k++) {
        const struct emu_written *element = &t->list->elements[w->first + k];
        if (element->syntax == EMU_SYNTAX_CONSTANT && !sums)
            return mismatch(t, element);
        if (!put_plain(t, element, type, false, true))
            return false;
    }
    return true;
}

// mov between one register and the parts of a vector.
static bool put_parts(struct typing *t, const struct emu_written *w, enum emu_type whole)
{
    static const uint8_t parts[] = { [1] = EMU_B8, [2] = EMU_B16, [4] = EMU_B32 };
    const unsigned bytes = emu_bits(whole) / 8;

    if (!emu_is_bits(whole) || w->lanes < 2 || bytes % w->lanes || (w->lanes & (w->lanes - 1)) != 0)
        return mismatch(t, w);
    for (unsigned k = 0; k < w->lanes; k++) {
        const struct emu_written *element = &t->list->elements[w->first + k];
        if (element->syntax == EMU_SYNTAX_SPECIAL ||
            !put_plain(t, element, (enum emu_type)parts[bytes / w->lanes], false, true))
            return element->syntax == EMU_SYNTAX_SPECIAL ? mismatch(t, w) : false;
    }
    return true;
}

static bool put_mov(struct typing *t, const struct emu_written *w, enum emu_type wanted)
{
    const struct emu_written *other = &t->list->at[w == &t->list->at[0] ? 1 : 0];
    const unsigned lanes = t->spelled->insn.lanes;

    if (lanes > 1 && (w->syntax != EMU_SYNTAX_VECTOR || w->lanes != lanes))
        return emu_error(t->p, &w->at, "Argument vector size mismatch for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    for (unsigned k = 0; lanes > 1 && k < lanes; k++)
        if (!put_plain(t, &t->list->elements[w->first + k], wanted, false, true))
            return false;
    if (lanes > 1)
        return true;
    if (w->syntax != EMU_SYNTAX_VECTOR)
        return put_movable(t, w, wanted);
    if (other->syntax == EMU_SYNTAX_VECTOR)
        return emu_error(t->p, &w->at,
                         "Illegal vector-vector operands for vector-scalar or scalar-vector mov "
                         "instruction");
    return put_parts(t, w, wanted);
}

// A register of 128 bits, by its halves.
static bool put_wide(struct typing *t, const struct emu_written *w)
{
    const uint64_t high = !w->constant.is_unsigned && w->constant.bits >> 63 ? UINT64_MAX : 0;

    if (w->syntax == EMU_SYNTAX_CONSTANT && w->constant.kind == EMU_TOKEN_INTEGER)
        return put_constant(t, w, EMU_B64) &&
               put_operand(t, (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE, .bits = high });
    if (w->syntax == EMU_SYNTAX_SINK)
        return put_sink(t, w, false) && put_sink(t, w, false);
    if (!w->wide)
        return mismatch(t, w);
    return put_plain(t, &t->list->elements[w->first], EMU_B64, false, false) &&
           put_plain(t, &t->list->elements[w->first + 1], EMU_B64, false, false);
}

// ---- by letter ----------------------------------------------------------------------------------

// Operands that only tell caches what to keep are parsed and dropped.
static bool skip_policy(struct typing *t, const struct emu_written *w)
{
    struct emu_operand *const out = t->out;
    const uint16_t count = t->spelled->insn.src_count;
    const bool fine = put_plain(t, w, EMU_B64, false, false);

    t->out = out;
    t->spelled->insn.src_count = count;
    return fine;
}

static bool put_size(struct typing *t, const struct emu_written *w)
{
    const bool is_register =
        w->syntax == EMU_SYNTAX_NAME && w->name && w->name->kind == EMU_NAME_REGISTER;
    const bool predicate = is_register && declared_type(t, w) == EMU_PRED;

    return put_plain(t, w, predicate ? EMU_PRED : EMU_U32, false, false);
}

// Parts of a register, or the negation of them: video instructions.
static bool put_parts_of(struct typing *t, const struct emu_written *w)
{
    struct emu_insn *insn = &t->spelled->insn;
    const unsigned source = insn->src_count;

    if (t->destination)
        insn->select[0] = w->select;
    else if (source < 2)
        insn->select[1 + source] = w->select;
    else if (w->select)
        return emu_error(t->p, &w->at, "Video selector is not allowed for instruction '%.*s'",
                         EMU_TEXT(&t->spelled->name));
    if (w->minus && source < 2)
        insn->negates_product = !insn->negates_product;
    else if (w->minus)
        insn->negates_addend = true;
    return put_plain(t, w, EMU_U32, false, false);
}

static bool put_letter(struct typing *t, const struct emu_written *w)
{
    const enum emu_type type = (enum emu_type)t->spelled->types[0];
    const enum emu_type second = (enum emu_type)t->spelled->types[1];

    switch (t->letter) {
    case 't':
        return put_plain(t, w, type, false, false);
    case 's':
        return put_plain(t, w, second, false, false);
    case 'T':
        return put_plain(t, w, type, true, false);
    case 'S':
        return put_plain(t, w, second, true, false);
    case 'w':
        return put_plain(t, w, emu_twice(type), false, false);
    case 'u':
        return put_plain(t, w, EMU_U32, false, false);
    case 'y':
        return put_plain(t, w, EMU_U64, false, false);
    case 'e':
    case 'E':
        return put_parts_of(t, w);
    case 'p':
    case 'P':
    case 'q':
        return put_plain(t, w, EMU_PRED, false, false);
    case 'a':
    case 'b':
        return put_address(t, w);
    case 'v':
        return put_vector(t, w, type);
    case 'W':
        return put_wide(t, w);
    case 'A':
    case 'B':
    case 'C':
    case 'D':
    case 'F':
        return put_fragment(t, w);
    case 'm':
        return put_movable(t, w, type);
    case 'M':
        return put_mov(t, w, type);
    case 'i':
        return put_pointer(t, w);
    case 'g':
        return put_global_address(t, w);
    case 'h':
        return skip_policy(t, w);
    case 'j':
        return put_targets(t, w);
    case 'x':
        return w->syntax == EMU_SYNTAX_NAME && !w->name ? unknown(t, w) : true;
    case 'z':
        return put_size(t, w);
    case 'k':
        return w->syntax == EMU_SYNTAX_CONSTANT ? put_constant(t, w, EMU_U32) : mismatch(t, w);
    default:
        return put_label(t, w);
    }
}

bool emu_type_operands(struct emu_parser *p, struct emu_spelled *spelled,
                       const struct emu_written_list *list, struct emu_operand *operands)
{
    struct typing t = { p, spelled, list, operands, true, 0 };
    unsigned k = 0;

    for (const char *c = spelled->insn.letters; *c; c++) {
        if (*c == '=') {
            t.destination = false;
            continue;
        }
        if (*c == '_' || (*c == 'q' && !list->at[0].pair) ||
            (*c == 'h' && !(spelled->groups & EMU_G(HINT))))
            continue;
        const struct emu_written *w = &list->at[k];
        const bool paired = c[1] == 'q';
        if (w->pair && !(paired && k == 0))
            return mismatch(&t, w);
        if (*c == 'q' && w->syntax == EMU_SYNTAX_SINK) {
            k++; // r|_ is r
            continue;
        }
        t.letter = *c;
        if (!put_letter(&t, w))
            return false;
        k++;
    }
    return true;
}
