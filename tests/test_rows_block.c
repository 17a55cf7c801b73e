// SPDX-License-Identifier: MIT
// Threads of blocks together: barriers, fences and ordered accesses that hand data over, special
// registers, the end by trap; against plain C. On a GPU where there is one, on the emulator in CI.
#include "rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// After those four, as it asks.
#include <cmocka.h>

// What a thread brings lies in `out` from FROM on, a word each.
enum { THREADS = 64, FROM = 32768, MOST_ROWS = 64 };

static struct rows rows;
static struct row list[MOST_ROWS];
static unsigned listed;

static struct row *add_row(unsigned what, unsigned lanes)
{
    assert_true(listed < MOST_ROWS);
    list[listed] = (struct row) { .c = { .kind = CASE_WARP, .what = what, .lanes = lanes },
                                  .threads = THREADS };
    return &list[listed++];
}

static void store_result(ptx_builder *b, ptx_ptr out, ptx_val v)
{
    if (v.type == PTX_PRED)
        v = ptx_select(b, v, ptx_u32(1), ptx_u32(0));
    ptx_ptr to = ptx_ptr_cast(b, (ptx_type)v.type, ptx_at(b, out, ptx_tid(b, PTX_X)));
    ptx_store(b, to, ptx_u32(0), v);
}

// ---- barriers -----------------------------------------------------------------------------------

// By number: 0 to 15 the named ones for all, 16 to 31 with a count; 32 a barrier for each half of
// the block; 33 of the warp.
enum { NAMED = 16, HALVES = 32, WARP = 33, BARRIERS = 34 };

static unsigned partner_of(unsigned what, unsigned t)
{
    return what < HALVES ? THREADS - 1 - t : t ^ 31;
}

static void emit_barrier(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const unsigned what = row->c.what;
    ptx_ptr words = ptx_shared(b, PTX_U32, THREADS);
    ptx_val tid = ptx_tid(b, PTX_X);

    (void)in;
    ptx_store(b, words, tid, ptx_mul(b, tid, ptx_u32(3)));
    if (what < HALVES)
        ptx_barrier_named(b, what % NAMED, what < NAMED ? 0 : THREADS);
    else if (what == WARP)
        ptx_barrier_warp(b, ptx_full_warp());
    else
        for (uint32_t half = 0; half < 2; half++)
            ptx_if (b, ptx_eq(b, ptx_shr(b, tid, ptx_u32(5)), ptx_u32(half))) {
                ptx_barrier_named(b, 3 + half, 32);
            }
    ptx_val partner =
        what < HALVES ? ptx_sub(b, ptx_u32(THREADS - 1), tid) : ptx_xor(b, tid, ptx_u32(31));
    store_result(b, out, ptx_load(b, words, partner));
}

static void expect_barrier(struct rows *r, const struct row *row)
{
    for (unsigned t = 0; t < THREADS; t++)
        rows_put(r->want + 8 * t, 4, 0, 3 * partner_of(row->c.what, t));
}

static void every_barrier(void **state)
{
    static const struct row_test test = { emit_barrier, expect_barrier, NULL };

    (void)state;
    listed = 0;
    for (unsigned k = 0; k < BARRIERS; k++)
        snprintf(add_row(k, 1)->name, sizeof list->name, "barrier %u", k);
    rows_run(&rows, &test, list, listed);
}

static void emit_block_vote(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    ptx_ptr from = ptx_at(b, ptx_ptr_cast(b, PTX_U32, out), ptx_u32(FROM / 4));
    ptx_val word = ptx_load(b, from, ptx_tid(b, PTX_X)), p = ptx_ne(b, word, ptx_u32(0));

    (void)in;
    store_result(b, out,
                 row->c.what == 0   ? ptx_barrier_all(b, p)
                 : row->c.what == 1 ? ptx_barrier_any(b, p)
                                    : ptx_barrier_count(b, p));
}

static void expect_block_vote(struct rows *r, const struct row *row)
{
    unsigned count = 0;
    for (unsigned t = 0; t < THREADS; t++)
        count += r->want[FROM + 4 * t];
    for (unsigned t = 0; t < THREADS; t++)
        rows_put(r->want + 8 * t, 4, 0,
                 row->c.what == 0   ? count == THREADS
                 : row->c.what == 1 ? count != 0
                                    : count);
}

static void bring_votes(struct rows *r, const struct row *row, unsigned char *out)
{
    (void)r;
    for (unsigned t = 0; t < THREADS; t++) {
        const unsigned odd = t % 3 == 1;
        rows_put(out + FROM, 4, t, row->c.lanes < 2 ? row->c.lanes : odd);
    }
}

static void block_votes(void **state)
{
    static const struct row_test test = { emit_block_vote, expect_block_vote, bring_votes };

    (void)state;
    listed = 0;
    for (unsigned k = 0; k < 9; k++)
        snprintf(add_row(k / 3, k % 3)->name, sizeof list->name, "block vote %u, predicates %u",
                 k / 3, k % 3);
    rows_run(&rows, &test, list, listed);
}

// ---- from thread to thread ----------------------------------------------------------------------

// By fences round relaxed accesses, or by a store that releases and a load that acquires. Within a
// block where the scope is no wider.
enum { WORDS = 8, FLAG = 1024 }; // FLAG: byte of `out`

static bool is_wide(const struct row *row)
{
    return row->c.scope != PTX_SCOPE_BLOCK && row->c.scope != PTX_SCOPE_CLUSTER;
}

static void emit_sender(ptx_builder *b, const struct row *row, ptx_ptr out, ptx_ptr flag)
{
    for (uint32_t k = 0; k < WORDS; k++)
        ptx_store(b, out, ptx_u32(k), ptx_imm(PTX_U64, 1000 + k));
    if (row->c.kind == CASE_FENCE)
        ptx_fence(b, row->c.order, row->c.scope);
    ptx_store(b, flag, ptx_u32(0), ptx_u32(1),
              .order = row->c.kind == CASE_FENCE ? PTX_RELAXED : PTX_RELEASE,
              .scope = row->c.scope);
}

static void emit_receiver(ptx_builder *b, const struct row *row, ptx_ptr out, ptx_ptr flag)
{
    ptx_loop (b) {
        ptx_val set = ptx_load(b, flag, ptx_u32(0),
                               .order = row->c.kind == CASE_FENCE ? PTX_RELAXED : PTX_ACQUIRE,
                               .scope = row->c.scope);
        ptx_break_if(b, ptx_eq(b, set, ptx_u32(1)));
        ptx_nanosleep(b, ptx_u32(20));
    }
    if (row->c.kind == CASE_FENCE)
        ptx_fence(b, row->c.order, row->c.scope);
    for (uint32_t k = 0; k < WORDS; k++) {
        ptx_val word = ptx_load(b, out, ptx_u32(k));
        ptx_store(b, out, ptx_u32(WORDS + k), word);
    }
}

static void emit_message(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    ptx_ptr flag = ptx_ptr_cast(b, PTX_U32, ptx_at(b, out, ptx_u32(FLAG / 8)));
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val thread = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(THREADS), tid);

    (void)in;
    ptx_if (b, ptx_eq(b, thread, ptx_u32(0))) {
        emit_sender(b, row, out, flag);
    }
    ptx_if (b, ptx_eq(b, thread, ptx_u32(is_wide(row) ? THREADS : 32))) {
        emit_receiver(b, row, out, flag);
    }
}

static void expect_message(struct rows *r, const struct row *row)
{
    (void)row;
    for (unsigned k = 0; k < 2 * WORDS; k++)
        rows_put(r->want, 8, k, 1000 + k % WORDS);
    rows_put(r->want + FLAG, 4, 0, 1);
}

static const struct row_test message = { emit_message, expect_message, NULL };

static void messages(void **state)
{
    (void)state;
    listed = 0;
    for (unsigned k = 0; k < 3 * 5; k++) {
        struct row *row = add_row(0, 1);
        row->c.kind = k < 10 ? CASE_FENCE : CASE_LOAD;
        row->c.order = k < 5 ? PTX_ACQ_REL : PTX_SEQ_CST;
        row->c.scope = (ptx_scope)(k % 5);
        row->grid = is_wide(row) ? 2 : 1;
        snprintf(row->name, sizeof row->name, "message, kind %d order %d scope %d", row->c.kind,
                 row->c.order, row->c.scope);
        if (!rows_accepts(&rows, &message, row)) // clusters are of sm_90 and up
            listed--;
    }
    assert_true(listed >= 12);
    rows_run(&rows, &message, list, listed);
}

// ---- special registers --------------------------------------------------------------------------

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
enum {
    VECTORS = sizeof vectors / sizeof *vectors,
    SCALARS = sizeof scalars / sizeof *scalars,
    REGISTERS = 3 * VECTORS + SCALARS,
    BLOCKS = 3,
    // By their place in the tables.
    TID = 0,
    NTID,
    CTAID,
    NCTAID,
    CLUSTERID,
    NCLUSTERID,
    CLUSTER_CTAID,
    CLUSTER_NCTAID,
    LANEID = 0,
    WARPID,
    NWARPID,
    SMID,
    NSMID,
    GRIDID,
    EQ,
    LE,
    LT,
    GE,
    GT,
    CLOCK,
    CLOCK64,
    GLOBALTIMER,
    DYNAMIC,
    TOTAL,
    CTARANK,
    NCTARANK,
};

// Each is read twice, so that it is seen that time goes by.
static void emit_special(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const unsigned what = row->c.what;
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val thread = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(THREADS), tid);
    ptx_val place = ptx_mul(b, thread, ptx_u32(2));
    ptx_ptr to = ptx_at(b, out, place);

    (void)in;
    for (uint32_t k = 0; k < 2; k++) {
        ptx_val v = what < 3 * VECTORS ? vectors[what / 3](b, (ptx_axis)(what % 3))
                                       : scalars[what - 3 * VECTORS](b);
        if (v.type != PTX_U64)
            v = ptx_cvt(b, PTX_U64, v);
        ptx_store(b, to, ptx_u32(k), v);
    }
}

static uint64_t vector_value(unsigned which, unsigned axis, unsigned block, unsigned t)
{
    switch (which) {
    case TID:
        return axis ? 0 : t;
    case NTID:
        return axis ? 1 : THREADS;
    case CTAID:
    case CLUSTERID: // a block is a cluster of its own
        return axis ? 0 : block;
    case NCTAID:
    case NCLUSTERID:
        return axis ? 1 : BLOCKS;
    case CLUSTER_CTAID:
        return 0;
    default:
        return 1;
    }
}

// Where there is one right value, that; else what was read, if it can be right.
static uint64_t scalar_value(unsigned which, unsigned t, uint64_t first, uint64_t second)
{
    const unsigned lane = t % 32;

    switch (which) {
    case LANEID:
        return lane;
    case EQ:
        return 1u << lane;
    case LT:
        return (1u << lane) - 1;
    case LE:
        return (2u << lane) - 1;
    case GE:
        return UINT32_MAX << lane;
    case GT:
        return (uint32_t)(UINT32_MAX << lane << 1);
    case DYNAMIC:
    case CTARANK:
        return 0;
    case NCTARANK:
        return 1;
    case CLOCK:
        assert_true((uint32_t)(second - first) < UINT32_MAX / 2);
        return first;
    case CLOCK64:
    case GLOBALTIMER:
        assert_true(second >= first);
        return first;
    case NWARPID:
        assert_true(first >= THREADS / 32);
        return first;
    case NSMID:
        assert_true(first >= 1);
        return first;
    default: // warpid, smid: below their numbers; gridid, total_smem_size: any
        assert_true(which == GRIDID || first < 1 << 20);
        return first;
    }
}

static void expect_special(struct rows *r, const struct row *row)
{
    const unsigned what = row->c.what;

    for (unsigned i = 0; i < BLOCKS * THREADS; i++) {
        const uint64_t first = rows_get(r->out, 8, 2 * i), second = rows_get(r->out, 8, 2 * i + 1);
        const unsigned which = what - 3 * VECTORS;
        const bool vector = what < 3 * VECTORS;
        const bool flows = !vector && which >= CLOCK && which <= GLOBALTIMER;
        const uint64_t v = vector ? vector_value(what / 3, what % 3, i / THREADS, i % THREADS)
                                  : scalar_value(which, i % THREADS, first, second);
        rows_put(r->want, 8, 2 * i, v);
        rows_put(r->want, 8, 2 * i + 1, flows ? second : v);
    }
}

static void special_registers(void **state)
{
    static const struct row_test test = { emit_special, expect_special, NULL };

    (void)state;
    listed = 0;
    for (unsigned k = 0; k < REGISTERS; k++) {
        struct row *row = add_row(k, 1);
        row->grid = BLOCKS;
        snprintf(row->name, sizeof row->name, "special register %u", k);
        if (!rows_accepts(&rows, &test, row)) // clusters are of sm_90 and up
            listed--;
    }
    rows_run(&rows, &test, list, listed);
    printf("%u rows\n", listed);
}

// ---- the end ------------------------------------------------------------------------------------

// The last test: the context is lost with it.
static void trap(void **state)
{
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = rows.target });
    const struct ptx_launch_params launch = { .grid = { 1 } };

    (void)state;
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), ptx_u32(7))) {
            ptx_trap(b);
        }
    }
    const char *text = ptx_builder_finish(b);
    assert_non_null(text);
    ptx_module *module = ptx_module_load(rows.device, text, NULL);
    assert_non_null(module);
    const ptx_function *function = ptx_module_function(module, "k");
    assert_int_equal(ptx_launch(function, &launch), PTX_OK);
    assert_int_not_equal(ptx_stream_synchronize(rows.device, NULL), PTX_OK);
    assert_int_equal(ptx_error_code(), 719); // CUDA_ERROR_LAUNCH_FAILED
    ptx_module_unload(&module);
    ptx_builder_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_barrier), cmocka_unit_test(block_votes),
        cmocka_unit_test(messages),      cmocka_unit_test(special_registers),
        cmocka_unit_test(trap),
    };
    rows_open(&rows);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rows_close(&rows);
    return failed;
}
