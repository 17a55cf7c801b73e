// SPDX-License-Identifier: MIT
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "driver/nvtx.h"
#include "plans/arrays.h"
#include "plans/load.h"

struct ptx_operations {
    ptx_device *device;
    ptx_buffer *anchor; // an empty buffer; keeps the device alive
    struct ptx_module_params module;
    bool any_address;
    pthread_mutex_t compiling;
    size_t first[PTX_OPERATION_COUNT][PLAN_MOST_LAUNCHES]; // the first slot of a launch
    size_t slot_count;
    struct plan_slot slots[]; // one for each variant of each launch
};

#define PLAN_ROW(name, ...) &ptxp_operation_##name,
const struct plan_operation *const ptxp_operations[] = { PTX_OPERATIONS(PLAN_ROW) };

// What operations.h has for each.
#define PLAN_ENTRY(name, ...)                                                                      \
    { "ptx_" #name, "ptx_" #name "_prepare", "ptx_" #name "_describe",                             \
      sizeof((struct plan_call *)0)->params.name },
static const struct {
    const char *run, *prepare, *describe;
    size_t params_bytes;
} entries[] = { PTX_OPERATIONS(PLAN_ENTRY) };

// ---- members ------------------------------------------------------------------------------------

#define PLAN_ARGUMENT(kind, type, of) [kind] = { NULL, sizeof(type), PTX_ARG_##of },
static const struct ptx_arg arguments[] = { PLAN_KINDS(PLAN_ARGUMENT) };

static void *at(struct plan_call *call, struct plan_member member)
{
    return (char *)call + member.offset;
}

// An integer that is not negative.
static uint64_t whole_of(const struct plan_call *call, struct plan_member member)
{
    const void *value = (const char *)call + member.offset;

    return member.kind == KIND_U32       ? *(const uint32_t *)value
           : member.kind == KIND_ADDRESS ? *(const CUdeviceptr *)value
                                         : *(const uint64_t *)value;
}

static double number_of(const struct plan_call *call, struct plan_member member)
{
    const void *value = (const char *)call + member.offset;

    switch ((enum plan_kind)member.kind) {
#define PLAN_NUMBER(kind, type, ...)                                                               \
    case kind:                                                                                     \
        return (double)*(const type *)value;
        PLAN_KINDS(PLAN_NUMBER)
    default:
        return 0;
    }
}

enum { VALUE_TEXT_SIZE = 32 };

static const char *text_of(const struct plan_call *call, struct plan_member member,
                           char text[VALUE_TEXT_SIZE])
{
    if (member.kind == KIND_BOOL)
        return number_of(call, member) != 0 ? "true" : "false";
    if (member.kind == KIND_U64 || member.kind == KIND_ADDRESS)
        snprintf(text, VALUE_TEXT_SIZE, member.kind == KIND_U64 ? "%" PRIu64 : "%#" PRIx64,
                 whole_of(call, member));
    else
        snprintf(text, VALUE_TEXT_SIZE, member.kind < KIND_F32 ? "%.0f" : "%g",
                 number_of(call, member));
    return text;
}

static bool holds(const struct plan_call *call, const struct plan_when *when)
{
    const unsigned kind = when->member.kind;

    if (kind == KIND_NONE)
        return true;
    const bool alike = kind == KIND_U64 || kind == KIND_ADDRESS
                           ? whole_of(call, when->member) == (uint64_t)when->value
                           : number_of(call, when->member) == when->value;
    return alike != when->unlike;
}

static bool all_hold(const struct plan_call *call, const struct plan_when when[PLAN_CONDITIONS])
{
    return holds(call, &when[0]) && holds(call, &when[1]);
}

static ptx_type type_of(const struct plan_call *call, unsigned type)
{
    return type == OF_TENSORS       ? call->dtype
           : type != OF_SCALES      ? (ptx_type)type
           : call->dtype == PTX_F64 ? PTX_F64
                                    : PTX_F32;
}

// ---- variants -----------------------------------------------------------------------------------

unsigned ptxp_option_values(const struct plan_option *option)
{
    unsigned count = 0;

    while (option->choices[count].value)
        count++;
    return count + 1;
}

static size_t variants_of(const struct plan_launch *launch)
{
    size_t count = PLAN_DTYPES;

    for (const struct plan_option *option = launch->options; option->name; option++)
        count *= ptxp_option_values(option);
    return count;
}

static struct plan_slot *slot_of(ptx_operations *operations, const struct plan_call *call,
                                 const struct plan_chosen *chosen)
{
    static const uint8_t codes[PTX_TYPE_COUNT] = { [PTX_F64] = 1, [PTX_F16] = 2, [PTX_BF16] = 3 };
    const struct plan_option *options = chosen->launch->options;
    size_t variant = codes[chosen->dtype];

    for (unsigned k = 0; options[k].name; k++)
        variant = variant * ptxp_option_values(&options[k]) + chosen->option[k];
    return &operations->slots[operations->first[call->id][chosen->launch - call->row->launches] +
                              variant];
}

// Gives each launch its slots; returns the number of all.
static size_t divide_slots(size_t first[PTX_OPERATION_COUNT][PLAN_MOST_LAUNCHES])
{
    size_t count = 0;

    for (int id = 0; id < PTX_OPERATION_COUNT; id++) {
        const struct plan_launch *launches = ptxp_operations[id]->launches;
        for (int k = 0; launches[k].kernel; count += variants_of(&launches[k++]))
            first[id][k] = count;
    }
    return count;
}

ptx_operations *ptx_operations_create(ptx_device *device,
                                      const struct ptx_operations_params *params)
{
    size_t first[PTX_OPERATION_COUNT][PLAN_MOST_LAUNCHES] = { 0 };
    const size_t count = divide_slots(first);
    ptx_buffer *anchor = ptx_buffer_create(device, 0);

    if (!anchor)
        return NULL;
    ptx_operations *made = calloc(1, sizeof *made + count * sizeof *made->slots);
    if (!made || pthread_mutex_init(&made->compiling, NULL) != 0) {
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for operations");
        ptx_buffer_destroy(&anchor);
        free(made);
        return NULL;
    }
    made->device = device;
    made->anchor = anchor;
    made->slot_count = count;
    memcpy(made->first, first, sizeof first);
    made->any_address = params && params->any_address;
    if (params && params->module)
        made->module = *params->module;
    return made;
}

void ptx_operations_destroy(ptx_operations **operations)
{
    if (!operations || !*operations)
        return;
    ptx_operations *old = *operations;
    *operations = NULL;
    for (size_t k = 0; k < old->slot_count; k++)
        ptx_module_unload(&old->slots[k].module);
    pthread_mutex_destroy(&old->compiling);
    ptx_buffer_destroy(&old->anchor);
    free(old);
}

static struct ptx_arg arg_of(struct plan_call *call, const struct plan_field *field)
{
    struct ptx_arg arg = arguments[field->member.kind];

    if (field->narrow && call->dtype != PTX_F64)
        return (struct ptx_arg)PTX_ARG(call->scale);
    arg.value = at(call, field->member);
    return arg;
}

// Finds the offsets in a call of the values of the kernel's parameters.
static ptx_status find_arguments(const ptx_builder *b, struct plan_call *call,
                                 struct plan_slot *slot)
{
    struct ptx_named_arg values[PLAN_MOST_FIELDS + 1];
    struct ptx_arg args[PLAN_MOST_ARGS];
    size_t count = 0;

    for (const struct plan_field *f = call->row->fields; f->member.kind; f++)
        if (all_hold(call, f->when))
            values[count++] =
                (struct ptx_named_arg) { f->param ? f->param : f->member.name, arg_of(call, f) };
    values[count++] = (struct ptx_named_arg) { "n", PTX_ARG(call->n) };
    const ptx_status status = ptx_bind(b, 0, values, count, args, PLAN_MOST_ARGS, &slot->arg_count);
    for (size_t k = 0; k < slot->arg_count && !status; k++)
        slot->args[k] =
            (struct plan_place) { (size_t)((const char *)args[k].value - (const char *)call),
                                  args[k].size, args[k].type };
    return status;
}

// The mutex must be held.
static ptx_status fill_slot(const ptx_operations *operations, struct plan_call *call,
                            const struct plan_chosen *chosen, CUstream stream,
                            struct plan_slot *slot)
{
    const ptx_kernel *kernel = chosen->launch->kernel;
    const struct plan_option *options = chosen->launch->options;
    struct ptx_kernel_spec spec = { .dtype = chosen->dtype };
    char name[PTX_ENTRY_NAME_SIZE];
    ptx_function *function = NULL;

    if (atomic_load_explicit(&slot->ready, memory_order_relaxed))
        return PTX_OK;
    for (unsigned k = 0; options[k].name; k++) {
        const unsigned choice = chosen->option[k];
        const char *value = choice ? options[k].choices[choice - 1].value : NULL;
        if (value && !ptx_kernel_spec_set(&spec, kernel, options[k].name, value))
            return ptxd_fail(PTX_ERROR_INVALID, "%s has no option %s with the value %s",
                             kernel->name, options[k].name, value);
    }
    ptx_builder *b = ptxp_builder_create(operations->device);
    if (!b)
        return ptx_error_status();
    ptx_kernel_emit(b, kernel, &spec);
    slot->module = ptxp_load(operations->device, b, kernel->name, &operations->module, stream);
    if (slot->module)
        function = ptx_module_function(slot->module, ptx_kernel_entry_name(kernel, &spec, name));
    const ptx_status status = function ? find_arguments(b, call, slot) : ptx_error_status();
    ptx_builder_destroy(&b);
    if (status)
        ptx_module_unload(&slot->module);
    else
        atomic_store_explicit(&slot->ready, function, memory_order_release);
    return status;
}

// Compiles the variant unless it is compiled already. Refused while the stream is being captured
// or, for NULL, while a blocking stream of the context is.
static ptx_status compile(ptx_operations *operations, struct plan_call *call,
                          struct plan_chosen *chosen, CUstream stream)
{
    struct plan_slot *slot = chosen->slot = slot_of(operations, call, chosen);
    bool capturing = false;

    if (atomic_load_explicit(&slot->ready, memory_order_acquire))
        return PTX_OK;
    ptx_status status = ptx_stream_is_capturing(operations->device, stream, &capturing);
    if (!status && capturing)
        return ptxd_fail(PTX_ERROR_CAPTURE,
                         "%s: its kernel is not compiled yet, and %s is being captured: call %s() "
                         "before the capture begins. The capture continues",
                         call->function, ptxd_captured(stream), entries[call->id].prepare);
    if (!status) {
        pthread_mutex_lock(&operations->compiling);
        status = fill_slot(operations, call, chosen, stream, slot);
        pthread_mutex_unlock(&operations->compiling);
    }
    return ptxd_named(status, call->function);
}

bool ptxp_operation_overlaps(const ptx_operations *operations)
{
    return ptxp_can_overlap(operations->device);
}

// The variant must be compiled.
static ptx_status launch(const ptx_operations *operations, const struct plan_call *call,
                         const struct plan_chosen *chosen, CUstream stream)
{
    const struct plan_slot *slot = chosen->slot;
    struct ptx_arg args[PLAN_MOST_ARGS];
    const bool overlaps = ptxp_operation_overlaps(operations);

    for (size_t k = 0; k < slot->arg_count; k++)
        args[k] = (struct ptx_arg) { (const char *)call + slot->args[k].offset, slot->args[k].size,
                                     slot->args[k].type };
    const ptx_status status = ptx_launch(
        atomic_load_explicit(&slot->ready, memory_order_acquire),
        &(struct ptx_launch_params) { .grid = { chosen->grid },
                                      .stream = stream,
                                      .programmatic = chosen->launch->programmatic && overlaps,
                                      .args = args,
                                      .arg_count = slot->arg_count });
    return ptxd_named(status, call->function);
}

// ---- a call's parameters ------------------------------------------------------------------------

static const struct plan_launch *first_launch(const struct plan_call *call)
{
    const struct plan_launch *first = call->row->launches;

    while (!all_hold(call, first->when))
        first++;
    return first;
}

static ptx_status check_dtype(struct plan_call *call)
{
    const uint32_t dtypes = first_launch(call)->kernel->dtypes;
    const struct plan_member dtype = call->row->dtype;

    call->dtype = dtype.kind ? (ptx_type)whole_of(call, dtype) : PTX_F32;
    if ((unsigned)call->dtype < PTX_TYPE_COUNT && dtypes >> call->dtype & 1)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "%s: dtype is %s; it must be f32, %sf16 or bf16",
                     call->function, ptxp_type_text(call->dtype, (char[TYPE_TEXT_SIZE]) { 0 }),
                     dtypes & PTX_TYPE_BIT(F64) ? "f64, " : "");
}

static ptx_status check_refusals(struct plan_call *call)
{
    const struct plan_refusal *r = call->row->refusals;
    char text[VALUE_TEXT_SIZE];

    while (r->remedy && (!all_hold(call, r->when) || (r->with_elements && !call->n)))
        r++;
    if (!r->remedy)
        return PTX_OK;
    const struct plan_member first = r->when[0].member, second = r->when[1].member;
    ptxd_fail(PTX_ERROR_INVALID, "%s: %s is %s", call->function, first.name,
              text_of(call, first, text));
    if (second.kind)
        ptxd_explain(", and %s is %s", second.name, text_of(call, second, text));
    ptxd_explain("; %s", r->remedy);
    return PTX_ERROR_INVALID;
}

static void set_number(struct plan_call *call, struct plan_member member, double number)
{
    if (member.kind == KIND_F32)
        *(float *)at(call, member) = (float)number;
    else if (member.kind == KIND_F64)
        *(double *)at(call, member) = number;
    else
        *(uint32_t *)at(call, member) = (uint32_t)number;
}

static ptx_status check_number(const struct plan_field *field, struct plan_call *call)
{
    double given = number_of(call, field->member), number = given;
    char text[VALUE_TEXT_SIZE];

    if (given == 0 && field->otherwise != 0)
        set_number(call, field->member, number = given = field->otherwise);
    if (field->narrow && call->dtype != PTX_F64)
        number = (double)(call->scale = (float)given);
    if (number >= field->least && number <= field->greatest &&
        !(field->power_of_2 && (uint32_t)number & ((uint32_t)number - 1)) &&
        !(field->not_0 && number == 0))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is %s%s; it must be %s", call->function,
                     field->member.name, text_of(call, field->member, text),
                     field->narrow && given >= field->least && given <= field->greatest
                         ? ", which does not fit f32"
                         : "",
                     field->must);
}

static ptx_status check_numbers(struct plan_call *call)
{
    ptx_status status = PTX_OK;

    for (const struct plan_field *f = call->row->fields; f->must && !status; f++)
        if (all_hold(call, f->when))
            status = check_number(f, call);
    return status;
}

static ptx_status check_channels(struct plan_call *call)
{
    const struct plan_shape *shape = &call->row->shape;
    const uint64_t channels = shape->channels.kind ? whole_of(call, shape->channels) : 0;
    uint64_t *inner = at(call, shape->inner);

    call->scales = channels ? channels : 1;
    if (!channels)
        return PTX_OK;
    if (!*inner)
        *inner = 1;
    if (channels <= UINT64_MAX / *inner && call->n % (channels * *inner) == 0)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: count is %" PRIu64 ", no multiple of channels %" PRIu64
                     " * inner %" PRIu64
                     "; inner is the product of the dimensions after the channels' axis",
                     call->function, call->n, channels, *inner);
}

static ptx_status check_groups(struct plan_call *call)
{
    const struct plan_shape *shape = &call->row->shape;
    const uint64_t count = call->n, group = shape->group.kind ? whole_of(call, shape->group) : 0;

    if (!group)
        return PTX_OK;
    const uint64_t given = whole_of(call, shape->columns), columns = given ? given : count;
    if (columns % group)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %s is %" PRIu64 ", no multiple of group %" PRIu64
                         "; groups lie along the last axis",
                         call->function, columns != count ? "columns" : "count", columns, group);
    if (columns && count % columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: count is %" PRIu64 ", no multiple of columns %" PRIu64
                         ", the length of the last axis",
                         call->function, count, columns);
    call->scales = count / group;
    return PTX_OK;
}

static ptx_status check_levels(struct plan_call *call)
{
    const struct plan_shape *shape = &call->row->shape;
    int32_t *q_min = at(call, shape->q_min), *q_max = at(call, shape->q_max);

    if (!shape->q_min.kind)
        return PTX_OK;
    if (*q_min == 0 && *q_max == 0) {
        *q_min = -128;
        *q_max = 127;
    }
    if (*q_min > *q_max)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: q_min is %" PRId32 " and q_max %" PRId32
                         "; q_min must not be above q_max",
                         call->function, *q_min, *q_max);
    if (!shape->zero_point.kind || !holds(call, &shape->leveled))
        return PTX_OK;
    const int32_t zero_point = *(const int32_t *)at(call, shape->zero_point);
    if (zero_point >= *q_min && zero_point <= *q_max)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: zero_point is %" PRId32 "; it must be from q_min %" PRId32
                     " to q_max %" PRId32,
                     call->function, zero_point, *q_min, *q_max);
}

// Checks that one launch can cover the elements, and finds its grid.
static ptx_status size_launch(const struct plan_launch *launch, const struct plan_call *call,
                              struct plan_chosen *chosen)
{
    const uint64_t n = launch->n.kind ? whole_of(call, launch->n) : call->n;
    const ptx_type dtype = type_of(call, launch->type);
    struct ptx_geometry geometry;

    if (n > UINT64_MAX / 2 / ptx_type_bytes(dtype) ||
        !ptx_kernel_geometry(launch->kernel, dtype, n, &geometry))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: count is %" PRIu64
                         ", more than a launch can cover: split the tensors",
                         call->function, n);
    *chosen = (struct plan_chosen) { .launch = launch, .dtype = dtype, .grid = geometry.grid };
    return PTX_OK;
}

static void choose_options(const struct plan_call *call, struct plan_chosen *chosen)
{
    const struct plan_option *options = chosen->launch->options;

    for (unsigned k = 0; options[k].name; k++) {
        uint8_t v = 0;
        while (options[k].choices[v].value && !holds(call, &options[k].choices[v].when))
            v++;
        chosen->option[k] = options[k].choices[v].value ? (uint8_t)(v + 1) : 0;
    }
}

// The first launch has its size already.
static ptx_status choose_launches(struct plan_call *call)
{
    const struct plan_launch *launches = call->row->launches;
    ptx_status status = PTX_OK;

    for (int k = 0; launches[k].kernel && !status; k++) {
        struct plan_chosen *chosen = &call->chosen[call->chosen_count];
        if (!all_hold(call, launches[k].when))
            continue;
        if (call->chosen_count++)
            status = size_launch(&launches[k], call, chosen);
        if (launches[k].blocks.kind)
            chosen->grid = (uint32_t)whole_of(call, launches[k].blocks);
        choose_options(call, chosen);
        chosen->left_out = launches[k].unless.member.kind && holds(call, &launches[k].unless);
    }
    return status;
}

// Checks the parameters, fills in their defaults, derives values and chooses the launches.
static ptx_status choose(ptx_operation id, const char *function, const void *params,
                         struct plan_call *call)
{
    static ptx_status (*const checks[])(struct plan_call *) = { check_dtype,   check_refusals,
                                                                check_numbers, check_channels,
                                                                check_groups,  check_levels };
    ptx_status status = PTX_OK;

    // Not the whole call: to clear it takes as long as all checks.
    call->id = id;
    call->row = ptxp_operations[id];
    call->function = function;
    call->chosen_count = 0;
    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: params is NULL", function);
    memcpy(&call->params, params, entries[id].params_bytes);
    call->n = call->row->n.kind ? whole_of(call, call->row->n) : 1;
    for (size_t k = 0; k < sizeof checks / sizeof *checks && !status; k++)
        status = checks[k](call);
    if (!status)
        status = size_launch(first_launch(call), call, &call->chosen[0]);
    if (!status && call->row->derive)
        status = call->row->derive(call);
    return status ? status : choose_launches(call);
}

// The array of a field; its `bytes` are 0 where the call has none.
struct plan_array ptxp_operation_array(const struct plan_call *call, const struct plan_field *f)
{
    const CUdeviceptr *address = (const void *)((const char *)call + f->member.offset);

    if (!f->access || (f->optional && !*address) || !all_hold(call, f->when))
        return (struct plan_array) { .bytes = 0 };
    return (struct plan_array) {
        .at = *address,
        .count = f->count.kind ? whole_of(call, f->count)
                 : f->elements ? f->elements
                               : 1,
        .bytes = ptx_type_bytes(type_of(call, f->type)),
        .tensor = ARRAY_OF_PLAN,
        .field = f->member.name,
        .effect = "the call would overwrite the one with the other",
        .sized_by = f->scratch ? entries[call->id].describe : NULL,
        .read_only = !(f->access & WRITTEN),
    };
}

static ptx_status check_addresses(const ptx_operations *operations, const struct plan_call *call)
{
    struct plan_array arrays[PLAN_MOST_FIELDS];
    size_t count = 0;
    _Static_assert((int)PLAN_MOST_FIELDS <= (int)FEW_ARRAYS, "a run allocates nothing");

    for (const struct plan_field *f = call->row->fields; f->must || f->access; f++) {
        arrays[count] = ptxp_operation_array(call, f);
        if (f->may_be_first)
            arrays[count].in_place_of = &arrays[0];
        count += arrays[count].bytes != 0;
    }
    return ptxd_named(
        ptxp_check_arrays(operations->any_address ? NULL : operations->device, arrays, count, 0, 0),
        call->function);
}

// ---- what operations.h does ---------------------------------------------------------------------

// Whether there is such an operation; `call` is the function that was given it.
static ptx_status known(ptx_operation id, const char *call)
{
    if ((unsigned)id < PTX_OPERATION_COUNT)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: %d is no operation; there are those of enum ptx_operation, from 0 to %d",
                     call, (int)id, PTX_OPERATION_COUNT - 1);
}

static ptx_status choose_with(const ptx_operations *operations, ptx_operation id,
                              const char *function, const void *params, struct plan_call *call)
{
    if (operations)
        return choose(id, function, params, call);
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: operations is NULL: see what ptx_operations_create() said", function);
}

size_t ptxp_operation_bytes(ptx_operation id)
{
    return entries[id].params_bytes;
}

ptx_status ptxp_operation_choose(ptx_operations *operations, ptx_operation id, const void *params,
                                 struct plan_call *call)
{
    ptx_status status = known(id, "ptx_operation_call_create");

    if (!status)
        status = choose_with(operations, id, entries[id].run, params, call);
    for (size_t k = 0; !status && k < call->chosen_count; k++)
        call->chosen[k].slot = slot_of(operations, call, &call->chosen[k]);
    return status;
}

ptx_status ptx_operation_run(ptx_operations *operations, ptx_operation id, const void *params,
                             CUstream stream)
{
    struct plan_call call;
    ptx_status status = known(id, __func__);

    if (!status)
        status = choose_with(operations, id, entries[id].run, params, &call);
    if (status || call.n == 0)
        return status;
    ptxd_range_begin(call.function);
    status = check_addresses(operations, &call);
    // Nothing is launched unless all can be.
    for (size_t k = 0; k < call.chosen_count && !status; k++)
        if (!call.chosen[k].left_out)
            status = compile(operations, &call, &call.chosen[k], stream);
    for (size_t k = 0; k < call.chosen_count && !status; k++)
        if (!call.chosen[k].left_out)
            status = launch(operations, &call, &call.chosen[k], stream);
    ptxd_range_end();
    return status;
}

ptx_status ptx_operation_prepare(ptx_operations *operations, ptx_operation id, const void *params)
{
    struct plan_call call;
    ptx_status status = known(id, __func__);

    if (!status)
        status = choose_with(operations, id, entries[id].prepare, params, &call);

    for (size_t k = 0; !status && k < call.chosen_count; k++) {
        struct plan_chosen *chosen = &call.chosen[k];
        const struct plan_option *options = chosen->launch->options;
        status = compile(operations, &call, chosen, NULL);
        // Calls with other sizes and addresses have these variants.
        for (unsigned o = 0; options[o].name; o++)
            for (unsigned v = 1; options[o].of_shape && v < ptxp_option_values(&options[o]); v++) {
                chosen->option[o] = (uint8_t)v;
                status = status ? status : compile(operations, &call, chosen, NULL);
            }
    }
    return status;
}

ptx_status ptx_operation_describe(ptx_operation id, const void *params,
                                  struct ptx_operation_description *description)
{
    struct plan_call call;
    ptx_status status = known(id, __func__);

    if (!status)
        status = choose(id, entries[id].describe, params, &call);

    if (status)
        return status;
    if (!description)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: description is NULL", call.function);
    const ptx_kernel *kernel = call.chosen[0].launch->kernel;
    *description = (struct ptx_operation_description) {
        .accumulator = kernel->accumulator ? kernel->accumulator : "none",
        .determinism = kernel->guarantees,
    };
    if (!call.n)
        return PTX_OK;
    for (size_t k = 0; k < call.chosen_count; k++)
        description->launches += !call.chosen[k].left_out;
    ptx_kernel_entry_name(kernel, &(struct ptx_kernel_spec) { .dtype = call.chosen[0].dtype },
                          description->entry);
    for (const struct plan_field *f = call.row->fields; f->must || f->access; f++) {
        const struct plan_array array = ptxp_operation_array(&call, f);
        const uint64_t bytes = array.count * array.bytes;
        description->bytes += f->access == (READ | WRITTEN) ? 2 * bytes : bytes;
        description->workspace += f->scratch ? bytes : 0;
    }
    return PTX_OK;
}
