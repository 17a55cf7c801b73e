// SPDX-License-Identifier: MIT
// What the rules share: their table, powers of beta, and the kernel code that computes a clock's
// coefficients.
#include "own_rule.h"

#include <string.h>

#define PTXK_DECLARE(enumerator, file) extern const struct ptxk_step_rule ptxk_step_##file;
PTXK_STEP_RULES(PTXK_DECLARE)
#undef PTXK_DECLARE

const struct ptxk_step_rule *ptxk_step_rule_of(ptx_step_rule rule)
{
    static const struct ptxk_step_rule *const rules[] = {
#define PTXK_RULE(enumerator, file) [PTX_STEP_RULE_##enumerator] = &ptxk_step_##file,
        PTXK_STEP_RULES(PTXK_RULE)
#undef PTXK_RULE
    };

    return rules[rule];
}

const struct ptxk_step_scalar *ptxk_step_scalar_at(uint32_t place)
{
    for (unsigned r = 0; r < PTX_STEP_RULE_COUNT; r++) {
        const struct ptxk_step_rule *rule = ptxk_step_rule_of((ptx_step_rule)r);
        for (unsigned k = 0; k < rule->scalars; k++)
            if (rule->scalar[k].place == place)
                return &rule->scalar[k];
    }
    return NULL;
}

const struct ptxk_step_scalar ptxk_step_ema_decay = { "ema_decay", S_EMA_DECAY,
                                                      PTX_RULE_RANGE_UP_TO_1, 0.999 };

unsigned ptxk_step_rule_states(const struct ptxk_step_variant *v)
{
    const struct ptxk_step_rule *rule = v->rule;
    unsigned states = 0;

    for (unsigned k = 0; k < rule->states; k++)
        states += (rule->state[k].option & ~v->options) == 0;
    return states;
}

unsigned ptxk_step_states(const struct ptxk_step_variant *v)
{
    return ptxk_step_rule_states(v) + (v->ema != PTX_NONE);
}

const struct ptxk_step_state *ptxk_step_state_of(const struct ptxk_step_variant *v, unsigned k)
{
    static const struct ptxk_step_state in_f32 = { PTX_RULE_WEIGHT, .type = PTX_F32 };
    static const struct ptxk_step_state in_bf16 = { PTX_RULE_WEIGHT, .type = PTX_BF16,
                                                    .stochastic = true };

    if (k < ptxk_step_rule_states(v))
        return &v->rule->state[k];
    return v->ema == PTX_BF16 ? &in_bf16 : &in_f32;
}

unsigned ptxk_step_format_states(const struct ptxk_step_variant *v)
{
    const struct ptxk_step_rule *rule = v->rule;
    unsigned states = ptxk_step_rule_states(v);

    while (states && rule->state[states - 1].type != PTX_NONE)
        states--;
    return states;
}

uint32_t ptxk_step_rule_places(const struct ptxk_step_rule *rule)
{
    uint32_t places = PTXK_STEP_PLACE(more);

    for (unsigned k = 0; k < rule->scalars; k++)
        if (rule->scalar[k].place >= places)
            places = rule->scalar[k].place + 1;
    return places;
}

bool ptxk_step_has_coefficient(const struct ptxk_step_rule *rule, uint32_t k)
{
    const struct ptxk_own_rule *own = rule->own;

    return own ? own->coefficients >> k & 1 || k - own->first_reciprocal < own->reciprocals ||
                     k == own->first_at
               : k < rule->coefficients;
}

static int enumerator(const struct ptxk_step_rule *rule)
{
    int r = 0;

    while (r < PTX_STEP_RULE_COUNT && ptxk_step_rule_of((ptx_step_rule)r) != rule)
        r++;
    return r;
}

int ptxk_step_rule_compare(const struct ptxk_step_rule *x, const struct ptxk_step_rule *y)
{
    if (!x->own || !y->own)
        return enumerator(x) - enumerator(y);
    const int by_name = strcmp(x->name, y->name);
    const struct ptxk_own_rule *a = x->own, *c = y->own;

    if (by_name)
        return by_name;
    if (a->params.version != c->params.version)
        return a->params.version < c->params.version ? -1 : 1;
    return (a->serial > c->serial) - (a->serial < c->serial);
}

uint32_t ptxk_step_rule_number(const struct ptxk_step_rules *rules,
                               const struct ptxk_step_rule *rule)
{
    uint32_t number = PTX_STEP_RULE_COUNT;

    if (!rule->own)
        return (uint32_t)enumerator(rule);
    for (unsigned k = 0; rules->rule[k] != rule; k++)
        number += rules->rule[k]->own != NULL;
    return number;
}

int ptxk_step_variant_compare(const struct ptxk_step_variant *x, const struct ptxk_step_variant *y)
{
    const int order[][2] = {
        { ptxk_step_rule_compare(x->rule, y->rule), 0 },
        { (int)x->format, (int)y->format },
        { (int)x->parameter, (int)y->parameter },
        { (int)x->gradient, (int)y->gradient },
        { (int)x->options, (int)y->options },
        { (int)x->ema, (int)y->ema },
        { (int)x->copy, (int)y->copy },
        { x->qk_clip, y->qk_clip },
        { x->square, y->square },
    };

    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        if (order[k][0] != order[k][1])
            return order[k][0] < order[k][1] ? -1 : 1;
    return 0;
}

ptx_val ptxk_step_power(ptx_builder *b, ptx_val base, ptx_val t)
{
    ptx_val power = ptx_var(b, ptx_f64(1));
    ptx_val bit = ptx_var(b, ptx_shl(b, ptx_u32(1), ptx_bfind(b, t)));

    ptx_while (b, ptx_ne(b, bit, 0)) {
        ptx_set(b, power, ptx_mul(b, power, power));
        ptx_val set = ptx_ne(b, ptx_and(b, t, bit), 0);
        ptx_if (b, set)
            ptx_set(b, power, ptx_mul(b, power, base));
        ptx_set(b, bit, ptx_shr(b, bit, 1));
    }
    return power;
}

ptx_val ptxk_step_complement(ptx_builder *b, ptx_val beta, ptx_val t)
{
    ptx_comment(b, "1 - beta^t, by squares");
    return ptx_sub(b, 1, ptxk_step_power(b, ptx_cvt(b, PTX_F64, beta), t));
}

// Word offsets in a clock's row.
#define CLOCK(member) (uint32_t)(offsetof(struct step_clock_row, member) / sizeof(uint64_t))
enum { CLOCK_WORDS = sizeof(struct step_clock_row) / sizeof(uint64_t) };

// Reads the scalars of all rules, before the clock's own rule is looked at.
static void scalars_read(ptx_builder *b, ptx_ptr hyper, ptx_val lr_at, ptx_val *s)
{
    for (uint32_t k = 0; k < PTXK_STEP_PLACE(more); k++) {
        if (!ptxk_step_scalar_at(k))
            continue;
        s[k] = ptx_cvt(b, PTX_F32, ptx_load(b, hyper, k));
        if (k != S_LR)
            continue;
        s[k] = ptx_var(b, s[k]);
        ptx_if (b, ptx_ne(b, lr_at, 0)) {
            ptx_ptr own = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, lr_at);
            ptx_set(b, s[k], ptx_load(b, own, 0));
        }
    }
}

enum { IN_A_SECTOR = 8 }; // f32

static bool have_clock_states(const struct ptxk_step_rules *rules)
{
    for (unsigned r = 0; r < rules->count; r++)
        if (rules->rule[r]->clock_states)
            return true;
    return false;
}

// The word behind those that every row has, and the states of clocks.
static uint32_t first_of_more(const struct ptxk_step_rules *rules)
{
    return (have_clock_states(rules) ? offsetof(struct step_coefficients, more)
                                     : offsetof(struct step_coefficients, clock_state)) /
           sizeof(float);
}

uint32_t ptxk_step_coefficients_words(const struct ptxk_step_rules *rules)
{
    uint32_t most = PTXK_STEP_FIRST_COEFFICIENTS;

    for (unsigned r = 0; r < rules->count; r++)
        if (rules->rule[r]->coefficients > most)
            most = rules->rule[r]->coefficients;
    const uint32_t more = most - PTXK_STEP_FIRST_COEFFICIENTS;
    return first_of_more(rules) + (more + IN_A_SECTOR - 1) / IN_A_SECTOR * IN_A_SECTOR;
}

uint32_t ptxk_step_coefficient_at(const struct ptxk_step_rules *rules, uint32_t k)
{
    return k < PTXK_STEP_FIRST_COEFFICIENTS
               ? k
               : first_of_more(rules) + k - PTXK_STEP_FIRST_COEFFICIENTS;
}

const char *ptxk_step_coefficients_meaning(const struct ptxk_step_rules *rules)
{
    static const char *const meanings[] = {
        "rows of 16, one a clock", "rows of 24, one a clock", "rows of 32, one a clock",
        "rows of 40, one a clock", "rows of 48, one a clock",
    };

    return meanings[ptxk_step_coefficients_words(rules) / IN_A_SECTOR - 2];
}

// Stores words of a row. Four aligned words are one store if any of them is set: rows lie apart, so
// each store of a warp is a transaction a row, and the next launch waits for all of them.
static void words_store(ptx_builder *b, ptx_ptr row, uint32_t first, const ptx_val *word,
                        uint32_t count)
{
    for (uint32_t k = 0; k < count; k += 4) {
        ptx_val lane[4];
        uint32_t end = 0;
        for (uint32_t n = 0; n < 4; n++) {
            const bool is = k + n < count && word[k + n].type != PTX_NONE;
            lane[n] = is ? word[k + n] : ptx_zero(PTX_F32);
            end = is ? n + 1 : end;
        }
        if (end > 2)
            ptx_store_vec(b, row, first + k, ptx_vec4(lane[0], lane[1], lane[2], lane[3]));
        else if (end == 2)
            ptx_store_vec(b, row, first + k, ptx_vec2(lane[0], lane[1]));
        else if (end)
            ptx_store(b, row, first + k, lane[0]);
    }
}

// Those of a rule, which are behind the first ones, too.
static void coefficients_store(ptx_builder *b, const struct ptxk_step_rules *rules,
                               const struct ptxk_step_rule *rule, const ptx_val *c, ptx_ptr row)
{
    const uint32_t most = PTXK_STEP_FIRST_COEFFICIENTS;
    ptx_val set[PTX_RULE_MAX_COEFFICIENTS] = { { 0 } };

    for (uint32_t k = 0; k < rule->coefficients; k++)
        if (ptxk_step_has_coefficient(rule, k))
            set[k] = c[k];
    words_store(b, row, 0, set, most);
    words_store(b, row, ptxk_step_coefficient_at(rules, most), set + most,
                PTX_RULE_MAX_COEFFICIENTS - most);
}

// `step`: the address of the clock's count.
static void once(ptx_builder *b, const struct ptxk_step_rules *rules,
                 const struct ptxk_step_rule *rule, const struct ptxk_step_clock *clock,
                 ptx_val step, ptx_ptr row)
{
    struct ptxk_step_clock own = *clock;

    own.rule = rule;
    ptx_val c[PTX_RULE_MAX_COEFFICIENTS] = { { 0 } };

    for (uint32_t k = 0; k < rule->clock_states; k++) {
        ptx_ptr count = ptx_ptr_from(b, PTX_F64, PTX_SPACE_GLOBAL, step);
        own.state[k] = ptx_load(b, count, PTXK_STEP_CLOCK_STATE_AT + k);
    }
    rule->once(b, &own, c);
    coefficients_store(b, rules, rule, c, row);
    for (uint32_t k = 0; k < rule->clock_states; k++)
        ptx_store(b, ptx_ptr_cast(b, PTX_F64, row), PTXK_STEP_CLOCK_STATE + k, own.state[k]);
}

struct ptxk_step_clocks ptxk_step_clocks_param(ptx_builder *b, const struct ptxk_step_rules *rules)
{
    struct ptxk_step_clocks c;

    c.rows = ptx_param_ptr(b, PTX_U64, "clocks", .readonly = true,
                           .meaning = "rows of 4: addresses of count, scalars, lr; rule");
    c.coefficients = ptx_param_ptr(b, PTX_F32, "coefficients", .writeonly = true,
                                   .meaning = ptxk_step_coefficients_meaning(rules));
    c.count = ptx_param(b, PTX_U32, "clock_count");
    c.blocks = ptx_param(b, PTX_U32, "clock_blocks", .meaning = "blocks that derive");
    return c;
}

// `rate`: { 0 } for none.
static void count_store(ptx_builder *b, ptx_ptr row, ptx_val count, ptx_val t, ptx_val rate)
{
    const ptx_val word[] = { count, ptx_bitcast(b, PTX_F32, t), rate };

    _Static_assert(PTXK_STEP_T == PTXK_STEP_COUNT + 1 && PTXK_STEP_EMA_RATE == PTXK_STEP_T + 1 &&
                       PTXK_STEP_COUNT % 4 == 0,
                   "side by side");
    words_store(b, row, PTXK_STEP_COUNT, word, sizeof word / sizeof *word);
}

void ptxk_step_derive(ptx_builder *b, const struct ptxk_step_rules *rules, bool ema,
                      const struct ptxk_step_clocks *clocks, ptx_val k)
{
    ptx_ptr clock = ptx_at(b, clocks->rows, ptx_mul_wide(b, k, CLOCK_WORDS));
    ptx_val at_row = ptx_mul_wide(b, k, ptxk_step_coefficients_words(rules));
    ptx_ptr row = ptx_at(b, clocks->coefficients, at_row);
    ptx_vec at = ptx_load_vec(b, clock, CLOCK(step), 2);
    ptx_vec lr_rule = ptx_load_vec(b, clock, CLOCK(lr), 2);
    ptx_ptr step = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, at.lane[0]);
    ptx_ptr hyper = ptx_ptr_from(b, PTX_F64, PTX_SPACE_GLOBAL, at.lane[1]);
    struct ptxk_step_clock own = { .hyper = hyper, .lr_at = lr_rule.lane[0] };
    if (!rules->rule[0]->own) // the library's come first
        scalars_read(b, hyper, lr_rule.lane[0], own.scalar);
    ptx_val rule = ptx_cvt(b, PTX_U32, lr_rule.lane[1]);

    ptx_comment(b, "the count of this step");
    ptx_val count = ptx_add(b, ptx_load(b, step, 0), 1);
    own.t = ptx_cvt(b, PTX_U32, count);
    ptx_val rate = { 0 };
    if (ema) {
        ptx_comment(b, "the rate at which averages follow the weights");
        rate = ptx_cvt(b, PTX_F32, ptx_sub(b, 1, ptx_load(b, hyper, S_EMA_DECAY)));
    }
    for (unsigned r = 0; r < rules->count; r++) {
        const struct ptxk_step_rule *of = rules->rule[r];
        if (rules->count == 1) {
            once(b, rules, of, &own, at.lane[0], row);
            continue;
        }
        ptx_comment(b, "%s", of->name);
        ptx_if (b, ptx_eq(b, rule, ptxk_step_rule_number(rules, of)))
            once(b, rules, of, &own, at.lane[0], row);
    }
    count_store(b, row, count, own.t, rate); // behind loads, which ptxas moves above no store
}
