// SPDX-License-Identifier: MIT
// The values of the quantizers' option "target", also for the operations that choose one.
#ifndef PTXGEN_KERNELS_QUANTIZER_TARGET_H
#define PTXGEN_KERNELS_QUANTIZER_TARGET_H

// The quantized types with constant bounds: X(id, name, least, greatest).
#define QUANTIZER_TARGETS(X)                                                                       \
    X(S8, "s8", -128, 127)                                                                         \
    X(U8, "u8", 0, 255)

// TARGET_S8 and so on; with TARGET_ANY, the bounds are parameters.
#define QUANTIZER_TARGET_ID(id, name, least, greatest) TARGET_##id,
enum { QUANTIZER_TARGETS(QUANTIZER_TARGET_ID) TARGET_ANY };

#define QUANTIZER_TARGET_NAME(id, name, least, greatest) name,
#define QUANTIZER_TARGET_NAMES                           QUANTIZER_TARGETS(QUANTIZER_TARGET_NAME) "any"

#endif
