// SPDX-License-Identifier: MIT
// Calls, and the .param variables of functions and calls, which are kept in registers.
#include "call.h"

#include "body.h"
#include "names.h"
#include "type.h"

#include <string.h>

// ---- ld.param and st.param ----------------------------------------------------------------------

static struct emu_operand in_register(uint32_t index)
{
    return (struct emu_operand) { .kind = EMU_OPERAND_REGISTER, .index = index };
}

// The context of one access that is turned into instructions.
struct access {
    struct emu_parser *p;
    struct emu_spelled *spelled;
    const struct emu_param_registers *param;
    enum emu_type type;
    unsigned bytes; // of a lane
};

static enum emu_type bits_type(unsigned bytes)
{
    return bytes == 1 ? EMU_B8 : bytes == 2 ? EMU_B16 : bytes == 4 ? EMU_B32 : EMU_B64;
}

static enum emu_type integer_type(unsigned bytes, bool is_signed)
{
    const enum emu_type type = bytes == 1   ? EMU_U8
                               : bytes == 2 ? EMU_U16
                               : bytes == 4 ? EMU_U32
                                            : EMU_U64;
    return is_signed ? (enum emu_type)(type + (EMU_S8 - EMU_U8)) : type;
}

// Appends an instruction in place of the access, under its guard.
static bool emit(const struct access *a, struct emu_insn insn, const struct emu_operand *operands)
{
    insn.lanes = 1;
    insn.guard = a->spelled->insn.guard;
    insn.guard_negated = a->spelled->insn.guard_negated;
    insn.line = a->spelled->insn.line;
    return emu_append(a->p, &insn, operands);
}

static bool emit_mov(const struct access *a, unsigned bytes, unsigned dst_count, unsigned src_count,
                     const struct emu_operand *operands)
{
    const uint8_t type = (uint8_t)bits_type(bytes);

    return emit(a,
                (struct emu_insn) { .letters = "M=M",
                                    .opcode = EMU_OP_MOV,
                                    .type = type,
                                    .source_type = type,
                                    .dst_count = (uint8_t)dst_count,
                                    .src_count = (uint8_t)src_count },
                operands);
}

static unsigned register_bytes(const struct access *a, uint32_t index)
{
    const struct emu_function *f = &a->p->module->functions[a->p->body->function];
    return emu_bits((enum emu_type)f->registers[index].type) / 8;
}

// Copies one register to another of the same or another width.
static bool move(const struct access *a, uint32_t to, struct emu_operand from, unsigned from_bytes,
                 bool sign)
{
    const unsigned bytes = register_bytes(a, to);
    const struct emu_operand operands[] = { in_register(to), from };

    if (bytes == from_bytes && bytes > 1)
        return emit_mov(a, bytes, 1, 1, operands);
    return emit(a,
                (struct emu_insn) { .letters = "T=S",
                                    .opcode = EMU_OP_CVT,
                                    .type = (uint8_t)integer_type(bytes, sign),
                                    .source_type = (uint8_t)integer_type(from_bytes, sign),
                                    .dst_count = 1,
                                    .src_count = 1 },
                operands);
}

static uint32_t temporary(const struct access *a, unsigned bytes)
{
    return emu_new_register(a->p, "%temporary", 10, (uint8_t)bits_type(bytes));
}

// Combines the bytes of an array into one value.
static bool gather(const struct access *a, uint64_t offset, uint32_t to)
{
    struct emu_operand operands[9];

    if (a->bytes == 1)
        return move(a, to, in_register(a->param->first + (uint32_t)offset), 1,
                    emu_is_signed(a->type));
    const bool narrow = register_bytes(a, to) != a->bytes;
    const uint32_t whole = narrow ? temporary(a, a->bytes) : to;
    if (whole == EMU_NO_REGISTER)
        return false;
    operands[0] = in_register(whole);
    for (unsigned k = 0; k < a->bytes; k++)
        operands[1 + k] = in_register(a->param->first + (uint32_t)offset + k);
    return emit_mov(a, a->bytes, 1, a->bytes, operands) &&
           (!narrow || move(a, to, in_register(whole), a->bytes, emu_is_signed(a->type)));
}

// Extracts a part of a scalar.
static bool extract(const struct access *a, uint64_t offset, uint32_t to)
{
    struct emu_operand operands[9];
    const unsigned parts = a->param->bytes / a->bytes;
    const uint32_t part = temporary(a, a->bytes);

    if (part == EMU_NO_REGISTER)
        return false;
    for (unsigned k = 0; k < parts; k++)
        operands[k] = k == offset / a->bytes ? in_register(part)
                                             : (struct emu_operand) { .kind = EMU_OPERAND_SINK };
    operands[parts] = in_register(a->param->first);
    return emit_mov(a, a->param->bytes, parts, 1, operands) &&
           move(a, to, in_register(part), a->bytes, emu_is_signed(a->type));
}

static bool load(const struct access *a, uint64_t offset, uint32_t to)
{
    if (a->param->array)
        return gather(a, offset, to);
    if (a->bytes == a->param->bytes)
        return move(a, to, in_register(a->param->first), a->bytes, emu_is_signed(a->type));
    return extract(a, offset, to);
}

// Splits a value into the bytes of an array.
static bool scatter(const struct access *a, uint64_t offset, struct emu_operand value,
                    unsigned value_bytes)
{
    struct emu_operand operands[9];

    if (a->bytes == 1 || value.kind == EMU_OPERAND_IMMEDIATE) {
        for (unsigned k = 0; k < a->bytes; k++) {
            struct emu_operand byte = value;
            byte.bits = value.bits >> 8 * k & 0xff;
            const unsigned bytes = value.kind == EMU_OPERAND_IMMEDIATE ? 1 : value_bytes;
            if (!move(a, a->param->first + (uint32_t)offset + k, byte, bytes, false))
                return false;
        }
        return true;
    }
    if (value_bytes != a->bytes) {
        const uint32_t narrow = temporary(a, a->bytes);
        if (narrow == EMU_NO_REGISTER || !move(a, narrow, value, value_bytes, false))
            return false;
        value = in_register(narrow);
    }
    for (unsigned k = 0; k < a->bytes; k++)
        operands[k] = in_register(a->param->first + (uint32_t)offset + k);
    operands[a->bytes] = value;
    return emit_mov(a, a->bytes, a->bytes, 1, operands);
}

static bool mismatch(const struct access *a, const struct emu_written *w)
{
    return emu_error(a->p, &w->at, "Arguments mismatch for instruction '%.*s'",
                     EMU_TEXT(&a->spelled->name));
}

static bool access_lane(const struct access *a, const struct emu_written *w, uint64_t offset,
                        bool store, bool element)
{
    struct emu_operand value = { .kind = EMU_OPERAND_IMMEDIATE };
    const struct emu_function *f = &a->p->module->functions[a->p->body->function];

    if (w->syntax == EMU_SYNTAX_SINK && !store && element)
        return true;
    if (w->syntax == EMU_SYNTAX_CONSTANT && store) {
        if (!emu_constant_in(&w->constant, a->type, &value.bits))
            return mismatch(a, w);
        return a->param->array ? scatter(a, offset, value, a->bytes)
                               : move(a, a->param->first, value, a->bytes, false);
    }
    if (w->syntax != EMU_SYNTAX_NAME || !w->name || w->name->kind != EMU_NAME_REGISTER ||
        w->negated || !emu_fits((enum emu_type)f->registers[w->name->index].type, a->type, true))
        return mismatch(a, w);
    if (!store)
        return load(a, offset, w->name->index);
    value = in_register(w->name->index);
    const unsigned bytes = register_bytes(a, w->name->index);
    return a->param->array ? scatter(a, offset, value, bytes)
                           : move(a, a->param->first, value, bytes, false);
}

static bool check_access(const struct access *a, const struct emu_written *address,
                         const struct emu_written *w, bool store)
{
    const unsigned lanes = a->spelled->insn.lanes;
    const emu_groups plain = EMU_G(SPACE) | EMU_G(VECTOR);
    const bool whole = a->bytes == a->param->bytes && lanes == 1;

    if (a->spelled->insn.space != EMU_PARAM)
        return emu_error(a->p, &address->at,
                         "State space mismatch between instruction and address in instruction "
                         "'%.*s'",
                         EMU_TEXT(&a->spelled->name));
    if (a->spelled->groups & ~plain)
        return emu_error(a->p, &a->spelled->name,
                         "Accesses to parameters take neither cache operators nor orders");
    if (store && a->param->readonly)
        return emu_error(a->p, &address->at, "Illegal to write to function input parameter '%.*s'",
                         EMU_TEXT(&address->at));
    if (address->offset < 0 || (uint64_t)address->offset > a->param->bytes ||
        (uint64_t)lanes * a->bytes > a->param->bytes - (uint64_t)address->offset)
        return emu_error(a->p, &address->at, "The access is outside parameter '%.*s'",
                         EMU_TEXT(&address->at));
    if (address->offset % (int64_t)a->bytes)
        return emu_error(a->p, &address->at, "The access to parameter '%.*s' is not aligned",
                         EMU_TEXT(&address->at));
    if (store && !a->param->array && !whole)
        return emu_error(a->p, &address->at,
                         "A store to a part of parameter '%.*s' is not supported by the emulator",
                         EMU_TEXT(&address->at));
    if (w->syntax == EMU_SYNTAX_VECTOR ? w->lanes != lanes : lanes > 1)
        return emu_error(a->p, &w->at, "Argument vector size mismatch for instruction '%.*s'",
                         EMU_TEXT(&a->spelled->name));
    return true;
}

bool emu_param_access(struct emu_parser *p, struct emu_spelled *spelled,
                      const struct emu_written_list *list, bool *handled)
{
    const bool store = spelled->insn.letters[0] == '=';

    if (!strchr(spelled->insn.letters, 'b'))
        return true;
    const struct emu_written *address = &list->at[store ? 0 : 1], *w = &list->at[store ? 1 : 0];
    if (address->syntax != EMU_SYNTAX_ADDRESS || !address->name ||
        address->name->kind != EMU_NAME_PARAM || w->pair)
        return true;
    *handled = true;
    // A copy, because temporaries may move the array of parameters.
    const struct emu_param_registers param = p->body->params[address->name->index];
    const enum emu_type type = (enum emu_type)spelled->types[0];
    const struct access a = { p, spelled, &param, type, emu_bits(type) / 8 };
    if (!check_access(&a, address, w, store))
        return false;
    for (unsigned k = 0; k < spelled->insn.lanes; k++) {
        const bool vector = w->syntax == EMU_SYNTAX_VECTOR;
        const struct emu_written *lane = vector ? &list->elements[w->first + k] : w;
        if (!access_lane(&a, lane, (uint64_t)address->offset + (uint64_t)k * a.bytes, store,
                         vector))
            return false;
    }
    return true;
}

// ---- call ---------------------------------------------------------------------------------------

struct call {
    struct emu_operand *operands;
    uint32_t count, capacity;
    unsigned counts[2]; // results, arguments
};

static bool put(struct emu_parser *p, const struct emu_token *at, struct call *call, unsigned side,
                struct emu_operand operand)
{
    if (call->counts[side] == EMU_MAX_OPERANDS)
        return emu_error(p, at,
                         "Calls with more than %d parameters are not supported by the emulator",
                         (int)EMU_MAX_OPERANDS);
    struct emu_operand *added =
        emu_push(p, &call->operands, &call->count, &call->capacity, sizeof *added);
    if (!added)
        return false;
    *added = operand;
    call->counts[side]++;
    return true;
}

static bool put_name(struct emu_parser *p, const struct emu_token *at, struct call *call,
                     unsigned side)
{
    const struct emu_name *name = emu_find(p, at);

    if (name && name->kind == EMU_NAME_REGISTER)
        return put(p, at, call, side, in_register(name->index));
    if (!name || name->kind != EMU_NAME_PARAM)
        return emu_error(
            p, at, name ? "Arguments mismatch for instruction 'call'" : "Unknown symbol '%.*s'",
            EMU_TEXT(at));
    const struct emu_param_registers *param = &p->body->params[name->index];
    const uint32_t count = param->array ? param->bytes : 1;
    for (uint32_t k = 0; k < count; k++)
        if (!put(p, at, call, side, in_register(param->first + k)))
            return false;
    return true;
}

static bool parse_list(struct emu_parser *p, struct call *call, unsigned side)
{
    struct emu_constant constant;

    if (!emu_expect(p, '('))
        return false;
    if (emu_take(p, ')'))
        return true;
    do {
        const struct emu_token at = p->token;
        if (at.kind == EMU_TOKEN_NAME) {
            emu_next(p);
            if (!put_name(p, &at, call, side))
                return false;
            continue;
        }
        // The type is that of the parameter of the called function.
        if (side == 0 || !emu_parse_constant(p, &constant))
            return side == 0 ? emu_syntax_error(p) : false;
        if (constant.kind != EMU_TOKEN_INTEGER)
            return emu_error(p, &at, "Float constants in calls are not supported by the emulator");
        if (!put(p, &at, call, side,
                 (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE, .bits = constant.bits }))
            return false;
    } while (emu_take(p, ','));
    return emu_expect(p, ')');
}

// The function, or the register that has its address.
static bool parse_target(struct emu_parser *p, struct emu_insn *insn, struct emu_token *at,
                         struct emu_operand *pointer)
{
    if (!emu_parse_name(p, at))
        return false;
    const struct emu_name *name = emu_find(p, at);
    const struct emu_function *f = &p->module->functions[p->body->function];
    if (name && name->kind == EMU_NAME_REGISTER) {
        const enum emu_type type = (enum emu_type)f->registers[name->index].type;
        insn->mode = EMU_MODE_INDIRECT;
        *pointer = in_register(name->index);
        return (emu_bits(type) == 64 && !emu_is_float(type)) ||
               emu_error(p, at, "The address of a function is an integer of 64 bits");
    }
    if (!name || name->kind != EMU_NAME_FUNCTION)
        return emu_error(p, at, "Unknown symbol '%.*s'", EMU_TEXT(at));
    if (p->module->functions[name->index].is_entry)
        return emu_error(p, at, "An .entry cannot be called");
    insn->target = name->index;
    return emu_refer(p, name->index, true, at);
}

// The first function whose address the variable has.
static const struct emu_relocation *first_function(const struct emu_module *module, uint32_t symbol)
{
    for (uint32_t k = 0; k < module->relocation_count; k++)
        if (module->relocations[k].symbol == symbol && module->relocations[k].is_function)
            return &module->relocations[k];
    return NULL;
}

// After the arguments of an indirect call: a prototype, a list of functions, or a variable that has
// their addresses.
static bool parse_prototype(struct emu_parser *p, struct emu_insn *insn)
{
    struct emu_token at;

    if (!emu_parse_name(p, &at))
        return false;
    const struct emu_name *name = emu_find(p, &at);
    if (name && name->kind == EMU_NAME_PROTOTYPE) {
        insn->target = name->index;
        return true;
    }
    const struct emu_relocation *first =
        name && name->kind == EMU_NAME_SYMBOL ? first_function(p->module, name->index) : NULL;
    if (!first)
        return emu_error(p, &at, "'%.*s' is neither .callprototype nor .calltargets",
                         EMU_TEXT(&at));
    insn->target = first->target;
    return true;
}

bool emu_parse_call(struct emu_parser *p, struct emu_spelled *spelled)
{
    struct call call = { 0 };
    struct emu_insn *insn = &spelled->insn;
    struct emu_token at;
    struct emu_operand pointer = { 0 };

    if (spelled->type_count || spelled->groups & ~EMU_G(UNI))
        return emu_error(p, &spelled->name, "Illegal modifier for instruction 'call'");
    if (emu_token_is(&p->token, '(') && (!parse_list(p, &call, 0) || !emu_expect(p, ',')))
        return false;
    if (!parse_target(p, insn, &at, &pointer))
        return false;
    const bool indirect = insn->mode == EMU_MODE_INDIRECT;
    if (emu_token_is(&p->token, ',')) {
        const struct emu_token next = emu_peek(p);
        const bool arguments = emu_token_is(&next, '(');
        emu_next(p);
        if (arguments && !parse_list(p, &call, 1))
            return false;
        if (indirect && ((arguments && !emu_expect(p, ',')) || !parse_prototype(p, insn)))
            return false;
        if (!indirect && !arguments)
            return emu_syntax_error(p);
    } else if (indirect) {
        return emu_error(p, &at, "An indirect call needs .callprototype or .calltargets");
    }
    if (indirect && !put(p, &at, &call, 1, pointer))
        return false;
    if (!emu_token_is(&p->token, ';'))
        return emu_syntax_error(p);
    insn->opcode = EMU_OP_CALL;
    insn->letters = "c";
    insn->dst_count = (uint16_t)call.counts[0];
    insn->src_count = (uint16_t)call.counts[1];
    return emu_append(p, insn, call.operands);
}
