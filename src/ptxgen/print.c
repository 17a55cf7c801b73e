// SPDX-License-Identifier: MIT
// The finished module as text.
#include "internal.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *prefix, *type;
} files[FILE_COUNT] = {
    [FILE_P] = { "p", "pred" },  [FILE_RS] = { "rs", "b16" }, [FILE_R] = { "r", "b32" },
    [FILE_RD] = { "rd", "b64" }, [FILE_F] = { "f", "f32" },   [FILE_FD] = { "fd", "f64" },
};

enum { OPERAND_COLUMN = 20, COMMENT_COLUMN = 44 };

static void put_register(ptx_builder *b, uint32_t reg)
{
    ptxb_putf(b, "%%%s%u", files[b->regs.at[reg].file].prefix, b->regs.at[reg].number);
}

static void put_value(ptx_builder *b, ptx_val x)
{
    if (x.kind == PTX_IMMEDIATE)
        ptxb_put_immediate(b, x);
    else
        put_register(b, x.reg);
}

static void put_label(ptx_builder *b, uint32_t number)
{
    const struct label *label = &b->labels.at[number - 1];

    ptxb_put(b, "$");
    ptxb_put(b, label->name);
    ptxb_putf(b, "_%u%s", label->number, label->part);
}

static void put_operand(ptx_builder *b, const struct insn *insn, const struct operand *operand)
{
    if (operand->open)
        ptxb_put(b, "{");
    switch (operand->kind) {
    case OPERAND_VALUE:
        put_value(b, operand->val);
        break;
    case OPERAND_TEXT:
        ptxb_put(b, operand->text);
        break;
    case OPERAND_LABEL:
        put_label(b, insn->label);
        break;
    case OPERAND_ADDRESS:
        ptxb_put(b, "[");
        if (operand->text)
            ptxb_put(b, operand->text);
        else
            put_value(b, operand->val);
        if (operand->offset)
            ptxb_putf(b, "+%" PRId64, operand->offset);
        ptxb_put(b, "]");
        break;
    }
    if (operand->close)
        ptxb_put(b, "}");
}

// ---- instructions -------------------------------------------------------------------------------

static void put_float_comment(ptx_builder *b, const struct insn *insn, size_t line_start)
{
    bool first = true;

    for (unsigned k = insn->dst_count; k < insn->operand_count; k++) {
        const struct operand *operand = &insn->operands[k];
        const ptx_val v = operand->val;
        if (operand->kind != OPERAND_VALUE || v.kind != PTX_IMMEDIATE ||
            !ptxb_is_float((ptx_type)v.type))
            continue;
        if (first)
            ptxb_pad(b, line_start, COMMENT_COLUMN);
        ptxb_put(b, first ? "// " : ", ");
        ptxb_put_decimal(b, v);
        first = false;
    }
}

static void put_opcode(ptx_builder *b, const struct insn *insn, bool reduce)
{
    if (insn->guard) {
        ptxb_put(b, insn->guard_negated ? "@!" : "@");
        put_register(b, insn->guard);
        ptxb_put(b, " ");
    }
    if (reduce)
        ptxb_put(b, "red");
    ptxb_put(b, reduce ? insn->opcode + strlen("atom") : insn->opcode);
}

static void put_insn(ptx_builder *b, const struct insn *insn)
{
    if (insn->kind == INSN_LABEL) {
        if (!b->labels.at[insn->label - 1].uses)
            return;
        put_label(b, insn->label);
        ptxb_put(b, ":\n");
        return;
    }
    if (insn->kind == INSN_COMMENT)
        ptxb_put(b, "\n");
    const size_t line_start = b->text.count;
    for (unsigned k = 0; k < insn->depth; k++)
        ptxb_put(b, "    ");
    if (insn->kind == INSN_COMMENT) {
        ptxb_put(b, "// ");
        ptxb_put_comment(b, insn->opcode);
        ptxb_put(b, "\n");
        return;
    }
    const size_t opcode_start = b->text.count;
    const bool reduce = insn->reducible && b->regs.at[insn->operands[0].val.reg].uses == 0;
    put_opcode(b, insn, reduce);
    for (unsigned k = reduce; k < insn->operand_count; k++) {
        if (k == reduce)
            ptxb_pad(b, opcode_start, OPERAND_COLUMN);
        else
            ptxb_put(b, ", ");
        put_operand(b, insn, &insn->operands[k]);
    }
    ptxb_put(b, ";");
    put_float_comment(b, insn, line_start);
    ptxb_put(b, "\n");
}

// ---- entries ------------------------------------------------------------------------------------

static void put_param_comment(ptx_builder *b, const struct ptx_param_info *info)
{
    if (!info->is_pointer && !info->meaning)
        return;
    ptxb_put(b, "// ");
    if (info->is_pointer) {
        ptxb_putf(b, "%s[", ptx_type_name((ptx_type)info->type));
        ptxb_put_comment(b, info->length ? info->length : "");
        ptxb_put(b, info->readonly ? "], read only" : info->writeonly ? "], written" : "]");
        ptxb_put(b, info->meaning ? ": " : "");
    }
    ptxb_put_comment(b, info->meaning ? info->meaning : "");
}

static void put_params(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->param_count; k++) {
        const struct ptx_param_info *info = &entry->params[k].info;
        const size_t line_start = b->text.count;
        const char *comma = k + 1 < entry->param_count ? "," : "";
        ptxb_putf(b, "    .param%s .%s ", info->count ? " .align 16" : "",
                  info->is_pointer ? "u64" : ptxb_memory_name((ptx_type)info->type));
        ptxb_put(b, info->name);
        if (info->count)
            ptxb_putf(b, "[%u]", info->count);
        ptxb_put(b, comma);
        if (info->is_pointer || info->meaning)
            ptxb_pad(b, line_start, 32);
        put_param_comment(b, info);
        ptxb_put(b, "\n");
    }
}

static void put_shape(ptx_builder *b, const char *directive, const uint32_t shape[3])
{
    if (shape[0] || shape[1] || shape[2])
        ptxb_putf(b, "%s %u, %u, %u\n", directive, shape[0], shape[1] ? shape[1] : 1,
                  shape[2] ? shape[2] : 1);
}

// Registers are numbered as they appear, so that the text has no gaps.
static void number_registers(ptx_builder *b, struct entry *entry)
{
    const struct insn *lists[] = { entry->prologue.first, entry->body.first };

    memset(entry->registers, 0, sizeof entry->registers);
    for (int list = 0; list < 2; list++)
        for (const struct insn *insn = lists[list]; insn; insn = insn->next)
            for (unsigned k = 0; k < insn->dst_count; k++) {
                struct reg *reg = &b->regs.at[insn->operands[k].val.reg];
                if (!reg->placed)
                    reg->number = ++entry->registers[reg->file];
                reg->placed = true;
            }
}

static void put_declarations(ptx_builder *b, uint32_t number)
{
    const struct entry *entry = &b->entries.at[number];

    for (int file = 0; file < FILE_COUNT; file++)
        if (entry->registers[file])
            ptxb_putf(b, "    .reg .%-6s %%%s<%u>;\n", files[file].type, files[file].prefix,
                      entry->registers[file] + 1);
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const struct symbol *symbol = &b->symbols.at[s];
        if (symbol->entry != number ||
            (symbol->kind != SYMBOL_SHARED && symbol->kind != SYMBOL_LOCAL))
            continue;
        ptxb_putf(b, "    .%s .align 16 .%s %s[%u];\n",
                  symbol->kind == SYMBOL_SHARED ? "shared" : "local",
                  ptxb_memory_name((ptx_type)symbol->type), symbol->name, symbol->count);
    }
}

static void put_entry(ptx_builder *b, uint32_t number)
{
    struct entry *entry = &b->entries.at[number];

    number_registers(b, entry);
    ptxb_put(b, "\n.visible .entry ");
    ptxb_put(b, entry->decl.name);
    ptxb_put(b, "(\n");
    put_params(b, entry);
    ptxb_put(b, ")\n");
    put_shape(b, ".reqntid", entry->decl.block);
    put_shape(b, ".maxntid", entry->decl.max_block);
    if (entry->decl.min_blocks)
        ptxb_putf(b, ".minnctapersm %u\n", entry->decl.min_blocks);
    ptxb_put(b, "{\n");
    put_declarations(b, number);
    if (entry->prologue.first)
        ptxb_put(b, "\n");
    for (const struct insn *insn = entry->prologue.first; insn; insn = insn->next)
        put_insn(b, insn);
    if (entry->body.first && entry->body.first->kind != INSN_COMMENT)
        ptxb_put(b, "\n");
    for (const struct insn *insn = entry->body.first; insn; insn = insn->next)
        put_insn(b, insn);
    ptxb_put(b, "}\n");
}

bool ptxb_print(ptx_builder *b)
{
    char target[PTX_TARGET_NAME_SIZE];
    const int isa = ptx_builder_isa(b);

    ptxb_put(b, "// Written by ptxgen. The PTX ISA version is ");
    if (b->params.isa)
        ptxb_put(b, "pinned.\n");
    else {
        ptxb_put(b, "the least that has ");
        ptxb_put(b, b->isa_reason);
        ptxb_put(b, ".\n");
    }
    ptxb_putf(b, ".version %d.%d\n.target %s\n.address_size 64\n", isa / 10, isa % 10,
              ptx_target_name(b->params.target, target));
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (b->symbols.at[s].kind != SYMBOL_DYNAMIC)
            continue;
        ptxb_putf(b, "\n.extern .shared .align 16 .b8 %s[];\n", b->symbols.at[s].name);
        break;
    }
    for (uint32_t e = 0; e < b->entries.count; e++)
        put_entry(b, e);
    return !b->failed;
}

void ptx_comment(ptx_builder *b, const char *format, ...)
{
    va_list args;

    if (!ptxb_ready(b, "comment"))
        return;
    va_start(args, format);
    ptxb_append(b, INSN_COMMENT, ptxb_vformat(b, "comment", format, args), 0, 0);
    va_end(args);
}
