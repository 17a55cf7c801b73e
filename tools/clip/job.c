// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // strverscmp
#include "clip/job.h"

#include "cli.h"

#include <regex.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static bool is_clipped(const struct tensor *tensor)
{
    ptx_type type = tensor->dtype->type;
    return type == PTX_F32 || type == PTX_F64 || type == PTX_F16 || type == PTX_BF16;
}

static void count_in(struct clip_group *group, const struct tensor *tensor)
{
    group->tensors++;
    group->elements += tensor->count;
    group->bytes += tensor->bytes;
}

static int by_name(const void *x, const void *y)
{
    const struct clip_group *a = x;
    const struct clip_group *b = y;
    return strcmp(a->name, b->name);
}

/// State of grouping tensors by name.
struct grouping {
    struct clip_job *job;
    regex_t expression;
    void *names; ///< tsearch() tree of the groups with a name
    uint32_t rest;
    uint64_t matches;
};

static struct clip_group *add_group(struct clip_job *job, char *name)
{
    struct clip_group *group = &job->groups[job->group_count++];
    group->name = name;
    return group;
}

/// The group with this name, created if necessary; CLIP_NO_GROUP: out of memory.
static uint32_t group_named(struct grouping *g, const char *name, size_t length)
{
    struct clip_job *job = g->job;
    char *copy = strndup(name, length);
    if (!copy)
        return CLIP_NO_GROUP;
    struct clip_group *group = add_group(job, copy);
    struct clip_group **found = tsearch(group, &g->names, by_name);
    if (found && *found == group)
        return job->group_count - 1;
    job->group_count--;
    group->name = NULL;
    free(copy);
    return found ? (uint32_t)(*found - job->groups) : CLIP_NO_GROUP;
}

/// CLIP_NO_GROUP: out of memory.
static uint32_t group_of(struct grouping *g, const char *name)
{
    regmatch_t match[2];
    int status = regexec(&g->expression, name, 2, match, 0);
    if (status != 0 && status != REG_NOMATCH)
        return CLIP_NO_GROUP;
    if (status == REG_NOMATCH) {
        if (g->rest == CLIP_NO_GROUP)
            g->rest = (uint32_t)(add_group(g->job, NULL) - g->job->groups);
        return g->rest;
    }
    g->matches++;
    const regmatch_t *part = &match[g->expression.re_nsub > 0 && match[1].rm_so >= 0];
    return group_named(g, name + part->rm_so, (size_t)(part->rm_eo - part->rm_so));
}

static bool group_all(struct grouping *g)
{
    struct clip_job *job = g->job;
    for (size_t k = 0; k < job->count; k++) {
        if (job->group_of[k] == CLIP_NO_GROUP)
            continue;
        job->group_of[k] = group_of(g, job->tensors[k]->name);
        if (job->group_of[k] == CLIP_NO_GROUP)
            return false;
        count_in(&job->groups[job->group_of[k]], job->tensors[k]);
    }
    return true;
}

/// Names by their text, numbers in them by their value; the group without a name is the last.
static int by_number(const void *x, const void *y)
{
    const struct clip_group *a = x, *b = y;
    if (!a->name || !b->name)
        return !a->name - !b->name;
    return strverscmp(a->name, b->name);
}

/// Orders the groups by name. False: out of memory.
static bool order_groups(struct clip_job *job)
{
    uint32_t *places = calloc(job->group_count, sizeof(*places));
    if (!places)
        return false;
    for (uint32_t g = 0; g < job->group_count; g++)
        job->groups[g].place = g;
    qsort(job->groups, job->group_count, sizeof(*job->groups), by_number);
    for (uint32_t g = 0; g < job->group_count; g++)
        places[job->groups[g].place] = g;
    for (size_t k = 0; k < job->count; k++)
        if (job->group_of[k] != CLIP_NO_GROUP)
            job->group_of[k] = places[job->group_of[k]];
    free(places);
    return true;
}

static int group_by(struct clip_job *job, const char *text, struct message *error)
{
    struct grouping g = { .job = job, .rest = CLIP_NO_GROUP };
    int status = EXIT_DONE;
    int broken = regcomp(&g.expression, text, REG_EXTENDED);
    char quoted[QUOTED_SIZE];
    if (broken) {
        char reason[256];
        regerror(broken, &g.expression, reason, sizeof(reason));
        message_set(error, "--group-by %s: %s", quote(quoted, text), reason);
        return EXIT_USAGE;
    }
    job->group_count = 0;
    if (!group_all(&g)) {
        status = EXIT_FAILED;
        message_set(error, "out of memory");
    } else if (g.matches == 0 && job->clipped.tensors > 0) {
        char name[QUOTED_SIZE];
        size_t k = 0;
        while (job->group_of[k] == CLIP_NO_GROUP)
            k++;
        status = EXIT_USAGE;
        message_set(error, "--group-by %s matches the name of no tensor; the first is %s",
                    quote(quoted, text), quote(name, job->tensors[k]->name));
    } else if (job->group_count == 0) {
        job->group_count = 1;
    }
    while (g.names) {
        struct clip_group *root = *(struct clip_group **)g.names;
        tdelete(root, &g.names, by_name);
    }
    regfree(&g.expression);
    if (status == EXIT_DONE && !order_groups(job)) {
        status = EXIT_FAILED;
        message_set(error, "out of memory");
    }
    return status;
}

/// Orders the tensors, part by part.
static void order_parts(struct clip_job *job, bool sharded)
{
    const struct tensor_file *files = sharded ? job->file->shards : job->file;
    size_t at = 0;
    for (size_t k = 0; k < job->part_count; k++) {
        tensor_file_order(files[k].tensors, files[k].count, job->tensors + at);
        at += files[k].count;
        job->parts[k] = (struct clip_part) { &files[k], at };
    }
}

int clip_job_create(struct clip_job *job, const struct tensor_file *file, bool sharded,
                    const char *expression, struct message *error)
{
    *job = (struct clip_job) { .file = file, .count = file->count, .group_count = 1 };
    job->tensors = calloc(file->count + 1, sizeof(*job->tensors));
    job->group_of = calloc(file->count + 1, sizeof(*job->group_of));
    // Every tensor may have a group of its own; plus one for the case of no tensors.
    job->groups = calloc(file->count + 2, sizeof(*job->groups));
    job->part_count = sharded ? file->shard_count : 1;
    job->parts = calloc(job->part_count, sizeof(*job->parts));
    if (!job->parts || !job->tensors || !job->group_of || !job->groups) {
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    order_parts(job, sharded);
    for (size_t k = 0; k < job->count; k++) {
        bool clipped = is_clipped(job->tensors[k]);
        job->group_of[k] = clipped ? 0 : CLIP_NO_GROUP;
        count_in(clipped ? &job->clipped : &job->copied, job->tensors[k]);
    }
    job->grouped = expression != NULL;
    if (job->grouped)
        return group_by(job, expression, error);
    job->groups[0] = job->clipped;
    return EXIT_DONE;
}

void clip_job_release(struct clip_job *job)
{
    for (uint32_t g = 0; job->groups && g < job->group_count; g++)
        free(job->groups[g].name);
    free(job->groups);
    free(job->parts);
    free(job->group_of);
    free(job->tensors);
    *job = (struct clip_job) { 0 };
}
