// SPDX-License-Identifier: MIT
#include "room.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif

enum {
    ALIGNMENT = 64,
    CLASSES = 4 * 64,
    MOST_KEPT = 256 << 20, // bytes, of all launches
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
    KEEPS = 0, // so that the sanitizer sees what is used after it was freed
#else
    KEEPS = 1,
#endif
};

// Before the memory.
struct room {
    struct room *next; // of those that nobody uses
    size_t size;
};

static struct {
    pthread_mutex_t lock;
    size_t bytes;
    struct room *by_class[CLASSES];
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

// Rounds up to one of four sizes between two powers of two, and returns which one.
static unsigned class_of(size_t *size)
{
    unsigned shift = 8;
    while (*size >> (shift + 1))
        shift++;
    const size_t quarter = (size_t)1 << (shift - 2);
    const unsigned quarters = (unsigned)((*size + quarter - 1) / quarter);
    *size = quarters * quarter;
    return 4 * shift + quarters - 4;
}

void *emu_room(size_t bytes)
{
    // Vectors may be read and written beyond the end.
    size_t size = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + 2 * ALIGNMENT;
    struct room **list = &kept.by_class[class_of(&size)], *room;

    pthread_mutex_lock(&kept.lock);
    room = *list;
    if (room) {
        *list = room->next;
        kept.bytes -= room->size;
    }
    pthread_mutex_unlock(&kept.lock);
    if (!room)
        room = aligned_alloc(ALIGNMENT, size);
    if (!room)
        return NULL;
    room->size = size;
    return (unsigned char *)room + ALIGNMENT;
}

void *emu_zeros(size_t bytes)
{
    void *memory = emu_room(bytes);
    return memory ? memset(memory, 0, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT)
                  : NULL;
}

void emu_room_free(void *memory)
{
    if (!memory)
        return;
    struct room *room = (struct room *)((unsigned char *)memory - ALIGNMENT);
    size_t size = room->size;
    struct room **list = &kept.by_class[class_of(&size)];

    pthread_mutex_lock(&kept.lock);
    const bool keep = KEEPS && size <= MOST_KEPT - kept.bytes;
    if (keep) {
        room->next = *list;
        *list = room;
        kept.bytes += size;
    }
    pthread_mutex_unlock(&kept.lock);
    if (!keep)
        free(room);
}

// When the library is closed, or the process ends.
__attribute__((destructor)) static void free_all(void)
{
    // Other threads may be in a launch, or were, in the process that this one was forked from.
    if (pthread_mutex_trylock(&kept.lock))
        return;
    for (unsigned k = 0; k < CLASSES; k++)
        while (kept.by_class[k]) {
            struct room *room = kept.by_class[k];
            kept.by_class[k] = room->next;
            free(room);
        }
    kept.bytes = 0;
    pthread_mutex_unlock(&kept.lock);
}
