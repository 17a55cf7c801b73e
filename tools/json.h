// SPDX-License-Identifier: MIT
/// jansson with its allocations watched. jansson itself leaves out of what it reads and writes some
/// of what it had no memory for, and reports success.
#ifndef PTXGEN_TOOLS_JSON_H
#define PTXGEN_TOOLS_JSON_H

#include "message.h"

#include <jansson.h>
#include <stdio.h>

/// Watches every allocation of jansson's from now on. To be called before what json_whole() is to
/// know of; once is enough.
void json_watch(void);
/// Whether none of them has failed so far, so that every value and text is complete.
bool json_whole(void);

/// The value as text, to be freed; the value is released. NULL if memory ran out, for the value
/// too: all values of a program may be made without a check and end here.
char *json_text(json_t *value, size_t flags);
/// Prints the value and a line's end, and releases it. False if memory ran out, and nothing is
/// printed then; an error of the stream is left to who flushes it.
bool json_print(FILE *stream, json_t *value, size_t flags, struct message *error);

/// A string, or null for NULL.
json_t *json_string_or_null(const char *text);

#endif
