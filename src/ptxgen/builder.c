// SPDX-License-Identifier: MIT
// The builder object: creation, memory, the end.
#include "internal.h"
#include "print.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *ptxgen_version(void)
{
    return TEXT(PTXGEN_VERSION_MAJOR) "." TEXT(PTXGEN_VERSION_MINOR) "." TEXT(PTXGEN_VERSION_PATCH);
}

struct insn *ptxb_mark_place(ptx_builder *b, struct insn *newest)
{
    if (b->in_prologue || !ROOM_FOR(b, b->marks, 1))
        return b->failed ? NULL : newest;
    b->marked = b->place;
    b->marks.at[b->marks.count++] = (struct mark) { b->place, b->code[0].insns.count - 1, b->site };
    return newest;
}

void ptx_builder_place(ptx_builder *b, const char *place)
{
    ptxb_recover(b);
    if (b)
        b->place = place;
}

// ---- memory -------------------------------------------------------------------------------------

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes; // the total at this point
};

// Size of the first memory block of a builder.
enum { FIRST_CHUNK_BYTES = 8192, CHUNK_BYTES = 4096, ALIGNMENT = sizeof(uint64_t) };

static_assert(alignof(union extra) <= ALIGNMENT && alignof(struct param) <= ALIGNMENT &&
                  sizeof(struct arena_chunk) % ALIGNMENT == 0 &&
                  sizeof(ptx_builder) % ALIGNMENT == 0,
              "the arena aligns to ALIGNMENT");

void *ptxb_resize(ptx_builder *b, void *memory, size_t old_bytes, size_t bytes)
{
    void *moved;

    if (b->params.resize)
        moved = b->params.resize(b->params.user, memory, bytes);
    else if (bytes)
        moved = realloc(memory, bytes);
    else {
        free(memory);
        moved = NULL;
    }
    if (bytes && !moved) {
        b->out_of_memory |= !b->failed && !b->explaining && !b->errors.count;
        ptxb_fail(b, NULL, "out of memory");
        return NULL;
    }
    b->bytes += bytes - old_bytes;
    if (b->bytes > b->peak)
        b->peak = b->bytes;
    return moved;
}

void *ptxb_alloc(ptx_builder *b, size_t bytes)
{
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if ((size_t)(b->arena_end - b->arena) < bytes) {
        const size_t least = sizeof(struct arena_chunk) + bytes;
        const size_t size = least < CHUNK_BYTES ? CHUNK_BYTES : least;
        struct arena_chunk *chunk = ptxb_resize(b, NULL, 0, size);
        if (!chunk)
            return NULL;
        *chunk = (struct arena_chunk) { b->chunks, size };
        b->chunks = chunk;
        b->arena = (char *)(chunk + 1);
        b->arena_end = (char *)chunk + size;
    }
    void *memory = b->arena;
    b->arena += bytes;
    return memory;
}

// Initial capacities: enough for a small kernel.
static uint32_t first_capacity(size_t size)
{
    return (uint32_t)(512 / size);
}

static bool set_capacity(ptx_builder *b, void **at, uint32_t *capacity, size_t size,
                         uint32_t wanted)
{
    const bool in_arena = *capacity <= first_capacity(size);
    void *moved = in_arena ? ptxb_resize(b, NULL, 0, wanted * size)
                           : ptxb_resize(b, *at, *capacity * size, wanted * size);

    if (!moved)
        return false;
    if (in_arena && *capacity)
        memcpy(moved, *at, *capacity * size);
    *at = moved;
    *capacity = wanted;
    return true;
}

bool ptxb_grow(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t least,
               uint32_t most)
{
    const uint32_t first = first_capacity(size);
    const uint32_t usual = !*capacity              ? first
                           : *capacity < 4 * first ? 4 * first
                                                   : *capacity / 2 * 3;
    const uint32_t larger = usual < least ? least : usual < most ? usual : most;

    if (least > most) {
        ptxb_fail(b, NULL,
                  "the module is too large: it has more than %u values, labels or the like", most);
        return false;
    }
    if (*capacity || larger > first)
        return set_capacity(b, at, capacity, size, larger);
    *at = ptxb_alloc(b, larger * size);
    *capacity = *at ? larger : 0;
    return *at;
}

void ptxb_push(ptx_builder *b, const void *from, size_t bytes)
{
    const uint32_t words = (uint32_t)((bytes + 7) / 8);

    if (!b)
        return;
    if (b->lost_operands || !ROOM_FOR(b, b->operands, words)) {
        b->lost_operands += words;
        return;
    }
    memcpy(&b->operands.at[b->operands.count], from, bytes);
    b->operands.count += words;
}

static void release(ptx_builder *b, void *memory, uint32_t capacity, size_t size)
{
    if (capacity > first_capacity(size))
        ptxb_resize(b, memory, capacity * size, 0);
}

#define RELEASE(b, list) release(b, (list).at, (list).capacity, sizeof *(list).at)

static void release_entry(ptx_builder *b, const struct entry *entry)
{
    RELEASE(b, entry->params);
    RELEASE(b, entry->reaches);
}

static void release_all(ptx_builder *b)
{
    for (uint32_t e = 0; e < b->entries.count; e++)
        release_entry(b, &b->entries.at[e]);
    for (int k = 0; k < 2; k++) {
        RELEASE(b, b->code[k].insns);
        RELEASE(b, b->code[k].operands);
    }
    RELEASE(b, b->regs);
    RELEASE(b, b->open);
    RELEASE(b, b->opcodes);
    RELEASE(b, b->extras);
    RELEASE(b, b->marks);
    RELEASE(b, b->uniforms);
    RELEASE(b, b->labels);
    RELEASE(b, b->symbols);
    RELEASE(b, b->entries);
    RELEASE(b, b->blocks);
    RELEASE(b, b->sites);
    RELEASE(b, b->sources);
    RELEASE(b, b->inlined_names);
    RELEASE(b, b->operands);
    RELEASE(b, b->errors);
    RELEASE(b, b->text);
    while (b->chunks) {
        struct arena_chunk *next = b->chunks->next;
        ptxb_resize(b, b->chunks, b->chunks->bytes, 0);
        b->chunks = next;
    }
}

const char *ptxb_copy(ptx_builder *b, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = ptxb_alloc(b, bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

enum { USUAL_BYTES = 256 };

// A short text of %s, %u and %d without flags, as most are: what vsnprintf() writes, for less.
// Returns its length, or -1 if it is none.
static int format_usual(char usual[USUAL_BYTES], const char *format, va_list args)
{
    char *at = usual, *const last = usual + USUAL_BYTES - 1 - INTEGER_BYTES;

    for (;; format += 2) {
        const char *const directive = strchr(format, '%');
        const size_t plain = directive ? (size_t)(directive - format) : strlen(format);
        if (plain >= (size_t)(last - at))
            return -1;
        at = write_bytes(at, format, plain);
        format += plain;
        if (!directive)
            break;
        if (format[1] == 's') {
            const char *string = va_arg(args, const char *);
            const size_t length = string ? strlen(string) : SIZE_MAX;
            if (length >= (size_t)(last - at))
                return -1;
            at = write_bytes(at, string, length);
        } else if (format[1] == 'u') {
            at = write_unsigned(at, va_arg(args, unsigned));
        } else if (format[1] == 'd') {
            const int64_t x = va_arg(args, int);
            *at = '-';
            at = write_unsigned(at + (x < 0), (uint64_t)(x < 0 ? -x : x));
        } else {
            return -1;
        }
        if (at >= last)
            return -1;
    }
    *at = 0;
    return (int)(at - usual);
}

char *ptxb_vformat(ptx_builder *b, const char *call, const char *format, va_list args)
{
    char usual[USUAL_BYTES];
    va_list again;

    va_copy(again, args);
    int length = format_usual(usual, format, again);
    va_end(again);
    if (length < 0) {
        va_copy(again, args);
        length = vsnprintf(usual, sizeof usual, format, again);
        va_end(again);
    }
    if (length < 0) {
        ptxb_fail(b, call, "the C library cannot write '%.64s' with these arguments", format);
        return NULL;
    }
    char *text = ptxb_alloc(b, (size_t)length + 1);
    if (text && (size_t)length < sizeof usual)
        memcpy(text, usual, (size_t)length + 1);
    else if (text)
        vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

char *ptxb_format(ptx_builder *b, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *text = ptxb_vformat(b, NULL, format, args);
    va_end(args);
    return text;
}

// ---- life ---------------------------------------------------------------------------------------

static void choose_target(ptx_builder *b)
{
    char name[PTX_TARGET_NAME_SIZE];

    if (!b->params.target.sm)
        b->params.target.sm = 80;
    ptx_target_name(b->params.target, name);
    int least = ptxb_target_isa(b->params.target);
    if (!least) {
        ptxb_fail(b, "builder_create",
                  "unknown target %s; ptxgen knows sm_70 to sm_121 (ptx_target_at "
                  "lists them)",
                  name);
        return;
    }
    if (b->params.isa && !ptx_isa_exists(b->params.isa)) {
        ptxb_fail(b, "builder_create",
                  "there is no PTX ISA %d.%d; .isa is ten times major plus minor, 80 for 8.0",
                  b->params.isa / 10, b->params.isa % 10);
        return;
    }
    b->isa = least;
    b->isa_reason = ptxb_copy(b, name);
    if (b->params.isa && b->params.isa < least)
        ptxb_fail(b, "builder_create", "target %s needs PTX ISA %d.%d; the text is pinned to %d.%d",
                  name, least / 10, least % 10, b->params.isa / 10, b->params.isa % 10);
}

// A number that no builder of the process has had: a value keeps it, and is refused by all other
// builders, also by one at the address of a builder that was destroyed. Nothing but a count that
// outlives them tells these two apart. The text does not depend on it. An odd step
// reaches each number of 64 bits once. Two copies of the library begin at different addresses, so
// their numbers differ, too.
static uint64_t new_number(void)
{
    static atomic_uint_least64_t made;

    return (uint64_t)(uintptr_t)&made +
           UINT64_C(0x9e3779b97f4a7c15) *
               (1 + atomic_fetch_add_explicit(&made, 1, memory_order_relaxed));
}

ptx_builder *ptx_builder_create(const struct ptx_builder_params *params)
{
    const size_t bytes = sizeof(ptx_builder) + FIRST_CHUNK_BYTES;
    ptx_builder *b =
        params && params->resize ? params->resize(params->user, NULL, bytes) : malloc(bytes);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    if (params)
        b->params = *params;
    b->bytes = b->peak = bytes;
    b->arena = (char *)(b + 1);
    b->arena_end = b->arena + FIRST_CHUNK_BYTES;
    b->closed_if = NO_INDEX;
    b->number = new_number();
    choose_target(b);
    // Index 0 of each list means "none"; the first chunk has room for these entries.
    if (ROOM_FOR(b, b->regs, 1) && ROOM_FOR(b, b->opcodes, 1) && ROOM_FOR(b, b->open, 1)) {
        b->regs.at[b->regs.count++] = (struct reg) { 0 };
        b->opcodes.at[b->opcodes.count++] = (struct opcode) { 0 };
        b->open.at[b->open.count++] = false;
    }
    return b;
}

void ptx_builder_destroy(ptx_builder **builder)
{
    if (!builder || !*builder)
        return;
    ptx_builder *b = *builder;
    *builder = NULL;
    release_all(b);
    if (b->params.resize)
        b->params.resize(b->params.user, b, 0);
    else
        free(b);
}

const char *ptx_builder_error(const ptx_builder *b)
{
    if (!b)
        return "the builder is NULL: out of memory when it was created, or destroyed";
    return b->errors.count ? b->errors.at[0] : b->failed ? b->error : NULL;
}

bool ptx_builder_out_of_memory(const ptx_builder *b)
{
    return !b || b->out_of_memory;
}

struct ptx_builder_info ptx_builder_get_info(const ptx_builder *b)
{
    if (!b)
        return (struct ptx_builder_info) { .isa_reason = "" };
    return (struct ptx_builder_info) {
        .target = b->params.target,
        .isa = b->params.isa ? b->params.isa : b->isa,
        .isa_reason = b->params.isa   ? "pinned"
                      : b->isa_reason ? b->isa_reason
                                      : "",
        .peak_bytes = b->peak,
        .blocks = b->blocks.count,
    };
}

// Whether a call only computes values, which are the same on every GPU.
static bool computes_values(const char *call)
{
    static const char *const others[] = {
        "var",      "set",      "copy",     "select",   "bitcast",     "pack",    "unpack",
        "cvt",      "cvt_pack", "comment",  "if",       "else",        "else_if", "for",
        "for_down", "break",    "break_if", "continue", "continue_if", "inlined",
    };

    if (!strncmp(call, "math_", strlen("math_")))
        return true;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strcmp(call, others[k]))
            return true;
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++) {
        const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)op);
        if (info->shape && !strcmp(call, info->name))
            return !(info->forms[0].modifiers & PTX_MOD_APPROX);
    }
    return false;
}

bool ptxb_ready_if(ptx_builder *b, const char *call)
{
    if (!b || b->failed)
        return false;
    if (b->finished)
        ptxb_fail(b, call, "the module is finished; nothing can be added");
    else if (!b->blocks.count && b->adrift && ptxb_follows(b))
        return false;
    else if (!b->blocks.count)
        ptxb_fail(b, call,
                  "there is no open entry; call it inside ptx_entry (b, \"name\") { ... }");
    else if (!b->restriction.within || computes_values(call))
        return true;
    else if (!strcmp(call, "loop") || !strcmp(call, "while"))
        ptxb_fail(b, call,
                  "%.64s may have no ptx_while and no ptx_loop, which might never end; ptx_for "
                  "and ptx_for_down count",
                  b->restriction.within);
    else
        ptxb_fail(b, call,
                  "%.64s may only compute values, the same on every GPU: no memory, threads, "
                  "calls, texts, jumps or approximations",
                  b->restriction.within);
    return false;
}

struct ptx_restriction ptx_builder_restrict(ptx_builder *b, struct ptx_restriction to)
{
    const struct ptx_restriction before = b ? b->restriction : (struct ptx_restriction) { 0 };

    if (b)
        b->restriction = to;
    return before;
}

bool ptx_builder_is_usable(const ptx_builder *b, ptx_val x)
{
    const unsigned bits = ptxb_bits((ptx_type)x.type);

    if (!b || b->failed || !b->blocks.count || !bits)
        return false;
    return x.kind == PTX_KIND_IMMEDIATE
               ? bits > 63 || x.bits >> bits == 0
               : (x.kind == PTX_KIND_REGISTER || x.kind == PTX_KIND_VARIABLE) &&
                     x.bits == b->number && x.reg >= b->first_reg && x.reg < b->regs.count &&
                     ptxb_is_open(b, b->regs.at[x.reg].where);
}

bool ptxb_require(ptx_builder *b, const char *call, int isa, int sm, const char *what)
{
    char name[PTX_TARGET_NAME_SIZE];

    if (b->failed || !what)
        return false;
    if (b->params.target.sm < sm) {
        ptxb_fail(b, call, "%s needs sm_%d or newer; the target is %s", what, sm,
                  ptx_target_name(b->params.target, name));
        return false;
    }
    if (b->params.isa && b->params.isa < isa) {
        ptxb_fail(b, call, "%s needs PTX ISA %d.%d; the text is pinned to %d.%d", what, isa / 10,
                  isa % 10, b->params.isa / 10, b->params.isa % 10);
        return false;
    }
    if (b->isa < isa) {
        b->isa = isa;
        b->isa_reason = what;
    }
    return true;
}

// Targets with 'a' run on one architecture; those with 'f' on its later ones, too.
static bool has_target(struct ptx_target has, struct ptx_target least)
{
    if (!least.suffix)
        return has.sm >= least.sm;
    if (least.suffix == 'a')
        return has.sm == least.sm && has.suffix == 'a';
    return has.sm >= least.sm && has.sm / 10 == least.sm / 10 && has.suffix;
}

bool ptxb_require_target(ptx_builder *b, const char *call, int isa, struct ptx_target least,
                         const char *what)
{
    char name[PTX_TARGET_NAME_SIZE], wanted[PTX_TARGET_NAME_SIZE];

    if (!b->failed && least.suffix && !has_target(b->params.target, least))
        ptxb_fail(b, call, "%s needs %s%s; the target is %s", what, ptx_target_name(least, wanted),
                  least.suffix == 'f' ? " or a later target of its family" : "",
                  ptx_target_name(b->params.target, name));
    return ptxb_require(b, call, isa, least.sm, what);
}

struct entry *ptxb_entry(ptx_builder *b)
{
    return &b->entries.at[b->entries.count - 1];
}

static const char *block_names[] = { "ptx_entry",   "ptx_func", "ptx_if",  "ptx_else",
                                     "ptx_else_if", "ptx_for",  "ptx_loop" };

static bool entries_are_complete(ptx_builder *b)
{
    bool found = false;

    for (uint32_t e = 0; e < b->entries.count; e++) {
        const struct entry *entry = &b->entries.at[e];
        found |= !entry->is_function;
        if (!entry->is_function || entry->is_called)
            continue;
        ptxb_fail_place(b, entry->place, NO_INDEX, "func",
                        "function '%.64s' is never called; call it or do not write it",
                        entry->decl.name);
        ptxb_recover(b);
    }
    if (b->failed || b->errors.count)
        return false;
    if (!found)
        ptxb_fail(b, "builder_finish",
                  "the module has no entry; ptx_entry (b, \"name\") opens one");
    return found;
}

static const char *block_name(const struct block *open)
{
    return open->kind == BLOCK_LOOP && open->is_while ? "ptx_while"
           : open->kind == BLOCK_FOR && open->down    ? "ptx_for_down"
                                                      : block_names[open->kind];
}

const char *ptx_builder_finish(ptx_builder *b)
{
    if (!b)
        return NULL;
    if (b->finished)
        return b->text.at;
    if (b->failed)
        return NULL;
    if (b->blocks.count && !(b->adrift && ptxb_follows(b))) {
        const struct block *open = &b->blocks.at[b->blocks.count - 1];
        ptxb_fail_place(b, open->place ? open->place : b->place, open->first, "builder_finish",
                        "a %s block was never closed: a C break, return or goto left it (use "
                        "ptx_break_if or ptx_return_if), or this call stands inside it",
                        block_name(open));
        return NULL;
    }
    if (b->errors.count || !entries_are_complete(b) || !ptxb_print_module(b)) {
        b->failed = true;
        return NULL;
    }
    b->finished = true;
    return b->text.at;
}
