// SPDX-License-Identifier: MIT
/// Guards in plain C: a loop over steps, written from the formulas of guard.h; shares no code with
/// the library.
#ifndef PTXGEN_TESTS_REFERENCE_GUARD_H
#define PTXGEN_TESTS_REFERENCE_GUARD_H

#include "reference/reference.h"

enum { REF_GUARD_MOST_LENGTH = 512, REF_GUARD_MOST_GROUPS = 600 };
enum ref_skip {
    REF_SKIP_NONE,
    REF_SKIP_FOUND_INF,
    REF_SKIP_GIVEN,
    REF_SKIP_LIMIT,
    REF_SKIP_HISTORY
};

struct ref_guards {
    uint32_t groups;
    const float *limits; ///< one for each group; NULL: none
    uint32_t length;     ///< of the history; 0: none
    double deviations;
    bool has_loss;
    uint32_t most_skips;
    int group; ///< whose norm it looks at; -1: all
    uint32_t zclip_warmup, adagc_warmup;
    double alpha, z_most, lambda_abs, lambda_rel, beta;
    float eps;
};

struct ref_guard_state {
    float norms[REF_GUARD_MOST_LENGTH], losses[REF_GUARD_MOST_LENGTH]; ///< by their places
    uint32_t filled, next, in_a_row;
    uint64_t counts[8];
    double mean[REF_GUARD_MOST_GROUPS], variance[REF_GUARD_MOST_GROUPS];
    uint64_t count[REF_GUARD_MOST_GROUPS];
    enum ref_skip skipped;
    float norm;
};

/// What a step gives: sums of squares, records without guards, and inputs.
struct ref_guard_step {
    const double *sums;
    float (*records)[3]; ///< factor, norm, found_inf, of which the factors are replaced
    float loss_scale, given, loss;
};

/// Decides, and updates the state.
enum ref_skip ref_guard_decide(const struct ref_guards *guards, struct ref_guard_state *state,
                               const struct ref_guard_step *step);

/// The bytes of the state in device memory, as records.h lays them out. Returns their number.
size_t ref_guard_bytes(const struct ref_guards *guards, const struct ref_guard_state *state,
                       unsigned char *bytes);

#endif
