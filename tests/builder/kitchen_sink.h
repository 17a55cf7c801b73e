// SPDX-License-Identifier: MIT
// An entry with something of everything that the builder has.
#ifndef PTXGEN_TESTS_KITCHEN_SINK_H
#define PTXGEN_TESTS_KITCHEN_SINK_H

#include <ptxgen/builder.h>

// Adds the entry `name`; needs sm_80.
void kitchen_sink(ptx_builder *b, const char *name);

#endif
