// SPDX-License-Identifier: MIT
// From the parser's instructions to what the lanes run: registers to places in a frame, immediates
// to 32 equal lanes, each instruction to a handler.
#include "exec.h"
#include "half.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_FRAMES = 16 << 20 }; // bytes of registers a warp, at one depth of calls

struct decoder {
    struct emu_program *program;
    const struct emu_launch *launch;
    const struct emu_module *module;
    struct emu_code *code;
    const struct emu_insn *insn;
    char *reason;
    size_t reason_size;
    int result;
};

static bool fail(struct decoder *d, int result, const char *format, ...) EMU_PRINTF(3, 4);
static bool fail(struct decoder *d, int result, const char *format, ...)
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

static uint8_t storage(unsigned type)
{
    switch (type) {
    case EMU_PRED:
        return EMU_MASK;
    case EMU_U64:
    case EMU_S64:
    case EMU_B64:
    case EMU_F64:
        return EMU_LONG;
    default:
        return EMU_WORD;
    }
}

static bool is_signed(unsigned type)
{
    return type == EMU_S8 || type == EMU_S16 || type == EMU_S32 || type == EMU_S64;
}

// Room for a constant; the offset, or SIZE_MAX if memory is out.
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
        return fail(d, EMU_OUT_OF_MEMORY, "too many constants");
    value->place = EMU_AT_CONST;
    value->width = want;
    value->at = (uint32_t)at;
    return true;
}

static bool symbol(struct decoder *d, struct emu_value *value, const struct emu_operand *operand,
                   uint8_t want)
{
    if (operand->index >= d->module->symbol_count)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "a variable that there is not");
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
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "a register that there is not");
    const struct emu_register *r = &f->registers[index];
    value->place = EMU_AT_SLOT;
    value->width = storage(r->type);
    value->bits = (uint8_t)emu_bits(r->type);
    value->at = d->code->slots[index];
    value->reg = index;
    if ((value->width == EMU_MASK) != (want == EMU_MASK))
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "register %s is of the wrong kind", r->name);
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
    case EMU_OPERAND_SPECIAL:
        value->place = EMU_AT_SPECIAL;
        value->width = EMU_LONG;
        ok = true;
        break;
    default:
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "an operand that cannot be read");
    }
    value->direct = ok && !value->negated && value->width == want &&
                    (value->place == EMU_AT_SLOT || value->place == EMU_AT_CONST);
    return ok;
}

// `type`: of the result, which fills a wider register with its sign or zeros.
static bool destination(struct decoder *d, struct emu_value *value,
                        const struct emu_operand *operand, uint8_t want, unsigned type)
{
    *value = (struct emu_value) { .want = want, .operand = operand };
    if (operand->kind == EMU_OPERAND_SINK) {
        value->place = EMU_AT_SINK;
        return true;
    }
    if (operand->kind != EMU_OPERAND_REGISTER)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "a result that is no register");
    if (!reg(d, value, operand->index, want))
        return false;
    unsigned bits = want ? emu_bits(type) : 1;
    if (want && is_signed(type) && bits < value->bits)
        value->extend = (uint8_t)bits;
    value->direct = value->width == want && !value->extend && bits <= value->bits;
    return true;
}

struct wants {
    uint8_t dst[EMU_MAX_OPERANDS], src[EMU_MAX_OPERANDS]; // as many as uint8_t counts
    uint8_t type;                                         // of the results
};

static bool operands(struct decoder *d, struct emu_op *op, const struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_operand *list = d->code->function->operands + insn->operands;
    struct emu_value *values = d->code->values + d->code->value_count;
    d->code->value_count += (uint32_t)insn->dst_count + insn->src_count;
    op->dst = values;
    op->src = values + insn->dst_count;
    op->dst_count = insn->dst_count;
    op->src_count = insn->src_count;
    op->in_place = true;
    for (unsigned i = 0; i < insn->dst_count; i++) {
        if (!destination(d, &values[i], &list[i], wants->dst[i], wants->type))
            return false;
    }
    for (unsigned i = 0; i < insn->src_count; i++) {
        if (!source(d, &values[insn->dst_count + i], &list[insn->dst_count + i], wants->src[i]))
            return false;
        const struct emu_value *value = &values[insn->dst_count + i];
        for (unsigned k = 0; k < insn->dst_count; k++)
            if (value->place == EMU_AT_SLOT && value->reg == values[k].reg)
                op->in_place = false;
    }
    return true;
}

static void all(uint8_t *wants, uint8_t want)
{
    memset(wants, want, EMU_MAX_OPERANDS);
}

static bool need(struct decoder *d, unsigned dst, unsigned least, unsigned most)
{
    const struct emu_insn *insn = d->insn;
    if (insn->dst_count != dst || insn->src_count < least || insn->src_count > most)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "%u results and %u operands", insn->dst_count,
                    insn->src_count);
    return true;
}

EMU_PRINTF(2, 3) static bool unsupported(struct decoder *d, const char *format, ...)
{
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return fail(d, EMU_ILLEGAL_INSTRUCTION, "the emulator has no %s", what);
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

static bool decode_move(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    uint8_t width = storage(insn->type);
    unsigned parts = insn->dst_count > insn->src_count ? insn->dst_count : insn->src_count;
    if (insn->dst_count == 0 || insn->src_count == 0 ||
        (insn->dst_count > 1 && insn->src_count > 1))
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "mov with so many operands");
    all(wants->dst, insn->dst_count > 1 ? part_of(insn, parts) : width);
    all(wants->src, insn->src_count > 1 ? part_of(insn, parts) : width);
    if (insn->dst_count > 1)
        wants->type = EMU_B8; // parts fill their registers
    op->handler = EMU_DO_MOVE;
    if (!operands(d, op, wants))
        return false;
    if (parts > 1) {
        op->bytes = (uint8_t)(emu_bits(insn->type) / 8 / parts);
        return op->bytes > 0 ? true : fail(d, EMU_ILLEGAL_INSTRUCTION, "mov of parts of nothing");
    }
    op->handler = EMU_DO_LANES;
    op->fn = width == EMU_MASK ? copy_mask : width == EMU_LONG ? copy_long : copy_word;
    op->copies = op->src[0].place == EMU_AT_SLOT && op->dst[0].place == EMU_AT_SLOT;
    return true;
}

static bool decode_memory(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    unsigned bits = emu_bits(insn->type);
    bool atomic = insn->opcode == EMU_OP_ATOM || insn->opcode == EMU_OP_RED;
    op->handler = insn->opcode == EMU_OP_LD   ? EMU_DO_LOAD
                  : insn->opcode == EMU_OP_ST ? EMU_DO_STORE
                                              : EMU_DO_ATOMIC;
    op->space = insn->space;
    op->bytes = (uint8_t)(bits / 8);
    unsigned lanes = atomic ? 1 : insn->lanes ? insn->lanes : 1;
    if (bits < 8 || lanes > 8 || insn->src_count == 0)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "an access of no type");
    all(wants->dst, storage(insn->type));
    all(wants->src, storage(insn->type));
    wants->src[0] = EMU_LONG;
    bool right = op->handler == EMU_DO_LOAD ? insn->dst_count == lanes && insn->src_count == 1
                 : op->handler == EMU_DO_STORE
                     ? insn->dst_count == 0 && insn->src_count == lanes + 1
                 : insn->opcode == EMU_OP_ATOM ? insn->dst_count == 1
                                               : insn->dst_count == 0;
    if (atomic)
        right = right && insn->src_count == (insn->atomic == EMU_ATOMIC_CAS ? 3 : 2);
    if (!right)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "an access with so many operands");
    if ((insn->space == EMU_SHARED || insn->space == EMU_GENERIC) &&
        op->bytes < d->program->race_grain)
        d->program->race_grain = op->bytes;
    return operands(d, op, wants);
}

static bool decode_address(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    op->handler = EMU_DO_ADDRESS;
    op->space = d->insn->space;
    all(wants->dst, d->insn->opcode == EMU_OP_ISSPACEP ? EMU_MASK : storage(d->insn->type));
    all(wants->src, EMU_LONG);
    return need(d, 1, 1, 1) && operands(d, op, wants);
}

static bool decode_compare(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    struct emu_lane_info info;
    bool set = d->insn->opcode == EMU_OP_SET;
    if (!emu_lane_find(d->insn, &info))
        return unsupported(d, "comparison of this kind for this type");
    op->handler = EMU_DO_COMPARE;
    op->fn = info.fn;
    op->is_float = info.is_float && d->insn->ftz;
    memcpy(wants->src, info.src, sizeof(info.src));
    all(wants->dst, set ? storage(d->insn->type) : EMU_MASK);
    bool third = d->insn->boolean != EMU_BOOL_NONE;
    unsigned count = third ? 3 : 2;
    if (d->insn->dst_count < 1 || d->insn->dst_count > (set ? 1 : 2) || d->insn->src_count != count)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "a comparison with so many operands");
    return operands(d, op, wants);
}

static bool decode_warp(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    op->handler = EMU_DO_WARP_SYNC;
    all(wants->src, EMU_WORD);
    all(wants->dst, EMU_WORD);
    unsigned most = 2;
    switch (insn->opcode) {
    case EMU_OP_BAR_WARP:
        return need(d, 0, 1, 1) && operands(d, op, wants);
    case EMU_OP_SHFL_BFLY:
    case EMU_OP_SHFL_DOWN:
    case EMU_OP_SHFL_IDX:
    case EMU_OP_SHFL_UP:
        wants->dst[1] = EMU_MASK;
        most = 4;
        break;
    case EMU_OP_VOTE_ALL:
    case EMU_OP_VOTE_ANY:
    case EMU_OP_VOTE_UNI:
        wants->dst[0] = EMU_MASK;
        wants->src[0] = EMU_MASK;
        break;
    case EMU_OP_VOTE_BALLOT:
        wants->src[0] = EMU_MASK;
        break;
    case EMU_OP_MATCH_ANY:
    case EMU_OP_MATCH_ALL:
        wants->src[0] = storage(insn->type);
        wants->dst[1] = EMU_MASK;
        break;
    default:
        break;
    }
    bool two = most == 4 || insn->opcode == EMU_OP_MATCH_ALL;
    if (insn->dst_count < 1 || insn->dst_count > (two ? 2 : 1) || insn->src_count != most)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "so many operands");
    return operands(d, op, wants);
}

static bool decode_barrier(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    bool red = insn->opcode == EMU_OP_BAR_RED_AND || insn->opcode == EMU_OP_BAR_RED_OR ||
               insn->opcode == EMU_OP_BAR_RED_POPC;
    op->handler = EMU_DO_BARRIER;
    all(wants->src, EMU_WORD);
    all(wants->dst, insn->opcode == EMU_OP_BAR_RED_POPC ? EMU_WORD : EMU_MASK);
    if (insn->src_count == 0 || insn->src_count > 3)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "a barrier without its number");
    if (red)
        wants->src[insn->src_count - 1] = EMU_MASK;
    bool arrive = insn->opcode == EMU_OP_BAR_ARRIVE;
    return need(d, red ? 1 : 0, red || arrive ? 2 : 1, red ? 3 : 2) && operands(d, op, wants);
}

static bool decode_call(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    if (insn->target >= d->module->function_count)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "call of no function");
    const struct emu_function *f = &d->module->functions[insn->target];
    if (f->argument_count != insn->src_count || f->result_count != insn->dst_count)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "call with so many arguments");
    for (unsigned i = 0; i < insn->dst_count; i++)
        wants->dst[i] = storage(f->registers[f->results[i]].type);
    for (unsigned i = 0; i < insn->src_count; i++)
        wants->src[i] = storage(f->registers[f->arguments[i]].type);
    op->handler = EMU_DO_CALL;
    d->program->calls = true;
    wants->type = EMU_B64;
    if (!operands(d, op, wants))
        return false;
    return true;
}

static bool decode_carry(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    unsigned bits = emu_bits(d->insn->type);
    bool mad = d->insn->opcode == EMU_OP_MAD_LO || d->insn->opcode == EMU_OP_MAD_HI;
    if (bits != 32 && bits != 64)
        return unsupported(d, "carry for this type");
    op->handler = EMU_DO_CARRY;
    all(wants->src, storage(d->insn->type));
    all(wants->dst, storage(d->insn->type));
    return need(d, 1, mad ? 3 : 2, mad ? 3 : 2) && operands(d, op, wants);
}

static bool decode_lanes(struct decoder *d, struct emu_op *op, struct wants *wants)
{
    const struct emu_insn *insn = d->insn;
    struct emu_lane_info info;
    if (!emu_lane_find(insn, &info))
        return unsupported(d, "such instruction for this type");
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
    return need(d, 1, least, most) && operands(d, op, wants);
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

static bool decode_plain(struct decoder *d, struct emu_op *op, enum emu_handler handler)
{
    struct wants wants = { { 0 }, { 0 }, EMU_B32 };
    all(wants.src, EMU_WORD);
    all(wants.dst, EMU_WORD);
    op->handler = (uint8_t)handler;
    return operands(d, op, &wants);
}

static bool decode_by_opcode(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    struct wants wants = { { 0 }, { 0 }, insn->type };
    switch (insn->opcode) {
    case EMU_OP_MOV:
        return decode_move(d, op, &wants);
    case EMU_OP_LD:
    case EMU_OP_ST:
    case EMU_OP_ATOM:
    case EMU_OP_RED:
        return decode_memory(d, op, &wants);
    case EMU_OP_CVTA:
    case EMU_OP_CVTA_TO:
    case EMU_OP_ISSPACEP:
        return decode_address(d, op, &wants);
    case EMU_OP_SETP:
    case EMU_OP_SET:
        return decode_compare(d, op, &wants);
    case EMU_OP_BAR_SYNC:
    case EMU_OP_BAR_ARRIVE:
    case EMU_OP_BAR_RED_AND:
    case EMU_OP_BAR_RED_OR:
    case EMU_OP_BAR_RED_POPC:
        wants.type = EMU_U32;
        return decode_barrier(d, op, &wants);
    case EMU_OP_BAR_WARP:
    case EMU_OP_SHFL_BFLY:
    case EMU_OP_SHFL_DOWN:
    case EMU_OP_SHFL_IDX:
    case EMU_OP_SHFL_UP:
    case EMU_OP_VOTE_ALL:
    case EMU_OP_VOTE_ANY:
    case EMU_OP_VOTE_UNI:
    case EMU_OP_VOTE_BALLOT:
    case EMU_OP_MATCH_ALL:
    case EMU_OP_MATCH_ANY:
    case EMU_OP_REDUX:
        wants.type = EMU_B32;
        return decode_warp(d, op, &wants);
    case EMU_OP_CALL:
        return decode_call(d, op, &wants);
    case EMU_OP_BRA:
        op->handler = EMU_DO_BRANCH;
        op->target = insn->target;
        return insn->target <= d->code->count
                   ? true
                   : fail(d, EMU_ILLEGAL_INSTRUCTION, "a branch to nowhere");
    case EMU_OP_RET:
        return decode_plain(d, op, EMU_DO_RETURN);
    case EMU_OP_EXIT:
        return decode_plain(d, op, EMU_DO_EXIT);
    case EMU_OP_TRAP:
        return decode_plain(d, op, EMU_DO_TRAP);
    case EMU_OP_FENCE:
        return decode_plain(d, op, EMU_DO_FENCE);
    case EMU_OP_NANOSLEEP:
        return decode_plain(d, op, EMU_DO_SLEEP);
    case EMU_OP_ACTIVEMASK:
        return need(d, 1, 0, 0) && decode_plain(d, op, EMU_DO_ACTIVEMASK);
    case EMU_OP_GRIDDEPCONTROL:
    case EMU_OP_PREFETCH: // what it names need not even be memory
        op->handler = EMU_DO_NOTHING;
        return true;
    case EMU_OP_ADDC:
    case EMU_OP_SUBC:
        return decode_carry(d, op, &wants);
    default:
        if (insn->carry_out)
            return decode_carry(d, op, &wants);
        if (insn->src_count != lane_sources(insn))
            return fail(d, EMU_ILLEGAL_INSTRUCTION, "%u operands", insn->src_count);
        return decode_lanes(d, op, &wants);
    }
}

static bool decode_insn(struct decoder *d, struct emu_op *op)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *f = d->code->function;
    op->insn = insn;
    op->guard = EMU_NO_REGISTER;
    if (insn->operands > f->operand_count ||
        (uint32_t)insn->dst_count + insn->src_count > f->operand_count - insn->operands)
        return fail(d, EMU_ILLEGAL_INSTRUCTION, "too many operands");
    if (insn->guard != EMU_NO_REGISTER) {
        if (insn->guard >= f->register_count || f->registers[insn->guard].type != EMU_PRED)
            return fail(d, EMU_ILLEGAL_INSTRUCTION, "a guard that is no predicate");
        op->guard = d->code->slots[insn->guard];
        op->guard_register = insn->guard;
        op->guard_negated = insn->guard_negated;
    }
    return decode_by_opcode(d, op);
}

static bool lay_out_frame(struct decoder *d)
{
    const struct emu_function *f = d->code->function;
    uint64_t at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->register_count; i++) {
            uint8_t width = storage(f->registers[i].type);
            if ((width == EMU_MASK) != (pass == 1))
                continue;
            d->code->slots[i] = (uint32_t)at;
            at += width ? (uint64_t)width * EMU_LANES : 4;
        }
    }
    at = (at + 63) / 64 * 64;
    if (at > MOST_FRAMES)
        return fail(d, EMU_OUT_OF_RESOURCES, "too many registers");
    d->code->frame_bytes = (uint32_t)at;
    return true;
}

static bool decode_function(struct decoder *d, uint32_t index)
{
    const struct emu_function *f = &d->module->functions[index];
    struct emu_code *code = &d->program->codes[index];
    d->code = code;
    d->insn = NULL;
    code->function = f;
    code->count = f->insn_count;
    code->ops = calloc((size_t)f->insn_count + 1, sizeof(*code->ops));
    code->values = calloc((size_t)f->operand_count + 1, sizeof(*code->values));
    code->slots = calloc((size_t)f->register_count + 1, sizeof(*code->slots));
    if (!code->ops || !code->values || !code->slots)
        return fail(d, EMU_OUT_OF_MEMORY, "out of memory");
    if (!lay_out_frame(d))
        return false;
    uint64_t used = 0;
    for (uint32_t i = 0; i < f->insn_count; i++) {
        d->insn = &f->insns[i];
        // Instructions may share operands; values are one for each use.
        used += (uint64_t)d->insn->dst_count + d->insn->src_count;
        if (used > f->operand_count)
            return fail(d, EMU_ILLEGAL_INSTRUCTION, "operands used twice");
        if (!decode_insn(d, &code->ops[i]))
            return false;
    }
    // To fall off the end is to return.
    code->ops[f->insn_count] =
        (struct emu_op) { .handler = EMU_DO_RETURN,
                          .guard = EMU_NO_REGISTER,
                          .insn = f->insn_count ? &f->insns[f->insn_count - 1] : NULL };
    for (uint32_t i = 0; i < code->value_count; i++)
        if (code->values[i].place == EMU_AT_CONST)
            code->values[i].constant = code->constants + code->values[i].at;
    return true;
}

// Every function that a chain of calls reaches, by repeated passes: chains are short.
static bool decode_reached(struct decoder *d)
{
    bool more = true;
    if (!decode_function(d, d->program->entry))
        return false;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < d->program->count; i++) {
            const struct emu_code *code = &d->program->codes[i];
            for (uint32_t k = 0; k < code->count; k++) {
                const struct emu_insn *insn = code->ops[k].insn;
                if (insn->opcode != EMU_OP_CALL || d->program->codes[insn->target].function)
                    continue;
                if (!decode_function(d, insn->target))
                    return false;
                more = true;
            }
        }
    }
    return true;
}

int emu_program_build(struct emu_program *program, const struct emu_launch *launch, char *reason,
                      size_t reason_size)
{
    struct decoder d = { program, launch, launch->module, NULL, NULL, reason, reason_size, 0 };
    *program = (struct emu_program) { .race_grain = 16 };
    program->count = launch->module->function_count;
    program->codes = calloc((size_t)program->count + 1, sizeof(*program->codes));
    if (!program->codes)
        return EMU_OUT_OF_MEMORY;
    program->entry = (uint32_t)(launch->entry - launch->module->functions);
    uint32_t align = 16;
    for (uint32_t i = 0; i < launch->module->symbol_count; i++) {
        const struct emu_symbol *s = &launch->module->symbols[i];
        if (s->space == EMU_SHARED && s->is_extern && s->align > align && s->align <= 4096)
            align = s->align;
    }
    program->dynamic_at = (launch->entry->shared_bytes + align - 1) / align * align;
    program->shared_bytes = launch->dynamic_shared ? program->dynamic_at + launch->dynamic_shared
                                                   : launch->entry->shared_bytes;
    if (!decode_reached(&d))
        return d.result;
    if (program->race_grain > 4)
        program->race_grain = 4;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < program->count; i++)
        bytes += program->codes[i].frame_bytes;
    if (bytes > MOST_FRAMES) {
        d.insn = NULL;
        fail(&d, EMU_OUT_OF_RESOURCES, "too many registers");
        return d.result;
    }
    for (uint32_t i = 0; i < program->count; i++) {
        struct emu_code *code = &program->codes[i];
        if (!code->function)
            continue;
        code->frame_at = program->depth_bytes;
        code->init_at = program->depth_registers;
        program->depth_bytes += code->frame_bytes;
        program->depth_registers += code->function->register_count;
    }
    return EMU_SUCCESS;
}

void emu_program_free(struct emu_program *program)
{
    for (uint32_t i = 0; program->codes && i < program->count; i++) {
        struct emu_code *code = &program->codes[i];
        free(code->ops);
        free(code->values);
        free(code->slots);
        free(code->constants);
    }
    free(program->codes);
    *program = (struct emu_program) { 0 };
}
