// SPDX-License-Identifier: MIT
// Source lines: .file, .loc and the names of functions, as nvcc -lineinfo writes them.
#include "print.h"

enum { INLINED_AT_ISA = 72 };

// ---- places -------------------------------------------------------------------------------------

// A place is "file:line". What has no line is all file, and its line 0.
static size_t file_length(const char *place)
{
    const char *colon = strrchr(place, ':');
    const size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

    return digits && digits < 9 && !colon[1 + digits] ? (size_t)(colon - place) : strlen(place);
}

// The number of the place's file, from 1; 0 after an error.
static uint32_t file_of(ptx_builder *b, const char *place, size_t length)
{
    for (uint32_t k = b->sources.count; k-- > 0;)
        if (b->sources.at[k].length == length && !memcmp(b->sources.at[k].place, place, length))
            return k + 1;
    if (!ROOM_FOR(b, b->sources, 1))
        return 0;
    b->sources.at[b->sources.count++] = (struct source) { place, (uint32_t)length };
    return b->sources.count;
}

// The number of the name, from 1; 0 after an error.
static uint32_t number_of(ptx_builder *b, const char *name)
{
    for (uint32_t k = b->inlined_names.count; k-- > 0;)
        if (!strcmp(b->inlined_names.at[k], name))
            return k + 1;
    if (!ROOM_FOR(b, b->inlined_names, 1))
        return 0;
    b->inlined_names.at[b->inlined_names.count++] = name;
    return b->inlined_names.count;
}

static void put_place(ptx_builder *b, const char *directive, const char *place)
{
    const size_t length = file_length(place);
    uint64_t line = 0;

    for (const char *at = place + length + (place[length] == ':'); *at; at++)
        line = 10 * line + (uint64_t)(*at - '0');
    ptxb_put_number(b, directive, file_of(b, place, length), " ");
    ptxb_put_number(b, "", line, " 0");
}

// ---- .loc ---------------------------------------------------------------------------------------

// What the code at the position is part of, and where that was called; false: the entry itself.
static bool outer_position(const ptx_builder *b, struct position x, const char **name,
                           struct position *outer)
{
    if (x.site) {
        const struct site *site = &b->sites.at[x.site - 1];
        *name = site->name;
        *outer = (struct position) { site->place, site->outer, x.frame };
        return outer->place;
    }
    if (!x.frame)
        return false;
    *name = x.frame->name;
    *outer = x.frame->at;
    return outer->place;
}

static bool is_place(const char *x, const char *y)
{
    return x == y || (x && y && !strcmp(x, y));
}

// `depth` in blocks: a .loc stands at the indentation of its instruction.
static void put_loc(ptx_builder *b, struct position x, unsigned depth)
{
    const char *name = NULL;
    struct position outer = { 0 };
    const uint32_t frame = x.frame ? x.frame->number : 0;
    const bool inlined =
        (!b->params.isa || b->params.isa >= INLINED_AT_ISA) && outer_position(b, x, &name, &outer);

    if (is_place(b->located.place, x.place) && b->located.site == x.site &&
        b->located.frame == frame)
        return;
    // The position of a call precedes those that name it.
    if (inlined && (b->located.site != x.site || b->located.frame != frame))
        put_loc(b, outer, depth);
    b->located = (struct located) { x.place, x.site, frame };
    ptxb_put_indent(b, depth);
    put_place(b, ".loc ", x.place);
    if (inlined && ptxb_require(b, "inlined", INLINED_AT_ISA, 0, ".loc with inlined_at")) {
        ptxb_put_number(b, ", function_name $inlined_", number_of(b, name), "");
        put_place(b, ", inlined_at ", outer.place);
    }
    put(b, "\n");
}

void ptxb_forget_loc(ptx_builder *b)
{
    b->located = (struct located) { 0 };
}

void ptxb_put_loc(ptx_builder *b, const char *place, uint32_t site, unsigned depth)
{
    b->printing = (struct position) { place, site, b->frame };
    if (place) {
        put_loc(b, b->printing, depth);
    } else if (b->located.place) { // line 0: it is not known
        ptxb_forget_loc(b);
        ptxb_put_indent(b, depth);
        put(b, ".loc 1 0 0\n");
    }
}

// ---- the module ---------------------------------------------------------------------------------

// ptxas reads ASCII alone, and has no escapes.
static void put_path(ptx_builder *b, const char *path, size_t length)
{
    for (size_t k = 0; k < length; k++) {
        const bool plain = path[k] >= 0x20 && path[k] < 0x7f && path[k] != '"' && path[k] != '\\';
        put_bytes(b, plain ? &path[k] : "?", 1);
    }
}

void ptxb_print_files(ptx_builder *b)
{
    const char *const folder = b->params.source_folder;

    if (b->sources.count)
        put(b, "\n");
    for (uint32_t k = 0; k < b->sources.count; k++) {
        const struct source *source = &b->sources.at[k];
        ptxb_put_number(b, ".file ", k + 1, " \"");
        if (folder && *folder && source->place[0] != '/') {
            put_path(b, folder, strlen(folder));
            put(b, folder[strlen(folder) - 1] == '/' ? "" : "/");
        }
        put_path(b, source->place, source->length);
        put(b, source->length ? "\"\n" : "unknown\"\n");
    }
}

void ptxb_print_inlined_names(ptx_builder *b)
{
    if (b->inlined_names.count)
        put(b, "\n.section .debug_str\n{\n");
    for (uint32_t k = 0; k < b->inlined_names.count; k++) {
        const char *name = b->inlined_names.at[k];
        ptxb_put_number(b, "$inlined_", k + 1, ": // ");
        ptxb_put_ascii(b, name, SIZE_MAX);
        put(b, "\n    .b8 ");
        for (; *name; name++)
            ptxb_put_number(b, "", (unsigned char)*name, ", ");
        put(b, "0\n");
    }
    if (b->inlined_names.count)
        put(b, "}\n");
}
