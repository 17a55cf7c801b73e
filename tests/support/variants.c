// SPDX-License-Identifier: MIT
#include "variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ptx_type dtype_after(const ptx_kernel *kernel, ptx_type dtype)
{
    for (int t = (int)dtype + 1; t < PTX_TYPE_COUNT; ++t)
        if (kernel->dtypes >> t & 1)
            return (ptx_type)t;
    return PTX_NONE;
}

bool variant_first(const ptx_kernel *kernel, ptx_type dtype, struct ptx_kernel_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->dtype = dtype == PTX_NONE ? dtype_after(kernel, PTX_NONE) : dtype;
    return spec->dtype != PTX_NONE && (kernel->dtypes >> spec->dtype & 1);
}

bool variant_next_option(const ptx_kernel *kernel, struct ptx_kernel_spec *spec)
{
    for (int i = 0; i < PTX_KERNEL_MAX_OPTIONS && kernel->options[i].name; ++i) {
        int next = spec->option[i] + 1;
        if (next < PTX_KERNEL_MAX_CHOICES && kernel->options[i].values[next]) {
            spec->option[i] = (uint8_t)next;
            return true;
        }
        spec->option[i] = 0;
    }
    return false;
}

bool variant_next_values(const ptx_kernel *kernel, struct ptx_kernel_spec *spec, int step)
{
    bool unseen = false;
    for (int i = 0; i < PTX_KERNEL_MAX_OPTIONS && kernel->options[i].name; ++i) {
        int count = 1;
        while (count < PTX_KERNEL_MAX_CHOICES && kernel->options[i].values[count])
            ++count;
        spec->option[i] = (uint8_t)(step % count);
        unseen |= step < count;
    }
    return unseen;
}

/// How many of its pairs of values are new. `mark`: from now on they are not.
static int new_pairs(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                     struct variant_pairs *pairs, bool mark)
{
    int count = 0;
    for (int i = 0; i < PTX_KERNEL_MAX_OPTIONS && kernel->options[i].name; ++i)
        for (int j = 0; j <= i; ++j) {
            bool *seen = &pairs->seen[i][spec->option[i]][j][spec->option[j]];
            count += !*seen;
            *seen |= mark;
        }
    return count;
}

bool variant_next_pair(const ptx_kernel *kernel, struct ptx_kernel_spec *spec,
                       struct variant_pairs *pairs)
{
    struct ptx_kernel_spec other;
    int most = 0;
    new_pairs(kernel, spec, pairs, true);
    for (bool more = variant_first(kernel, spec->dtype, &other); more;
         more = variant_next_option(kernel, &other)) {
        const int count = new_pairs(kernel, &other, pairs, false);
        if (count > most)
            *spec = other;
        most = count > most ? count : most;
    }
    return most > 0;
}

bool variant_next(const ptx_kernel *kernel, struct ptx_kernel_spec *spec)
{
    if (variant_next_option(kernel, spec))
        return true;
    spec->dtype = dtype_after(kernel, spec->dtype);
    return spec->dtype != PTX_NONE;
}

const char *variant_value(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                          const char *option)
{
    int i = ptx_kernel_find_option(kernel, option);
    return i < 0 ? "" : kernel->options[i].values[spec->option[i]];
}

bool variant_is(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec, const char *option,
                const char *value)
{
    return strcmp(variant_value(kernel, spec, option), value) == 0;
}

const char *variant_name(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                         char name[VARIANT_NAME_SIZE])
{
    int used = snprintf(name, VARIANT_NAME_SIZE, "%s_%s", kernel->name, ptx_type_name(spec->dtype));
    for (int i = 0; i < PTX_KERNEL_MAX_OPTIONS && kernel->options[i].name; ++i)
        used += snprintf(name + used, (size_t)(VARIANT_NAME_SIZE - used), "_%s",
                         kernel->options[i].values[spec->option[i]]);
    return name;
}

static bool next_entry(const ptx_kernel *kernel, struct ptx_kernel_spec *spec, enum variants which,
                       int *step)
{
    if (which == VARIANTS_ALL)
        return variant_next(kernel, spec);
    if (which == VARIANTS_VALUES && variant_next_values(kernel, spec, ++*step))
        return true;
    *step = 0;
    const ptx_type dtype = dtype_after(kernel, spec->dtype);
    return dtype != PTX_NONE && variant_first(kernel, dtype, spec);
}

void variants_emit_of(ptx_builder *b, const ptx_kernel *kernel, enum variants which)
{
    struct ptx_kernel_spec spec;
    int step = 0;
    for (bool more = variant_first(kernel, PTX_NONE, &spec); more;
         more = next_entry(kernel, &spec, which, &step)) {
        char entry[VARIANT_NAME_SIZE];
        struct ptx_kernel_spec named = spec;
        named.entry = variant_name(kernel, &spec, entry);
        ptx_kernel_emit(b, kernel, &named);
    }
}

void variants_emit(ptx_builder *b, enum variants which)
{
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; k++)
        variants_emit_of(b, kernel, which);
}

enum variants variants_for(struct ptx_target target, char **last)
{
    if (target.suffix)
        return VARIANTS_DTYPES;
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    variants_emit(b, VARIANTS_ALL);
    const char *text = ptx_builder_finish(b);
    const char *body = text ? strstr(text, ".address_size") : NULL;
    const bool same = body && *last && strcmp(*last, body) == 0;
    if (body && !same) {
        free(*last);
        *last = malloc(strlen(body) + 1);
        if (*last)
            strcpy(*last, body);
    }
    ptx_builder_destroy(&b);
    return same ? VARIANTS_VALUES : VARIANTS_ALL;
}
