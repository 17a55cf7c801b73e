// SPDX-License-Identifier: MIT
// Reports on the host: those of several ranks folded to one, and the error that names what was not
// finite.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "norm_plan.h"

// ---- over ranks ---------------------------------------------------------------------------------

// Norms of parts of a tensor, added in the order of the ranks. That of one part alone stays as it
// is.
struct norm_fold {
    uint32_t parts;
    double norm, squares;
};

static void fold_norm(struct norm_fold *fold, double norm)
{
    fold->norm = norm;
    fold->squares += norm * norm;
    fold->parts++;
}

// NaN as the kernels write it.
static double folded_norm(const struct norm_fold *fold)
{
    const uint64_t nan = UINT64_MAX >> 1;
    double norm = fold->parts == 1 ? fold->norm : sqrt(fold->squares);

    if (isnan(norm))
        memcpy(&norm, &nan, sizeof norm);
    return norm;
}

static float larger(float x, float y)
{
    const uint32_t bits = UINT32_MAX >> 1;
    float nan;

    memcpy(&nan, &bits, sizeof nan);
    return isnan(x) || isnan(y) ? nan : x > y ? x : y;
}

static struct ptx_gradient_report fold_gradient(const struct ptx_gradient_report *rows,
                                                const bool *copies, uint32_t ranks, size_t tensors)
{
    struct ptx_gradient_report all = { .absent = 1, .first_nonfinite = -1 };
    struct norm_fold norm = { 0 };

    for (size_t k = 0; k < ranks * tensors; k += tensors) {
        const struct ptx_gradient_report *row = &rows[k];
        if (row->absent || (copies && copies[k]))
            continue;
        fold_norm(&norm, row->norm);
        all.largest = larger(all.largest, row->largest);
        all.zeros += row->zeros;
        if (row->first_nonfinite >= 0 &&
            (all.first_nonfinite < 0 || row->first_nonfinite < all.first_nonfinite))
            all.first_nonfinite = row->first_nonfinite;
        all.absent = 0;
    }
    all.norm = folded_norm(&norm);
    return all;
}

static struct ptx_weight_report fold_weight(const struct ptx_weight_report *rows,
                                            const bool *copies, uint32_t ranks, size_t tensors)
{
    struct ptx_weight_report all = { .absent = 1 };
    struct norm_fold norm = { 0 }, change = { 0 };

    for (size_t k = 0; k < ranks * tensors; k += tensors) {
        const struct ptx_weight_report *row = &rows[k];
        if (row->absent || (copies && copies[k]))
            continue;
        fold_norm(&norm, row->norm);
        fold_norm(&change, row->change);
        all.largest = larger(all.largest, row->largest);
        all.absent = 0;
    }
    all.norm = folded_norm(&norm);
    all.change = folded_norm(&change);
    return all;
}

static ptx_status check_fold(const char *call, const void *rows, uint32_t ranks, size_t tensors,
                             const void *folded)
{
    if (!ranks)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: ranks is 0: give the number of ranks", call);
    if (tensors > PTX_CLIP_MAX_TENSORS)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %zu tensors; a plan takes %d", call, tensors,
                         PTX_CLIP_MAX_TENSORS);
    if (tensors && (!rows || !folded))
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is NULL", call, rows ? "folded" : "rows");
    return PTX_OK;
}

ptx_status ptx_gradient_reports_fold(const struct ptx_gradient_report *rows, const bool *copies,
                                     uint32_t ranks, size_t tensors,
                                     struct ptx_gradient_report *folded)
{
    const ptx_status status = check_fold(__func__, rows, ranks, tensors, folded);

    for (size_t t = 0; t < tensors && !status; t++)
        folded[t] = fold_gradient(rows + t, copies ? copies + t : NULL, ranks, tensors);
    return status;
}

ptx_status ptx_weight_reports_fold(const struct ptx_weight_report *rows, const bool *copies,
                                   uint32_t ranks, size_t tensors, struct ptx_weight_report *folded)
{
    const ptx_status status = check_fold(__func__, rows, ranks, tensors, folded);

    for (size_t t = 0; t < tensors && !status; t++)
        folded[t] = fold_weight(rows + t, copies ? copies + t : NULL, ranks, tensors);
    return status;
}

// ---- what was not finite ------------------------------------------------------------------------

static ptx_status refuse_tensor(const struct ptx_gradient_report *rows, size_t tensors, size_t t,
                                const char *const *names)
{
    const char *name = names ? names[t] : NULL;
    size_t others = 0;

    for (size_t k = t + 1; k < tensors; k++)
        others += rows[k].first_nonfinite >= 0;
    ptxd_fail(PTX_ERROR_NONFINITE,
              "the gradient of tensor %zu%s%s%s has NaN or infinity, the first at element %" PRId64,
              t, name ? " (" : "", name ? name : "", name ? ")" : "", rows[t].first_nonfinite);
    if (others)
        ptxd_explain(" (and %zu more tensor%s)", others, ptxd_plural(others));
    return PTX_ERROR_NONFINITE;
}

// Names the first tensor, or says that none of these tensors is the reason.
static ptx_status refuse_reported(const struct norm_plan *plan, const char *const *names,
                                  CUstream stream)
{
    const size_t tensors = plan->layout.tensor_count - 1;
    struct ptx_gradient_report *rows = malloc((tensors + 1) * sizeof *rows);
    ptx_status status;
    size_t t = 0;

    if (!rows)
        return ptxp_norm_out_of_host_memory(plan->hooks);
    status = tensors ? ptx_address_download(plan->device, plan->params.reports_at, rows,
                                            tensors * sizeof *rows, stream)
                     : PTX_OK;
    if (!status)
        status = ptx_stream_synchronize(plan->device, stream);
    while (!status && t < tensors && rows[t].first_nonfinite < 0)
        t++;
    if (!status)
        status = t < tensors
                     ? refuse_tensor(rows, tensors, t, names)
                     : ptxd_fail(PTX_ERROR_NONFINITE,
                                 "every gradient of this plan is finite: another plan's or rank's "
                                 "is not, or found_inf_at, the loss scale or max_norms_at has a "
                                 "value that is not usable");
    free(rows);
    return status;
}

// Without reports a record is all that there is.
static ptx_status refuse_group(const struct norm_plan *plan, CUstream stream)
{
    const uint32_t groups = plan->layout.group_count;
    struct ptx_clip_record *records = malloc(groups * sizeof *records);
    uint32_t g = 0;

    if (!records)
        return ptxp_norm_out_of_host_memory(plan->hooks);
    ptx_status status = ptxp_norm_plan_read(plan, 0, groups, records, NULL, stream);
    if (!status)
        status = ptx_stream_synchronize(plan->device, stream);
    while (!status && g + 1 < groups && records[g].found_inf == 0)
        g++;
    if (!status)
        status = ptxd_fail(PTX_ERROR_NONFINITE,
                           "something in %s %" PRIu32 " is NaN or infinite, or an input is not "
                           "usable; its norm is %g. With reports_at this call names the tensor "
                           "and the element",
                           plan->hooks->group, g, (double)records[g].norm);
    free(records);
    return status;
}

static ptx_status check_finite(const struct norm_plan *plan, const char *const *names,
                               CUstream stream)
{
    struct ptx_clip_summary summary;
    bool capturing;
    ptx_status status = ptx_stream_is_capturing(plan->device, stream, &capturing);

    if (!status && capturing)
        status =
            ptxd_fail(PTX_ERROR_CAPTURE,
                      "%s is being captured, and the call waits: use another stream, or call it "
                      "after the capture",
                      ptxd_captured(stream));
    if (!status && plan->no_norm)
        status = ptxd_fail(PTX_ERROR_INVALID,
                           "the plan takes no norm, since max_norm was INFINITY, and so detects "
                           "nothing: create it with reports_at");
    if (!status)
        status = ptxp_norm_plan_read(plan, 0, 0, NULL, &summary, stream);
    if (!status)
        status = ptx_stream_synchronize(plan->device, stream);
    if (status || summary.found_inf == 0)
        return status;
    return plan->layout.spec.reports ? refuse_reported(plan, names, stream)
                                     : refuse_group(plan, stream);
}

ptx_status ptxp_norm_plan_check_finite(struct norm_plan *plan, const char *call,
                                       const char *const *names, CUstream stream)
{
    const ptx_status status = ptxp_norm_plan_begin(plan, call);

    return status ? status : ptxp_norm_plan_end(plan, call, check_finite(plan, names, stream));
}
