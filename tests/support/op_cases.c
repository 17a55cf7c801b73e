// SPDX-License-Identifier: MIT
#include "op_cases.h"

#include <stdio.h>
#include <string.h>

// ---- enumeration --------------------------------------------------------------------------------

static void ops(op_case_visit *visit, void *user)
{
    struct op_case c = { .kind = CASE_OP };

    for (c.what = 1; c.what < PTX_OP_COUNT; c.what++) {
        const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)c.what);
        for (size_t f = 0; info->shape && f < info->form_count; f++)
            for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
                for (unsigned m = 0; m < 20; m++) {
                    const unsigned allowed = info->forms[f].modifiers;
                    c.type = (ptx_type)t;
                    c.round = (ptx_round)(m % 5);
                    c.ftz = m / 5 & 1;
                    c.sat = m / 10 & 1;
                    if (info->forms[f].types >> t & 1 && (!c.round || allowed & PTX_MOD_ROUND) &&
                        (!c.ftz || allowed & PTX_MOD_FTZ) && (!c.sat || allowed & PTX_MOD_SAT))
                        visit(user, &c);
                }
    }
}

// What only the formats of 8 bits and tf32 have, and the types from which they come.
static void small_conversions(op_case_visit *visit, void *user)
{
    static const ptx_type types[] = { PTX_E4M3X2, PTX_E5M2X2, PTX_TF32, PTX_F16X2, PTX_F32 };
    enum { TYPES = sizeof types / sizeof *types };
    struct op_case c = { .kind = CASE_CVT };

    for (unsigned pair = 0; pair < TYPES * TYPES; pair++)
        for (unsigned m = 1; m < 6 * 8; m++) {
            c.type = types[pair / TYPES];
            c.from = types[pair % TYPES];
            c.round = (ptx_round)(m / 8);
            c.relu = m & 1;
            c.satfinite = m >> 1 & 1;
            c.two = m >> 2 & 1;
            if (m % 8 || c.round == PTX_ROUND_RNA) // the rest is in conversions()
                visit(user, &c);
        }
}

static void conversions(op_case_visit *visit, void *user)
{
    struct op_case c = { .kind = CASE_CVT };

    for (unsigned pair = 0; pair < PTX_TYPE_COUNT * PTX_TYPE_COUNT; pair++)
        for (unsigned m = 0; m < 20; m++) {
            c.type = (ptx_type)(pair / PTX_TYPE_COUNT);
            c.from = (ptx_type)(pair % PTX_TYPE_COUNT);
            c.round = (ptx_round)(m % 5);
            c.ftz = m / 5 & 1;
            c.sat = m / 10 & 1;
            if (c.type && c.from)
                visit(user, &c);
        }
    c = (struct op_case) { .kind = CASE_CVT_PACK, .type = PTX_F16X2 };
    visit(user, &c);
    c.type = PTX_BF16X2;
    visit(user, &c);
    small_conversions(visit, user);
    c = (struct op_case) { .kind = CASE_BITCAST };
    for (unsigned pair = 0; pair < PTX_TYPE_COUNT * PTX_TYPE_COUNT; pair++) {
        c.type = (ptx_type)(pair / PTX_TYPE_COUNT);
        c.from = (ptx_type)(pair % PTX_TYPE_COUNT);
        if (c.type && c.from)
            visit(user, &c);
    }
}

static void accesses(op_case_visit *visit, void *user, enum op_case_kind kind)
{
    struct op_case c = { .kind = kind };

    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        for (unsigned s = 0; s <= PTX_SPACE_PARAM; s++)
            for (unsigned lanes = 1; lanes <= 8; lanes *= 2) {
                c = (struct op_case) { .kind = kind, .type = (ptx_type)t, .lanes = lanes };
                c.space = (ptx_space)s;
                for (unsigned k = 0; k < 2 * (PTX_CACHE_EVICT_LAST + 1); k++) {
                    c.cache = (ptx_cache)(k / 2);
                    c.nc = k & 1;
                    visit(user, &c);
                }
                c.cache = PTX_CACHE_DEFAULT;
                c.nc = false;
                // Of the type, orders and scopes depend only on its width.
                const bool typical = t == PTX_F32 || t == PTX_F16 || t == PTX_U64 || t == PTX_U8;
                for (unsigned k = 5; typical && k < 5 * (PTX_ORDER_SEQ_CST + 1); k++) {
                    c.order = (ptx_order)(k / 5);
                    c.scope = (ptx_scope)(k % 5);
                    visit(user, &c);
                }
            }
}

static void atomics(op_case_visit *visit, void *user)
{
    struct op_case c = { .kind = CASE_ATOMIC };

    for (c.what = 0; c.what < PTX_ATOMIC_COUNT; c.what++)
        for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
            for (unsigned s = 0; s <= PTX_SPACE_SHARED; s++)
                for (unsigned k = 0; k < 2 * 5 * (PTX_ORDER_SEQ_CST + 1); k++) {
                    c.type = (ptx_type)t;
                    c.space = (ptx_space)s;
                    c.used = k & 1;
                    c.scope = (ptx_scope)(k / 2 % 5);
                    c.order = (ptx_order)(k / 10);
                    visit(user, &c);
                }
    c = (struct op_case) { .kind = CASE_ATOMIC_VEC };
    for (unsigned k = 0; k < 4 * 3 * (PTX_TYPE_COUNT - 1) * 2 * 4; k++) {
        c.lanes = 1u << k % 4;
        c.what = k / 4 % 3; // add, min, max
        c.type = (ptx_type)(1 + k / 12 % (PTX_TYPE_COUNT - 1));
        c.used = k / 12 / (PTX_TYPE_COUNT - 1) & 1;
        c.scope = (ptx_scope)(k / 24 / (PTX_TYPE_COUNT - 1) % 4 + 1);
        c.order = c.scope == PTX_SCOPE_SYSTEM ? PTX_ORDER_ACQ_REL : PTX_ORDER_WEAK;
        visit(user, &c);
    }
    c = (struct op_case) { .kind = CASE_PREFETCH };
    for (unsigned k = 0; k < 5 * PTX_SPACE_PARAM; k++) {
        c.what = k % 5;
        c.space = (ptx_space)(k / 5);
        visit(user, &c);
    }
    c = (struct op_case) { .kind = CASE_FENCE };
    for (unsigned k = 0; k < 5 * (PTX_ORDER_SEQ_CST + 1); k++) {
        c.order = (ptx_order)(k / 5);
        c.scope = (ptx_scope)(k % 5);
        visit(user, &c);
    }
}

typedef ptx_val read_vector(ptx_builder *b, ptx_axis axis);
typedef ptx_val read_scalar(ptx_builder *b);

static read_vector *const vectors[] = {
#define ROW(name, ...) ptx_##name,
    PTX_SPECIAL_VECTORS(ROW)
#undef ROW
};
static read_scalar *const scalars[] = {
#define ROW(name, ...) ptx_##name,
    PTX_SPECIAL_SCALARS(ROW)
#undef ROW
};
typedef ptx_val reduce(ptx_builder *b, ptx_val x, ptx_val mask);
static reduce *const reductions[] = {
#define ROW(name, ...) ptx_redux_##name,
    PTX_WARP_REDUCTIONS(ROW)
#undef ROW
        ptx_match_any,
    ptx_match_all,
    ptx_ballot,
    ptx_vote_all,
    ptx_vote_any,
    ptx_vote_uniform,
};

enum {
    VECTORS = sizeof vectors / sizeof *vectors,
    SCALARS = sizeof scalars / sizeof *scalars,
    REDUCTIONS = sizeof reductions / sizeof *reductions,
    LONELY = 12,
    SHUFFLES = 4,
};

ptx_val op_read_special(ptx_builder *b, unsigned what)
{
    return what < 3 * VECTORS ? vectors[what / 3](b, (ptx_axis)(what % 3))
                              : scalars[what - 3 * VECTORS](b);
}

static void threads(op_case_visit *visit, void *user)
{
    struct op_case c = { .kind = CASE_SPECIAL };

    for (c.what = 0; c.what < 3 * VECTORS + SCALARS; c.what++)
        visit(user, &c);
    c = (struct op_case) { .kind = CASE_WARP };
    for (c.what = 0; c.what < LONELY; c.what++)
        visit(user, &c);
    for (; c.what < LONELY + REDUCTIONS + SHUFFLES; c.what++)
        for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
            c.type = (ptx_type)t;
            visit(user, &c);
        }
    c = (struct op_case) { .kind = CASE_WORDS };
    for (c.lanes = 1; c.lanes <= 4; c.lanes++)
        for (unsigned k = 0; k < 2 * 5; k++) {
            c.type = k & 1 ? PTX_U64 : PTX_U32;
            c.what = k / 2;
            visit(user, &c);
        }
}

// Products in every pair of types and every depth, tiles, copies.
static void matrices(op_case_visit *visit, void *user)
{
    static const ptx_type factors[] = { PTX_F16, PTX_BF16,   PTX_TF32,   PTX_S8, PTX_U8,
                                        PTX_F32, PTX_E4M3X2, PTX_E5M2X2, PTX_F64 };
    static const ptx_type sums[] = { PTX_F32, PTX_F16, PTX_S32, PTX_F64 };
    enum { FACTORS = sizeof factors / sizeof *factors };
    struct op_case c = { .kind = CASE_PRODUCT };

    for (unsigned k = 0; k < FACTORS * FACTORS * 4 * 4 * 2; k++) {
        c.type = factors[k % FACTORS];
        c.from = factors[k / FACTORS % FACTORS];
        c.to = sums[k / FACTORS / FACTORS % 4];
        c.what = 4u << k / FACTORS / FACTORS / 4 % 4;
        c.satfinite = k / FACTORS / FACTORS / 16;
        visit(user, &c);
    }
    c = (struct op_case) { .kind = CASE_TILES };
    for (c.lanes = 1; c.lanes <= 4; c.lanes++)
        for (c.what = 0; c.what < 4; c.what++)
            visit(user, &c);
    c = (struct op_case) { .kind = CASE_COPY };
    for (c.what = 0; c.what <= 16; c.what++)
        for (unsigned k = 0; k < 4; k++) {
            c.nc = k & 1;   // .bypass
            c.used = k & 2; // .taken
            visit(user, &c);
        }
}

static void mathematics(op_case_visit *visit, void *user)
{
    struct op_case c = { .kind = CASE_MATH };

    for (; ptx_math_get_info(c.what); c.what++)
        visit(user, &c);
}

void op_cases(op_case_visit *visit, void *user)
{
    ops(visit, user);
    conversions(visit, user);
    accesses(visit, user, CASE_LOAD);
    accesses(visit, user, CASE_STORE);
    atomics(visit, user);
    threads(visit, user);
    matrices(visit, user);
    mathematics(visit, user);
}

struct relay {
    op_case_visit *visit;
    void *user;
};

static void visit_literal(void *user, const struct op_case *c)
{
    const struct relay *relay = user;
    struct op_case literal = *c;

    literal.literal = true;
    if (!c->round && !c->ftz && !c->sat && !c->nc && !c->cache && !c->order && !c->scope &&
        !c->used)
        relay->visit(relay->user, &literal);
}

void op_literal_cases(op_case_visit *visit, void *user)
{
    op_cases(visit_literal, &(struct relay) { visit, user });
}

// ---- names -------------------------------------------------------------------------------------

bool op_case_is_approximate(const struct op_case *c)
{
    if (c->kind != CASE_OP)
        return false;
    const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)c->what);
    for (size_t k = 0; k < info->form_count; k++)
        if (info->forms[k].types >> c->type & 1)
            return info->forms[k].modifiers & PTX_MOD_APPROX;
    return false;
}

void op_case_name(const struct op_case *c, char name[OP_CASE_NAME])
{
    static const char *const rounds[] = { "", ".rn", ".rz", ".rm", ".rp", ".rna" };
    const char *op = c->kind == CASE_OP    ? ptx_op_get_info((ptx_opcode)c->what)->name
                     : c->kind == CASE_CVT ? "cvt"
                                           : "cvt_pack";
    snprintf(name, OP_CASE_NAME, "%s%s%s%s%s%s.%s%s%s%s", op, rounds[c->round],
             c->ftz ? ".ftz" : "", c->sat ? ".sat" : "", c->satfinite ? ".satfinite" : "",
             c->relu ? ".relu" : "", ptx_type_name(c->type), c->kind == CASE_CVT ? "." : "",
             c->kind == CASE_CVT ? ptx_type_name(c->from) : "", c->two ? ".two" : "");
}

// ---- emission -----------------------------------------------------------------------------------

struct op_frame op_frame_open(ptx_builder *b)
{
    struct op_frame frame;

    memset(&frame, 0, sizeof frame);
    ptx_ptr global = ptx_param_ptr(b, PTX_U32, "global");
    ptx_val address = ptx_param(b, PTX_U64, "address");
    frame.space[PTX_SPACE_GENERIC] = ptx_ptr_from(b, PTX_U32, PTX_SPACE_GENERIC, address);
    frame.space[PTX_SPACE_GLOBAL] = global;
    frame.space[PTX_SPACE_SHARED] = ptx_shared(b, PTX_U32, 16);
    frame.space[PTX_SPACE_LOCAL] = ptx_local(b, PTX_U32, 16);
    frame.space[PTX_SPACE_PARAM] = ptx_param_array(b, PTX_U32, "array", 16);
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        frame.of[t] = ptx_var(b, ptx_zero((ptx_type)t));
    ptx_val first = ptx_load(b, frame.space[PTX_SPACE_PARAM], ptx_u32(0));
    ptx_store(b, global, ptx_u32(0), first);
    ptx_store(b, frame.space[PTX_SPACE_GENERIC], ptx_u32(0), first);
    return frame;
}

static void emit_op(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    const char *shape = ptx_op_get_info((ptx_opcode)c->what)->shape + 2;
    const unsigned count = (unsigned)strlen(shape);
    ptx_val v[4] = { { 0 } };

    for (unsigned k = 0; k < count; k++)
        switch (shape[k]) {
        case 'W':
            v[k] = frame->of[c->type + 1];
            break;
        case 'u':
        case 'f':
            v[k] = frame->of[PTX_U32];
            break;
        case 'i':
            v[k] = ptx_u32(0xe8);
            break;
        case 'p':
            v[k] = frame->of[PTX_PRED];
            break;
        default:
            v[k] = frame->of[c->type];
        }
    ptx_op(b, (ptx_opcode)c->what, .x = v[0], .y = v[1], .z = v[2], .w = v[3], .round = c->round,
           .ftz = c->ftz, .sat = c->sat);
}

ptx_val op_case_cvt(ptx_builder *b, const struct op_case *c, ptx_val x, ptx_val hi)
{
    const ptx_val none = { 0 };

    return ptx_cvt(b, c->type, x, .round = c->round, .ftz = c->ftz, .sat = c->sat, .relu = c->relu,
                   .satfinite = c->satfinite, .hi = c->two ? hi : none);
}

static void emit_access(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    ptx_ptr p = ptx_ptr_cast(b, c->type, frame->space[c->space]);

    if (c->kind == CASE_LOAD) {
        ptx_load_vec(b, p, ptx_u32(0), c->lanes, .nc = c->nc, .cache = c->cache, .order = c->order,
                     .scope = c->scope);
        return;
    }
    ptx_vec x = { .lanes = c->lanes };
    for (unsigned k = 0; k < c->lanes; k++)
        x.lane[k] = frame->of[c->type];
    ptx_store_vec(b, p, ptx_u32(0), x, .nc = c->nc, .cache = c->cache, .order = c->order,
                  .scope = c->scope);
}

static void emit_atomic(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    const ptx_val x = frame->of[c->type], none = { 0 };
    ptx_ptr p = ptx_ptr_cast(b, c->type, frame->space[c->space]);
    ptx_val old = ptx_atomic(b, (ptx_atomic_op)c->what, p, ptx_u32(0), x,
                             .compare = c->what == PTX_ATOMIC_cas ? x : none, .order = c->order,
                             .scope = c->scope);

    if (c->used)
        ptx_set(b, x, old);
}

static void emit_atomic_vec(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    static const ptx_atomic_op ops[] = { PTX_ATOMIC_add, PTX_ATOMIC_min, PTX_ATOMIC_max };
    ptx_ptr p = ptx_ptr_cast(b, c->type, frame->space[PTX_SPACE_GLOBAL]);
    ptx_vec x = { .lanes = c->lanes };

    for (unsigned k = 0; k < c->lanes; k++)
        x.lane[k] = frame->of[c->type];
    ptx_vec old = ptx_atomic_vec(b, ops[c->what], p, 0, x, .order = c->order, .scope = c->scope);
    if (c->used && !c->literal)
        ptx_set(b, frame->of[c->type], old.lane[1]);
}

// Sums, differences, both with what is left over, and a product.
static void emit_words(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    const ptx_val x = frame->of[c->type], y = ptx_zero(c->type);
    ptx_val words[4] = { x, y, x, x }, sum[5], left;
    ptx_val *const over = c->what & 1 ? &left : NULL;

    if (c->what == 4)
        ptx_words_mad(b, c->lanes, sum, words, x, words);
    else if (c->what & 2)
        ptx_words_sub(b, c->lanes, sum, words, words, over);
    else
        ptx_words_add(b, c->lanes, sum, words, words, over);
}

static void emit_warp(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    const ptx_val full = ptx_full_warp(), p = frame->of[PTX_PRED], n = frame->of[PTX_U32];

    if (c->what >= LONELY + REDUCTIONS) {
        ptx_shfl_emit(b, (ptx_shfl_mode)(c->what - LONELY - REDUCTIONS), frame->of[c->type],
                      (struct ptx_shfl_params) { .lane = n, .width = 16 });
        return;
    }
    if (c->what >= LONELY) {
        reductions[c->what - LONELY](b, frame->of[c->type], full);
        return;
    }
    switch (c->what) {
    case 0:
        ptx_barrier(b);
        break;
    case 1:
        ptx_barrier_named(b, 15, 0);
        break;
    case 2:
        ptx_barrier_named(b, 1, 64);
        break;
    case 3:
        ptx_barrier_all(b, p);
        break;
    case 4:
        ptx_barrier_any(b, p);
        break;
    case 5:
        ptx_barrier_count(b, p);
        break;
    case 6:
        ptx_barrier_warp(b, full);
        break;
    case 7:
        ptx_activemask(b);
        break;
    case 8:
        ptx_nanosleep(b, n);
        break;
    case 9:
        ptx_griddepcontrol_wait(b);
        break;
    case 10:
        ptx_griddepcontrol_launch_dependents(b);
        break;
    case 11:
        ptx_barrier_arrive(b, 2, 64);
        break;
    }
}

// A fragment whose words are all the same.
static ptx_fragment fragment(ptx_builder *b, const struct op_frame *frame, ptx_fragment_role role,
                             ptx_type type, unsigned k)
{
    const unsigned bits = type == PTX_E4M3X2 || type == PTX_E5M2X2 ? 8 : 8 * ptx_type_bytes(type);
    const unsigned in_a_word = bits < 32 ? 32 / bits : 1;
    ptx_vec words = { .lanes = (role == PTX_FRAGMENT_A ? 16 : 8) * k / (32 * in_a_word) };

    for (unsigned w = 0; w < 8; w++)
        words.lane[w] = frame->of[type == PTX_F64 ? PTX_F64 : PTX_B32];
    return ptx_fragment_from(b, role, type, k, words);
}

static void emit_matrix(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    const ptx_val x = frame->of[PTX_B32], none = { 0 };
    const ptx_ptr tiles = ptx_ptr_cast(b, PTX_F16, frame->space[PTX_SPACE_SHARED]);
    const bool trans = c->what & 2;

    if (c->kind == CASE_PRODUCT)
        ptx_mma(b, fragment(b, frame, PTX_FRAGMENT_A, c->type, c->what),
                fragment(b, frame, PTX_FRAGMENT_B, c->from, c->what),
                ptx_fragment_fill(b, frame->of[c->to]), .satfinite = c->satfinite);
    else if (c->kind == CASE_TILES && c->what & 1)
        ptx_stmatrix(b, tiles, ((ptx_vec) { { x, x, x, x }, c->lanes }), .trans = trans);
    else if (c->kind == CASE_TILES)
        ptx_ldmatrix(b, tiles, c->lanes, .trans = trans);
    else if (c->what == 1)
        ptx_cp_async_commit(b);
    else if (c->what == 2)
        ptx_cp_async_wait(b, 1);
    else if (c->what == 3)
        ptx_cp_async_wait_all(b);
    else
        ptx_cp_async(b, frame->space[PTX_SPACE_SHARED], frame->space[PTX_SPACE_GLOBAL], c->what,
                     .bypass = c->nc, .taken = c->used ? frame->of[PTX_U32] : none);
}

static void emit_math(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    const ptx_val x = frame->of[PTX_F32];
    unsigned row = 0;

#define UNARY(name, ...)                                                                           \
    if (c->what == row++)                                                                          \
        ptx_math_##name(b, x);
#define BINARY(name, ...)                                                                          \
    if (c->what == row++)                                                                          \
        ptx_math_##name(b, x, x);
    PTX_MATH_UNARY(UNARY)
    PTX_MATH_BINARY(BINARY)
#undef UNARY
#undef BINARY
}

void op_case_emit(ptx_builder *b, const struct op_frame *frame, const struct op_case *c)
{
    struct op_frame literals = *frame;

    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        literals.of[t] = ptx_imm((ptx_type)t, 1);
    if (c->literal)
        frame = &literals;
    switch (c->kind) {
    case CASE_OP:
        emit_op(b, frame, c);
        break;
    case CASE_CVT:
        op_case_cvt(b, c, frame->of[c->from], frame->of[c->from]);
        break;
    case CASE_CVT_PACK:
        ptx_cvt_pack(b, c->type, frame->of[PTX_F32], frame->of[PTX_F32]);
        break;
    case CASE_BITCAST:
        ptx_bitcast(b, c->type, frame->of[c->from]);
        break;
    case CASE_LOAD:
    case CASE_STORE:
        emit_access(b, frame, c);
        break;
    case CASE_ATOMIC:
        emit_atomic(b, frame, c);
        break;
    case CASE_ATOMIC_VEC:
        emit_atomic_vec(b, frame, c);
        break;
    case CASE_PREFETCH:
        ptx_prefetch(b, frame->space[c->space], 0, (ptx_prefetch_kind)c->what);
        break;
    case CASE_WORDS:
        emit_words(b, frame, c);
        break;
    case CASE_FENCE:
        ptx_fence(b, c->order, c->scope);
        break;
    case CASE_SPECIAL:
        op_read_special(b, c->what);
        break;
    case CASE_WARP:
        emit_warp(b, frame, c);
        break;
    case CASE_PRODUCT:
    case CASE_TILES:
    case CASE_COPY:
        emit_matrix(b, frame, c);
        break;
    case CASE_MATH:
        emit_math(b, frame, c);
        break;
    }
}
