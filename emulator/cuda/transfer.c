// SPDX-License-Identifier: MIT
// Copies and fills as pieces of work: what fits, and the bytes moved.
#include "transfer.h"

#include <stdio.h>
#include <string.h>

/// The address of a row; false if it exceeds the address range.
static bool row_address(const struct api_side *side, size_t y, size_t z, uint64_t *address)
{
    uint64_t rows = 0, offset = 0;
    if (__builtin_mul_overflow(side->z + z, side->height, &rows) ||
        __builtin_add_overflow(rows, side->y + y, &rows) ||
        __builtin_mul_overflow(rows, side->pitch, &offset) ||
        __builtin_add_overflow(offset, side->x, &offset))
        return false;
    return !__builtin_add_overflow(side->address, offset, address);
}

/// The host bytes of the row and, on the device, their shadow.
static unsigned char *row_bytes(const struct api_side *side, size_t y, size_t z, size_t width,
                                unsigned char **shadow)
{
    uint64_t address = 0;
    enum emu_access_fault fault;
    *shadow = NULL;
    if (!row_address(side, y, z, &address))
        return NULL;
    if (side->device)
        return emu_memory_access(api_state.memory, address, width, shadow, &fault);
    return (unsigned char *)(uintptr_t)address;
}

/// Whether a row may be read or written. A host row that begins in memory that the device may
/// access must end there too; nothing is known of other host memory.
static bool row_fits(const struct api_side *side, size_t y, size_t z, size_t width)
{
    uint64_t address = 0, start = 0, bytes = 0;
    unsigned char *shadow = NULL;
    if (side->device)
        return row_bytes(side, y, z, width, &shadow) != NULL;
    return row_address(side, y, z, &address) &&
           (!emu_memory_find(api_state.memory, address, &start, &bytes) ||
            width <= bytes - (address - start));
}

static bool side_fits(const struct api_work *work, const struct api_side *side)
{
    size_t width = work->as.copy.width;
    bool rows = work->as.copy.height > 1 || work->as.copy.depth > 1;
    if (rows && (side->pitch < width || side->pitch - width < side->x))
        return false;
    for (size_t z = 0; z < work->as.copy.depth; z++)
        for (size_t y = 0; y < work->as.copy.height; y++)
            if (!row_fits(side, y, z, width))
                return false;
    return true;
}

CUresult api_copy_check(const struct api_work *work)
{
    const struct api_side *to = &work->as.copy.to, *from = &work->as.copy.from;
    if (work->as.copy.width == 0 || work->as.copy.height == 0 || work->as.copy.depth == 0)
        return CUDA_SUCCESS;
    if (!to->device) // check the device's side first: its size is known
        to = &work->as.copy.from, from = &work->as.copy.to;
    return side_fits(work, to) && side_fits(work, from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Checks bytes on their way to the host that were computed from undefined values:
/// CUDA_ERROR_LAUNCH_FAILED, or one warning for each origin.
static CUresult check_defined(const struct api_side *from, size_t y, size_t z, size_t width,
                              char *report, size_t report_size)
{
    uint64_t address = 0;
    uint32_t origin = 0;
    char text[2048] = "warning: ";
    size_t begun = strlen(text);
    if (!row_address(from, y, z, &address) ||
        !emu_memory_undefined(api_state.memory, address, width, &origin, text + begun,
                              sizeof(text) - begun))
        return CUDA_SUCCESS;
    if (api_state.config.sanitize == EMU_SANITIZE_WARN) {
        if (emu_origin_report(emu_memory_shadows(api_state.memory), origin))
            api_log(text);
        return CUDA_SUCCESS;
    }
    snprintf(report, report_size, "%s", text + begun);
    return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult check_all_defined(const struct api_work *work, char *report, size_t report_size)
{
    size_t width = work->as.copy.width;
    CUresult result = CUDA_SUCCESS;
    for (size_t z = 0; width && z < work->as.copy.depth; z++)
        for (size_t y = 0; !result && y < work->as.copy.height; y++) {
            unsigned char *shadow = NULL, *from_shadow = NULL;
            row_bytes(&work->as.copy.to, y, z, width, &shadow);
            row_bytes(&work->as.copy.from, y, z, width, &from_shadow);
            if (from_shadow && !shadow)
                result = check_defined(&work->as.copy.from, y, z, width, report, report_size);
        }
    return result;
}

CUresult api_copy_run(const struct api_work *work, char *report, size_t report_size)
{
    size_t width = work->as.copy.width;
    CUresult result = check_all_defined(work, report, report_size);
    if (result)
        return result;
    for (size_t z = 0; width && z < work->as.copy.depth; z++)
        for (size_t y = 0; y < work->as.copy.height; y++) {
            unsigned char *shadow = NULL, *from_shadow = NULL;
            unsigned char *to = row_bytes(&work->as.copy.to, y, z, width, &shadow);
            unsigned char *from = row_bytes(&work->as.copy.from, y, z, width, &from_shadow);
            if (!to || !from) // freed since: use what was known when the graph was made
                return CUDA_SUCCESS;
            memmove(to, from, width);
            if (shadow && from_shadow)
                emu_shadow_move(emu_memory_shadows(api_state.memory), shadow, from_shadow, width);
            else if (shadow)
                memset(shadow, EMU_SHADOW_DEFINED, width);
        }
    return CUDA_SUCCESS;
}

CUresult api_set_check(const CUDA_MEMSET_NODE_PARAMS *set)
{
    unsigned size = set->elementSize;
    if ((size != 1 && size != 2 && size != 4) || set->dst % size)
        return CUDA_ERROR_INVALID_VALUE;
    if (set->width == 0 || set->height == 0)
        return CUDA_SUCCESS;
    if (set->width > SIZE_MAX / size)
        return CUDA_ERROR_INVALID_VALUE;
    size_t width = set->width * size;
    if (set->height > 1 && (set->pitch < width || set->pitch % size))
        return CUDA_ERROR_INVALID_VALUE;
    struct api_side side = { .device = true, .address = set->dst, .pitch = set->pitch };
    unsigned char *shadow = NULL;
    for (size_t y = 0; y < set->height; y++)
        if (!row_bytes(&side, y, 0, width, &shadow))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

void api_set_run(const CUDA_MEMSET_NODE_PARAMS *set)
{
    struct api_side side = { .device = true, .address = set->dst, .pitch = set->pitch };
    size_t size = set->elementSize, width = set->width * size;
    for (size_t y = 0; width && y < set->height; y++) {
        unsigned char *shadow = NULL, *to = row_bytes(&side, y, 0, width, &shadow);
        if (!to)
            return;
        if (size == 1)
            memset(to, (int)(set->value & 0xff), width);
        for (size_t i = 0; size > 1 && i < width; i += size) {
            uint16_t half = (uint16_t)set->value;
            memcpy(to + i, size == 2 ? (const void *)&half : &set->value, size);
        }
        if (shadow)
            memset(shadow, EMU_SHADOW_DEFINED, width);
    }
}
