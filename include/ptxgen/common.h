// SPDX-License-Identifier: MIT
/// What every public header needs: version, export macro and option-argument macro.
#ifndef PTXGEN_COMMON_H
#define PTXGEN_COMMON_H

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "ptxgen needs C11: compile with -std=c11 or newer"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The version of the headers, for the preprocessor; ptxgen_version() returns that of the library.
#define PTXGEN_VERSION_MAJOR 0
#define PTXGEN_VERSION_MINOR 1
#define PTXGEN_VERSION_PATCH 0

// Functions throw nothing, so a caller in C++ needs no code for that.
#if defined(__GNUC__) || defined(__clang__)
#define PTXGEN_API_DATA __attribute__((visibility("default")))
#ifdef __cplusplus
#define PTXGEN_API __attribute__((visibility("default"), nothrow))
#else
#define PTXGEN_API PTXGEN_API_DATA
#endif
#define PTXGEN_PRINTF(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define PTXGEN_API_DATA
#define PTXGEN_API
#define PTXGEN_PRINTF(at, first)
#endif

#ifdef __cplusplus
#define PTXGEN_BEGIN extern "C" {
#define PTXGEN_END   }
#else
#define PTXGEN_BEGIN
#define PTXGEN_END
#endif

#define PTXGEN_JOIN_(x, y) x##y
#define PTXGEN_JOIN(x, y)  PTXGEN_JOIN_(x, y)

/// A struct with designated fields; the other fields are zero: `PTXGEN_STRUCT(ptx_cvt_params, .x =
/// x)`. A compound literal in C, a braced temporary in C++20 (where the fields must be in the order
/// of their declaration).
#include <ptxgen/struct.h>
#ifndef __cplusplus
#define PTXGEN_STRUCT(tag, ...) ((struct tag) { __VA_ARGS__ })
#endif

PTXGEN_BEGIN

/// The version of the linked library, "major.minor.patch". A constant string.
PTXGEN_API const char *ptxgen_version(void);

PTXGEN_END

#endif
