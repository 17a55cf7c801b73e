// SPDX-License-Identifier: MIT
/// A set of matrices, which rule muon steps, and a tensor of AdamW behind them, on the device and
/// on the host. Runs a step plan of it and compares every byte with plain C that is written from
/// the formulas of muon.h. The products alone are the library's: test_muon_products compares those.
#ifndef PTXGEN_TESTS_MATRIX_FIXTURE_H
#define PTXGEN_TESTS_MATRIX_FIXTURE_H

#include "gpu.h"
#include "plan_calls.h"
#include "random.h"

enum { MATRIX_MOST = 13, MATRIX_ROOM = 170000 * 4 }; // bytes between arrays
/// Arrays of a tensor. AdamW has its second state in the place of `MATRIX_BESIDE`.
enum {
    MATRIX_PARAMETER,
    MATRIX_GRADIENT,
    MATRIX_BESIDE,
    MATRIX_STATE,
    MATRIX_COUNT,
    MATRIX_ARRAYS
};

struct matrix_shape {
    uint64_t rows, columns;
    ptx_step_format format;
    ptx_type parameter, gradient;
    bool absent; ///< has no gradient
};

struct matrix_set {
    size_t count; ///< of matrices, behind which AdamW has a tensor
    const struct matrix_shape *shapes;
    struct ptx_step_tensor tensors[MATRIX_MOST + 1];
    struct ptx_step_group groups[2]; ///< muon's, AdamW's
    struct ptx_muon_params muon;
    struct ptx_step_params params;
    ptx_buffer *memory;
    unsigned char *expected; ///< bytes of the memory
    size_t bytes;
};

/// The shape of AdamW's tensor.
extern const struct matrix_shape matrix_adamw;

/// Random parameters and states. `shapes` is kept. Fields of the set may be changed before a plan
/// is made of it. The GPU owns what the set has, which may be made again.
void matrix_set_create(struct matrix_set *set, struct random *r, const struct matrix_shape *shapes,
                       size_t count);
/// Where an array of tensor `t` is on the host.
void *matrix_array(const struct matrix_set *set, size_t t, unsigned array);
/// An element of a matrix's array, in its type.
float matrix_get(const struct matrix_set *set, size_t t, unsigned array, uint64_t i);
void matrix_put(const struct matrix_set *set, size_t t, unsigned array, uint64_t i, float x);
/// Copies all of the host's bytes to the device.
void matrix_set_upload(const struct matrix_set *set);
/// New gradients, on host and device.
void matrix_set_gradients(struct matrix_set *set, struct random *r);
/// Zeros in all gradients, on the host.
void matrix_set_clear(const struct matrix_set *set);
/// Takes the step on the host that is not skipped, with the factor of the plan's last run.
void matrix_set_expect(const struct matrix_set *set, const ptx_step_plan *plan, uint32_t step);
/// Compares every byte of the device with the host's.
void matrix_set_check(const struct matrix_set *set, const char *what);
/// Creates the plan; fails the test if that fails.
ptx_step_plan *matrix_plan(const struct matrix_set *set);
/// Takes three steps and compares them: in one run, in phases, by a graph.
void matrix_set_steps(struct matrix_set *set, struct random *r);
/// Two, of which numbers of `form` one after the other have all: each costs twice its products.
void matrix_set_two_steps(struct matrix_set *set, struct random *r, unsigned form);

#endif
