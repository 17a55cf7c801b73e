// SPDX-License-Identifier: MIT
// Kernels of Muon's products that step, too: parameters from what their last product leaves in
// shared memory, and of some chips momentum and update before the first.
#include "step_apply.h"

#include "muon_chip.h"
#include "muon_panel.h"
#include "step_matrix.h"
#include "step_tile.h"

// ---- a variant ----------------------------------------------------------------------------------

// What steps: a chip from its last product, or what is taken.
struct source {
    struct ptxk_muon_chip *chip; // NULL: taken
    const struct ptxk_muon_taken *taken;
};

static void variant_step(ptx_builder *b, const struct ptxk_tile *of, const struct source *from)
{
    const struct ptxk_step_variant second = ptxk_step_applied(of->variant);
    struct ptxk_tile s = *of;
    ptx_val matrix = ptx_sub(b, ptx_load(b, s.matrix_of, s.tensor), 1);

    s.variant = &second;
    s.blocks = NULL;
    s.address[ARRAY_STATE] = s.address[ARRAY_STATE + ptxk_step_rule_states(of->variant)];
    ptxk_step_scalars_read(b, &s, NULL);
    if (from->chip)
        ptxk_matrix_step_chip(b, &s, matrix, from->chip);
    else
        ptxk_matrix_step_taken(b, &s, matrix, from->taken);
}

// Of tensor s->tensor.
static void step(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_step_products *of,
                 const struct source *from)
{
    const struct ptxk_step_matrices variants = ptxk_step_matrices(s->spec);
    ptx_val variant;

    ptxk_step_tile_read(b, s, of->tensors, of->rows, &variant);
    for (unsigned k = variants.first; k < variants.first + variants.count; k++) {
        s->variant = &s->spec->variants[k];
        ptxk_step_comment(b, s->variant);
        if (variants.count == 1)
            variant_step(b, s, from);
        else
            ptx_if (b, ptx_eq(b, variant, k))
                variant_step(b, s, from);
    }
}

// ---- chips --------------------------------------------------------------------------------------

static void chip_first(ptx_builder *b, void *user, struct ptxk_muon_chip *chip)
{
    const struct ptxk_step_products *of = user;
    const struct ptxk_muon_chip_matrix m = ptxk_muon_chip_matrix(b, chip);
    struct ptxk_tile s = *of->s;

    ptx_comment(b, "the first product");
    ptx_if (b, ptx_eq(b, m.given, 0)) {
        ptx_comment(b, "of a matrix whose update another launch has left");
        ptxk_muon_chip_first(b, chip, NULL, NULL);
    }
    ptx_else (b) {
        ptx_comment(b, "of the update, which is computed here");
        const struct ptxk_matrix_update with = { of->tensors, of->rows };
        s.tensor = ptx_sub(b, m.taken, 1);
        ptxk_matrix_update_chip(b, &s, &with, chip);
    }
}

static void chip_last(ptx_builder *b, void *user, struct ptxk_muon_chip *chip)
{
    const struct ptxk_step_products *of = user;
    const ptx_val taken = ptxk_muon_chip_matrix(b, chip).taken;
    struct ptxk_tile s = *of->s;

    ptx_comment(b, "the last product, stepped from");
    ptx_if (b, ptx_eq(b, taken, 0)) {
        ptx_comment(b, "of a matrix that another launch steps");
        ptxk_muon_chip_last(b, chip, NULL, NULL);
    }
    ptx_else (b) {
        s.tensor = ptx_sub(b, taken, 1);
        s.index = ptx_u32(0);
        step(b, &s, of, &(struct source) { .chip = chip });
    }
}

// ---- what is taken ------------------------------------------------------------------------------

static ptx_val taken_tensor(ptx_builder *b, const struct ptxk_step_spec *spec, ptx_val taken)
{
    if (spec->takes_turned)
        taken = ptx_and(b, taken, STEP_TAKEN_TURNED - 1);
    return ptx_sub(b, taken, 1);
}

static void ahead(ptx_builder *b, void *user, const struct ptxk_muon_taken *from)
{
    const struct ptxk_step_products *of = user;
    struct ptxk_tile s = *of->s;

    s.tensor = taken_tensor(b, s.spec, from->taken);
    ptxk_matrix_taken_prefetch(b, &s, of->rows, from);
}

// The block goes on where nothing is to be written: what would end it is not executed.
static void take(ptx_builder *b, void *user, const struct ptxk_muon_taken *from)
{
    const struct ptxk_step_products *of = user;
    struct ptxk_tile s = *of->s;
    ptx_val has;

    s.tensor = taken_tensor(b, s.spec, from->taken);
    ptx_comment(b, "the first rows and columns count the step");
    ptx_val starts = ptx_eq(b, ptx_or(b, from->row, from->column), 0);
    s.index = ptx_select(b, starts, ptx_u32(0), 1);
    if (s.spec->accumulates) {
        has = ptxk_norm_has_accumulated(b, s.accumulators, s.tensor);
    } else {
        const uint32_t length = NORM_LENGTH(uint64_t, struct norm_tensor_row);
        has =
            ptx_ne(b, ptx_load(b, ptx_at(b, of->tensors, ptx_mul_wide(b, s.tensor, length)), 0), 0);
    }
    ptx_val found = ptxk_step_found(b, &s);
    ptx_if (b, ptx_and(b, has, ptx_eq(b, found, 0)))
        step(b, &s, of, &(struct source) { .taken = from });
}

// ---- entries ------------------------------------------------------------------------------------

void ptxk_step_products_body(ptx_builder *b, const struct ptxk_step_products *of, unsigned entry)
{
    struct ptxk_step_products user = *of;
    const struct ptxk_muon_ends ends = { chip_first, chip_last, &user };
    const struct ptxk_muon_takes takes = { ahead, take, &user };

    if (entry == MUON_CHIP_128)
        ptxk_muon_chip_emit_with(b, MUON_CHIP_MOST, &ends);
    else
        ptxk_muon_tiles_emit(b, entry == MUON_TILES ? MUON_TILE : MUON_SMALL, &takes);
}

const char *const ptxk_step_products_names[MUON_ENTRIES] = {
    [MUON_TILES] = "step_matrix_tiles",
    [MUON_CHIP_128] = "step_matrix_chips",
    [MUON_SMALL_TILES] = "step_matrix_tiles_64",
};

void ptxk_step_products_emit(ptx_builder *b, const struct norm_spec *norm, unsigned entry)
{
    const unsigned small = ptxk_muon_blocks(MUON_SMALL, ptxk_muon_has_groups(b));
    const struct {
        const char *comment;
        unsigned threads, blocks;
    } entries[MUON_ENTRIES] = {
        [MUON_TILES] = { "products of many matrices, and parameters from the last", MUON_THREADS,
                         2 },
        [MUON_CHIP_128] = { "a block for each matrix of 65 to 128 rows: momentum, products, "
                            "parameters",
                            MUON_CHIP_THREADS, 2 },
        [MUON_SMALL_TILES] = { "products of many matrices, and parameters from the last",
                               MUON_THREADS, small },
    };

    ptx_entry (b, ptxk_step_products_names[entry], .block = { entries[entry].threads },
               .min_blocks = entries[entry].blocks) {
        ptx_comment(b, "%s", entries[entry].comment);
        ptxk_step_products_with(b, norm, entry);
    }
}
