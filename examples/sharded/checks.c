// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static bool report(bool right, const char *statement)
{
    printf("%-5s %s\n", right ? "OK" : "WRONG", statement);
    return right;
}

static bool same(const struct outcome *x, const struct outcome *y)
{
    return memcmp(&x->sum, &y->sum, sizeof x->sum) == 0 &&
           memcmp(&x->record, &y->record, sizeof x->record) == 0 &&
           memcmp(&x->summary, &y->summary, sizeof x->summary) == 0;
}

// The sum must equal the sum over the ranks. For two ranks the order does not matter; for more,
// each addition may round differently.
bool sums_right(const struct world *world, const struct task *tasks)
{
    long double total = 0;
    bool right = true;
    for (int k = 0; k < world->ranks; k++)
        total += (long double)tasks[k].local_sum;
    const double got = tasks[0].outcomes[DIRECT].sum;
    if (world->ranks <= 2)
        right = got == tasks[0].local_sum + (world->ranks == 2 ? tasks[1].local_sum : 0);
    else
        right = fabsl((long double)got - total) <= world->ranks * 0x1p-53L * total;
    return report(right, world->ranks <= 2
                             ? "the sum is the f64 sum of the ranks' sums, every bit"
                             : "the sum is that of the ranks' sums, within their roundings");
}

bool ranks_agree(const struct world *world, const struct task *tasks)
{
    bool right = true;
    for (int k = 0; k < world->ranks; k++) {
        right = right && same(&tasks[k].outcomes[DIRECT], &tasks[0].outcomes[DIRECT]) &&
                same(&tasks[k].outcomes[CAPTURED], &tasks[0].outcomes[DIRECT]) &&
                same(&tasks[k].outcomes[INFINITE], &tasks[0].outcomes[INFINITE]);
        right = right &&
                memcmp(tasks[k].outcomes[DIRECT].gradients, tasks[k].outcomes[CAPTURED].gradients,
                       rank_bytes(world->parts[k])) == 0;
    }
    return report(right, "sum, norm, factor, found_inf and loss scale are the same on all ranks, "
                         "launched and captured, every bit");
}

// Within 2 units in the last place of f32.
static bool norm_right(const struct world *world, float norm)
{
    const long double exact = exact_norm(world);
    const long double unit = (long double)nextafterf((float)exact, INFINITY) - (float)exact;
    return fabsl((long double)norm - exact) <= 2 * unit;
}

// If one rank has an infinity, all ranks skip the step and keep their gradients.
bool infinity_right(const struct world *world, const struct task *tasks)
{
    bool right = true;
    for (int r = 0; r < world->ranks; r++) {
        const struct outcome *o = &tasks[r].outcomes[INFINITE];
        const unsigned char *at = o->gradients;
        right = right && o->record.found_inf == 1 && o->record.factor == 1 &&
                o->summary.state.scale == SHARDED_LOSS_SCALE / 2;
        for (int k = 0; k < RANK_PARTS; at += world->parts[r][k++].bytes) {
            const size_t past = r == world->ranks - 1 && k == 0 ? 4 * sizeof(float) : 0;
            right = right && memcmp(at + past, (char *)world->parts[r][k].data + past,
                                    world->parts[r][k].bytes - past) == 0;
        }
    }
    return report(right, "an infinity on one rank: all skip, and halve the loss scale");
}

// `whole` has the ranks' own parts in order, then the shared part.
static bool same_gradients(const struct world *world, const struct task *tasks,
                           const struct outcome *whole)
{
    const unsigned char *own = whole->gradients, *shared = own;
    bool right = true;
    for (int r = 0; r < world->ranks; r++)
        shared += rank_bytes(world->parts[r]) - world->parts[r][OWN_PARTS].bytes;
    for (int r = 0; r < world->ranks; r++) {
        const unsigned char *at = tasks[r].outcomes[DIRECT].gradients;
        const size_t shared_bytes = world->parts[r][OWN_PARTS].bytes;
        const size_t own_bytes = rank_bytes(world->parts[r]) - shared_bytes;
        right = right && memcmp(at, own, own_bytes) == 0 &&
                memcmp(at + own_bytes, shared, shared_bytes) == 0;
        own += own_bytes;
    }
    return right;
}

bool one_agrees(const struct world *world, const struct task *tasks)
{
    struct part parts[MAX_RANKS * OWN_PARTS + 1];
    size_t count = 0, bytes = 0;
    for (int r = 0; r < world->ranks; r++)
        for (int k = 0; k < OWN_PARTS; k++)
            parts[count++] = world->parts[r][k];
    parts[count] = world->parts[0][OWN_PARTS];
    parts[count++].weight = 1;
    for (size_t k = 0; k < count; k++)
        bytes += parts[k].bytes;

    struct rank one = { 0 };
    const struct outcome *ranks = &tasks[0].outcomes[DIRECT];
    struct outcome own = { .gradients = malloc(bytes) }, given = { .gradients = malloc(bytes) };
    bool right = own.gradients && given.gradients && rank_open(&one, 0, parts, count) &&
                 rank_reset(&one) && rank_clip(&one) && rank_read(&one, &own) && rank_reset(&one) &&
                 rank_clip_by_sum(&one, ranks->sum) && rank_read(&one, &given);
    if (!right) {
        fprintf(stderr, "sharded_clip: one GPU: %s\n", ptx_error_message());
    } else {
        printf("sum: %.17g on %d, %.17g on one; norm %.9g and %.9g\n", ranks->sum, world->ranks,
               own.sum, (double)ranks->record.norm, (double)own.record.norm);
        right =
            report(fabs(own.sum - ranks->sum) <= 1e-14 * own.sum &&
                       norm_right(world, ranks->record.norm) && norm_right(world, own.record.norm),
                   "the norm is within 2 ulp of the exact one, of the ranks and of one GPU");
        right &=
            report(same(ranks, &given) && same_gradients(world, tasks, &given),
                   "one GPU comes to the same from the ranks' sum, every bit of the gradients");
        printf("      from its own sum, added up in another order: %s\n",
               memcmp(&own.record, &ranks->record, sizeof own.record) == 0 &&
                       same_gradients(world, tasks, &own)
                   ? "the same bits too"
                   : "other last bits");
    }
    rank_close(&one);
    free(own.gradients);
    free(given.gradients);
    return right;
}
