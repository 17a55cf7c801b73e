// SPDX-License-Identifier: MIT
/// Floats of 8 bits with a scale for each tensor, in plain C; the rules of reference.h.
#ifndef PTXGEN_TOOLS_REFERENCE_FP8_H
#define PTXGEN_TOOLS_REFERENCE_FP8_H

#include "reference/reference.h"

enum ref_fp8 { REF_E4M3, REF_E5M2 };

/// y[i] is the code of x[i] * scale, rounded to f32 and then to the format; *amax, unless NULL,
/// becomes the greatest of itself and every |x[i]| that is not NaN. x is not f64.
void ref_cast_fp8(enum ref_type type, const void *x, uint64_t n, enum ref_fp8 format, float scale,
                  uint8_t *y, float *amax);

struct ref_delayed_scale {
    bool most_recent; ///< row 0 of the history; otherwise the greatest of its rows
    enum ref_fp8 format;
    const uint32_t *formats; ///< if not NULL, one for each tensor, in place of `format`: 0 is e4m3
    int32_t margin;
};

/// The history has `rows` rows of n values, the newest first; rows is 1 or more.
void ref_delayed_scale_update(const struct ref_delayed_scale *rule, uint64_t n, uint64_t rows,
                              float *history, float *scale, float *scale_inv);

/// Codes in blocks of 128 x 128, or 1 x 128, with scales of their own: by rows of blocks, what the
/// codes are multiplied by. Transposed: of the transposed matrix, with its own blocks.
struct ref_fp8_blocks {
    bool of_rows; ///< 1 x 128
    enum ref_fp8 format;
    bool is_deepgemm, is_power;
};
void ref_cast_fp8_blocks(const struct ref_fp8_blocks *how, enum ref_type type, const void *x,
                         uint64_t rows, uint64_t columns, bool transposed, uint8_t *codes,
                         float *inverses);

#endif
