// SPDX-License-Identifier: MIT
// The rules of matrices.
#ifndef PTXGEN_EMULATOR_PTX_RULES_MATRIX_H
#define PTXGEN_EMULATOR_PTX_RULES_MATRIX_H

#include "check.h"

bool emu_rule_matrix(const struct check *c);
bool emu_rule_movmatrix(const struct check *c);
bool emu_rule_mma(const struct check *c);
bool emu_rule_wmma(const struct check *c);
bool emu_rule_wmma_move(const struct check *c);
bool emu_rule_wgmma(const struct check *c);

#endif
