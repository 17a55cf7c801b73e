// SPDX-License-Identifier: MIT
#include "internal.h"

#include <string.h>

enum { MAX_ENTRIES = 10000 };

bool ptxb_valid_name(ptx_builder *b, const char *call, const char *name)
{
    size_t length = 0;

    if (!name || !*name) {
        ptxb_fail(b, call, "the name is missing");
        return false;
    }
    for (; name[length]; length++) {
        char c = name[length];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool digit = c >= '0' && c <= '9';
        if (!letter && !(digit && length)) {
            ptxb_fail(
                b, call,
                "'%.64s' is not a name: PTX wants letters, digits and '_', and no digit first",
                name);
            return false;
        }
    }
    if (!strcmp(name, "vprintf") || !strcmp(name, "__assertfail")) {
        ptxb_fail(b, call, "'%.64s' is a function of the driver", name);
        return false;
    }
    if (length > 1024 || (length == 1 && *name == '_') || !strcmp(name, "WARP_SZ")) {
        ptxb_fail(
            b, call,
            "'%.64s' is a name that PTX refuses: it is reserved, or longer than 1024 characters",
            name);
        return false;
    }
    return true;
}

static bool array_differs(ptx_builder *b, const char *call, const char *name)
{
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        if (!ptxb_is_of_module(&b->symbols.at[s]) || strcmp(b->symbols.at[s].name, name) != 0)
            continue;
        ptxb_fail(b, call,
                  b->symbols.at[s].kind == SYMBOL_TEXT ? "a text of the module declares '%.64s'"
                                                       : "the module already has an array '%.64s'",
                  name);
        return false;
    }
    return true;
}

// The threads and registers of a multiprocessor; a block of any target has at most these.
enum { MOST_RESIDENT = 2048, MOST_REGISTERS = 65536 };

static uint64_t threads_of(const uint32_t shape[3])
{
    uint64_t threads = 1;

    for (int axis = 0; axis < 3; axis++) // bounded first, so that the product cannot overflow
        threads *= shape[axis] > 2048 ? 2048 : shape[axis] ? shape[axis] : 1;
    return threads;
}

static bool valid_shape(ptx_builder *b, const char *what, const uint32_t shape[3])
{
    const uint64_t threads = threads_of(shape);

    if (shape[0] && threads <= 1024 && shape[2] <= 64)
        return true;
    ptxb_fail(b, "entry", ".%s = {%u, %u, %u}: a block has 1 to 1024 threads, at most 64 in z",
              what, shape[0], shape[1], shape[2]);
    return false;
}

static bool any(const uint32_t shape[3])
{
    return shape[0] || shape[1] || shape[2];
}

// If an entry and a parameter of any entry have the same name, ptxas refuses the text or crashes
// (13.0 does).
static bool names_differ(ptx_builder *b, const char *call, const char *entry, const char *param)
{
    if (strcmp(entry, param) != 0)
        return true;
    ptxb_fail(b, call,
              "'%.64s' names a parameter and an entry or function of the module; ptxas wants "
              "different names",
              param);
    return false;
}

bool ptxb_param_name_is_free(ptx_builder *b, const char *call, const char *name)
{
    if (!array_differs(b, call, name))
        return false;
    for (uint32_t e = 0; e < b->entries.count; e++)
        if (!names_differ(b, call, b->entries.at[e].decl.name, name))
            return false;
    return true;
}

bool ptxb_name_is_free(ptx_builder *b, const char *call, const char *name)
{
    for (uint32_t e = 0; e < b->entries.count; e++) {
        const struct entry *entry = &b->entries.at[e];
        if (!strcmp(entry->decl.name, name)) {
            ptxb_fail(b, call, "the module already has %s '%.64s'",
                      entry->is_function ? "a function" : "an entry", name);
            return false;
        }
        for (uint32_t k = 0; k < entry->params.count; k++)
            if (!strcmp(entry->params.at[k].info.name, name)) {
                ptxb_fail(b, call, "the module already has a parameter '%.64s', of %s '%.64s'",
                          name, ptxb_entry_kind(entry), entry->decl.name);
                return false;
            }
    }
    return array_differs(b, call, name);
}

// Whether an entry or function of this name can be opened now.
static bool may_open(ptx_builder *b, const char *call, const char *name)
{
    if (b->finished) {
        ptxb_fail(b, call, "the module is finished; nothing can be added");
        return false;
    }
    if (b->blocks.count) {
        const char *kind = ptxb_entry_kind(ptxb_entry(b));
        ptxb_fail(b, call,
                  "%s '%.64s' is still open: entries and functions do not nest, and a C break, "
                  "return or goto leaves one open",
                  kind, ptxb_entry(b)->decl.name);
        b->halted = true; // what follows would be part of it
        return false;
    }
    if (!ptxb_valid_name(b, call, name) || !array_differs(b, call, name))
        return false;
    for (uint32_t e = 0; e < b->entries.count; e++) {
        const struct entry *entry = &b->entries.at[e];
        if (strcmp(entry->decl.name, name) == 0) {
            ptxb_fail(b, call, "the module already has %s '%.64s'",
                      entry->is_function ? "a function" : "an entry", name);
            return false;
        }
        for (uint32_t k = 0; k < entry->params.count; k++)
            if (!names_differ(b, call, name, entry->params.at[k].info.name))
                return false;
    }
    if (b->entries.count == MAX_ENTRIES)
        ptxb_fail(b, call, "a module has at most %d entries", MAX_ENTRIES);
    return !b->failed;
}

static bool valid_entry(ptx_builder *b, const struct ptx_entry_params *decl)
{
    if (any(decl->block) && !valid_shape(b, "block", decl->block))
        return false;
    if (any(decl->max_block) && !valid_shape(b, "max_block", decl->max_block))
        return false;
    if (any(decl->block) && any(decl->max_block)) {
        ptxb_fail(b, "entry", ".block and .max_block exclude each other");
        return false;
    }
    if (decl->min_blocks && !any(decl->block) && !any(decl->max_block)) {
        ptxb_fail(b, "entry", ".min_blocks needs .block or .max_block beside it");
        return false;
    }
    if (decl->max_registers && (decl->max_registers < 24 || decl->max_registers > 255)) {
        ptxb_fail(b, "entry", ".max_registers = %u: a thread has 24 to 255", decl->max_registers);
        return false;
    }
    if (decl->max_registers && decl->min_blocks) {
        ptxb_fail(b, "entry", ".max_registers and .min_blocks both bound the registers; give one");
        return false;
    }
    const uint64_t threads = threads_of(any(decl->block) ? decl->block : decl->max_block);
    const uint32_t whole = ((uint32_t)threads + 31) / 32 * 32;
    if (decl->max_registers * whole > MOST_REGISTERS) {
        ptxb_fail(b, "entry",
                  ".max_registers = %u of %u threads: a block has at most %d registers, so at most "
                  "%u of a thread",
                  decl->max_registers, whole, MOST_REGISTERS, MOST_REGISTERS / whole);
        return false;
    }
    if (decl->min_blocks * threads > MOST_RESIDENT) {
        ptxb_fail(b, "entry",
                  ".min_blocks = %u of %u threads: a multiprocessor has at most %d threads",
                  decl->min_blocks, (unsigned)threads, MOST_RESIDENT);
        return false;
    }
    return true;
}

int ptxb_open_entry(ptx_builder *b, const char *call, struct entry entry)
{
    if (!b || b->failed || !may_open(b, call, entry.decl.name) || !valid_entry(b, &entry.decl))
        return ptxb_not_opened(b);
    entry.decl.name = ptxb_copy(b, entry.decl.name);
    entry.place = b->place;
    entry.rows = ROWS_ANY;
    entry.first_label = b->labels.count;
    entry.first_block = b->open.count;
    entry.first_reg = b->regs.count;
    entry.first_symbol = b->symbols.count;
    if (!entry.decl.name || !ROOM_FOR(b, b->entries, 1))
        return ptxb_not_opened(b);
    for (int k = 0; k < 2; k++)
        b->code[k].insns.count = b->code[k].operands.count = 0;
    b->extras.count = b->marks.count = b->uniforms.count = 0;
    b->marked = NULL;
    b->adrift = false;
    b->entries.at[b->entries.count++] = entry;
    b->first_reg = entry.first_reg;
    const uint32_t block =
        ptxb_open_block(b, (struct block) { .kind = entry.is_function ? BLOCK_FUNC : BLOCK_ENTRY });
    return block ? (int)block : ptxb_not_opened(b);
}

int ptx_entry_begin(ptx_builder *b, struct ptx_entry_params params)
{
    return ptxb_open_entry(b, "entry", (struct entry) { .decl = params });
}

uint32_t ptxb_block_threads(const struct entry *entry)
{
    const uint32_t *shape = entry->decl.block[0] ? entry->decl.block : entry->decl.max_block;

    return shape[0] * (shape[1] ? shape[1] : 1) * (shape[2] ? shape[2] : 1);
}

// The named barriers of functions can have all the threads that they wait for.
static bool barriers_can_end(ptx_builder *b, const struct entry *entry)
{
    const uint32_t threads = ptxb_block_threads(entry);

    for (uint32_t k = 0; threads && k < entry->reaches.count; k++) {
        const struct entry *function = &b->entries.at[entry->reaches.at[k]];
        if (function->named_threads <= (threads + 31) / 32 * 32)
            continue;
        ptxb_fail(b, "entry",
                  "function '%.64s' has a barrier that waits for %u threads, and a block of the "
                  "entry has %u: it would wait for ever",
                  function->decl.name, (unsigned)function->named_threads, threads);
        return false;
    }
    return true;
}

// Whether the entry's last block is open.
static bool blocks_are_closed(ptx_builder *b, const char *call, enum block_kind kind, int block)
{
    if (b->blocks.count == 1 && b->blocks.at[0].id == (uint32_t)block &&
        b->blocks.at[0].kind == kind)
        return ptxb_sites_are_closed(b, call);
    if (b->adrift && ptxb_follows(b))
        return false;
    const struct block *open = b->blocks.count ? &b->blocks.at[b->blocks.count - 1] : NULL;
    ptxb_fail_place(b, open && open->place ? open->place : b->place, open ? open->first : NO_INDEX,
                    call,
                    "a block inside it was never closed: a C break, return or goto left it (use "
                    "ptx_break_if or ptx_return_if)");
    return false;
}

// After an error of one check the others look for more.
static bool is_right(ptx_builder *b, struct entry *entry)
{
    bool right = ptxb_params_are_used(b, entry);

    ptxb_recover(b);
    right = !b->failed && ptxb_params_are_there(b, entry) && right;
    ptxb_recover(b);
    right = !b->failed && barriers_can_end(b, entry) && right;
    ptxb_recover(b);
    return !b->failed && ptxb_check_entry(b, entry) && right;
}

int ptxb_close_entry(ptx_builder *b, const char *call, enum block_kind kind, int block)
{
    ptxb_recover(b);
    if (!b || b->failed || block == NOT_OPENED)
        return 0;
    if (blocks_are_closed(b, call, kind, block) && !ptxb_entry(b)->wrong) {
        struct entry *entry = ptxb_entry(b);
        const struct insn *last = b->code[0].insns.count ? ptxb_newest(b) : NULL;
        if (!last || last->kind != INSN_RETURN || last->guarded)
            ptxb_return(b, 0);
        if (!b->failed && is_right(b, entry) && !b->errors.count)
            ptxb_print_entry(b, entry);
    }
    if (b->failed && (b->halted || !b->errors.count)) // the last error: all stays as it is
        return 0;
    for (uint32_t k = 0; k < b->blocks.count; k++)
        b->open.at[b->blocks.at[k].id] = false;
    b->blocks.count = 0;
    b->site = 0;
    b->closed_if = NO_INDEX;
    return 0;
}

int ptx_entry_end(ptx_builder *b, int block)
{
    return ptxb_close_entry(b, "entry", BLOCK_ENTRY, block);
}

// ---- arrays -------------------------------------------------------------------------------------

static uint32_t add_symbol(ptx_builder *b, struct symbol symbol)
{
    symbol.entry = (uint16_t)(b->entries.count - 1);
    if (b->failed || !ROOM_FOR(b, b->symbols, 1))
        return 0;
    ptxb_note_name(b, symbol.name);
    b->symbols.at[b->symbols.count++] = symbol;
    return b->symbols.count;
}

ptx_ptr ptxb_symbol_ptr(const ptx_builder *b, uint32_t number, ptx_space space, bool readonly)
{
    const struct symbol *symbol = &b->symbols.at[number - 1];

    return (ptx_ptr) { .base.bits = b->number,
                       .symbol = number,
                       .count = symbol->count,
                       .type = symbol->type,
                       .space = (uint8_t)space,
                       .readonly = readonly };
}

ptx_ptr ptxb_declare_array(ptx_builder *b, struct symbol symbol, ptx_space space, bool readonly)
{
    const uint32_t number = add_symbol(b, symbol);

    return number ? ptxb_symbol_ptr(b, number, space, readonly) : (ptx_ptr) { 0 };
}

static ptx_ptr array(ptx_builder *b, const char *call, enum symbol_kind kind, ptx_type type,
                     uint32_t count)
{
    static const uint8_t spaces[] = { PTX_SPACE_SHARED, PTX_SPACE_SHARED, PTX_SPACE_LOCAL };
    const uint64_t bytes = (uint64_t)count * ptx_type_bytes(type);
    const uint64_t limit = kind == SYMBOL_LOCAL ? LOCAL_BYTES : SHARED_BYTES;

    if (!ptxb_ready(b, call))
        return (ptx_ptr) { 0 };
    struct entry *entry = ptxb_entry(b);
    uint32_t *held = kind == SYMBOL_LOCAL ? &entry->local_bytes : &entry->shared_bytes;
    const uint32_t called = kind == SYMBOL_LOCAL ? entry->called_local : 0;
    if (!ptx_type_bytes(type) || (kind != SYMBOL_DYNAMIC && !count)) {
        if (ptx_type_bytes(type))
            ptxb_fail(b, call, "the array has no elements");
        else
            ptxb_fail(b, call, "an array cannot have elements of type %s", ptx_type_name(type));
        return (ptx_ptr) { 0 };
    }
    if (*held + called + bytes > limit) {
        ptxb_fail(b, call,
                  "%u element%s of %s: %llu bytes, and %u bytes are declared already; an entry "
                  "has at most %llu%s",
                  count, count == 1 ? "" : "s", ptx_type_name(type), (unsigned long long)bytes,
                  *held + called, (unsigned long long)limit,
                  kind == SYMBOL_SHARED ? "; ptx_shared_dynamic() can have more" : "");
        return (ptx_ptr) { 0 };
    }
    *held += (uint32_t)(bytes + 15) / 16 * 16;
    entry->own_shared += kind == SYMBOL_LOCAL ? 0 : (uint32_t)(bytes + 15) / 16 * 16;
    struct symbol symbol = { .kind = (uint8_t)kind, .type = (uint8_t)type, .count = count };
    symbol.name =
        kind == SYMBOL_DYNAMIC
            ? "$dynamic_shared"
            // The shared arrays of a function are the module's, because all calls share them.
            : ptxb_format(b, kind == SYMBOL_LOCAL ? "%s$local_%u" : "%s$shared_%u",
                          kind == SYMBOL_SHARED && entry->is_function ? entry->decl.name : "",
                          ++entry->arrays);
    return ptxb_declare_array(b, symbol, (ptx_space)spaces[kind], false);
}

ptx_ptr ptx_shared(ptx_builder *b, ptx_type type, uint32_t count)
{
    return array(b, "shared", SYMBOL_SHARED, type, count);
}

ptx_ptr ptx_shared_dynamic(ptx_builder *b, ptx_type type)
{
    return array(b, "shared_dynamic", SYMBOL_DYNAMIC, type, 0);
}

ptx_ptr ptx_local(ptx_builder *b, ptx_type type, uint32_t count)
{
    return array(b, "local", SYMBOL_LOCAL, type, count);
}

ptx_val ptxb_symbol_base(ptx_builder *b, uint32_t number)
{
    if (b->failed || !number)
        return (ptx_val) { 0 };
    struct symbol *symbol = &b->symbols.at[number - 1];
    const bool shared = symbol->kind <= SYMBOL_DYNAMIC;
    if (!symbol->base.kind || symbol->base.reg < ptxb_entry(b)->first_reg) {
        // Computed at the start of the entry: code after a branch could be skipped.
        b->in_prologue = true;
        ptx_val base = ptxb_register(b, shared ? PTX_U32 : PTX_U64);
        const uint32_t opcode = ptxb_mov_value(b, shared ? PTX_U32 : PTX_U64);
        struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, 1);
        if (insn) {
            ptxb_result(b, insn, 0, base);
            ptxb_text_operand(b, insn, 1, OPERAND_TEXT, symbol->name);
            insn->varying = symbol->kind == SYMBOL_LOCAL;
            symbol->base = base;
        }
        b->in_prologue = false;
    }
    return symbol->base;
}
