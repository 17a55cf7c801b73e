// SPDX-License-Identifier: MIT
// Which handles are live, so that any value may come in as one.
#include "api.h"

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
}

void api_object_remove(struct api_object *object)
{
    struct api_object **at = bucket(object->key);
    while (*at && *at != object)
        at = &(*at)->next;
    if (*at)
        *at = object->next;
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
