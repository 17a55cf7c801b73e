// SPDX-License-Identifier: MIT
// The matrices of a parameter: rows or columns of it, as tensors of a step plan.
#include <inttypes.h>
#include <stdlib.h>

#include <ptxgen/muon.h>
#include <ptxgen/norm.h>

#include "driver/error.h"

// Of a parameter: its sides, and which range each of its rows or columns is in, counted from 1.
struct lines {
    uint64_t rows, columns, count;
    bool columns_too; // they are columns
    uint32_t *owner;
};

static const char *kind_of(const struct lines *l)
{
    return l->columns_too ? "columns" : "rows";
}

static uint64_t runs_of(const struct lines *l, const struct ptx_muon_range *r)
{
    return r->stride ? (l->count - r->first - r->run) / r->stride + 1 : 1;
}

static ptx_status check_range(const struct lines *l, size_t k, const struct ptx_muon_range *r)
{
    if (r->columns != l->columns_too)
        return ptxd_fail(PTX_ERROR_INVALID, "range %zu is of %s, and range 0 of %s: they overlap",
                         k, r->columns ? "columns" : "rows", kind_of(l));
    if (!r->run || r->first >= l->count || r->run > l->count - r->first)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "range %zu: first %" PRIu64 " and run %" PRIu64 " are not within the "
                         "parameter's %" PRIu64 " %s",
                         k, r->first, r->run, l->count, kind_of(l));
    if (r->stride && r->stride < r->first + r->run)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "range %zu: its stride is %" PRIu64 ", below first + run, %" PRIu64, k,
                         r->stride, r->first + r->run);
    if (r->stride && r->columns && l->count % r->stride)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "range %zu: its stride is %" PRIu64 ", which does not divide the "
                         "parameter's %" PRIu64 " columns: give its runs as ranges",
                         k, r->stride, l->count);
    return PTX_OK;
}

static ptx_status own(struct lines *l, size_t k, const struct ptx_muon_range *r)
{
    for (uint64_t n = 0; n < runs_of(l, r); n++)
        for (uint64_t i = 0; i < r->run; i++) {
            const uint64_t at = r->first + n * r->stride + i;
            if (l->owner[at])
                return ptxd_fail(PTX_ERROR_INVALID,
                                 "ranges %" PRIu32 " and %zu overlap: both have %s %" PRIu64,
                                 l->owner[at] - 1, k, l->columns_too ? "column" : "row", at);
            l->owner[at] = (uint32_t)k + 1;
        }
    return PTX_OK;
}

static uint64_t run_at(const struct lines *l, uint64_t first, bool is_owned)
{
    uint64_t at = first;

    while (at < l->count && (l->owner[at] != 0) == is_owned)
        at++;
    return at - first;
}

// The range of what no other has; run 0: there is none.
static ptx_status find_rest(struct lines *l, bool wanted, struct ptx_muon_range *rest)
{
    *rest = (struct ptx_muon_range) { .first = run_at(l, 0, true), .columns = l->columns_too };
    if (rest->first == l->count)
        return PTX_OK;
    rest->run = run_at(l, rest->first, false);
    if (!wanted)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "no range has the %s %" PRIu64 " to %" PRIu64
                         " of the parameter's %" PRIu64
                         ": give ranges for what is left, or ask for "
                         "the rest as one matrix",
                         kind_of(l), rest->first, rest->first + rest->run - 1, l->count);
    const uint64_t end = rest->first + rest->run, next = end + run_at(l, end, true);
    if (next == l->count)
        return PTX_OK;
    rest->stride = next - rest->first;
    const uint64_t behind = rest->first + rest->run;
    bool fits = behind <= rest->stride && !(l->columns_too && l->count % rest->stride);
    for (uint64_t at = 0; at < l->count && fits; at++) {
        const uint64_t place = at % rest->stride;
        const bool is_whole = at - place + behind <= l->count; // the run there
        const bool is = place >= rest->first && place < behind && is_whole;
        fits = is == !l->owner[at];
    }
    return fits ? PTX_OK
                : ptxd_fail(PTX_ERROR_INVALID,
                            "the %s that no range has are no range: those from %" PRIu64
                            " and from %" PRIu64
                            " on do not repeat to the end: give ranges for them",
                            kind_of(l), rest->first, next);
}

static struct ptx_muon_slice slice_of(const struct lines *l, const struct ptx_muon_range *r)
{
    const uint64_t runs = runs_of(l, r), all = runs * r->run;
    struct ptx_muon_slice s = { .columns = l->columns };
    const bool follow = runs == 1 || r->stride == r->run;

    if (!r->columns) {
        s.first = r->first * l->columns;
        s.count = all * l->columns;
        if (!follow)
            s.spread = (struct ptx_muon_spread) { r->run * l->columns, r->stride * l->columns };
        return s;
    }
    s.first = r->first;
    s.columns = all;
    s.count = all * l->rows;
    if (all != l->columns && !(follow && l->rows == 1))
        s.spread = (struct ptx_muon_spread) { r->run, follow ? l->columns : r->stride };
    return s;
}

static ptx_status slice(struct lines *l, const struct ptx_muon_range *ranges, size_t count,
                        bool wants_rest, struct ptx_muon_slice *slices, size_t *slice_count)
{
    struct ptx_muon_range rest;
    ptx_status status = PTX_OK;

    for (size_t k = 0; k < count && !status; k++) {
        status = check_range(l, k, &ranges[k]);
        if (!status)
            status = own(l, k, &ranges[k]);
    }
    if (!status)
        status = find_rest(l, wants_rest, &rest);
    if (status)
        return status;
    for (size_t k = 0; k < count; k++)
        slices[k] = slice_of(l, &ranges[k]);
    if (rest.run)
        slices[count] = slice_of(l, &rest);
    *slice_count = count + (rest.run != 0);
    return PTX_OK;
}

ptx_status ptx_muon_slices(uint64_t rows, uint64_t columns, const struct ptx_muon_range *ranges,
                           size_t range_count, bool rest, struct ptx_muon_slice *slices,
                           size_t *slice_count)
{
    struct lines l = { .rows = rows, .columns = columns };
    ptx_status status;

    if (!slices || !slice_count || (range_count && !ranges))
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is NULL", __func__,
                         !slices        ? "slices"
                         : !slice_count ? "slice_count"
                                        : "ranges");
    l.columns_too = range_count && ranges[0].columns;
    l.count = l.columns_too ? columns : rows;
    if (!rows || !columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: a parameter of %" PRIu64 " x %" PRIu64
                         ": it has no elements, and so no matrices: leave it out",
                         __func__, rows, columns);
    if (rows > PTX_CLIP_MAX_ELEMENTS / columns || l.count > INT32_MAX || range_count >= INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: a parameter of %" PRIu64 " x %" PRIu64
                         " and %zu ranges: there are at "
                         "most 2^40 elements, and 2^31 - 1 rows, columns and ranges",
                         __func__, rows, columns, range_count);
    l.owner = calloc((size_t)l.count, sizeof *l.owner);
    if (!l.owner)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "%s: out of host memory", __func__);
    status = slice(&l, ranges, range_count, rest, slices, slice_count);
    free(l.owner);
    return ptxd_named(status, __func__);
}
