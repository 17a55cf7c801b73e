// SPDX-License-Identifier: MIT
/// Text that says what went wrong: one line, unless a compiler has more to say. Functions that can
/// fail take one and return false; only the subcommands print it.
#ifndef PTXGEN_TOOLS_MESSAGE_H
#define PTXGEN_TOOLS_MESSAGE_H

#include <ptxgen/common.h>

enum { MESSAGE_SIZE = 8192, QUOTED_SIZE = 96 };

struct message {
    char text[MESSAGE_SIZE];
};

/// Sets the text, cut to fit, and returns false: `return message_set(error, ...)`.
bool message_set(struct message *message, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// Adds to the text, as far as it fits.
void message_add(struct message *message, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// "unknown WHAT 'GIVEN'", followed by the nearest of the names, or by all of them where they are
/// few or none is near. Returns false.
bool message_unknown(struct message *message, const char *what, const char *given,
                     const char *const *names, size_t count);

/// `text` between single quotes, safe for a terminal: control characters and bytes beyond ASCII
/// as \xNN, cut to fit. Names out of a file may hold anything. Returns `quoted`.
const char *quote(char quoted[QUOTED_SIZE], const char *text);

/// "" for one, "s" for any other number: "%d tensor%s".
const char *plural(uint64_t count);

/// The name that `given` was probably meant to be, or NULL if none is near.
const char *nearest_name(const char *given, const char *const *names, size_t count);

#endif
