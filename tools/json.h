// SPDX-License-Identifier: MIT
/// jansson with its allocations monitored. If jansson runs out of memory, it omits some of the data
/// that it reads or writes and reports success.
#ifndef PTXGEN_TOOLS_JSON_H
#define PTXGEN_TOOLS_JSON_H

#include "message.h"

#include <jansson.h>
#include <stdio.h>

/// Monitors every allocation of jansson from now on. Must be called before the allocations that
/// json_whole() reports on; once is enough.
void json_watch(void);
/// Whether no allocation has failed so far, so that every value and text is complete.
bool json_whole(void);

/// The value as text, which the caller frees; releases the value. NULL if memory ran out, also for
/// the value: values can be built without checks and are checked here.
char *json_text(json_t *value, size_t flags);
/// Prints the value and a newline, and releases it. Returns false, with nothing printed, if memory
/// ran out. The caller detects errors of the stream when flushing it.
bool json_print(FILE *stream, json_t *value, size_t flags, struct message *error);

/// A string, or null for NULL.
json_t *json_string_or_null(const char *text);

#endif
