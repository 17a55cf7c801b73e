// SPDX-License-Identifier: MIT
// The body of a function as it grows.
#include "body.h"

#include "names.h"

#include <string.h>

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
    param->symbol = EMU_NO_REGISTER;
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

// ---- addresses of parameters --------------------------------------------------------------------

uint32_t emu_param_symbol(struct emu_parser *p, const struct emu_token *at, uint32_t index)
{
    struct emu_param_registers *param = &p->body->params[index];
    struct emu_function *f = &p->module->functions[p->body->function];
    const uint64_t offset = (f->local_bytes + UINT64_C(15)) / 16 * 16;

    if (param->symbol != EMU_NO_REGISTER)
        return param->symbol;
    if (!param->readonly || offset + param->bytes > EMU_MAX_LOCAL) {
        emu_error(
            p, at,
            param->readonly
                ? "The function has too much local memory for parameter '%.*s'"
                : "The address of '%.*s', no input of a function, is not supported by the emulator",
            EMU_TEXT(at));
        return EMU_NO_REGISTER;
    }
    struct emu_symbol *symbol = emu_push(p, &p->module->symbols, &p->module->symbol_count,
                                         &p->symbol_capacity, sizeof *symbol);
    if (!symbol)
        return EMU_NO_REGISTER;
    *symbol = (struct emu_symbol) { .name = f->registers[param->first].name,
                                    .space = EMU_LOCAL,
                                    .type = param->type,
                                    .align = 16,
                                    .offset = offset,
                                    .bytes = param->bytes };
    f->local_bytes = (uint32_t)(offset + param->bytes);
    return param->symbol = p->module->symbol_count - 1;
}

// Stores a parameter to its copy in local memory.
static bool store_param(struct emu_parser *p, const struct emu_param_registers *param)
{
    static const uint8_t types[] = { [1] = EMU_B8, [2] = EMU_B16, [4] = EMU_B32, [8] = EMU_B64 };
    const uint32_t count = param->array ? param->bytes : 1;

    for (uint32_t k = 0; k < count; k++) {
        const uint8_t type = param->array ? EMU_B8 : types[param->bytes];
        const struct emu_insn store = { .letters = "=bvh",
                                        .opcode = EMU_OP_ST,
                                        .type = type,
                                        .source_type = type,
                                        .space = EMU_LOCAL,
                                        .lanes = 1,
                                        .src_count = 2,
                                        .scope = EMU_SCOPE_GPU,
                                        .guard = EMU_NO_REGISTER,
                                        .line = p->token.line };
        const struct emu_operand operands[] = {
            { .kind = EMU_OPERAND_SYMBOL_ADDRESS, .index = param->symbol, .offset = k },
            { .kind = EMU_OPERAND_REGISTER, .index = param->first + k },
        };
        if (!emu_append(p, &store, operands))
            return false;
    }
    return true;
}

// The stores are appended, and the instructions rotate until they come first.
bool emu_store_params(struct emu_parser *p)
{
    const uint32_t function = p->body->function;
    const uint32_t before = p->module->functions[function].insn_count;

    for (uint32_t k = 0; k < p->body->param_count; k++)
        if (p->body->params[k].symbol != EMU_NO_REGISTER && !store_param(p, &p->body->params[k]))
            return false;
    struct emu_function *f = &p->module->functions[function];
    const uint32_t added = f->insn_count - before;
    if (!added)
        return true;
    struct emu_insn *rotated = emu_arena_alloc(p->arena, f->insn_count * sizeof *rotated);
    if (!rotated)
        return emu_out_of_memory(p);
    memcpy(rotated, f->insns + before, added * sizeof *rotated);
    memcpy(rotated + added, f->insns, before * sizeof *rotated);
    memcpy(f->insns, rotated, f->insn_count * sizeof *rotated);
    for (uint32_t k = added; k < f->insn_count; k++)
        if (strchr(f->insns[k].letters, 'l'))
            f->insns[k].target += added;
    for (uint32_t k = 0; k < f->target_count; k++)
        f->targets[k] += added;
    return true;
}
