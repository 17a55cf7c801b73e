// SPDX-License-Identifier: MIT
// Every instruction in every type that it allows, compared with ptxas: accepted at its floor and at
// the newest target, refused below the floor.
#include "op_batch.h"
#include "ptxas_batch.h"
#include "skip.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TARGETS = 40 };

struct known {
    struct op_case c;
    unsigned floor; // index in the known targets
    int isa;        // least ISA there
    char *body;     // its text there
};

struct target {
    struct ptx_target target;
    char name[PTX_TARGET_NAME_SIZE];
    int isa;
    bool plain;
    bool assembles; // this ptxas knows the target
};

static struct target targets[MAX_TARGETS];
static unsigned target_count;
static struct known *cases;
static size_t case_count, case_capacity;

static bool names_a_target(const char *error)
{
    return strstr(error, "needs sm_") != NULL;
}

static void keep(const struct op_case *c, unsigned floor, int isa, char *body)
{
    if (case_count == case_capacity) {
        case_capacity = case_capacity ? 2 * case_capacity : 1024;
        cases = realloc(cases, case_capacity * sizeof *cases);
    }
    cases[case_count++] = (struct known) { *c, floor, isa, body };
}

// Finds the floor: asks the builder from the lowest target up. Each refusal must name the target
// that the case needs and the actual target.
static void find_floor(void *user, const struct op_case *c)
{
    bool failed = true;
    int isa = 0;

    (void)user;
    for (unsigned t = 0; t < target_count; t++) {
        if (!targets[t].plain)
            continue;
        char *text = op_case_text(c, targets[t].target, 0, &isa, &failed);
        if (!failed) {
            keep(c, t, isa, op_case_body(text));
            free(text);
            return;
        }
        const bool too_old = names_a_target(text);
        if (!strstr(text, "k: ptx_") || (too_old && !strstr(text, targets[t].name)))
            fail_msg("the error does not name the call and the target %s: %s", targets[t].name,
                     text);
        free(text);
        if (!too_old)
            return; // not on any target
    }
}

static int setup(void **state)
{
    (void)state;
    for (; ptx_target_at(target_count, &targets[target_count].target, &targets[target_count].isa);
         target_count++) {
        struct target *t = &targets[target_count];
        ptx_target_name(t->target, t->name);
        t->plain = !t->target.suffix;
    }
    op_cases(find_floor, NULL);
    op_literal_cases(find_floor, NULL);
    if (!ptxas_find())
        return 0;
    for (unsigned t = 0; t < target_count; t++)
        targets[t].assembles = ptxas_knows(targets[t].name);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t k = 0; k < case_count; k++)
        free(cases[k].body);
    free(cases);
    return 0;
}

static int higher(int x, int y)
{
    return x > y ? x : y;
}

static void expect_floor(const struct known *k, const struct ptx_op_form *form)
{
    while (!(form->types >> k->c.type & 1))
        form++;
    assert_int_equal(targets[k->floor].target.sm, form->sm);
    assert_int_equal(k->isa, higher(form->isa, targets[k->floor].isa));
}

TEST(every_row_is_reached_at_its_floor)
{
    bool seen[PTX_OP_COUNT] = { false };
    uint32_t atomic_types[PTX_ATOMIC_COUNT] = { 0 };
    unsigned registers = 0, math = 0, tiles = 0;
    uint32_t products = 0; // types of the factors

    for (size_t k = 0; k < case_count; k++) {
        const struct op_case *c = &cases[k].c;
        if (c->kind == CASE_OP) {
            expect_floor(&cases[k], ptx_op_get_info((ptx_opcode)c->what)->forms);
            seen[c->what] = true;
        } else if (c->kind == CASE_ATOMIC && c->scope != PTX_SCOPE_CLUSTER) {
            expect_floor(&cases[k], ptx_atomic_get_info((ptx_atomic_op)c->what)->forms);
            atomic_types[c->what] |= UINT32_C(1) << c->type;
        }
        registers += c->kind == CASE_SPECIAL && !c->literal;
        math += c->kind == CASE_MATH && !c->literal;
        tiles += c->kind == CASE_TILES && !c->literal;
        if (c->kind == CASE_PRODUCT)
            products |= UINT32_C(1) << c->type;
    }
    for (unsigned op = 1; op < PTX_OP_COUNT; op++)
        if (ptx_op_get_info((ptx_opcode)op)->shape && !seen[op])
            fail_msg("no case of ptx_%s was accepted", ptx_op_get_info((ptx_opcode)op)->name);
    for (unsigned op = 0; op < PTX_ATOMIC_COUNT; op++) {
        const struct ptx_op_info *info = ptx_atomic_get_info((ptx_atomic_op)op);
        uint32_t types = 0;
        for (size_t f = 0; f < info->form_count; f++)
            types |= info->forms[f].types;
        assert_int_equal(atomic_types[op], types);
    }
#define ONE(...) +1
    assert_int_equal(registers, 3 * (PTX_SPECIAL_VECTORS(ONE)) + PTX_SPECIAL_SCALARS(ONE));
    assert_int_equal(math, PTX_MATH_UNARY(ONE) + (PTX_MATH_BINARY(ONE)));
    assert_int_equal(tiles, 12); // 1, 2 or 4; loads and stores; .trans
    assert_int_equal(products, PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16) | PTX_TYPE_BIT(TF32) |
                                   PTX_TYPE_BIT(S8) | PTX_TYPE_BIT(U8) | PTX_TYPE_BIT(E4M3X2) |
                                   PTX_TYPE_BIT(E5M2X2) | PTX_TYPE_BIT(F64));
#undef ONE
    print_message("%zu instructions\n", case_count);
}

static int older_isa(int isa)
{
    return isa == 90 ? 88 : isa == 80 ? 78 : isa == 70 ? 65 : isa - 1;
}

// The target at which to write `k` for one ISA less than its own; -1 if every target needs that ISA
// itself.
static int target_below_isa(const struct known *k)
{
    const int isa = older_isa(k->isa);

    for (unsigned t = k->floor; t < target_count; t++)
        if (targets[t].plain && targets[t].isa <= isa)
            return (int)t;
    return -1;
}

TEST(the_builder_refuses_an_older_isa)
{
    size_t refused = 0;

    for (size_t k = 0; k < case_count; k++) {
        const int t = target_below_isa(&cases[k]);
        const int isa = older_isa(cases[k].isa);
        char wanted[64], got[64];
        bool failed;

        if (cases[k].isa == targets[cases[k].floor].isa || t < 0)
            continue;
        char *text = op_case_text(&cases[k].c, targets[t].target, isa, NULL, &failed);
        snprintf(wanted, sizeof wanted, "needs PTX ISA %d.%d", cases[k].isa / 10,
                 cases[k].isa % 10);
        snprintf(got, sizeof got, "pinned to %d.%d", isa / 10, isa % 10);
        if (!failed || !strstr(text, wanted) || !strstr(text, got))
            fail_msg("%s at ISA %d, wanted \"%s\": %s", cases[k].body, isa, wanted, text);
        free(text);
        refused++;
    }
    assert_true(refused > 0);
}

// ---- with ptxas ---------------------------------------------------------------------------------

static unsigned assembling_from(unsigned t)
{
    while (t < target_count && !(targets[t].assembles && targets[t].plain))
        t++;
    return t;
}

// Counts the chosen cases, written for target `from`, that ptxas refuses at `target`. If `below` is
// not NULL, `target` is below a floor: counts those that ptxas accepts; `below` is its name.
static unsigned hold_batch(unsigned from, unsigned target, int isa, const bool *chosen,
                           const char *below)
{
    const char *at = targets[target].name;
    struct op_batch batch;
    unsigned unplaced = 0, wrong = 0;

    op_batch_begin(&batch, targets[from].target);
    for (size_t k = 0; k < case_count; k++)
        if (chosen[k])
            op_batch_add(&batch, &cases[k].c, k);
    bool *refused = op_batch_refused(&batch, isa, at, case_count, &unplaced);
    for (size_t k = 0; k < case_count; k++)
        if (chosen[k] && refused[k] == !below && wrong++ < 40)
            print_message("ptxas %s at %s, ISA %d.%d%s%s:%s\n", below ? "takes" : "refuses", at,
                          isa / 10, isa % 10, below ? ", below the floor of the " : "",
                          below ? below : "", cases[k].body);
    free(refused);
    return below ? wrong : wrong + unplaced;
}

static void need_ptxas(void)
{
    if (!ptxas_find())
        skip_because("no ptxas: instructions are not assembled");
}

// The ISA that `k` needs at target `t`; 0 if the text is the same as at a lower target. Only
// conversions have several texts.
static int isa_at(struct known *k, unsigned t)
{
    const bool conversion = k->c.kind == CASE_CVT || k->c.kind == CASE_CVT_PACK;
    bool failed;
    int isa;

    if (k->floor == t)
        return k->isa;
    if (k->floor > t || !conversion)
        return 0;
    char *text = op_case_text(&k->c, targets[t].target, 0, &isa, &failed);
    assert_false(failed);
    char *body = op_case_body(text);
    const bool same = strcmp(body, k->body) == 0;
    free(k->body);
    k->body = body;
    free(text);
    return same ? 0 : isa;
}

// At each target at which the builder writes another text than at the one before, with the ISA that
// the builder gives for it.
TEST(ptxas_accepts_the_floor)
{
    static const int steps[] = { 70, 75, 80, 90, 100 };
    unsigned wrong = 0;

    need_ptxas();
    bool *chosen = calloc(case_count, sizeof *chosen);
    int *isas = calloc(case_count, sizeof *isas);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        unsigned t = 0;
        while (targets[t].target.sm != steps[s])
            t++;
        const unsigned with = assembling_from(t);
        assert_true(with < target_count);
        for (size_t k = 0; k < case_count; k++) {
            isas[k] = isa_at(&cases[k], t);
            if (isas[k] && isas[k] < targets[with].isa)
                isas[k] = targets[with].isa;
        }
        for (int isa = 60; isa <= 90; isa++) {
            size_t count = 0;
            for (size_t k = 0; k < case_count; k++)
                count += chosen[k] = isas[k] == isa;
            if (count)
                wrong += hold_batch(with, with, isa, chosen, NULL);
        }
    }
    free(chosen);
    free(isas);
    assert_int_equal(wrong, 0);
}

// All cases at every target that this ptxas knows, and at the newest with its suffixes.
TEST(ptxas_accepts_every_target)
{
    unsigned wrong = 0, count = 0;

    need_ptxas();
    bool *chosen = calloc(case_count, sizeof *chosen);
    for (unsigned t = 0; t < target_count; t++) {
        int isa = targets[t].isa;
        if (!targets[t].assembles ||
            (!targets[t].plain && targets[t].target.sm != targets[target_count - 1].target.sm))
            continue;
        for (size_t k = 0; k < case_count; k++) {
            chosen[k] = targets[cases[k].floor].target.sm <= targets[t].target.sm;
            isa = chosen[k] && cases[k].isa > isa ? cases[k].isa : isa;
        }
        wrong += hold_batch(t, t, isa, chosen, NULL);
        count++;
    }
    free(chosen);
    print_message("%u targets\n", count);
    assert_true(count > 0);
    assert_int_equal(wrong, 0);
}

TEST(ptxas_refuses_an_older_target)
{
    unsigned wrong = 0;

    need_ptxas();
    bool *chosen = calloc(case_count, sizeof *chosen);
    for (unsigned t = 1; t < target_count; t++) {
        unsigned below = t - 1;
        while (below > 0 && !targets[below].plain)
            below--;
        if (!targets[t].plain || !targets[below].plain || !targets[below].assembles)
            continue;
        for (int isa = 60; isa <= 90; isa++) {
            size_t count = 0;
            for (size_t k = 0; k < case_count; k++)
                count += chosen[k] = cases[k].floor == t && cases[k].isa == isa;
            const int with = isa > targets[below].isa ? isa : targets[below].isa;
            if (count)
                wrong += hold_batch(t, below, with, chosen, "target");
        }
    }
    free(chosen);
    assert_int_equal(wrong, 0);
}

TEST(ptxas_refuses_an_older_isa)
{
    unsigned wrong = 0;

    need_ptxas();
    bool *chosen = calloc(case_count, sizeof *chosen);
    for (unsigned t = 0; t < target_count; t++)
        for (int isa = 60; isa <= 90; isa++) {
            size_t count = 0;
            for (size_t k = 0; k < case_count; k++) {
                chosen[k] = older_isa(cases[k].isa) == isa &&
                            cases[k].isa != targets[cases[k].floor].isa &&
                            assembling_from(cases[k].floor) == t && targets[t].isa <= isa;
                count += chosen[k];
            }
            if (count)
                wrong += hold_batch(t, t, isa, chosen, "ISA");
        }
    free(chosen);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const int failed = tests_run(setup, teardown);

    return ptxas_status(failed);
}
