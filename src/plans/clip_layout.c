// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "clip_table.h"
#include "driver/error.h"

enum { ALIGNMENT = 256 };

// By the number of elements alone: sums must have the same bits on every GPU. Few elements make
// short chunks, to keep every multiprocessor busy; more of them long ones, since each costs a
// look-up and has its partial read by every block of the next launch.
static uint32_t chunk_for(uint64_t elements)
{
    static const struct {
        uint32_t chunk;
        uint64_t most; // chunks
    } sizes[] = { { 2048, 300 },     { 4096, 300 },     { 8192, 2048 },
                  { 16384, 8192 },   { 32768, 8192 },   { 65536, 16384 },
                  { 131072, 16384 }, { 262144, 16384 }, { 524288, 16384 } };

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        if (elements / sizes[k].chunk <= sizes[k].most)
            return sizes[k].chunk;
    return 1 << 20;
}

static uint64_t pieces(uint64_t count, uint64_t size)
{
    return count / size + (count % size != 0);
}

static const ptx_type dtypes[] = {
#define CLIP_DTYPE(name) PTX_##name,
    CLIP_DTYPES(CLIP_DTYPE)
#undef CLIP_DTYPE
};

unsigned clip_dtype_code(ptx_type dtype)
{
    unsigned code = 0;

    while (code < CLIP_DTYPE_COUNT && dtypes[code] != dtype)
        code++;
    return code;
}

unsigned clip_row_bytes(const struct clip_tensor_row *row)
{
    return ptx_type_bytes(dtypes[row->dtype]);
}

static void count_elements(const struct ptx_clip_params *params, struct clip_layout *layout)
{
    layout->group_count = params->group_count ? params->group_count : 1;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_tensor *tensor = &params->tensors[t];
        layout->element_count += tensor->count;
        layout->gradient_bytes += tensor->count * ptx_type_bytes(tensor->dtype);
        if (tensor->count)
            layout->dtypes |= UINT32_C(1) << tensor->dtype;
        if (!params->group_count && tensor->group >= layout->group_count)
            layout->group_count = tensor->group + 1;
    }
    if (!layout->dtypes)
        layout->dtypes = PTX_SET(F32);
    layout->chunk = chunk_for(layout->element_count);
    layout->tensor_count = (uint32_t)params->tensor_count + 1;
}

// A group without elements has one chunk, of the empty tensor.
static uint64_t at_least_one(uint64_t chunks)
{
    return chunks ? chunks : 1;
}

static void place(struct clip_layout *layout)
{
    layout->tensors.length = layout->tensor_count;
    layout->chunks.length = layout->partials.length = layout->chunk_count;
    layout->groups.length = layout->sums.length = layout->group_count;
    layout->records.length = (uint64_t)layout->group_count + 1; // and the summary
    layout->rule.length = layout->totals.length = 1;
#define CLIP_PLACE(member, type)                                                                   \
    layout->member.offset = layout->bytes;                                                         \
    layout->bytes += pieces(layout->member.length * sizeof(type), ALIGNMENT) * ALIGNMENT;
    CLIP_ARRAYS(CLIP_PLACE)
#undef CLIP_PLACE
    _Static_assert(sizeof(struct ptx_clip_record) == sizeof(struct ptx_clip_summary),
                   "the summary is in the records' array");
}

ptx_status clip_layout_create(const struct ptx_clip_params *params, struct clip_layout *layout)
{
    memset(layout, 0, sizeof *layout);
    count_elements(params, layout);
    uint64_t *chunks = calloc(layout->group_count, sizeof *chunks);
    if (!chunks)
        return ptx_driver_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a clip plan");
    for (size_t t = 0; t < params->tensor_count; t++)
        chunks[params->tensors[t].group] += pieces(params->tensors[t].count, layout->chunk);
    for (uint32_t g = 0; g < layout->group_count; g++)
        layout->chunk_count += at_least_one(chunks[g]);
    free(chunks);
    place(layout);
    return PTX_OK;
}

// ---- the image ----------------------------------------------------------------------------------

// The tensors, group by group, in their order within it: order[first[g]] is group g's first.
struct grouping {
    size_t *first;
    uint32_t *order;
};

static bool group_tensors(const struct ptx_clip_params *params, uint32_t groups,
                          struct grouping *grouping)
{
    grouping->first = calloc((size_t)groups + 1, sizeof *grouping->first);
    grouping->order = calloc(params->tensor_count + 1, sizeof *grouping->order);
    size_t *next = calloc((size_t)groups + 1, sizeof *next);
    const bool ok = grouping->first && grouping->order && next;
    if (ok) {
        for (size_t t = 0; t < params->tensor_count; t++)
            grouping->first[params->tensors[t].group + 1]++;
        for (uint32_t g = 0; g < groups; g++)
            grouping->first[g + 1] += grouping->first[g];
        memcpy(next, grouping->first, ((size_t)groups + 1) * sizeof *next);
        for (size_t t = 0; t < params->tensor_count; t++)
            grouping->order[next[params->tensors[t].group]++] = (uint32_t)t;
    }
    free(next);
    return ok;
}

struct writer {
    struct clip_chunk_row *chunks;
    struct clip_group_row *groups;
    struct clip_start *starts;
    size_t start_count;
    uint32_t chunk;
};

static void write_chunks(struct writer *w, uint32_t group, uint32_t tensor, uint64_t count)
{
    w->starts[w->start_count++] = (struct clip_start) { w->chunk, tensor };
    for (uint32_t index = 0; index < count; index++)
        w->chunks[w->chunk++] = (struct clip_chunk_row) { tensor, index, group, 0 };
    w->groups[group].count += (uint32_t)count;
}

static void write_tensors(const struct ptx_clip_params *params, const struct clip_layout *layout,
                          struct clip_tensor_row *rows)
{
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_tensor *tensor = &params->tensors[t];
        rows[t] = (struct clip_tensor_row) {
            .data = tensor->data,
            .count = tensor->count,
            .weight = tensor->uncounted       ? 0.0
                      : tensor->weight == 0.0 ? 1.0
                                              : tensor->weight,
            .dtype = clip_dtype_code(tensor->dtype),
        };
    }
    // The type of the empty tensor must be one that the kernels know.
    struct clip_tensor_row *empty = &rows[params->tensor_count];
    empty->weight = 1.0;
    while (!(layout->dtypes >> dtypes[empty->dtype] & 1))
        empty->dtype++;
}

static void write_records(const struct ptx_clip_params *params, const struct clip_layout *layout,
                          struct ptx_clip_record *records)
{
    const float scale = params->loss_scale == 0.0f ? 1.0f : params->loss_scale;
    const struct ptx_clip_summary summary = { .loss_scale = scale, .state = { .scale = scale } };

    for (uint32_t g = 0; g < layout->group_count; g++)
        records[g].max_norm =
            params->group_max_norms ? params->group_max_norms[g] : params->max_norm;
    memcpy(&records[layout->group_count], &summary, sizeof summary);
}

ptx_status clip_layout_fill(const struct ptx_clip_params *params, const struct clip_layout *layout,
                            const struct clip_rule *rule, unsigned char *image,
                            struct clip_start *starts, size_t *start_count)
{
    struct grouping grouping;
    struct writer w = {
        .chunks = (struct clip_chunk_row *)(void *)(image + layout->chunks.offset),
        .groups = (struct clip_group_row *)(void *)(image + layout->groups.offset),
        .starts = starts,
    };
    ptx_status status = PTX_OK;

    if (!group_tensors(params, layout->group_count, &grouping)) {
        status = ptx_driver_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a clip plan");
    } else {
        for (uint32_t g = 0; g < layout->group_count; g++) {
            w.groups[g].first = w.chunk;
            for (size_t k = grouping.first[g]; k < grouping.first[g + 1]; k++) {
                const uint32_t tensor = grouping.order[k];
                const uint64_t count = pieces(params->tensors[tensor].count, layout->chunk);
                if (count)
                    write_chunks(&w, g, tensor, count);
            }
            if (w.groups[g].count == 0)
                write_chunks(&w, g, (uint32_t)params->tensor_count, 1);
        }
        write_tensors(params, layout, (void *)(image + layout->tensors.offset));
        write_records(params, layout, (void *)(image + layout->records.offset));
        memcpy(image + layout->rule.offset, rule, sizeof *rule);
    }
    free(grouping.first);
    free(grouping.order);
    *start_count = w.start_count;
    return status;
}
