// SPDX-License-Identifier: MIT
#include "memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/// Stays in the list for good and is used again for other ranges: `version` is odd while it
/// changes, so that a reader without a lock knows to look again.
struct emu_host_range {
    struct emu_host_range *next;
    atomic_uint version;
    _Atomic uint64_t start, bytes; // bytes is 0 when not in use
};

void emu_host_ranges_init(struct emu_host_ranges *ranges)
{
    atomic_init(&ranges->first, NULL);
    pthread_mutex_init(&ranges->lock, NULL);
}

void emu_host_ranges_destroy(struct emu_host_ranges *ranges)
{
    struct emu_host_range *range = atomic_load(&ranges->first);
    while (range) {
        struct emu_host_range *next = range->next;
        free(range);
        range = next;
    }
    pthread_mutex_destroy(&ranges->lock);
}

static void assign(struct emu_host_range *range, uint64_t start, uint64_t bytes)
{
    atomic_fetch_add(&range->version, 1);
    atomic_store(&range->start, start);
    atomic_store(&range->bytes, bytes);
    atomic_fetch_add(&range->version, 1);
}

/// One to be used for the range; NULL if it overlaps another or memory is out.
static struct emu_host_range *vacant(struct emu_host_ranges *ranges, uint64_t start, uint64_t bytes)
{
    struct emu_host_range *found = NULL, *first = atomic_load(&ranges->first);
    for (struct emu_host_range *range = first; range; range = range->next) {
        uint64_t size = atomic_load(&range->bytes), from = atomic_load(&range->start);
        if (size == 0)
            found = range;
        else if (start < from + size && from < start + bytes)
            return NULL;
    }
    if (found)
        return found;
    found = calloc(1, sizeof(*found));
    if (found) {
        found->next = first;
        atomic_store(&ranges->first, found);
    }
    return found;
}

bool emu_host_ranges_add(struct emu_host_ranges *ranges, uint64_t start, uint64_t bytes)
{
    if (bytes == 0 || start >= EMU_DEVICE_BASE || bytes > EMU_DEVICE_BASE - start)
        return false;
    pthread_mutex_lock(&ranges->lock);
    struct emu_host_range *range = vacant(ranges, start, bytes);
    if (range)
        assign(range, start, bytes);
    pthread_mutex_unlock(&ranges->lock);
    return range;
}

bool emu_host_ranges_remove(struct emu_host_ranges *ranges, uint64_t start)
{
    pthread_mutex_lock(&ranges->lock);
    struct emu_host_range *range = atomic_load(&ranges->first);
    while (range && (atomic_load(&range->bytes) == 0 || atomic_load(&range->start) != start))
        range = range->next;
    if (range)
        assign(range, 0, 0);
    pthread_mutex_unlock(&ranges->lock);
    return range;
}

bool emu_host_ranges_find(struct emu_host_ranges *ranges, uint64_t address, uint64_t bytes,
                          uint64_t *start, uint64_t *size)
{
    struct emu_host_range *range = atomic_load_explicit(&ranges->first, memory_order_acquire);
    while (range) {
        unsigned version = atomic_load(&range->version);
        uint64_t from = atomic_load(&range->start), length = atomic_load(&range->bytes);
        if (version % 2 || version != atomic_load(&range->version))
            continue;
        uint64_t offset = address - from;
        if (address < from || offset >= length || bytes > length - offset) {
            range = range->next;
            continue;
        }
        if (start)
            *start = from;
        if (size)
            *size = length;
        return true;
    }
    return false;
}
