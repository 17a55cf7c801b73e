// SPDX-License-Identifier: MIT
#include "rank.h"

#include <dlfcn.h>
#include <string.h>

// Uses the driver's own functions to make contexts current, which NCCL requires of its callers, and
// to copy sums, which only the comparison needs.
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(library, name);
    if (symbol)
        memcpy(function, &symbol, size);
    return symbol != NULL;
}

static bool make_current(struct rank *r)
{
    r->libcuda = dlopen(ptx_device_get_info(r->device)->library_path, RTLD_NOW | RTLD_LOCAL);
    return r->libcuda &&
           find(r->libcuda, "cuCtxSetCurrent", &r->set_current, sizeof r->set_current) &&
           find(r->libcuda, "cuMemcpyDtoH_v2", &r->copy_to_host, sizeof r->copy_to_host) &&
           find(r->libcuda, "cuMemcpyHtoD_v2", &r->copy_to_device, sizeof r->copy_to_device) &&
           r->set_current(ptx_device_context(r->device)) == 0;
}

static bool plan(struct rank *r)
{
    static const struct ptx_loss_scale_params update = { 0 };
    struct ptx_clip_tensor tensors[RANK_MAX_PARTS];
    for (size_t k = 0; k < r->part_count; k++)
        tensors[k] = (struct ptx_clip_tensor) { .data = ptx_buffer_address(r->buffers[k]),
                                                .count = r->parts[k].count,
                                                .dtype = r->parts[k].dtype,
                                                .weight = r->parts[k].weight };
    r->plan = ptx_clip_plan_create(r->device,
                                   &(struct ptx_clip_params) { .tensors = tensors,
                                                               .tensor_count = r->part_count,
                                                               .max_norm = SHARDED_MAX_NORM,
                                                               .eps = 1e-6f,
                                                               .nonfinite = PTX_NONFINITE_SKIP,
                                                               .loss_scale = SHARDED_LOSS_SCALE,
                                                               .update = &update,
                                                               .stream = r->stream });
    return r->plan != NULL;
}

bool rank_open(struct rank *r, int ordinal, const struct part *parts, size_t part_count)
{
    r->parts = parts;
    r->part_count = part_count;
    r->device =
        ptx_device_open(&(struct ptx_device_params) { .ordinal = ordinal, .primary = true });
    if (!r->device || !make_current(r) || !(r->stream = ptx_stream_create(r->device)) ||
        !(r->start = ptx_event_create(r->device)) || !(r->end = ptx_event_create(r->device)))
        return false;
    for (size_t k = 0; k < part_count; k++)
        if (!(r->buffers[k] = ptx_buffer_create(r->device, parts[k].bytes)))
            return false;
    return plan(r);
}

void rank_close(struct rank *r)
{
    ptx_clip_plan_destroy(&r->plan);
    for (size_t k = 0; k < r->part_count; k++)
        ptx_buffer_destroy(&r->buffers[k]);
    if (r->device) {
        ptx_event_destroy(r->device, &r->end);
        ptx_event_destroy(r->device, &r->start);
        ptx_stream_destroy(r->device, &r->stream);
    }
    if (r->set_current)
        r->set_current(NULL);
    ptx_device_close(&r->device);
    if (r->libcuda)
        dlclose(r->libcuda);
    r->libcuda = NULL;
}

bool rank_reset(struct rank *r)
{
    const struct ptx_loss_scale_state state = { .scale = SHARDED_LOSS_SCALE };
    for (size_t k = 0; k < r->part_count; k++)
        if (ptx_buffer_upload(r->buffers[k], 0, r->parts[k].data, r->parts[k].bytes, r->stream) !=
            PTX_OK)
            return false;
    return ptx_clip_plan_set_loss_scale(r->plan, state, r->stream) == PTX_OK &&
           ptx_stream_synchronize(r->device, r->stream) == PTX_OK;
}

bool rank_local_sum(struct rank *r, double *sum)
{
    return ptx_clip_plan_norm_sq(r->plan, r->stream) == PTX_OK &&
           ptx_stream_synchronize(r->device, r->stream) == PTX_OK &&
           r->copy_to_host(sum, ptx_clip_plan_get_info(r->plan)->sums, sizeof *sum) == 0;
}

static bool finish_and_apply(struct rank *r)
{
    return ptx_clip_plan_finish(r->plan, r->stream) == PTX_OK &&
           ptx_clip_plan_apply(r->plan, r->stream) == PTX_OK;
}

bool rank_clip(struct rank *r)
{
    bool ok = ptx_clip_plan_norm_sq(r->plan, r->stream) == PTX_OK;
    if (r->comm) {
        double *sums = (double *)(uintptr_t)ptx_clip_plan_get_info(r->plan)->sums;
        const int result =
            r->nccl->AllReduce(sums, sums, 1, NCCL_FLOAT64, NCCL_SUM, r->comm, r->stream);
        ok = ok && result == NCCL_SUCCESS;
    }
    return ok && finish_and_apply(r);
}

bool rank_clip_by_sum(struct rank *r, double sum)
{
    return ptx_clip_plan_norm_sq(r->plan, r->stream) == PTX_OK &&
           ptx_stream_synchronize(r->device, r->stream) == PTX_OK &&
           r->copy_to_device(ptx_clip_plan_get_info(r->plan)->sums, &sum, sizeof sum) == 0 &&
           finish_and_apply(r);
}

ptx_graph *rank_capture(struct rank *r)
{
    if (ptx_capture_begin(r->device, r->stream, PTX_CAPTURE_THREAD_LOCAL) != PTX_OK)
        return NULL;
    if (rank_clip(r))
        return ptx_capture_end(r->device, r->stream);
    ptx_capture_abandon(r->device, r->stream);
    return NULL;
}

bool rank_read(struct rank *r, struct outcome *outcome)
{
    unsigned char *to = outcome->gradients;
    bool ok =
        ptx_clip_plan_read(r->plan, 0, 1, &outcome->record, &outcome->summary, r->stream) == PTX_OK;
    for (size_t k = 0; ok && k < r->part_count; k++) {
        ok = ptx_buffer_download(r->buffers[k], 0, to, r->parts[k].bytes, r->stream) == PTX_OK;
        to += r->parts[k].bytes;
    }
    return ok && ptx_stream_synchronize(r->device, r->stream) == PTX_OK &&
           r->copy_to_host(&outcome->sum, ptx_clip_plan_get_info(r->plan)->sums,
                           sizeof outcome->sum) == 0;
}
