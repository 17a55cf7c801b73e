// SPDX-License-Identifier: MIT
/// The kernels of test_cpp.cc, written in C: their texts are the ones that C++ must give.
#ifndef PTXGEN_TESTS_IN_C_H
#define PTXGEN_TESTS_IN_C_H

#include <ptxgen/builder.h>

PTXGEN_BEGIN

void operators_in_c(ptx_builder *b);
void assignments_in_c(ptx_builder *b);
void memory_in_c(ptx_builder *b);
void blocks_in_c(ptx_builder *b);
void helpers_in_c(ptx_builder *b);
void functions_in_c(ptx_builder *b);
void classify_in_c(ptx_builder *b);
void module_in_c(ptx_builder *b);
void threads_in_c(ptx_builder *b);
void accesses_in_c(ptx_builder *b);
void matrices_in_c(ptx_builder *b);
void results_in_c(ptx_builder *b);

PTXGEN_END

#endif
