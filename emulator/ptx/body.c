// SPDX-License-Identifier: MIT
// The body of a function as it grows.
#include "body.h"

#include "names.h"

bool emu_append(struct emu_parser *p, const struct emu_insn *insn,
                const struct emu_operand *operands)
{
    struct emu_body *body = p->body;
    struct emu_function *f = &p->module->functions[body->function];
    const unsigned count = (unsigned)insn->dst_count + insn->src_count;
    struct emu_insn *added =
        emu_push(p, &f->insns, &f->insn_count, &body->insn_capacity, sizeof *added);

    if (!added)
        return false;
    *added = *insn;
    added->operands = f->operand_count;
    for (unsigned k = 0; k < count; k++) {
        struct emu_operand *operand =
            emu_push(p, &f->operands, &f->operand_count, &body->operand_capacity, sizeof *operand);
        if (!operand)
            return false;
        *operand = operands[k];
    }
    return true;
}

bool emu_use_label(struct emu_parser *p, const struct emu_token *label, bool listed)
{
    struct emu_body *body = p->body;
    const struct emu_function *f = &p->module->functions[body->function];
    struct emu_label_use *use =
        emu_push(p, &body->uses, &body->use_count, &body->use_capacity, sizeof *use);

    if (!use)
        return false;
    *use = (struct emu_label_use) { .at = label->at,
                                    .length = label->length,
                                    .insn = listed ? f->target_count : f->insn_count,
                                    .listed = listed,
                                    .line = label->line,
                                    .column = label->column };
    return true;
}

bool emu_refer(struct emu_parser *p, uint32_t index, bool is_call, const struct emu_token *at)
{
    if (!p->body || (!is_call && p->module->symbols[index].space != EMU_SHARED &&
                     !p->module->symbols[index].is_extern))
        return true;
    struct emu_reference *added =
        emu_push(p, &p->references, &p->reference_count, &p->reference_capacity, sizeof *added);
    if (!added)
        return false;
    *added = (struct emu_reference) {
        .function = p->body->function, .index = index, .is_call = is_call, .at = *at
    };
    return true;
}

enum { MOST_PARAM_BYTES = 4096 };

bool emu_new_param(struct emu_parser *p, const struct emu_token *name, enum emu_type type,
                   bool array, uint64_t bytes, bool readonly, struct emu_param_registers *param)
{
    struct emu_body *body = p->body;
    struct emu_function *f;

    if (bytes > MOST_PARAM_BYTES)
        return emu_error(p, name,
                         "Parameter '%.*s' of a function with more than %d bytes is not supported "
                         "by the emulator",
                         EMU_TEXT(name), MOST_PARAM_BYTES);
    param->array = array;
    param->bytes = (uint32_t)bytes;
    param->type = (uint8_t)(array ? EMU_B8 : type);
    param->readonly = readonly;
    const uint32_t count = param->array ? param->bytes : 1;
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t index = emu_new_register(p, name->at, k ? 0 : name->length, param->type);
        if (index == EMU_NO_REGISTER)
            return false;
        if (!k)
            param->first = index;
        f = &p->module->functions[body->function];
        f->registers[index].name = f->registers[param->first].name;
    }
    if (!emu_declare(p, name, EMU_NAME_PARAM, body->param_count))
        return false;
    struct emu_param_registers *added =
        emu_push(p, &body->params, &body->param_count, &body->param_capacity, sizeof *added);
    if (added)
        *added = *param;
    return added != NULL;
}
