// SPDX-License-Identifier: MIT
/// Arrays of the command line: TYPE[COUNT]:FILL.
#ifndef PTXGEN_TOOLS_ARRAY_H
#define PTXGEN_TOOLS_ARRAY_H

#include "safetensors.h"

enum array_fill {
    ARRAY_GIVEN,         ///< no fill: the elements come from a file
    ARRAY_ZEROS,         ///< 0
    ARRAY_IOTA,          ///< 0, 1, 2, ...; integers wrap around, floats are rounded to nearest even
    ARRAY_RANDOM,        ///< floats uniform in [-1, 1), integers of all values
    ARRAY_UNINITIALISED, ///< device memory as it is; on the host, 0
};

enum { ARRAY_RANK_LIMIT = 8 };

/// Type, shape and contents, as they were written.
struct array_spec {
    const struct tensor_dtype *dtype;
    uint64_t shape[ARRAY_RANK_LIMIT];
    size_t rank;
    uint64_t count, bytes;
    enum array_fill fill;
};

/// The type of this name: that of kernels ("f32", "s32"), or that of tensor files in any case
/// ("i32", "F8_E4M3"). NULL: none.
const struct tensor_dtype *array_dtype(const char *name, size_t length);
/// Whether the word names contents: "zeros".
bool array_is_fill(const char *word);
/// Whether the text has the form of an array, TYPE[...
bool array_is(const char *text);
/// Parses TYPE[COUNT,COUNT...]:FILL. Text after ']' may be missing.
bool array_parse(struct array_spec *spec, const char *text, struct message *error);
/// Writes the elements. The same seed gives the same elements on every machine. False for a type
/// that has no such fill.
bool array_fill(const struct array_spec *spec, void *data, uint64_t seed, struct message *error);
/// The bits of a number in f16, bf16, f32 or f64, rounded to nearest even.
uint64_t array_float_bits(ptx_type type, double number);

#endif
