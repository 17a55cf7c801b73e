// SPDX-License-Identifier: MIT
// The first error of a build, or all of them: what each is about, and its place.
#include "internal.h"
#include "print.h"

#include <stdio.h>

// What an error is about: a place, or what follows `index` instructions of the open entry's body.
struct subject {
    const char *place;
    uint32_t index;
};

static bool in_entry(const ptx_builder *b)
{
    return b->blocks.count && b->entries.count;
}

// Appends to the message, of which `length` bytes are written; returns the new length.
static size_t append(ptx_builder *b, size_t length, const char *format, va_list args)
{
    const size_t room = sizeof b->error - length;
    const int more = vsnprintf(b->error + length, room, format, args);

    return more < 0 ? length : length + ((size_t)more < room ? (size_t)more : room - 1);
}

static size_t append_text(ptx_builder *b, size_t length, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    length = append(b, length, format, args);
    va_end(args);
    return length;
}

enum { MOST_OF_PLACE = 160 };

// The end of a long path is the part that tells files apart.
static size_t append_place(ptx_builder *b, const char *place)
{
    const size_t length = strlen(place);
    const bool cut = length > MOST_OF_PLACE;

    return append_text(b, 0, "%s%s: ", cut ? "..." : "",
                       cut ? place + length - MOST_OF_PLACE : place);
}

// ---- all errors ---------------------------------------------------------------------------------

enum { MOST_ERRORS = 20 };

// Keeps the error that was written, unless it is there. Without a place it is the last.
static void keep_error(ptx_builder *b, bool has_place)
{
    b->halted |= !has_place || b->errors.count + 1 == MOST_ERRORS;
    for (uint32_t k = 0; k < b->errors.count; k++)
        if (!strcmp(b->errors.at[k], b->error))
            return;
    const char *copy = ROOM_FOR(b, b->errors, 1) ? ptxb_copy(b, b->error) : NULL;
    if (copy)
        b->errors.at[b->errors.count++] = copy;
    b->halted |= !copy;
}

void ptxb_recover(ptx_builder *b)
{
    if (!b || !b->failed || !b->errors.count || b->halted)
        return;
    b->failed = false;
    b->in_prologue = false;
    b->within = NULL;
}

bool ptxb_follows(ptx_builder *b)
{
    if (!b->errors.count)
        return false;
    b->failed = true;
    if (in_entry(b))
        ptxb_entry(b)->wrong = true;
    return true;
}

int ptxb_not_opened(ptx_builder *b)
{
    if (b)
        b->adrift = true;
    return b && b->errors.count ? NOT_OPENED : 1;
}

const char *ptx_builder_error_at(const ptx_builder *b, unsigned k)
{
    return b && k < b->errors.count ? b->errors.at[k] : k == 0 ? ptx_builder_error(b) : NULL;
}

// ---- one error ----------------------------------------------------------------------------------

static void fail_with(ptx_builder *b, struct subject subject, const char *call, const char *format,
                      va_list args)
{
    size_t length = 0;

    if (!b || b->failed)
        return;
    b->failed = true;
    if (b->explaining) // no memory for the context of an error that is written already
        return;
    if (in_entry(b))
        ptxb_entry(b)->wrong = true;
    b->error[0] = 0;
    if (subject.place)
        length = append_place(b, subject.place);
    if (in_entry(b))
        length = append_text(b, length, "%.64s: ", ptxb_entry(b)->decl.name);
    if (call)
        length = append_text(b, length, "ptx_%s: ", b->within ? b->within : call);
    length = append(b, length, format, args);
    if (!subject.place && subject.index != NO_INDEX && in_entry(b) && !b->errors.count) {
        b->explaining = true;
        b->failed = false;
        ptxb_print_context(b, subject.index, b->error + length, sizeof b->error - length);
        b->failed = true;
    }
    const bool first = !b->errors.count;
    if (b->params.all_errors)
        keep_error(b, subject.place);
    if (first && b->params.on_error)
        b->params.on_error(b->params.user, b->error);
}

// What is written now: the call under way.
static struct subject call_under_way(const ptx_builder *b)
{
    return (struct subject) { b ? b->place : NULL, b ? b->code[0].insns.count : 0 };
}

void ptxb_fail(ptx_builder *b, const char *call, const char *format, ...)
{
    struct subject subject = call_under_way(b);
    va_list args;

    if (!call) { // no memory, or a list at its limit: an instruction may be incomplete
        subject.index = NO_INDEX;
        if (b && !b->failed)
            b->halted = true;
    }
    va_start(args, format);
    fail_with(b, subject, call, format, args);
    va_end(args);
}

void ptx_builder_fail(ptx_builder *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(b, call_under_way(b), NULL, format, args);
    va_end(args);
}

uint32_t ptxb_index_of(const ptx_builder *b, ptx_val x)
{
    const struct code *code = &b->code[0];

    if (x.kind != PTX_KIND_REGISTER && x.kind != PTX_KIND_VARIABLE)
        return NO_INDEX;
    for (uint32_t index = code->insns.count; index--;) {
        const struct operand *operands = ptxb_operands(code, &code->insns.at[index]);
        for (unsigned k = 0; k < code->insns.at[index].dst_count; k++)
            if (ptxb_operand_reg(&operands[k]) == x.reg)
                return index;
    }
    return NO_INDEX;
}

void ptx_builder_fail_value(ptx_builder *b, ptx_val x, const char *format, ...)
{
    struct subject subject = call_under_way(b);
    const uint32_t index = b && in_entry(b) ? ptxb_index_of(b, x) : NO_INDEX;
    va_list args;

    if (index != NO_INDEX)
        subject = (struct subject) { ptxb_place_of(b, index), index + 1 };
    if (b && in_entry(b) && !subject.place)
        subject.place = b->place ? b->place : ptxb_place_of(b, NO_INDEX);
    va_start(args, format);
    fail_with(b, subject, NULL, format, args);
    va_end(args);
}

void ptxb_fail_place(ptx_builder *b, const char *place, uint32_t index, const char *call,
                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(b, (struct subject) { place, index }, call, format, args);
    va_end(args);
}

// The last mark at or before the instruction.
const char *ptxb_place_of(const ptx_builder *b, uint32_t index)
{
    uint32_t first = 0, last = b->marks.count;

    while (first < last) {
        const uint32_t middle = first + (last - first) / 2;
        if (b->marks.at[middle].index <= index)
            first = middle + 1;
        else
            last = middle;
    }
    return first ? b->marks.at[first - 1].place : NULL;
}

void ptxb_fail_insn(ptx_builder *b, uint32_t index, const char *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(b, (struct subject) { ptxb_place_of(b, index), index + 1 }, call, format, args);
    va_end(args);
}
