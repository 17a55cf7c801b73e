// SPDX-License-Identifier: MIT
#include "clip_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comparison {
    struct tensor_file in, out;
    const struct clip_told *told;
    struct clip_found *found;
    struct ref_gradient *gradients; ///< in the plan's order, which is that of the output
    const struct tensor **clipped;  ///< the tensors of the output, in the order of `gradients`
    size_t count;
};

static bool fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    return false;
}

static bool type_of(const struct tensor *tensor, enum ref_type *type)
{
    static const enum ref_type types[PTX_TYPE_COUNT] = {
        [PTX_F64] = REF_F64, [PTX_F16] = REF_F16, [PTX_BF16] = REF_BF16
    };
    ptx_type given = tensor->dtype->type;
    *type = types[given];
    return given == PTX_F32 || *type != REF_F32;
}

static uint32_t group_of(const struct comparison *c, const char *name)
{
    char key[sizeof c->found->names[0]] = "";
    size_t length = strcspn(name, ".");
    if (c->told->grouped && name[length] == '.' && length < sizeof key)
        memcpy(key, name, length);
    uint32_t g = 0;
    while (g < c->found->group_count && strcmp(c->found->names[g], key) != 0)
        g++;
    if (g == c->found->group_count && g < CLIP_FILE_MOST_GROUPS)
        strcpy(c->found->names[c->found->group_count++], key);
    return g;
}

static bool same_header(const struct comparison *c)
{
    if (c->in.count != c->out.count || c->in.note_count != c->out.note_count)
        return fail(c->out.path, "not as many tensors or notes as the input has");
    for (size_t k = 0; k < c->in.note_count; k++)
        if (strcmp(c->in.notes[k].key, c->out.notes[k].key) != 0 ||
            strcmp(c->in.notes[k].value, c->out.notes[k].value) != 0)
            return fail(c->out.path, "not the input's metadata");
    for (size_t k = 0; k < c->out.count; k++) {
        const struct tensor *got = &c->out.tensors[k];
        const struct tensor *given = tensor_file_find(&c->in, got->name);
        if (!given || given->dtype != got->dtype || given->rank != got->rank ||
            memcmp(given->shape, got->shape, given->rank * sizeof *given->shape) != 0)
            return fail(c->out.path, "a tensor that the input does not have so");
    }
    return true;
}

/// Copies a tensor's elements, which may be misaligned in the file, or compares the tensor.
static bool add_tensor(struct comparison *c, const struct tensor *got)
{
    const struct tensor *given = tensor_file_find(&c->in, got->name);
    enum ref_type type;
    if (!type_of(given, &type)) {
        c->found->wrong += memcmp(given->data, got->data, (size_t)given->bytes) != 0;
        return true;
    }
    struct ref_gradient *gradient = &c->gradients[c->count];
    *gradient = (struct ref_gradient) { .type = type, .count = given->count, .weight = 1 };
    gradient->group = group_of(c, given->name);
    gradient->data = malloc((size_t)given->bytes + 1);
    if (!gradient->data || gradient->group == CLIP_FILE_MOST_GROUPS)
        return fail(c->in.path, "too much for the reference");
    memcpy(gradient->data, given->data, (size_t)given->bytes);
    c->clipped[c->count++] = got;
    c->found->tensors++;
    c->found->elements += given->count;
    return true;
}

static void clip(struct comparison *c)
{
    float max_norms[CLIP_FILE_MOST_GROUPS];
    double sums[CLIP_FILE_MOST_GROUPS];
    const struct ref_clip_plan plan = {
        .tensors = c->gradients,
        .tensor_count = c->count,
        .group_count = c->found->group_count,
        .max_norms = max_norms,
        .eps = c->told->eps,
        .nonfinite = c->told->nonfinite,
    };
    for (uint32_t g = 0; g < plan.group_count; g++)
        max_norms[g] = c->told->max_norm;
    ref_clip_sums(&plan, sums);
    for (uint32_t g = 0; g < plan.group_count; g++) {
        ref_clip_record(&plan, g, sums[g], c->told->loss_scale, c->found->records[g]);
        ref_clip_apply(&plan, g, c->found->records[g]);
    }
}

static bool count_wrong(struct comparison *c, size_t k)
{
    const struct ref_gradient *want = &c->gradients[k];
    const struct tensor *tensor = c->clipped[k];
    void *got = malloc((size_t)tensor->bytes + 1);
    if (!got)
        return fail(c->out.path, "out of memory");
    memcpy(got, tensor->data, (size_t)tensor->bytes);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < want->count; i++)
        if (!ref_same(want->type, got, want->data, i) && wrong++ == 0)
            fprintf(stderr, "%s: %s[%llu] is %a, want %a\n", c->out.path, tensor->name,
                    (unsigned long long)i, ref_load(want->type, got, i),
                    ref_load(want->type, want->data, i));
    c->found->wrong += wrong;
    free(got);
    return true;
}

static bool compare(struct comparison *c)
{
    c->gradients = calloc(c->out.count + 1, sizeof *c->gradients);
    c->clipped = calloc(c->out.count + 1, sizeof *c->clipped);
    if (!c->gradients || !c->clipped)
        return fail(c->in.path, "out of memory");
    if (!same_header(c))
        return false;
    for (size_t k = 0; k < c->out.count; k++)
        if (!add_tensor(c, &c->out.tensors[k]))
            return false;
    clip(c);
    for (size_t k = 0; k < c->count; k++)
        if (!count_wrong(c, k))
            return false;
    return true;
}

bool clip_file_compare(const char *input, const char *output, const struct clip_told *told,
                       struct clip_found *found)
{
    struct comparison c = { .told = told, .found = found };
    struct message error;
    *found = (struct clip_found) { 0 };
    if (!tensor_file_open(&c.in, input, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    if (!tensor_file_open(&c.out, output, &error)) {
        fprintf(stderr, "%s\n", error.text);
        tensor_file_close(&c.in);
        return false;
    }
    bool compared = compare(&c);
    for (size_t k = 0; k < c.count; k++)
        free(c.gradients[k].data);
    free(c.gradients);
    free(c.clipped);
    tensor_file_close(&c.in);
    tensor_file_close(&c.out);
    return compared;
}
