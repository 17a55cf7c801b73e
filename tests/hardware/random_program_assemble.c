// SPDX-License-Identifier: MIT
#include "random_program_assemble.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "differential"
#include "die.h"
#include "ptxas_batch.h"
#include "random_program.h"

enum { BATCH = 25, TARGETS = 40, SHOWN = 10 };

struct target {
    struct ptx_target target;
    char name[PTX_TARGET_NAME_SIZE];
    unsigned programs, rows, lacking; // rows: calls of program_rows, and those that it lacks
};

static unsigned find_targets(struct target targets[TARGETS])
{
    unsigned count = 0;
    struct ptx_target target;

    for (size_t k = 0; count < TARGETS && ptx_target_at(k, &target, NULL); k++) {
        struct target *t = &targets[count];
        if (ptxas_knows(ptx_target_name(target, t->name)))
            targets[count++].target = target;
    }
    return count;
}

// Adds a program that fits the target; false if the builder refuses it.
static bool add_program(ptx_builder *b, struct program *p, struct target *t, uint64_t seed)
{
    char name[32], error[400];

    program_plan(p, seed);
    if (!program_fit(p, t->target, error, sizeof error)) {
        printf("program %" PRIu64 ", %s: the builder refuses it: %s\n", seed, t->name, error);
        return false;
    }
    for (unsigned k = 0; k < p->count; k++) {
        t->rows += p->node[k].kind == NODE_ROW;
        t->lacking += p->node[k].kind == NODE_ROW && p->lacking[k];
    }
    t->programs++;
    snprintf(name, sizeof name, "program_%" PRIu64, seed);
    program_emit(b, p, name);
    return true;
}

static ptx_builder *builder(const struct target *t)
{
    return ptx_builder_create(&(struct ptx_builder_params) { .target = t->target });
}

// The number of programs that ptxas refuses, from a module that it refuses.
static unsigned find_refused(struct program *p, struct target *t, uint64_t first, unsigned count)
{
    unsigned refused = 0;

    for (unsigned k = 0; k < count; k++) {
        ptx_builder *b = builder(t);
        if (add_program(b, p, t, first + k)) {
            struct ptxas_report report = ptxas_run(ptx_builder_finish(b), t->name);
            if (!report.accepted)
                printf("program %" PRIu64 ", %s, line %d: %s\n", first + k, t->name,
                       report.count ? report.errors[0].line : 0,
                       report.count ? report.errors[0].text : "no message");
            refused += !report.accepted;
            ptxas_report_free(&report);
        }
        ptx_builder_destroy(&b);
    }
    return refused;
}

static unsigned assemble_batch(struct program *p, struct target *t, uint64_t first, unsigned count)
{
    ptx_builder *b = builder(t);
    unsigned wrong = 0;

    for (unsigned k = 0; k < count; k++)
        wrong += !add_program(b, p, t, first + k);
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    struct ptxas_report report = ptxas_run(text, t->name);
    if (!report.accepted) {
        const unsigned refused = find_refused(p, t, first, count);
        wrong += refused ? refused : 1; // or the module alone
    }
    ptxas_report_free(&report);
    ptx_builder_destroy(&b);
    return wrong;
}

int program_assemble(uint64_t seed, unsigned count)
{
    static struct target targets[TARGETS];
    struct program *p = calloc(1, sizeof *p);
    const unsigned known = ptxas_find() ? find_targets(targets) : 0;
    unsigned wrong = 0, rows = 0, lacking = 0;

    if (!p)
        die("memory", "a program");
    if (!known) {
        free(p);
        return skipped("no ptxas that knows a target of the builder", "");
    }
    // Each target gets an equal part, the first ones one program more.
    for (unsigned k = 0; k < known; k++) {
        const unsigned share = count / known + (k < count % known);
        for (unsigned done = 0; done < share; done += BATCH)
            wrong += assemble_batch(p, &targets[k], seed + done,
                                    share - done < BATCH ? share - done : BATCH);
        seed += share;
        rows += targets[k].rows;
        lacking += targets[k].lacking;
    }
    printf("%u programs for %u targets, %s to %s: %u refused; %u of %u new calls are beyond their "
           "target\n",
           count, known, targets[0].name, targets[known - 1].name, wrong, lacking, rows);
    free(p);
    return wrong ? 1 : 0;
}
