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

bool emu_new_param(struct emu_parser *p, const struct emu_token *name,
                   struct emu_param_registers *param)
{
    struct emu_body *body = p->body;
    struct emu_function *f;

    param->symbol = EMU_NO_REGISTER;
    for (uint32_t k = 0; k < emu_param_count(param); k++) {
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
    if (param->role == EMU_PARAM_OF_CALL || offset + param->bytes > EMU_MAX_LOCAL) {
        emu_error(p, at,
                  param->role == EMU_PARAM_OF_CALL
                      ? "Illegal to take address of parameter '%.*s'"
                      : "The function has too much local memory for parameter '%.*s'",
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

// Stores register k of a parameter to the copy, under the guard of `of` if that is not NULL, or
// loads it, for a report at that line.
static bool copy_register(struct emu_parser *p, const struct emu_param_registers *param, uint32_t k,
                          bool store, const struct emu_insn *of, uint32_t line)
{
    static const uint8_t types[] = { [1] = EMU_B8, [2] = EMU_B16, [4] = EMU_B32, [8] = EMU_B64 };
    const uint8_t type = types[param->unit];
    const struct emu_insn insn = { .letters = store ? "=bvh" : "v=bh",
                                   .opcode = store ? EMU_OP_ST : EMU_OP_LD,
                                   .type = type,
                                   .source_type = type,
                                   .space = EMU_LOCAL,
                                   .lanes = 1,
                                   .dst_count = store ? 0 : 1,
                                   .src_count = store ? 2 : 1,
                                   .scope = EMU_SCOPE_GPU,
                                   .guard = of ? of->guard : EMU_NO_REGISTER,
                                   .guard_negated = of && of->guard_negated,
                                   .line = line };
    const struct emu_operand copy = { .kind = EMU_OPERAND_SYMBOL_ADDRESS,
                                      .index = param->symbol,
                                      .offset = (int64_t)k * param->unit };
    const struct emu_operand in_register = { .kind = EMU_OPERAND_REGISTER,
                                             .index = param->first + k };
    const struct emu_operand operands[] = { store ? copy : in_register,
                                            store ? in_register : copy };

    return emu_append(p, &insn, operands);
}

static bool copy_all(struct emu_parser *p, enum emu_param_role role, bool store, uint32_t line)
{
    for (uint32_t k = 0; k < p->body->param_count; k++) {
        const struct emu_param_registers *param = &p->body->params[k];
        for (uint32_t r = 0;
             param->role == role && param->symbol != EMU_NO_REGISTER && r < emu_param_count(param);
             r++)
            if (!copy_register(p, param, r, store, NULL, line))
                return false;
    }
    return true;
}

// Stores the registers of results that the instruction writes.
static bool copy_written(struct emu_parser *p, const struct emu_insn *insn)
{
    for (uint32_t k = 0; k < p->body->param_count; k++) {
        const struct emu_param_registers *param = &p->body->params[k];
        if (param->role != EMU_PARAM_RESULT || param->symbol == EMU_NO_REGISTER)
            continue;
        for (uint32_t d = 0; d < insn->dst_count; d++) {
            const struct emu_function *f = &p->module->functions[p->body->function];
            const struct emu_operand *operand = &f->operands[insn->operands + d];
            if (operand->kind == EMU_OPERAND_REGISTER && operand->index >= param->first &&
                operand->index - param->first < emu_param_count(param) &&
                !copy_register(p, param, operand->index - param->first, true, insn, insn->line))
                return false;
        }
    }
    return true;
}

// The body once more, with the copies. starts[k]: where instruction k of `count` is then.
static bool append_again(struct emu_parser *p, uint32_t count, uint32_t *starts)
{
    for (uint32_t k = 0; k < count; k++) {
        struct emu_function *f = &p->module->functions[p->body->function];
        const struct emu_insn insn = f->insns[k];
        starts[k] = f->insn_count - count;
        // What has no operands may be a return.
        if (insn.dst_count + insn.src_count == 0 &&
            !copy_all(p, EMU_PARAM_RESULT, false, insn.line))
            return false;
        struct emu_insn *added =
            emu_push(p, &f->insns, &f->insn_count, &p->body->insn_capacity, sizeof *added);
        if (!added)
            return false;
        *added = insn;
        if (!copy_written(p, &insn))
            return false;
    }
    return true;
}

bool emu_copy_params(struct emu_parser *p)
{
    struct emu_function *f = &p->module->functions[p->body->function];
    const uint32_t count = f->insn_count;
    bool any = false;

    for (uint32_t k = 0; k < p->body->param_count; k++)
        any = any || p->body->params[k].symbol != EMU_NO_REGISTER;
    if (!any)
        return true;
    uint32_t *starts = emu_arena_alloc(p->arena, count * sizeof *starts);
    if (!starts)
        return emu_out_of_memory(p);
    if (!copy_all(p, EMU_PARAM_INPUT, true, p->token.line) || !append_again(p, count, starts))
        return false;
    f = &p->module->functions[p->body->function];
    f->insn_count -= count;
    memmove(f->insns, f->insns + count, f->insn_count * sizeof *f->insns);
    for (uint32_t k = 0; k < f->insn_count; k++)
        if (strchr(f->insns[k].letters, 'l') && f->insns[k].target < count)
            f->insns[k].target = starts[f->insns[k].target];
    for (uint32_t k = 0; k < f->target_count; k++)
        if (f->targets[k] < count)
            f->targets[k] = starts[f->targets[k]];
    return true;
}
