// SPDX-License-Identifier: MIT
// libFuzzer: for any text, the parser fails with a message and a CUresult, or returns a module
// whose indices are all valid. README.md says how to build and run it.
#include "ptx/program.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_operand(const struct emu_module *module, const struct emu_function *f,
                          const struct emu_operand *operand)
{
    switch (operand->kind) {
    case EMU_OPERAND_REGISTER:
        require(operand->index < f->register_count);
        break;
    case EMU_OPERAND_ADDRESS:
        require(operand->index < f->register_count || operand->index == EMU_NO_REGISTER);
        break;
    case EMU_OPERAND_SYMBOL:
    case EMU_OPERAND_SYMBOL_ADDRESS:
        require(operand->index < module->symbol_count);
        break;
    case EMU_OPERAND_SPECIAL:
        require(operand->special <= EMU_RESERVED_SMEM_OFFSET &&
                operand->index < (operand->special == EMU_ENVREG ? 32 : 4));
        break;
    case EMU_OPERAND_FUNCTION:
        require(operand->index < module->function_count &&
                module->functions[operand->index].has_address);
        break;
    default:
        require(operand->kind <= EMU_OPERAND_SINK);
    }
}

static void check_insn(const struct emu_module *module, const struct emu_function *f,
                       const struct emu_insn *insn, uint32_t lines)
{
    const uint32_t count = (uint32_t)insn->dst_count + insn->src_count;

    require(insn->opcode < EMU_OP_COUNT && insn->type <= EMU_B128);
    require(insn->source_type <= EMU_B128 && insn->space <= EMU_CONST);
    require(insn->guard == EMU_NO_REGISTER || insn->guard < f->register_count);
    require(insn->operands <= f->operand_count && count <= f->operand_count - insn->operands);
    require(insn->line >= 1 && insn->line <= lines);
    if (insn->opcode == EMU_OP_BRA)
        require(insn->target < f->insn_count);
    if (insn->opcode == EMU_OP_BRX) {
        require(insn->target <= f->target_count &&
                insn->target_count <= f->target_count - insn->target);
        for (uint32_t k = 0; k < insn->target_count; k++)
            require(f->targets[insn->target + k] < f->insn_count);
    }
    if (insn->opcode == EMU_OP_CALL)
        require(insn->target < module->function_count &&
                (insn->mode == EMU_MODE_INDIRECT || module->functions[insn->target].system ||
                 module->functions[insn->target].insn_count));
    for (uint32_t k = 0; k < count; k++)
        check_operand(module, f, &f->operands[insn->operands + k]);
}

static void check_symbol(const struct emu_module *module, const struct emu_symbol *symbol)
{
    const uint64_t end = symbol->offset + symbol->bytes;
    volatile unsigned char last = 0;

    require(symbol->name && symbol->align && (symbol->align & (symbol->align - 1)) == 0);
    require(symbol->space != EMU_GLOBAL || symbol->is_extern || end <= module->global_bytes);
    require(symbol->space != EMU_CONST || symbol->is_extern || end <= module->const_bytes);
    if (symbol->init && symbol->bytes)
        last = symbol->init[symbol->bytes - 1];
    (void)last;
}

static void check_module(const struct emu_module *module, uint32_t lines)
{
    for (uint32_t k = 0; k < module->symbol_count; k++)
        check_symbol(module, &module->symbols[k]);
    for (uint32_t k = 0; k < module->relocation_count; k++)
        require(module->relocations[k].symbol < module->symbol_count &&
                module->relocations[k].target < (module->relocations[k].is_function
                                                     ? module->function_count
                                                     : module->symbol_count));
    for (uint32_t n = 0; n < module->function_count; n++) {
        const struct emu_function *f = &module->functions[n];
        for (uint32_t k = 0; k < f->insn_count; k++)
            check_insn(module, f, &f->insns[k], lines);
        for (uint32_t k = 0; k < f->register_count; k++)
            require(f->registers[k].name && f->registers[k].type <= EMU_B128);
        for (uint32_t k = 0; k < f->param_count; k++)
            require(f->params[k] < module->symbol_count);
        for (uint32_t k = 0; k < f->argument_count; k++)
            require(f->arguments[k] < f->register_count);
        for (uint32_t k = 0; k < f->result_count; k++)
            require(f->results[k] < f->register_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const struct emu_parse_limits limits = { .isa = 95, .sm = 120, .sm_suffix = 'a' };
    char log[1024];
    int result = -1;
    uint32_t lines = 1;
    struct emu_module *module =
        emu_module_parse((const char *)bytes, size, &limits, log, sizeof log, &result);

    if (!module) {
        require(log[0] && strlen(log) < sizeof log);
        require(result == 2 || result == 209 || result == 218 || result == 222);
        return 0;
    }
    require(result == 0);
    for (const char *c = module->text; *c; c++)
        lines += *c == '\n';
    check_module(module, lines);
    emu_module_destroy(&module);
    return module != NULL;
}
