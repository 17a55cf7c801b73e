// SPDX-License-Identifier: MIT
#include "json.h"

#include <stdlib.h>

static bool failed; // never reset: values made after a failure may be incomplete

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    failed = failed || !memory;
    return memory;
}

void json_watch(void)
{
    json_set_alloc_funcs(allocate, free);
}

bool json_whole(void)
{
    return !failed;
}

char *json_text(json_t *value, size_t flags)
{
    char *text = value && !failed ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (!failed)
        return text;
    free(text);
    return NULL;
}

bool json_print(FILE *stream, json_t *value, size_t flags, struct message *error)
{
    char *text = json_text(value, flags);
    if (!text)
        return message_set(error, "out of memory");
    fputs(text, stream);
    putc('\n', stream);
    free(text);
    return true;
}

json_t *json_string_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}
