// SPDX-License-Identifier: MIT
// What random programs are made of: all that the builder accepts.
#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>

// Cases in groups that are equally likely, so that an instruction with many modifiers is not.
struct catalogue {
    struct op_case c[8192];
    unsigned count;
    unsigned group[2048];
    unsigned groups;
};
static struct catalogue catalogues[GROUP_COUNT];

static bool is_accepted(const struct op_case *c)
{
    const struct ptx_builder_params params = { .target = { .sm = 90 } };
    ptx_builder *b = ptx_builder_create(&params);

    ptx_entry (b, "trial") {
        const struct op_frame frame = op_frame_open(b);
        op_case_emit(b, &frame, c);
    }
    const bool accepted = ptx_builder_finish(b) != NULL;
    ptx_builder_destroy(&b);
    return accepted;
}

static enum program_group group_of(const struct op_case *c)
{
    switch (c->kind) {
    case CASE_OP:
        return op_case_is_approximate(c) ? GROUP_APPROXIMATE : GROUP_OPS;
    case CASE_CVT:
        return GROUP_CONVERSIONS;
    case CASE_CVT_PACK:
        return GROUP_PACKS;
    case CASE_BITCAST:
        return GROUP_BITCASTS;
    case CASE_ATOMIC:
        return c->used ? GROUP_ATOMICS : GROUP_COUNT;
    case CASE_LOAD:
        return c->space == PTX_PARAM ? GROUP_COUNT : GROUP_LOADS;
    case CASE_STORE:
        return GROUP_STORES;
    case CASE_FENCE:
        return GROUP_FENCES;
    default:
        return GROUP_COUNT;
    }
}

static void visit(void *user, const struct op_case *c)
{
    const enum program_group group = group_of(c);
    struct catalogue *into = &catalogues[group];

    (void)user;
    if (group == GROUP_COUNT || !is_accepted(c))
        return;
    const struct op_case *last = into->count ? &into->c[into->count - 1] : NULL;
    if (!last || last->what != c->what || last->type != c->type || last->from != c->from ||
        last->space != c->space)
        into->group[into->groups++] = into->count;
    into->c[into->count++] = *c;
    into->group[into->groups] = into->count;
    if (into->count == sizeof into->c / sizeof *into->c) {
        fprintf(stderr, "random programs: a catalogue is full\n");
        exit(2);
    }
}

void program_catalogue(void)
{
    if (!catalogues[GROUP_OPS].count)
        op_cases(visit, NULL);
}

struct op_case program_choose(struct random *r, enum program_group from)
{
    const struct catalogue *all = &catalogues[from];
    const unsigned g = random_below(r, all->groups);
    return all->c[all->group[g] + random_below(r, all->group[g + 1] - all->group[g])];
}
