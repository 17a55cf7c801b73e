// SPDX-License-Identifier: MIT
// Loads by .nc of global memory that the same launch writes: a GPU may answer them from a cache
// that the write does not reach, so the result depends on the device and on time.
//
// For each byte that a launch writes or loads by .nc, a bit says so. The bits of a page of memory
// are made when it is first touched, and shared by the workers. Each sets its own bit first and
// then looks for the other, so that of two at the same time at least one finds it. Only launches of
// programs that have such loads pay for it.
//
// The same bits tell what a primary kernel writes, which lets dependents start before it ends. A
// dependent that reads it before griddepcontrol.wait may get what was there before.
#include "access.h"
#include "exec/check/report.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, WORD_BITS = 64, WORDS = PAGE_BYTES / WORD_BITS };

struct emu_constant_page {
    uintptr_t number;
    atomic_uint_fast64_t touched[2][WORDS]; // written; loaded by .nc
};

struct emu_constants {
    pthread_mutex_t lock; // guards everything below
    struct emu_constant_page **pages;
    size_t count, room; // room: a power of two
    char kernel[64];    // whose writes and loads these are
};

struct emu_constants *emu_constants_create(const char *kernel)
{
    struct emu_constants *constants = calloc(1, sizeof(*constants));
    if (!constants)
        return NULL;
    pthread_mutex_init(&constants->lock, NULL);
    strncpy(constants->kernel, kernel, sizeof(constants->kernel) - 1);
    return constants;
}

void emu_constants_destroy(struct emu_constants *constants)
{
    if (!constants)
        return;
    for (size_t i = 0; i < constants->room; i++)
        free(constants->pages[i]);
    free(constants->pages);
    pthread_mutex_destroy(&constants->lock);
    free(constants);
}

// The page's slot, or the vacant one for it. There is always a vacant one.
static struct emu_constant_page **slot_of(struct emu_constant_page **pages, size_t room,
                                          uintptr_t number)
{
    size_t at = (size_t)((uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);
    while (pages[at] && pages[at]->number != number)
        at = (at + 1) & (room - 1);
    return &pages[at];
}

static bool enlarge(struct emu_constants *constants)
{
    size_t room = constants->room ? 2 * constants->room : 64;
    struct emu_constant_page **fresh = calloc(room, sizeof(*fresh));
    if (!fresh)
        return false;
    for (size_t i = 0; i < constants->room; i++)
        if (constants->pages[i])
            *slot_of(fresh, room, constants->pages[i]->number) = constants->pages[i];
    free(constants->pages);
    constants->pages = fresh;
    constants->room = room;
    return true;
}

// NULL if host memory is out.
static struct emu_constant_page *find(struct emu_constants *constants, uintptr_t number)
{
    if (2 * constants->count >= constants->room && !enlarge(constants))
        return NULL;
    struct emu_constant_page **slot = slot_of(constants->pages, constants->room, number);
    if (!*slot) {
        *slot = calloc(1, sizeof(**slot));
        if (!*slot)
            return NULL;
        (*slot)->number = number;
        constants->count++;
    }
    return *slot;
}

static struct emu_constant_page *page_of(struct emu_worker *worker, uintptr_t number)
{
    struct emu_constant_page **cached = &worker->constant_pages[number % EMU_CONSTANT_PAGES];
    struct emu_constants *constants = worker->exec->constants;
    if (*cached && (*cached)->number == number)
        return *cached;
    pthread_mutex_lock(&constants->lock);
    struct emu_constant_page *page = find(constants, number);
    pthread_mutex_unlock(&constants->lock);
    if (page)
        *cached = page;
    return page;
}

// False if one of the bytes is also touched in the other way. Without host memory for a page, its
// bytes are not checked.
static bool touch(struct emu_worker *worker, const unsigned char *host, size_t bytes, bool load)
{
    uintptr_t at = (uintptr_t)host;
    const uintptr_t end = at + bytes;
    bool alone = true;
    while (at < end) {
        struct emu_constant_page *page = page_of(worker, at / PAGE_BYTES);
        const unsigned first = at % WORD_BITS;
        const uint64_t last = end - at < WORD_BITS - first ? first + (end - at) : WORD_BITS;
        const uint64_t bits = UINT64_MAX >> (WORD_BITS - last) & UINT64_MAX << first;
        const size_t word = at % PAGE_BYTES / WORD_BITS;
        at += last - first;
        if (!page)
            continue;
        if ((atomic_load_explicit(&page->touched[load][word], memory_order_relaxed) & bits) != bits)
            atomic_fetch_or(&page->touched[load][word], bits);
        alone &= !(atomic_load(&page->touched[!load][word]) & bits);
    }
    return alone;
}

// Whether a primary kernel, which has ended, wrote one of the bytes.
static bool has_written(const struct emu_constants *primary, const unsigned char *host,
                        size_t bytes)
{
    for (uintptr_t at = (uintptr_t)host; primary->room && at < (uintptr_t)host + bytes; at++) {
        const struct emu_constant_page *page =
            *slot_of(primary->pages, primary->room, at / PAGE_BYTES);
        if (page &&
            atomic_load(&page->touched[0][at % PAGE_BYTES / WORD_BITS]) >> at % WORD_BITS & 1)
            return true;
    }
    return false;
}

bool emu_constant_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                        const struct emu_reach *reach, uint32_t bytes, enum emu_use use)
{
    struct emu_worker *worker = warp->block->worker;
    const bool load = use == EMU_USE_LOAD;
    bool alone = true;
    if (worker->exec->primary && use != EMU_USE_STORE && !reach->shared && mask & ~warp->depended)
        return false; // lane by lane
    if (!worker->exec->constants || reach->shared || (load && !(op->insn && op->insn->nc)))
        return true;
    if (reach->in_row)
        return touch(worker, reach->host, (size_t)bytes * EMU_LANES, load);
    for (uint32_t m = mask; m; m &= m - 1)
        alone &= touch(worker, reach->host + reach->away[emu_first(m)], bytes, load);
    return alone;
}

bool emu_constant_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                         uint64_t address, const unsigned char *host, uint32_t bytes,
                         enum emu_use use)
{
    struct emu_worker *worker = warp->block->worker;
    const bool load = use == EMU_USE_LOAD;
    const struct emu_constants *primary = worker->exec->primary;
    if (primary && use != EMU_USE_STORE && !(warp->depended >> lane & 1) &&
        has_written(primary, host, bytes) &&
        !emu_report_finding(warp, op->insn, lane, EMU_FINDING_PRIMARY,
                            "this read at 0x%llx is of bytes that the primary kernel %s writes, "
                            "before griddepcontrol.wait",
                            (unsigned long long)address, primary->kernel))
        return false;
    if (!worker->exec->constants || (load && !(op->insn && op->insn->nc)) ||
        touch(worker, host, bytes, load))
        return true;
    return emu_report_finding(warp, op->insn, lane, EMU_FINDING_CONSTANT,
                              load ? "this load by .nc at 0x%llx is of bytes that the launch also "
                                     "writes: .nc is for memory that nothing writes while the "
                                     "kernel runs"
                                   : "this write at 0x%llx is to bytes that the launch also loads "
                                     "by .nc, which is for memory that nothing writes while the "
                                     "kernel runs",
                              (unsigned long long)address);
}
