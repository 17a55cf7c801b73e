// SPDX-License-Identifier: MIT
/// Files that are mapped for reading, and standard input as one of them.
#ifndef PTXGEN_TOOLS_INPUT_H
#define PTXGEN_TOOLS_INPUT_H

#include "message.h"

/// Opens a file to be mapped, without waiting for the writer of a FIFO. "-" is standard input, and
/// *path becomes its name for messages: a regular file that is read from its beginning is used as
/// it is; anything else is read to its end into memory, which then takes the place of standard
/// input, so that the command can be started again (emulator_take_over()). A terminal is refused.
/// Returns a descriptor, which the caller closes, or -1.
int input_open(const char **path, struct message *error);
/// The size of an open file, which must be a regular one and not empty.
bool input_size(int descriptor, const char *path, size_t *size, struct message *error);

#endif
