// SPDX-License-Identifier: MIT
// The exponents with which pow is tried for every x.
#ifndef PTXGEN_TESTS_MATH_POWERS_H
#define PTXGEN_TESTS_MATH_POWERS_H

static const float math_powers[] = {
    0.5f,           -0.5f,
    0.25f,          -0.25f,
    0x1.555556p-2f, -0x1.555556p-2f,
    0x1.555556p-1f, 0.75f, //
    1.0f,           -1.0f,
    1.5f,           -1.5f,
    2.0f,           -2.0f,
    2.5f,           -2.5f, //
    3.0f,           -3.0f,
    4.0f,           -4.0f,
    5.0f,           7.0f,
    -7.0f,          10.0f, //
    13.0f,          -16.0f,
    17.0f,          31.0f,
    -33.0f,         64.0f,
    127.0f,         -149.0f,
    255.0f,         1000.0f,
    1e4f,           1e5f,
    1e6f,           1e7f,
    -1e8f,          0x1p30f,
    0.1f,           0.01f,
    1e-3f,          -1e-5f,
    1e-20f,         0x1p-149f,
    2.2f,           0x1.333334p-1f,
    0x1.921fb6p+1f, 0x1.fffffep+127f,
};
enum { MATH_POWERS = sizeof math_powers / sizeof *math_powers };

#endif
