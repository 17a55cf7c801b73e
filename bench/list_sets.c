// SPDX-License-Identifier: MIT
// Prints the gradient sets as JSON, one per line, for other programs: {"set": "LoRA layer",
// "counts": [24576, ...], "groups": [0, ...]}
#include "suites/gradient_sets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_set(const struct gradient_set *set, const struct ptx_clip_tensor *tensors,
                      size_t count)
{
    printf("{\"set\": \"%s\", \"counts\": [", set->name);
    for (size_t t = 0; t < count; t++)
        printf("%s%" PRIu64, t ? ", " : "", tensors[t].count);
    printf("], \"groups\": [");
    for (size_t t = 0; t < count; t++)
        printf("%s%" PRIu32, t ? ", " : "", tensors[t].group);
    puts("]}");
}

int main(void)
{
    for (size_t k = 0; gradient_set_at(k); k++) {
        const struct gradient_set *set = gradient_set_at(k);
        const size_t count = gradient_set_list(set, NULL);
        struct ptx_clip_tensor *tensors = calloc(count, sizeof *tensors);
        if (!tensors) {
            fputs("list_sets: out of memory\n", stderr);
            return 1;
        }
        gradient_set_list(set, tensors);
        print_set(set, tensors, count);
        free(tensors);
    }
    return 0;
}
