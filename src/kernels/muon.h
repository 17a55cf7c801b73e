// SPDX-License-Identifier: MIT
// The kernels of Muon's products, and the rows in device memory that the host writes and they read.
// Matrices are f16, row after row; rows begin `pitch` bytes apart, a multiple of 16, and the
// elements behind a row's last are 0. Products are added up in f32 on tensor cores.
//
// In shared memory they lie as panels: rows of 64 elements, 128 bytes, whose eight pieces of 16
// bytes are permuted by the row, so that both ways to read a panel meet every bank once.
#ifndef PTXGEN_KERNELS_MUON_H
#define PTXGEN_KERNELS_MUON_H

#include <stddef.h>

#include <ptxgen/builder.h>

enum {
    MUON_TILE = 128,     // rows and columns of a tile, where there are many
    MUON_SMALL = 64,     // and where there are few
    MUON_DEPTH = 64,     // columns of a panel
    MUON_STAGES = 3,     // of the tiles' copies
    MUON_ALL_STAGES = 4, // of small ones by warpgroups: a depth of 256
    MUON_PIECE = 16,     // bytes of a copy: 8 elements
    MUON_ALIGNED = 1024, // where warpgroups read a panel, it begins at a multiple of so many bytes
    MUON_THREADS = 128,
    MUON_BAND_DEPTH = 256,                    // at most, of a product in bands
    MUON_PARTIAL = MUON_TILE * MUON_TILE * 4, // bytes of a tile's partial sums
    MUON_CHIP_MOST = 128,                     // rows of a matrix that one block has
    MUON_SQUARE_MOST = 256,                   // and of a square one, where warpgroups multiply
    MUON_SQUARE_THREADS = 384,
};

// ---- tiles: the products of many matrices -------------------------------------------------------

// C = alpha E + beta A B, or A B^T. C, E and Q have one pitch. Of factors that are symmetric but
// for roundings it is A B: with A B^T what they lack of symmetry would grow from step to step.
struct muon_product {
    uint64_t a, b, c;
    uint64_t e;                         // 0: none, and beta is 1
    uint64_t q;                         // 0: none; else C + diagonal I goes there too
    uint64_t partials;                  // of the slices, tile after tile
    uint64_t counters;                  // a u32 for each tile, 0 before and after
    uint32_t rows, columns;             // of C
    uint32_t pitch_a, pitch_b, pitch_c; // bytes
    uint32_t depth;                     // bytes of a row of A that count, as pitch_a
    uint32_t slice, slices;             // elements of the depth that a block has
    float alpha, beta, diagonal;
    uint32_t across;    // A B, not A B^T
    uint32_t symmetric; // C is, and is computed on one side of the diagonal
    uint32_t matrix;    // that it belongs to, counted from 0
    uint32_t needed;    // tiles of the matrix that are done before it begins
    uint32_t taken;     // not 0: the matrix's last, by a kernel that steps from it, which gave this
};

// What a block does in a turn.
struct muon_tile {
    uint32_t product;
    uint32_t row, column; // counted in tiles
    uint32_t slice;
    uint32_t place; // of the tile among those of its product
    uint32_t band;  // so many tiles beside each other, from this one on, as a band; 0: this one
};

// ---- chips: all products of a matrix of at most 128 rows ----------------------------------------

struct muon_step {
    float a, b, c;
    uint32_t restart; // after this step
};

struct muon_chip {
    uint64_t x;
    uint64_t steps; // address of the first
    uint64_t kept;  // of a kernel that takes: where Q of its one restart is; 0: X is written there
    uint32_t step_count;
    uint32_t rows, columns, pitch;
    uint32_t taken; // by a kernel that steps from it: 1 + the tensor; 0: X is written
    uint32_t given; // 1: that kernel makes the first X, too
    uint32_t to;    // of a square of more rows: bytes from X to where the last one goes
    uint32_t unused;
};

#define MUON_PLACE(type, row, member) ((uint32_t)(offsetof(struct row, member) / sizeof(type)))

// The entries, in the order of the text. Of the chips, which one a matrix has follows from its
// rows.
enum { MUON_TILES, MUON_CHIP_64, MUON_CHIP_128, MUON_SMALL_TILES, MUON_SQUARE, MUON_ENTRIES };
extern const char *const ptxk_muon_entries[MUON_ENTRIES];

// Stages of a tile of `side`, and blocks of such tiles that a multiprocessor has room for.
uint32_t ptxk_muon_stages(uint32_t side, bool groups);
unsigned ptxk_muon_blocks(uint32_t side, bool groups);

// Dynamic shared memory of a block of each entry, in a text for sm_90a or not.
uint32_t ptxk_muon_shared(unsigned entry, bool groups);

// Writes the kernels that `entries` has a bit for: sm_80 and up, that of squares for sm_90a alone.
enum { MUON_ALL = (1 << MUON_ENTRIES) - 1 };
void ptxk_muon_emit(ptx_builder *b, unsigned entries);

#endif
