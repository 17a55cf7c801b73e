// SPDX-License-Identifier: MIT
// Threads of blocks together: barriers; fences and ordered accesses that pass data on; the end by
// trap. Compared with plain C. On a GPU if there is one, and on the emulator in CI.
#include "rows.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// From byte FROM of `out` on, each thread has a word of input.
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

// ---- barriers -----------------------------------------------------------------------------------

// By number: 0 to 15 are the named barriers for all threads, 16 to 31 those with a count; 32 is a
// barrier for each half of the block, 33 one for the warp.
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
    rows_store_result(b, out, ptx_load(b, words, partner));
}

static void expect_barrier(struct rows *r, const struct row *row)
{
    for (unsigned t = 0; t < THREADS; t++)
        rows_put(r->want + 8 * t, 4, 0, 3 * partner_of(row->c.what, t));
}

TEST(every_barrier)
{
    static const struct row_test test = { emit_barrier, expect_barrier, NULL };

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
    rows_store_result(b, out,
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

TEST(block_votes)
{
    static const struct row_test test = { emit_block_vote, expect_block_vote, bring_votes };

    listed = 0;
    for (unsigned k = 0; k < 9; k++)
        snprintf(add_row(k / 3, k % 3)->name, sizeof list->name, "block vote %u, predicates %u",
                 k / 3, k % 3);
    rows_run(&rows, &test, list, listed);
}

// ---- from thread to thread ----------------------------------------------------------------------

// With fences around relaxed accesses, or with a releasing store and an acquiring load. Within a
// block if the scope is no wider.
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
              .order = row->c.kind == CASE_FENCE ? PTX_ORDER_RELAXED : PTX_ORDER_RELEASE,
              .scope = row->c.scope);
}

static void emit_receiver(ptx_builder *b, const struct row *row, ptx_ptr out, ptx_ptr flag)
{
    ptx_loop (b) {
        ptx_val set =
            ptx_load(b, flag, ptx_u32(0),
                     .order = row->c.kind == CASE_FENCE ? PTX_ORDER_RELAXED : PTX_ORDER_ACQUIRE,
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

TEST(messages)
{
    listed = 0;
    for (unsigned k = 0; k < 3 * 5; k++) {
        struct row *row = add_row(0, 1);
        row->c.kind = k < 10 ? CASE_FENCE : CASE_LOAD;
        row->c.order = k < 5 ? PTX_ORDER_ACQ_REL : PTX_ORDER_SEQ_CST;
        row->c.scope = (ptx_scope)(k % 5);
        row->grid = is_wide(row) ? 2 : 1;
        snprintf(row->name, sizeof row->name, "message, kind %d order %d scope %d", row->c.kind,
                 row->c.order, row->c.scope);
        if (!rows_accepts(&rows, &message, row)) // clusters need sm_90
            listed--;
    }
    assert_true(listed >= 12);
    rows_run(&rows, &message, list, listed);
}

// ---- the end ------------------------------------------------------------------------------------

// The last test, because the context is lost.
TEST(trap)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = rows.target });
    const struct ptx_launch_params launch = { .grid = { 1 } };

    ptx_entry (b, "k", .block = { 32 }) {
        ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), ptx_u32(7))) {
            ptx_trap(b);
        }
    }
    const char *text = ptx_builder_finish(b);
    assert_non_null(text);
    OWNED(ptx_module) *module = ptx_module_load(rows.device, text, NULL);
    assert_non_null(module);
    const ptx_function *function = ptx_module_function(module, "k");
    assert_int_equal(ptx_launch(function, &launch), PTX_OK);
    assert_int_not_equal(ptx_stream_synchronize(rows.device, NULL), PTX_OK);
    assert_int_equal(ptx_error_code(), 719); // CUDA_ERROR_LAUNCH_FAILED
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}
