// SPDX-License-Identifier: MIT
/// The safetensors file layout: 8 bytes of header length, little-endian; a JSON header that gives
/// each tensor its dtype, shape and place; the tensors' bytes, side by side without gaps.
///
/// Nothing in a file is trusted: whatever the header says is checked before it is used, and an
/// error says which file, tensor and byte. The data itself is little-endian and not interpreted.
#ifndef PTXGEN_TOOLS_SAFETENSORS_H
#define PTXGEN_TOOLS_SAFETENSORS_H

#include "output.h"

#include <ptxgen/types.h>

/// Name in the file, bytes of an element, type of a kernel's elements (NONE: no kernel has it).
#define TENSOR_DTYPES(X)                                                                           \
    X(BOOL, 1, NONE)                                                                               \
    X(U8, 1, U8)                                                                                   \
    X(I8, 1, S8)                                                                                   \
    X(F8_E5M2, 1, NONE)                                                                            \
    X(F8_E4M3, 1, NONE)                                                                            \
    X(F8_E8M0, 1, NONE)                                                                            \
    X(U16, 2, U16)                                                                                 \
    X(I16, 2, S16)                                                                                 \
    X(F16, 2, F16)                                                                                 \
    X(BF16, 2, BF16)                                                                               \
    X(U32, 4, U32)                                                                                 \
    X(I32, 4, S32)                                                                                 \
    X(F32, 4, F32)                                                                                 \
    X(U64, 8, U64)                                                                                 \
    X(I64, 8, S64)                                                                                 \
    X(F64, 8, F64)                                                                                 \
    X(C64, 8, NONE)

struct tensor_dtype {
    const char *name;
    unsigned bytes;
    ptx_type type;
};

/// NULL if there is none of that name, or none with elements of that type.
const struct tensor_dtype *tensor_dtype_named(const char *name);
const struct tensor_dtype *tensor_dtype_of(ptx_type type);

/// Most bytes of a header, as the reference implementation has it, and most dimensions.
enum { TENSOR_HEADER_LIMIT = 100000000, TENSOR_RANK_LIMIT = 64 };

struct tensor {
    const char *name;
    const struct tensor_dtype *dtype;
    const uint64_t *shape;
    size_t rank;
    uint64_t count; ///< elements: the product of the shape, 1 for rank 0
    uint64_t bytes;
    const void *data; ///< not aligned
};

/// One line of the header's `__metadata__`.
struct tensor_note {
    const char *key;
    const char *value;
};

/// What a file holds. Everything in it belongs to the file.
struct tensor_file {
    const char *path;
    struct tensor *tensors; ///< in the order of their data
    size_t count;
    struct tensor_note *notes;
    size_t note_count;
    uint64_t *shapes; ///< all tensors' shapes
    void *header;     ///< the parsed JSON, which holds the strings
    void *map;        ///< the whole file, mapped for reading
    size_t map_bytes;
};

/// Maps the file and reads its header. A file without a tensor is an error. `path` must outlive the
/// file. On failure there is nothing
/// to close.
bool tensor_file_open(struct tensor_file *file, const char *path, struct message *error);
/// The same with bytes in memory, which must outlive the file; `path` is for messages.
bool tensor_file_parse(struct tensor_file *file, const char *path, const void *bytes, size_t size,
                       struct message *error);
void tensor_file_close(struct tensor_file *file);

/// The tensor of that name, or NULL.
const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name);

/// Writes a file, whole or not at all; `path` and `force` are those of output_open(). Of each
/// tensor, `bytes` must be what shape and dtype make; names must differ, and there must be one at
/// least: a file without tensors is not read again. Tensors of wider elements come first, so that
/// all are aligned.
bool tensor_file_write(const char *path, bool force, const struct tensor *tensors, size_t count,
                       const struct tensor_note *notes, size_t note_count, struct message *error);

/// The same for data that is not there yet: writes the file's header to an output that was opened.
/// The caller adds the data with output_write() in the order of tensor_file_order() and completes
/// the file with output_commit(). Of the tensors, `data` is not looked at. False if memory ran out;
/// the output is the caller's to discard.
bool tensor_file_begin(struct output *output, const struct tensor *tensors, size_t count,
                       const struct tensor_note *notes, size_t note_count, struct message *error);
/// The order that tensors have in a file that is written here; room for `count` of them.
void tensor_file_order(const struct tensor *tensors, size_t count, const struct tensor **order);

#endif
