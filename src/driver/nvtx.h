// SPDX-License-Identifier: MIT
/// Ranges of NVTX 3 around calls, for profilers. Without a profiler they cost a load and a branch.
#ifndef PTXGEN_DRIVER_NVTX_H
#define PTXGEN_DRIVER_NVTX_H

/// Begins a range of the domain "ptxgen" on this thread, which ptxd_range_end() ends there. They
/// may nest. `name`: a public function.
void ptxd_range_begin(const char *name);
void ptxd_range_end(void);

#endif
