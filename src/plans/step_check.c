// SPDX-License-Identifier: MIT
// Checks everything about a step plan's parameters that is known without a device.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arrays.h"
#include "driver/error.h"
#include "muon_program.h"
#include "rule.h"
#include "step_table.h"

static const char *const format_names[PTX_STEP_FORMAT_COUNT] = {
#define STEP_NAME(enumerator, name, state, beside) #enumerator,
    PTX_STEP_FORMATS(STEP_NAME)
#undef STEP_NAME
};

// ---- groups -------------------------------------------------------------------------------------

static ptx_status refuse_scalar(uint32_t group, const char *name, double x, const char *must)
{
    return ptxd_fail(PTX_ERROR_INVALID, "group %" PRIu32 ": %s is %.15g; it must be %s", group,
                     name, x, must);
}

// The scalar of a caller's rule at a place; NULL: there is none.
static const struct ptxk_step_scalar *own_scalar(const struct ptxk_step_rule *rule, uint32_t place)
{
    for (unsigned k = 0; k < rule->scalars; k++)
        if (rule->scalar[k].place == place)
            return &rule->scalar[k];
    return NULL;
}

static ptx_status refuse_place(uint32_t group, const struct ptxk_step_rule *rule, uint32_t place,
                               double x)
{
    const struct ptxk_step_scalar *of_others = ptxk_step_scalar_at(place);
    char more[32];

    snprintf(more, sizeof more, "more[%u]", place - (unsigned)PTXK_STEP_PLACE(more));
    return ptxd_fail(PTX_ERROR_INVALID,
                     "group %" PRIu32 ": %s is %.15g; its rule, %s, has no such scalar: make it 0",
                     group, of_others ? of_others->name : more, x, rule->name);
}

ptx_status ptxp_step_check_hyper(uint32_t group, const struct ptxk_step_rule *rule,
                                 const struct ptx_step_hyper *h)
{
    double values[STEP_SCALARS];

    memcpy(values, h, sizeof values);
    for (uint32_t k = 0; k < STEP_SCALARS; k++) {
        const struct ptxk_step_scalar *scalar = k == S_EMA_DECAY ? &ptxk_step_ema_decay
                                                : rule->own      ? own_scalar(rule, k)
                                                                 : ptxk_step_scalar_at(k);
        const char *const must = scalar ? ptxp_rule_must_be(scalar->range, values[k]) : NULL;
        if (must)
            return refuse_scalar(group, scalar->name, values[k], must);
        if (!scalar && values[k] != 0)
            return refuse_place(group, rule, k, values[k]);
    }
    for (unsigned k = 0; k < rule->scalars && !rule->own; k++) { // where the rule's is narrower
        const struct ptxk_step_scalar *scalar = &rule->scalar[k];
        const char *const must = ptxp_rule_must_be(scalar->range, values[scalar->place]);
        if (must)
            return refuse_scalar(group, scalar->name, values[scalar->place], must);
    }
    if (rule->of_matrices && h->dampening != 0) // SGD's, which one may expect beside a momentum
        return refuse_place(group, rule, S_DAMPENING, h->dampening);
    return PTX_OK;
}

static ptx_status check_group(uint32_t g, const struct ptx_step_group *group)
{
    ptx_status status;

    if ((unsigned)group->rule >= PTX_STEP_RULE_COUNT)
        return ptxd_fail(PTX_ERROR_INVALID, "group %" PRIu32 ": rule is %d; there are 0 to %d", g,
                         (int)group->rule, PTX_STEP_RULE_COUNT - 1);
    if (group->own_rule && (group->rule || group->nesterov))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": own_rule is given, and so is %s: make it 0", g,
                         group->rule ? "rule" : "nesterov");
    const struct ptxk_step_rule *rule = ptxp_step_rule_of(group);
    status = ptxp_step_check_hyper(g, rule, &group->hyper);
    if (status)
        return status;
    if (group->nesterov && !(rule->options & PTXK_STEP_NESTEROV))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": nesterov is set, and its rule, %s, has no such option",
                         g, rule->name);
    if (group->nesterov && rule->options & PTXK_STEP_MOMENTUM && group->hyper.momentum == 0)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": nesterov is set, and momentum is 0: give a momentum",
                         g);
    if (group->hyper_at % 8)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": hyper_at is 0x%llx; it must be a multiple of 8", g,
                         (unsigned long long)group->hyper_at);
    if (group->lr_at % 4)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": lr_at is 0x%llx; it must be a multiple of 4", g,
                         (unsigned long long)group->lr_at);
    status = ptxp_units_check_group(g, group);
    return status ? status : ptxp_matrix_check_group(g, group);
}

// ---- tensors ------------------------------------------------------------------------------------

static ptx_status check_types(size_t t, const struct ptx_step_tensor *tensor)
{
    const ptx_type gradient = ptxp_step_gradient_type(tensor);
    const ptx_type *types;

    if ((unsigned)tensor->format >= PTX_STEP_FORMAT_COUNT)
        return ptxd_fail(PTX_ERROR_INVALID, "tensor %zu: format is %d; there are 0 to %d", t,
                         (int)tensor->format, PTX_STEP_FORMAT_COUNT - 1);
    types = ptxk_step_format_of(tensor->format)->parameters;
    if (tensor->dtype == PTX_NONE ||
        (tensor->dtype != types[0] && tensor->dtype != types[1] && tensor->dtype != types[2]))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its dtype is %s; format %s takes a parameter of %s%s%s%s%s",
                         t, ptxp_type_text(tensor->dtype, (char[TYPE_TEXT_SIZE]) { 0 }),
                         format_names[tensor->format], ptx_type_name(types[0]),
                         types[2]   ? ", "
                         : types[1] ? " or "
                                    : "",
                         types[1] ? ptx_type_name(types[1]) : "", types[2] ? " or " : "",
                         types[2] ? ptx_type_name(types[2]) : "");
    if (gradient != PTX_F32 && gradient != PTX_F16 && gradient != PTX_BF16)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: gradient_dtype is %s; it must be f32, f16 or bf16", t,
                         ptxp_type_text(gradient, (char[TYPE_TEXT_SIZE]) { 0 }));
    if (tensor->ema_dtype != PTX_NONE && tensor->ema_dtype != PTX_F32 &&
        tensor->ema_dtype != PTX_BF16)
        return ptxd_fail(PTX_ERROR_INVALID, "tensor %zu: ema_dtype is %s; it must be f32 or bf16",
                         t, ptxp_type_text(tensor->ema_dtype, (char[TYPE_TEXT_SIZE]) { 0 }));
    if (tensor->ema && tensor->ema_dtype == PTX_NONE)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: ema is given, and ema_dtype is not: make it f32 or bf16", t);
    return PTX_OK;
}

// The scales of codes in blocks.
static ptx_status check_fp8_blocks(size_t t, const struct ptx_step_tensor *tensor)
{
    if ((unsigned)tensor->fp8_blocks > PTX_FP8_BLOCKS_1X128)
        return ptxd_fail(PTX_ERROR_INVALID, "tensor %zu: fp8_blocks is %d; there are %d to %d", t,
                         (int)tensor->fp8_blocks, PTX_FP8_BLOCKS_NONE, PTX_FP8_BLOCKS_1X128);
    if ((unsigned)tensor->fp8_scaling > PTX_FP8_SCALING_DEEPGEMM_UE8M0)
        return ptxd_fail(PTX_ERROR_INVALID, "tensor %zu: fp8_scaling is %d; there are %d to %d", t,
                         (int)tensor->fp8_scaling, PTX_FP8_SCALING_TE,
                         PTX_FP8_SCALING_DEEPGEMM_UE8M0);
    if (!tensor->fp8_blocks && tensor->fp8_scaling)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: fp8_scaling is given, and fp8_blocks is not: make it 0", t);
    if (tensor->fp8_transposed_scale_inv && !(tensor->fp8_blocks && tensor->fp8_transposed))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: fp8_transposed_scale_inv is given, and %s is not: make it 0",
                         t, tensor->fp8_blocks ? "fp8_transposed" : "fp8_blocks");
    if (!tensor->fp8_blocks)
        return PTX_OK;
    if (tensor->fp8_scale)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: fp8_scale is given, and so is fp8_blocks, whose scales the "
                         "step makes: make it 0",
                         t);
    if (!tensor->fp8_scale_inv || (tensor->fp8_transposed && !tensor->fp8_transposed_scale_inv))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: fp8_blocks is given, and %s is 0: give the address of an f32 "
                         "for each block",
                         t, tensor->fp8_scale_inv ? "fp8_transposed_scale_inv" : "fp8_scale_inv");
    return PTX_OK;
}

// What a step leaves of the weights.
static ptx_status check_copies(size_t t, const struct ptx_step_tensor *tensor)
{
    const struct {
        const char *name;
        bool is;
    } of_copy[] = { { "fp8_scale", tensor->fp8_scale != 0 },
                    { "fp8_scale_inv", tensor->fp8_scale_inv != 0 },
                    { "fp8_transposed", tensor->fp8_transposed != 0 },
                    { "fp8_blocks", tensor->fp8_blocks != 0 } };

    if ((unsigned)tensor->fp8_format > PTX_FP8_E5M2)
        return ptxd_fail(PTX_ERROR_INVALID, "tensor %zu: fp8_format is %d; there are %d to %d", t,
                         (int)tensor->fp8_format, PTX_FP8_E4M3, PTX_FP8_E5M2);
    for (size_t k = 0; k < sizeof of_copy / sizeof *of_copy && !tensor->fp8; k++)
        if (of_copy[k].is)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: %s is given, and fp8 is not: give the codes an address, "
                             "or make it 0",
                             t, of_copy[k].name);
    const ptx_status status = check_fp8_blocks(t, tensor);
    if (status)
        return status;
    if (tensor->fp8 && !tensor->fp8_scale && !tensor->fp8_blocks)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: fp8 is given, and fp8_scale is 0: give the address of the "
                         "codes' scale",
                         t);
    const uint64_t columns = tensor->fp8_columns;
    const bool is_matrix = tensor->fp8_transposed || tensor->fp8_blocks;
    if (is_matrix && (!columns || tensor->count % columns))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: fp8_columns is %" PRIu64 ", and the tensor has %" PRIu64
                         " elements%s: give the length of the matrix's rows%s",
                         t, columns, tensor->count, columns ? ", which is no multiple" : "",
                         tensor->fp8_blocks ? "; a tensor of one dimension has no fp8_blocks" : "");
    return PTX_OK;
}

// A block of states that share a scale is never cut.
static ptx_status check_blocks(size_t t, const struct ptx_step_tensor *tensor)
{
    const struct ptx_step_whole *w = &tensor->whole;
    const unsigned elements = ptxk_step_format_of(tensor->format)->by_block->elements;
    const struct {
        const char *name;
        uint64_t x;
    } fields[] = { { "first", w->first }, { "run", w->run }, { "stride", w->run ? w->stride : 0 } };

    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        if (fields[k].x % elements)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: whole.%s is %" PRIu64 "; with format %s it must be a "
                             "multiple of %u, the elements that share a scale",
                             t, fields[k].name, fields[k].x, format_names[tensor->format],
                             elements);
    return PTX_OK;
}

// Whether all elements of a shard are below element 2^40 of the whole parameter.
static bool is_in_whole(const struct ptx_step_whole *w, uint64_t count)
{
    const uint64_t last = PTX_CLIP_MAX_ELEMENTS - 1, behind = count ? count - 1 : 0;
    const uint64_t turns = w->run ? behind / w->run : 0;
    const uint64_t rest = w->run ? behind % w->run : behind;

    return w->first <= last && rest <= last - w->first &&
           (!turns || w->stride <= (last - w->first - rest) / turns);
}

static ptx_status check_whole(size_t t, const struct ptx_step_tensor *tensor)
{
    const struct ptx_step_whole *w = &tensor->whole;

    if (w->run && w->stride < w->run)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: whole.stride is %" PRIu64 ", below whole.run, %" PRIu64, t,
                         w->stride, w->run);
    if (!is_in_whole(w, tensor->count))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its shard lies beyond element 2^40 of the whole "
                         "parameter",
                         t);
    return ptxk_step_format_of(tensor->format)->by_block ? check_blocks(t, tensor) : PTX_OK;
}

static ptx_status refuse_state(size_t t, const char *field, unsigned k,
                               const struct ptxk_step_variant *v)
{
    const unsigned states = ptxk_step_rule_states(v);
    const struct ptxk_step_rule *rule = v->rule;

    return ptxd_fail(PTX_ERROR_INVALID,
                     "tensor %zu: %s[%u] is given, and its rule, %s%s, has %u state%s: make it 0",
                     t, field, k, rule->name, states < rule->states ? " without momentum" : "",
                     states, ptxd_plural(states));
}

static ptx_status check_arrays(size_t t, const struct ptx_step_tensor *tensor,
                               const struct ptx_step_group *group)
{
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, group);
    const unsigned states = ptxk_step_rule_states(&v);

    if (ptxk_step_states(&v) > PTX_STEP_MAX_STATES)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its rule, %s, has %u states, which leaves no room for an "
                         "ema: make ema_dtype PTX_NONE",
                         t, v.rule->name, states);
    for (unsigned k = 0; k < ptxk_step_format_states(&v) && ptxk_step_blocks_of(&v); k++)
        if (v.rule->state[k].kind == PTX_RULE_WEIGHT)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: state[%u] of its rule, %s, is a weight, and format %s "
                             "has too few bits for it: take a format without blocks",
                             t, k, v.rule->name, format_names[tensor->format]);
    for (unsigned k = states; k < PTX_STEP_MAX_STATES; k++)
        if (tensor->state[k])
            return refuse_state(t, "state", k, &v);
    for (unsigned k = 0; k < PTX_STEP_MAX_STATES; k++)
        if (tensor->absmax[k] && !ptxk_step_format_of(tensor->format)->by_block)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: absmax[%u] is given, and format %s has none: make it 0",
                             t, k, format_names[tensor->format]);
        else if (tensor->absmax[k] && k >= states)
            return refuse_state(t, "absmax", k, &v);
        else if (tensor->absmax[k] && k >= ptxk_step_format_states(&v))
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: absmax[%u] is given, and state[%u] of its rule, %s, is "
                             "%s in every format: make it 0",
                             t, k, k, v.rule->name,
                             ptx_type_name(ptxk_step_array_type(&v, ARRAY_STATE + k)));
    if (tensor->beside && ptxk_step_format_of(v.format)->beside == PTX_NONE)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: beside is given, and format %s has nothing there: make "
                         "it 0",
                         t, format_names[tensor->format]);
    return PTX_OK;
}

static ptx_status check_count(size_t t, const struct ptx_step_tensor *tensor,
                              const struct ptxk_step_rule *rule)
{
    if (!rule->clock_states || !ptxp_step_has_clock(tensor) || tensor->step % sizeof(double) == 0)
        return PTX_OK;
    return ptxd_fail(
        PTX_ERROR_INVALID,
        "tensor %zu: its rule, %s, keeps f64s behind the count, and step is 0x%llx; it "
        "must be a multiple of 8",
        t, rule->name, (unsigned long long)tensor->step);
}

static ptx_status check_tensor(const struct ptx_step_params *params, size_t t)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const uint32_t norm_groups =
        params->norm_group_count ? params->norm_group_count : (uint32_t)PTX_CLIP_MAX_TENSORS;
    ptx_status status;

    if (tensor->norm_group >= norm_groups)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its norm_group is %" PRIu32 "; there are norm groups 0 to "
                         "%" PRIu32,
                         t, tensor->norm_group, norm_groups - 1);
    if (tensor->count > PTX_CLIP_MAX_ELEMENTS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %" PRIu64 " elements; a plan takes 2^40 in all", t,
                         tensor->count);
    if (tensor->group >= params->group_count)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its group is %" PRIu32 "; there are groups 0 to %" PRIu32, t,
                         tensor->group, params->group_count - 1);
    status = check_types(t, tensor);
    if (!status)
        status = check_copies(t, tensor);
    if (!status)
        status = ptxp_matrix_check_tensor(t, tensor, &params->groups[tensor->group]);
    if (!status)
        status = check_whole(t, tensor);
    if (!status)
        status = check_count(t, tensor, ptxp_step_rule_of(&params->groups[tensor->group]));
    return status ? status : check_arrays(t, tensor, &params->groups[tensor->group]);
}

// All tensors with elements have an accumulator, or none has.
static ptx_status check_accumulators(const struct ptx_step_params *params)
{
    size_t with = SIZE_MAX, without = SIZE_MAX;

    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (tensor->accumulator % 16)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: accumulator is 0x%llx; it must be a multiple of 16", t,
                             (unsigned long long)tensor->accumulator);
        if (tensor->accumulated && !tensor->accumulator)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: accumulated is given, and it has no accumulator: make it "
                             "0",
                             t);
        if (tensor->count)
            *(tensor->accumulator ? &with : &without) = t;
    }
    if (with != SIZE_MAX && without != SIZE_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu has an accumulator, and tensor %zu has none: give all one, or "
                         "make two plans",
                         with, without);
    return PTX_OK;
}

ptx_status ptxp_step_check_params(const struct ptx_step_params *params)
{
    ptx_status status = PTX_OK;

    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    if (!params->groups && params->group_count)
        return ptxd_fail(PTX_ERROR_INVALID, "groups is NULL, and group_count is %" PRIu32,
                         params->group_count);
    if (!params->group_count)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "there are no hyperparameter groups: give at least one in groups");
    if (params->group_count > PTX_STEP_MAX_GROUPS)
        return ptxd_fail(PTX_ERROR_INVALID, "%" PRIu32 " groups; a plan takes %d",
                         params->group_count, PTX_STEP_MAX_GROUPS);
    if (params->tensor_count && !params->tensors)
        return ptxd_fail(PTX_ERROR_INVALID, "tensors is NULL, and tensor_count is %zu",
                         params->tensor_count);
    if (params->tensor_count > PTX_CLIP_MAX_TENSORS)
        return ptxd_fail(PTX_ERROR_INVALID, "%zu tensors; a plan takes %d", params->tensor_count,
                         PTX_CLIP_MAX_TENSORS);
    if ((unsigned)params->gradients > PTX_STEP_GRADIENTS_ZERO)
        return ptxd_fail(PTX_ERROR_INVALID, "gradients is %d; there are %d to %d",
                         (int)params->gradients, PTX_STEP_GRADIENTS_RAW, PTX_STEP_GRADIENTS_ZERO);
    if (params->matrix_sums_at % 8)
        return ptxd_fail(PTX_ERROR_INVALID, "matrix_sums_at is 0x%llx; it must be a multiple of 8",
                         (unsigned long long)params->matrix_sums_at);
    if (params->rule_sums_at % 8)
        return ptxd_fail(PTX_ERROR_INVALID, "rule_sums_at is 0x%llx; it must be a multiple of 8",
                         (unsigned long long)params->rule_sums_at);
    if (params->weight_reports_at % 8)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "weight_reports_at is 0x%llx; it must be a multiple of 8",
                         (unsigned long long)params->weight_reports_at);
    for (uint32_t g = 0; g < params->group_count && !status; g++)
        status = check_group(g, &params->groups[g]);
    for (size_t t = 0; t < params->tensor_count && !status; t++)
        status = check_tensor(params, t);
    if (!status)
        status = check_accumulators(params);
    return status ? status : ptxp_units_check(params);
}

// ---- changes ------------------------------------------------------------------------------------

// What stays as it was when the plan was made; `step`, because a clock reads it.
#define SAME(field)                                                                                \
    {                                                                                              \
#field, offsetof(struct ptx_step_tensor, field),                                           \
            sizeof(((struct ptx_step_tensor *)0)->field)                                           \
    }
static const struct {
    const char *name;
    size_t at, bytes;
} same[] = {
    SAME(count),
    SAME(dtype),
    SAME(gradient_dtype),
    SAME(format),
    SAME(ema_dtype),
    SAME(group),
    SAME(norm_group),
    SAME(weight),
    SAME(uncounted),
    SAME(id),
    SAME(step),
    SAME(accumulator),
    SAME(accumulated),
    SAME(amax),
    SAME(fp8),
    SAME(fp8_scale),
    SAME(fp8_scale_inv),
    SAME(fp8_format),
    SAME(fp8_transposed),
    SAME(fp8_columns),
    SAME(fp8_blocks),
    SAME(fp8_scaling),
    SAME(fp8_transposed_scale_inv),
    SAME(whole),
    SAME(counts_empty),
    SAME(columns),
    SAME(spread),
    SAME(whole_rows),
    SAME(update),
};
#undef SAME

ptx_status ptxp_step_check_same(size_t t, const struct ptx_step_tensor *was,
                                const struct ptx_step_tensor *is)
{
    for (size_t k = 0; k < sizeof same / sizeof *same; k++)
        if (memcmp((const char *)was + same[k].at, (const char *)is + same[k].at, same[k].bytes))
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu: its %s is not what it was when the plan was made: make a "
                             "new plan",
                             t, same[k].name);
    return PTX_OK;
}
