// SPDX-License-Identifier: MIT
// What every family of functions stands on: the state of the process and of a thread, the table of
// live handles, so that any value may be passed as one, the order of work, what kernels print.
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct api_state api_state = { .lock = PTHREAD_MUTEX_INITIALIZER,
                               .fault_lock = PTHREAD_MUTEX_INITIALIZER };
_Thread_local struct api_thread api_thread;

unsigned long long api_new_id(void)
{
    return ++api_state.last_id;
}

CUcontext api_current(void)
{
    return api_thread.depth ? api_thread.stack[api_thread.depth - 1] : NULL;
}

const struct emu_gpu *api_gpu(void)
{
    return api_state.config.gpu;
}

// ---- handles ------------------------------------------------------------------------------------

enum { BUCKETS = 4096 };

static struct api_object *buckets[BUCKETS];

static struct api_object **bucket(uint64_t key)
{
    return &buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

void api_object_add(struct api_object *object, enum api_kind kind, uint64_t key, CUcontext context)
{
    struct api_object **first = bucket(key);
    *object = (struct api_object) { key, kind, context, *first };
    *first = object;
    atomic_fetch_add(&api_state.objects, 1);
}

void api_object_remove(struct api_object *object)
{
    struct api_object **at = bucket(object->key);
    while (*at && *at != object)
        at = &(*at)->next;
    if (*at) {
        *at = object->next;
        atomic_fetch_sub(&api_state.objects, 1);
    }
}

struct api_object *api_object_at(uint64_t key, enum api_kind kind)
{
    struct api_object *object = *bucket(key);
    while (object && (object->key != key || object->kind != kind))
        object = object->next;
    return object;
}

struct api_object *api_object_of(CUcontext context)
{
    for (int i = 0; i < BUCKETS; i++)
        for (struct api_object *object = buckets[i]; object; object = object->next)
            if (object->context == context && object->kind != API_FUNCTION)
                return object;
    return NULL;
}

// ---- what kernels print -------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    char *text;
    size_t length, room, limit;
} printed = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void keep_printed(const char *text, size_t length)
{
    if (length > printed.limit) {
        text += length - printed.limit;
        length = printed.limit;
    }
    if (printed.length + length > printed.limit) { // the oldest goes
        const size_t gone = printed.length + length - printed.limit;
        memmove(printed.text, printed.text + gone, printed.length - gone);
        printed.length -= gone;
    }
    if (printed.length + length > printed.room) {
        const size_t room = (printed.length + length) * 2;
        char *larger = realloc(printed.text, room);
        if (!larger)
            return;
        printed.text = larger;
        printed.room = room;
    }
    if (length)
        memcpy(printed.text + printed.length, text, length);
    printed.length += length;
}

void api_print(bool error, const char *text, size_t length)
{
    pthread_mutex_lock(&printed.lock);
    if (error)
        fwrite(text, 1, length, stderr);
    else
        keep_printed(text, length);
    pthread_mutex_unlock(&printed.lock);
}

void api_print_flush(size_t limit)
{
    pthread_mutex_lock(&printed.lock);
    if (printed.length) {
        fwrite(printed.text, 1, printed.length, stdout);
        fflush(stdout);
        printed.length = 0;
    }
    if (limit)
        printed.limit = limit;
    pthread_mutex_unlock(&printed.lock);
}

// ---- the order of work --------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, now;
} engine = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };

void api_engine_enter(void)
{
    pthread_mutex_lock(&engine.lock);
    uint64_t ticket = engine.next++;
    pthread_mutex_unlock(&api_state.lock);
    while (engine.now != ticket)
        pthread_cond_wait(&engine.changed, &engine.lock);
    pthread_mutex_unlock(&engine.lock);
}

void api_engine_leave(void)
{
    pthread_mutex_lock(&engine.lock);
    engine.now++;
    pthread_cond_broadcast(&engine.changed);
    pthread_mutex_unlock(&engine.lock);
    pthread_mutex_lock(&api_state.lock);
}

void api_drain(void)
{
    api_engine_enter();
    api_print_flush(0);
    api_engine_leave();
}

/// In a child process: other threads of the parent may have held the locks, and are not here. What
/// they guard is used only if the parent had not called cuInit().
void api_state_forked(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    api_state.lock = api_state.fault_lock = printed.lock = engine.lock = unlocked;
    atomic_store(&api_state.forked, atomic_load(&api_state.begun));
}
