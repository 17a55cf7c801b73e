// SPDX-License-Identifier: MIT
#include "step_text.h"

#include <string.h>

enum { MOST_VALUES = PTX_STEP_FORMAT_COUNT, ELEMENTS = 1 << 20, COLUMNS = 1 << 10 };

static const struct {
    const char *name;
    const char *summary;
    const char
        *values[MOST_VALUES + 1]; // in the order of the enumeration; the first is the default
} options[] = {
    { "rule", "the optimizer's", { "adamw", "adam", "sgd", "lion", "muon" } },
    { "format",
      "of parameter and states",
      {
#define FORMAT_NAME(enumerator, name, state, beside) #name,
          PTX_STEP_FORMATS(FORMAT_NAME)
#undef FORMAT_NAME
      } },
    { "gradient", "type; same: the parameter's", { "same", "f32", "f16", "bf16" } },
    { "gradients", "what the step does with them", { "raw", "write", "zero" } },
    { "maximize", "steps along +g", { "no", "yes" } },
    { "momentum", "of sgd", { "yes", "no" } },
    { "nesterov", "of muon, and sgd with momentum", { "no", "yes" } },
    { "ema", "average of the weights, by its type", { "no", "f32", "bf16" } },
    { "fp8", "copy of the weights in 8 bits", { "no", "e4m3", "e5m2" } },
    { "amax", "the largest weight is wanted", { "no", "yes" } },
};

enum { RULE, FORMAT, GRADIENT, GRADIENTS, MAXIMIZE, MOMENTUM, NESTEROV, EMA, FP8, AMAX, OPTIONS };
_Static_assert(sizeof options / sizeof *options == OPTIONS, "one row an option");
_Static_assert(PTX_STEP_RULE_COUNT == 5, "a value for each");

const char step_name[] = "step";
const char step_summary[] = "a plan: norm, clip, the optimizer's step and the loss scale";

bool is_step(const char *name)
{
    return strcmp(name, step_name) == 0;
}

const char *step_choice_at(size_t option, size_t value, const char **name)
{
    if (option >= OPTIONS)
        return NULL;
    *name = options[option].name;
    return options[option].values[value];
}

static size_t count_values(size_t option)
{
    size_t count = 0;
    while (options[option].values[count])
        count++;
    return count;
}

static bool choose(unsigned chosen[OPTIONS], const char *assignment, struct message *error)
{
    char name[ASSIGNMENT_NAME_SIZE], what[ASSIGNMENT_NAME_SIZE + 32];
    const char *names[OPTIONS], *value = NULL;
    if (!split_assignment(assignment, name, &value, error))
        return false;
    for (size_t k = 0; k < OPTIONS; k++) {
        names[k] = options[k].name;
        if (strcmp(name, options[k].name) != 0)
            continue;
        for (unsigned v = 0; options[k].values[v]; v++)
            if (strcmp(value, options[k].values[v]) == 0) {
                chosen[k] = v;
                return true;
            }
        snprintf(what, sizeof what, "value of option %s", name);
        return message_unknown(error, what, value, options[k].values, count_values(k));
    }
    return message_unknown(error, "option", name, names, OPTIONS);
}

static struct ptx_step_params params_of(const struct step_text *step)
{
    return (struct ptx_step_params) { .tensors = &step->tensor,
                                      .tensor_count = 1,
                                      .groups = &step->group,
                                      .group_count = 1,
                                      .max_norm = 1.0f,
                                      .gradients = step->gradients };
}

bool step_text_select(struct step_text *step, const char *dtype, const struct cli_list *sets,
                      struct message *error)
{
    static const ptx_type gradients[] = { PTX_NONE, PTX_F32, PTX_F16, PTX_BF16 };
    static const ptx_type averages[] = { PTX_NONE, PTX_F32, PTX_BF16 };
    unsigned chosen[OPTIONS] = { 0 };
    char quoted[QUOTED_SIZE];
    for (size_t k = 0; k < sets->count; k++)
        if (!choose(chosen, sets->items[k], error))
            return false;
    const ptx_step_format format = (ptx_step_format)chosen[FORMAT];
    const ptx_type usual =
        format == PTX_STEP_FORMAT_FULL || format == PTX_STEP_FORMAT_STATE_BF16 ? PTX_F32 : PTX_BF16;
    *step = (struct step_text) {
        .tensor = { .count = ELEMENTS,
                    .dtype = dtype ? ptx_type_parse(dtype) : usual,
                    .gradient_dtype = gradients[chosen[GRADIENT]],
                    .format = format,
                    .ema_dtype = averages[chosen[EMA]],
                    .amax = chosen[AMAX] ? sizeof(float) : 0,
                    .fp8 = chosen[FP8] ? sizeof(float) : 0,
                    .fp8_scale = chosen[FP8] ? sizeof(float) : 0,
                    .fp8_format = chosen[FP8] == 2 ? PTX_FP8_E5M2 : PTX_FP8_E4M3,
                    .columns = COLUMNS },
        .group = { .rule = (ptx_step_rule)chosen[RULE],
                   .maximize = chosen[MAXIMIZE],
                   .nesterov = chosen[NESTEROV],
                   .hyper = { .lr = 0.001,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .eps = 1e-8,
                              .momentum = chosen[MOMENTUM] ? 0 : 0.9,
                              .ema_decay = chosen[EMA] ? 0.999 : 0 } },
        .gradients = (ptx_step_gradients)chosen[GRADIENTS],
    };
    if (step->tensor.dtype == PTX_NONE)
        return message_set(error, "there is no dtype %s", quote(quoted, dtype));
    struct ptx_step_description description;
    const struct ptx_step_params params = params_of(step);
    return ptx_step_describe(&params, &description) == PTX_OK ||
           message_set(error, "%s", ptx_error_message());
}

bool step_dtypes(uint32_t *dtypes, struct message *error)
{
    *dtypes = 0;
    for (unsigned format = 0; format < PTX_STEP_FORMAT_COUNT; format++)
        for (unsigned type = 0; type < PTX_TYPE_COUNT; type++) {
            const struct step_text step = {
                .tensor = { .count = ELEMENTS,
                            .dtype = (ptx_type)type,
                            .format = (ptx_step_format)format },
                .group = { .hyper = { .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 } },
            };
            const struct ptx_step_params params = params_of(&step);
            struct ptx_step_description description;
            const ptx_status status = ptx_step_describe(&params, &description);
            if (status == PTX_ERROR_OUT_OF_MEMORY)
                return message_set(error, "%s", ptx_error_message());
            *dtypes |= (uint32_t)(status == PTX_OK) << type;
        }
    return true;
}

ptx_builder *step_text_emit(const struct step_text *step, const struct selection *selection,
                            struct message *error)
{
    const struct ptx_step_params params = params_of(step);
    const struct ptx_builder_params of_builder = selection_params(selection);
    ptx_builder *b = ptx_builder_create(&of_builder);
    if ((ptx_step_emit)(b, &params) != PTX_OK)
        message_set(error, "step: %s", ptx_error_message());
    else if (ptx_builder_finish(b))
        return b;
    else
        message_set(error, "step: %s", ptx_builder_error(b));
    ptx_builder_destroy(&b);
    return NULL;
}

static bool print_json(const struct ptx_step_description *d, struct message *error)
{
    json_t *list = json_array();
    for (size_t k = 0; k < OPTIONS; k++) {
        json_t *values = json_array();
        for (size_t v = 0; options[k].values[v]; v++)
            json_array_append_new(values, json_string(options[k].values[v]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "name", options[k].name,
                                              "summary", options[k].summary, "default",
                                              options[k].values[0], "values", values));
    }
    return json_print(stdout,
                      json_pack("{s:s, s:o, s:i, s:f, s:s}", "name", "step", "options", list,
                                "launches", d->launches, "bytes_per_element",
                                (double)d->bytes / ELEMENTS, "guarantees", d->determinism),
                      JSON_INDENT(2), error);
}

bool step_text_info(const struct step_text *step, bool json, struct message *error)
{
    const struct ptx_step_params params = params_of(step);
    struct ptx_step_description d;
    if (ptx_step_describe(&params, &d) != PTX_OK)
        return message_set(error, "step: %s", ptx_error_message());
    if (json)
        return print_json(&d, error);
    printf("%s: %s\n\noptions (the first value is the default):\n", step_name, step_summary);
    for (size_t k = 0; k < OPTIONS; k++) {
        char values[128] = "";
        for (size_t v = 0; options[k].values[v]; v++) {
            const size_t used = strlen(values);
            snprintf(values + used, sizeof values - used, "%s%s", v ? " | " : "",
                     options[k].values[v]);
        }
        printf("  %-10s %-54s %s\n", options[k].name, values, options[k].summary);
    }
    printf("\nparameter:   %s\nlaunches:    %d, for any number of tensors\n"
           "bytes:       %.4g read and written for each element\nguarantees:  %s\n",
           ptx_type_name(step->tensor.dtype), d.launches, (double)d.bytes / ELEMENTS,
           d.determinism);
    return true;
}
