// SPDX-License-Identifier: MIT
#include <ptxgen/blocks.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/launch.h>
#include <ptxgen/stream.h>

#include "arrays.h"
#include "driver/error.h"
#include "driver/nvtx.h"
#include "kernels/blocks.h"
#include "load.h"

enum { TWO_DIMENSIONAL = 16, EDGES = 8, LARGEST_E2M1 = 6 };
enum { ARRAYS = 6 }; // of a tensor, at most
_Static_assert((int)PTX_BLOCK_TENSORS == (int)BLOCKS_TENSORS, "of a launch");

struct ptx_block_plan {
    ptx_device *device;
    ptx_module *module;
    ptx_function *function;
    struct blocks_spec spec;
    uint32_t columns, rows; // what a tensor's are multiples of
    double factor;          // of the gradients of amaxes
    bool any_address;
};

// ---- formats ------------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum block_float element;
    uint32_t width, height;
} formats[] = {
#define ROW(id, name, element, width, height) { #name, BLOCK_##element, width, height },
    PTX_BLOCK_FORMATS(ROW)
#undef ROW
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const char *const likes[] = { "default", "te", "torchao", "deepgemm" };
static const char *const scales[] = { "default", "floor", "rceil", "f32", "power_of_2" };
enum { LIKES = sizeof likes / sizeof *likes, SCALES = sizeof scales / sizeof *scales };

static const struct {
    const char *prefix; // of formats
    ptx_block_like like;
    ptx_block_scale scale;
    enum block_scaling scaling;
} ways[] = {
#define ROW(prefix, like, scale, rule)                                                             \
    { #prefix, PTX_BLOCK_LIKE_##like, PTX_BLOCK_SCALE_##scale, BLOCK_##rule },
    PTX_BLOCK_WAYS(ROW)
#undef ROW
};
enum { WAYS = sizeof ways / sizeof *ways };

static bool has_way(ptx_block_format format, size_t way)
{
    return !strncmp(formats[format].name, ways[way].prefix, strlen(ways[way].prefix));
}

static ptx_status choose_scaling(const struct ptx_block_params *p, struct blocks_spec *spec)
{
    for (size_t k = 0; k < WAYS; k++)
        if (has_way(p->format, k) && (!p->like || p->like == ways[k].like) &&
            (!p->scale || p->scale == ways[k].scale)) {
            spec->scaling = ways[k].scaling;
            return PTX_OK;
        }
    ptxd_fail(PTX_ERROR_INVALID,
              "format is %s, like is %s and scale is %s, which do not go together; the format has",
              formats[p->format].name, likes[p->like], scales[p->scale]);
    for (size_t k = 0; k < WAYS; k++)
        if (has_way(p->format, k))
            ptxd_explain(" (%s, %s)", likes[ways[k].like], scales[ways[k].scale]);
    return PTX_ERROR_INVALID;
}

static ptx_status outside(const char *field, int value, int count)
{
    return ptxd_fail(PTX_ERROR_INVALID, "%s is %d; it must be from 0 to %d", field, value,
                     count - 1);
}

static ptx_status choose_learning(const struct ptx_block_params *p, struct blocks_spec *spec)
{
    const struct {
        bool is;
        const char *name;
    } others[] = { { p->format != PTX_BLOCK_FORMAT_NVFP4, "format is no nvfp4" },
                   { p->two_dimensional, "two_dimensional is true" },
                   { p->stochastic, "stochastic is true" },
                   { p->hadamard, "hadamard is true" },
                   { p->measure, "measure is true" } };

    if (p->gradients && !p->learned)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "gradients is true, and learned is not; they are those of learned amaxes");
    for (size_t k = 0; k < sizeof others / sizeof *others && p->learned; k++)
        if (others[k].is)
            return ptxd_fail(
                PTX_ERROR_INVALID,
                "learned is true, and %s; learned amaxes are of nvfp4 in blocks of one "
                "row, to nearest",
                others[k].name);
    if (!p->gradients && p->grad_factor != 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "grad_factor is %g, and gradients is not true; leave it 0",
                         p->grad_factor);
    if (p->gradients && !(isfinite(p->grad_factor) && p->grad_factor != 0))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "grad_factor is %g; it must be finite and not 0: 1 / sqrt(96) is that of "
                         "learned step sizes",
                         p->grad_factor);
    spec->learning = p->gradients ? BLOCK_GRADIENT : p->learned ? BLOCK_LEARNED : BLOCK_MEASURED;
    return PTX_OK;
}

static ptx_status choose(ptx_block_plan *plan, const struct ptx_block_params *p)
{
    struct blocks_spec *spec = &plan->spec;
    ptx_status status;

    if (p->dtype != PTX_F32 && p->dtype != PTX_F16 && p->dtype != PTX_BF16)
        return ptxd_fail(PTX_ERROR_INVALID, "dtype is %s; it must be f32, f16 or bf16",
                         ptxp_type_text(p->dtype, (char[TYPE_TEXT_SIZE]) { 0 }));
    if ((unsigned)p->format >= FORMATS)
        return outside("format", (int)p->format, FORMATS);
    if ((unsigned)p->like >= LIKES)
        return outside("like", (int)p->like, LIKES);
    if ((unsigned)p->scale >= SCALES)
        return outside("scale", (int)p->scale, SCALES);
    if (p->two_dimensional && p->format != PTX_BLOCK_FORMAT_NVFP4)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "two_dimensional is true, and format is %s; only nvfp4 has blocks of 16 "
                         "rows and 16 columns beside those of its rows",
                         formats[p->format].name);
    if ((p->hadamard || p->measure) && p->format != PTX_BLOCK_FORMAT_NVFP4)
        return ptxd_fail(PTX_ERROR_INVALID, "%s is true, and format is %s; it is for nvfp4 alone",
                         p->hadamard ? "hadamard" : "measure", formats[p->format].name);
    if ((p->hadamard || p->measure) && p->two_dimensional)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s and two_dimensional are true; it goes along rows alone",
                         p->hadamard ? "hadamard" : "measure");
    if (p->hadamard && p->dtype != PTX_BF16)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "hadamard is true, and dtype is %s; the transform is of bf16",
                         ptx_type_name(p->dtype));
    if (p->measure && p->stochastic)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "measure and stochastic are true, and there is nothing to round");
    status = choose_learning(p, spec);
    if (status)
        return status;
    spec->dtype = p->dtype;
    spec->element = formats[p->format].element;
    spec->width = formats[p->format].width;
    spec->height = p->two_dimensional ? TWO_DIMENSIONAL : formats[p->format].height;
    spec->stochastic = p->stochastic;
    spec->hadamard = p->hadamard;
    spec->measure = p->measure;
    plan->columns = spec->height > TWO_DIMENSIONAL ? EDGES : spec->width;
    plan->rows = p->two_dimensional ? TWO_DIMENSIONAL : 1;
    plan->any_address = p->any_address;
    plan->factor = p->grad_factor / (double)LARGEST_E2M1;
    return choose_scaling(p, spec);
}

// ---- plans --------------------------------------------------------------------------------------

static ptx_status load(ptx_block_plan *plan, const struct ptx_block_params *params, CUstream stream)
{
    static const struct ptx_module_params defaults;
    enum { LEAST_SM = 80 };
    const struct ptx_device_info *info = ptx_device_get_info(plan->device);

    if (info->sm < LEAST_SM)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                         "%s (compute capability %d.%d): block formats need 8.0", info->name,
                         info->sm / 10, info->sm % 10);
    ptx_builder *b = ptxp_builder_create(plan->device);
    if (!b)
        return ptx_error_status();
    ptxk_blocks_emit(b, &plan->spec);
    plan->module = ptxp_load(plan->device, b, "the kernel of a block plan",
                             params->module ? params->module : &defaults, stream);
    ptx_builder_destroy(&b);
    if (plan->module)
        plan->function = ptx_module_function(plan->module, BLOCKS_ENTRY);
    return plan->function ? PTX_OK : ptx_error_status();
}

static ptx_status make(ptx_block_plan *plan, const struct ptx_block_params *params, CUstream stream)
{
    ptx_status status;

    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    status = choose(plan, params);
    if (!status)
        status = ptxp_refuse_capture(plan->device, stream, "block plan");
    return status ? status : load(plan, params, stream);
}

ptx_block_plan *ptx_block_plan_create(ptx_device *device, const struct ptx_block_params *params,
                                      CUstream stream)
{
    ptx_block_plan *plan;

    if (!device) {
        ptxd_fail(PTX_ERROR_INVALID, "%s: device is NULL", __func__);
        return NULL;
    }
    plan = calloc(1, sizeof *plan);
    if (!plan) {
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "%s: out of host memory for a block plan", __func__);
        return NULL;
    }
    plan->device = device;
    ptxd_range_begin(__func__);
    if (ptxd_named(make(plan, params, stream), __func__))
        ptx_block_plan_destroy(&plan);
    ptxd_range_end();
    return plan;
}

void ptx_block_plan_destroy(ptx_block_plan **plan)
{
    if (!plan || !*plan)
        return;
    ptx_block_plan *old = *plan;
    *plan = NULL;
    ptx_module_unload(&old->module);
    free(old);
}

// ---- a run --------------------------------------------------------------------------------------

static ptx_status check_sizes(const ptx_block_plan *plan, const struct ptx_block_tensor *t,
                              size_t k)
{
    const uint64_t most = UINT64_C(1) << 60;

    if (t->columns % plan->columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: columns is %" PRIu64 ", no multiple of %" PRIu32, k,
                         t->columns, plan->columns);
    if (t->rows % plan->rows)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: rows is %" PRIu64 ", no multiple of %" PRIu32, k, t->rows,
                         plan->rows);
    if (t->columns && t->rows > most / t->columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %" PRIu64 " rows of %" PRIu64
                         " columns are more than memory can have",
                         k, t->rows, t->columns);
    if (t->y && plan->spec.measure)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: y is %#llx, and the plan measures; leave it 0", k,
                         (unsigned long long)t->y);
    if (t->amax && !ptxk_blocks_amax(&plan->spec))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: amax is %#llx; only nvfp4 has a scale of the tensor: leave "
                         "it 0",
                         k, (unsigned long long)t->amax);
    if (t->amaxes && !plan->spec.learning)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: amaxes is %#llx, and the plan measures its own; leave it 0, "
                         "or create the plan with learned",
                         k, (unsigned long long)t->amaxes);
    if ((t->d_output || t->d_amaxes) && plan->spec.learning != BLOCK_GRADIENT)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %s is %#llx, and the plan has no gradients; leave it 0", k,
                         t->d_output ? "d_output" : "d_amaxes",
                         (unsigned long long)(t->d_output ? t->d_output : t->d_amaxes));
    return PTX_OK;
}

static ptx_status check_tensor(const ptx_block_plan *plan, const struct ptx_block_tensor *t,
                               size_t k)
{
    const struct blocks_spec *spec = &plan->spec;
    const uint64_t count = t->rows * t->columns, amaxes = count / spec->width;
    const unsigned bytes = ptx_type_bytes(spec->dtype);
    const bool gradients = spec->learning == BLOCK_GRADIENT;
    struct plan_array arrays[ARRAYS];
    size_t n = 0;

    arrays[n++] = (struct plan_array) { .at = t->x, .count = count, .bytes = bytes, .field = "x" };
    arrays[0].read_only = true;
    if (gradients) {
        arrays[n++] = (struct plan_array) {
            .at = t->d_output, .count = count, .bytes = bytes, .field = "d_output"
        };
        arrays[1].read_only = true;
    }
    if (!spec->measure) {
        arrays[n] =
            (struct plan_array) { .at = t->y, .count = count, .bytes = bytes, .field = "y" };
        arrays[n].in_place_of = &arrays[gradients && t->y == t->d_output];
        n++;
    }
    if (ptxk_blocks_amax(spec))
        arrays[n++] = (struct plan_array) { .at = t->amax,
                                            .count = 1,
                                            .bytes = sizeof(float),
                                            .field = "amax",
                                            .read_only = !spec->measure };
    if (spec->learning)
        arrays[n++] = (struct plan_array) { .at = t->amaxes,
                                            .count = amaxes,
                                            .bytes = sizeof(float),
                                            .field = "amaxes",
                                            .read_only = true };
    if (gradients)
        arrays[n++] = (struct plan_array) {
            .at = t->d_amaxes, .count = amaxes, .bytes = sizeof(float), .field = "d_amaxes"
        };
    for (size_t i = 0; i < n; i++) {
        arrays[i].tensor = k;
        arrays[i].effect = "the run would overwrite the one with the other";
    }
    return ptxp_check_arrays(plan->any_address ? NULL : plan->device, arrays, n, 0, 0);
}

static ptx_status check_random(const ptx_block_plan *plan, const struct ptx_block_random *random)
{
    if (!plan->spec.stochastic == !random) {
        if (random)
            for (size_t k = 0; k < 2; k++) {
                const CUdeviceptr at = k ? random->offset_at : random->seed_at;
                const struct plan_array array = { .at = at,
                                                  .count = 1,
                                                  .bytes = sizeof(int64_t),
                                                  .tensor = ARRAY_OF_PLAN,
                                                  .field = k ? "offset_at" : "seed_at",
                                                  .read_only = true };
                const ptx_status status =
                    at ? ptxp_check_arrays(plan->any_address ? NULL : plan->device, &array, 1, 0, 0)
                       : PTX_OK;
                if (status)
                    return status;
            }
        return PTX_OK;
    }
    return ptxd_fail(PTX_ERROR_INVALID,
                     random ? "random is given, and the plan rounds to nearest: leave it NULL"
                            : "random is NULL, and the plan rounds stochastically: give a seed");
}

static ptx_status check(const ptx_block_plan *plan, const struct ptx_block_tensor *tensors,
                        size_t count, const struct ptx_block_random *random)
{
    ptx_status status = check_random(plan, random);

    if (count && !tensors)
        return ptxd_fail(PTX_ERROR_INVALID, "tensors is NULL, and count is %zu", count);
    for (size_t k = 0; k < count && !status; k++) {
        status = check_sizes(plan, &tensors[k], k);
        if (!status && tensors[k].rows && tensors[k].columns)
            status = check_tensor(plan, &tensors[k], k);
        if (!status &&
            ptxk_blocks_grid(&plan->spec, tensors[k].rows, tensors[k].columns) > INT32_MAX)
            status = ptxd_fail(PTX_ERROR_INVALID,
                               "tensor %zu has more elements than a launch can cover", k);
    }
    return status;
}

static ptx_status launch(const ptx_block_plan *plan, const struct blocks_arguments *arguments,
                         uint64_t grid, const struct ptx_block_random *random, CUstream stream)
{
    static const struct ptx_block_random none;
    const struct ptx_block_random *r = random ? random : &none;
    const bool gradients = plan->spec.learning == BLOCK_GRADIENT;
    const size_t rows = plan->spec.learning ? sizeof arguments->learned : sizeof arguments->tensors;
    struct ptx_arg args[] = {
        { arguments->tensors, rows, PTX_ARG_UNTYPED },
        { arguments->firsts, sizeof arguments->firsts, PTX_ARG_UNTYPED },
        PTX_ARG(r->seed),
        PTX_ARG(r->seed_at),
        PTX_ARG(r->offset),
        PTX_ARG(r->offset_at),
    };

    if (gradients)
        args[2] = (struct ptx_arg)PTX_ARG(plan->factor);
    return ptx_launch(plan->function, &(struct ptx_launch_params) {
                                          .grid = { (unsigned)grid },
                                          .stream = stream,
                                          .args = args,
                                          .arg_count = plan->spec.stochastic ? 6 : 2 + gradients,
                                      });
}

// As many launches as the tensors need.
static ptx_status run(const ptx_block_plan *plan, const struct ptx_block_tensor *tensors,
                      size_t count, const struct ptx_block_random *random, CUstream stream)
{
    struct blocks_arguments arguments;
    uint64_t grid = 0, first = 0;
    ptx_status status = PTX_OK;
    unsigned filled = 0;

    for (size_t k = 0; k < count && !status; k++) {
        const struct ptx_block_tensor *t = &tensors[k];
        const uint64_t blocks = ptxk_blocks_grid(&plan->spec, t->rows, t->columns);
        if (!blocks)
            continue;
        if (filled == PTX_BLOCK_TENSORS || grid + blocks > INT32_MAX) {
            status = launch(plan, &arguments, grid, random, stream);
            grid = filled = 0;
        }
        if (!filled)
            memset(arguments.firsts, UINT8_MAX, sizeof arguments.firsts);
        if (plan->spec.learning)
            arguments.learned[filled] = (struct block_learned_row) {
                t->x, t->y, t->amax, t->rows * t->columns, t->amaxes, t->d_output, t->d_amaxes
            };
        else
            arguments.tensors[filled] =
                (struct block_row) { t->x, t->y, t->amax, t->rows, t->columns, first };
        arguments.firsts[filled++] = (uint32_t)grid;
        grid += blocks;
        first += t->rows * t->columns;
    }
    if (filled && !status)
        status = launch(plan, &arguments, grid, random, stream);
    return status;
}

ptx_status ptx_block_plan_run(ptx_block_plan *plan, const struct ptx_block_tensor *tensors,
                              size_t count, const struct ptx_block_random *random, CUstream stream)
{
    ptx_status status;

    if (!plan)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: plan is NULL", __func__);
    ptxd_range_begin(__func__);
    status = check(plan, tensors, count, random);
    if (!status)
        status = run(plan, tensors, count, random, stream);
    ptxd_range_end();
    return ptxd_named(status, __func__);
}
