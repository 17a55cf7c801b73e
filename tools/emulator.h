// SPDX-License-Identifier: MIT
/// The libcuda that runs PTX on the CPU: where it is, and how the driver layer comes to load it.
#ifndef PTXGEN_TOOLS_EMULATOR_H
#define PTXGEN_TOOLS_EMULATOR_H

#include "cli.h"

#include <ptxgen/driver.h>

/// Whether the user has said which library is to be loaded; then no other is chosen here.
bool emulator_is_ruled_out(void);
/// Whether what the user has named, or emulator_choose() has, is a file that exists.
bool driver_is_there(void);
/// Has the driver layer load the emulator. To be called before anything of CUDA is in the process:
/// a driver, once loaded, stays. Returns an exit status, with the reason in `error` unless it is
/// EXIT_DONE.
int emulator_choose(struct message *error);
/// Whether a device is the emulator's, by the library that serves it.
bool emulator_is(const struct ptx_device_info *device);
/// To an error that says that there is no GPU, adds what the emulator could do about it: take its
/// place, where --device has chosen the GPU; or that it is not there either.
void emulator_advise(struct message *error, bool gpu_chosen);
/// After EXIT_NOTHING: starts the command anew, on the emulator; argv[0] is the subcommand. Returns
/// EXIT_NOTHING if there is no emulator, if it was ruled out, or if it runs already; EXIT_FAILED,
/// with the reason in `error`, if memory ran out.
int emulator_take_over(int argc, char **argv, struct message *error);

#endif
