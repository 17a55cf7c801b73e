// SPDX-License-Identifier: MIT
/// Ends a cmocka test as skipped, with the reason. tests/summary.py counts the line, and fails if
/// the reason is wrong.
#ifndef PTXGEN_TESTS_SKIP_H
#define PTXGEN_TESTS_SKIP_H

#include <stdio.h>

#define skip_because(...) (fprintf(stderr, "SKIPPED, " __VA_ARGS__), fputc('\n', stderr), skip())

#endif
