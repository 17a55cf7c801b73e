// SPDX-License-Identifier: MIT
// Records for each byte of memory whether it was written and which of its bits are defined.
//
// Every byte has a shadow byte. Most shadow bytes are complete; a byte of which only some bits are
// defined has an entry in a table. Thread-safe in the same way as memory: if two threads write at
// once without an order, one of the two values remains.
#include "exec/base/exec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_LISTED = 1 << 24, // bytes; beyond these, every bit of a byte counts as undefined
    MOST_ORIGINS = 1 << 12,
    BUCKETS = 1 << 10, // of origins, by their texts
};

struct entry {
    const unsigned char *shadow; // NULL: none
    uint32_t origin;
    uint8_t bits, computed;
};

struct origin {
    char *text;
    uint32_t next; // in its bucket; the number of an origin, 0: none
    bool reported;
};

struct emu_shadows {
    pthread_mutex_t lock; // guards everything below
    struct entry *entries;
    size_t count, room; // room: a power of two
    struct origin *origins;
    uint32_t origin_count, origin_room;
    uint32_t buckets[BUCKETS]; // the newest origin of each
};

struct emu_shadows *emu_shadows_create(void)
{
    struct emu_shadows *shadows = calloc(1, sizeof(*shadows));
    if (shadows)
        pthread_mutex_init(&shadows->lock, NULL);
    return shadows;
}

void emu_shadows_destroy(struct emu_shadows **shadows)
{
    struct emu_shadows *old = *shadows;
    *shadows = NULL;
    if (!old)
        return;
    for (uint32_t i = 0; i < old->origin_count; i++)
        free(old->origins[i].text);
    free(old->origins);
    free(old->entries);
    pthread_mutex_destroy(&old->lock);
    free(old);
}

// ---- the table ----------------------------------------------------------------------------------

static size_t place_of(const struct emu_shadows *shadows, const unsigned char *shadow)
{
    uint64_t hash = (uint64_t)(uintptr_t)shadow * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 20) & (shadows->room - 1);
}

// The shadow byte's entry, or the vacant slot for it. There is always a vacant slot.
static struct entry *find(const struct emu_shadows *shadows, const unsigned char *shadow)
{
    size_t at = place_of(shadows, shadow);
    while (shadows->entries[at].shadow && shadows->entries[at].shadow != shadow)
        at = (at + 1) & (shadows->room - 1);
    return &shadows->entries[at];
}

static bool enlarge(struct emu_shadows *shadows, size_t room)
{
    struct entry *old = shadows->entries, *fresh = calloc(room, sizeof(*fresh));
    size_t old_room = shadows->room;
    if (!fresh)
        return false;
    shadows->entries = fresh;
    shadows->room = room;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].shadow)
            *find(shadows, old[i].shadow) = old[i];
    free(old);
    return true;
}

// Entries that follow without a gap may move up.
static void take_out(struct emu_shadows *shadows, const unsigned char *shadow)
{
    struct entry *entry = find(shadows, shadow);
    size_t last = shadows->room - 1, gap = (size_t)(entry - shadows->entries);
    if (!entry->shadow)
        return;
    for (size_t at = (gap + 1) & last; shadows->entries[at].shadow; at = (at + 1) & last) {
        size_t wanted = place_of(shadows, shadows->entries[at].shadow);
        if (((at - wanted) & last) < ((at - gap) & last))
            continue;
        shadows->entries[gap] = shadows->entries[at];
        gap = at;
    }
    shadows->entries[gap].shadow = NULL;
    shadows->count--;
}

// NULL if there is no room.
static struct entry *insert(struct emu_shadows *shadows, const unsigned char *shadow)
{
    struct entry *entry = shadows->room ? find(shadows, shadow) : NULL;
    if (entry && entry->shadow)
        return entry;
    if (shadows->count >= MOST_LISTED)
        return NULL;
    if (2 * shadows->count >= shadows->room) {
        if (!enlarge(shadows, shadows->room ? 2 * shadows->room : 1024))
            return NULL;
        entry = find(shadows, shadow);
    }
    entry->shadow = shadow;
    shadows->count++;
    return entry;
}

// Atomic, because other threads may access the same byte on purpose.
static unsigned char load_byte(const unsigned char *shadow)
{
    return atomic_load_explicit((_Atomic(unsigned char) *)(uintptr_t)shadow, memory_order_relaxed);
}

static void store_byte(unsigned char *shadow, unsigned char value)
{
    atomic_store_explicit((_Atomic(unsigned char) *)(uintptr_t)shadow, value, memory_order_relaxed);
}

static struct emu_undefined decode(unsigned char value)
{
    if (value == EMU_SHADOW_DEFINED)
        return (struct emu_undefined) { 0 };
    if (value == EMU_SHADOW_NEVER)
        return (struct emu_undefined) { .bits = 0xff };
    if (value < EMU_SHADOW_COPIED)
        return (struct emu_undefined) { 0xff, 0xff, value - (uint32_t)EMU_SHADOW_COMPUTED };
    return (struct emu_undefined) { 0xff, 0, value - (uint32_t)EMU_SHADOW_COPIED };
}

struct emu_undefined emu_shadow_get(struct emu_shadows *shadows, const unsigned char *shadow)
{
    unsigned char value = load_byte(shadow);
    if (value != EMU_SHADOW_LISTED)
        return decode(value);
    struct emu_undefined byte = { .bits = 0xff };
    pthread_mutex_lock(&shadows->lock);
    const struct entry *entry = shadows->room ? find(shadows, shadow) : NULL;
    if (entry && entry->shadow)
        byte = (struct emu_undefined) { entry->bits, entry->computed, entry->origin };
    pthread_mutex_unlock(&shadows->lock);
    return byte;
}

void emu_shadow_put(struct emu_shadows *shadows, unsigned char *shadow, struct emu_undefined byte)
{
    byte.bits &= 0xff;
    byte.computed &= byte.bits;
    bool whole = byte.bits == 0xff && (byte.computed == 0 || byte.computed == 0xff);
    if (byte.bits == 0) {
        if (load_byte(shadow) != EMU_SHADOW_DEFINED)
            store_byte(shadow, EMU_SHADOW_DEFINED);
        return;
    }
    if (!whole || byte.origin >= EMU_SHADOW_ORIGINS) {
        pthread_mutex_lock(&shadows->lock);
        struct entry *entry = insert(shadows, shadow);
        if (entry) {
            entry->origin = byte.origin;
            entry->bits = (uint8_t)byte.bits;
            entry->computed = (uint8_t)byte.computed;
            store_byte(shadow, EMU_SHADOW_LISTED);
        }
        pthread_mutex_unlock(&shadows->lock);
        if (entry)
            return;
        byte.origin = byte.origin < EMU_SHADOW_ORIGINS ? byte.origin : 0;
    }
    store_byte(shadow, (unsigned char)((byte.computed ? EMU_SHADOW_COMPUTED : EMU_SHADOW_COPIED) +
                                       byte.origin));
}

void emu_shadow_move(struct emu_shadows *shadows, unsigned char *to, const unsigned char *from,
                     size_t bytes)
{
    bool listed = memchr(from, EMU_SHADOW_LISTED, bytes) != NULL;
    if (!listed) {
        memmove(to, from, bytes);
        return;
    }
    bool backward = (uintptr_t)to - (uintptr_t)from < bytes;
    for (size_t i = 0; i < bytes; i++) {
        size_t at = backward ? bytes - 1 - i : i;
        if (from[at] == EMU_SHADOW_LISTED)
            emu_shadow_put(shadows, to + at, emu_shadow_get(shadows, from + at));
        else
            to[at] = from[at];
    }
}

void emu_shadow_forget(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes)
{
    pthread_mutex_lock(&shadows->lock);
    for (size_t i = 0; shadows->count && i < bytes; i++) {
        const unsigned char *next = memchr(shadow + i, EMU_SHADOW_LISTED, bytes - i);
        if (!next)
            break;
        i = (size_t)(next - shadow);
        take_out(shadows, next);
    }
    pthread_mutex_unlock(&shadows->lock);
}

size_t emu_shadow_computed(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes)
{
    const uint64_t plain = UINT64_C(0x0101010101010101); // never written, or defined
    uint64_t eight;
    for (size_t i = 0; i < bytes; i++) {
        for (; bytes - i >= 8; i += 8) {
            memcpy(&eight, shadow + i, 8);
            if (eight & ~plain)
                break;
        }
        if (i < bytes && shadow[i] > EMU_SHADOW_DEFINED && shadow[i] < EMU_SHADOW_COPIED &&
            emu_shadow_get(shadows, shadow + i).computed)
            return i;
    }
    return bytes;
}

// ---- origins ------------------------------------------------------------------------------------

static uint32_t *bucket_of(struct emu_shadows *shadows, const char *text)
{
    uint32_t hash = UINT32_C(0x811c9dc5);
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT32_C(0x01000193); // FNV-1a
    return &shadows->buckets[hash & (BUCKETS - 1)];
}

static uint32_t add(struct emu_shadows *shadows, const char *text)
{
    size_t size = strlen(text) + 1;
    uint32_t *bucket = bucket_of(shadows, text);
    for (uint32_t i = *bucket; i; i = shadows->origins[i - 1].next)
        if (strcmp(shadows->origins[i - 1].text, text) == 0)
            return i;
    if (shadows->origin_count == MOST_ORIGINS)
        return 0;
    if (shadows->origin_count == shadows->origin_room) {
        uint32_t room = shadows->origin_room ? 2 * shadows->origin_room : 16;
        struct origin *more = realloc(shadows->origins, room * sizeof(*more));
        if (!more)
            return 0;
        shadows->origins = more;
        shadows->origin_room = room;
    }
    char *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, text, size);
    shadows->origins[shadows->origin_count++] = (struct origin) { copy, *bucket, false };
    return *bucket = shadows->origin_count;
}

uint32_t emu_origin_add(struct emu_shadows *shadows, const char *text)
{
    pthread_mutex_lock(&shadows->lock);
    uint32_t origin = add(shadows, text);
    pthread_mutex_unlock(&shadows->lock);
    return origin;
}

const char *emu_origin_text(struct emu_shadows *shadows, uint32_t origin)
{
    pthread_mutex_lock(&shadows->lock);
    const char *text = origin && origin <= shadows->origin_count ? shadows->origins[origin - 1].text
                                                                 : "memory or a register that was "
                                                                   "never written";
    pthread_mutex_unlock(&shadows->lock);
    return text;
}

bool emu_origin_report(struct emu_shadows *shadows, uint32_t origin)
{
    bool first = true;
    pthread_mutex_lock(&shadows->lock);
    if (origin && origin <= shadows->origin_count) {
        first = !shadows->origins[origin - 1].reported;
        shadows->origins[origin - 1].reported = true;
    }
    pthread_mutex_unlock(&shadows->lock);
    return first;
}
