// SPDX-License-Identifier: MIT
// Special registers, each in every thread of several blocks, compared with plain C. On a GPU if
// there is one, and on the emulator in CI.
#include "rows.h"
#include "test.h"

#include <stdio.h>
// cmocka needs those headers before its own.

static struct rows rows;

// Each register's position in the table.
#define ROW(name, ...) AT_##name,
enum { PTX_SPECIAL_VECTORS(ROW) VECTORS };
enum { PTX_SPECIAL_SCALARS(ROW) SCALARS };
#undef ROW
#define ROW(name, ...) #name,
static const char *const vector_names[] = { PTX_SPECIAL_VECTORS(ROW) };
static const char *const scalar_names[] = { PTX_SPECIAL_SCALARS(ROW) };
#undef ROW
enum { THREADS = 64, BLOCKS = 3, REGISTERS = 3 * VECTORS + SCALARS };

// Each is read twice, to show that time passes.
static void emit_special(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const unsigned what = row->c.what;
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val thread = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(THREADS), tid);
    ptx_val place = ptx_mul(b, thread, ptx_u32(2));
    ptx_ptr to = ptx_at(b, out, place);

    (void)in;
    for (uint32_t k = 0; k < 2; k++) {
        ptx_val v = op_read_special(b, what);
        if (v.type != PTX_U64)
            v = ptx_cvt(b, PTX_U64, v);
        ptx_store(b, to, ptx_u32(k), v);
    }
}

static uint64_t vector_value(unsigned which, unsigned axis, unsigned block, unsigned t)
{
    switch (which) {
    case AT_tid:
        return axis ? 0 : t;
    case AT_ntid:
        return axis ? 1 : THREADS;
    case AT_ctaid:
    case AT_clusterid: // each block is a cluster
        return axis ? 0 : block;
    case AT_nctaid:
    case AT_nclusterid:
        return axis ? 1 : BLOCKS;
    case AT_cluster_ctaid:
        return 0;
    case AT_cluster_nctaid:
        return 1;
    default:
        fail_msg("a special register has no expectation in plain C");
        return 0;
    }
}

// The right value if there is only one; otherwise the value that was read, if it can be right.
static uint64_t scalar_value(unsigned which, unsigned t, uint64_t first, uint64_t second)
{
    const unsigned lane = t % 32;

    switch (which) {
    case AT_laneid:
        return lane;
    case AT_lanemask_eq:
        return 1u << lane;
    case AT_lanemask_lt:
        return (1u << lane) - 1;
    case AT_lanemask_le:
        return (2u << lane) - 1;
    case AT_lanemask_ge:
        return UINT32_MAX << lane;
    case AT_lanemask_gt:
        return (uint32_t)(UINT32_MAX << lane << 1);
    case AT_dynamic_smem_size:
    case AT_cluster_ctarank:
        return 0;
    case AT_cluster_nctarank:
        return 1;
    case AT_clock:
        assert_true((uint32_t)(second - first) < UINT32_MAX / 2);
        return first;
    case AT_clock64:
    case AT_globaltimer:
        assert_true(second >= first);
        return first;
    case AT_nwarpid:
        assert_true(first >= THREADS / 32);
        return first;
    case AT_nsmid:
        assert_true(first >= 1);
        return first;
    case AT_warpid: // less than the number of them
    case AT_smid:
    case AT_total_smem_size:
        assert_true(first < 1 << 20);
        return first;
    case AT_gridid:
        return first;
    default:
        fail_msg("a special register has no expectation in plain C");
        return 0;
    }
}

static void expect_special(struct rows *r, const struct row *row)
{
    const unsigned what = row->c.what;

    for (unsigned i = 0; i < BLOCKS * THREADS; i++) {
        const uint64_t first = rows_get(r->out, 8, 2 * i), second = rows_get(r->out, 8, 2 * i + 1);
        const unsigned which = what - 3 * VECTORS;
        const bool vector = what < 3 * VECTORS;
        const bool flows = !vector && which >= AT_clock && which <= AT_globaltimer;
        const uint64_t v = vector ? vector_value(what / 3, what % 3, i / THREADS, i % THREADS)
                                  : scalar_value(which, i % THREADS, first, second);
        rows_put(r->want, 8, 2 * i, v);
        rows_put(r->want, 8, 2 * i + 1, flows ? second : v);
    }
}

TEST(special_registers)
{
    static const struct row_test test = { emit_special, expect_special, NULL, .varies = true };
    static struct row list[REGISTERS];
    unsigned listed = 0;

    for (unsigned k = 0; k < REGISTERS; k++) {
        struct row *row = &list[listed];
        *row = (struct row) { .c = { .kind = CASE_WARP, .what = k },
                              .threads = THREADS,
                              .grid = BLOCKS };
        if (k < 3 * VECTORS)
            snprintf(row->name, sizeof row->name, "special %s.%c", vector_names[k / 3],
                     "xyz"[k % 3]);
        else
            snprintf(row->name, sizeof row->name, "special %s", scalar_names[k - 3 * VECTORS]);
        listed += rows_accepts(&rows, &test, row); // clusters need sm_90
    }
    rows_run(&rows, &test, list, listed);
    printf("%u rows\n", listed);
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}
