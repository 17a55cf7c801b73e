// SPDX-License-Identifier: MIT
// Steps of matrices in tiles of 128 x 128: the block keeps the weights that it writes in shared
// memory, and makes their codes in blocks of these; or it keeps their codes, and transposes these.
#include "step_fp8_blocks.h"

#include "norm_parts.h"
#include "step_tile.h"

enum {
    TILE = STEP_CODES_TILE,
    EACH = STEP_CODES_EACH,
    KEPT = STEP_FP8_SHARED_WORDS, // where the weights are, in words, if nothing is read ahead
    OF_F32 = 0xf,                 // kinds of codes
};

// Where tiles are whole, a block of twice as many threads has its multiprocessor alone: what tiles
// write beside each other then lies near in time. Else two blocks share it. Where that has 228 KiB
// of shared memory, there is room for what threads have read ahead, in the place of the codes.
// Where the scale of codes is known, no weights are kept: four times as many threads have as many
// rows under way.
enum { AHEAD = 48 * 1024 }; // of NORM_BLOCK threads

_Static_assert(AHEAD >= KEPT * sizeof(float), "the codes");
_Static_assert(AHEAD >= (PTX_STEP_MAX_STATES + 1) * EACH * sizeof(float) * NORM_BLOCK, "a row");

// Whether they make transposed codes, in place of codes in blocks: all of a plan or none.
static bool turns(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].square && spec->variants[k].copy)
            return true;
    return false;
}

static unsigned threads_of(const struct ptxk_step_spec *spec)
{
    if (turns(spec))
        return 4 * NORM_BLOCK;
    return spec->squares_whole ? 2 * NORM_BLOCK : NORM_BLOCK;
}

static uint32_t warps_of(const struct ptxk_tile *s)
{
    return threads_of(s->spec) / WARP;
}

static uint32_t room_ahead(const struct ptxk_step_spec *spec, int sm)
{
    return sm >= 90 && sm < 120 && !turns(spec) ? AHEAD / NORM_BLOCK * threads_of(spec) : 0;
}

// Where tiles are whole and blocks are of 1 x 128, a warp steps adjacent rows, and makes their
// codes while others still step: warps write at different times. The largest of columns then have
// a place of their own.
static bool has_own_rows(const struct ptxk_step_spec *spec, int sm)
{
    return spec->squares_whole && room_ahead(spec, sm) &&
           ptxk_step_fp8_has_lines(spec->fp8_blocks & OF_F32);
}

// In words.
static uint32_t of_warps_at(const struct ptxk_step_spec *spec, int sm)
{
    return has_own_rows(spec, sm) ? room_ahead(spec, sm) / sizeof(float) : 0;
}

static uint32_t kept_at(const struct ptxk_step_spec *spec, int sm)
{
    const uint32_t room = room_ahead(spec, sm);

    if (has_own_rows(spec, sm))
        return of_warps_at(spec, sm) + threads_of(spec) / WARP * TILE;
    return room ? room / sizeof(float) : KEPT;
}

uint32_t ptxk_step_square_shared(const struct norm_spec *norm, int sm)
{
    const uint32_t kept = turns(norm->own) ? STEP_CODES_WORDS : TILE * TILE;

    return (kept_at(norm->own, sm) + kept) * sizeof(float);
}

unsigned ptxk_step_square_threads(const struct norm_spec *norm)
{
    return threads_of(norm->own);
}

bool ptxk_step_has_squares(const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;

    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].square)
            return true;
    return false;
}

struct ptxk_step_square_tables ptxk_step_square_params(ptx_builder *b)
{
    ptx_ptr tiles = ptxk_step_fp8_tiles_param(b, "square_tiles");

    return (struct ptxk_step_square_tables) { tiles, ptxk_step_fp8_matrices_param(b) };
}

ptx_val ptxk_step_square_read(ptx_builder *b, struct ptxk_tile *s,
                              const struct ptxk_step_square_tables *tables)
{
    struct ptxk_step_blocks_tile *t = s->square;

    t->turns = turns(s->spec);
    t->tile.threads = threads_of(s->spec);
    t->tile.tid = s->tid;
    t->tile.lane = ptx_and(b, s->tid, WARP - 1);
    t->tile.warp = ptx_shr(b, s->tid, ptxk_log2(WARP));
    return ptxk_step_fp8_tile_read(b, t, tables->tiles, tables->matrices, s->place);
}

void ptxk_step_square_place(ptx_builder *b, struct ptxk_tile *s, ptx_val index)
{
    struct ptxk_step_blocks_tile *t = s->square;
    struct ptxk_codes *tile = &t->tile;
    const int sm = ptx_builder_target(b).sm;

    ptxk_codes_place(b, tile, index);
    s->tensor_first = ptx_mad(b, tile->row, tile->columns, tile->column);
    ptx_val above = ptx_sub(b, tile->height, 1);
    ptx_val before = ptx_mul(b, above, ptx_cvt(b, PTX_U32, tile->columns));
    s->length = ptx_bitcast(b, PTX_S32, ptx_add(b, before, tile->width));
    ptx_ptr shared = ptx_shared_dynamic(b, PTX_F32);
    tile->shared = ptx_ptr_cast(b, PTX_B32, shared);
    if (ptxk_step_notes(s))
        s->several = ptx_gt(b, ptx_mul(b, tile->downs, tile->rights), 1);
    t->kept = ptx_at(b, shared, kept_at(s->spec, sm));
    if (t->turns) {
        t->kept = ptx_ptr_cast(b, PTX_B32, t->kept);
        t->left = ptx_var(b, ptx_bool(false));
        return;
    }
    t->of_warps = ptx_at(b, shared, of_warps_at(s->spec, sm));
    t->has_own = has_own_rows(s->spec, sm);
    for (unsigned n = 0; n < EACH; n++)
        t->largest[n] = ptx_var(b, ptx_f32(0));
    s->stages = ptx_ptr_cast(b, PTX_U32, shared);
}

// ---- rows that are read ahead -------------------------------------------------------------------

static unsigned vector_bytes(const struct ptxk_step_variant *v, unsigned array)
{
    return EACH * ptx_type_bytes(ptxk_step_array_type(v, array));
}

// `room`: in bytes of shared memory.
static struct ptxk_step_square_ring ring_of(const struct ptxk_step_variant *v, unsigned threads,
                                            uint32_t room)
{
    enum { MOST = 4 };
    struct ptxk_step_square_ring r = { .bytes = 0 };

    for (unsigned a = 0; a < ARRAYS; a++) {
        if (a == ARRAY_PARAMETER || !ptxk_step_reads(v, a))
            continue;
        r.place[a] = r.bytes;
        r.bytes += vector_bytes(v, a) * threads;
    }
    r.rows = room / r.bytes < MOST ? room / r.bytes : MOST;
    return r;
}

// The thread's vector of an array in a stage. A thread reads only what it has copied.
static ptx_ptr in_stage(ptx_builder *b, const struct ptxk_tile *s,
                        const struct ptxk_step_square_ring *r, unsigned array, ptx_val stage)
{
    ptx_ptr first = ptx_at(b, ptx_ptr_cast(b, PTX_U8, s->stages), r->place[array]);
    ptx_val own = ptx_mad(b, s->tid, vector_bytes(s->variant, array), stage);

    return ptx_ptr_cast(b, PTX_B32, ptx_at(b, first, own));
}

static ptx_val next_stage(ptx_builder *b, const struct ptxk_step_square_ring *r, ptx_val stage)
{
    ptx_val next = ptx_add(b, stage, r->bytes);

    return ptx_select(b, ptx_eq(b, next, r->rows * r->bytes), 0, next);
}

// The first row of the tile that a warp steps; how far the next ones are, in rows.
static ptx_val first_row(ptx_builder *b, const struct ptxk_tile *s)
{
    const struct ptxk_step_blocks_tile *t = s->square;

    return t->has_own ? ptx_mul(b, t->tile.warp, TILE / warps_of(s)) : t->tile.warp;
}

static uint32_t rows_apart(const struct ptxk_tile *s)
{
    return s->square->has_own ? 1 : warps_of(s);
}

// What a thread keeps of a vector, in words; where that of the first row is, and how far the next
// ones are.
static uint32_t words_of(const struct ptxk_tile *s)
{
    return s->square->turns ? 1 : EACH;
}

static ptx_val first_slot(ptx_builder *b, const struct ptxk_tile *s)
{
    ptx_val along = ptx_mul(b, s->square->tile.lane, words_of(s));

    return ptx_mad(b, first_row(b, s), TILE / EACH * words_of(s), along);
}

static uint32_t slots_apart(const struct ptxk_tile *s)
{
    return rows_apart(s) * (TILE / EACH) * words_of(s);
}

// `is`: a predicate, whether the row is the warp's; poisoned: it is, or behind the tile.
static void row_copy(ptx_builder *b, const struct ptxk_tile *s,
                     const struct ptxk_step_square_walk *w, ptx_val is)
{
    const struct ptxk_step_square_ring *r = &w->ring;

    ptx_comment(b, "begins to copy a row's vectors, if they are whole");
    ptx_val whole = ptxk_tile_is_whole(b, s, r->i);
    ptx_if (b, is.type ? ptx_and(b, whole, is) : whole) {
        for (unsigned a = 0; a < ARRAYS; a++) {
            if (!ptxk_step_reads(s->variant, a))
                continue;
            const unsigned bytes = vector_bytes(s->variant, a);
            ptx_ptr from = ptx_ptr_cast(b, PTX_B32, ptx_at(b, s->array[a], r->i));
            ptx_ptr to = a == ARRAY_PARAMETER
                             ? ptx_ptr_cast(b, PTX_B32, ptx_at(b, s->slot, r->kept))
                             : in_stage(b, s, r, a, r->to);
            ptx_cp_async(b, to, from, bytes, .bypass = bytes == 16);
        }
    }
    ptx_cp_async_commit(b);
    ptx_set(b, r->i, ptx_add(b, r->i, w->pace));
    ptx_set(b, r->kept, ptx_add(b, r->kept, slots_apart(s)));
    ptx_set(b, r->to, next_stage(b, r, r->to));
}

static void row_take(ptx_builder *b, const struct ptxk_tile *s,
                     const struct ptxk_step_square_walk *w)
{
    const struct ptxk_step_square_ring *r = &w->ring;
    const struct ptxk_tile_vector *v = &w->now;

    ptx_comment(b, "the row's vectors");
    ptx_cp_async_wait(b, r->rows - 1);
    ptx_set(b, v->whole, ptxk_tile_is_whole(b, s, v->i));
    ptx_if (b, v->whole)
        for (unsigned a = 0; a < ARRAYS; a++)
            if (ptxk_step_reads(s->variant, a))
                ptxk_lanes_read(b, &v->array[a],
                                a == ARRAY_PARAMETER ? ptx_at(b, s->slot, s->slot_at)
                                                     : in_stage(b, s, r, a, r->from));
    ptx_set(b, r->from, next_stage(b, r, r->from));
}

// ---- the step -----------------------------------------------------------------------------------

struct ptxk_step_square_walk ptxk_step_square_begin(ptx_builder *b, struct ptxk_tile *s)
{
    const struct ptxk_codes *tile = &s->square->tile;
    const uint32_t room = room_ahead(s->spec, ptx_builder_target(b).sm);

    ptx_comment(b, "a warp steps a row at a time");
    ptx_val column = ptx_mul(b, tile->lane, EACH);
    ptx_val columns = ptx_cvt(b, PTX_U32, tile->columns);
    ptx_val there = ptx_lt(b, column, tile->width);
    ptx_val own = ptx_bitcast(b, PTX_S32, ptx_mad(b, first_row(b, s), columns, column));
    ptx_val pace = ptx_bitcast(b, PTX_S32, ptx_mul(b, columns, rows_apart(s)));
    ptx_val first = ptx_select(b, there, own, s->length);
    struct ptxk_step_square_walk w = { first, ptx_select(b, there, pace, 0) };

    s->slot = s->square->kept;
    s->slot_at = ptx_var(b, first_slot(b, s));
    if (!room) {
        w.now = ptxk_tile_vector_begin(b, s, first);
        return w;
    }
    w.now = ptxk_tile_vector_var(b, s, first);
    w.ring = ring_of(s->variant, threads_of(s->spec), room);
    w.ring.i = ptx_var(b, first);
    w.ring.kept = ptx_var(b, s->slot_at);
    w.ring.to = ptx_var(b, ptx_u32(0));
    w.ring.from = ptx_var(b, ptx_u32(0));
    for (unsigned k = 0; k < w.ring.rows; k++)
        row_copy(b, s, &w, (ptx_val) { 0 });
    return w;
}

static void largest_note(ptx_builder *b, const struct ptxk_tile *s, const ptx_val weight[EACH])
{
    for (unsigned n = 0; n < EACH; n++) {
        const ptx_val largest = s->square->largest[n];
        ptx_set(b, largest, ptxk_larger(b, largest, ptx_abs(b, weight[n])));
    }
}

void ptxk_step_square_keep(ptx_builder *b, const struct ptxk_tile *s,
                           ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_vec weights = { .lanes = EACH };

    if (!s->square || s->square->turns)
        return;
    for (unsigned n = 0; n < EACH; n++)
        weights.lane[n] = ptxk_step_as_stored(b, s->variant->parameter, value[ARRAY_PARAMETER][n]);
    largest_note(b, s, weights.lane);
    ptx_comment(b, "and keeps the weights");
    ptx_store_vec(b, s->slot, s->slot_at, weights);
}

void ptxk_step_square_keep_codes(ptx_builder *b, const struct ptxk_tile *s, ptx_val word)
{
    if (!s->square)
        return;
    ptx_comment(b, "and keeps them");
    ptx_store(b, s->slot, s->slot_at, word);
}

// The codes of elements in memory, if there are such elements.
static void codes_keep(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    ptx_ptr from = ptx_at(b, s->codes, i), to = ptx_at(b, s->slot, s->slot_at);

    to = ptx_ptr_cast(b, PTX_U8, to);
    ptx_if (b, ptx_lt(b, i, s->length))
        for (uint32_t n = 0; n < EACH; n++)
            ptx_store(b, to, n, ptx_load(b, from, n));
}

// Elements in memory; or none, where there are none.
static void keep_written(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    if (s->square->turns) {
        codes_keep(b, s, i);
        return;
    }
    ptx_ptr from = ptx_at(b, s->array[ARRAY_PARAMETER], i), to = ptx_at(b, s->slot, s->slot_at);
    ptx_if (b, ptx_lt(b, i, s->length)) {
        ptx_val weight[EACH];
        for (uint32_t n = 0; n < EACH; n++) {
            weight[n] = ptx_load(b, from, n);
            ptx_store(b, to, n, weight[n]);
        }
        largest_note(b, s, weight);
    }
}

static void keep_none(ptx_builder *b, const struct ptxk_tile *s)
{
    if (s->square->turns) {
        ptx_store(b, s->slot, s->slot_at, 0);
        return;
    }
    const ptx_vec none = { .lanes = EACH,
                           .lane = { ptx_f32(0), ptx_f32(0), ptx_f32(0), ptx_f32(0) } };

    ptx_store_vec(b, s->slot, s->slot_at, none);
}

// Whether the row that is a ring of rows behind row `k` is the warp's. If warps have rows in turn,
// those behind its last are behind the tile.
static ptx_val is_own(ptx_builder *b, const struct ptxk_tile *s,
                      const struct ptxk_step_square_walk *w, ptx_val k)
{
    const ptx_val yes = { 0 };

    return s->square->has_own ? ptx_lt(b, k, TILE / warps_of(s) - w->ring.rows) : yes;
}

static void rows_step(ptx_builder *b, struct ptxk_tile *s, struct ptxk_step_square_walk *w)
{
    struct ptxk_tile_vector *const v = &w->now;
    const bool copies = w->ring.rows != 0;
    ptx_val missing = ptx_var(b, ptx_u32(0));

    if (!copies)
        w->next = ptxk_tile_vector_begin(b, s, ptx_add(b, v->i, w->pace));
    ptx_for (b, k, 0, TILE / warps_of(s), ptx_u32(1)) {
        if (copies) {
            row_take(b, s, w);
            row_copy(b, s, w, is_own(b, s, w, k));
        }
        ptx_if (b, ptx_ge(b, v->i, s->length))
            keep_none(b, s);
        ptxk_tile_vector_step(b, s, v, k, missing);
        if (copies) {
            ptx_set(b, v->i, ptx_add(b, v->i, w->pace));
        } else {
            ptxk_tile_vector_set(b, v, &w->next);
            ptx_set(b, w->next.i, ptx_add(b, w->next.i, w->pace));
            ptxk_tile_vector_read(b, s, &w->next);
        }
        ptx_set(b, s->slot_at, ptx_add(b, s->slot_at, slots_apart(s)));
    }
    ptx_comment(b, "where a quick quotient does not hold, or arrays are at odd addresses");
    ptx_while (b, ptx_ne(b, missing, 0)) {
        ptx_val k = ptx_bfind(b, missing);
        ptx_set(b, missing, ptx_xor(b, missing, ptx_shl(b, ptx_u32(1), k)));
        ptx_val i = ptx_mad(b, ptx_bitcast(b, PTX_S32, k), w->pace, w->first);
        ptxk_tile_step_singles(b, s, i);
        ptx_set(b, s->slot_at, ptx_mad(b, k, slots_apart(s), first_slot(b, s)));
        keep_written(b, s, i);
    }
}

static void codes_take(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_step_square_walk *w)
{
    ptx_val i = ptx_var(b, w->first);

    ptx_comment(b, "not stepped: the codes that there are");
    ptx_for (b, k, 0, TILE / warps_of(s), ptx_u32(1)) {
        codes_keep(b, s, i);
        ptx_set(b, i, ptx_add(b, i, w->pace));
        ptx_set(b, s->slot_at, ptx_add(b, s->slot_at, slots_apart(s)));
    }
}

void ptxk_step_square_step(ptx_builder *b, struct ptxk_tile *s, struct ptxk_step_square_walk *w)
{
    if (!s->square->turns) {
        rows_step(b, s, w);
        return;
    }
    ptx_if (b, s->square->left)
        codes_take(b, s, w);
    ptx_else (b)
        rows_step(b, s, w);
}

void ptxk_step_square_leave(ptx_builder *b, struct ptxk_tile *s, ptx_val is)
{
    if (s->square->turns) {
        ptx_set(b, s->square->left, ptx_or(b, s->square->left, is));
        s->starts = ptx_and(b, s->starts, ptx_not(b, is));
        s->vectors = ptx_and(b, s->vectors, ptx_not(b, is));
        return;
    }
    if (room_ahead(s->spec, ptx_builder_target(b).sm))
        ptx_if (b, is)
            ptx_cp_async_wait_all(b);
    ptx_return_if(b, is);
}

// ---- codes --------------------------------------------------------------------------------------

static void codes_turn(ptx_builder *b, const struct ptxk_step_blocks_tile *t)
{
    const unsigned rows = ptxk_codes_lines(&t->tile), line = TILE / EACH;
    ptx_val first = ptx_mad(b, t->tile.warp, rows * line, t->tile.lane), word[STEP_CODES_LINES];
    ptx_ptr own = ptx_at(b, t->kept, first);

    for (unsigned k = 0; k < rows; k++)
        word[k] = ptx_load(b, own, k * line);
    ptxk_step_fp8_turn(b, t, word);
}

void ptxk_step_square_codes(ptx_builder *b, const struct ptxk_tile *s)
{
    ptx_comment(b, "the codes of the weights");
    if (s->square->turns) {
        ptx_barrier(b);
        codes_turn(b, s->square);
    } else {
        ptxk_step_fp8_make(b, s->square, s->spec->fp8_blocks & OF_F32);
    }
}
