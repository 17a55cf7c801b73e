// SPDX-License-Identifier: MIT
// The products of Muon: from X to its orthogonalized form, for any number of matrices and steps in
// at most four launches. X is rows x columns with rows <= columns, f16, row after row; rows begin
// muon_pitch(columns) bytes apart, and the elements behind a row's last are 0. Every product is
// f16 x f16 with sums in f32, rounded once to f16.
//
//     plain:  R = X X^T;  Z = b R + c R R;  X = a X + Z X
//     Gram:   R = X X^T;  then Z = b R + c R R;  Q = Z + a I at first, else a Q + Q Z;
//             T = a R + R Z;  R = a T + Z T
//             at a restart X = Q X, R = X X^T, and Q anew;  at the end X = Q X
//     pairs:  as Gram, with T = R Q;  R = Q T, and a restart after each second step
//
// Else a restart follows step 2, 5, 8 and so on, where more than three steps are made and it is not
// the last. Up to 128 rows the form is plain where columns = rows, else Gram; above, it is the one
// with the least work whose squares have room beside X in six bytes an element. Matrices of at most
// 128 rows have one block each, which does all of it, and where warpgroups multiply square ones of
// at most 256 rows have one, too, with the same bits; the others share one launch, whose blocks
// take tiles of the products in turn, of 128 x 128 or of 64 x 64. A symmetric product is computed
// on one side of the diagonal, tile by tile. How a matrix is computed, and so its bits, follow from
// its sizes and its schedule alone.
#ifndef PTXGEN_PLANS_MUON_PRODUCTS_H
#define PTXGEN_PLANS_MUON_PRODUCTS_H

#include <ptxgen/device.h>
#include <ptxgen/launch.h>
#include <ptxgen/module.h>

#include "kernels/muon.h"

enum { MUON_MOST_ROWS = 16384, MUON_MOST_COLUMNS = 1 << 30, MUON_MOST_STEPS = 64 };

struct muon_matrix {
    uint32_t rows, columns; // rows 0: nothing; else rows <= columns
    uint32_t schedule;
    uint32_t taken; // 0: the result is written; else a kernel steps from it, and reads this
    bool given;     // of a chip of 128 rows: that kernel makes the first X, too
    uint64_t x;     // set by ptxp_muon_layout(): where X is in the workspace, in bytes
    uint64_t out;   // and where the result is
};

// A triple (a, b, c) a step. No steps: X itself is the result.
struct muon_schedule {
    uint32_t steps;
    const float (*triples)[3];
};

// What a launch has as arguments: rows of struct muon_chip, a block for each; or of struct
// muon_tile, and what else muon_tiles.c names.
struct muon_values {
    CUdeviceptr table, products, turns, done;
    uint32_t tiles, matrices;
};

// Kernels in place of those of some entries, which may take the results of matrices.
struct muon_taker {
    const char *name[MUON_ENTRIES]; // NULL: none in place of this one
    void *user;
    void (*emit)(void *user, ptx_builder *b, unsigned entry);
    // Finds its arguments; `place`: in the text.
    ptx_status (*bind)(void *user, const ptx_builder *b, unsigned entry, unsigned place);
    // These, of a launch: they are there until the next call.
    const struct ptx_arg *(*args)(void *user, unsigned entry, const struct muon_values *values,
                                  size_t *count);
};

struct muon_set {
    struct muon_matrix *matrices;
    size_t count;
    const struct muon_schedule *schedules;
    uint32_t schedule_count;
    uint64_t beside; // elements that the launch after those of the products steps beside them
    struct muon_taker taker;
    uint32_t side; // of tiles; 0: as the number of tiles has it. No bit depends on it
    uint32_t band; // of such tiles one block computes beside each other; 0: likewise
    bool by_warps; // tiles multiplied warp by warp on sm_90, too: neither does one on this
};

// Bytes from a row of X to the next.
static inline uint64_t muon_pitch(uint32_t columns)
{
    return ((uint64_t)columns + 7) / 8 * 16;
}

// Sets x and out of all matrices, and the bytes of a workspace that begins at a multiple of 256.
// Errors: INVALID, whose message has the number of the matrix.
ptx_status ptxp_muon_layout(const struct muon_set *set, uint64_t *bytes);

// Whether warpgroups multiply on a device.
bool ptxp_muon_has_groups(const ptx_device *device);

// Tables on the device, the module, and the launches.
struct muon_products;

// For a set that is laid out, which is not needed afterwards. NULL on an error: UNSUPPORTED below
// sm_80, CAPTURE, JIT, OUT_OF_MEMORY and those of ptx_buffer_create().
struct muon_products *ptxp_muon_create(ptx_device *device, const struct muon_set *set,
                                       CUdeviceptr workspace,
                                       const struct ptx_module_params *module, CUstream stream);
// The same with the kernels that another has, which is destroyed later: only others are loaded. It
// may be NULL.
struct muon_products *ptxp_muon_create_like(const struct muon_products *like, ptx_device *device,
                                            const struct muon_set *set, CUdeviceptr workspace,
                                            const struct ptx_module_params *module,
                                            CUstream stream);
// Launches only: it may be captured, and after an error the capture can end. X is overwritten.
ptx_status ptxp_muon_run(const struct muon_products *products, CUstream stream);
unsigned ptxp_muon_launches(const struct muon_products *products);
// One of them, in their order: what it is, and to make it alone.
struct muon_launch {
    const char *name;
    unsigned blocks;
    bool groups; // it multiplies by warpgroups
};
struct muon_launch ptxp_muon_launch_at(const struct muon_products *products, unsigned k);
ptx_status ptxp_muon_launch(const struct muon_products *products, unsigned k, CUstream stream);
// Work that uses it must be done. NULL is fine.
void ptxp_muon_destroy(struct muon_products *products);

#endif
