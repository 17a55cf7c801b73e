// SPDX-License-Identifier: MIT
// Operands: registers to places in a frame, immediates and addresses of variables to 32 equal
// lanes.
#include "decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool emu_decode_fail(struct emu_decoder *d, int result, const char *format, ...)
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

uint8_t emu_storage(unsigned type)
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

static bool constant(struct emu_decoder *d, struct emu_value *value, uint64_t bits, uint8_t want)
{
    size_t at = add_constant(d->code, bits, want);
    if (at > UINT32_MAX)
        return emu_decode_fail(d, EMU_OUT_OF_MEMORY, "too many constants");
    value->place = EMU_AT_CONST;
    value->width = want;
    value->at = (uint32_t)at;
    return true;
}

static bool symbol(struct emu_decoder *d, struct emu_value *value,
                   const struct emu_operand *operand, uint8_t want)
{
    if (operand->index >= d->module->symbol_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a variable that there is not");
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

static bool reg(struct emu_decoder *d, struct emu_value *value, uint32_t index, uint8_t want)
{
    const struct emu_function *f = d->code->function;
    if (index >= f->register_count)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a register that there is not");
    const struct emu_register *r = &f->registers[index];
    value->place = EMU_AT_SLOT;
    value->width = emu_storage(r->type);
    value->bits = (uint8_t)emu_bits(r->type);
    value->at = d->code->slots[index];
    value->reg = index;
    if ((value->width == EMU_MASK) != (want == EMU_MASK))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "register %s is of the wrong kind",
                               r->name);
    return true;
}

static bool source(struct emu_decoder *d, struct emu_value *value,
                   const struct emu_operand *operand, uint8_t want)
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
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "an operand that cannot be read");
    }
    value->direct = ok && !value->negated && value->width == want &&
                    (value->place == EMU_AT_SLOT || value->place == EMU_AT_CONST);
    return ok;
}

// `type`: of the result, which fills a wider register with its sign or zeros.
static bool destination(struct emu_decoder *d, struct emu_value *value,
                        const struct emu_operand *operand, uint8_t want, unsigned type)
{
    *value = (struct emu_value) { .want = want, .operand = operand };
    if (operand->kind == EMU_OPERAND_SINK) {
        value->place = EMU_AT_SINK;
        return true;
    }
    if (operand->kind != EMU_OPERAND_REGISTER)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a result that is no register");
    if (!reg(d, value, operand->index, want))
        return false;
    unsigned bits = want ? emu_bits(type) : 1;
    if (want && emu_is_signed((enum emu_type)type) && bits < value->bits)
        value->extend = (uint8_t)bits;
    value->direct = value->width == want && !value->extend && bits <= value->bits;
    return true;
}

bool emu_decode_operands(struct emu_decoder *d, struct emu_op *op, const struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_function *function = d->code->function;
    // A function without operands has no array of them.
    const struct emu_operand *list =
        function->operand_count ? function->operands + insn->operands : NULL;
    struct emu_value *values = d->code->values ? d->code->values + d->code->value_count : NULL;
    d->code->value_count += (uint32_t)insn->dst_count + insn->src_count;
    op->dst = values;
    op->src = values ? values + insn->dst_count : NULL;
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
