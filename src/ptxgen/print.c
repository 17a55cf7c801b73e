// SPDX-License-Identifier: MIT
// The finished module as text.
#include "internal.h"

#include <stddef.h>
#include <string.h>

// ---- instructions -------------------------------------------------------------------------------

static const struct insn *next_of_body(const ptx_builder *b)
{
    return (const struct insn *)(void *)(b->text.at + b->text.limit);
}

static void put_body(ptx_builder *b, const struct stretch *body)
{
    for (uint32_t k = 0; k < body->count; k++) {
        if (!ptxb_room(b, ptxb_line_bytes(b, next_of_body(b))))
            return;
        const struct insn *insn = next_of_body(b); // where it is now
        const size_t bytes = ptxb_insn_words(insn) * sizeof(uint64_t);
        ptxb_put_insn(b, insn);
        b->text.limit += bytes;
    }
}

static void put_prologue(ptx_builder *b, const struct stretch *prologue)
{
    const struct insn *insn = ptxb_first(&b->code[1], prologue);

    for (uint32_t k = 0; k < prologue->count; k++, insn = ptxb_next(insn))
        if (ptxb_room(b, ptxb_line_bytes(b, insn)))
            ptxb_put_insn(b, insn);
}

// ---- entries ------------------------------------------------------------------------------------

static void put_number(ptx_builder *b, const char *before, uint64_t x, const char *after)
{
    ptxb_put(b, before);
    ptxb_put_unsigned(b, x);
    ptxb_put(b, after);
}

static void put_param_comment(ptx_builder *b, const struct ptx_param_info *info)
{
    if (!info->is_pointer && !info->meaning)
        return;
    ptxb_put(b, "// ");
    if (info->is_pointer) {
        ptxb_put(b, ptx_type_name((ptx_type)info->type));
        ptxb_put(b, "[");
        ptxb_put_comment(b, info->length ? info->length : "");
        ptxb_put(b, info->readonly ? "], read only" : info->writeonly ? "], written" : "]");
        ptxb_put(b, info->meaning ? ": " : "");
    }
    ptxb_put_comment(b, info->meaning ? info->meaning : "");
}

static void put_params(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->params.count; k++) {
        const struct ptx_param_info *info = &entry->params.at[k].info;
        const size_t line_start = b->text.count;
        const char *comma = k + 1 < entry->params.count ? "," : "";
        ptxb_put(b, info->count ? "    .param .align 16 ." : "    .param .");
        ptxb_put(b, info->is_pointer ? "u64" : ptxb_memory_name((ptx_type)info->type));
        ptxb_put(b, " ");
        ptxb_put(b, info->name);
        if (info->count)
            put_number(b, "[", info->count, "]");
        ptxb_put(b, comma);
        if (info->is_pointer || info->meaning)
            ptxb_pad(b, line_start, 32);
        put_param_comment(b, info);
        ptxb_put(b, "\n");
    }
}

static void put_shape(ptx_builder *b, const char *directive, const uint32_t shape[3])
{
    if (!shape[0] && !shape[1] && !shape[2])
        return;
    put_number(b, directive, shape[0], ", ");
    put_number(b, "", shape[1] ? shape[1] : 1, ", ");
    put_number(b, "", shape[2] ? shape[2] : 1, "\n");
}

static void put_declarations(ptx_builder *b, uint32_t number)
{
    const struct entry *entry = &b->entries.at[number];

    for (int file = 0; file < FILE_COUNT; file++)
        if (entry->registers[file]) {
            ptxb_put(b, "    .reg .");
            ptxb_put(b, ptxb_files[file].type);
            ptxb_put(b, " ");
            ptxb_put(b, ptxb_files[file].prefix);
            put_number(b, "<", entry->registers[file] + 1, ">;\n");
        }
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const struct symbol *symbol = &b->symbols.at[s];
        if (symbol->entry != number ||
            (symbol->kind != SYMBOL_SHARED && symbol->kind != SYMBOL_LOCAL))
            continue;
        ptxb_put(b, symbol->kind == SYMBOL_SHARED ? "    .shared" : "    .local");
        ptxb_put(b, " .align 16 .");
        ptxb_put(b, ptxb_memory_name((ptx_type)symbol->type));
        ptxb_put(b, " ");
        ptxb_put(b, symbol->name);
        put_number(b, "[", symbol->count, "];\n");
    }
}

static void put_entry(ptx_builder *b, uint32_t number)
{
    const struct entry *entry = &b->entries.at[number];

    ptxb_put(b, "\n.visible .entry ");
    ptxb_put(b, entry->decl.name);
    ptxb_put(b, "(\n");
    put_params(b, entry);
    ptxb_put(b, ")\n");
    put_shape(b, ".reqntid ", entry->decl.block);
    put_shape(b, ".maxntid ", entry->decl.max_block);
    if (entry->decl.min_blocks)
        put_number(b, ".minnctapersm ", entry->decl.min_blocks, "\n");
    ptxb_put(b, "{\n");
    put_declarations(b, number);
    if (entry->prologue.count)
        ptxb_put(b, "\n");
    put_prologue(b, &entry->prologue);
    if (next_of_body(b)->kind != INSN_COMMENT)
        ptxb_put(b, "\n");
    put_body(b, &entry->body);
    ptxb_put(b, "}\n");
}

bool ptxb_print(ptx_builder *b)
{
    char target[PTX_TARGET_NAME_SIZE];
    const int isa = ptx_builder_isa(b);
    size_t bytes = 0;

    for (uint32_t e = 0; e < b->entries.count; e++)
        bytes += ptxb_settle(b, &b->entries.at[e]);
    if (!ptxb_text_over_code(b, bytes))
        return false;
    ptxb_put(b, "// Written by ptxgen. The PTX ISA version is ");
    if (b->params.isa)
        ptxb_put(b, "pinned.\n");
    else {
        ptxb_put(b, "the least that has ");
        ptxb_put(b, b->isa_reason);
        ptxb_put(b, ".\n");
    }
    put_number(b, ".version ", (unsigned)isa / 10, ".");
    put_number(b, "", (unsigned)isa % 10, "\n.target ");
    ptxb_put(b, ptx_target_name(b->params.target, target));
    ptxb_put(b, "\n.address_size 64\n");
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (b->symbols.at[s].kind != SYMBOL_DYNAMIC)
            continue;
        ptxb_put(b, "\n.extern .shared .align 16 .b8 ");
        ptxb_put(b, b->symbols.at[s].name);
        ptxb_put(b, "[];\n");
        break;
    }
    for (uint32_t e = 0; e < b->entries.count && !b->failed; e++)
        put_entry(b, e);
    char *end = ptxb_room(b, 1);
    if (end)
        *end = 0;
    return !b->failed;
}

void ptx_comment(ptx_builder *b, const char *format, ...)
{
    va_list args;

    if (!ptxb_ready(b, "comment"))
        return;
    va_start(args, format);
    const char *text = ptxb_vformat(b, "comment", format, args);
    va_end(args);
    struct insn *insn = ptxb_append(b, INSN_COMMENT, 0, 0, 1);
    if (insn)
        ptxb_text_operand(b, insn, 0, OPERAND_TEXT, text);
}
