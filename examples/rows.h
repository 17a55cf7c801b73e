// SPDX-License-Identifier: MIT
/// Rows of a matrix in registers: a warp or a block has a row, and each of its threads vectors of
/// 16 bytes. The number of columns is a constant of the text, so only a last vector that not every
/// thread has is tested.
#ifndef PTXGEN_EXAMPLES_ROWS_H
#define PTXGEN_EXAMPLES_ROWS_H

#include <ptxgen/ptxgen.h>

enum { ROW_MAX_ELEMENTS = 16, ROW_WARP = 32, ROW_BLOCK = 128, ROW_MAX_THREADS = 1024 };

struct row_shape {
    ptx_type type;     ///< of the elements in memory, PTX_F32 or PTX_BF16; in registers f32
    uint32_t columns;  ///< a multiple of `lanes`
    unsigned lanes;    ///< elements of a vector
    unsigned threads;  ///< of a row: a power of two, 32 at least
    unsigned together; ///< rows of a block
    unsigned elements; ///< of a thread
    unsigned block;    ///< threads of a block
};

/// How rows of so many columns are shared out.
struct row_shape row_shape(ptx_type type, uint32_t columns);
/// The same with fewer elements of a thread, as long as there are threads for them.
struct row_shape row_shape_with(ptx_type type, uint32_t columns, unsigned elements);
/// Whether there are such rows; false is an error of the builder, too.
bool row_check(ptx_builder *b, struct row_shape s);
/// The row that this thread works on first; there are grid * s.together such rows.
ptx_val row_first(ptx_builder *b, struct row_shape s);
/// The beginning of a row.
ptx_ptr row_at(ptx_builder *b, struct row_shape s, ptx_ptr matrix, ptx_val row);

/// Loads this thread's elements of a row as f32; `missing` is what it gets beyond the row's end.
void row_load(ptx_builder *b, struct row_shape s, ptx_ptr row, ptx_val missing, ptx_val *x);
/// Begins to copy this thread's elements of a row to shared memory. After ptx_cp_async_wait() the
/// thread loads them from there by row_load(); nobody waits for what others copied.
void row_copy(ptx_builder *b, struct row_shape s, ptx_ptr row, ptx_ptr to);
/// Sets the elements of x that are beyond the row's end to zero.
void row_clear(ptx_builder *b, struct row_shape s, ptx_val *x);
/// Stores them, rounded to the type of `row`: the matrix's, or PTX_F32.
void row_store(ptx_builder *b, struct row_shape s, ptx_ptr row, const ptx_val *x);

typedef ptx_val row_operation(ptx_builder *b, ptx_val x, ptx_val y);
/// Reduces this thread's elements with op, pair by pair.
ptx_val row_fold(ptx_builder *b, struct row_shape s, row_operation *op, const ptx_val *x);
/// Reduces x over the threads of the row; each gets the result. In a loop, two calls take turns.
ptx_val row_reduce(ptx_builder *b, struct row_shape s, row_operation *op, ptx_val x);
/// Reduces x[0] and x[1] at the same time. A loop can call it alone.
void row_reduce_pair(ptx_builder *b, struct row_shape s, row_operation *op, ptx_val x[2]);
/// Vectors of 16 bytes: `lanes` elements at p[i] as f32, and their store.
void vector_load(ptx_builder *b, ptx_ptr p, ptx_val i, unsigned lanes, ptx_val *x);
void vector_store(ptx_builder *b, ptx_ptr p, ptx_val i, unsigned lanes, const ptx_val *x);

#endif
