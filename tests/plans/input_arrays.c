// SPDX-License-Identifier: MIT
#include "input_arrays.h"

#include <stdio.h>

#include "plan_calls.h"

enum { NOWHERE = 0x1230 }; // aligned to 16 bytes

static void refuse_at(const struct input_array *a, CUdeviceptr at, const struct input_array *over,
                      const char *words, input_refuse *refuse)
{
    const CUdeviceptr was = *a->at;

    *a->at = at;
    refuse(a, over, words);
    *a->at = was;
}

static void refuse_alone(const struct input_array *a, CUdeviceptr end, input_refuse *refuse)
{
    char words[64];

    if (!(a->access & INPUT_OPTIONAL))
        refuse_at(a, 0, NULL, ": its address is 0", refuse);
    if (a->bytes > 1) {
        snprintf(words, sizeof words,
                 a->access & INPUT_SCALAR ? "; it must be a multiple of %u"
                                          : " is not a multiple of its element's %u bytes",
                 a->bytes);
        refuse_at(a, *a->at + a->bytes / 2, NULL, words, refuse);
    }
    refuse_at(a, NOWHERE, NULL, ": the driver knows no memory at its address 0x1230", refuse);
    if (a->count > 1) {
        snprintf(words, sizeof words, " elements are %llu bytes, and its memory ends",
                 (unsigned long long)(a->count * a->bytes));
        refuse_at(a, end - a->bytes * (a->count - 1), NULL, words, refuse);
    }
}

static bool may_overlap(const struct input_array *a, const struct input_array *b)
{
    return !((a->access | b->access) & INPUT_WRITTEN) || (a->access & b->access & INPUT_SHARED) ||
           (a->access & INPUT_IN_PLACE && a->over == b->at) ||
           (b->access & INPUT_IN_PLACE && b->over == a->at);
}

void input_arrays_check(const struct input_array *arrays, size_t count, CUdeviceptr end,
                        input_refuse *refuse)
{
    for (size_t i = 0; i < count; i++) {
        refuse_alone(&arrays[i], end, refuse);
        for (size_t k = i + 1; k < count; k++)
            if (!may_overlap(&arrays[i], &arrays[k]))
                refuse_at(&arrays[i], *arrays[k].at, &arrays[k], "overlap", refuse);
    }
}
