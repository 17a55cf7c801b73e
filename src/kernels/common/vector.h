// SPDX-License-Identifier: MIT
// The vectors of the kernels, also for the plans that launch them.
#ifndef PTXGEN_KERNELS_VECTOR_H
#define PTXGEN_KERNELS_VECTOR_H

// The widest load and store of a thread. A kernel uses vectors only from addresses that are a
// multiple of this.
enum { VECTOR_BYTES = 16 };

#endif
