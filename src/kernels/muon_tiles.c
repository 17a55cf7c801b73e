// SPDX-License-Identifier: MIT
// All products of many matrices, in one launch. Blocks take tiles of 128 x 128 or of 64 x 64,
// slices of their depth, or bands of small ones, in the order of a table, in which a matrix's
// products follow one another; a tile waits until all of the products before it are done. It waits
// for tiles that were taken before it alone, so that some block always goes on, however many are
// resident. The last block of a tile to end adds up the slices in their order. Of a symmetric
// product the tiles below the diagonal are computed, and written on both sides.
#include "muon_tile.h"

#include "common/common.h"

enum { MOST_SUMS = 32 };

static struct shape shape_of(uint32_t side, bool groups)
{
    struct shape s = { .side = side, .bytes = side * MUON_DEPTH * 2, .groups = groups };

    s.stage = 2 * s.bytes;
    s.stages = ptxk_muon_stages(side, groups);
    s.copies = s.bytes / MUON_PIECE / MUON_THREADS;
    s.down = side / (groups ? 64 : 32);
    s.pairs = side / (groups ? 16 : 32);
    s.across = 2 * s.pairs;
    s.wide = side / (16 * s.pairs);
    s.sums = s.down * s.across;
    s.pitch = 2 * side + MUON_PIECE;
    s.row_pieces = side / 8;
    s.rows_apart = MUON_THREADS / s.row_pieces;
    s.partial = side * side * 4;
    s.in_square = MUON_TILE / side;
    return s;
}

// What all blocks take their tiles from.
struct queue {
    const struct shape *shape;
    ptx_ptr products, tiles, turns, done; // global
    ptx_val tiles_count, matrices, tid, shared;
    ptx_ptr turn; // shared: the block's next tile
    ptx_val next; // of thread 0: that one, while the tile before it is computed
};

// ---- the tables ---------------------------------------------------------------------------------

static ptx_ptr tile_at(ptx_builder *b, const struct queue *q, ptx_val turn)
{
    return ptx_at(b, q->tiles, ptx_mul_wide(b, turn, sizeof(struct muon_tile) / 4));
}

static struct tile read_tables(ptx_builder *b, const struct queue *q, ptx_val turn)
{
    struct tile t = { .shape = q->shape, .tid = q->tid, .shared = q->shared };

    ptx_comment(b, "the tile, and the product that it belongs to");
    ptx_ptr own = tile_at(b, q, turn);
    ptx_val product = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, product));
    const uint32_t length = sizeof(struct muon_product) / 8;
    t.product = ptx_at(b, q->products, ptx_mul_wide(b, product, length));
    ptx_val row = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, row));
    ptx_val column = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, column));
    t.slice = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, slice));
    t.place = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, place));
    t.row = ptx_mul(b, row, q->shape->side);
    t.column = ptx_mul(b, column, q->shape->side);
    t.aside = ptx_ne(b, row, column);
    t.off_diagonal = t.aside;
    if (t.shape->in_square > 1) {
        const uint32_t square = t.shape->in_square;
        t.off_diagonal = ptx_ne(b, ptxk_over_power_of_two(b, row, square),
                                ptxk_over_power_of_two(b, column, square));
    }
    ptx_comment(b, "the product");
    t.a = ADDRESS(a);
    t.b = ADDRESS(b);
    t.e = ADDRESS(e);
    t.rows = NUMBER(rows);
    t.columns = NUMBER(columns);
    t.pitch_a = NUMBER(pitch_a);
    t.pitch_b = NUMBER(pitch_b);
    t.depth = NUMBER(depth);
    t.across = ptx_ne(b, NUMBER(across), 0);
    t.symmetric = ptx_ne(b, NUMBER(symmetric), 0);
    t.two = ptx_or(b, t.aside, ptx_not(b, t.symmetric));
    t.slices = NUMBER(slices);
    ptx_val slice = ptx_mul(b, NUMBER(slice), 2);
    t.begin = ptx_mul(b, t.slice, slice);
    t.end = ptx_min(b, ptx_add(b, t.begin, slice), t.depth);
    return t;
}

// ---- copies -------------------------------------------------------------------------------------

// A tile's rows of 64 columns of A or B^T, from `depth` bytes on. Rows past the last are the last:
// nothing of them is written. Pieces past the depth are 0.
static void copy_rows(ptx_builder *b, const struct tile *t, ptx_val from, ptx_val first,
                      ptx_val rows, ptx_val pitch, ptx_val depth, ptx_val to)
{
    enum { STEP = MUON_THREADS / 8 };
    ptx_val piece = ptx_and(b, t->tid, 7), own = ptx_shr(b, t->tid, 3);
    ptx_val at = ptx_mad(b, piece, MUON_PIECE, depth), inside = ptx_lt(b, at, t->end);
    ptx_val taken = ptx_select(b, inside, ptx_u32(MUON_PIECE), ptx_u32(0));
    at = ptx_select(b, inside, at, ptx_u32(0));
    ptx_val row = ptx_add(b, first, own), last = ptx_sub(b, rows, 1);
    ptx_val source = ptx_add(b, from, ptx_cvt(b, PTX_U64, at));
    ptx_ptr target = ptxk_muon_shared_at(b, ptx_add(b, to, ptxk_muon_piece(b, own, piece)));

    for (unsigned k = 0; k < t->shape->copies; k++) {
        if (k % 2 == 0)
            ptx_comment(b, "copies from row %u on", k * STEP);
        ptx_val here = ptx_min(b, ptx_add(b, row, k * STEP), last);
        ptx_ptr there = ptxk_muon_global(b, PTX_F16, ptx_mad_wide(b, here, pitch, source));
        ptx_cp_async(b, ptx_at(b, target, k * STEP * MUON_DEPTH), there, 16, .taken = taken,
                     .bypass = true);
    }
}

// Begins to copy the tile of E into a stage. Outside of E another row or piece of it is taken: what
// becomes of it is not written.
static void copy_addend(ptx_builder *b, const struct tile *t, ptx_val to)
{
    struct part p = ptxk_muon_part_of(b, t);
    const uint32_t in_product = MUON_PLACE(uint32_t, muon_product, pitch_c);
    ptx_val pitch = ptxk_muon_word(b, t->product, PTX_U32, in_product),
            last = ptx_sub(b, t->rows, 1);
    ptx_val at = ptx_min(b, p.at, ptx_sub(b, pitch, MUON_PIECE));
    ptx_val source = ptx_add(b, t->e, ptx_cvt(b, PTX_U64, at));
    ptx_val place = ptxk_muon_place_of_addend(b, t, p.row, p.piece);
    ptx_ptr target = ptxk_muon_shared_at(b, ptx_add(b, to, place));

    ptx_comment(b, "E, into the stage that no panel needs");
    ptx_val row = ptx_add(b, t->row, p.row);
    for (unsigned k = 0; k < t->shape->side; k += t->shape->rows_apart) {
        if (k / t->shape->rows_apart % 4 == 0)
            ptx_comment(b, "copies from row %u on", k);
        ptx_val here = ptx_min(b, ptx_add(b, row, k), last);
        ptx_ptr from = ptxk_muon_global(b, PTX_F16, ptx_mad_wide(b, here, pitch, source));
        ptx_cp_async(b, ptx_at(b, target, k * t->shape->side), from, 16, .bypass = true);
    }
}

// Whether E is to be copied, and where it is else. Panels of 64 rows and columns are as a tile of
// it: where E is A or B, and the stages have all of the depth, it is in one of them.
struct addend {
    ptx_val wanted, place;
};

static struct addend addend_of(ptx_builder *b, const struct tile *t)
{
    const struct shape *s = t->shape;
    ptx_val has = ptx_ne(b, t->e, 0);

    if (!s->groups || s->side != MUON_DEPTH)
        return (struct addend) { has, t->shared };
    ptx_comment(b, "E: a panel of A or B, or copied");
    ptx_val is_a = ptx_eq(b, t->e, t->a), is_b = ptx_eq(b, t->e, t->b);
    ptx_val stays = ptx_le(b, t->depth, s->stages * MUON_ROW);
    stays = ptx_and(b, stays, ptx_or(b, is_a, is_b));
    ptx_val panel = ptxk_over_power_of_two(b, ptx_select(b, is_a, t->column, t->row), MUON_DEPTH);
    ptx_val in_stage = ptx_select(b, is_a, ptx_u32(0), ptx_u32(s->bytes));
    ptx_val place = ptx_add(b, ptx_mad(b, panel, s->stage, t->shared), in_stage);
    return (struct addend) { ptx_and(b, has, ptx_not(b, stays)), place };
}

void ptxk_muon_copy_a(ptx_builder *b, const struct tile *t, ptx_val depth, ptx_val to)
{
    copy_rows(b, t, t->a, t->row, t->rows, t->pitch_a, depth, to);
}

// 64 rows of the tile's columns, as one panel or two.
void ptxk_muon_copy_columns(ptx_builder *b, const struct tile *t, ptx_val first, ptx_val to)
{
    struct part p = ptxk_muon_part_of(b, t);
    ptx_val most = ptx_sub(b, t->pitch_b, MUON_PIECE), count = ptx_shr(b, t->depth, 1);
    ptx_val column = ptx_min(b, p.at, most);
    ptx_val source = ptx_add(b, t->b, ptx_cvt(b, PTX_U64, column));
    ptx_val panel = ptx_mul(b, ptx_shr(b, p.piece, 3), MUON_DEPTH * MUON_ROW);
    ptx_val in_panel = ptxk_muon_piece(b, p.row, ptx_and(b, p.piece, 7));
    ptx_ptr target = ptxk_muon_shared_at(b, ptx_add(b, to, ptx_add(b, panel, in_panel)));
    ptx_val last = ptx_sub(b, ptx_min(b, count, t->rows), 1);

    ptx_val row = ptx_add(b, p.row, ptx_shr(b, first, 1));
    for (unsigned k = 0; k < MUON_DEPTH; k += t->shape->rows_apart) {
        if (k / t->shape->rows_apart % 2 == 0)
            ptx_comment(b, "copies from row %u on", k);
        ptx_val here = ptx_min(b, ptx_add(b, row, k), last);
        ptx_ptr from = ptxk_muon_global(b, PTX_F16, ptx_mad_wide(b, here, t->pitch_b, source));
        ptx_cp_async(b, ptx_at(b, target, k * MUON_DEPTH), from, 16, .bypass = true);
    }
}

// Begins to copy a stage if there is one.
static void copy_panels(ptx_builder *b, const struct tile *t, bool across, ptx_val depth,
                        ptx_val stage)
{
    ptx_if (b, ptx_lt(b, depth, t->end)) {
        ptx_comment(b, "a stage: its part of A");
        ptxk_muon_copy_a(b, t, depth, stage);
        ptx_comment(b, "its part of B");
        if (across)
            ptxk_muon_copy_columns(b, t, depth, ptx_add(b, stage, t->shape->bytes));
        else
            ptx_if (b, t->two)
                copy_rows(b, t, t->b, t->column, t->columns, t->pitch_b, depth,
                          ptx_add(b, stage, t->shape->bytes));
    }
}

// And makes a group of the copies.
static void copy_stage(ptx_builder *b, const struct tile *t, bool across, ptx_val depth,
                       ptx_val stage)
{
    copy_panels(b, t, across, depth, stage);
    ptx_cp_async_commit(b);
}

// The stages that are read before another is free.
static void copy_first(ptx_builder *b, const struct tile *t, bool across)
{
    ptx_comment(b, across ? "sums of A B: B by its rows" : "sums of A B^T: B by its columns");
    for (unsigned k = 0; k < t->shape->stages - 1; k++) {
        ptx_val depth = ptx_add(b, t->begin, k * MUON_ROW);
        copy_stage(b, t, across, depth, ptx_add(b, t->shared, k * t->shape->stage));
    }
}

// Copies into the stage that is free: what comes so much later, or E behind all of it.
static void copy_next(ptx_builder *b, const struct tile *t, bool across, ptx_val depth,
                      ptx_val filled)
{
    const bool all_at_first = t->shape->groups;
    ptx_val next_depth = ptx_add(b, depth, (t->shape->stages - 1) * MUON_ROW);

    if (across)
        ptx_if (b, ptx_and(b, t->wanted, ptx_ge(b, next_depth, t->end))) {
            copy_addend(b, t, filled);
            ptx_set(b, t->addend, filled);
            ptx_set(b, t->wanted, ptx_bool(false));
        }
    if (all_at_first) {
        ptx_if (b, ptx_gt(b, depth, t->begin))
            copy_panels(b, t, across, next_depth, filled);
        ptx_cp_async_commit(b);
    } else {
        copy_stage(b, t, across, next_depth, filled);
    }
}

// Where the part of B is in a stage.
static ptx_val right_of(ptx_builder *b, const struct tile *t, bool across)
{
    ptx_val right = ptx_u32(t->shape->bytes);

    return across ? right : ptx_select(b, t->two, right, ptx_u32(0));
}

// The warps wait for the products of a stage while those of the next one are under way. At first
// all stages are free: the last one is in the group that the first turn of the loop makes.
static void sum_by_group(ptx_builder *b, const struct tile *t, const struct muon_warp *warp,
                         bool across, const ptx_fragment *sums)
{
    ptx_val end = ptx_add(b, t->shared, t->shape->stages * t->shape->stage);
    ptx_val read = ptx_var(b, t->shared);
    ptx_val filled = ptx_var(b, ptx_sub(b, end, t->shape->stage));
    copy_first(b, t, across);
    copy_panels(b, t, across, ptx_add(b, t->begin, (t->shape->stages - 1) * MUON_ROW), filled);
    ptx_val right = right_of(b, t, across);
    ptx_for (b, depth, t->begin, t->end, MUON_ROW) {
        ptx_cp_async_wait(b, t->shape->stages - 2);
        ptx_comment(b, "a panel of 64 of the depth: it is there for all");
        ptxk_muon_group_sees(b);
        ptx_barrier(b);
        ptxk_muon_group_add(b, warp, read, ptx_add(b, read, right), across, sums);
        ptx_comment(b, "all have multiplied the one before it");
        ptxk_muon_group_wait(b, 1);
        ptx_barrier(b);
        copy_next(b, t, across, depth, filled);
        ptx_set(b, filled, read);
        ptx_val next = ptx_add(b, read, t->shape->stage);
        ptx_set(b, read, ptx_select(b, ptx_eq(b, next, end), t->shared, next));
    }
    ptxk_muon_group_wait(b, 0);
    ptx_cp_async_wait_all(b);
}

static void sum(ptx_builder *b, const struct tile *t, const struct muon_warp *warp, bool across,
                const struct muon_part part[2], ptx_fragment *sums)
{
    copy_first(b, t, across);
    // A warp whose part is outside of the matrix multiplies nothing.
    ptx_val has_rows = ptx_lt(b, ptx_add(b, t->row, warp->row), t->rows);
    ptx_val has = ptx_and(b, has_rows, ptx_lt(b, ptx_add(b, t->column, warp->column), t->columns));
    ptx_val end = ptx_add(b, t->shared, t->shape->stages * t->shape->stage);
    ptx_val read = ptx_var(b, t->shared);
    ptx_val filled = ptx_var(b, ptx_add(b, t->shared, (t->shape->stages - 1) * t->shape->stage));
    ptx_val right = right_of(b, t, across);
    ptx_comment(b, "the first stage, and its first part");
    ptx_cp_async_wait(b, t->shape->stages - 2);
    ptx_barrier(b);
    ptx_if (b, has)
        ptxk_muon_load_var(b, warp, read, ptx_add(b, read, right), across, 0, &part[0]);
    ptx_for (b, depth, t->begin, t->end, MUON_ROW) {
        copy_next(b, t, across, depth, filled);
        ptx_comment(b, "a panel of 64 of the depth: each part is loaded before the last is used");
        ptx_val beside = ptx_add(b, read, right);
        ptx_if (b, has)
            for (unsigned step = 0; step + 1 < MUON_STEPS; step++) {
                const struct muon_part *next = &part[(step + 1) % 2];
                ptxk_muon_load_var(b, warp, read, beside, across, step + 1, next);
                ptxk_muon_add(b, warp, &part[step % 2], sums);
            }
        ptx_cp_async_wait(b, t->shape->stages - 2);
        ptx_comment(b, "the next stage is there for all, and all have read the one filled next");
        ptx_barrier(b);
        ptx_set(b, filled, read);
        ptx_val next = ptx_add(b, read, t->shape->stage);
        ptx_set(b, read, ptx_select(b, ptx_eq(b, next, end), t->shared, next));
        beside = ptx_add(b, read, right);
        ptx_if (b, has) {
            ptxk_muon_load_var(b, warp, read, beside, across, 0, &part[0]);
            ptxk_muon_add(b, warp, &part[(MUON_STEPS - 1) % 2], sums);
        }
    }
    ptx_cp_async_wait_all(b);
}

// ---- turns --------------------------------------------------------------------------------------

static struct queue queue_params(ptx_builder *b, const struct shape *shape)
{
    struct queue q = { .shape = shape, .tid = ptx_tid(b, PTX_X) };

    q.products = ptx_param_ptr(b, PTX_U64, "products", .readonly = true,
                               .meaning = "rows of struct muon_product");
    q.tiles = ptx_param_ptr(b, PTX_U32, "tiles", .readonly = true,
                            .meaning = "rows of struct muon_tile, in the order of their turns");
    q.turns = ptx_param_ptr(b, PTX_U32, "turns", .length = "2",
                            .meaning = "turns taken, blocks that have ended; 0 before and after");
    q.done = ptx_param_ptr(b, PTX_U32, "done",
                           .meaning = "a matrix's tiles that are done; 0 before and after");
    q.tiles_count = ptx_param(b, PTX_U32, "tile_count");
    q.matrices = ptx_param(b, PTX_U32, "matrix_count");
    q.shared = ptxk_muon_dynamic(b);
    ptx_val behind = ptx_add(b, q.shared, shape->stages * shape->stage);
    q.turn = ptx_ptr_cast(b, PTX_U32, ptxk_muon_shared_at(b, behind));
    q.next = ptx_var(b, ptx_u32(0));
    return q;
}

// Executed by thread 0.
static ptx_val take_turn(ptx_builder *b, const struct queue *q)
{
    return ptx_atomic_add(b, q->turns, 0, 1);
}

// Waits until the products before the tile's are done, and takes the turn after it.
static void wait_for_others(ptx_builder *b, const struct queue *q, const struct tile *t)
{
    ptx_val matrix = NUMBER_OF(t, matrix), needed = NUMBER_OF(t, needed);

    ptx_if (b, ptx_eq(b, q->tid, 0)) {
        ptx_comment(b, "until the products before it are done");
        ptx_ptr done = ptx_at(b, q->done, matrix);
        ptx_loop (b) {
            ptx_val now = ptx_load(b, done, 0, .order = PTX_ORDER_ACQUIRE, .scope = PTX_SCOPE_GPU);
            ptx_break_if(b, ptx_ge(b, now, needed));
        }
        ptx_set(b, q->next, take_turn(b, q));
    }
    ptx_barrier(b);
}

// Executed by all threads: says that the tile is done, and hands on the next turn.
static void tell_others(ptx_builder *b, const struct queue *q, const struct tile *t, ptx_val done)
{
    ptx_val matrix = t->matrix.kind ? t->matrix : NUMBER_OF(t, matrix);

    ptx_barrier(b);
    ptx_if (b, ptx_eq(b, q->tid, 0)) {
        ptx_store(b, q->turn, 0, q->next);
        ptx_if (b, done) {
            ptx_comment(b, "what the block has written comes before it");
            ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
            ptx_atomic(b, PTX_ATOMIC_add, ptx_at(b, q->done, matrix), 0, 1,
                       .order = PTX_ORDER_RELAXED, .scope = PTX_SCOPE_GPU);
        }
    }
}

// The last block to end leaves the counters as they were.
static void end_queue(ptx_builder *b, const struct queue *q)
{
    ptx_if (b, ptx_eq(b, q->tid, 0)) {
        ptx_val before = ptx_atomic(b, PTX_ATOMIC_add, q->turns, 1, 1, .order = PTX_ORDER_ACQ_REL,
                                    .scope = PTX_SCOPE_GPU);
        ptx_val last = ptx_eq(b, ptx_add(b, before, 1), ptx_nctaid(b, PTX_X));
        ptx_store(b, q->turn, 0, ptx_select(b, last, ptx_u32(1), ptx_u32(0)));
    }
    ptx_barrier(b);
    ptx_if (b, ptx_ne(b, ptx_load(b, q->turn, 0), 0)) {
        ptx_comment(b, "the last block to end: counters become 0");
        ptx_if (b, ptx_lt(b, q->tid, 2))
            ptx_store(b, q->turns, q->tid, ptx_u32(0));
        ptx_for (b, k, q->tid, q->matrices, MUON_THREADS)
            ptx_store(b, q->done, k, ptx_u32(0));
    }
}

// One tile, or a slice of its depth. Returns whether it is done: a predicate.
static ptx_val compute(ptx_builder *b, struct tile *t, const struct muon_warp *warp,
                       const struct muon_part part[2], ptx_fragment *sums,
                       const struct ptxk_muon_takes *takes)
{
    ptx_if (b, t->across) {
        if (t->shape->groups)
            sum_by_group(b, t, warp, true, sums);
        else
            sum(b, t, warp, true, part, sums);
    }
    ptx_else (b) {
        if (t->shape->groups)
            sum_by_group(b, t, warp, false, sums);
        else
            sum(b, t, warp, false, part, sums);
    }
    ptx_val finishes = ptxk_muon_add_slices(b, t, sums);
    ptx_if (b, finishes)
        ptxk_muon_finish_tile(b, t, warp, sums, takes);
    return finishes;
}

void ptxk_muon_tiles_emit(ptx_builder *b, uint32_t side, const struct ptxk_muon_takes *takes)
{
    const struct shape shape = shape_of(side, ptxk_muon_has_groups(b));
    ptxk_muon_lead(b);
    struct queue q = queue_params(b, &shape);
    const uint32_t panel = MUON_DEPTH * MUON_ROW;
    struct muon_warp warp = shape.groups
                                ? ptxk_muon_group(b, shape.down, shape.pairs, panel)
                                : ptxk_muon_warp(b, shape.down, shape.pairs, shape.wide, panel);
    ptx_fragment sums[MOST_SUMS];
    struct muon_part part[2];

    ptxk_muon_zero(b, &warp, sums, true);
    for (unsigned k = 0; k < 2 && !shape.groups; k++)
        ptxk_muon_part_var(b, &warp, &part[k]);
    ptx_if (b, ptx_eq(b, q.tid, 0))
        ptx_store(b, q.turn, 0, take_turn(b, &q));
    ptx_loop (b) {
        ptx_comment(b, "the block's next tile; all have left the last one");
        ptx_barrier(b);
        ptx_val turn = ptx_load(b, q.turn, 0);
        ptx_break_if(b, ptx_ge(b, turn, q.tiles_count));
        struct tile t = read_tables(b, &q, turn);
        ptxk_muon_zero(b, &warp, sums, false);
        const struct addend e = addend_of(b, &t);
        t.wanted = ptx_var(b, e.wanted);
        t.addend = ptx_var(b, e.place);
        if (side == MUON_SMALL) {
            t.matrix = NUMBER_OF(&t, matrix);
            ptxk_muon_read_rest(b, &t);
        }
        if (takes) {
            ptx_val taken = NUMBER_OF(&t, taken);
            ptx_if (b, ptx_ne(b, taken, 0)) {
                const struct ptxk_muon_taken from = ptxk_muon_taken_of(&t, taken);
                takes->ahead(b, takes->user, &from);
            }
        }
        wait_for_others(b, &q, &t);
        ptx_val done;
        if (shape.groups && side == MUON_SMALL) {
            done = ptx_var(b, ptx_bool(true));
            ptx_val band = ptx_load(b, tile_at(b, &q, turn), MUON_PLACE(uint32_t, muon_tile, band));
            ptx_if (b, ptx_ne(b, band, 0))
                ptxk_muon_band_emit(b, &t, band, &warp, sums, takes);
            ptx_else (b)
                ptx_set(b, done, compute(b, &t, &warp, part, sums, takes));
        } else {
            done = compute(b, &t, &warp, part, sums, takes);
        }
        tell_others(b, &q, &t, done);
    }
    ptx_barrier(b);
    end_queue(b, &q);
    ptxk_muon_follow(b);
}
