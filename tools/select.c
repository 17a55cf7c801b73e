// SPDX-License-Identifier: MIT
#include "select.h"

#include "plan_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_LIMIT = 64 };

bool select_kernel(const char *name, const ptx_kernel **kernel, struct message *error)
{
    *kernel = ptx_kernel_find(name);
    if (*kernel)
        return true;
    if (plan_find(name))
        return message_set(error,
                           "%s is a plan: info and emit take it; ptxgen emit %s | ptxgen check -",
                           name, name);
    const char *names[NAME_LIMIT];
    size_t count = 0;
    for (const ptx_kernel *k; count < NAME_LIMIT && (k = ptx_kernel_at(count)); count++)
        names[count] = k->name;
    message_unknown(error, "kernel", name, names, count);
    char quoted[QUOTED_SIZE];
    if (!nearest_name(name, names, count))
        message_set(error, "unknown kernel %s: ptxgen list names them", quote(quoted, name));
    return false;
}

void select_advise_file(struct message *error, const char *name)
{
    if (access(name, F_OK) == 0)
        message_add(error, "; the file of this name is ./%s", name);
}

ptx_type kernel_dtype_at(const ptx_kernel *kernel, size_t k)
{
    for (unsigned type = 0; type < PTX_TYPE_COUNT; type++)
        if (kernel->dtypes >> type & 1 && k-- == 0)
            return (ptx_type)type;
    return PTX_NONE;
}

json_t *dtypes_json(uint32_t dtypes)
{
    json_t *names = json_array();
    for (unsigned type = 0; type < PTX_TYPE_COUNT; type++)
        if (dtypes >> type & 1)
            json_array_append_new(names, json_string(ptx_type_name((ptx_type)type)));
    return names;
}

bool select_dtype(const ptx_kernel *kernel, const char *name, ptx_type *dtype,
                  struct message *error)
{
    if (!name) {
        *dtype = kernel->dtypes & PTX_TYPE_BIT(F32) ? PTX_F32 : kernel_dtype_at(kernel, 0);
        return true;
    }
    *dtype = ptx_type_parse(name);
    if (*dtype != PTX_NONE && kernel->dtypes >> *dtype & 1)
        return true;
    char quoted[QUOTED_SIZE];
    message_set(error, "%s has no dtype %s: choose", kernel->name, quote(quoted, name));
    for (size_t k = 0; kernel_dtype_at(kernel, k) != PTX_NONE; k++)
        message_add(error, "%s %s", k ? "," : "", ptx_type_name(kernel_dtype_at(kernel, k)));
    return false;
}

bool select_target(const char *name, struct ptx_target *target, struct message *error)
{
    if (ptx_target_parse(name, target))
        return true;
    char text[NAME_LIMIT][PTX_TARGET_NAME_SIZE];
    const char *names[NAME_LIMIT];
    size_t count = 0;
    for (struct ptx_target known; count < NAME_LIMIT && ptx_target_at(count, &known, NULL); count++)
        names[count] = ptx_target_name(known, text[count]);
    return message_unknown(error, "target", name, names, count);
}

static bool read_isa(const char *name, int *isa)
{
    char *end;
    unsigned long major = strtoul(name, &end, 10);
    bool digits = name[0] >= '0' && name[0] <= '9' && end[0] == '.';
    if (!digits || end[1] < '0' || end[1] > '9' || end[2] != '\0' || major == 0 || major > 99)
        return false;
    *isa = (int)major * 10 + (end[1] - '0');
    return true;
}

static int least_isa_of(struct ptx_target target)
{
    struct ptx_target known;
    int least = 0;
    for (size_t k = 0; ptx_target_at(k, &known, &least); k++)
        if (known.sm == target.sm && known.suffix == target.suffix)
            break;
    return least;
}

bool select_isa(const char *name, struct ptx_target target, int *isa, struct message *error)
{
    char quoted[QUOTED_SIZE], target_name[PTX_TARGET_NAME_SIZE];
    if (!read_isa(name, isa))
        return message_set(error, "%s is no PTX ISA version: give it as 8.0", quote(quoted, name));
    int least = least_isa_of(target);
    if (*isa < least)
        return message_set(error, "%s is below %d.%d, the least PTX ISA version that has %s",
                           quote(quoted, name), least / 10, least % 10,
                           ptx_target_name(target, target_name));
    return ptx_isa_exists(*isa) ||
           message_set(error, "there is no PTX ISA version %s", quote(quoted, name));
}

bool split_assignment(const char *text, char name[ASSIGNMENT_NAME_SIZE], const char **value,
                      struct message *error)
{
    size_t length = strcspn(text, "=");
    char quoted[QUOTED_SIZE];
    if (text[length] == '\0' || length == 0)
        return message_set(error, "--set %s: give it as name=value", quote(quoted, text));
    if (length >= ASSIGNMENT_NAME_SIZE)
        return message_set(error, "--set %s: the name is too long", quote(quoted, text));
    memcpy(name, text, length);
    name[length] = '\0';
    *value = text + length + 1;
    return true;
}

static size_t choice_count(const struct ptx_kernel_option *option)
{
    size_t count = 0;
    while (count < PTX_KERNEL_MAX_CHOICES && option->values[count])
        count++;
    return count;
}

bool select_option(struct selection *selection, const char *assignment, struct message *error)
{
    const ptx_kernel *kernel = selection->kernel;
    char name[ASSIGNMENT_NAME_SIZE];
    const char *value = NULL;
    if (!split_assignment(assignment, name, &value, error))
        return false;
    if (ptx_kernel_spec_set(&selection->spec, kernel, name, value))
        return true;
    int at = ptx_kernel_find_option(kernel, name);
    if (at >= 0) {
        const struct ptx_kernel_option *option = &kernel->options[at];
        char what[ASSIGNMENT_NAME_SIZE + 32];
        snprintf(what, sizeof(what), "value of option %s", name);
        return message_unknown(error, what, value, option->values, choice_count(option));
    }
    const char *names[PTX_KERNEL_MAX_OPTIONS];
    size_t count = 0;
    while (count < PTX_KERNEL_MAX_OPTIONS && kernel->options[count].name) {
        names[count] = kernel->options[count].name;
        count++;
    }
    return message_unknown(error, "option", name, names, count);
}

bool select_lines(const struct selection *selection, struct message *error)
{
    if (selection->source_folder && !selection->line_info)
        return message_set(error, "--source-folder goes with --line-info");
    return LINE_INFO || !selection->line_info ||
           message_set(error, "--line-info: this ptxgen was built without the lines of its "
                              "kernels; meson's -Dline_info=true has them");
}

struct ptx_builder_params selection_params(const struct selection *selection)
{
    return (struct ptx_builder_params) { .target = selection->target,
                                         .isa = selection->isa,
                                         .line_info = selection->line_info,
                                         .source_folder = selection->source_folder };
}

ptx_builder *selection_emit(const struct selection *selection, struct message *error)
{
    const struct ptx_builder_params params = selection_params(selection);
    ptx_builder *b = ptx_builder_create(&params);
    (ptx_kernel_emit)(b, selection->kernel,
                      &selection->spec); // the command's own line says nothing
    if (ptx_builder_finish(b))
        return b;
    message_set(error, "%s: %s", selection->kernel->name, ptx_builder_error(b));
    ptx_builder_destroy(&b);
    return NULL;
}

const char *selection_name(const struct selection *selection, char name[SELECTION_NAME_SIZE])
{
    const ptx_kernel *kernel = selection->kernel;
    const struct ptx_kernel_spec *spec = &selection->spec;
    char target[PTX_TARGET_NAME_SIZE];
    int used =
        snprintf(name, SELECTION_NAME_SIZE, "%s.%s", kernel->name, ptx_type_name(spec->dtype));
    for (size_t k = 0; k < PTX_KERNEL_MAX_OPTIONS && kernel->options[k].name; k++)
        if (used >= 0 && used < SELECTION_NAME_SIZE)
            used += snprintf(name + used, (size_t)(SELECTION_NAME_SIZE - used), " %s=%s",
                             kernel->options[k].name, kernel->options[k].values[spec->option[k]]);
    if (used >= 0 && used < SELECTION_NAME_SIZE)
        snprintf(name + used, (size_t)(SELECTION_NAME_SIZE - used), " %s",
                 ptx_target_name(selection->target, target));
    return name;
}

bool selection_next_options(struct selection *selection, unsigned fixed)
{
    const struct ptx_kernel_option *options = selection->kernel->options;
    for (size_t k = 0; k < PTX_KERNEL_MAX_OPTIONS && options[k].name; k++) {
        if (fixed >> k & 1)
            continue;
        if (++selection->spec.option[k] < choice_count(&options[k]))
            return true;
        selection->spec.option[k] = 0;
    }
    return false;
}
