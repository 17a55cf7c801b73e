// SPDX-License-Identifier: MIT
#ifndef PTXGEN_TESTS_ASM_MODULE_H
#define PTXGEN_TESTS_ASM_MODULE_H

#include <ptxgen/builder.h>

// Texts of every kind, in the module and in an entry `k`; for sm_70 and up.
void asm_module(ptx_builder *b);

#endif
