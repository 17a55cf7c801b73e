// SPDX-License-Identifier: MIT
/// What a step says of a tensor's weights, in plain C.
#ifndef PTXGEN_TESTS_WEIGHT_REPORT_H
#define PTXGEN_TESTS_WEIGHT_REPORT_H

#include "step_fixture.h"

/// Of tensor t of the set, after its step; `before`: the set's bytes before it; `tile`: of the
/// plan's description.
void weight_report_expect(const struct step_set *set, const unsigned char *before, size_t t,
                          uint32_t tile, struct ptx_weight_report *must);

#endif
