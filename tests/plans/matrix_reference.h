// SPDX-License-Identifier: MIT
/// What a step of a matrix needs beside plain C of its elements (reference/step.h): its length,
/// from the formulas of muon.h, and its orthogonalized update. The products are the library's, of
/// this matrix alone: test_muon_products compares those.
#ifndef PTXGEN_TESTS_MATRIX_REFERENCE_H
#define PTXGEN_TESTS_MATRIX_REFERENCE_H

#include "gpu.h"
#include "random.h"
#include "reference/step.h"

/// What a group with matrices has. `muon` belongs to the caller.
void matrix_draw_group(struct random *r, struct ptx_step_group *group,
                       struct ptx_muon_params *muon);
/// A format without blocks, its types, and sizes, of at most so many elements.
void matrix_draw(struct random *r, uint64_t most, struct ptx_step_tensor *tensor);
/// X of a tensor on the host, whose rule is REF_MUON; the caller frees it. Sets the tensor's rate.
/// `group` is the plan's.
uint16_t *matrix_orthogonalize(struct ref_step_tensor *tensor, const struct ptx_step_group *group,
                               uint64_t columns, float factor);

#endif
