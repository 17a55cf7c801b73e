// SPDX-License-Identifier: MIT
#include "chunk.h"
#include "lanes.h"

enum { BLOCK = CHUNK_BLOCK, IN_FLIGHT = 4 }; // vectors per thread

void ptxk_chunk_see_some(ptx_builder *b, const struct chunk_seen *seen, ptx_val x, ptx_val there)
{
    ptx_val size = ptx_abs(b, ptx_cvt(b, PTX_F32, x));
    ptx_val zero = ptx_eq(b, ptx_cvt(b, x.type == PTX_F64 ? PTX_F64 : PTX_F32, x), 0);

    ptx_set(b, seen->largest, ptxk_larger(b, seen->largest, size));
    if (there.type)
        zero = ptx_and(b, zero, there);
    ptx_val one = ptx_select(b, zero, ptx_u32(1), 0);
    ptx_set(b, seen->zeros, ptx_add(b, seen->zeros, one));
}

void ptxk_add_square(ptx_builder *b, ptx_val sum, ptx_val x)
{
    x = ptx_cvt(b, PTX_F64, x);
    ptx_set(b, sum, ptx_fma(b, x, x, sum));
}

void ptxk_chunk_see(ptx_builder *b, const struct chunk_seen *seen, ptx_val x)
{
    const ptx_val always = { 0 };

    ptxk_chunk_see_some(b, seen, x, always);
}

static void add_square(ptx_builder *b, const struct chunk_seen *seen, ptx_val sum, ptx_val x)
{
    if (seen)
        ptxk_chunk_see(b, seen, x);
    ptxk_add_square(b, sum, x);
}

// Rows of a chunk begin at the 16-byte boundary `skew` elements before the chunk, if the data is
// not aligned. Each slot then holds the sum that belongs `skew` slots earlier. The sums are moved
// through shared memory, so that the tree, and every bit, is the same at any alignment.
static void rotate(ptx_builder *b, ptx_ptr shared, const ptx_val *sums, unsigned lanes,
                   ptx_val mine, ptx_val skew)
{
    const uint32_t places = BLOCK * lanes;

    if (!shared.type)
        shared = ptx_shared(b, PTX_F64, places);

    ptx_comment(b, "unaligned data: put every sum where aligned data would have it");
    ptx_if (b, ptx_ne(b, skew, 0)) {
        for (unsigned k = 0; k < lanes; k++) {
            if (k)
                ptxk_comment_lanes(b, "slots of the thread", k, 4, lanes);
            ptx_val place = ptx_sub(b, ptx_add(b, mine, places + k), skew);
            ptx_store(b, shared, ptx_and(b, place, places - 1), sums[k]);
        }
        ptx_barrier(b);
        ptx_comment(b, "each thread takes those of its slots");
        for (unsigned k = 0; k < lanes; k++)
            ptx_set(b, sums[k], ptx_load(b, ptx_at(b, shared, mine), k));
    }
}

// The part of one vector that lies in the chunk.
static void add_edge(ptx_builder *b, const struct chunk_seen *seen, const ptx_val *sums,
                     unsigned lanes, ptx_ptr data, ptx_val start, ptx_val length)
{
    length = ptx_bitcast(b, PTX_U32, length);
    for (unsigned k = 0; k < lanes; k++) {
        ptxk_comment_lanes(b, "elements that are in the chunk", k, seen ? 1 : 4, lanes);
        ptx_val i = k ? ptx_add(b, start, k) : start;
        ptx_val place =
            ptx_bitcast(b, PTX_U32, i); // negative positions wrap to values beyond the length
        ptx_if (b, ptx_lt(b, place, length))
            add_square(b, seen, sums[k], ptx_load(b, data, i));
    }
}

// `rows` rows at a time, as long as this thread's part of them lies in the chunk.
static void add_rows(ptx_builder *b, const struct chunk_seen *seen, const ptx_val *sums,
                     unsigned lanes, ptx_ptr data, ptx_val i, ptx_val length, unsigned rows)
{
    const unsigned row = BLOCK * lanes;
    const unsigned reach = (rows - 1) * row + lanes;

    ptx_comment(b, rows > 1 ? "%u rows of vectors at a time" : "a row of vectors at a time", rows);
    ptx_val last = ptx_sub(b, length, reach);
    ptx_while (b, ptx_le(b, i, last)) {
        ptx_vec vectors[IN_FLIGHT];
        ptx_ptr p = ptx_at(b, data, i);
        for (unsigned v = 0; v < rows; v++)
            vectors[v] =
                ptx_load_vec(b, p, v * row, lanes, .nc = true, .cache = PTX_CACHE_STREAMING);
        for (unsigned k = 0; k < rows * lanes; k++) {
            ptxk_comment_lanes(b, "squares", k, seen ? 2 : 4, rows * lanes);
            add_square(b, seen, sums[k % lanes], vectors[k / lanes].lane[k % lanes]);
        }
        ptx_set(b, i, ptx_add(b, i, rows * row));
    }
}

ptx_val ptxk_chunk_square_sum(ptx_builder *b, const struct chunk *chunk)
{
    const ptx_type dtype = (ptx_type)chunk->x.type;
    const unsigned lanes = ptxk_vector_lanes(dtype);
    const unsigned rows = chunk->most / (BLOCK * lanes);
    const unsigned unroll = rows < IN_FLIGHT ? rows : IN_FLIGHT;
    const ptx_val length = chunk->length;

    ptx_ptr data = ptx_at(b, chunk->x, chunk->first);
    ptx_comment(b, "where this thread starts in a row; rows begin at a 16-byte boundary");
    ptx_val skew = ptxk_skew_of_address(b, ptx_ptr_address(b, chunk->x), dtype);
    ptx_val mine = ptx_mul(b, chunk->tid, lanes);
    ptx_val start = ptx_bitcast(b, PTX_S32, ptx_sub(b, mine, skew));

    ptx_val sums[8]; // one for each slot of a row, which the block reads at once
    for (unsigned k = 0; k < lanes; k++)
        sums[k] = ptx_var(b, ptx_f64(0));

    ptx_val i = ptx_var(b, start);
    ptx_val whole = ptx_bitcast(b, PTX_U32, length), plain = skew;
    if (chunk->ragged)
        whole = ptx_and(b, whole, ~(lanes - 1));
    else
        plain = ptx_or(b, skew, ptx_and(b, whole, lanes - 1));
    if (unroll > 1)
        ptx_comment(b, "whole vectors alone: %u rows at a time, then fewer", unroll);
    else
        ptx_comment(b, "whole vectors alone: a row at a time");
    ptx_if (b, ptx_eq(b, plain, 0)) {
        ptx_val end = ptx_bitcast(b, PTX_S32, whole);
        for (unsigned left = unroll; left > 0; left /= 2)
            add_rows(b, chunk->seen, sums, lanes, data, i, end, left);
        if (chunk->ragged) {
            ptx_comment(b, "what is less than a vector is for the thread whose turn it is");
            ptx_val turn = ptx_eq(b, ptx_and(b, whole, BLOCK * lanes - 1), mine);
            ptx_if (b, ptx_and(b, turn, ptx_lt(b, end, length)))
                add_edge(b, chunk->seen, sums, lanes, data, end, length);
        }
    }
    ptx_else (b) {
        ptx_comment(b, "else there may be a vector that begins before it, and one that it ends in");
        ptx_if (b, ptx_lt(b, start, 0)) {
            add_edge(b, chunk->seen, sums, lanes, data, i, length);
            ptx_set(b, i, ptx_add(b, i, BLOCK * lanes));
        }
        if (unroll > 1)
            add_rows(b, chunk->seen, sums, lanes, data, i, length, unroll);
        add_rows(b, chunk->seen, sums, lanes, data, i, length, 1);
        add_edge(b, chunk->seen, sums, lanes, data, i, length);
        rotate(b, chunk->scratch, sums, lanes, mine, skew);
    }
    ptx_comment(b, "the sum of the thread's slots");
    return ptxk_tree_sum(b, sums, lanes);
}

// ---- sums of arrays -----------------------------------------------------------------------------

enum { SUM_LANES = 4 }; // of x
enum { SUM_ROWS = 2 };  // that are read at once

ptx_val ptxk_chunk_taken_up(ptx_builder *b, const struct chunk_addend *a, ptx_val x, ptx_val y)
{
    ptx_val new_x = ptx_select(b, a->onto, ptx_add(b, x, y), y);

    return ptx_select(b, a->adds, new_x, x);
}

// Whole vectors of y.
static void addend_read(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at)
{
    const ptx_type word = ptx_type_bytes(l->type) < 4 ? PTX_B32 : l->type;
    ptx_vec read = ptx_load_vec(b, ptx_ptr_cast(b, word, at), 0, l->words, .nc = true,
                                .cache = PTX_CACHE_STREAMING);

    for (unsigned k = 0; k < l->words; k++)
        ptx_set(b, l->word[k], read.lane[k]);
}

// The values of the lanes of `rows` rows from `x` and `y` on, in variables. y first: it is on its
// way while others find out whether there is an x.
static void sum_rows_read(ptx_builder *b, const struct chunk_addend *a, ptx_ptr x, ptx_ptr y,
                          ptx_val vectors, unsigned rows, ptx_val *old, ptx_val *more)
{
    const uint32_t row = BLOCK * SUM_LANES;
    struct ptxk_lanes in[SUM_ROWS];

    for (unsigned v = 0; v < rows; v++)
        in[v] = ptxk_lanes_var(b, (ptx_type)y.type, SUM_LANES);
    for (unsigned k = 0; k < rows * SUM_LANES; k++)
        old[k] = ptx_var(b, ptx_f32(0));
    ptx_comment(b, "y in vectors");
    ptx_if (b, vectors)
        for (unsigned v = 0; v < rows; v++)
            addend_read(b, &in[v], ptx_at(b, y, v * row));
    ptx_comment(b, "x, if it has a sum");
    ptx_if (b, a->onto)
        for (unsigned v = 0; v < rows; v++) {
            ptx_vec read = ptx_load_vec(b, x, v * row, SUM_LANES);
            for (unsigned k = 0; k < SUM_LANES; k++)
                ptx_set(b, old[v * SUM_LANES + k], read.lane[k]);
        }
    ptx_comment(b, "y in f32");
    for (unsigned v = 0; v < rows; v++) {
        ptx_val value[PTXK_LANES];
        ptxk_lanes_of(b, &in[v], value);
        for (unsigned k = 0; k < SUM_LANES; k++)
            more[v * SUM_LANES + k] = ptx_var(b, ptx_cvt(b, PTX_F32, value[k]));
    }
    ptx_val each = ptx_and(b, a->adds, ptx_not(b, vectors));
    ptx_comment(b, "one by one between the boundaries of vectors");
    ptx_if (b, each)
        for (unsigned k = 0; k < rows * SUM_LANES; k++) {
            ptxk_comment_lanes(b, "elements", k, SUM_LANES, rows * SUM_LANES);
            ptx_val one = ptx_load(b, y, k / SUM_LANES * row + k % SUM_LANES, .nc = true);
            ptx_set(b, more[k], ptx_cvt(b, PTX_F32, one));
        }
}

// `rows` rows at a time, as long as this thread's part of them lies in the chunk.
static void sum_rows(ptx_builder *b, const struct chunk *chunk, const struct chunk_addend *a,
                     ptx_val vectors, ptx_val i, const ptx_val *sums, unsigned rows)
{
    const uint32_t row = BLOCK * SUM_LANES;

    ptx_comment(b, rows > 1 ? "%u rows of vectors at a time" : "a row of vectors at a time", rows);
    ptx_val last = ptx_sub(b, chunk->length, (rows - 1) * row + SUM_LANES);
    ptx_while (b, ptx_le(b, i, last)) {
        ptx_val old[SUM_ROWS * SUM_LANES], more[SUM_ROWS * SUM_LANES];
        ptx_ptr x = ptx_at(b, chunk->x, i);
        sum_rows_read(b, a, x, ptx_at(b, a->y, i), vectors, rows, old, more);
        for (unsigned k = 0; k < rows * SUM_LANES; k++) {
            ptxk_comment_lanes(b, sums ? "sums, and their squares" : "sums", k,
                               chunk->seen ? 2 : SUM_LANES, rows * SUM_LANES);
            old[k] = ptxk_chunk_taken_up(b, a, old[k], more[k]);
            if (sums)
                add_square(b, chunk->seen, sums[k % SUM_LANES], old[k]);
        }
        ptx_if (b, a->adds)
            for (unsigned v = 0; v < rows; v++) {
                ptx_vec written = { .lanes = SUM_LANES };
                for (unsigned k = 0; k < SUM_LANES; k++)
                    written.lane[k] = old[v * SUM_LANES + k];
                ptx_store_vec(b, x, v * row, written, .cache = PTX_CACHE_STREAMING);
            }
        ptx_set(b, i, ptx_add(b, i, rows * row));
    }
}

// What is less than a vector, at the chunk's end.
static void sum_edge(ptx_builder *b, const struct chunk *chunk, const struct chunk_addend *a,
                     ptx_val i, const ptx_val *sums)
{
    for (unsigned k = 0; k < SUM_LANES - 1; k++) {
        ptx_comment(b, "element %u of a vector that is cut", k);
        ptx_val place = ptx_add(b, i, k);
        ptx_if (b, ptx_lt(b, place, chunk->length)) {
            ptx_val old = ptx_var(b, ptx_f32(0)), more = ptx_var(b, ptx_f32(0));
            ptx_if (b, a->onto)
                ptx_set(b, old, ptx_load(b, chunk->x, place));
            ptx_if (b, a->adds)
                ptx_set(b, more, ptx_cvt(b, PTX_F32, ptx_load(b, a->y, place)));
            ptx_val new_x = ptxk_chunk_taken_up(b, a, old, more);
            if (sums)
                add_square(b, chunk->seen, sums[k], new_x);
            ptx_if (b, a->adds)
                ptx_store(b, chunk->x, place, new_x);
        }
    }
}

ptx_val ptxk_chunk_add(ptx_builder *b, const struct chunk *chunk, const struct chunk_addend *a,
                       bool squares)
{
    const uint32_t bytes = SUM_LANES * ptx_type_bytes((ptx_type)a->y.type);
    ptx_val sums[SUM_LANES], nothing = { 0 };

    for (unsigned k = 0; k < SUM_LANES && squares; k++)
        sums[k] = ptx_var(b, ptx_f64(0));
    const ptx_val *const of = squares ? sums : NULL;
    ptx_comment(b, "x takes y up; whether y can be read in vectors");
    ptx_val skew = ptx_and(b, ptx_ptr_address(b, a->y), bytes - 1);
    ptx_val vectors = ptx_and(b, a->adds, ptx_eq(b, skew, 0));
    struct chunk here = *chunk;
    struct chunk_addend there = *a;
    here.x = ptx_at(b, chunk->x, chunk->first);
    there.y = ptx_at(b, a->y, chunk->first);
    ptx_val mine = ptx_mul(b, chunk->tid, SUM_LANES);
    ptx_val i = ptx_var(b, ptx_bitcast(b, PTX_S32, mine));
    for (unsigned rows = SUM_ROWS; rows > 0; rows /= 2)
        sum_rows(b, &here, &there, vectors, i, of, rows);
    sum_edge(b, &here, &there, i, of);
    if (!squares)
        return nothing;
    ptx_comment(b, "the sum of the thread's slots");
    return ptxk_tree_sum(b, sums, SUM_LANES);
}
