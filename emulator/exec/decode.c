// SPDX-License-Identifier: MIT
// Decodes an instruction into what the lanes run: its handler or lane function, from its row in
// isa.def, and its operands. Immediates and addresses of variables become 32 equal lanes.
#include "decode.h"
#include "exec/access/access.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// The wanted storage of each operand of an instruction: enum emu_width.
enum { MOST_OPERANDS = 136 }; // on either side, but of a call

struct wants {
    uint8_t dst[MOST_OPERANDS], src[MOST_OPERANDS];
    uint8_t type;                      // of the results
    const struct emu_function *called; // whose parameters the operands are; else NULL
};

static uint8_t wanted_result(const struct wants *wants, unsigned k)
{
    const struct emu_function *f = wants->called;
    return f ? emu_lane_width(f->registers[f->results[k]].type) : wants->dst[k];
}

// After the arguments, the address in an indirect call.
static uint8_t wanted_source(const struct wants *wants, unsigned k)
{
    const struct emu_function *f = wants->called;
    if (f && k >= f->argument_count)
        return EMU_LONG;
    return f ? emu_lane_width(f->registers[f->arguments[k]].type) : wants->src[k];
}

// ---- operands -----------------------------------------------------------------------------------

bool emu_decode_fail(struct decoder *d, int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = snprintf(d->reason, d->reason_size, "kernel %s, PTX line %u: ", d->launch->entry->name,
                     d->insn ? (unsigned)d->insn->line : 0);
    if (n > 0 && (size_t)n < d->reason_size)
        vsnprintf(d->reason + n, d->reason_size - (size_t)n, format, args);
    va_end(args);
    d->result = result;
    return false;
}

// Reserves room for a constant and returns its offset, or SIZE_MAX if out of memory.
static size_t add_constant(struct emu_code *code, uint64_t bits, uint8_t want)
{
    size_t size = want ? (size_t)want * EMU_LANES : 64;
    if (code->constant_bytes + size > code->constant_room) {
        size_t room = code->constant_room ? 2 * code->constant_room : 8192;
        unsigned char *more = aligned_alloc(64, room);
        if (!more)
            return SIZE_MAX;
        if (code->constant_bytes)
            memcpy(more, code->constants, code->constant_bytes);
        free(code->constants);
        code->constants = more;
        code->constant_room = room;
    }
    unsigned char *at = code->constants + code->constant_bytes;
    uint32_t word = want ? (uint32_t)bits : bits & 1 ? UINT32_MAX : 0;
    for (unsigned i = 0; i < EMU_LANES; i++) {
        if (want == EMU_LONG)
            memcpy(at + 8 * i, &bits, 8);
        else if (want == EMU_WORD || i == 0)
            memcpy(at + 4 * i, &word, 4);
    }
    code->constant_bytes += size;
    return code->constant_bytes - size;
}

static bool constant(struct decoder *d, struct emu_value *value, uint64_t bits, uint8_t want)
{
    size_t at = add_constant(d->code, bits, want);
    if (at > UINT32_MAX)
        return emu_decode_fail(d, EMU_OUT_OF_MEMORY, "out of host memory for constants");
    value->place = EMU_AT_CONST;
    value->width = want;
    value->at = (uint32_t)at;
    return true;
}

static bool symbol(struct decoder *d, struct emu_value *value, const struct emu_operand *operand,
                   uint8_t want)
{
    if (operand->index >= d->module->symbol_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION,
                               "reference to a variable that does not exist");
    const struct emu_symbol *s = &d->module->symbols[operand->index];
    uint64_t address = s->offset + (uint64_t)operand->offset;
    switch (s->space) {
    case EMU_LOCAL:
        value->place = EMU_AT_LOCAL_SYMBOL;
        value->width = EMU_LONG;
        value->reg = operand->index;
        return true;
    case EMU_SHARED:
        if (s->is_extern)
            address = d->program->dynamic_at + (uint64_t)operand->offset;
        break;
    case EMU_GLOBAL:
        address += d->launch->global_base;
        break;
    case EMU_CONST:
        address += d->launch->const_base;
        break;
    default:
        break;
    }
    return constant(d, value, address, want);
}

static bool reg(struct decoder *d, struct emu_value *value, uint32_t index, uint8_t want)
{
    const struct emu_function *f = d->code->function;
    if (index >= f->register_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION,
                               "reference to a register that does not exist");
    const struct emu_register *r = &f->registers[index];
    value->place = EMU_AT_SLOT;
    value->width = emu_lane_width(r->type);
    value->bits = (uint8_t)emu_bits(r->type);
    value->at = d->code->slots[index];
    value->reg = index;
    if ((value->width == EMU_MASK) != (want == EMU_MASK))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "register %s is of the wrong kind",
                               r->name);
    return true;
}

static bool source(struct decoder *d, struct emu_value *value, const struct emu_operand *operand,
                   uint8_t want)
{
    *value = (struct emu_value) { .want = want, .negated = operand->negated, .operand = operand };
    bool ok;
    switch (operand->kind) {
    case EMU_OPERAND_REGISTER:
        ok = reg(d, value, operand->index, want);
        break;
    case EMU_OPERAND_ADDRESS:
        ok = operand->index == EMU_NO_REGISTER ? constant(d, value, (uint64_t)operand->offset, want)
                                               : reg(d, value, operand->index, want);
        break;
    case EMU_OPERAND_IMMEDIATE:
        ok = constant(d, value, operand->bits, want);
        break;
    case EMU_OPERAND_SYMBOL:
    case EMU_OPERAND_SYMBOL_ADDRESS:
        ok = symbol(d, value, operand, want);
        break;
    case EMU_OPERAND_FUNCTION:
        ok =
            constant(d, value,
                     d->launch->global_base + emu_function_offset(d->module, operand->index), want);
        break;
    case EMU_OPERAND_SPECIAL:
        value->place = EMU_AT_SPECIAL;
        value->width = EMU_LONG;
        d->program->reads_environment |= operand->special == EMU_ENVREG;
        ok = true;
        break;
    default:
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "an operand that cannot be read");
    }
    value->direct = ok && !value->negated && value->width == want &&
                    (value->place == EMU_AT_SLOT || value->place == EMU_AT_CONST);
    return ok;
}

// `type` is that of the result, which is extended to a wider register by its sign or zeros.
static bool destination(struct decoder *d, struct emu_value *value,
                        const struct emu_operand *operand, uint8_t want, unsigned type)
{
    *value = (struct emu_value) { .want = want, .operand = operand };
    if (operand->kind == EMU_OPERAND_SINK) {
        value->place = EMU_AT_SINK;
        return true;
    }
    if (operand->kind != EMU_OPERAND_REGISTER)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "the result is not a register");
    if (!reg(d, value, operand->index, want))
        return false;
    unsigned bits = want ? emu_bits(type) : 1;
    if (want && emu_is_signed((enum emu_type)type) && bits < value->bits)
        value->extend = (uint8_t)bits;
    value->direct = value->width == want && !value->extend && bits <= value->bits;
    return true;
}

static bool take_operands(struct decoder *d, struct emu_op *op, const struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *function = d->code->function;
    // A function without operands has no operand array.
    const struct emu_operand *list =
        function->operand_count ? function->operands + insn->operands : NULL;
    struct emu_value *values = d->code->values ? d->code->values + d->code->value_count : NULL;
    d->code->value_count += (uint32_t)insn->dst_count + insn->src_count;
    op->dst = values;
    op->src = values ? values + insn->dst_count : NULL;
    op->dst_count = insn->dst_count;
    op->src_count = insn->src_count;
    for (unsigned i = 0; i < insn->dst_count; i++) {
        if (!destination(d, &values[i], &list[i], wanted_result(wants, i), wants->type))
            return false;
    }
    for (unsigned i = 0; i < insn->src_count; i++) {
        if (!source(d, &values[insn->dst_count + i], &list[insn->dst_count + i],
                    wanted_source(wants, i)))
            return false;
    }
    return true;
}

// ---- instructions -------------------------------------------------------------------------------

static bool unsupported(struct decoder *d, const char *what)
{
    return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "the emulator does not support %s", what);
}

// ---- operands by their letters ------------------------------------------------------------------

static bool is_predicate(const struct decoder *d, const struct emu_operand *operand)
{
    const struct emu_function *f = d->code->function;
    return operand->kind == EMU_OPERAND_REGISTER && operand->index < f->register_count &&
           f->registers[operand->index].type == EMU_PRED;
}

// `operand` is the first one that the letter stands for.
static uint8_t width_of(const struct decoder *d, char letter, const struct emu_operand *operand)
{
    switch (letter) {
    case 's':
    case 'S':
        return emu_lane_width(d->insn->source_type);
    case 'w':
        return emu_lane_width(emu_twice((enum emu_type)d->insn->type));
    case 'p':
    case 'q':
        return EMU_MASK;
    case 'u':
    case 'k':
    case 'e':
    case 'E':
    case 'n':
    case 'F':
        return EMU_WORD;
    case 'A':
    case 'B':
    case 'C':
    case 'D': // f64, or several elements in a register
        return emu_lane_width(d->insn->type);
    case 'z':
        return is_predicate(d, operand) ? EMU_MASK : EMU_WORD;
    case 'a':
    case 'b':
    case 'g':
    case 'i':
    case 'm':
    case 'y':
        return EMU_LONG;
    default:
        return emu_lane_width(d->insn->type);
    }
}

static bool decode_operands(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const unsigned count = (unsigned)insn->dst_count + insn->src_count;
    const struct emu_operand *list = count ? d->code->function->operands + insn->operands : NULL;
    struct wants wants = { { 0 }, { 0 }, insn->type, NULL };
    unsigned dst = 0, src = 0;
    bool sources = false, fine = true;
    if (insn->letters[0] == 'w')
        wants.type = (uint8_t)emu_twice((enum emu_type)insn->type);
    else if (insn->letters[0] == 'u')
        wants.type = EMU_U32;
    else if (strchr("ABD", insn->letters[0])) // several elements fill a register
        wants.type = insn->type == EMU_F64 ? EMU_B64 : EMU_B32;
    for (const char *letter = insn->letters; *letter && fine; letter++) {
        bool left_out = strchr("hjlx_", *letter) || (*letter == 'q' && dst == insn->dst_count);
        unsigned times = *letter == 'v'             ? insn->lanes
                         : *letter == 'W'           ? 2
                         : strchr("ABCDF", *letter) ? emu_fragment_registers(insn, *letter)
                                                    : 1;
        if (*letter == '=')
            sources = true;
        if (*letter == '=' || left_out)
            continue;
        for (; times && fine; times--) {
            fine = sources ? src < insn->src_count && src < MOST_OPERANDS
                           : dst < insn->dst_count && dst < MOST_OPERANDS;
            if (!fine)
                break;
            uint8_t width = width_of(d, *letter, &list[dst + src]);
            if (sources)
                wants.src[src++] = width;
            else
                wants.dst[dst++] = width;
        }
    }
    if (!fine || dst != insn->dst_count || src != insn->src_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "%u results and %u operands",
                               insn->dst_count, insn->src_count);
    return take_operands(d, op, &wants);
}

// ---- by handler ---------------------------------------------------------------------------------

static bool copy_word(void *out, const void *x, const void *y, const void *z, const void *w,
                      const struct emu_insn *insn)
{
    (void)y, (void)z, (void)w, (void)insn;
    memcpy(out, x, sizeof(uint32_t) * EMU_LANES);
    return true;
}

static bool copy_long(void *out, const void *x, const void *y, const void *z, const void *w,
                      const struct emu_insn *insn)
{
    (void)y, (void)z, (void)w, (void)insn;
    memcpy(out, x, sizeof(uint64_t) * EMU_LANES);
    return true;
}

static bool copy_mask(void *out, const void *x, const void *y, const void *z, const void *w,
                      const struct emu_insn *insn)
{
    (void)y, (void)z, (void)w, (void)insn;
    memcpy(out, x, sizeof(uint32_t));
    return true;
}

// Gives all operands the same storage.
static void want_all(uint8_t *wants, uint8_t want)
{
    memset(wants, want, MOST_OPERANDS);
}

static uint8_t part_of(const struct emu_insn *insn, unsigned parts)
{
    return emu_bits(insn->type) / parts > 32 ? EMU_LONG : EMU_WORD;
}

static bool decode_move(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct wants wants = { { 0 }, { 0 }, insn->type, NULL };
    uint8_t width = emu_lane_width(insn->type);
    unsigned parts = insn->dst_count > insn->src_count ? insn->dst_count : insn->src_count;
    if (insn->lanes > 1 && insn->dst_count == insn->lanes && insn->src_count == insn->lanes) {
        want_all(wants.dst, width);
        want_all(wants.src, width);
        return take_operands(d, op, &wants);
    }
    if (insn->dst_count == 0 || insn->src_count == 0 ||
        (insn->dst_count > 1 && insn->src_count > 1))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "mov with too many operands");
    want_all(wants.dst, insn->dst_count > 1 ? part_of(insn, parts) : width);
    want_all(wants.src, insn->src_count > 1 ? part_of(insn, parts) : width);
    if (insn->dst_count > 1)
        wants.type = EMU_B8; // each part fills its register
    if (!take_operands(d, op, &wants))
        return false;
    if (parts > 1) {
        op->bytes = (uint8_t)(emu_bits(insn->type) / 8 / parts);
        return op->bytes > 0
                   ? true
                   : emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "mov with parts of no width");
    }
    op->handler = EMU_DO_LANES;
    op->fn = width == EMU_MASK ? copy_mask : width == EMU_LONG ? copy_long : copy_word;
    return true;
}

static bool decode_call(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct wants wants = { { 0 }, { 0 }, EMU_B64, NULL };
    if (insn->target >= d->module->function_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "call without a function");
    const struct emu_function *f = &d->module->functions[insn->target];
    const unsigned arguments = insn->src_count - (insn->mode == EMU_MODE_INDIRECT ? 1u : 0u);
    if (f->argument_count != arguments || f->result_count != insn->dst_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "call with too many arguments");
    wants.called = f;
    d->program->calls = true;
    return take_operands(d, op, &wants);
}

static bool decode_lanes(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct emu_lane_info info;
    if (!emu_lane_find(emu_lane_build(), insn, &info))
        return unsupported(d, "this instruction for this type");
    op->fn = info.fn;
    bool directed = insn->round >= EMU_RZ && insn->round <= EMU_RP;
    if (info.is_float && (directed || insn->ftz || insn->sat))
        op->handler = EMU_DO_FLOAT;
    op->is_float = info.is_float && (insn->type == EMU_F32 || insn->type == EMU_F32X2);
    op->float_out = op->is_float && insn->letters[0] == 't';
    if (insn->type == EMU_F32X2)
        op->handler = EMU_DO_FLOAT_PAIR;
    return true;
}

static bool decode_compare(struct decoder *d, struct emu_op *op)
{
    struct emu_lane_info info;
    if (!emu_lane_find(emu_lane_build(), d->insn, &info))
        return unsupported(d, "this comparison for this type");
    op->fn = info.fn;
    op->is_float = info.is_float && d->insn->ftz;
    if (d->insn->source_type == EMU_F16X2 || d->insn->source_type == EMU_BF16X2)
        op->handler = EMU_DO_COMPARE_PAIR;
    return true;
}

// The handler does more than the lane function: that of mad and madc computes half of the product,
// and the handler adds.
static bool decode_inner(struct decoder *d, struct emu_op *op)
{
    struct emu_lane_info info;
    if (d->insn->src_count == 2)
        return true;
    if (!emu_lane_find(emu_lane_build(), d->insn, &info))
        return unsupported(d, "this instruction for this type");
    op->fn = info.fn;
    return true;
}

static bool decode_access(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    op->space = insn->space;
    d->program->loads_nc |= insn->nc;
    const unsigned bits = emu_bits(insn->type);
    op->bytes = insn->type >= EMU_U4 && bits && bits < 8 ? 4 : (uint8_t)(bits / 8); // as words
    op->offset = emu_added(&op->src[0]);
    op->short_address = op->src[0].place == EMU_AT_SLOT && op->src[0].width == EMU_WORD;
    op->constant = insn->nc;
    if (op->bytes == 0)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "an access without a type");
    if ((insn->space == EMU_SHARED || insn->space == EMU_GENERIC) &&
        op->bytes < d->program->race_grain)
        d->program->race_grain = op->bytes;
    return true;
}

static bool decode_copy(struct decoder *d, struct emu_op *op)
{
    const struct emu_operand *size = op->src[2].operand;
    if (size->kind != EMU_OPERAND_IMMEDIATE ||
        (size->bits != 4 && size->bits != 8 && size->bits != 16))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a copy without a size");
    op->space = EMU_SHARED;
    op->bytes = (uint8_t)size->bits;
    return true;
}

static bool decode_branch(struct decoder *d, struct emu_op *op)
{
    op->target = d->insn->target;
    return op->target <= d->code->count ||
           emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch without a target");
}

static bool decode_targets(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *f = d->code->function;
    op->target = insn->target;
    if (insn->target > f->target_count || insn->target_count > f->target_count - insn->target)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "branch targets that do not exist");
    for (uint32_t i = 0; i < insn->target_count; i++)
        if (f->targets[insn->target + i] > d->code->count)
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch without a target");
    return true;
}

static const uint8_t handlers[EMU_OP_COUNT] = {
#define INSTRUCTION(opcode, mnemonic, handler, ...) [EMU_OP_##opcode] = EMU_DO_##handler,
#include "isa.def"
};

const uint8_t emu_definedness_of[EMU_OP_COUNT] = {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, defined, ...)                                \
    [EMU_OP_##opcode] = EMU_DEFINED_##defined,
#include "isa.def"
};

static bool decode_by_handler(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    op->handler = handlers[insn->opcode];
    switch (op->handler) {
    case EMU_DO_MOVE: // including moves of parts
        return decode_move(d, op);
    case EMU_DO_CALL:
        return decode_call(d, op);
    case EMU_DO_NOTHING: // the address of a prefetch need not be valid
        return true;
    default:
        break;
    }
    if (!decode_operands(d, op))
        return false;
    switch (op->handler) {
    case EMU_DO_LANES:
        return decode_lanes(d, op);
    case EMU_DO_COMPARE:
        return decode_compare(d, op);
    case EMU_DO_CARRY:
    case EMU_DO_TRUTH:
        return decode_inner(d, op);
    case EMU_DO_LOAD:
    case EMU_DO_STORE:
    case EMU_DO_ATOMIC:
    case EMU_DO_WIDE:
        return decode_access(d, op);
    case EMU_DO_DEPEND:
        d->program->starts_dependents |= insn->mode == EMU_MODE_START_DEPENDENTS;
        return true;
    case EMU_DO_STACK:
        d->program->allocates |= insn->mode == EMU_MODE_ALLOCATE;
        return true;
    case EMU_DO_ADDRESS:
        op->space = insn->space;
        return true;
    case EMU_DO_MATRIX_LOAD:
    case EMU_DO_MATRIX_STORE:
    case EMU_DO_TILE_LOAD:
    case EMU_DO_TILE_STORE:
        return decode_access(d, op);
    case EMU_DO_WARPGROUP: // what the descriptors tell, in chunks
        op->space = EMU_SHARED;
        op->bytes = 16;
        return true;
    case EMU_DO_COPY:
        return decode_copy(d, op);
    case EMU_DO_MBARRIER:
    case EMU_DO_PHASE_WAIT:
    case EMU_DO_COPY_ARRIVE:
    case EMU_DO_BULK:
        op->space = insn->space;
        op->bytes = 8;
        return true;
    case EMU_DO_BRANCH:
        return decode_branch(d, op);
    case EMU_DO_BRANCH_LIST:
        return decode_targets(d, op);
    default:
        return true;
    }
}

bool emu_decode_insn(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *f = d->code->function;
    op->insn = insn;
    op->guard = EMU_NO_REGISTER;
    op->strong = insn->is_volatile || insn->order != EMU_WEAK;
    if (insn->operands > f->operand_count ||
        (uint32_t)insn->dst_count + insn->src_count > f->operand_count - insn->operands)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "too many operands");
    if (insn->guard != EMU_NO_REGISTER) {
        if (insn->guard >= f->register_count || f->registers[insn->guard].type != EMU_PRED)
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "the guard is not a predicate");
        op->guard = d->code->slots[insn->guard];
        op->guard_register = insn->guard;
        op->guard_negated = insn->guard_negated;
    }
    return decode_by_handler(d, op);
}
