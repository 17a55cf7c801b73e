// SPDX-License-Identifier: MIT
// Products by a warpgroup, four warps, which the tensor cores of sm_90a read from panels themselves
// while the warps go on. A panel's permuted rows are what PTX calls a swizzle of 128 bytes.
#include "muon_panel.h"

#include <stdio.h>

enum {
    ROWS = 64,        // of an instruction's product
    STEP = 16,        // of its depth
    EIGHT = 8,        // rows of a panel that are permuted alike
    LAST = 4,         // fields of the matrices that the instruction takes, in units of 16 bytes
    NEXT_SHIFT = 16,  // between panels beside each other
    EIGHT_SHIFT = 32, // between rows and the next eight
    SWIZZLE_SHIFT = 62,
};

bool ptxk_muon_has_groups(const ptx_builder *b)
{
    const struct ptx_target target = ptx_builder_target(b);

    return target.sm == 90 && target.suffix == 'a';
}

struct muon_warp ptxk_muon_group(ptx_builder *b, unsigned down, unsigned across, uint32_t panel)
{
    ptx_comment(b, "a warp has 16 rows of each 64, and all columns");
    ptx_val row = ptx_mul(b, ptx_shr(b, ptx_tid(b, PTX_X), 5), STEP);

    return (struct muon_warp) { .down = down,
                                .across = across,
                                .apart = ROWS,
                                .panel = panel,
                                .row = row,
                                .adds = ptx_var(b, ptx_bool(true)) };
}

// How an instruction finds a matrix: where it begins, and how it goes on.
static ptx_val matrix_at(ptx_builder *b, ptx_val at, uint32_t next)
{
    const uint64_t layout = (uint64_t)next >> LAST << NEXT_SHIFT |
                            (uint64_t)(EIGHT * MUON_ROW) >> LAST << EIGHT_SHIFT |
                            UINT64_C(1) << SWIZZLE_SHIFT;

    return ptx_add(b, ptx_cvt(b, PTX_U64, ptx_shr(b, at, LAST)), ptx_u64(layout));
}

// 64 rows of the product. A is in shared memory, or in registers.
struct left {
    ptx_val at;
    bool turned;
    const ptx_vec *kept;
};

static void multiply(ptx_builder *b, struct left left, ptx_val right, ptx_val adds, bool across,
                     unsigned columns, const ptx_fragment *sums)
{
    struct ptx_asm_params p = {
        .isa = 80, .sm = 90, .suffix = 'a', .reads = PTX_MEMORY_SHARED, .writes = PTX_MEMORY_NONE
    };
    const unsigned count = columns / 2;
    unsigned in = 0;
    char text[1024];
    int length = snprintf(text, sizeof text, "wgmma.mma_async.sync.aligned.m64n%uk16.f32.f16.f16 {",
                          columns);

    for (unsigned k = 0; k < count; k++) {
        const ptx_vec words = ptx_fragment_words(b, sums[k / 4]);
        p.inout[k] = words.lane[k % 4];
        length += snprintf(text + length, sizeof text - (size_t)length, k ? ", %%%u" : "%%%u", k);
    }
    for (unsigned k = 0; k < 4 && left.kept; k++)
        p.in[in++] = left.kept->lane[k];
    if (!left.kept)
        p.in[in++] = left.at;
    p.in[in] = right;
    p.in[in + 1] = adds;
    if (left.kept)
        snprintf(text + length, sizeof text - (size_t)length,
                 "}, {%%%u, %%%u, %%%u, %%%u}, %%%u, %%%u, 1, 1, %d;", count, count + 1, count + 2,
                 count + 3, count + 4, count + 5, across);
    else
        snprintf(text + length, sizeof text - (size_t)length, "}, %%%u, %%%u, %%%u, 1, 1, %d, %d;",
                 count, count + 1, count + 2, left.turned, across);
    p.text = text;
    ptx_asm_emit(b, p);
}

static void text_of(ptx_builder *b, const char *text)
{
    ptx_asm(b, text, .isa = 80, .sm = 90, .suffix = 'a');
}

// `turned`: the panels of A are rows of A^T.
static void add(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                bool turned, bool across, const ptx_fragment *sums)
{
    const uint32_t below = turned ? warp->panel : ROWS * MUON_ROW;
    const unsigned columns = STEP * warp->across;
    // A step is 16 columns of a panel, or 16 rows of one of B.
    const uint32_t in_columns = STEP * 2 >> LAST, in_rows = STEP * MUON_ROW >> LAST;
    ptx_val a[2], to = matrix_at(b, right, across ? warp->panel : STEP);

    for (unsigned m = 0; m < warp->down; m++)
        a[m] = matrix_at(b, m ? ptx_add(b, left, m * below) : left, turned ? warp->panel : STEP);
    ptx_comment(b, "registers are as they were set; the products begin");
    text_of(b, "wgmma.fence.sync.aligned;");
    for (unsigned step = 0; step < MUON_STEPS; step++) {
        ptx_val of_b = to;
        if (step)
            of_b = ptx_add(b, to, ptx_u64(step * (across ? in_rows : in_columns)));
        for (unsigned m = 0; m < warp->down; m++) {
            ptx_val of_a = a[m];
            if (step)
                of_a = ptx_add(b, of_a, ptx_u64(step * (turned ? in_rows : in_columns)));
            ptx_comment(b, "columns %u to %u, rows from %u on", step * STEP, step * STEP + STEP - 1,
                        m * ROWS);
            multiply(b, (struct left) { of_a, turned, NULL }, of_b, warp->adds, across, columns,
                     &sums[m * columns / 8]);
        }
    }
    text_of(b, "wgmma.commit_group.sync.aligned;");
}

void ptxk_muon_group_add(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                         bool across, const ptx_fragment *sums)
{
    add(b, warp, left, right, false, across, sums);
}

void ptxk_muon_group_add_turned(ptx_builder *b, const struct muon_warp *warp, ptx_val left,
                                ptx_val right, const ptx_fragment *sums)
{
    add(b, warp, left, right, true, true, sums);
}

void ptxk_muon_group_add_kept(ptx_builder *b, const struct muon_warp *warp,
                              const ptx_vec left[MUON_STEPS], ptx_val right,
                              const ptx_fragment *sums)
{
    ptx_val to = matrix_at(b, right, warp->panel);

    ptx_comment(b, "registers are as they were set; the products begin");
    text_of(b, "wgmma.fence.sync.aligned;");
    for (unsigned step = 0; step < MUON_STEPS; step++) {
        ptx_val of_b = step ? ptx_add(b, to, ptx_u64(step * (STEP * MUON_ROW >> LAST))) : to;
        multiply(b, (struct left) { .kept = &left[step] }, of_b, warp->adds, true,
                 STEP * warp->across, sums);
    }
    text_of(b, "wgmma.commit_group.sync.aligned;");
}

void ptxk_muon_group_sees(ptx_builder *b)
{
    ptx_asm(b, "fence.proxy.async.shared::cta;", .isa = 80, .sm = 90);
}

void ptxk_muon_group_wait(ptx_builder *b, unsigned most)
{
    text_of(b, most ? "wgmma.wait_group.sync.aligned 1;" : "wgmma.wait_group.sync.aligned 0;");
}
