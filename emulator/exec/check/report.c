// SPDX-License-Identifier: MIT
// Faults: one paragraph that says what happened, where in the text, and in which thread.
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *at;
    size_t size;
};

static void add_list(struct text text, const char *format, va_list args)
{
    if (text.size == 0)
        return;
    size_t used = strlen(text.at);
    vsnprintf(text.at + used, text.size - used, format, args);
}

static void add(struct text text, const char *format, ...) EMU_PRINTF(2, 3);
static void add(struct text text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_list(text, format, args);
    va_end(args);
}

static struct text report_of(const struct emu_exec *exec)
{
    return (struct text) { exec->report, exec->report_size };
}

void emu_report_append(struct emu_exec *exec, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_list(report_of(exec), format, args);
    va_end(args);
}

// Strips the blanks at both ends.
void emu_quote_line(const struct emu_module *module, uint32_t line, char *text, size_t size)
{
    const char *at = module->text;
    text[0] = 0;
    for (uint32_t k = 1; k < line && at; k++) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at || line == 0)
        return;
    while (*at == ' ' || *at == '\t')
        at++;
    char source[EMU_SOURCE];
    size_t length = strcspn(at, "\r\n");
    emu_module_source(module, line, source, sizeof(source));
    snprintf(text, size, ": `%.*s`%s%s", (int)(length < 160 ? length : 160), at,
             *source ? ", from " : "", source);
}

const char *emu_beside_line(const struct emu_module *module, uint32_t line, char text[EMU_SOURCE])
{
    char source[EMU_SOURCE - 4];
    emu_module_source(module, line, source, sizeof(source));
    snprintf(text, EMU_SOURCE, *source ? " (%s)" : "%s", source);
    return text;
}

void emu_describe_thread(const struct emu_block *block, uint32_t thread, char *text, size_t size)
{
    const uint32_t *b = block->exec->launch->block;
    snprintf(text, size, "(%u,%u,%u)", (unsigned)(thread % b[0]), (unsigned)(thread / b[0] % b[1]),
             (unsigned)(thread / b[0] / b[1]));
}

static const char *code_name(int result)
{
#define NAME(name, value, text)                                                                    \
    if (result == value)                                                                           \
        return #name;
    CUDA_ABI_RESULTS(NAME)
#undef NAME
    return "error";
}

// True for the first fault of the launch. The caller then holds the lock.
bool emu_report_begin(struct emu_exec *exec, int result)
{
    pthread_mutex_lock(&exec->lock);
    if (exec->result) {
        pthread_mutex_unlock(&exec->lock);
        return false;
    }
    exec->result = result;
    if (exec->report_size)
        exec->report[0] = 0;
    atomic_store(&exec->stop, true);
    return true;
}

void emu_report_end(struct emu_exec *exec)
{
    emu_report_append(exec, " (%d %s)", exec->result, code_name(exec->result));
    pthread_mutex_unlock(&exec->lock);
}

// What happened, where, and in which thread.
static void add_paragraph(struct text text, const struct emu_warp *warp,
                          const struct emu_insn *insn, unsigned lane, const char *format,
                          va_list args)
{
    const struct emu_block *block = warp->block;
    char who[64], line[EMU_QUOTE];
    add_list(text, format, args);
    emu_describe_thread(block, warp->index * EMU_LANES + lane, who, sizeof(who));
    add(text, "; kernel %s, block (%u,%u,%u) thread %s", block->exec->launch->entry->name,
        (unsigned)block->id[0], (unsigned)block->id[1], (unsigned)block->id[2], who);
    if (!insn)
        return;
    emu_quote_line(block->exec->launch->module, insn->line, line, sizeof(line));
    add(text, ", PTX line %u%s", (unsigned)insn->line, line);
}

bool emu_fault(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane, int result,
               const char *format, ...)
{
    struct emu_exec *exec = warp->block->exec;
    va_list args;
    if (!emu_report_begin(exec, result))
        return false;
    va_start(args, format);
    add_paragraph(report_of(exec), warp, insn, lane, format, args);
    va_end(args);
    emu_report_end(exec);
    return false;
}

bool emu_fault_launch(struct emu_exec *exec, int result, const char *format, ...)
{
    va_list args;
    if (!emu_report_begin(exec, result))
        return false;
    va_start(args, format);
    add_list(report_of(exec), format, args);
    va_end(args);
    emu_report_append(exec, "; kernel %s", exec->launch->entry->name);
    emu_report_end(exec);
    return false;
}

// ---- findings -----------------------------------------------------------------------------------

struct warning {
    uint32_t line;
    enum emu_finding kind;
    uint64_t count, told;
    char *text;
};

struct emu_warnings {
    pthread_mutex_t lock; // guards everything below
    struct warning *list;
    size_t count, room;
    void (*warn)(const char *text);
};

struct emu_warnings *emu_warnings_create(void)
{
    struct emu_warnings *warnings = calloc(1, sizeof(*warnings));
    if (warnings)
        pthread_mutex_init(&warnings->lock, NULL);
    return warnings;
}

static void tell(const struct emu_warnings *warnings, struct warning *w, const char *when)
{
    char text[4096];
    snprintf(text, sizeof(text), "warning: %s; %llu time%s %s", w->text,
             (unsigned long long)w->count, w->count == 1 ? "" : "s", when);
    w->told = w->count;
    if (warnings->warn)
        warnings->warn(text);
}

void emu_warnings_tell(struct emu_warnings *warnings, void (*warn)(const char *text))
{
    if (!warnings)
        return;
    pthread_mutex_lock(&warnings->lock);
    warnings->warn = warn;
    for (size_t i = 0; i < warnings->count; i++)
        if (warnings->list[i].told == 0)
            tell(warnings, &warnings->list[i], "in this launch");
    pthread_mutex_unlock(&warnings->lock);
}

void emu_warnings_destroy(struct emu_warnings **warnings)
{
    struct emu_warnings *old = *warnings;
    *warnings = NULL;
    for (size_t i = 0; old && i < old->count; i++) {
        if (old->list[i].count > old->list[i].told)
            tell(old, &old->list[i], "in all");
        free(old->list[i].text);
    }
    if (!old)
        return;
    free(old->list);
    pthread_mutex_destroy(&old->lock);
    free(old);
}

// The entry of the line and kind, or a vacant one; NULL if host memory is out.
static struct warning *warning_of(struct emu_warnings *warnings, uint32_t line,
                                  enum emu_finding kind)
{
    for (size_t i = 0; i < warnings->count; i++)
        if (warnings->list[i].line == line && warnings->list[i].kind == kind)
            return &warnings->list[i];
    if (warnings->count == warnings->room) {
        size_t room = warnings->room ? 2 * warnings->room : 16;
        struct warning *more = realloc(warnings->list, room * sizeof(*more));
        if (!more)
            return NULL;
        warnings->list = more;
        warnings->room = room;
    }
    warnings->list[warnings->count] = (struct warning) { line, kind, 0, 0, NULL };
    return &warnings->list[warnings->count++];
}

bool emu_report_finding(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                        enum emu_finding kind, const char *format, ...)
{
    struct emu_exec *exec = warp->block->exec;
    struct emu_warnings *warnings = exec->warnings;
    va_list args;
    va_start(args, format);
    if (!warnings) {
        char text[2048] = "";
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        return emu_fault(warp, insn, lane, EMU_LAUNCH_FAILED, "%s", text);
    }
    pthread_mutex_lock(&warnings->lock);
    struct warning *w = warning_of(warnings, insn ? insn->line : 0, kind);
    char text[4096] = "";
    if (w && !w->text) {
        add_paragraph((struct text) { text, sizeof(text) }, warp, insn, lane, format, args);
        w->text = strdup(text);
    }
    if (w && w->text)
        w->count++;
    pthread_mutex_unlock(&warnings->lock);
    va_end(args);
    return true;
}

// ---- accesses -----------------------------------------------------------------------------------

bool emu_fault_address(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                       uint64_t address, uint32_t bytes, enum emu_access_fault fault,
                       const char *verb)
{
    struct emu_exec *exec = warp->block->exec;
    uint64_t start = 0, size = 0;
    bool freed = false;
    char near[160] = "no allocation is near";
    if (address >= EMU_SHARED_WINDOW && address < EMU_WINDOWS_END) {
        snprintf(near, sizeof(near),
                 "a generic address of %s: the access names another state space",
                 address < EMU_LOCAL_WINDOW   ? "shared memory"
                 : address < EMU_PARAM_WINDOW ? "local memory"
                                              : "parameters");
    } else if (emu_memory_nearest(exec->memory, address, &start, &size, &freed)) {
        const char *what = freed ? "freed allocation" : "allocation";
        unsigned long long from = (unsigned long long)start, n = (unsigned long long)size;
        if (address < start)
            snprintf(near, sizeof(near), "%llu bytes before the %s of %llu bytes at 0x%llx",
                     (unsigned long long)(start - address), what, n, from);
        else if (address - start >= size)
            snprintf(near, sizeof(near),
                     "%llu bytes past the end of the %s of %llu bytes at 0x%llx",
                     (unsigned long long)(address - start - size), what, n, from);
        else
            snprintf(near, sizeof(near), "at byte %llu of the %s of %llu bytes at 0x%llx",
                     (unsigned long long)(address - start), what, n, from);
    }
    return emu_fault(warp, op->insn, lane, EMU_ILLEGAL_ADDRESS, "%s: %s of %u bytes at 0x%llx, %s",
                     fault == EMU_ACCESS_FREED ? "use after free" : "out of bounds", verb,
                     (unsigned)bytes, (unsigned long long)address, near);
}

bool emu_fault_window(struct emu_warp *warp, const struct emu_op *op, unsigned lane, unsigned space,
                      uint64_t given, uint64_t offset, uint32_t bytes, const char *verb)
{
    const struct emu_exec *exec = warp->block->exec;
    unsigned long long at = (unsigned long long)given, o = (unsigned long long)offset;
    switch (space) {
    case EMU_SHARED:
        return emu_fault(warp, op->insn, lane, EMU_ILLEGAL_ADDRESS,
                         "out of bounds: %s of %u bytes at 0x%llx: the block has %u bytes of "
                         "shared memory, %u of them dynamic",
                         verb, (unsigned)bytes, at, (unsigned)exec->shared_bytes,
                         (unsigned)exec->launch->dynamic_shared);
    case EMU_LOCAL:
        return emu_fault(warp, op->insn, lane, EMU_ILLEGAL_ADDRESS,
                         "out of bounds: %s of %u bytes at 0x%llx: byte %llu of %llu bytes of "
                         "local memory",
                         verb, (unsigned)bytes, at, o, (unsigned long long)exec->local_bytes);
    default:
        return emu_fault(warp, op->insn, lane, EMU_ILLEGAL_ADDRESS,
                         "out of bounds: %s of %u bytes at 0x%llx: byte %llu of %u bytes of "
                         "parameters",
                         verb, (unsigned)bytes, at, o, (unsigned)exec->launch->entry->param_bytes);
    }
}
