// SPDX-License-Identifier: MIT
// Instructions: to each its handler or lane function, and what its operands are to be.
#include "decode.h"

#include <stdarg.h>
#include <stdio.h>

void emu_want_all(uint8_t *wants, uint8_t want)
{
    memset(wants, want, EMU_MAX_OPERANDS);
}

bool emu_decode_need(struct emu_decoder *d, unsigned dst, unsigned least, unsigned most)
{
    const struct emu_insn *insn = d->insn;
    if (insn->dst_count != dst || insn->src_count < least || insn->src_count > most)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "%u results and %u operands",
                               insn->dst_count, insn->src_count);
    return true;
}

bool emu_decode_unsupported(struct emu_decoder *d, const char *format, ...)
{
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "the emulator has no %s", what);
}

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

static uint8_t part_of(const struct emu_insn *insn, unsigned parts)
{
    return emu_bits(insn->type) / parts > 32 ? EMU_LONG : EMU_WORD;
}

static bool decode_move(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    uint8_t width = emu_storage(insn->type);
    unsigned parts = insn->dst_count > insn->src_count ? insn->dst_count : insn->src_count;
    if (insn->dst_count == 0 || insn->src_count == 0 ||
        (insn->dst_count > 1 && insn->src_count > 1))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "mov with so many operands");
    emu_want_all(wants->dst, insn->dst_count > 1 ? part_of(insn, parts) : width);
    emu_want_all(wants->src, insn->src_count > 1 ? part_of(insn, parts) : width);
    if (insn->dst_count > 1)
        wants->type = EMU_B8; // parts fill their registers
    op->handler = EMU_DO_MOVE;
    if (!emu_decode_operands(d, op, wants))
        return false;
    if (parts > 1) {
        op->bytes = (uint8_t)(emu_bits(insn->type) / 8 / parts);
        return op->bytes > 0
                   ? true
                   : emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "mov of parts of nothing");
    }
    op->handler = EMU_DO_LANES;
    op->fn = width == EMU_MASK ? copy_mask : width == EMU_LONG ? copy_long : copy_word;
    op->copies = op->src[0].place == EMU_AT_SLOT && op->dst[0].place == EMU_AT_SLOT;
    return true;
}

static bool decode_compare(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    struct emu_lane_info info;
    bool set = d->insn->opcode == EMU_OP_SET;
    if (!emu_lane_find(d->insn, &info))
        return emu_decode_unsupported(d, "comparison of this kind for this type");
    unsigned compared = set ? d->insn->source_type : d->insn->type;
    bool packed = compared == EMU_F16X2 || compared == EMU_BF16X2;
    op->handler = packed ? EMU_DO_COMPARE_PAIR : EMU_DO_COMPARE;
    op->fn = info.fn;
    op->is_float = info.is_float && d->insn->ftz;
    memcpy(wants->src, info.src, sizeof(info.src));
    emu_want_all(wants->dst, set ? emu_storage(d->insn->type) : EMU_MASK);
    bool third = d->insn->boolean != EMU_BOOL_NONE;
    unsigned count = third ? 3 : 2;
    if (d->insn->dst_count < 1 || d->insn->dst_count > (set ? 1 : 2) || d->insn->src_count != count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a comparison with so many operands");
    return emu_decode_operands(d, op, wants);
}

static bool decode_call(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    if (insn->target >= d->module->function_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "call of no function");
    const struct emu_function *f = &d->module->functions[insn->target];
    if (f->argument_count != insn->src_count || f->result_count != insn->dst_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "call with so many arguments");
    for (unsigned i = 0; i < insn->dst_count; i++)
        wants->dst[i] = emu_storage(f->registers[f->results[i]].type);
    for (unsigned i = 0; i < insn->src_count; i++)
        wants->src[i] = emu_storage(f->registers[f->arguments[i]].type);
    op->handler = EMU_DO_CALL;
    d->program->calls = true;
    wants->type = EMU_B64;
    if (!emu_decode_operands(d, op, wants))
        return false;
    return true;
}

static bool decode_targets(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *f = d->code->function;
    if (insn->target > f->target_count || insn->target_count > f->target_count - insn->target)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "targets that there are not");
    for (uint32_t i = 0; i < insn->target_count; i++)
        if (f->targets[insn->target + i] > d->code->count)
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch to nowhere");
    op->handler = EMU_DO_BRANCH_LIST;
    op->target = insn->target;
    emu_want_all(wants->src, EMU_WORD);
    return emu_decode_need(d, 0, 1, 1) && emu_decode_operands(d, op, wants);
}

static bool decode_carry(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    struct emu_lane_info product;
    const bool mad = d->insn->src_count == 3;
    if (mad) {
        if (!emu_lane_find(d->insn, &product))
            return emu_decode_unsupported(d, "carry for this type");
        op->fn = product.fn;
    }
    op->handler = EMU_DO_CARRY;
    emu_want_all(wants->src, emu_storage(d->insn->type));
    emu_want_all(wants->dst, emu_storage(d->insn->type));
    return emu_decode_need(d, 1, 2, 3) && emu_decode_operands(d, op, wants);
}

static bool decode_lanes(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    struct emu_lane_info info;
    if (!emu_lane_find(insn, &info))
        return emu_decode_unsupported(d, "such instruction for this type");
    op->fn = info.fn;
    wants->dst[0] = info.out;
    memcpy(wants->src, info.src, sizeof(info.src));
    if (insn->opcode == EMU_OP_MUL_WIDE || insn->opcode == EMU_OP_MAD_WIDE)
        wants->type = insn->type == EMU_U32   ? EMU_U64
                      : insn->type == EMU_S32 ? EMU_S64
                      : insn->type == EMU_U16 ? EMU_U32
                                              : EMU_S32;
    else if (info.out == EMU_WORD && emu_bits(insn->type) == 64)
        wants->type = EMU_U32; // popc, clz, bfind
    bool directed = insn->round >= EMU_RZ && insn->round <= EMU_RP && info.is_float;
    bool around = info.is_float && (directed || insn->ftz || insn->sat);
    op->handler = around ? EMU_DO_FLOAT : EMU_DO_LANES;
    op->is_float = info.is_float && insn->type == EMU_F32;
    op->float_out = op->is_float && info.out == EMU_WORD;
    unsigned least = 1, most = 4;
    if (insn->opcode == EMU_OP_FMA)
        least = most = 3;
    return emu_decode_need(d, 1, least, most) && emu_decode_operands(d, op, wants);
}

// Sources that the lane function of an opcode reads, so that it never reads one that is not there.
static unsigned lane_sources(const struct emu_insn *insn)
{
    switch (insn->opcode) {
    case EMU_OP_ABS:
    case EMU_OP_NEG:
    case EMU_OP_NOT:
    case EMU_OP_CNOT:
    case EMU_OP_POPC:
    case EMU_OP_CLZ:
    case EMU_OP_BFIND:
    case EMU_OP_BFIND_SHIFTAMT:
    case EMU_OP_BREV:
    case EMU_OP_SQRT:
    case EMU_OP_RCP:
    case EMU_OP_RSQRT:
    case EMU_OP_EX2:
    case EMU_OP_LG2:
    case EMU_OP_SIN:
    case EMU_OP_COS:
    case EMU_OP_TANH:
    case EMU_OP_TESTP:
        return 1;
    case EMU_OP_CVT:
        return insn->type == EMU_F16X2 || insn->type == EMU_BF16X2 ? 2 : 1;
    case EMU_OP_MAD_LO:
    case EMU_OP_MAD_HI:
    case EMU_OP_MAD_WIDE:
    case EMU_OP_MAD24_LO:
    case EMU_OP_MAD24_HI:
    case EMU_OP_FMA:
    case EMU_OP_SAD:
    case EMU_OP_SELP:
    case EMU_OP_SLCT:
    case EMU_OP_BFE:
    case EMU_OP_SHF_L:
    case EMU_OP_SHF_R:
    case EMU_OP_PRMT:
    case EMU_OP_DP4A:
    case EMU_OP_DP2A:
    case EMU_OP_FNS:
        return 3;
    case EMU_OP_BFI:
    case EMU_OP_LOP3:
        return 4;
    default:
        return 2;
    }
}

static bool decode_plain(struct emu_decoder *d, struct emu_op *op, enum emu_handler handler)
{
    struct emu_wants wants = { { 0 }, { 0 }, EMU_B32 };
    emu_want_all(wants.src, EMU_WORD);
    emu_want_all(wants.dst, EMU_WORD);
    op->handler = (uint8_t)handler;
    return emu_decode_operands(d, op, &wants);
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
    struct emu_wants wants = { { 0 }, { 0 }, insn->type };
    enum emu_handler handler = (enum emu_handler)handlers[insn->opcode];
    switch (handler) {
    case EMU_DO_MOVE:
        return decode_move(d, op, &wants);
    case EMU_DO_LOAD:
    case EMU_DO_STORE:
    case EMU_DO_ATOMIC:
        return emu_decode_memory(d, op, &wants);
    case EMU_DO_ADDRESS:
        return emu_decode_address(d, op, &wants);
    case EMU_DO_COMPARE:
        return decode_compare(d, op, &wants);
    case EMU_DO_BARRIER:
        wants.type = EMU_U32;
        return emu_decode_barrier(d, op, &wants);
    case EMU_DO_WARP_SYNC:
        wants.type = EMU_B32;
        return emu_decode_warp(d, op, &wants);
    case EMU_DO_CALL:
        return decode_call(d, op, &wants);
    case EMU_DO_BRANCH:
        op->handler = EMU_DO_BRANCH;
        op->target = insn->target;
        return insn->target <= d->code->count
                   ? true
                   : emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch to nowhere");
    case EMU_DO_ACTIVEMASK:
        return emu_decode_need(d, 1, 0, 0) && decode_plain(d, op, handler);
    case EMU_DO_NOTHING: // what a prefetch names need not even be memory
        op->handler = EMU_DO_NOTHING;
        return true;
    case EMU_DO_BRANCH_LIST:
        return decode_targets(d, op, &wants);
    case EMU_DO_COPY:
        return emu_decode_copy(d, op, &wants);
    case EMU_DO_CARRY:
        return decode_carry(d, op, &wants);
    case EMU_DO_LANES:
        if (insn->src_count != lane_sources(insn))
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "%u operands", insn->src_count);
        return decode_lanes(d, op, &wants);
    default:
        return decode_plain(d, op, handler);
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
