// SPDX-License-Identifier: MIT
#include "kernel_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"
#include "common/parts.h"

static const ptx_kernel *const kernels[] = {
#define ROW(name) &ptx_kernel_##name,
    PTX_KERNELS(ROW)
#undef ROW
};

enum { MAX_GRID = INT32_MAX };

const ptx_kernel *ptx_kernel_at(size_t k)
{
    return k < sizeof kernels / sizeof *kernels ? kernels[k] : NULL;
}

const ptx_kernel *ptx_kernel_find(const char *name)
{
    const ptx_kernel *kernel;

    for (size_t k = 0; name && (kernel = ptx_kernel_at(k)); k++)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    return NULL;
}

int ptx_kernel_find_option(const ptx_kernel *kernel, const char *name)
{
    for (int k = 0; kernel && name && kernel->options[k].name; k++)
        if (strcmp(kernel->options[k].name, name) == 0)
            return k;
    return -1;
}

bool ptx_kernel_spec_set(struct ptx_kernel_spec *spec, const ptx_kernel *kernel, const char *option,
                         const char *value)
{
    const int k = ptx_kernel_find_option(kernel, option);

    if (k < 0 || !value)
        return false;
    for (int v = 0; v < PTX_KERNEL_MAX_CHOICES && kernel->options[k].values[v]; v++) {
        if (strcmp(kernel->options[k].values[v], value) != 0)
            continue;
        spec->option[k] = (uint8_t)v;
        return true;
    }
    return false;
}

static bool options_exist(ptx_builder *b, const ptx_kernel *kernel,
                          const struct ptx_kernel_spec *spec)
{
    int known = 0;

    while (kernel->options[known].name)
        known++;
    for (int k = 0; k < PTX_KERNEL_MAX_OPTIONS; k++) {
        const uint8_t value = spec->option[k];
        if (k < known ? value < PTX_KERNEL_MAX_CHOICES && kernel->options[k].values[value] : !value)
            continue;
        ptx_builder_fail(b, "%s: option %d (%s) has no value %u", kernel->name, k,
                         k < known ? kernel->options[k].name : "none", value);
        return false;
    }
    return true;
}

#undef ptx_kernel_emit
void ptx_kernel_emit(ptx_builder *b, const ptx_kernel *kernel, const struct ptx_kernel_spec *spec)
{
    char name[PTX_ENTRY_NAME_SIZE];

    if (!kernel || !spec) {
        ptx_builder_fail(b, "ptx_kernel_emit: the %s is NULL", kernel ? "spec" : "kernel");
        return;
    }
    if ((unsigned)spec->dtype >= PTX_TYPE_COUNT || !(kernel->dtypes >> spec->dtype & 1)) {
        ptx_builder_fail(b, "%s: there is no %s of it", kernel->name, ptx_type_name(spec->dtype));
        return;
    }
    if (!options_exist(b, kernel, spec))
        return;
    const struct ptx_kernel_code *code = kernel->code;
    ptx_entry (b, ptx_kernel_entry_name(kernel, spec, name), .block = { kernel->block },
               .min_blocks = code->min_blocks ? code->min_blocks(spec) : 0) {
        ptx_comment(b, "%s", kernel->formula);
        code->build(b, spec);
    }
}

const char *ptx_kernel_entry_name(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                                  char name[PTX_ENTRY_NAME_SIZE])
{
    if (spec->entry)
        return spec->entry;
    snprintf(name, PTX_ENTRY_NAME_SIZE, "%s_%s", kernel->name, ptx_type_name(spec->dtype));
    return name;
}

bool ptx_kernel_geometry(const ptx_kernel *kernel, ptx_type dtype, uint64_t n,
                         struct ptx_geometry *geometry)
{
    const unsigned bytes = ptx_type_bytes(dtype);
    uint64_t span, blocks;

    if (!kernel || !geometry || (unsigned)dtype >= PTX_TYPE_COUNT || !(kernel->dtypes >> dtype & 1))
        return false;
    switch (kernel->grid) {
    case PTX_GRID_CHUNKS:
        span = ptx_kernel_chunk(kernel, n);
        blocks = parts_of(n, span);
        break;
    case PTX_GRID_VECTORS:
        // One vector more than n needs: data that begins between two boundaries touches both
        // vectors.
        span = (uint64_t)kernel->block * (VECTOR_BYTES / bytes);
        blocks = n ? (n - 1 + VECTOR_BYTES / bytes - 1) / span + 1 : 0;
        break;
    default:
        blocks = 1;
    }
    if (blocks > MAX_GRID || n > UINT64_MAX / 2)
        return false;
    *geometry = (struct ptx_geometry) { (uint32_t)blocks, kernel->block };
    return true;
}

static bool is_number(const char *length, uint64_t *count)
{
    char *end;

    if (length[0] < '0' || length[0] > '9')
        return false;
    const uint64_t number = strtoull(length, &end, 10);
    if (*end)
        return false;
    *count = number;
    return true;
}

bool ptx_kernel_length(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                       const struct ptx_kernel_sizes *sizes, const char *length, uint64_t *count)
{
    struct ptx_geometry geometry;

    if (!kernel || !spec || !sizes || !length || !count)
        return false;
    const struct {
        const char *name;
        uint64_t size;
    } named[] = { { "n", sizes->n }, { "channels", sizes->channels }, { "inner", sizes->inner } };
    for (size_t k = 0; k < sizeof named / sizeof *named; k++) {
        if (strcmp(length, named[k].name) != 0)
            continue;
        *count = named[k].size;
        return true;
    }
    if (is_number(length, count))
        return true;
    if (strcmp(length, "blocks") != 0)
        return kernel->code->length && kernel->code->length(spec, sizes, length, count);
    if (!ptx_kernel_geometry(kernel, spec->dtype, sizes->n, &geometry))
        return false;
    *count = geometry.grid;
    return true;
}
