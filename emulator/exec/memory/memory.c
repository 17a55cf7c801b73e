// SPDX-License-Identifier: MIT
// The memory of a device: allocations, and host memory at its own addresses.
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "exec/base/exec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- host memory --------------------------------------------------------------------------------

/// Stays in the list for ever and is reused for other ranges. `version` is odd during a change, so
/// that a reader without a lock knows that it must read again.
struct host_range {
    struct host_range *next;
    atomic_uint version;
    _Atomic uint64_t start, bytes; // bytes is 0 if unused
};

struct host_ranges {
    _Atomic(struct host_range *) first;
    pthread_mutex_t lock; // for changes
};

static void host_ranges_init(struct host_ranges *ranges)
{
    atomic_init(&ranges->first, NULL);
    pthread_mutex_init(&ranges->lock, NULL);
}

static void host_ranges_destroy(struct host_ranges *ranges)
{
    struct host_range *range = atomic_load(&ranges->first);
    while (range) {
        struct host_range *next = range->next;
        free(range);
        range = next;
    }
    pthread_mutex_destroy(&ranges->lock);
}

static void assign(struct host_range *range, uint64_t start, uint64_t bytes)
{
    atomic_fetch_add(&range->version, 1);
    atomic_store(&range->start, start);
    atomic_store(&range->bytes, bytes);
    atomic_fetch_add(&range->version, 1);
}

/// Returns an entry for the range; NULL if it overlaps another one or memory is out.
static struct host_range *vacant(struct host_ranges *ranges, uint64_t start, uint64_t bytes)
{
    struct host_range *found = NULL, *first = atomic_load(&ranges->first);
    for (struct host_range *range = first; range; range = range->next) {
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

static bool host_ranges_add(struct host_ranges *ranges, uint64_t start, uint64_t bytes)
{
    if (bytes == 0 || start >= EMU_DEVICE_BASE || bytes > EMU_DEVICE_BASE - start)
        return false;
    pthread_mutex_lock(&ranges->lock);
    struct host_range *range = vacant(ranges, start, bytes);
    if (range)
        assign(range, start, bytes);
    pthread_mutex_unlock(&ranges->lock);
    return range;
}

static bool host_ranges_remove(struct host_ranges *ranges, uint64_t start)
{
    pthread_mutex_lock(&ranges->lock);
    struct host_range *range = atomic_load(&ranges->first);
    while (range && (atomic_load(&range->bytes) == 0 || atomic_load(&range->start) != start))
        range = range->next;
    if (range)
        assign(range, 0, 0);
    pthread_mutex_unlock(&ranges->lock);
    return range;
}

// Finds the range that contains all of [address, address + bytes). Lock-free; `start` and `size`
// may be NULL.
static bool host_ranges_find(struct host_ranges *ranges, uint64_t address, uint64_t bytes,
                             uint64_t *start, uint64_t *size)
{
    struct host_range *range = atomic_load_explicit(&ranges->first, memory_order_acquire);
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

// ---- device memory ------------------------------------------------------------------------------

/// Addresses cost nothing, because they are only numbers. Each allocation has its own granules, and
/// a table maps the granule to the allocation. The rest of the last granule and the unused granule
/// after it are the red zone.
enum {
    NULL_PAGES = 0x10000, ///< nothing is below: such an address is null with an offset
    GRANULE_BITS = 20,
    LEAF_BITS = 14,
    ROOT_BITS = 13,
    ORDERS = 27, // an allocation has 2^order granules
    QUARANTINE = 16384,
    POISON_MIB = 64,     // of an allocation that the sanitizer fills
    MAPPED_AT = 1 << 17, // from this size on, an mmap of its own, whose pages exist when touched
};

#define GRANULE      (UINT64_C(1) << GRANULE_BITS)
#define LEAF_SIZE    (UINT64_C(1) << LEAF_BITS)
#define GRANULES     (UINT64_C(1) << (LEAF_BITS + ROOT_BITS))
#define POISON_BYTES ((uint64_t)POISON_MIB << 20)

/// Keeps its addresses for ever, so that a reader without a lock never sees it describe others.
struct allocation {
    atomic_bool live;
    unsigned order;
    uint64_t start, bytes;
    unsigned char *data, *shadow; // shadow: bytes, after the data
    const struct emu_heap *heap;  // whose malloc() made it; NULL: the host's
    struct allocation *next; // in the quarantine, in `parted`, or in the free list of its order
    struct allocation *all;
};

struct leaf {
    _Atomic(struct allocation *) granule[LEAF_SIZE];
};

struct emu_memory {
    _Atomic(struct leaf *) root[1 << ROOT_BITS];
    struct host_ranges hosts;
    bool whole_process; // also host memory that is in none of `hosts`; set before the first access
    pthread_mutex_t lock; // of all below
    uint64_t limit, used, next_granule;
    enum emu_sanitize sanitize;
    struct emu_shadows *shadows;
    struct allocation *all, *free[ORDERS];
    struct allocation *oldest, *newest; // freed allocations in quarantine
    unsigned quarantined;
    // What kernels freed since the launch began. It keeps its host memory, because another thread
    // may be about to use what it has just looked up.
    struct allocation *parted;
};

struct emu_shadows *emu_memory_shadows(struct emu_memory *memory)
{
    return memory->shadows;
}

struct emu_memory *emu_memory_create(uint64_t bytes, enum emu_sanitize sanitize)
{
    struct emu_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return NULL;
    if (sanitize)
        memory->shadows = emu_shadows_create();
    if (sanitize && !memory->shadows) {
        free(memory);
        return NULL;
    }
    pthread_mutex_init(&memory->lock, NULL);
    host_ranges_init(&memory->hosts);
    memory->limit = bytes;
    memory->sanitize = sanitize;
    memory->next_granule = 1;
    return memory;
}

static uint64_t backing_size(const struct emu_memory *memory, uint64_t bytes)
{
    uint64_t rounded = (bytes + 255) / 256 * 256;
    return memory->sanitize ? 2 * rounded : rounded;
}

/// Zeroed memory, aligned to 256 bytes.
static unsigned char *backing_create(uint64_t size)
{
    if (size < MAPPED_AT) {
        void *data = aligned_alloc(256, (size_t)size);
        return data ? memset(data, 0, (size_t)size) : NULL;
    }
    void *data = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

static void backing_destroy(const struct emu_memory *memory, struct allocation *allocation)
{
    uint64_t size = backing_size(memory, allocation->bytes);
    if (allocation->shadow)
        emu_shadow_forget(memory->shadows, allocation->shadow, (size_t)allocation->bytes);
    if (size < MAPPED_AT)
        free(allocation->data);
    else
        munmap(allocation->data, (size_t)size);
    allocation->data = allocation->shadow = NULL;
}

void emu_memory_destroy(struct emu_memory **memory)
{
    struct emu_memory *old = *memory;
    *memory = NULL;
    if (!old)
        return;
    while (old->all) {
        struct allocation *allocation = old->all;
        old->all = allocation->all;
        if (allocation->data)
            backing_destroy(old, allocation);
        free(allocation);
    }
    for (size_t i = 0; i < sizeof(old->root) / sizeof(old->root[0]); i++)
        free(atomic_load(&old->root[i]));
    host_ranges_destroy(&old->hosts);
    emu_shadows_destroy(&old->shadows);
    pthread_mutex_destroy(&old->lock);
    free(old);
}

static bool table_set(struct emu_memory *memory, uint64_t granule, uint64_t count,
                      struct allocation *allocation)
{
    for (uint64_t i = granule; i < granule + count; i++) {
        _Atomic(struct leaf *) *slot = &memory->root[i >> LEAF_BITS];
        struct leaf *leaf = atomic_load_explicit(slot, memory_order_relaxed);
        if (!leaf) {
            leaf = calloc(1, sizeof(*leaf));
            if (!leaf)
                return false;
            atomic_store_explicit(slot, leaf, memory_order_release);
        }
        atomic_store_explicit(&leaf->granule[i & (LEAF_SIZE - 1)], allocation,
                              memory_order_release);
    }
    return true;
}

static struct allocation *table_get(const struct emu_memory *memory, uint64_t granule)
{
    if (granule >= GRANULES)
        return NULL;
    const struct leaf *leaf =
        atomic_load_explicit(&memory->root[granule >> LEAF_BITS], memory_order_acquire);
    return leaf ? atomic_load_explicit(&leaf->granule[granule & (LEAF_SIZE - 1)],
                                       memory_order_acquire)
                : NULL;
}

/// Takes addresses that were never used, or those that have been free longest. The caller holds the
/// lock.
static struct allocation *take_addresses(struct emu_memory *memory, unsigned order)
{
    struct allocation *allocation = memory->free[order];
    if (allocation) {
        memory->free[order] = allocation->next;
        return allocation;
    }
    uint64_t count = UINT64_C(1) << order;
    if (count + 1 > GRANULES - memory->next_granule)
        return NULL;
    allocation = calloc(1, sizeof(*allocation));
    if (!allocation)
        return NULL;
    allocation->order = order;
    allocation->start = EMU_DEVICE_BASE + memory->next_granule * GRANULE;
    if (!table_set(memory, memory->next_granule, count, allocation)) {
        table_set(memory, memory->next_granule, count, NULL);
        free(allocation);
        return NULL;
    }
    memory->next_granule += count + 1;
    allocation->all = memory->all;
    memory->all = allocation;
    return allocation;
}

static unsigned order_of(uint64_t bytes)
{
    unsigned order = 0;
    while (order < ORDERS && (GRANULE << order) < bytes)
        order++;
    return order;
}

static unsigned char *recycled(struct emu_memory *memory, uint64_t bytes);

static struct allocation *allocate(struct emu_memory *memory, uint64_t bytes,
                                   const struct emu_heap *heap)
{
    uint64_t rounded = (bytes + 255) / 256 * 256;
    unsigned order = order_of(bytes);
    if (rounded > memory->limit - memory->used || order >= ORDERS)
        return NULL;
    unsigned char *data = heap ? recycled(memory, bytes) : NULL;
    if (!data)
        data = backing_create(backing_size(memory, bytes));
    if (!data)
        return NULL;
    struct allocation *allocation = take_addresses(memory, order);
    if (!allocation) {
        struct allocation unused = { .bytes = bytes, .data = data };
        backing_destroy(memory, &unused);
        return NULL;
    }
    allocation->bytes = bytes;
    allocation->heap = heap;
    allocation->data = data;
    allocation->shadow = memory->sanitize ? data + rounded : NULL;
    if (memory->sanitize == EMU_SANITIZE_ON)
        memset(data, 0xcd, (size_t)(bytes < POISON_BYTES ? bytes : POISON_BYTES));
    memory->used += rounded;
    atomic_store_explicit(&allocation->live, true, memory_order_release);
    return allocation;
}

uint64_t emu_memory_alloc(struct emu_memory *memory, uint64_t bytes)
{
    if (bytes == 0 || bytes > memory->limit)
        return 0;
    pthread_mutex_lock(&memory->lock);
    struct allocation *allocation = allocate(memory, bytes, NULL);
    uint64_t start = allocation ? allocation->start : 0;
    pthread_mutex_unlock(&memory->lock);
    return start;
}

static void quarantine(struct emu_memory *memory, struct allocation *allocation)
{
    allocation->next = NULL;
    if (memory->newest)
        memory->newest->next = allocation;
    else
        memory->oldest = allocation;
    memory->newest = allocation;
    if (++memory->quarantined <= QUARANTINE)
        return;
    struct allocation *oldest = memory->oldest;
    memory->oldest = oldest->next;
    memory->quarantined--;
    oldest->next = memory->free[oldest->order];
    memory->free[oldest->order] = oldest;
}

// Gives its host memory back. The caller holds the lock.
static void bury(struct emu_memory *memory, struct allocation *allocation)
{
    backing_destroy(memory, allocation);
    quarantine(memory, allocation);
}

// From here on an access finds it freed. The caller holds the lock.
static void end_life(struct emu_memory *memory, struct allocation *allocation)
{
    atomic_store(&allocation->live, false);
    memory->used -= (allocation->bytes + 255) / 256 * 256;
}

static struct allocation *at(const struct emu_memory *memory, uint64_t address)
{
    return address < EMU_DEVICE_BASE
               ? NULL
               : table_get(memory, (address - EMU_DEVICE_BASE) >> GRANULE_BITS);
}

bool emu_memory_free(struct emu_memory *memory, uint64_t address)
{
    pthread_mutex_lock(&memory->lock);
    struct allocation *allocation = at(memory, address);
    bool found = allocation && allocation->start == address && !allocation->heap &&
                 atomic_load(&allocation->live);
    if (found) {
        end_life(memory, allocation);
        bury(memory, allocation);
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

// ---- heaps of kernels ---------------------------------------------------------------------------

// What an allocation takes of a heap.
static uint64_t heap_bytes(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

// The host memory of what was freed last, cleared, if it has the size: a kernel that frees and
// allocates in a loop needs no more. A thread that still uses it reads what is there, as on a GPU.
static unsigned char *recycled(struct emu_memory *memory, uint64_t bytes)
{
    struct allocation *last = memory->parted;
    const uint64_t size = backing_size(memory, bytes);
    if (!last || backing_size(memory, last->bytes) != size)
        return NULL;
    unsigned char *data = last->data;
    if (last->shadow)
        emu_shadow_forget(memory->shadows, last->shadow, (size_t)last->bytes);
    last->data = last->shadow = NULL;
    memory->parted = last->next;
    quarantine(memory, last);
    return memset(data, 0, (size_t)size);
}

uint64_t emu_heap_alloc(struct emu_memory *memory, struct emu_heap *heap, uint64_t bytes)
{
    const uint64_t taken = heap_bytes(bytes);
    uint64_t start = 0;
    pthread_mutex_lock(&memory->lock);
    heap->in_use = true;
    if (bytes && bytes <= heap->limit && taken <= heap->limit - heap->used) {
        struct allocation *allocation = allocate(memory, bytes, heap);
        start = allocation ? allocation->start : 0;
        heap->used += allocation ? taken : 0;
    }
    pthread_mutex_unlock(&memory->lock);
    return start;
}

bool emu_heap_free(struct emu_memory *memory, struct emu_heap *heap, uint64_t address)
{
    pthread_mutex_lock(&memory->lock);
    struct allocation *allocation = at(memory, address);
    bool found = allocation && allocation->start == address && allocation->heap == heap &&
                 atomic_load(&allocation->live);
    if (found) {
        end_life(memory, allocation);
        heap->used -= heap_bytes(allocation->bytes);
        allocation->next = memory->parted;
        memory->parted = allocation;
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

void emu_heap_settle(struct emu_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    while (memory->parted) {
        struct allocation *first = memory->parted;
        memory->parted = first->next;
        bury(memory, first);
    }
    pthread_mutex_unlock(&memory->lock);
}

void emu_heap_clear(struct emu_memory *memory, struct emu_heap *heap)
{
    pthread_mutex_lock(&memory->lock);
    for (struct allocation *a = heap->used ? memory->all : NULL; a; a = a->all)
        if (a->heap == heap && atomic_load(&a->live)) {
            end_life(memory, a);
            bury(memory, a);
        }
    heap->used = 0;
    heap->in_use = false;
    pthread_mutex_unlock(&memory->lock);
}

bool emu_heap_has(struct emu_memory *memory, uint64_t address)
{
    const struct allocation *allocation = at(memory, address);
    return allocation && allocation->heap;
}

// ---- what is where ------------------------------------------------------------------------------

bool emu_memory_find(struct emu_memory *memory, uint64_t address, uint64_t *start, uint64_t *bytes)
{
    if (address < EMU_DEVICE_BASE)
        return host_ranges_find(&memory->hosts, address, 1, start, bytes);
    struct allocation *allocation = at(memory, address);
    if (!allocation || !atomic_load_explicit(&allocation->live, memory_order_acquire) ||
        address - allocation->start >= allocation->bytes)
        return false;
    if (start)
        *start = allocation->start;
    if (bytes)
        *bytes = allocation->bytes;
    return true;
}

void emu_memory_info(struct emu_memory *memory, uint64_t *available, uint64_t *total)
{
    pthread_mutex_lock(&memory->lock);
    *available = memory->limit - memory->used;
    *total = memory->limit;
    pthread_mutex_unlock(&memory->lock);
}

bool emu_memory_map_host(struct emu_memory *memory, void *host, uint64_t bytes)
{
    return host_ranges_add(&memory->hosts, (uint64_t)(uintptr_t)host, bytes);
}

bool emu_memory_unmap_host(struct emu_memory *memory, const void *host)
{
    return host_ranges_remove(&memory->hosts, (uint64_t)(uintptr_t)host);
}

void emu_memory_map_process(struct emu_memory *memory)
{
    memory->whole_process = true;
}

bool emu_memory_nearest(struct emu_memory *memory, uint64_t address, uint64_t *start,
                        uint64_t *bytes, bool *freed)
{
    enum { NEAR = 64 };
    if (address < EMU_DEVICE_BASE - NEAR * GRANULE)
        return false;
    uint64_t granule = address < EMU_DEVICE_BASE ? 0 : (address - EMU_DEVICE_BASE) >> GRANULE_BITS;
    struct allocation *below = NULL, *above = NULL;
    for (uint64_t k = 0; !below && k < NEAR && k <= granule; k++)
        below = table_get(memory, granule - k);
    for (uint64_t k = 0; !above && k < NEAR; k++) {
        above = table_get(memory, granule + k);
        if (above && above->start <= address)
            above = NULL;
    }
    if (below && below->start > address)
        below = NULL;
    struct allocation *near = below ? below : above;
    if (below && above && address - below->start >= below->bytes &&
        above->start - address < address - below->start - below->bytes)
        near = above;
    if (!near)
        return false;
    *start = near->start;
    *bytes = near->bytes;
    *freed = !atomic_load_explicit(&near->live, memory_order_acquire);
    return true;
}

unsigned char *emu_memory_access(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                                 unsigned char **shadow, enum emu_access_fault *fault)
{
    *fault = EMU_ACCESS_OK;
    if (address < EMU_DEVICE_BASE) {
        if (!host_ranges_find(&memory->hosts, address, bytes, NULL, NULL) &&
            !(memory->whole_process && address >= NULL_PAGES)) {
            *fault = EMU_ACCESS_OUTSIDE;
            return NULL;
        }
        if (shadow)
            *shadow = NULL;
        return (unsigned char *)(uintptr_t)address;
    }
    struct allocation *allocation = at(memory, address);
    uint64_t offset = allocation ? address - allocation->start : 0;
    if (!allocation || offset >= allocation->bytes || bytes > allocation->bytes - offset) {
        *fault = EMU_ACCESS_OUTSIDE;
        return NULL;
    }
    if (!atomic_load_explicit(&allocation->live, memory_order_acquire)) {
        *fault = EMU_ACCESS_FREED;
        return NULL;
    }
    if (shadow)
        *shadow = allocation->shadow ? allocation->shadow + offset : NULL;
    return allocation->data + offset;
}

bool emu_memory_undefined(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                          uint32_t *origin, char *report, size_t report_size)
{
    enum emu_access_fault fault;
    unsigned char *shadow = NULL;
    if (!memory->shadows || !emu_memory_access(memory, address, bytes, &shadow, &fault) || !shadow)
        return false;
    size_t first = emu_shadow_computed(memory->shadows, shadow, (size_t)bytes);
    if (first == bytes)
        return false;
    *origin = emu_shadow_get(memory->shadows, shadow + first).origin;
    snprintf(
        report, report_size,
        "uninitialised values are copied to the host: byte %llu of the %llu bytes at 0x%llx was "
        "computed from them; it comes from %s",
        (unsigned long long)first, (unsigned long long)bytes, (unsigned long long)address,
        emu_origin_text(memory->shadows, *origin));
    return true;
}
