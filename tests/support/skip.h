// SPDX-License-Identifier: MIT
/// Ends a cmocka test as skipped and says why. tests/summary.py counts the line, and fails where
/// the reason does not hold.
#ifndef PTXGEN_TESTS_SKIP_H
#define PTXGEN_TESTS_SKIP_H

#include <stdio.h>

#define skip_because(...) (fprintf(stderr, "SKIPPED, " __VA_ARGS__), fputc('\n', stderr), skip())

#endif
