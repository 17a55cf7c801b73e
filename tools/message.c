// SPDX-License-Identifier: MIT
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct message *message, const char *format, va_list arguments)
{
    size_t used = strlen(message->text);
    size_t room = sizeof(message->text) - used;
    int length = vsnprintf(message->text + used, room, format, arguments);
    if (length >= 0 && (size_t)length >= room && room > 4)
        memcpy(message->text + sizeof(message->text) - 4, "...", 4);
}

bool message_set(struct message *message, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message->text[0] = '\0';
    add(message, format, arguments);
    va_end(arguments);
    return false;
}

void message_add(struct message *message, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(message, format, arguments);
    va_end(arguments);
}

void message_lead(struct message *message, const char *format, ...)
{
    const struct message reason = *message;
    va_list arguments;
    va_start(arguments, format);
    message->text[0] = '\0';
    add(message, format, arguments);
    va_end(arguments);
    message_add(message, ": %s", reason.text);
}

bool message_unknown(struct message *message, const char *what, const char *given,
                     const char *const *names, size_t count)
{
    char quoted[QUOTED_SIZE];
    message_set(message, "unknown %s %s", what, quote(quoted, given));
    enum { FEW = 4 };
    const char *near = nearest_name(given, names, count);
    if (near && count > FEW) {
        message_add(message, ": did you mean '%s'?", near);
        return false;
    }
    for (size_t k = 0; k < count; k++)
        message_add(message, "%s%s", k == 0 ? ": there is " : ", ", names[k]);
    return false;
}

const char *quote(char quoted[QUOTED_SIZE], const char *text)
{
    // Reserves room for the longest escape, three dots, the closing quote and the NUL.
    const size_t limit = QUOTED_SIZE - (4 + 3 + 1 + 1);
    size_t length = 0;
    quoted[length++] = '\'';
    for (; *text && length <= limit; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte >= 0x20 && byte < 0x7f)
            quoted[length++] = *text;
        else
            length += (size_t)snprintf(quoted + length, 5, "\\x%02x", byte);
    }
    strcpy(quoted + length, *text ? "...'" : "'");
    return quoted;
}

const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

const char *byte_unit(double bytes, double *scale)
{
    static const char *const units[] = { "B", "kB", "MB", "GB" };
    size_t k = 0;
    for (*scale = 1; k < 3 && bytes >= 1e3 * *scale; k++)
        *scale *= 1e3;
    return units[k];
}

const char *rate_of(char rate[RATE_SIZE], double bytes, double seconds)
{
    const double speed = seconds > 0 ? bytes / seconds : 0;
    double scale;
    const char *unit = byte_unit(speed, &scale);
    rate[0] = '\0';
    if (speed >= 1)
        snprintf(rate, RATE_SIZE, "%.1f %s/s", speed / scale, unit);
    return rate;
}

enum { LONGEST_NAME = 63 };

/// The number of insertions, deletions and replacements that turn one name into the other
/// (Levenshtein).
static size_t edit_distance(const char *x, size_t x_length, const char *y, size_t y_length)
{
    size_t row[LONGEST_NAME + 1];
    for (size_t j = 0; j <= y_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= x_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= y_length; j++) {
            size_t replaced = diagonal + (x[i - 1] != y[j - 1]);
            size_t edited = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < edited ? replaced : edited;
        }
    }
    return row[y_length];
}

const char *nearest_name(const char *given, const char *const *names, size_t count)
{
    size_t given_length = strlen(given);
    if (given_length > LONGEST_NAME)
        return NULL;
    const char *nearest = NULL;
    size_t least = given_length / 3 + 1;
    for (size_t k = 0; k < count; k++) {
        size_t length = strlen(names[k]);
        if (length > LONGEST_NAME)
            continue;
        size_t distance = edit_distance(given, given_length, names[k], length);
        if (distance < least || (distance == least && !nearest)) {
            least = distance;
            nearest = names[k];
        }
    }
    // If every letter must change, the names have nothing in common.
    return least < given_length ? nearest : NULL;
}
