// SPDX-License-Identifier: MIT
// Matrices that are put together from rows of several ranks, and taken apart again: tiles go
// through shared memory, where a matrix with more rows than columns is transposed.
#ifndef PTXGEN_KERNELS_MUON_PARTS_H
#define PTXGEN_KERNELS_MUON_PARTS_H

#include <stddef.h>

#include <ptxgen/builder.h>

enum { MUON_PARTS_THREADS = 256, MUON_PARTS_TILE = 64 };

struct muon_part_row {
    uint64_t at, x;            // addresses: of the part; of its first element in the matrix
    uint32_t rows, columns;    // of the part
    uint32_t line, x_line;     // elements from a row to the next: of the part, and of the matrix
    uint32_t transposed, last; // rows of the part are columns there; behind which are `last` zeros
};

// A tile of a part, by rows of tiles.
struct muon_part_tile {
    uint32_t part, index;
};

// The entries, a block for each tile: parts to matrices, and what the products have left back.
enum { MUON_GATHER, MUON_SCATTER, MUON_PARTS_ENTRIES };
extern const char *const ptxk_muon_parts_entries[MUON_PARTS_ENTRIES];
void ptxk_muon_parts_emit(ptx_builder *b);

#endif
