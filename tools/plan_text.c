// SPDX-License-Identifier: MIT
#include "plan_text.h"

#include <string.h>

const struct plan_text *plan_at(size_t k)
{
    static const struct plan_text *const plans[] = { &plan_clip, &plan_step };
    return k < sizeof plans / sizeof *plans ? plans[k] : NULL;
}

const struct plan_text *plan_find(const char *name)
{
    const struct plan_text *plan;
    for (size_t k = 0; (plan = plan_at(k)); k++)
        if (strcmp(name, plan->name) == 0)
            return plan;
    return NULL;
}

static bool choose(struct plan_choice *choice, const char *assignment, struct message *error)
{
    const struct plan_option *options = choice->plan->options;
    char name[ASSIGNMENT_NAME_SIZE], what[ASSIGNMENT_NAME_SIZE + 32];
    const char *names[PLAN_OPTIONS], *value = NULL;
    size_t k = 0;
    if (!split_assignment(assignment, name, &value, error))
        return false;
    for (; options[k].name; k++) {
        names[k] = options[k].name;
        if (strcmp(name, names[k]) != 0)
            continue;
        unsigned v = 0;
        for (; options[k].values[v]; v++)
            if (strcmp(value, options[k].values[v]) == 0) {
                choice->chosen[k] = v;
                return true;
            }
        snprintf(what, sizeof what, "value of option %s", name);
        return message_unknown(error, what, value, options[k].values, v);
    }
    return message_unknown(error, "option", name, names, k);
}

bool plan_select(struct plan_choice *choice, const struct plan_text *plan, const char *dtype,
                 const struct cli_list *sets, struct message *error)
{
    char quoted[QUOTED_SIZE];
    *choice = (struct plan_choice) { .plan = plan };
    for (size_t k = 0; k < sets->count; k++)
        if (!choose(choice, sets->items[k], error))
            return false;
    choice->dtype = dtype ? ptx_type_parse(dtype) : PTX_NONE;
    if (dtype && choice->dtype == PTX_NONE)
        return message_set(error, "there is no dtype %s", quote(quoted, dtype));
    return plan->write(NULL, choice->chosen, choice->dtype, &choice->facts) == PTX_OK ||
           message_set(error, "%s", ptx_error_message());
}

/// Adds the types of one choice of values.
static bool add_dtypes(const struct plan_text *plan, const unsigned *chosen, uint32_t *dtypes,
                       struct message *error)
{
    struct plan_facts facts;
    for (unsigned type = 0; type < PTX_TYPE_COUNT; type++) {
        const ptx_status status = plan->write(NULL, chosen, (ptx_type)type, &facts);
        if (status == PTX_ERROR_OUT_OF_MEMORY)
            return message_set(error, "%s", ptx_error_message());
        *dtypes |= (uint32_t)(status == PTX_OK && facts.dtype == (ptx_type)type) << type;
    }
    return true;
}

bool plan_dtypes(const struct plan_text *plan, uint32_t *dtypes, struct message *error)
{
    *dtypes = 0;
    for (size_t k = 0; plan->options[k].name; k++)
        for (unsigned v = 0; plan->options[k].values[v]; v++) {
            unsigned chosen[PLAN_OPTIONS] = { 0 };
            chosen[k] = v;
            if (!add_dtypes(plan, chosen, dtypes, error))
                return false;
        }
    return true;
}

ptx_builder *plan_emit(const struct plan_choice *choice, const struct selection *selection,
                       struct message *error)
{
    const struct ptx_builder_params of_builder = selection_params(selection);
    struct plan_facts facts;
    ptx_builder *b = ptx_builder_create(&of_builder);
    if (choice->plan->write(b, choice->chosen, choice->dtype, &facts) != PTX_OK)
        message_set(error, "%s: %s", choice->plan->name, ptx_error_message());
    else if (ptx_builder_finish(b))
        return b;
    else
        message_set(error, "%s: %s", choice->plan->name, ptx_builder_error(b));
    ptx_builder_destroy(&b);
    return NULL;
}

static bool print_json(const struct plan_choice *choice, struct message *error)
{
    const struct plan_facts *facts = &choice->facts;
    json_t *list = json_array();
    for (const struct plan_option *option = choice->plan->options; option->name; option++) {
        json_t *values = json_array();
        for (size_t v = 0; option->values[v]; v++)
            json_array_append_new(values, json_string(option->values[v]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "name", option->name,
                                              "summary", option->summary, "default",
                                              option->values[0], "values", values));
    }
    return json_print(stdout,
                      json_pack("{s:s, s:o, s:i, s:f, s:s}", "name", choice->plan->name, "options",
                                list, "launches", facts->launches, "bytes_per_element",
                                (double)facts->bytes / PLAN_ELEMENTS, "guarantees",
                                facts->determinism),
                      JSON_INDENT(2), error);
}

bool plan_info(const struct plan_choice *choice, bool json, struct message *error)
{
    const struct plan_text *plan = choice->plan;
    const struct plan_facts *facts = &choice->facts;
    if (json)
        return print_json(choice, error);
    printf("%s: %s\n\noptions (the first value is the default):\n", plan->name, plan->summary);
    for (const struct plan_option *option = plan->options; option->name; option++) {
        char values[128] = "";
        for (size_t v = 0; option->values[v]; v++) {
            const size_t used = strlen(values);
            snprintf(values + used, sizeof values - used, "%s%s", v ? " | " : "",
                     option->values[v]);
        }
        printf("  %-10s %-54s %s\n", option->name, values, option->summary);
    }
    printf("\n%s: %*s%s\nlaunches:    %d, for any number of tensors\n"
           "bytes:       %.4g read and written for each element\nguarantees:  %s\n",
           plan->tensor, (int)(11 - strlen(plan->tensor)), "", ptx_type_name(facts->dtype),
           facts->launches, (double)facts->bytes / PLAN_ELEMENTS, facts->determinism);
    return true;
}
