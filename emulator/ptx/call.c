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

// Combines the registers of an array into one value.
static bool gather(const struct access *a, uint32_t first, uint32_t to)
{
    struct emu_operand operands[9];
    const unsigned count = a->bytes / a->param->unit;
    const bool narrow = register_bytes(a, to) != a->bytes;
    const uint32_t whole = narrow ? temporary(a, a->bytes) : to;

    if (whole == EMU_NO_REGISTER)
        return false;
    operands[0] = in_register(whole);
    for (unsigned k = 0; k < count; k++)
        operands[1 + k] = in_register(first + k);
    return emit_mov(a, a->bytes, 1, count, operands) &&
           (!narrow || move(a, to, in_register(whole), a->bytes, emu_is_signed(a->type)));
}

// Extracts a part of a register.
static bool extract(const struct access *a, uint32_t from, unsigned part, uint32_t to)
{
    struct emu_operand operands[9];
    const unsigned parts = a->param->unit / a->bytes;
    const uint32_t only = temporary(a, a->bytes);

    if (only == EMU_NO_REGISTER)
        return false;
    for (unsigned k = 0; k < parts; k++)
        operands[k] =
            k == part ? in_register(only) : (struct emu_operand) { .kind = EMU_OPERAND_SINK };
    operands[parts] = in_register(from);
    return emit_mov(a, a->param->unit, parts, 1, operands) &&
           move(a, to, in_register(only), a->bytes, emu_is_signed(a->type));
}

static bool load(const struct access *a, uint64_t offset, uint32_t to)
{
    const uint32_t unit = a->param->unit, from = a->param->first + (uint32_t)offset / unit;

    if (a->bytes == unit)
        return move(a, to, in_register(from), a->bytes, emu_is_signed(a->type));
    return a->bytes > unit ? gather(a, from, to)
                           : extract(a, from, (uint32_t)offset % unit / a->bytes, to);
}

// Makes the value one of as many bytes as the access has, if it is not.
static bool narrow(const struct access *a, struct emu_operand *value, unsigned *value_bytes)
{
    if (*value_bytes == a->bytes)
        return true;
    const uint32_t narrow = temporary(a, a->bytes);
    if (narrow == EMU_NO_REGISTER || !move(a, narrow, *value, *value_bytes, false))
        return false;
    *value = in_register(narrow);
    *value_bytes = a->bytes;
    return true;
}

// Splits a value into the registers of an array.
static bool scatter(const struct access *a, uint32_t first, struct emu_operand value)
{
    struct emu_operand operands[9];
    const unsigned unit = a->param->unit, count = a->bytes / unit;

    for (unsigned k = 0; k < count && value.kind == EMU_OPERAND_IMMEDIATE; k++) {
        struct emu_operand part = value;
        part.bits = value.bits >> 8 * unit * k & (UINT64_MAX >> (64 - 8 * unit));
        if (!move(a, first + k, part, unit, false))
            return false;
    }
    if (value.kind == EMU_OPERAND_IMMEDIATE)
        return true;
    for (unsigned k = 0; k < count; k++)
        operands[k] = in_register(first + k);
    operands[count] = value;
    return emit_mov(a, a->bytes, count, 1, operands);
}

// Replaces a part of a register.
static bool insert(const struct access *a, uint32_t to, unsigned part, struct emu_operand value)
{
    struct emu_operand apart[9], together[9];
    const unsigned parts = a->param->unit / a->bytes;

    together[0] = apart[parts] = in_register(to);
    for (unsigned k = 0; k < parts; k++) {
        const uint32_t other = k == part ? 0 : temporary(a, a->bytes);
        if (other == EMU_NO_REGISTER)
            return false;
        apart[k] =
            k == part ? (struct emu_operand) { .kind = EMU_OPERAND_SINK } : in_register(other);
        together[1 + k] = k == part ? value : in_register(other);
    }
    return emit_mov(a, a->param->unit, parts, 1, apart) &&
           emit_mov(a, a->param->unit, 1, parts, together);
}

static bool store(const struct access *a, uint64_t offset, struct emu_operand value,
                  unsigned value_bytes)
{
    const uint32_t unit = a->param->unit, to = a->param->first + (uint32_t)offset / unit;

    if (a->bytes == unit)
        return move(a, to, value, value_bytes, false);
    if (!narrow(a, &value, &value_bytes))
        return false;
    return a->bytes > unit ? scatter(a, to, value)
                           : insert(a, to, (uint32_t)offset % unit / a->bytes, value);
}

static bool mismatch(const struct access *a, const struct emu_written *w)
{
    return emu_error(a->p, &w->at, "Arguments mismatch for instruction '%.*s'",
                     EMU_TEXT(&a->spelled->name));
}

static bool access_lane(const struct access *a, const struct emu_written *w, uint64_t offset,
                        bool is_store, bool element)
{
    struct emu_operand value = { .kind = EMU_OPERAND_IMMEDIATE };
    const struct emu_function *f = &a->p->module->functions[a->p->body->function];

    if (w->syntax == EMU_SYNTAX_SINK && !is_store && element)
        return true;
    if (w->syntax == EMU_SYNTAX_CONSTANT && is_store)
        return emu_constant_in(&w->constant, a->type, &value.bits)
                   ? store(a, offset, value, a->bytes)
                   : mismatch(a, w);
    if (w->syntax != EMU_SYNTAX_NAME || !w->name || w->name->kind != EMU_NAME_REGISTER ||
        w->negated || !emu_fits((enum emu_type)f->registers[w->name->index].type, a->type, true))
        return mismatch(a, w);
    if (!is_store)
        return load(a, offset, w->name->index);
    return store(a, offset, in_register(w->name->index), register_bytes(a, w->name->index));
}

static bool check_modifiers(const struct access *a, const struct emu_written *address)
{
    const struct emu_insn *insn = &a->spelled->insn;
    const emu_groups plain = EMU_G(SPACE) | EMU_G(VECTOR) | EMU_G(CACHE) | EMU_G(ORDER);

    if (insn->space != EMU_PARAM)
        return emu_error(a->p, &address->at,
                         "State space mismatch between instruction and address in instruction "
                         "'%.*s'",
                         EMU_TEXT(&a->spelled->name));
    if (a->spelled->groups & ~plain || insn->order != EMU_WEAK || insn->is_volatile)
        return emu_error(a->p, &a->spelled->name,
                         "Accesses to parameters take neither orders nor hints");
    return true;
}

static bool check_access(const struct access *a, const struct emu_written *address,
                         const struct emu_written *w, bool is_store)
{
    const unsigned lanes = a->spelled->insn.lanes;

    if (!check_modifiers(a, address))
        return false;
    if (is_store && a->param->role == EMU_PARAM_INPUT)
        return emu_error(a->p, &address->at, "Illegal to write to function input parameter '%.*s'",
                         EMU_TEXT(&address->at));
    if (!is_store && a->param->role == EMU_PARAM_RESULT)
        return emu_error(a->p, &address->at, "Illegal to read function return parameter '%.*s'",
                         EMU_TEXT(&address->at));
    // ptxas 13.0 stores zeros instead.
    if (a->spelled->types[0] == EMU_B128)
        return emu_error(a->p, &address->at,
                         "An access of 128 bits to '%.*s', a parameter of a function, is not "
                         "supported by the emulator",
                         EMU_TEXT(&address->at));
    if (address->offset < 0 || (uint64_t)address->offset > a->param->bytes ||
        (uint64_t)lanes * a->bytes > a->param->bytes - (uint64_t)address->offset)
        return emu_error(a->p, &address->at, "The access is outside parameter '%.*s'",
                         EMU_TEXT(&address->at));
    if (address->offset % (int64_t)a->bytes)
        return emu_error(a->p, &address->at, "The access to parameter '%.*s' is not aligned",
                         EMU_TEXT(&address->at));
    if (w->wide || (w->syntax == EMU_SYNTAX_VECTOR ? w->lanes != lanes : lanes > 1))
        return emu_error(a->p, &w->at, "Argument vector size mismatch for instruction '%.*s'",
                         EMU_TEXT(&a->spelled->name));
    return true;
}

bool emu_param_access(struct emu_parser *p, struct emu_spelled *spelled,
                      const struct emu_written_list *list, bool *handled)
{
    const bool is_store = spelled->insn.letters[0] == '=';

    if (!strchr(spelled->insn.letters, 'b'))
        return true;
    const struct emu_written *address = &list->at[is_store ? 0 : 1];
    const struct emu_written *w = &list->at[is_store ? 1 : 0];
    if ((address->syntax != EMU_SYNTAX_ADDRESS && !address->offset_given) || !address->name ||
        address->name->kind != EMU_NAME_PARAM || w->pair)
        return true;
    *handled = true;
    // A copy, because temporaries may move the array of parameters.
    const struct emu_param_registers param = p->body->params[address->name->index];
    const enum emu_type type = (enum emu_type)spelled->types[0];
    const struct access a = { p, spelled, &param, type, emu_bits(type) / 8 };
    if (!check_access(&a, address, w, is_store))
        return false;
    for (unsigned k = 0; k < spelled->insn.lanes; k++) {
        const bool vector = w->syntax == EMU_SYNTAX_VECTOR;
        const struct emu_written *lane = vector ? &list->elements[w->first + k] : w;
        if (!access_lane(&a, lane, (uint64_t)address->offset + (uint64_t)k * a.bytes, is_store,
                         vector))
            return false;
    }
    return true;
}

// ---- call ---------------------------------------------------------------------------------------

struct call {
    struct emu_operand *operands; // of a constant, bits is its index below
    uint32_t count, capacity;
    unsigned counts[2]; // results, arguments
    struct emu_constant *constants;
    uint32_t constant_count, constant_capacity;
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
    for (uint32_t k = 0; name && name->kind == EMU_NAME_VECTOR && k < name->lanes; k++)
        if (!put(p, at, call, side, in_register(name->elements[k].index)))
            return false;
    if (name && name->kind == EMU_NAME_VECTOR)
        return true;
    if (!name || name->kind != EMU_NAME_PARAM)
        return emu_error(
            p, at, name ? "Arguments mismatch for instruction 'call'" : "Unknown symbol '%.*s'",
            EMU_TEXT(at));
    const struct emu_param_registers *param = &p->body->params[name->index];
    for (uint32_t k = 0; k < emu_param_count(param); k++)
        if (!put(p, at, call, side, in_register(param->first + k)))
            return false;
    return true;
}

static bool put_constant(struct emu_parser *p, struct call *call)
{
    const struct emu_token at = p->token;
    const uint32_t index = call->constant_count;
    struct emu_constant *added = emu_push(p, &call->constants, &call->constant_count,
                                          &call->constant_capacity, sizeof *added);

    return added && emu_parse_constant(p, &call->constants[index]) &&
           put(p, &at, call, 1,
               (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE, .bits = index });
}

static bool parse_list(struct emu_parser *p, struct call *call, unsigned side)
{
    if (!emu_expect(p, '('))
        return false;
    if (emu_take(p, ')'))
        return true;
    do {
        const struct emu_token at = p->token;
        const bool sink = side == 0 && at.kind == EMU_TOKEN_NAME && at.length == 1 && *at.at == '_';
        if (at.kind == EMU_TOKEN_NAME && !emu_token_is_name(&at, "WARP_SZ")) {
            emu_next(p);
            if (sink ? !put(p, &at, call, 0, (struct emu_operand) { .kind = EMU_OPERAND_SINK })
                     : !put_name(p, &at, call, side))
                return false;
        } else if (side == 0 ? !emu_syntax_error(p) : !put_constant(p, call)) {
            return false;
        }
    } while (emu_take(p, ','));
    return emu_expect(p, ')');
}

// A constant has the type of its parameter. An integer is cut off.
static bool fit_constant(struct emu_parser *p, const struct emu_token *at,
                         const struct emu_constant *constant, enum emu_type type, uint64_t *bits)
{
    *bits = constant->bits;
    return (constant->kind == EMU_TOKEN_INTEGER ? !emu_is_float(type)
                                                : emu_constant_in(constant, type, bits)) ||
           emu_error(p, at, "Type of argument does not match formal parameter");
}

// Constants get the type of the parameter, and '_' stands for all registers of a result.
static bool fit(struct emu_parser *p, const struct emu_token *at, const struct call *call,
                uint32_t function, struct call *fitted)
{
    const struct emu_function *f = &p->module->functions[function];

    for (unsigned side = 0; side < 2; side++) {
        const uint32_t *formals = side ? f->arguments : f->results;
        const uint32_t count = side ? f->argument_count : f->result_count;
        for (unsigned k = 0; k < call->counts[side]; k++) {
            struct emu_operand operand = call->operands[side ? call->counts[0] + k : k];
            const uint32_t next = fitted->counts[side];
            const uint8_t type = next < count ? f->registers[formals[next]].type : EMU_NONE;
            if ((operand.kind == EMU_OPERAND_IMMEDIATE &&
                 !fit_constant(p, at, &call->constants[operand.bits], (enum emu_type)type,
                               &operand.bits)) ||
                !put(p, at, fitted, side, operand))
                return false;
            while (operand.kind == EMU_OPERAND_SINK && fitted->counts[side] < count &&
                   f->registers[formals[fitted->counts[side]]].follows)
                if (!put(p, at, fitted, side, operand))
                    return false;
        }
    }
    return true;
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
    struct call call = { 0 }, fitted = { 0 };
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
    if (!fit(p, &spelled->name, &call, insn->target, &fitted) ||
        (indirect && !put(p, &at, &fitted, 1, pointer)))
        return false;
    if (!emu_token_is(&p->token, ';'))
        return emu_syntax_error(p);
    insn->opcode = EMU_OP_CALL;
    insn->letters = "c";
    insn->dst_count = (uint16_t)fitted.counts[0];
    insn->src_count = (uint16_t)fitted.counts[1];
    return emu_append(p, insn, fitted.operands);
}
