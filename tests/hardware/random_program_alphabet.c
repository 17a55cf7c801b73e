// SPDX-License-Identifier: MIT
// The instructions that random programs are made of, by name. The lists are frozen: a program
// depends only on its seed, so the results recorded on a GPU stay valid. Do not add new
// instructions, types or modifiers here. They need a generator of their own, with its own seeds.
#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the alphabet -------------------------------------------------------------------------------

// Lists of modifiers, "-" for none.
#define PLAIN      "-"
#define FTZ        "- .ftz"
#define SAT        "- .sat"
#define FTZ_SAT    "- .ftz .sat .ftz.sat"
#define ROUNDS     "- .rn .rz .rm .rp"
#define ROUNDS_SAT ROUNDS " .sat .rn.sat .rz.sat .rm.sat .rp.sat"
#define ROUNDS_FTZ ROUNDS " .ftz .rn.ftz .rz.ftz .rm.ftz .rp.ftz"
#define ROUNDS_FTZ_SAT                                                                             \
    ROUNDS_FTZ " .sat .rn.sat .rz.sat .rm.sat .rp.sat"                                             \
               " .ftz.sat .rn.ftz.sat .rz.ftz.sat .rm.ftz.sat .rp.ftz.sat"

#define INTEGERS     "u16 u32 u64 s16 s32 s64"
#define ALL_INTEGERS "u8 u16 u32 u64 s8 s16 s32 s64"

// A name and its types share the modifiers. Each pair of a name and a type is a group, and all
// groups are equally likely. So an instruction with many modifiers is not more likely.
struct letters {
    const char *name, *types, *modifiers;
};

// clang-format off
static const struct letters ops[] = {
    { "neg", "s16 s32 s64", PLAIN },
    { "neg", "f32", FTZ },
    { "neg", "f64", PLAIN },
    { "neg", "f16 f16x2", FTZ },
    { "neg", "bf16 bf16x2", PLAIN },
    { "abs", "s16 s32 s64", PLAIN },
    { "abs", "f32", FTZ },
    { "abs", "f64", PLAIN },
    { "abs", "f16 f16x2", FTZ },
    { "abs", "bf16 bf16x2", PLAIN },
    { "not", INTEGERS " b16 b32 b64 pred", PLAIN },
    { "popc", "u32 u64 s32 s64 b32 b64", PLAIN },
    { "clz", "u32 u64 s32 s64 b32 b64", PLAIN },
    { "bfind", "u32 u64 s32 s64", PLAIN },
    { "brev", "u32 u64 s32 s64 b32 b64", PLAIN },
    { "sqrt", "f32", ROUNDS_FTZ },
    { "sqrt", "f64", ROUNDS },
    { "rcp", "f32", ROUNDS_FTZ },
    { "rcp", "f64", ROUNDS },
    { "rint", "f32", FTZ_SAT },
    { "rint", "f16 f64 bf16", PLAIN },
    { "trunc", "f32", FTZ_SAT },
    { "trunc", "f16 f64 bf16", PLAIN },
    { "floor", "f32", FTZ_SAT },
    { "floor", "f16 f64 bf16", PLAIN },
    { "ceil", "f32", FTZ_SAT },
    { "ceil", "f16 f64 bf16", PLAIN },
    { "is_finite", "f32 f64", PLAIN },
    { "is_infinite", "f32 f64", PLAIN },
    { "is_number", "f32 f64", PLAIN },
    { "is_nan", "f32 f64", PLAIN },
    { "is_normal", "f32 f64", PLAIN },
    { "is_subnormal", "f32 f64", PLAIN },
    { "add", "s32", SAT },
    { "add", INTEGERS, PLAIN },
    { "add", "f32", ROUNDS_FTZ_SAT },
    { "add", "f64", ROUNDS },
    { "add", "f16 f16x2", FTZ_SAT },
    { "add", "bf16 bf16x2", PLAIN },
    { "sub", "s32", SAT },
    { "sub", INTEGERS, PLAIN },
    { "sub", "f32", ROUNDS_FTZ_SAT },
    { "sub", "f64", ROUNDS },
    { "sub", "f16 f16x2", FTZ_SAT },
    { "sub", "bf16 bf16x2", PLAIN },
    { "mul", INTEGERS, PLAIN },
    { "mul", "f32", ROUNDS_FTZ_SAT },
    { "mul", "f64", ROUNDS },
    { "mul", "f16 f16x2", FTZ_SAT },
    { "mul", "bf16 bf16x2", PLAIN },
    { "mul_hi", INTEGERS, PLAIN },
    { "mul_wide", "u16 u32 s16 s32", PLAIN },
    { "div", INTEGERS, PLAIN },
    { "div", "f32", ROUNDS_FTZ },
    { "div", "f64", ROUNDS },
    { "rem", INTEGERS, PLAIN },
    { "min", INTEGERS, PLAIN },
    { "min", "f32", FTZ },
    { "min", "f64", PLAIN },
    { "min", "f16 f16x2", FTZ },
    { "min", "bf16 bf16x2", PLAIN },
    { "max", INTEGERS, PLAIN },
    { "max", "f32", FTZ },
    { "max", "f64", PLAIN },
    { "max", "f16 f16x2", FTZ },
    { "max", "bf16 bf16x2", PLAIN },
    { "min_nan", "f32 f16 f16x2", FTZ },
    { "min_nan", "bf16 bf16x2", PLAIN },
    { "max_nan", "f32 f16 f16x2", FTZ },
    { "max_nan", "bf16 bf16x2", PLAIN },
    { "copysign", "f32 f64", PLAIN },
    { "and", INTEGERS " b16 b32 b64 pred", PLAIN },
    { "or", INTEGERS " b16 b32 b64 pred", PLAIN },
    { "xor", INTEGERS " b16 b32 b64 pred", PLAIN },
    { "shl", INTEGERS " b16 b32 b64", PLAIN },
    { "shr", INTEGERS " b16 b32 b64", PLAIN },
    { "eq", INTEGERS, PLAIN },
    { "eq", "f32", FTZ },
    { "eq", "f64", PLAIN },
    { "eq", "f16", FTZ },
    { "eq", "bf16", PLAIN },
    { "ne", INTEGERS, PLAIN },
    { "ne", "f32", FTZ },
    { "ne", "f64", PLAIN },
    { "ne", "f16", FTZ },
    { "ne", "bf16", PLAIN },
    { "lt", INTEGERS, PLAIN },
    { "lt", "f32", FTZ },
    { "lt", "f64", PLAIN },
    { "lt", "f16", FTZ },
    { "lt", "bf16", PLAIN },
    { "le", INTEGERS, PLAIN },
    { "le", "f32", FTZ },
    { "le", "f64", PLAIN },
    { "le", "f16", FTZ },
    { "le", "bf16", PLAIN },
    { "gt", INTEGERS, PLAIN },
    { "gt", "f32", FTZ },
    { "gt", "f64", PLAIN },
    { "gt", "f16", FTZ },
    { "gt", "bf16", PLAIN },
    { "ge", INTEGERS, PLAIN },
    { "ge", "f32", FTZ },
    { "ge", "f64", PLAIN },
    { "ge", "f16", FTZ },
    { "ge", "bf16", PLAIN },
    { "equ", "f32", FTZ },
    { "equ", "f64", PLAIN },
    { "equ", "f16", FTZ },
    { "equ", "bf16", PLAIN },
    { "neu", "f32", FTZ },
    { "neu", "f64", PLAIN },
    { "neu", "f16", FTZ },
    { "neu", "bf16", PLAIN },
    { "ltu", "f32", FTZ },
    { "ltu", "f64", PLAIN },
    { "ltu", "f16", FTZ },
    { "ltu", "bf16", PLAIN },
    { "leu", "f32", FTZ },
    { "leu", "f64", PLAIN },
    { "leu", "f16", FTZ },
    { "leu", "bf16", PLAIN },
    { "gtu", "f32", FTZ },
    { "gtu", "f64", PLAIN },
    { "gtu", "f16", FTZ },
    { "gtu", "bf16", PLAIN },
    { "geu", "f32", FTZ },
    { "geu", "f64", PLAIN },
    { "geu", "f16", FTZ },
    { "geu", "bf16", PLAIN },
    { "ordered", "f32", FTZ },
    { "ordered", "f64", PLAIN },
    { "ordered", "f16", FTZ },
    { "ordered", "bf16", PLAIN },
    { "unordered", "f32", FTZ },
    { "unordered", "f64", PLAIN },
    { "unordered", "f16", FTZ },
    { "unordered", "bf16", PLAIN },
    { "fma", "f32", ROUNDS_FTZ_SAT },
    { "fma", "f64", ROUNDS },
    { "fma", "f16 f16x2", FTZ_SAT },
    { "fma", "bf16 bf16x2", PLAIN },
    { "mad", INTEGERS, PLAIN },
    { "mad_hi", "s32", SAT },
    { "mad_hi", INTEGERS, PLAIN },
    { "mad_wide", "u16 u32 s16 s32", PLAIN },
    { "sad", INTEGERS, PLAIN },
    { "selp", "u16 u32 u64 s16 s32 s64 b16 b32 b64 f32 f64 f16 bf16 f16x2 bf16x2", PLAIN },
    { "bfe", "u32 u64 s32 s64", PLAIN },
    { "shf_l", "u32 s32 b32", PLAIN },
    { "shf_r", "u32 s32 b32", PLAIN },
    { "prmt", "u32 s32 b32", PLAIN },
    { "dp4a", "u32 s32", PLAIN },
    { "bfi", "u32 u64 s32 s64 b32 b64", PLAIN },
    { "lop3", "u32 s32 b32", PLAIN },
};

static const struct letters approximates[] = {
    { "sqrt_approx", "f32", FTZ },
    { "rcp_approx", "f32", FTZ },
    { "rcp_approx", "f64", PLAIN },
    { "rsqrt_approx", "f32 f64", FTZ },
    { "ex2", "f32", FTZ },
    { "ex2", "f16 f16x2 bf16 bf16x2", PLAIN },
    { "lg2", "f32", FTZ },
    { "sin", "f32", FTZ },
    { "cos", "f32", FTZ },
    { "tanh", "f32 f16 f16x2 bf16 bf16x2", PLAIN },
    { "div_approx", "f32", FTZ },
    { "div_full", "f32", FTZ },
};

// To a type, from types.
#define TO_INTEGER(type) \
    { type, ALL_INTEGERS, SAT }, \
    { type, "f16", ROUNDS_SAT }, \
    { type, "bf16 f32", ROUNDS_FTZ_SAT }, \
    { type, "f64", ROUNDS_SAT }
static const struct letters conversions[] = {
    TO_INTEGER("u8"),
    TO_INTEGER("u16"),
    TO_INTEGER("u32"),
    TO_INTEGER("u64"),
    TO_INTEGER("s8"),
    TO_INTEGER("s16"),
    TO_INTEGER("s32"),
    TO_INTEGER("s64"),
    { "f16", ALL_INTEGERS, ROUNDS_SAT },
    { "f16", "f16", SAT },
    { "f16", "bf16 f32", ROUNDS_FTZ_SAT },
    { "f16", "f64", ROUNDS_SAT },
    { "bf16", "u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64", "- .rn .rz" },
    { "f32", ALL_INTEGERS, ROUNDS_FTZ_SAT },
    { "f32", "f16 bf16 f32", FTZ_SAT },
    { "f32", "f64", ROUNDS_FTZ_SAT },
    { "f64", ALL_INTEGERS, ROUNDS_SAT },
    { "f64", "f16", SAT },
    { "f64", "bf16 f32", FTZ_SAT },
    { "f64", "f64", SAT },
};

static const struct letters bitcasts[] = {
    { "u8", "u8 s8 b8", PLAIN },
    { "u16", "u16 s16 b16 f16 bf16", PLAIN },
    { "u32", "u32 s32 b32 f32 f16x2 bf16x2", PLAIN },
    { "u64", "u64 s64 b64 f64", PLAIN },
    { "s8", "u8 s8 b8", PLAIN },
    { "s16", "u16 s16 b16 f16 bf16", PLAIN },
    { "s32", "u32 s32 b32 f32 f16x2 bf16x2", PLAIN },
    { "s64", "u64 s64 b64 f64", PLAIN },
    { "b8", "u8 s8 b8", PLAIN },
    { "b16", "u16 s16 b16 f16 bf16", PLAIN },
    { "b32", "u32 s32 b32 f32 f16x2 bf16x2", PLAIN },
    { "b64", "u64 s64 b64 f64", PLAIN },
    { "f16", "u16 s16 b16 f16 bf16", PLAIN },
    { "bf16", "u16 s16 b16 f16 bf16", PLAIN },
    { "f32", "u32 s32 b32 f32 f16x2 bf16x2", PLAIN },
    { "f64", "u64 s64 b64 f64", PLAIN },
    { "f16x2", "u32 s32 b32 f32 f16x2 bf16x2", PLAIN },
    { "bf16x2", "u32 s32 b32 f32 f16x2 bf16x2", PLAIN },
};

static const struct letters packs[] = {
    { "cvt_pack", "f16x2 bf16x2", PLAIN },
};

// In generic, global and shared memory, returning the old value.
#define ATOMIC_MODIFIERS \
    "- .cta .cluster .gpu .sys" \
    " .relaxed .relaxed.cta .relaxed.cluster .relaxed.gpu .relaxed.sys" \
    " .acquire .acquire.cta .acquire.cluster .acquire.gpu .acquire.sys" \
    " .release .release.cta .release.cluster .release.gpu .release.sys" \
    " .acq_rel .acq_rel.cta .acq_rel.cluster .acq_rel.gpu .acq_rel.sys"
static const struct letters atomics[] = {
    { "add", "u32 u64 s32 f16 bf16 f32 f64 f16x2 bf16x2", ATOMIC_MODIFIERS },
    { "min", "u32 u64 s32 s64", ATOMIC_MODIFIERS },
    { "max", "u32 u64 s32 s64", ATOMIC_MODIFIERS },
    { "inc", "u32", ATOMIC_MODIFIERS },
    { "dec", "u32", ATOMIC_MODIFIERS },
    { "and", "u32 u64 s32 s64 b32 b64", ATOMIC_MODIFIERS },
    { "or", "u32 u64 s32 s64 b32 b64", ATOMIC_MODIFIERS },
    { "xor", "u32 u64 s32 s64 b32 b64", ATOMIC_MODIFIERS },
    { "exch", "u32 u64 s32 s64 b32 b64", ATOMIC_MODIFIERS },
    { "cas", "u16 u32 u64 s16 s32 s64 b16 b32 b64", ATOMIC_MODIFIERS },
};

static const struct letters fences[] = {
    { "fence", "", ".acq_rel .acq_rel.cta .acq_rel.cluster .acq_rel.gpu .acq_rel.sys"
                   " .sc .sc.cta .sc.cluster .sc.gpu .sc.sys" },
};
// clang-format on

// Loads and stores of every type except predicates, with one to eight values in at most 16 bytes;
// bytes with at most four. Only four of the types have orders.
#define ORDERS(order) " " order " " order ".cta " order ".cluster " order ".gpu " order ".sys"
#define LOADS         "- .cs .ca .cg"
#define LOADS_GLOBAL                                                                               \
    "- .nc .cs .nc.cs .ca .nc.ca .cg .nc.cg .L1::no_allocate .nc.L1::no_allocate .L1::evict_first" \
    " .nc.L1::evict_first .L1::evict_last .nc.L1::evict_last"
#define LOAD_ORDERS   " .volatile" ORDERS(".relaxed") ORDERS(".acquire")
#define STORES        "- .cs .cg .wb"
#define STORES_GLOBAL "- .cs .cg .wb .L1::no_allocate .L1::evict_first .L1::evict_last"
#define STORE_ORDERS  " .volatile" ORDERS(".relaxed") ORDERS(".release")
static const char *const ordered_types[] = { "u8", "u64", "f16", "f32" };

// ---- names --------------------------------------------------------------------------------------

static void die(const char *what, const char *name)
{
    fprintf(stderr, "random programs: the builder has no %s '%s', which recorded programs use\n",
            what, name);
    exit(2);
}

// The next word of a list, without blanks; NULL at the end.
static const char *next_word(const char **list, char *word, size_t room)
{
    const char *begin = *list + strspn(*list, " ");
    const size_t length = strcspn(begin, " ");

    if (!length || length >= room)
        return NULL;
    memcpy(word, begin, length);
    word[length] = '\0';
    *list = begin + length;
    return word;
}

static ptx_type parse_type(const char *name)
{
    const ptx_type type = ptx_type_parse(name);

    if (!type)
        die("type", name);
    return type;
}

static unsigned parse_op(const char *name)
{
    for (unsigned k = 1; k < PTX_OP_COUNT; k++) {
        const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)k);
        if (info && info->name && !strcmp(info->name, name))
            return k;
    }
    die("instruction", name);
    return 0;
}

static unsigned parse_atomic(const char *name)
{
    static const struct {
        const char *name;
        ptx_atomic_op op;
    } known[] = {
        { "add", PTX_ATOMIC_add }, { "min", PTX_ATOMIC_min }, { "max", PTX_ATOMIC_max },
        { "inc", PTX_ATOMIC_inc }, { "dec", PTX_ATOMIC_dec }, { "and", PTX_ATOMIC_and },
        { "or", PTX_ATOMIC_or },   { "xor", PTX_ATOMIC_xor }, { "exch", PTX_ATOMIC_exch },
        { "cas", PTX_ATOMIC_cas },
    };

    for (unsigned k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(known[k].name, name))
            return known[k].op;
    die("atomic operation", name);
    return 0;
}

static const struct modifier {
    const char *name;
    ptx_round round;
    ptx_cache cache;
    ptx_order order;
    ptx_scope scope;
    bool ftz, sat, nc;
} modifiers[] = {
    { .name = "rn", .round = PTX_ROUND_RN },
    { .name = "rz", .round = PTX_ROUND_RZ },
    { .name = "rm", .round = PTX_ROUND_RM },
    { .name = "rp", .round = PTX_ROUND_RP },
    { .name = "ftz", .ftz = true },
    { .name = "sat", .sat = true },
    { .name = "nc", .nc = true },
    { .name = "cs", .cache = PTX_CACHE_STREAMING },
    { .name = "ca", .cache = PTX_CACHE_ALL },
    { .name = "cg", .cache = PTX_CACHE_L2 },
    { .name = "wb", .cache = PTX_CACHE_WRITE_BACK },
    { .name = "L1::no_allocate", .cache = PTX_CACHE_NO_ALLOCATE },
    { .name = "L1::evict_first", .cache = PTX_CACHE_EVICT_FIRST },
    { .name = "L1::evict_last", .cache = PTX_CACHE_EVICT_LAST },
    { .name = "volatile", .order = PTX_ORDER_VOLATILE },
    { .name = "relaxed", .order = PTX_ORDER_RELAXED },
    { .name = "acquire", .order = PTX_ORDER_ACQUIRE },
    { .name = "release", .order = PTX_ORDER_RELEASE },
    { .name = "acq_rel", .order = PTX_ORDER_ACQ_REL },
    { .name = "sc", .order = PTX_ORDER_SEQ_CST },
    { .name = "cta", .scope = PTX_SCOPE_BLOCK },
    { .name = "cluster", .scope = PTX_SCOPE_CLUSTER },
    { .name = "gpu", .scope = PTX_SCOPE_GPU },
    { .name = "sys", .scope = PTX_SCOPE_SYSTEM },
};

// Adds modifiers such as ".rn.ftz" to the case.
static void modify(struct op_case *c, const char *names)
{
    while (*names == '.') {
        const size_t length = strcspn(names + 1, ".");
        const struct modifier *m = modifiers;
        while (strlen(m->name) != length || memcmp(m->name, names + 1, length) != 0)
            if (++m == modifiers + sizeof modifiers / sizeof *modifiers)
                die("modifier", names);
        c->round = m->round ? m->round : c->round;
        c->cache = m->cache ? m->cache : c->cache;
        c->order = m->order ? m->order : c->order;
        c->scope = m->scope ? m->scope : c->scope;
        c->ftz |= m->ftz;
        c->sat |= m->sat;
        c->nc |= m->nc;
        names += 1 + length;
    }
}

// ---- the catalogue ------------------------------------------------------------------------------

struct catalogue {
    struct op_case c[4096];
    unsigned count;
    unsigned group[512]; // the first case of each group, and the end of the last
    unsigned groups;
};
static struct catalogue catalogues[GROUP_COUNT];

static void add_cases(enum program_group to, struct op_case c, const char *list)
{
    struct catalogue *all = &catalogues[to];
    const struct op_case plain = c;
    char word[64];

    while (next_word(&list, word, sizeof word) && all->count < sizeof all->c / sizeof *all->c) {
        c = plain;
        modify(&c, word);
        all->c[all->count++] = c;
    }
}

static void begin_group(enum program_group in)
{
    struct catalogue *all = &catalogues[in];

    all->group[all->groups++] = all->count;
}

static void end_groups(enum program_group in)
{
    struct catalogue *all = &catalogues[in];

    all->group[all->groups] = all->count;
}

static struct op_case letter(enum program_group in, const char *name, ptx_type type)
{
    switch (in) {
    case GROUP_CONVERSIONS:
        return (struct op_case) { .kind = CASE_CVT, .type = parse_type(name), .from = type };
    case GROUP_BITCASTS:
        return (struct op_case) { .kind = CASE_BITCAST, .type = parse_type(name), .from = type };
    case GROUP_PACKS:
        return (struct op_case) { .kind = CASE_CVT_PACK, .type = type };
    case GROUP_ATOMICS:
        return (struct op_case) {
            .kind = CASE_ATOMIC, .what = parse_atomic(name), .type = type, .used = true
        };
    case GROUP_FENCES:
        return (struct op_case) { .kind = CASE_FENCE };
    default:
        return (struct op_case) { .kind = CASE_OP, .what = parse_op(name), .type = type };
    }
}

static void add_letters(enum program_group to, const struct letters *rows, size_t count)
{
    const unsigned spaces = to == GROUP_ATOMICS ? 3 : 1;
    static const ptx_space space[] = { PTX_SPACE_GENERIC, PTX_SPACE_GLOBAL, PTX_SPACE_SHARED };
    char word[16];

    for (size_t k = 0; k < count; k++) {
        const char *list = rows[k].types;
        bool any = !*list;
        while (any || next_word(&list, word, sizeof word)) {
            struct op_case c = letter(to, rows[k].name, any ? PTX_NONE : parse_type(word));
            for (unsigned s = 0; s < spaces; s++) {
                c.space = space[s];
                begin_group(to);
                add_cases(to, c, rows[k].modifiers);
            }
            if (any)
                break;
        }
    }
    end_groups(to);
}

static bool is_ordered(ptx_type type)
{
    for (unsigned k = 0; k < sizeof ordered_types / sizeof *ordered_types; k++)
        if (parse_type(ordered_types[k]) == type)
            return true;
    return false;
}

static void add_accesses(enum program_group to, enum op_case_kind kind, const char *plain,
                         const char *global, const char *orders)
{
    static const ptx_space space[] = { PTX_SPACE_GENERIC, PTX_SPACE_GLOBAL, PTX_SPACE_SHARED,
                                       PTX_SPACE_LOCAL };

    for (unsigned t = 2; t < OP_TYPES; t++)
        for (unsigned s = 0; s < 4; s++) {
            struct op_case c = { .kind = kind, .type = op_type(t), .space = space[s] };
            begin_group(to);
            const unsigned bytes = ptx_type_bytes(c.type), most = bytes == 1 ? 4 : 16 / bytes;
            for (c.lanes = 1; c.lanes <= most; c.lanes *= 2) {
                add_cases(to, c, space[s] == PTX_SPACE_GLOBAL ? global : plain);
                if (space[s] != PTX_SPACE_LOCAL && is_ordered(c.type))
                    add_cases(to, c, orders);
            }
        }
    end_groups(to);
}

void program_catalogue(void)
{
    if (catalogues[GROUP_OPS].count)
        return;
#define ADD(group, rows) add_letters(group, rows, sizeof rows / sizeof *rows)
    ADD(GROUP_OPS, ops);
    ADD(GROUP_APPROXIMATE, approximates);
    ADD(GROUP_CONVERSIONS, conversions);
    ADD(GROUP_BITCASTS, bitcasts);
    ADD(GROUP_PACKS, packs);
    ADD(GROUP_ATOMICS, atomics);
    ADD(GROUP_FENCES, fences);
#undef ADD
    add_accesses(GROUP_LOADS, CASE_LOAD, LOADS, LOADS_GLOBAL, LOAD_ORDERS);
    add_accesses(GROUP_STORES, CASE_STORE, STORES, STORES_GLOBAL, STORE_ORDERS);
}

struct op_case program_choose(struct random *r, enum program_group from)
{
    const struct catalogue *all = &catalogues[from];
    const unsigned g = random_below(r, all->groups);
    return all->c[all->group[g] + random_below(r, all->group[g + 1] - all->group[g])];
}

bool program_is_integer(ptx_type type)
{
    const uint32_t all =
        PTX_TYPES_I | PTX_TYPES_B | PTX_TYPE_BIT(U8) | PTX_TYPE_BIT(S8) | PTX_TYPE_BIT(B8);
    return all >> type & 1;
}
