// SPDX-License-Identifier: MIT
// Instructions: to each its handler or lane function, and what its operands are to be, as its row
// in isa.def says.
#include "decode.h"

static bool unsupported(struct emu_decoder *d, const char *what)
{
    return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "the emulator has no %s", what);
}

// ---- operands by their letters ------------------------------------------------------------------

static enum emu_type twice(enum emu_type type)
{
    return type == EMU_U16   ? EMU_U32
           : type == EMU_S16 ? EMU_S32
           : type == EMU_U32 ? EMU_U64
                             : EMU_S64;
}

static bool is_predicate(const struct emu_decoder *d, const struct emu_operand *operand)
{
    const struct emu_function *f = d->code->function;
    return operand->kind == EMU_OPERAND_REGISTER && operand->index < f->register_count &&
           f->registers[operand->index].type == EMU_PRED;
}

// `operand`: the first of those that the letter stands for.
static uint8_t width_of(const struct emu_decoder *d, char letter, const struct emu_operand *operand)
{
    switch (letter) {
    case 's':
    case 'S':
        return emu_storage(d->insn->source_type);
    case 'w':
        return emu_storage(twice((enum emu_type)d->insn->type));
    case 'p':
    case 'q':
        return EMU_MASK;
    case 'u':
    case 'k':
        return EMU_WORD;
    case 'z':
        return is_predicate(d, operand) ? EMU_MASK : EMU_WORD;
    case 'a':
    case 'g':
    case 'i':
    case 'm':
        return EMU_LONG;
    default:
        return emu_storage(d->insn->type);
    }
}

static bool decode_operands(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const unsigned count = (unsigned)insn->dst_count + insn->src_count;
    const struct emu_operand *list = count ? d->code->function->operands + insn->operands : NULL;
    struct emu_wants wants = { { 0 }, { 0 }, insn->type };
    unsigned dst = 0, src = 0;
    bool sources = false, fine = true;
    if (insn->letters[0] == 'w')
        wants.type = (uint8_t)twice((enum emu_type)insn->type);
    else if (insn->letters[0] == 'u')
        wants.type = EMU_U32;
    for (const char *letter = insn->letters; *letter && fine; letter++) {
        bool left_out = strchr("hjlx", *letter) || (*letter == 'q' && dst == insn->dst_count);
        unsigned times = *letter == 'v' ? insn->lanes : 1;
        if (*letter == '=')
            sources = true;
        if (*letter == '=' || left_out)
            continue;
        for (; times && fine; times--) {
            fine = sources ? src < insn->src_count : dst < insn->dst_count;
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
    return emu_decode_operands(d, op, &wants);
}

// ---- by handler ---------------------------------------------------------------------------------

static void copy_word(void *restrict out, const void *const *src, const struct emu_insn *insn)
{
    (void)insn;
    memcpy(out, src[0], sizeof(uint32_t) * EMU_LANES);
}

static void copy_long(void *restrict out, const void *const *src, const struct emu_insn *insn)
{
    (void)insn;
    memcpy(out, src[0], sizeof(uint64_t) * EMU_LANES);
}

static void copy_mask(void *restrict out, const void *const *src, const struct emu_insn *insn)
{
    (void)insn;
    memcpy(out, src[0], sizeof(uint32_t));
}

// All operands are to be the same.
static void want_all(uint8_t *wants, uint8_t want)
{
    memset(wants, want, EMU_MAX_OPERANDS);
}

static uint8_t part_of(const struct emu_insn *insn, unsigned parts)
{
    return emu_bits(insn->type) / parts > 32 ? EMU_LONG : EMU_WORD;
}

static bool decode_move(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct emu_wants wants = { { 0 }, { 0 }, insn->type };
    uint8_t width = emu_storage(insn->type);
    unsigned parts = insn->dst_count > insn->src_count ? insn->dst_count : insn->src_count;
    if (insn->dst_count == 0 || insn->src_count == 0 ||
        (insn->dst_count > 1 && insn->src_count > 1))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "mov with so many operands");
    want_all(wants.dst, insn->dst_count > 1 ? part_of(insn, parts) : width);
    want_all(wants.src, insn->src_count > 1 ? part_of(insn, parts) : width);
    if (insn->dst_count > 1)
        wants.type = EMU_B8; // parts fill their registers
    if (!emu_decode_operands(d, op, &wants))
        return false;
    if (parts > 1) {
        op->bytes = (uint8_t)(emu_bits(insn->type) / 8 / parts);
        return op->bytes > 0
                   ? true
                   : emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "mov of parts of nothing");
    }
    op->handler = EMU_DO_LANES;
    op->fn = width == EMU_MASK ? copy_mask : width == EMU_LONG ? copy_long : copy_word;
    return true;
}

static bool decode_call(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct emu_wants wants = { { 0 }, { 0 }, EMU_B64 };
    if (insn->target >= d->module->function_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "call of no function");
    const struct emu_function *f = &d->module->functions[insn->target];
    if (f->argument_count != insn->src_count || f->result_count != insn->dst_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "call with so many arguments");
    for (unsigned i = 0; i < insn->dst_count; i++)
        wants.dst[i] = emu_storage(f->registers[f->results[i]].type);
    for (unsigned i = 0; i < insn->src_count; i++)
        wants.src[i] = emu_storage(f->registers[f->arguments[i]].type);
    d->program->calls = true;
    return emu_decode_operands(d, op, &wants);
}

static bool decode_lanes(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct emu_lane_info info;
    if (!emu_lane_find(emu_lane_build(), insn, &info))
        return unsupported(d, "such instruction for this type");
    op->fn = info.fn;
    bool directed = insn->round >= EMU_RZ && insn->round <= EMU_RP;
    if (info.is_float && (directed || insn->ftz || insn->sat))
        op->handler = EMU_DO_FLOAT;
    op->is_float = info.is_float && insn->type == EMU_F32;
    op->float_out = op->is_float && insn->letters[0] == 't';
    return true;
}

static bool decode_compare(struct emu_decoder *d, struct emu_op *op)
{
    struct emu_lane_info info;
    if (!emu_lane_find(emu_lane_build(), d->insn, &info))
        return unsupported(d, "comparison of this kind for this type");
    op->fn = info.fn;
    op->is_float = info.is_float && d->insn->ftz;
    if (d->insn->source_type == EMU_F16X2 || d->insn->source_type == EMU_BF16X2)
        op->handler = EMU_DO_COMPARE_PAIR;
    return true;
}

// Of a product, its half; then all is an addition.
static bool decode_carry(struct emu_decoder *d, struct emu_op *op)
{
    struct emu_lane_info info;
    if (d->insn->src_count == 2)
        return true;
    if (!emu_lane_find(emu_lane_build(), d->insn, &info))
        return unsupported(d, "carry for this type");
    op->fn = info.fn;
    return true;
}

static bool decode_access(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    op->space = insn->space;
    op->bytes = (uint8_t)(emu_bits(insn->type) / 8);
    if (op->bytes == 0)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "an access of no type");
    if ((insn->space == EMU_SHARED || insn->space == EMU_GENERIC) &&
        op->bytes < d->program->race_grain)
        d->program->race_grain = op->bytes;
    return true;
}

static bool decode_copy(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_operand *size = op->src[2].operand;
    if (size->kind != EMU_OPERAND_IMMEDIATE ||
        (size->bits != 4 && size->bits != 8 && size->bits != 16))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a copy of no size");
    op->space = EMU_SHARED;
    op->bytes = (uint8_t)size->bits;
    return true;
}

static bool decode_branch(struct emu_decoder *d, struct emu_op *op)
{
    op->target = d->insn->target;
    return op->target <= d->code->count ||
           emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch to nowhere");
}

static bool decode_targets(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *f = d->code->function;
    op->target = insn->target;
    if (insn->target > f->target_count || insn->target_count > f->target_count - insn->target)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "targets that there are not");
    for (uint32_t i = 0; i < insn->target_count; i++)
        if (f->targets[insn->target + i] > d->code->count)
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch to nowhere");
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

static bool decode_by_handler(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    op->handler = handlers[insn->opcode];
    switch (op->handler) {
    case EMU_DO_MOVE: // of parts, too
        return decode_move(d, op);
    case EMU_DO_CALL:
        return decode_call(d, op);
    case EMU_DO_NOTHING: // what a prefetch names need not even be memory
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
        return decode_carry(d, op);
    case EMU_DO_LOAD:
    case EMU_DO_STORE:
    case EMU_DO_ATOMIC:
        return decode_access(d, op);
    case EMU_DO_ADDRESS:
        op->space = insn->space;
        return true;
    case EMU_DO_COPY:
        return decode_copy(d, op);
    case EMU_DO_BRANCH:
        return decode_branch(d, op);
    case EMU_DO_BRANCH_LIST:
        return decode_targets(d, op);
    default:
        return true;
    }
}

bool emu_decode_insn(struct emu_decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *f = d->code->function;
    op->insn = insn;
    op->guard = EMU_NO_REGISTER;
    if (insn->operands > f->operand_count ||
        (uint32_t)insn->dst_count + insn->src_count > f->operand_count - insn->operands)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "too many operands");
    if (insn->guard != EMU_NO_REGISTER) {
        if (insn->guard >= f->register_count || f->registers[insn->guard].type != EMU_PRED)
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a guard that is no predicate");
        op->guard = d->code->slots[insn->guard];
        op->guard_register = insn->guard;
        op->guard_negated = insn->guard_negated;
    }
    return decode_by_handler(d, op);
}
