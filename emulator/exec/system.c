// SPDX-License-Identifier: MIT
// The functions that the driver defines for kernels: vprintf, which device printf() calls,
// __assertfail, which assert() calls, malloc and free.
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/report.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 8192, MOST_STRING = 2048 };

// The reads of one lane. After a fault, `failed` is set and reads give 0.
struct reader {
    struct emu_warp *warp;
    struct emu_op op; // the call, as a load of generic memory
    unsigned lane;
    bool failed;
};

static uint64_t read(struct reader *r, uint64_t address, unsigned bytes)
{
    struct emu_access access = { 0 };
    uint64_t value = 0;
    if (!r->failed &&
        !emu_lane_access(r->warp, &r->op, r->lane, address, bytes, EMU_USE_LOAD, &access))
        r->failed = true;
    for (unsigned k = 0; !r->failed && k < bytes; k++)
        value |= (uint64_t)access.host[k] << 8 * k;
    return value;
}

static void read_string(struct reader *r, uint64_t address, char *text, size_t size)
{
    size_t length = 0;
    while (length + 1 < size && (text[length] = (char)read(r, address + length, 1)))
        length++;
    text[length] = '\0';
}

// The arguments lie one after another, each aligned to its size.
static uint64_t next_argument(struct reader *r, uint64_t *at, unsigned bytes)
{
    *at = (*at + bytes - 1) / bytes * bytes;
    const uint64_t value = read(r, *at, bytes);
    *at += bytes;
    return value;
}

struct text {
    char at[MOST_TEXT];
    size_t length;
};

static void put(struct text *text, const char *at, size_t length)
{
    const size_t room = sizeof(text->at) - 1 - text->length;
    length = length < room ? length : room;
    memcpy(text->at + text->length, at, length);
    text->length += length;
    text->at[text->length] = '\0';
}

// "%-08.3lld": flags, width, precision, size, conversion.
struct spec {
    char flags[24];  // the '%', flags, width and precision
    unsigned longs;  // letters 'l'; 2 for j, z, t and L
    unsigned shorts; // letters 'h'
    char conversion; // 0: not one
    size_t length;   // of all of it
};

static struct spec read_spec(const char *at)
{
    struct spec s = { .flags = "%" };
    const char *end = at + 1;
    size_t used = 1;
    end += strspn(end, "-+ #0");
    end += strspn(end, "0123456789");
    if (*end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    for (const char *c = at + 1; c < end && used + 1 < sizeof(s.flags); c++)
        s.flags[used++] = *c;
    for (; *end && strchr("hlLjzt", *end); end++) {
        s.shorts += *end == 'h';
        s.longs += *end == 'h' ? 0 : *end == 'l' ? 1 : 2;
    }
    s.conversion = *end && strchr("diouxXcsaAfFeEgGp%", *end) ? *end : '\0';
    s.length = (size_t)(end - at) + (s.conversion != '\0');
    return s;
}

// Widths of more than some hundred would only fill the text.
static bool is_modest(const struct spec *s)
{
    unsigned value = 0;
    for (const char *c = s->flags; *c; c++) {
        value = *c >= '0' && *c <= '9' ? value * 10 + (unsigned)(*c - '0') : 0;
        if (value > 1000)
            return false;
    }
    return strlen(s->flags) + 4 < sizeof(s->flags);
}

// Takes the argument of the conversion.
static void convert(struct reader *r, const struct spec *s, uint64_t *at, struct text *text)
{
    char format[40], out[2048], string[MOST_STRING];
    int length = 0;
    const bool integer = strchr("diouxX", s->conversion) != NULL;
    const uint64_t bits =
        next_argument(r, at, (integer && s->longs == 0) || s->conversion == 'c' ? 4 : 8);
    double number;
    memcpy(&number, &bits, sizeof(number));
    snprintf(format, sizeof(format), "%s%s%c", s->flags,
             !integer        ? ""
             : s->longs      ? "ll"
             : s->shorts > 1 ? "hh"
             : s->shorts     ? "h"
                             : "",
             s->conversion);
    if (s->conversion == 's') {
        read_string(r, bits, string, sizeof(string));
        length = snprintf(out, sizeof(out), format, string);
    } else if (s->conversion == 'p') {
        length = snprintf(out, sizeof(out), format, (void *)(uintptr_t)bits);
    } else if (integer && s->longs) {
        length = snprintf(out, sizeof(out), format, (unsigned long long)bits);
    } else if (integer || s->conversion == 'c') {
        length = snprintf(out, sizeof(out), format, (unsigned)bits);
    } else {
        length = snprintf(out, sizeof(out), format, number);
    }
    if (length > 0)
        put(text, out, (size_t)length < sizeof(out) ? (size_t)length : sizeof(out) - 1);
}

// What CUDA's printf() returns: the number of arguments, or -1 without a format.
static int print(struct reader *r, uint64_t format_at, uint64_t arguments, struct text *text)
{
    char format[MOST_STRING];
    int count = 0;
    text->length = 0;
    if (format_at == 0)
        return -1;
    read_string(r, format_at, format, sizeof(format));
    for (const char *at = format; *at && !r->failed;) {
        const size_t plain = strcspn(at, "%");
        put(text, at, plain);
        at += plain;
        if (!*at)
            break;
        const struct spec s = read_spec(at);
        if (s.conversion == '%') {
            put(text, "%", 1);
        } else if (!s.conversion || !is_modest(&s)) {
            put(text, at, s.length); // as it stands
        } else {
            convert(r, &s, &arguments, text);
            count++;
        }
        at += s.length;
    }
    return count;
}

static uint64_t argument(struct emu_warp *warp, const struct emu_op *call, unsigned k,
                         unsigned lane)
{
    const struct emu_program *program = warp->block->exec->program;
    alignas(64) uint64_t scratch[EMU_LANES];
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    const void *lanes = emu_fetch(warp, frame, &call->src[k], scratch);
    uint64_t value = 0;
    const unsigned bytes = call->src[k].want;
    memcpy(&value, (const unsigned char *)lanes + (size_t)lane * bytes, bytes);
    return value;
}

// The results of the call, one of each lane.
static void give_back(struct emu_warp *warp, const struct emu_op *call, uint32_t mask,
                      const void *results)
{
    const struct emu_program *program = warp->block->exec->program;
    if (call->dst_count)
        emu_put(emu_frame(warp, warp->depth, program, warp->code),
                emu_init(warp, warp->depth, program, warp->code), &call->dst[0], mask, results);
}

static bool do_printf(struct emu_warp *warp, const struct emu_op *call, uint32_t mask)
{
    const struct emu_exec *exec = warp->block->exec;
    uint32_t counts[EMU_LANES] = { 0 };
    struct text text;
    for (uint32_t m = mask; m; m &= m - 1) {
        struct reader r = { warp, *call, emu_first(m), false };
        r.op.space = EMU_GENERIC;
        counts[r.lane] = (uint32_t)print(&r, argument(warp, call, 0, r.lane),
                                         argument(warp, call, 1, r.lane), &text);
        if (r.failed)
            return false;
        if (exec->config->print && text.length)
            exec->config->print(false, text.at, text.length);
    }
    give_back(warp, call, mask, counts);
    return true;
}

static bool do_assert(struct emu_warp *warp, const struct emu_op *call, uint32_t mask)
{
    const struct emu_block *block = warp->block;
    char message[512], file[512], function[512], thread[64];
    struct text text = { .length = 0 };
    unsigned line = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        struct reader r = { warp, *call, emu_first(m), false };
        const unsigned index = warp->index * EMU_LANES + r.lane;
        const uint32_t *size = block->exec->launch->block;
        char said[MOST_STRING];
        r.op.space = EMU_GENERIC;
        read_string(&r, argument(warp, call, 0, r.lane), message, sizeof(message));
        read_string(&r, argument(warp, call, 1, r.lane), file, sizeof(file));
        read_string(&r, argument(warp, call, 3, r.lane), function, sizeof(function));
        line = (unsigned)argument(warp, call, 2, r.lane);
        if (r.failed)
            return false;
        snprintf(thread, sizeof(thread), "[%u,%u,%u]", index % size[0], index / size[0] % size[1],
                 index / size[0] / size[1]);
        const int length = snprintf(
            said, sizeof(said), "%s:%u: %s: block: [%u,%u,%u], thread: %s Assertion `%s` failed.\n",
            file, line, function, (unsigned)block->id[0], (unsigned)block->id[1],
            (unsigned)block->id[2], thread, message);
        put(&text, said, length > 0 ? strlen(said) : 0);
    }
    if (block->exec->config->print)
        block->exec->config->print(true, text.at, text.length);
    return emu_fault(warp, call->insn, emu_first(mask), EMU_ASSERT,
                     "assertion `%s` failed: %s, line %u, function %s", message, file, line,
                     function);
}

static bool do_malloc(struct emu_warp *warp, const struct emu_op *call, uint32_t mask)
{
    const struct emu_exec *exec = warp->block->exec;
    uint64_t addresses[EMU_LANES] = { 0 };
    for (uint32_t m = mask; m && exec->launch->heap; m &= m - 1)
        addresses[emu_first(m)] =
            emu_heap_alloc(exec->memory, exec->launch->heap, argument(warp, call, 0, emu_first(m)));
    give_back(warp, call, mask, addresses);
    return true;
}

static bool do_free(struct emu_warp *warp, const struct emu_op *call, uint32_t mask)
{
    const struct emu_exec *exec = warp->block->exec;
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint64_t address = argument(warp, call, 0, emu_first(m));
        if (address == 0 ||
            (exec->launch->heap && emu_heap_free(exec->memory, exec->launch->heap, address)))
            continue;
        return emu_fault(warp, call->insn, emu_first(m), EMU_LAUNCH_FAILED,
                         "free() of 0x%llx, which malloc() of a kernel did not return or which was "
                         "freed before",
                         (unsigned long long)address);
    }
    return true;
}

bool emu_do_system(struct emu_warp *warp, const struct emu_op *call, uint32_t mask,
                   enum emu_system system)
{
    static bool (*const functions[])(struct emu_warp *, const struct emu_op *, uint32_t) = {
        [EMU_SYSTEM_VPRINTF] = do_printf,
        [EMU_SYSTEM_ASSERTFAIL] = do_assert,
        [EMU_SYSTEM_MALLOC] = do_malloc,
        [EMU_SYSTEM_FREE] = do_free,
    };
    return functions[system](warp, call, mask);
}
