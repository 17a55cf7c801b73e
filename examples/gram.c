// SPDX-License-Identifier: MIT
// R = X X^T of several f16 matrices of different sizes in one launch: a block computes a tile of
// one of them, which a table in device memory names. R is symmetric, so there are blocks for the
// tiles on and below the diagonal alone, and each writes its tile on both sides. Sums are f32.
#include "host.h"

#include <math.h>
#include <stddef.h>

enum {
    TILE = 128, // rows and columns of R that a block computes
    DEPTH = 64, // columns of X in a stage
    STAGES = 2, // one is multiplied while the other is copied
    PART = 64,  // rows and columns that a warp computes
    PIECE = 8,  // elements that a thread copies at a time: 16 bytes
    THREADS = 32 * (TILE / PART) * (TILE / PART),
    STRIDE = DEPTH + PIECE, // of a row in shared memory: 8 rows of a piece are in all banks
    ROWS = TILE * STRIDE,   // elements of TILE rows
    STAGE = 2 * ROWS,
    SHARED_BYTES = STAGES * STAGE * 2,
};
enum { DOWN = PART / 16, ACROSS = PART / 8 }; // fragments of a warp

// A block's row of the table.
struct tile {
    uint64_t x, r;        // addresses
    uint32_t rows, depth; // of X
    uint32_t row, column; // where the tile begins in R
};

#define PLACE(type, member) ((uint32_t)(offsetof(struct tile, member) / sizeof(type)))

struct work {
    ptx_ptr x, r;
    ptx_val rows, depth, row, column;
};

static struct work read_table(ptx_builder *b, ptx_ptr tiles)
{
    ptx_ptr own = ptx_at(b, tiles, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), sizeof(struct tile) / 8));
    ptx_ptr words = ptx_ptr_cast(b, PTX_U32, own);
    ptx_val x = ptx_load(b, own, PLACE(uint64_t, x)), r = ptx_load(b, own, PLACE(uint64_t, r));

    return (struct work) {
        .x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, x),
        .r = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, r),
        .rows = ptx_load(b, words, PLACE(uint32_t, rows)),
        .depth = ptx_load(b, words, PLACE(uint32_t, depth)),
        .row = ptx_load(b, words, PLACE(uint32_t, row)),
        .column = ptx_load(b, words, PLACE(uint32_t, column)),
    };
}

// Begins to copy TILE rows of X, from `first` on, DEPTH columns from k on. Past the last row the
// last is taken again: what comes of it is not written. Past the last column there is 0.
static void copy_rows(ptx_builder *b, const struct work *w, ptx_val first, ptx_val k, ptx_ptr to)
{
    const unsigned in_row = DEPTH / PIECE;
    ptx_val tid = ptx_tid(b, PTX_X), row = ptx_div(b, tid, in_row);
    ptx_val piece = ptx_mul(b, ptx_rem(b, tid, in_row), PIECE), column = ptx_add(b, k, piece);
    ptx_val inside = ptx_lt(b, column, w->depth), last = ptx_sub(b, w->rows, 1);
    ptx_val taken = ptx_select(b, inside, ptx_u32(16), ptx_u32(0));
    ptx_ptr from = ptx_at(b, w->x, ptx_select(b, inside, column, ptx_u32(0)));

    for (unsigned r = 0; r < TILE; r += THREADS / in_row) {
        ptx_val here = ptx_min(b, ptx_add(b, first, ptx_add(b, row, r)), last);
        ptx_ptr target = ptx_at(b, to, ptx_mad(b, ptx_add(b, row, r), STRIDE, piece));
        ptx_cp_async(b, target, ptx_at(b, from, ptx_mul_wide(b, here, w->depth)), 16,
                     .taken = taken, .bypass = true);
    }
}

// Begins to copy a stage if there is one, and makes a group of the copies.
static void copy_stage(ptx_builder *b, const struct work *w, ptx_val k, ptx_ptr stage)
{
    ptx_if (b, ptx_lt(b, k, w->depth)) {
        copy_rows(b, w, w->row, k, stage);
        copy_rows(b, w, w->column, k, ptx_at(b, stage, ROWS));
    }
    ptx_cp_async_commit(b);
}

// A stage's products: rows of X are rows of A, and columns of B.
static void multiply(ptx_builder *b, ptx_matrix x, ptx_matrix y, ptx_fragment *sums)
{
    ptx_fragment part[DOWN], other[ACROSS];

    for (unsigned k = 0; k < DEPTH; k += 16) {
        ptx_matrix_load(b, x, 0, k, DOWN, part);
        ptx_matrix_load(b, y, k, 0, ACROSS, other);
        for (unsigned f = 0; f < DOWN * ACROSS; f++)
            ptx_fragment_set(b, sums[f], ptx_mma(b, part[f / ACROSS], other[f % ACROSS], sums[f]));
    }
}

// Writes a warp's part where it is, and where it is mirrored: in a tile on the diagonal both are
// the same elements with the same bits.
static void write(ptx_builder *b, const struct work *w, ptx_val row, ptx_val column,
                  const ptx_fragment *sums)
{
    ptx_val lane = ptx_laneid(b);

    // A lane has two pairs of a fragment's columns, 8 rows apart.
    row = ptx_add(b, row, ptx_shr(b, lane, 2));
    column = ptx_add(b, column, ptx_mul(b, ptx_and(b, lane, 3), 2));
    for (unsigned f = 0; f < DOWN * ACROSS; f++) {
        ptx_vec words = ptx_fragment_words(b, sums[f]);
        for (unsigned k = 0; k < 4; k++) {
            ptx_val i = ptx_add(b, row, f / ACROSS * 16 + k / 2 * 8);
            ptx_val j = ptx_add(b, column, f % ACROSS * 8 + k % 2);
            ptx_if (b, ptx_and(b, ptx_lt(b, i, w->rows), ptx_lt(b, j, w->rows))) {
                ptx_store(b, w->r, ptx_add(b, ptx_mul_wide(b, i, w->rows), ptx_cvt(b, PTX_U64, j)),
                          words.lane[k]);
                ptx_store(b, w->r, ptx_add(b, ptx_mul_wide(b, j, w->rows), ptx_cvt(b, PTX_U64, i)),
                          words.lane[k]);
            }
        }
    }
}

static void build(ptx_builder *b)
{
    ptx_fragment sums[DOWN * ACROSS];

    ptx_entry (b, "gram", .block = { THREADS }, .min_blocks = 3) { // as shared memory has room for
        ptx_ptr tiles = ptx_param_ptr(b, PTX_U64, "tiles", .readonly = true,
                                      .meaning = "a row of struct tile for each block");
        ptx_ptr shared = ptx_shared_dynamic(b, PTX_F16);
        struct work w = read_table(b, tiles);
        ptx_val warp = ptx_shr(b, ptx_tid(b, PTX_X), 5);
        ptx_val down = ptx_mul(b, ptx_div(b, warp, TILE / PART), PART);
        ptx_val across = ptx_mul(b, ptx_rem(b, warp, TILE / PART), PART);
        ptx_matrix x = ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_F16, 16,
                                       ptx_at(b, shared, ptx_mul(b, down, STRIDE)), STRIDE);
        ptx_ptr columns = ptx_at(b, ptx_at(b, shared, ROWS), ptx_mul(b, across, STRIDE));
        ptx_matrix y = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_F16, 16, columns, STRIDE);

        for (unsigned f = 0; f < DOWN * ACROSS; f++)
            sums[f] = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));
        ptx_val stage = ptx_var(b, ptx_u32(0));
        copy_stage(b, &w, ptx_u32(0), shared);
        ptx_for (b, k, ptx_u32(0), w.depth, DEPTH) {
            ptx_val other = ptx_sub(b, STAGE, stage);
            copy_stage(b, &w, ptx_add(b, k, DEPTH), ptx_at(b, shared, other));
            ptx_cp_async_wait(b, 1); // this thread's part of the stage is there
            ptx_barrier(b);          // all of it is
            multiply(b, ptx_matrix_at(b, x, stage), ptx_matrix_at(b, y, stage), sums);
            ptx_barrier(b); // all have read it, and it may be filled
            ptx_set(b, stage, other);
        }
        write(b, &w, ptx_add(b, w.row, down), ptx_add(b, w.column, across), sums);
    }
}

// ---- matrices of different sizes ----------------------------------------------------------------

struct matrix {
    uint32_t rows, depth;
    float *x, *r; // on the host
    CUdeviceptr gpu_x, gpu_r;
};

// Its numbers are multiples of 1/64 up to 1, which f16 has exactly.
static struct matrix make(struct host *host, uint32_t rows, uint32_t depth)
{
    const size_t count = (size_t)rows * depth, results = (size_t)rows * rows;
    struct matrix m = { rows,
                        depth,
                        host_alloc(host, count, sizeof(float)),
                        host_alloc(host, results, sizeof(float)),
                        0,
                        0 };
    uint16_t *f16 = host_alloc(host, count, sizeof *f16);
    uint32_t state = rows;

    for (size_t i = 0; m.x && f16 && i < count; i++) {
        const uint32_t random = host_random(&state), size = random >> 1 & 63;
        int exponent = 0;
        m.x[i] = (random & 1 ? -1.0f : 1.0f) * (float)size / 64;
        const float fraction = frexpf((float)size / 64, &exponent);
        // f16 has the exponent of 2 * fraction in 5 bits, plus 15, and what is above 1 in 10.
        const uint32_t bits =
            size ? (uint32_t)((exponent + 13) << 10) + (uint32_t)(fraction * 2048) : 0;
        f16[i] = (uint16_t)(bits | (random & 1) << 15);
    }
    m.gpu_x = host_upload(host, f16, count * sizeof *f16);
    m.gpu_r = host_zeros(host, results * sizeof(float));
    return m;
}

static bool check(struct host *host, const struct matrix *m)
{
    bool right = host_download(host, m->gpu_r, m->r, (size_t)m->rows * m->rows * sizeof(float));

    for (uint32_t i = 0; right && i < m->rows; i++)
        for (uint32_t j = 0; right && j < m->rows; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < m->depth; k++)
                sum += (double)m->x[(size_t)i * m->depth + k] * m->x[(size_t)j * m->depth + k];
            right = m->r[(size_t)i * m->rows + j] == (float)sum; // all sums are exact
        }
    return right;
}

static bool run(struct host *host)
{
    const uint32_t count = example.sizes[2];
    struct matrix *m = host_alloc(host, count, sizeof *m);
    size_t blocks = 0;

    for (uint32_t k = 0; m && k < count; k++) { // rows of X begin at multiples of 16 bytes
        m[k] = make(host, example.sizes[0] + 37 * k, (example.sizes[1] + 7) / 8 * 8 + 24 * k);
        const size_t side = (m[k].rows + TILE - 1) / TILE;
        blocks += side * (side + 1) / 2;
    }
    struct tile *tiles = host_alloc(host, blocks, sizeof *tiles), *next = tiles;
    for (uint32_t k = 0; m && tiles && k < count; k++)
        for (uint32_t row = 0; row < m[k].rows; row += TILE)
            for (uint32_t column = 0; column <= row; column += TILE)
                *next++ =
                    (struct tile) { m[k].gpu_x, m[k].gpu_r, m[k].rows, m[k].depth, row, column };
    CUdeviceptr table = host_upload(host, tiles, blocks * sizeof *tiles);
    const struct ptx_arg args[] = { PTX_ARG(table) };

    host_launch(host, "gram",
                &(struct ptx_launch_params) { .grid = { (unsigned)blocks },
                                              .shared_bytes = SHARED_BYTES,
                                              .args = args,
                                              .arg_count = 1 });
    bool right = m && tiles;
    for (uint32_t k = 0; right && k < count; k++)
        right = check(host, &m[k]);
    return right;
}

struct example example = { "gram",         build,   run, { "ROWS", "DEPTH", "MATRICES" },
                           { 100, 96, 3 }, PTX_NONE };
