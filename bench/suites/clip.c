// SPDX-License-Identifier: MIT
// Clip plans for the gradients of models, and how their time grows with the bytes of one tensor and
// with the number of tensors for the same bytes.
#include "gradient_sets.h"
#include "set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EMULATED_ELEMENTS = 1 << 17, MOST_CALLS = 100, FEWEST_CALLS = 10, EMULATED_CALLS = 2 };

static const uint64_t gpu_copy = UINT64_C(1) << 30, emulated_copy = UINT64_C(1) << 17;
static const double host_seconds =
    0.1; // of work on the device, for calls that are timed on the host

/// What is measured for a plan, besides replays of its graph.
struct clip_parts {
    bool eager;  ///< runs, without a graph
    bool host;   ///< host time of a run and of a graph launch
    bool cold;   ///< replays with L2 flushed before, if the set could fit into it
    bool update; ///< replays that update a loss scale
};

/// The parameters of a measured plan.
struct mode {
    const char *name;
    /// Multiplies every gradient by a factor just below 1, as clipping and unscaling do, so that
    /// the gradients stay finite and nonzero in all runs.
    float loss_scale;
    double moved; // multiple of the gradients' bytes
};

static const struct mode clipped = { "clipped", 1.0f + 0x1p-23f, 3 };
static const struct mode unclipped = { "nothing to clip", 1, 1 };

struct measured {
    const struct bench_set *set;
    const struct mode *mode;
    ptx_clip_plan *plan;
    ptx_graph *graph;
};

static ptx_status enqueue_run(struct bench *b, const void *state)
{
    return ptx_clip_plan_run(((const struct measured *)state)->plan, b->stream);
}

static ptx_status enqueue_graph(struct bench *b, const void *state)
{
    return ptx_graph_launch(((const struct measured *)state)->graph, b->stream);
}

static json_t *facts_of(const struct bench_set *set)
{
    return json_pack("{s:s, s:s, s:I, s:i, s:I}", "name", set->name, "dtype",
                     ptx_type_name(set->dtype), "tensors", (json_int_t)set->count, "groups",
                     (int)set->groups, "elements", (json_int_t)set->elements);
}

// ---- one plan -----------------------------------------------------------------------------------

static bool measure_device(struct bench *b, const struct measured *of, const char *form, bool cold,
                           struct bench_times *times)
{
    char label[128];
    const bool eager = strcmp(form, "eager") == 0;
    const struct bench_work work = { eager ? enqueue_run : enqueue_graph, of, cold };
    if (!bench_measure(b, &work, times))
        return false;
    json_t *facts = bench_with(facts_of(of->set), "mode", json_string(of->mode->name));
    facts = bench_with(facts, "form", json_string(form));
    facts = bench_with(facts, "l2", json_string(cold ? "cold" : "warm"));
    snprintf(label, sizeof(label), "%s %s, %s, %s%s", of->set->name, ptx_type_name(of->set->dtype),
             of->mode->name, form, cold ? ", cold L2" : "");
    return bench_report_times(b, facts, label, times, of->mode->moved * (double)of->set->bytes);
}

static bool measure_host(struct bench *b, const struct measured *of, const char *what,
                         ptx_status (*enqueue)(struct bench *, const void *), double device_time)
{
    struct bench_times times;
    const double most = host_seconds / device_time;
    const unsigned calls = b->emulated           ? EMULATED_CALLS
                           : most > MOST_CALLS   ? MOST_CALLS
                           : most < FEWEST_CALLS ? FEWEST_CALLS
                                                 : (unsigned)most;
    if (!bench_measure_host(b, &(struct bench_work) { enqueue, of, false }, calls, &times))
        return false;
    char label[128];
    json_t *figures =
        json_pack("{s:s, s:f, s:f, s:f, s:i, s:i}", "host", what, "median_us", times.median * 1e6,
                  "min_us", times.least * 1e6, "max_us", times.most * 1e6, "samples",
                  (int)times.samples, "calls", (int)calls);
    snprintf(label, sizeof(label), "%s %s, host, %s", of->set->name, ptx_type_name(of->set->dtype),
             what);
    return bench_report(b, bench_with_all(facts_of(of->set), figures),
                        "%-58s %10.2f us (%.2f to %.2f) a call", label, times.median * 1e6,
                        times.least * 1e6, times.most * 1e6);
}

static bool measure_mode(struct bench *b, struct measured *of, const struct mode *mode,
                         struct clip_parts parts)
{
    struct bench_times times;
    const struct ptx_loss_scale_state state = { .scale = mode->loss_scale };
    const bool may_be_warm =
        of->set->bytes < 2 * (uint64_t)ptx_device_get_info(b->gpu.device)->l2_cache;
    of->mode = mode;
    if (!bench_ok(b, ptx_clip_plan_set_loss_scale(of->plan, state, b->stream), "loss scale") ||
        !measure_device(b, of, "graph", false, &times) ||
        (parts.eager && !measure_device(b, of, "eager", false, &times)))
        return false;
    if (parts.cold &&
        !(may_be_warm ? measure_device(b, of, "graph", true, &times) : (bench_step(b), true)))
        return false;
    return !parts.host || mode != &unclipped ||
           (measure_host(b, of, "run", enqueue_run, times.median) &&
            measure_host(b, of, "graph launch", enqueue_graph, times.median));
}

static bool measure_plan(struct bench *b, const struct bench_set *set,
                         const struct bench_sums *sums, struct clip_parts parts)
{
    const CUdeviceptr memory = ptx_buffer_address(set->memory);
    const struct ptx_clip_params params = { .tensors = set->tensors,
                                            .tensor_count = set->count,
                                            .max_norm = INFINITY };
    struct measured of = { .set = set, .plan = ptx_clip_plan_create(b->gpu.device, &params) };
    bool done = of.plan ? bench_randomize(b, memory, set->span, set->dtype) &&
                              bench_set_check(b, set, of.plan, sums) &&
                              bench_randomize(b, memory, set->span, set->dtype) &&
                              bench_ok(b,
                                       ptx_clip_plan_set_max_norm(of.plan, PTX_CLIP_ALL_GROUPS,
                                                                  INFINITY, b->stream),
                                       "max_norm") &&
                              bench_capture(b, enqueue_run, &of, &of.graph) &&
                              measure_mode(b, &of, &clipped, parts) &&
                              measure_mode(b, &of, &unclipped, parts)
                        : bench_ok(b, ptx_error_status(), "plan");
    ptx_graph_destroy(&of.graph);
    ptx_clip_plan_destroy(&of.plan);
    return done;
}

/// The same with the update of the loss scale.
static bool measure_update(struct bench *b, const struct bench_set *set)
{
    static const struct mode mode = { "clipped, loss scale updated", 1.0f + 0x1p-23f, 3 };
    static const struct ptx_loss_scale_params update = { .interval = INT32_MAX };
    const struct ptx_clip_params params = {
        .tensors = set->tensors, .tensor_count = set->count, .max_norm = INFINITY, .update = &update
    };
    struct measured of = { .set = set, .plan = ptx_clip_plan_create(b->gpu.device, &params) };
    bool done = of.plan ? bench_capture(b, enqueue_run, &of, &of.graph) &&
                              measure_mode(b, &of, &mode, (struct clip_parts) { 0 })
                        : bench_ok(b, ptx_error_status(), "plan");
    ptx_graph_destroy(&of.graph);
    ptx_clip_plan_destroy(&of.plan);
    return done;
}

// ---- one set ------------------------------------------------------------------------------------

/// The number of bench_step() calls that it makes.
static size_t steps_of(struct clip_parts parts)
{
    const size_t a_mode = (size_t)1 + parts.eager + parts.cold;
    return 2 * a_mode + 2 * (size_t)parts.host + parts.update;
}

/// Allocates the set's memory, checks a run against sums and products computed on the host, then
/// measures and reports: with everything scaled, and with nothing to clip. Reports a lack of
/// memory.
static bool measure_parts(struct bench *b, struct bench_set *set, const struct bench_sums *sums,
                          struct clip_parts parts)
{
    char label[128], reason[128];
    if (!bench_has_room(b, set->span)) {
        snprintf(label, sizeof(label), "%s %s", set->name, ptx_type_name(set->dtype));
        snprintf(reason, sizeof(reason), "%.2f GB of device memory are more than are free",
                 (double)set->span / 1e9);
        for (size_t k = 0; k < steps_of(parts); k++)
            bench_step(b);
        return bench_report_missing(b, facts_of(set), label, reason);
    }
    set->memory = bench_buffer(b, set->span);
    if (!set->memory)
        return false;
    for (size_t t = 0; t < set->count; t++)
        set->tensors[t].data += ptx_buffer_address(set->memory);
    return measure_plan(b, set, sums, parts) && (!parts.update || measure_update(b, set));
}

static bool measure_set(struct bench *b, const struct gradient_set *of,
                        const struct bench_sums *sums, struct clip_parts parts)
{
    struct bench_set set;
    if (!bench_set_create(b, &set, of->name, sums->dtype, gradient_set_list(of, NULL)))
        return false;
    gradient_set_list(of, set.tensors);
    bench_set_place(&set);
    bool done = measure_parts(b, &set, sums, parts);
    bench_set_destroy(b, &set);
    return done;
}

// ---- the gradients of models --------------------------------------------------------------------

static bool is_wanted(const struct bench *b, const struct gradient_set *of)
{
    const bool small = gradient_set_elements(of) <= EMULATED_ELEMENTS;
    return bench_is_wanted(b, of->name) && (small || !b->emulated || b->options.only);
}

bool bench_suite_clip(struct bench *b)
{
    static const ptx_type dtypes[] = { PTX_F32, PTX_BF16 };
    const size_t types = sizeof(dtypes) / sizeof(dtypes[0]);
    const struct clip_parts parts = {
        .eager = true, .host = true, .cold = !b->emulated, .update = true
    };
    const struct gradient_set *of;
    size_t sets = 0;
    for (size_t k = 0; (of = gradient_set_at(k)); k++)
        sets += is_wanted(b, of);
    if (sets == 0)
        return true;
    bench_steps(b, 1, sets * types * steps_of(parts));
    bool done = bench_copy(b, b->emulated ? emulated_copy : gpu_copy);
    for (size_t t = 0; t < types && done; t++) {
        struct bench_sums sums;
        done = bench_sums_create(b, &sums, dtypes[t]);
        for (size_t k = 0; (of = gradient_set_at(k)) && done; k++)
            if (is_wanted(b, of))
                done = measure_set(b, of, &sums, parts);
        bench_sums_destroy(&sums);
    }
    return done;
}

// ---- growth -------------------------------------------------------------------------------------

/// The range of measurements, as powers of 2 and of 10.
struct range {
    unsigned smallest, largest; ///< log2 of the elements of one tensor
    unsigned total;             ///< log2 of the total elements of many tensors
    unsigned most;              ///< log10 of the largest number of tensors
    uint64_t copy;              ///< bytes of the reference copy
};

static const struct range on_gpu = { 20, 33, 27, 5, UINT64_C(1) << 30 };
static const struct range on_emulator = { 10, 16, 14, 2, UINT64_C(1) << 17 };

/// Counts a set if it is selected; measures it if sums are given.
static bool grow_one(struct bench *b, size_t tensors, uint64_t elements,
                     const struct bench_sums *sums, size_t *count)
{
    static const struct clip_parts parts;
    char name[96];
    struct bench_set set;
    snprintf(name, sizeof(name), "%zu x %" PRIu64, tensors, elements);
    if (!bench_is_wanted(b, name))
        return true;
    *count += steps_of(parts);
    if (!sums)
        return true;
    bool done = bench_set_create(b, &set, name, sums->dtype, tensors);
    if (done) {
        for (size_t t = 0; t < tensors; t++)
            set.tensors[t].count = elements;
        bench_set_place(&set);
        done = measure_parts(b, &set, sums, parts);
    }
    bench_set_destroy(b, &set);
    return done;
}

static bool grow_all(struct bench *b, const struct range *range, const struct bench_sums *sums,
                     size_t *count)
{
    *count = 0;
    for (unsigned k = range->smallest; k <= range->largest; k++)
        if (!grow_one(b, 1, UINT64_C(1) << k, sums, count))
            return false;
    // One tensor with the same number of elements was measured above.
    size_t tensors = 10;
    for (unsigned k = 1; k <= range->most; k++, tensors *= 10)
        if (!grow_one(b, tensors, (UINT64_C(1) << range->total) / tensors, sums, count))
            return false;
    return true;
}

bool bench_suite_growth(struct bench *b)
{
    const struct range *range = b->emulated ? &on_emulator : &on_gpu;
    struct bench_sums sums = { 0 };
    size_t steps;
    grow_all(b, range, NULL, &steps);
    if (steps == 0)
        return true;
    bench_steps(b, 1, steps);
    bool done = bench_copy(b, range->copy) && bench_sums_create(b, &sums, PTX_BF16) &&
                grow_all(b, range, &sums, &steps);
    bench_sums_destroy(&sums);
    return done;
}
