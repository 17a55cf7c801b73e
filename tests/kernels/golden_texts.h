// SPDX-License-Identifier: MIT
// Between the texts (golden_texts.c) and their comparison (test_golden.c).
#ifndef TESTS_KERNELS_GOLDEN_TEXTS_H
#define TESTS_KERNELS_GOLDEN_TEXTS_H

#include <ptxgen/builder.h>

struct golden;

/// Adds a text to the hashes, under this name. file: of golden/, or NULL. Destroys the builder.
void check_text(struct golden *g, ptx_builder *b, const char *name, const char *file);

/// check_text() of each.
void check_all_texts(struct golden *g);

#endif
