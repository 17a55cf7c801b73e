// SPDX-License-Identifier: MIT
#include "internal.h"

#include <string.h>

enum { PARAM_BYTES = 4352, LARGE_PARAM_BYTES = 32764 };

static bool function_takes(ptx_builder *b, const char *call, const struct entry *function,
                           const struct ptx_param_info *info, bool array)
{
    if (array)
        ptxb_fail(b, call, "'%.64s' is an array; functions take values: pass its address",
                  info->name);
    else if (function->params.count == PTX_FUNC_MAX_PARAMS)
        ptxb_fail(b, call, "a function has at most %d parameters; '%.64s' is one more",
                  PTX_FUNC_MAX_PARAMS, info->name);
    return !b->failed;
}

// Checks the room for one more parameter; ISA 8.1 raised the limit.
static bool reserve(ptx_builder *b, const char *call, const char *name, uint64_t bytes,
                    uint32_t align)
{
    struct entry *entry = ptxb_entry(b);
    const uint64_t end = (entry->param_bytes + align - 1) / align * align + bytes;

    if (!bytes) {
        ptxb_fail(b, call, "parameter '%.64s' has no elements", name);
        return false;
    }
    if (end > LARGE_PARAM_BYTES) {
        ptxb_fail(b, call,
                  "parameter '%.64s' of %llu bytes makes %llu bytes of parameters; an entry takes "
                  "at most %d",
                  name, (unsigned long long)bytes, (unsigned long long)end, LARGE_PARAM_BYTES);
        return false;
    }
    entry->param_bytes = (uint32_t)end;
    return end <= PARAM_BYTES ||
           ptxb_require(b, call, 81, 70, "more than 4352 bytes of parameters");
}

static bool copy_strings(ptx_builder *b, struct ptx_param_info *info)
{
    const char **strings[] = { &info->name, &info->meaning, &info->length, &info->preset,
                               &info->low,  &info->high,    &info->format };

    for (size_t k = 0; k < sizeof strings / sizeof *strings; k++)
        if (*strings[k])
            *strings[k] = ptxb_copy(b, *strings[k]);
    return !b->failed;
}

static struct param *declare(ptx_builder *b, const char *call, ptx_type type, uint64_t bytes,
                             uint32_t align, const struct ptx_param_info *info)
{
    if (!ptxb_ready(b, call) || !ptxb_valid_name(b, call, info->name) ||
        !ptxb_param_name_is_free(b, call, info->name))
        return NULL;
    struct entry *entry = ptxb_entry(b);
    for (uint32_t k = 0; k < entry->params.count; k++) {
        if (strcmp(entry->params.at[k].info.name, info->name) == 0) {
            ptxb_fail(b, call, "the %s already has a parameter '%.64s'", ptxb_entry_kind(entry),
                      info->name);
            return NULL;
        }
    }
    if (!ptx_type_bytes(type) && !(entry->is_function && type == PTX_PRED)) {
        if (type == PTX_PRED)
            ptxb_fail(b, call,
                      "parameter '%.64s' cannot be pred, which memory does not hold; pass an "
                      "integer and compare it",
                      info->name);
        else
            ptxb_fail(b, call, "parameter '%.64s' needs a type; %d is not a ptx_type", info->name,
                      (int)type);
        return NULL;
    }
    if (entry->is_function ? !function_takes(b, call, entry, info, align == 16)
                           : !reserve(b, call, info->name, bytes, align))
        return NULL;
    if (!ROOM_FOR(b, entry->params, 1))
        return NULL;
    struct param *p = &entry->params.at[entry->params.count];
    memset(p, 0, sizeof *p);
    p->info = *info;
    p->place = b->place;
    p->index = b->code[0].insns.count;
    if (!copy_strings(b, &p->info))
        return NULL;
    entry->params.count++;
    p->info.type = (uint8_t)type;
    p->info.is_pointer = false;
    p->info.count = 0;
    return p;
}

// A function has its parameters in registers that are named as they are.
static uint32_t read_opcode(ptx_builder *b, ptx_type type)
{
    if (!ptxb_entry(b)->is_function)
        return ptxb_spell(b, "ld.param.", ptxb_memory_name(type), NULL);
    return type == PTX_PRED       ? ptxb_opcode(b, "setp.ne.u32")
           : ptxb_bits(type) < 32 ? ptxb_opcode(b, "cvt.u16.u32")
                                  : ptxb_mov_value(b, type);
}

// Loads the parameter at the start of the entry, so that it is defined on every path.
static ptx_val load_param(ptx_builder *b, ptx_type type, const char *name)
{
    const bool function = ptxb_entry(b)->is_function, flag = type == PTX_PRED;

    b->in_prologue = true;
    ptx_val x = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, read_opcode(b, type), 1, flag ? 2 : 1);
    if (insn) {
        insn->param = function;
        ptxb_result(b, insn, 0, x);
        ptxb_text_operand(b, insn, 1, function ? OPERAND_TEXT : OPERAND_PARAM, name);
        if (flag)
            ptxb_source(b, insn, 2, ptx_u32(0));
    }
    b->in_prologue = false;
    return x;
}

ptx_val ptx_param_emit(ptx_builder *b, ptx_type type, struct ptx_param_info info)
{
    const uint32_t bytes = ptx_type_bytes(type);
    struct param *p = declare(b, "param", type, bytes, bytes, &info);
    if (!p)
        return (ptx_val) { 0 };
    ptx_val x = load_param(b, type, p->info.name);
    p->reg = x.reg;
    return x;
}

ptx_ptr ptx_param_ptr_emit(ptx_builder *b, ptx_type type, struct ptx_param_info info)
{
    struct param *p = declare(b, "param_ptr", type, 8, 8, &info);
    if (!p)
        return (ptx_ptr) { 0 };
    if (info.readonly && info.writeonly) {
        ptxb_fail(b, "param_ptr", "'%.64s' is readonly and writeonly; nothing could use it",
                  info.name);
        return (ptx_ptr) { 0 };
    }
    p->info.is_pointer = true;
    ptx_val generic = load_param(b, PTX_U64, p->info.name);
    b->in_prologue = true;
    ptx_val address = ptxb_emit(b, PTX_U64, ptxb_opcode(b, "cvta.to.global.u64"), 1, &generic);
    b->in_prologue = false;
    p->reg = address.reg;
    return (ptx_ptr) { .base = address,
                       .param = ptxb_entry(b)->params.count,
                       .type = (uint8_t)type,
                       .space = PTX_SPACE_GLOBAL,
                       .readonly = info.readonly,
                       .writeonly = info.writeonly };
}

bool ptx_builder_param(const ptx_builder *b, unsigned e, unsigned k, struct ptx_param_info *info)
{
    uint32_t at = 0;

    for (unsigned left = e; b && at < b->entries.count; at++)
        if (!b->entries.at[at].is_function && !left--)
            break;
    if (!b || at >= b->entries.count || k >= b->entries.at[at].params.count)
        return false;
    if (info)
        *info = b->entries.at[at].params.at[k].info;
    return true;
}

ptx_ptr ptx_param_array(ptx_builder *b, ptx_type type, const char *name, uint32_t count)
{
    struct ptx_param_info info = { .name = name };
    const uint64_t bytes = (uint64_t)count * ptx_type_bytes(type);
    struct param *p = declare(b, "param_array", type, bytes, 16, &info);
    if (!p)
        return (ptx_ptr) { 0 };
    p->info.count = count;
    struct symbol symbol = {
        .name = p->info.name, .kind = SYMBOL_PARAM, .type = (uint8_t)type, .count = count
    };
    const ptx_ptr array = ptxb_declare_array(b, symbol, PTX_SPACE_PARAM, true);
    p->symbol = array.symbol;
    return array;
}

// ---- at the end of the entry --------------------------------------------------------------------

// What only loads the parameter, and nothing reads, is not printed.
static void drop_loads(ptx_builder *b, const char *name)
{
    const struct code *code = &b->code[1];
    uint32_t reg = 0;

    for (uint32_t k = 0; k < code->insns.count; k++) {
        struct insn *insn = &code->insns.at[k];
        const struct operand *operands = ptxb_operands(code, insn);
        const struct operand *source = &operands[1];
        const bool loads =
            (source->kind == OPERAND_PARAM || (insn->param && source->kind == OPERAND_TEXT)) &&
            b->extras.at[source->value].text == name;
        if (!loads && (!reg || ptxb_operand_reg(source) != reg))
            continue;
        insn->kind = INSN_DROPPED;
        reg = operands[0].id; // of a pointer, a conversion reads it
    }
}

// The first instruction of the body that reads the parameter; NO_INDEX: none is known.
static uint32_t first_use(const ptx_builder *b, const struct param *p)
{
    const struct code *code = &b->code[0];

    for (uint32_t k = 0; !p->symbol && k < code->insns.count; k++) {
        const struct insn *insn = &code->insns.at[k];
        const struct operand *operands = ptxb_operands(code, insn);
        for (unsigned n = insn->dst_count; n < insn->operand_count; n++)
            if (ptxb_operand_reg(&operands[n]) == p->reg)
                return k;
    }
    return NO_INDEX;
}

bool ptxb_params_are_used(ptx_builder *b, const struct entry *entry)
{
    bool all = true;

    for (uint32_t k = 0; k < entry->params.count; k++) {
        const struct param *p = &entry->params.at[k];
        const bool used =
            p->symbol ? b->symbols.at[p->symbol - 1].used : b->regs.at[p->reg].uses != 0;
        if (!used && p->info.unused && !p->symbol)
            drop_loads(b, p->info.name);
        if (used != p->info.unused)
            continue;
        const uint32_t use = used ? first_use(b, p) : NO_INDEX;
        const char *const place = use == NO_INDEX ? p->place : ptxb_place_of(b, use);
        ptxb_fail_place(b, place ? place : p->place, use == NO_INDEX ? p->index : use + 1,
                        p->info.is_pointer ? "param_ptr"
                        : p->symbol        ? "param_array"
                                           : "param",
                        used ? "parameter '%.64s' is declared .unused, and it is used; make "
                               ".unused false where it is, or do not use it"
                             : "parameter '%.64s' is never used; use it, do not declare it, or "
                               "declare it with .unused = true",
                        p->info.name);
        ptxb_recover(b);
        all = false;
    }
    return all;
}

// Decimal, in every locale; of a length, at most 19 digits.
static bool is_number(const char *text, bool length)
{
    const char *digits = text + (!length && *text == '-');
    const size_t count = strspn(digits, length ? "0123456789" : "0123456789.e+-");

    return *digits >= '0' && *digits <= '9' && !digits[count] && (!length || count < 20);
}

// Lengths and bounds are numbers, or the values of other parameters.
bool ptxb_params_are_there(ptx_builder *b, const struct entry *entry)
{
    for (uint32_t k = 0; k < entry->params.count; k++) {
        const struct ptx_param_info *info = &entry->params.at[k].info;
        const char *const fields[] = { "length", "low", "high" };
        const char *const texts[] = { info->length, info->low, info->high };
        for (int n = 0; n < 3; n++) {
            const bool length = n == 0;
            bool found = !texts[n] || is_number(texts[n], length) ||
                         (length && (info->computed_length || !strcmp(texts[n], "blocks")));
            for (uint32_t other = 0; !found && other < entry->params.count; other++) {
                const struct ptx_param_info *o = &entry->params.at[other].info;
                found = other != k && !o->is_pointer && !o->count && !strcmp(o->name, texts[n]) &&
                        (!length || ptxb_is_integer((ptx_type)o->type));
            }
            if (found)
                continue;
            ptxb_fail_place(b, entry->params.at[k].place, entry->params.at[k].index,
                            info->is_pointer ? "param_ptr" : "param",
                            ".%s of '%.64s' is \"%.64s\", and the %s has no such parameter of one "
                            "%s; give its name, %s",
                            fields[n], info->name, texts[n], ptxb_entry_kind(entry),
                            length ? "integer" : "value",
                            length ? "\"blocks\" or a decimal integer" : "or a decimal number");
            return false;
        }
    }
    return true;
}
