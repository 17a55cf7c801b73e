// SPDX-License-Identifier: MIT
/// What a command runs on: a GPU by its number, or the emulator.
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

/// A device that was opened, and how to speak of it.
struct opened {
    ptx_device *device;
    char name[128]; ///< its name; "the emulator (sm_90)"
    bool emulated;  ///< times are those of the emulator, and say nothing of a GPU
};

#define PLACE_HELP "a GPU's number, from 0, or emulator; default 0, or the emulator"

/// What --device says; NULL: it was not given. False if it is neither a number nor "emulator".
bool place_read(struct place *place, const char *text);
/// Opens the device, which the caller closes. Returns an exit status, with the reason in `error`
/// unless it is EXIT_DONE; EXIT_NOTHING where there is none and emulator_take_over() may help.
int place_open(const struct place *place, struct opened *opened, struct message *error);

/// EXIT_NOTHING if the thread's last driver error means that there is no GPU or no driver, else
/// EXIT_FAILED; sets `error` to its message, in one line where there is no GPU.
int gpu_error(struct message *error);

#endif
