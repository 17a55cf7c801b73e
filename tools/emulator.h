// SPDX-License-Identifier: MIT
/// The libcuda that runs PTX on the CPU: finds it and makes the driver layer load it.
#ifndef PTXGEN_TOOLS_EMULATOR_H
#define PTXGEN_TOOLS_EMULATOR_H

#include "cli.h"

#include <ptxgen/driver.h>

/// Whether the user has specified the library to load; then no other library is selected here.
bool emulator_is_ruled_out(void);
/// Whether the library that the user or emulator_choose() selected is a file that exists.
bool driver_is_there(void);
/// Makes the driver layer load the emulator. Must be called before the process uses CUDA, because a
/// loaded driver cannot be unloaded. Returns an exit status, with the reason in `error` unless it
/// is EXIT_DONE.
int emulator_choose(struct message *error);
/// Whether a device belongs to the emulator, judged by its library.
bool emulator_is(const struct ptx_device_info *device);
/// Begins an error about a missing GPU with what the emulator can do: it can be used instead if
/// --device selected the GPU, or it does not exist either.
void emulator_advise(struct message *error, bool gpu_chosen);
/// After EXIT_NOTHING: starts the program again on the emulator, with these arguments after its
/// name. Returns EXIT_NOTHING if there is no emulator, if it is excluded, or if it is already in
/// use; EXIT_FAILED, with the reason in `error`, if memory ran out.
int emulator_take_over(int argc, char **argv, struct message *error);

#endif
