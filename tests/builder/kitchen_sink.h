// SPDX-License-Identifier: MIT
// An entry that uses each feature of the builder at least once.
#ifndef PTXGEN_TESTS_KITCHEN_SINK_H
#define PTXGEN_TESTS_KITCHEN_SINK_H

#include <ptxgen/builder.h>

// Adds the entry `name`; needs sm_80.
void kitchen_sink(ptx_builder *b, const char *name);

#endif
