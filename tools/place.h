// SPDX-License-Identifier: MIT
/// The device of a command: a GPU by number, or the emulator.
#ifndef PTXGEN_TOOLS_PLACE_H
#define PTXGEN_TOOLS_PLACE_H

#include "cli.h"

#include <ptxgen/builder.h>
#include <ptxgen/driver.h>

struct place {
    int ordinal;
    bool chosen; ///< by --device
    bool emulator;
};

/// An opened device and its description.
struct opened {
    ptx_device *device;
    char name[128]; ///< name of the device; "the emulator (sm_90)"
    bool emulated;  ///< times are those of the emulator, not of a GPU
};

#define PLACE_HELP "a GPU's number, from 0, or emulator; default 0, or the emulator"

/// Parses --device; NULL: the option was not given. False if it is neither a number nor "emulator".
bool place_read(struct place *place, const char *text);
/// Opens the device, which the caller closes. Returns an exit status, with the reason in `error`
/// unless it is EXIT_DONE; EXIT_NOTHING if there is no device and emulator_take_over() may help.
int place_open(const struct place *place, struct opened *opened, struct message *error);

/// EXIT_NOTHING if the thread's last driver error means that there is no GPU or no driver, else
/// EXIT_FAILED. Sets `error` to the message; if there is no GPU, as one line.
int gpu_error(struct message *error);

#endif
