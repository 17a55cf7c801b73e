// SPDX-License-Identifier: MIT
#ifndef PTXGEN_TOOLS_BENCH_SET_CHECK_H
#define PTXGEN_TOOLS_BENCH_SET_CHECK_H

#include "bench_set.h"

/// Runs the plan once, with half the norm that the gradients have as its limit and a loss scale,
/// and holds norms and factors of all groups and some elements against what the host makes of the
/// same random numbers. The set's memory is as bench_randomize() left it; afterwards it is clipped.
bool bench_set_check(struct bench *b, const struct bench_set *set, ptx_clip_plan *plan,
                     const struct bench_sums *made);

#endif
