// SPDX-License-Identifier: MIT
#ifndef PTXGEN_TOOLS_JSON_PRINT_H
#define PTXGEN_TOOLS_JSON_PRINT_H

#include "cli.h"

#include <jansson.h>

/// Prints the value on standard output, releases it and returns the exit status. NULL, as jansson
/// gives where memory ran out, is a failure.
int json_print(const struct command *command, json_t *value);
/// A string, or null for NULL.
json_t *json_text(const char *text);
/// The names of a kernel's dtypes.
json_t *json_dtypes(uint32_t dtypes);

#endif
