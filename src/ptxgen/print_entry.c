// SPDX-License-Identifier: MIT
// Prints a finished entry, the functions that it calls, and the module around it.
#include "print.h"

// ---- entries ------------------------------------------------------------------------------------

static void put_param_comment(ptx_builder *b, uint32_t start, const struct ptx_param_info *info)
{
    if (!info->is_pointer && !info->meaning)
        return;
    put(b, "// ");
    if (info->is_pointer) {
        put(b, ptx_type_name((ptx_type)info->type));
        put(b, "[");
        ptxb_put_ascii(b, info->length ? info->length : "", SIZE_MAX);
        put(b, info->unused      ? "], unused"
               : info->readonly  ? "], read only"
               : info->writeonly ? "], written"
                                 : "]");
        put(b, info->meaning ? ": " : "");
    }
    ptxb_put_comment_text(b, start, PARAM_COLUMN, info->meaning ? info->meaning : "");
}

// The type in which a function gets a value.
static const char *param_type(const struct ptx_param_info *info)
{
    return info->is_pointer ? "u64"
                            : ptx_type_name(ptxb_mov_type(ptxb_carrier((ptx_type)info->type)));
}

static void put_params(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->params.count; k++) {
        const struct ptx_param_info *info = &entry->params.at[k].info;
        const uint32_t line_start = b->text.count;
        const char *comma = k + 1 < entry->params.count ? "," : "";
        put(b, info->count ? "    .param .align 16 ." : "    .param .");
        put(b, info->is_pointer ? "u64" : ptxb_memory_name((ptx_type)info->type));
        put(b, " ");
        put(b, info->name);
        if (info->count)
            ptxb_put_number(b, "[", info->count, "]");
        put(b, comma);
        char *at = text_end(b, MOST_COLUMN + 1);
        if (at && (info->is_pointer || info->meaning))
            set_end(b, write_to_column(at, b->text.at + line_start, PARAM_COLUMN));
        put_param_comment(b, line_start, info);
        put(b, "\n");
    }
}

static void put_shape(ptx_builder *b, const char *directive, const uint32_t shape[3])
{
    if (!shape[0] && !shape[1] && !shape[2])
        return;
    ptxb_put_number(b, directive, shape[0], ", ");
    ptxb_put_number(b, "", shape[1] ? shape[1] : 1, ", ");
    ptxb_put_number(b, "", shape[2] ? shape[2] : 1, "\n");
}

static void put_array(ptx_builder *b, const struct symbol *symbol)
{
    put(b, symbol->kind == SYMBOL_SHARED ? ".shared" : ".local");
    put(b, " .align 16 .");
    put(b, ptxb_memory_name((ptx_type)symbol->type));
    put(b, " ");
    put(b, symbol->name);
    ptxb_put_number(b, "[", symbol->count, "];\n");
}

// Up to symbol `end`.
static void put_declarations(ptx_builder *b, const struct entry *entry, uint32_t end)
{
    for (int file = 0; file < FILE_COUNT; file++)
        if (entry->registers[file]) {
            ptxb_put_indent(b, b->nesting + 1);
            put(b, ".reg .");
            put(b, ptxb_register_files[file].type);
            put(b, " ");
            put(b, ptxb_register_files[file].prefix);
            ptxb_put_number(b, "<", entry->registers[file] + 1, ">;\n");
        }
    for (uint32_t s = entry->first_symbol; s < end; s++) {
        const struct symbol *symbol = &b->symbols.at[s];
        if (symbol->kind != SYMBOL_LOCAL && (symbol->kind != SYMBOL_SHARED || entry->is_function))
            continue;
        ptxb_put_indent(b, b->nesting + 1);
        put_array(b, symbol);
    }
}

// Instructions, with their places if source lines are written: those of the marks.
static void put_code(ptx_builder *b, const struct code *code, const struct mark *mark,
                     const struct mark *end)
{
    for (uint32_t k = 0; k < code->insns.count && !b->failed; k++) {
        const struct insn *insn = &code->insns.at[k];
        const unsigned depth = insn->depth + b->nesting;
        struct insn nested;
        if (b->nesting) {
            nested = *insn;
            nested.depth = depth < MOST_DEPTH ? (uint8_t)depth : MOST_DEPTH;
            insn = &nested;
        }
        while (mark < end && mark + 1 < end && mark[1].index <= k)
            mark++;
        if (mark < end && mark->index <= k && insn->kind != INSN_DROPPED &&
            insn->kind != INSN_LABEL && insn->kind != INSN_COMMENT)
            ptxb_put_loc(b, mark->place, mark->site, insn->depth);
        ptxb_put_insn(b, insn, ptxb_operands(code, insn));
    }
}

static void put_codes(ptx_builder *b, const char *place, const struct code code[2],
                      const struct mark *marks, uint32_t mark_count)
{
    const struct mark *const end = b->params.line_info ? marks + mark_count : marks;

    if (code[1].insns.count)
        put(b, "\n");
    if (b->params.line_info)
        ptxb_put_loc(b, place, 0, b->nesting + 1);
    put_code(b, &code[1], NULL, NULL);
    if (code[0].insns.at[0].kind != INSN_COMMENT)
        put(b, "\n");
    put_code(b, &code[0], marks, end);
}

// ---- functions that are written inline ----------------------------------------------------------

static void *copy_of(ptx_builder *b, const void *from, size_t bytes)
{
    void *copy = ptxb_alloc(b, bytes + 1);

    return copy && bytes ? memcpy(copy, from, bytes) : copy;
}

static void keep(ptx_builder *b, struct entry *function)
{
    struct kept *kept = copy_of(b, &(struct kept) { .end_symbol = b->symbols.count }, sizeof *kept);

    for (unsigned k = 0; kept && k < 2; k++) {
        const struct code *code = &b->code[k];
        kept->code[k] = *code;
        kept->code[k].insns.at =
            copy_of(b, code->insns.at, code->insns.count * sizeof *code->insns.at);
        kept->code[k].operands.at =
            copy_of(b, code->operands.at, code->operands.count * sizeof *code->operands.at);
    }
    if (!kept)
        return;
    kept->code[0].insns.count--; // the return at the end
    kept->extras = copy_of(b, b->extras.at, b->extras.count * sizeof *b->extras.at);
    if (b->params.line_info) {
        kept->marks = copy_of(b, b->marks.at, b->marks.count * sizeof *b->marks.at);
        kept->mark_count = kept->marks ? b->marks.count : 0;
    }
    function->kept = kept;
}

static void put_register(ptx_builder *b, unsigned depth, const char *type, const char *name,
                         uint32_t number)
{
    ptxb_put_indent(b, depth);
    put(b, ".reg .");
    put(b, type);
    put(b, " ");
    put(b, name);
    if (number)
        ptxb_put_number(b, "$", number, "");
    put(b, ";\n");
}

static const char *result_type(const ptx_builder *b, const struct entry *function, uint32_t k)
{
    return ptxb_register_files[b->regs.at[function->result_reg + k].file].type;
}

// Two scopes: registers of the names of the parameters and the result, which the caller's registers
// are copied to and from; and in it the function, whose other names hide those of the caller.
void ptxb_put_inline(ptx_builder *b, const struct insn *call, const struct operand *operands)
{
    const unsigned depth = call->depth + 1u, first = call->dst_count + 1u;
    const struct entry *function = &b->entries.at[operands[call->dst_count].id];
    const uint32_t outer = b->inlining, nesting = b->nesting, number = ++b->inlined;
    union extra *const extras = b->extras.at;
    char result[24];
    const struct frame frame = { function->decl.name, b->printing, number };

    ptxb_put_indent(b, depth - 1);
    put(b, "{ // ");
    put(b, function->decl.name);
    put(b, ", inline\n");
    for (uint32_t k = 0; k < function->results; k++) {
        *ptxb_write_result(result, k) = 0;
        put_register(b, depth, result_type(b, function, k), result, number);
    }
    for (uint32_t k = 0; k < function->params.count; k++) {
        const struct ptx_param_info *info = &function->params.at[k].info;
        put_register(b, depth, param_type(info), info->name, 0);
    }
    for (uint32_t k = 0; k < function->params.count; k++) {
        const struct ptx_param_info *info = &function->params.at[k].info;
        ptxb_put_opcode(b, depth, "mov.", param_type(info));
        put(b, info->name);
        put(b, ", ");
        ptxb_put_bare(b, &operands[first + k]);
        put(b, ";\n");
    }
    ptxb_put_indent(b, depth);
    put(b, "{\n");
    b->inlining = number;
    b->nesting = depth;
    b->frame = &frame;
    b->extras.at = function->kept->extras;
    put_declarations(b, function, function->kept->end_symbol);
    put_codes(b, function->place, function->kept->code, function->kept->marks,
              function->kept->mark_count);
    b->extras.at = extras;
    b->frame = frame.at.frame;
    b->nesting = nesting;
    b->inlining = outer;
    ptxb_put_number(b, "$return$", number, ":\n");
    ptxb_put_indent(b, depth);
    put(b, "}\n");
    if (call->dst_count && b->params.line_info)
        ptxb_put_loc(b, frame.at.place, frame.at.site, depth);
    for (uint32_t k = 0; k < call->dst_count; k++) {
        ptxb_put_opcode(b, depth, "mov.", result_type(b, function, k));
        ptxb_put_bare(b, &operands[k]);
        put(b, ", ");
        *ptxb_write_result(result, k) = 0;
        put(b, result);
        ptxb_put_number(b, "$", number, ";\n");
    }
    ptxb_put_indent(b, depth - 1);
    put(b, "}\n");
}

// Of a function: the module's, so that all calls have the same.
static void put_shared(ptx_builder *b, const struct entry *function)
{
    for (uint32_t s = function->first_symbol; s < b->symbols.count; s++)
        if (b->symbols.at[s].kind == SYMBOL_SHARED) {
            put(b, "\n");
            put_array(b, &b->symbols.at[s]);
        }
}

void ptxb_print_entry(ptx_builder *b, struct entry *entry)
{
    const struct code *prologue = &b->code[1], *body = &b->code[0];
    const size_t about =
        ((size_t)prologue->insns.count + body->insns.count) * LINE_BYTES + ENTRY_BYTES;

    ptxb_settle(b, entry);
    if (entry->is_function) {
        put_shared(b, entry);
        keep(b, entry);
        return;
    }
    if (!ROOM_FOR_UP_TO(UINT32_MAX / 2, b, b->text, (uint32_t)about))
        return;
    put(b, "\n.visible .entry ");
    put(b, entry->decl.name);
    put(b, "(\n");
    put_params(b, entry);
    put(b, ")\n");
    put_shape(b, ".reqntid ", entry->decl.block);
    put_shape(b, ".maxntid ", entry->decl.max_block);
    if (entry->decl.min_blocks)
        ptxb_put_number(b, ".minnctapersm ", entry->decl.min_blocks, "\n");
    if (entry->decl.max_registers)
        ptxb_put_number(b, ".maxnreg ", entry->decl.max_registers, "\n");
    put(b, "{\n");
    put_declarations(b, entry, b->symbols.count);
    ptxb_forget_loc(b);
    put_codes(b, entry->place, b->code, b->marks.at, b->marks.count);
    put(b, "}\n");
}

// ---- the context of an error --------------------------------------------------------------------

// The comment above instruction `index` of the body, or NULL.
static const char *comment_above(const ptx_builder *b, uint32_t index)
{
    const struct code *code = &b->code[0];

    while (index-- > 0)
        if (code->insns.at[index].kind == INSN_COMMENT)
            return b->extras.at[ptxb_operands(code, &code->insns.at[index])[0].value].text;
    return NULL;
}

void ptxb_print_context(ptx_builder *b, uint32_t index, char *to, size_t size)
{
    enum { LINES = 3 };
    const struct code *code = &b->code[0];
    const uint32_t start = b->text.count;
    uint32_t first = index, written = 0, lines = 0;

    for (uint32_t k = 0; k < index; k++)
        written += code->insns.at[k].kind != INSN_LABEL && code->insns.at[k].kind != INSN_COMMENT;
    if (!written)
        return;
    ptxb_settle(b, ptxb_entry(b));
    while (first > 0 && lines < LINES)
        lines +=
            code->insns.at[--first].kind <= INSN_WARP && code->insns.at[first].kind != INSN_LABEL;
    const char *comment = comment_above(b, index);
    ptxb_put_number(b, "\nafter ", written, written == 1 ? " instruction" : " instructions");
    put(b, comment ? " of the entry, below '" : " of the entry");
    ptxb_put_ascii(b, comment ? comment : "", SIZE_MAX);
    put(b, comment ? "'; the last lines:\n" : "; the last lines:\n");
    for (uint32_t k = first; k < index; k++)
        if (code->insns.at[k].kind != INSN_COMMENT)
            ptxb_put_insn(b, &code->insns.at[k], ptxb_operands(code, &code->insns.at[k]));
    const size_t length = b->text.count - start - 1; // without the last line break
    if (!b->failed && length < size) {
        memcpy(to, b->text.at + start, length);
        to[length] = 0;
    }
    b->text.count = start;
}

// ---- the module ---------------------------------------------------------------------------------

static void put_header(ptx_builder *b)
{
    char target[PTX_TARGET_NAME_SIZE];
    const int isa = ptx_builder_get_info(b).isa;

    put(b, "// Written by ptxgen. The PTX ISA version is ");
    put(b, b->params.isa ? "pinned" : "the least that has ");
    put(b, b->params.isa ? "" : b->isa_reason);
    ptxb_put_number(b, ".\n.version ", (unsigned)isa / 10, ".");
    ptxb_put_number(b, "", (unsigned)isa % 10, "\n.target ");
    put(b, ptx_target_name(b->params.target, target));
    put(b, "\n.address_size 64\n");
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (b->symbols.at[s].kind != SYMBOL_DYNAMIC)
            continue;
        put(b, "\n.extern .shared .align 16 .b8 ");
        put(b, b->symbols.at[s].name);
        put(b, "[];\n");
        break;
    }
    ptxb_print_files(b);
    ptxb_print_externals(b);
    ptxb_print_data(b);
}

bool ptxb_print_module(ptx_builder *b)
{
    ptxb_print_inlined_names(b);
    const uint32_t entries = b->text.count;

    // The header depends on the whole module, so it is written last and moved to the start.
    put_header(b);
    const uint32_t header = b->text.count - entries;
    if (!text_end(b, header))
        return false;
    memmove(b->text.at + header, b->text.at, entries + header);
    memcpy(b->text.at, b->text.at + entries + header, header);
    put_bytes(b, "", 1);
    return !b->failed;
}
