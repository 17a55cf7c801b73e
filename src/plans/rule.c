// SPDX-License-Identifier: MIT
// Rules of callers: their copies, and a text that has their code.
#include "rule.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"

// ---- rules --------------------------------------------------------------------------------------

static size_t operations_size(const struct ptx_rule_program *program)
{
    return program ? ((size_t)program->once_count + program->update_count + program->reduce_count +
                      program->of_sums_count) *
                         sizeof(struct ptx_rule_operation)
                   : 0;
}

static size_t names_size(const struct ptx_rule_params *params)
{
    size_t size = strlen(params->name) + 1;

    for (unsigned k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name; k++)
        size += strlen(params->states[k].name) + 1;
    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS && params->scalars[k].name; k++)
        size += strlen(params->scalars[k].name) + 1;
    return size;
}

// Copies a name to `*to`, and moves that behind it.
static const char *kept(const char *name, char **to)
{
    char *const made = *to;
    const size_t size = strlen(name) + 1;

    memcpy(made, name, size);
    *to += size;
    return made;
}

// Copies a list to `*to`, and moves that behind it.
static const struct ptx_rule_operation *kept_list(const struct ptx_rule_operation *from,
                                                  uint32_t count, struct ptx_rule_operation **to)
{
    struct ptx_rule_operation *const made = *to;

    if (count)
        memcpy(made, from, count * sizeof *made);
    *to += count;
    return made;
}

static void copy_program(struct ptx_rule *rule, const struct ptx_rule_program *from)
{
    struct ptx_rule_operation *to = rule->operations;
    struct ptx_rule_params *params = &rule->own.params;

    rule->program = *from;
    rule->program.once = kept_list(from->once, from->once_count, &to);
    rule->program.update = kept_list(from->update, from->update_count, &to);
    rule->program.reduce = kept_list(from->reduce, from->reduce_count, &to);
    rule->program.of_sums = kept_list(from->of_sums, from->of_sums_count, &to);
    params->program = params->user = &rule->program;
    params->once = ptxk_rule_program_once;
    params->update = ptxk_rule_program_update;
    params->reduce = params->sums ? ptxk_rule_program_reduce : NULL;
    params->of_sums = params->sums ? ptxk_rule_program_of_sums : NULL;
}

static void copy(struct ptx_rule *rule, const struct ptx_rule_params *params)
{
    static atomic_uint_least64_t serials;
    struct ptx_rule_params *own = &rule->own.params;
    char *names = (char *)rule->operations + operations_size(params->program);

    *own = *params;
    if (params->program)
        copy_program(rule, params->program);
    own->name = kept(params->name, &names);
    for (unsigned k = 0; k < PTX_STEP_MAX_STATES && params->states[k].name; k++)
        own->states[k].name = kept(params->states[k].name, &names);
    for (unsigned k = 0; k < PTX_STEP_MAX_SCALARS && params->scalars[k].name; k++)
        own->scalars[k].name = kept(params->scalars[k].name, &names);
    rule->own.serial = atomic_fetch_add(&serials, 1);
    ptxk_own_rule_set(&rule->own);
}

// The function whose code has a line: the last that a comment before it names.
static const char *function_at(const char *text, uint32_t line)
{
    static const char *const functions[] = { "once", "reduce", "of_sums", "update" };
    const char *found = functions[0];

    for (; line && text; line--) {
        const char *word = text + strspn(text, " ");
        for (unsigned k = 0; k < sizeof functions / sizeof *functions; k++)
            if (!strncmp(word, "// ", 3) && !strncmp(word + 3, functions[k], strlen(functions[k])))
                found = functions[k];
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return found;
}

// Where the caller wrote a line of a text with source lines, or the last line before it that has a
// place, as "mine.c:12: "; "" where none has.
static void place_at(const char *text, uint32_t line, char *place, size_t size)
{
    unsigned file = 0, number = 0, f, n;

    *place = 0;
    for (const char *at = text; line && at; line--, at = strchr(at, '\n'), at += at != NULL)
        if (sscanf(at, " .loc %u %u", &f, &n) == 2 && n) {
            file = f;
            number = n;
        }
    for (const char *at = file ? strstr(text, ".file ") : NULL; at;
         at = strstr(at + 1, "\n.file ")) {
        const char *name = strchr(at, '"');
        if (sscanf(at, " .file %u", &f) == 1 && f == file && name)
            snprintf(place, size, "%.*s:%u: ", (int)strcspn(name + 1, "\""), name + 1, number);
    }
}

static ptx_status check_registers(const char *name, const char *text)
{
    enum { OF_A_THREAD = 255 };
    uint32_t most, line;
    char place[256];

    if (!ptxp_rule_registers(text, &most, &line))
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a rule");
    if (most <= OF_A_THREAD)
        return PTX_OK;
    place_at(text, line, place, sizeof place);
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%srule %s: %s has values of %" PRIu32 " registers at one time, and a thread "
                     "has %d: use values soon after they are computed",
                     place, name, function_at(text, line), most, OF_A_THREAD);
}

static ptx_builder *new_builder(void)
{
    return ptx_builder_create(
        &(struct ptx_builder_params) { .target = { .sm = 70 }, .line_info = true });
}

// The builder's text, or NULL and an error. Without a place it has lines of the text, which are not
// the caller's.
static const char *finished(ptx_builder *b, ptx_status *status)
{
    const char *const text = ptx_builder_finish(b), *const error = ptx_builder_error(b);
    const char *const lines = error ? strstr(error, "\nafter ") : NULL;

    if (!text)
        *status =
            ptxd_fail(ptx_builder_out_of_memory(b) ? PTX_ERROR_OUT_OF_MEMORY : PTX_ERROR_INVALID,
                      "%.*s", lines ? (int)(lines - error) : (int)strlen(error), error);
    return text;
}

// The next line of a text that is code, "" at its end; *line counts the lines up to it.
// Declarations and source lines may differ before the code does.
static const char *code_at(const char *text, uint32_t *line)
{
    for (*line += 1; *text; *line += 1) {
        const char *const word = text + strspn(text, " ");
        if (*word != '.' && *word != '/')
            break;
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

// The line of `second`, from 1, from which on it has other code; 0: none.
static uint32_t difference(const char *first, const char *second)
{
    uint32_t line = 0, of_first = 0;

    while (*first || *second) {
        first = code_at(first, &of_first);
        second = code_at(second, &line);
        const size_t length = strcspn(first, "\n"), other = strcspn(second, "\n");
        if (length != other || memcmp(first, second, length) != 0)
            return line;
        first += length + (first[length] == '\n');
        second += other + (second[other] == '\n');
    }
    return 0;
}

// Whether the functions write the same whenever they are called.
static ptx_status check_again(const char *name, const char *first, const char *second)
{
    const uint32_t line = difference(first, second);
    char place[256];

    if (!line)
        return PTX_OK;
    place_at(second, line, place, sizeof place);
    return ptxd_fail(
        PTX_ERROR_INVALID,
        "%srule %s: %s writes other code when it is called again: it is called several "
        "times, and must write the same each time; what changes its code belongs in "
        "user, with a rule for each",
        place, name, function_at(second, line));
}

// A copy of a rule, which is noted again when it is written.
static void own_copy(const struct ptx_rule *rule, struct ptxk_own_rule *own)
{
    *own = rule->own;
    own->rule.own = own;
    own->rule.scalar = own->scalar;
}

// Calls functions of C again, which may keep something from one call to another.
static ptx_status try_again(const struct ptx_rule *rule, const char *text)
{
    enum { MORE = 9 }; // ten calls in all are compared
    ptx_builder *apart = new_builder();
    ptx_status status = PTX_OK;
    struct ptxk_own_rule own;

    for (unsigned k = 0; k < MORE && !status; k++) {
        ptx_builder *next = new_builder();
        ptx_rule_emit(next, rule);
        const char *const again = finished(next, &status);
        if (again)
            status = check_again(rule->own.rule.name, text, again);
        ptx_builder_destroy(&next);
    }
    if (!status) {
        own_copy(rule, &own);
        ptxk_own_rule_emit_apart(apart, &own);
        finished(apart, &status);
    }
    ptx_builder_destroy(&apart);
    return status;
}

// Writes the rule's code, for what is found so.
static ptx_status try(struct ptx_rule *rule)
{
    ptx_builder *b = new_builder();
    ptx_status status = PTX_OK;

    ptxk_own_rule_emit(b, &rule->own);
    const char *const text = finished(b, &status);
    if (text)
        status = check_registers(rule->own.rule.name, text);
    if (!status && !rule->own.params.program)
        status = try_again(rule, text);
    ptx_builder_destroy(&b);
    return status;
}

static void note(struct ptx_rule *rule)
{
    const struct ptxk_step_rule *own = &rule->own.rule;

    rule->info = (struct ptx_rule_info) { .name = own->name,
                                          .version = rule->own.params.version,
                                          .states = own->states,
                                          .scalars = own->scalars,
                                          .clock_states = own->clock_states,
                                          .quick = own->quick };
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        rule->info.coefficients += rule->own.coefficients >> k & 1;
    for (uint32_t k = 0; k < own->scalars; k++)
        rule->info.place[k] = own->scalar[k].place;
}

ptx_rule *ptx_rule_create(const struct ptx_rule_params *params)
{
    ptx_status status = ptxp_rule_check(params);
    struct ptx_rule *rule = NULL;

    if (!status) {
        rule = calloc(1, sizeof *rule + operations_size(params->program) + names_size(params));
        if (!rule)
            status = ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a rule");
    }
    if (!status) {
        copy(rule, params);
        status = try(rule);
    }
    if (ptxd_named(status, __func__))
        ptx_rule_destroy(&rule);
    else
        note(rule);
    return rule;
}

void ptx_rule_destroy(ptx_rule **rule)
{
    if (!rule)
        return;
    free(*rule);
    *rule = NULL;
}

const struct ptx_rule_info *ptx_rule_get_info(const ptx_rule *rule)
{
    return rule ? &rule->info : NULL;
}

// ---- what functions of rules call ---------------------------------------------------------------

ptx_val ptx_rule_power(ptx_builder *b, ptx_val x, ptx_val t)
{
    if (x.type == PTX_F64 && t.type == PTX_U32 && t.kind != PTX_KIND_NUMBER)
        return ptxk_own_rule_power(b, x, t);
    ptx_builder_fail(b, "ptx_rule_power: x is %s and t is %s; they must be f64 and u32",
                     ptx_type_name((ptx_type)x.type), ptx_type_name((ptx_type)t.type));
    return (ptx_val) { 0 };
}

// An operand that was never set is one of the call that the caller wrote.
static bool is_set(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    const char *const absent = ptxk_own_rule_absent(x);

    if (absent)
        ptx_builder_fail(b, "%s: %s was never set: it is %s", call, name, absent);
    return !absent;
}

ptx_val ptx_rule_div(ptx_builder *b, ptx_val x, ptx_val y)
{
    if (!is_set(b, __func__, "x", x) || !is_set(b, __func__, "y", y))
        return (ptx_val) { 0 };
    if (x.type != y.type && x.kind != PTX_KIND_NUMBER && y.kind != PTX_KIND_NUMBER) {
        ptx_builder_fail(b, "%s: x is %s and y is %s; both must have the same type", __func__,
                         ptx_type_name((ptx_type)x.type), ptx_type_name((ptx_type)y.type));
        return (ptx_val) { 0 };
    }
    return ptxk_own_rule_div(b, x, y);
}

ptx_val ptx_rule_sqrt(ptx_builder *b, ptx_val x)
{
    return is_set(b, __func__, "x", x) ? ptxk_own_rule_sqrt(b, x) : (ptx_val) { 0 };
}

ptx_val ptx_rule_exp(ptx_builder *b, ptx_val x)
{
    return ptxk_rule_exp(b, x);
}

ptx_val ptx_rule_log(ptx_builder *b, ptx_val x)
{
    return ptxk_rule_log(b, x);
}

ptx_val ptx_rule_pow(ptx_builder *b, ptx_val x, ptx_val y)
{
    return ptxk_rule_pow(b, x, y);
}

uint32_t ptx_rule_function(ptx_rule_op op, struct ptx_rule_operation *to, uint32_t most)
{
    return ptxk_rule_function(op, to, most);
}

void ptx_rule_emit(ptx_builder *b, const ptx_rule *rule)
{
    if (!rule) {
        ptx_builder_fail(b, "ptx_rule_emit: rule is NULL");
        return;
    }
    struct ptxk_own_rule own;
    own_copy(rule, &own);
    ptxk_own_rule_emit(b, &own);
}
