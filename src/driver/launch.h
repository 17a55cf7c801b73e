// SPDX-License-Identifier: MIT
/// For the layers above: launches whose parameters were checked before.
#ifndef PTXGEN_DRIVER_LAUNCH_H
#define PTXGEN_DRIVER_LAUNCH_H

#include <ptxgen/launch.h>

/// As ptx_launch() of a kernel with .reqntid and no dynamic shared memory, without its checks.
/// `values` has the address of each parameter's value.
ptx_status ptxd_launch_again(const ptx_function *function, uint32_t grid, bool programmatic,
                             CUstream stream, void **values);

#endif
