// SPDX-License-Identifier: MIT
/// An error message: one line, unless a compiler's log follows. Functions that can fail take a
/// message and return false; only subcommands print it.
#ifndef PTXGEN_TOOLS_MESSAGE_H
#define PTXGEN_TOOLS_MESSAGE_H

#include <ptxgen/common.h>

enum { MESSAGE_SIZE = 8192, QUOTED_SIZE = 96 };

struct message {
    char text[MESSAGE_SIZE];
};

/// Sets the text, truncated to fit, and returns false: `return message_set(error, ...)`.
bool message_set(struct message *message, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// Appends to the text, as far as it fits.
void message_add(struct message *message, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// Puts what to do before the text, which says why: "REMEDY: TEXT". As far as it fits.
void message_lead(struct message *message, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// "unknown WHAT 'GIVEN'", followed by the nearest name, or by all names if there are few or none
/// is near. Returns false.
bool message_unknown(struct message *message, const char *what, const char *given,
                     const char *const *names, size_t count);

/// `text` in single quotes, safe for a terminal: control characters and bytes beyond ASCII as \xNN,
/// truncated to fit. Names in files may contain anything. Returns `quoted`.
const char *quote(char quoted[QUOTED_SIZE], const char *text);

/// "" for 1, "s" for any other number: "%d tensor%s".
const char *plural(uint64_t count);

/// The unit, "B" to "GB", in which a number of bytes has a digit before the point; *scale: its
/// bytes.
const char *byte_unit(double bytes, double *scale);
enum { RATE_SIZE = 32 };
/// "3.5 GB/s", in the unit of byte_unit(); "" where the rate cannot be told: no bytes, or no time.
/// Returns `rate`.
const char *rate_of(char rate[RATE_SIZE], double bytes, double seconds);

/// The name that `given` was probably meant to be, or NULL if none is near.
const char *nearest_name(const char *given, const char *const *names, size_t count);

#endif
