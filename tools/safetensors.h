// SPDX-License-Identifier: MIT
/// The safetensors file format: 8 bytes of header length (little-endian), a JSON header with dtype,
/// shape and offsets of each tensor, then the data of the tensors without gaps.
///
/// Files are not trusted: everything in the header is checked before it is used, and an error names
/// the file, tensor and byte. The data is little-endian and is not interpreted.
#ifndef PTXGEN_TOOLS_SAFETENSORS_H
#define PTXGEN_TOOLS_SAFETENSORS_H

#include "output.h"

#include <ptxgen/types.h>

/// The name in the file, the bytes of an element, and the element type of kernels (NONE: no kernel
/// supports it).
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

/// NULL if there is no dtype of this name, or none with elements of this type.
const struct tensor_dtype *tensor_dtype_named(const char *name);
const struct tensor_dtype *tensor_dtype_of(ptx_type type);
/// The dtype of codes of a format: F8_E4M3 for "e4m3". NULL if there is none.
const struct tensor_dtype *tensor_dtype_of_format(const char *format);

/// The maximum bytes of a header, as in the reference implementation, and the maximum number of
/// dimensions.
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

/// The contents of a file. The file owns everything in it.
struct tensor_file {
    const char *path;
    struct tensor *tensors; ///< in order of their data
    size_t count;
    struct tensor_note *notes;
    size_t note_count;
    uint64_t *shapes; ///< all tensors' shapes
    void *header;     ///< the parsed JSON, which owns the strings
    void *map;        ///< the whole file, mapped for reading
    size_t map_bytes;
    struct tensor_file *shards; ///< of an index; `tensors` then has theirs, shard by shard
    size_t shard_count;         ///< 0: no index
    char *index;                ///< the text of the index
    char *name;                 ///< of a shard: its path
    char *own_name;             ///< of an .npy file: the name of its array
};

/// Maps the file and reads its header. A file without tensors is an error. An .npy file of NumPy is
/// one of one tensor (npy.h). "-" is standard input,
/// as in input_open(). `path` must outlive the file. After a failure there is nothing to close.
bool tensor_file_open(struct tensor_file *file, const char *path, struct message *error);
/// The same for bytes in memory, which must outlive the file; `path` is for messages.
bool tensor_file_parse(struct tensor_file *file, const char *path, const void *bytes, size_t size,
                       struct message *error);
void tensor_file_close(struct tensor_file *file);

/// Opens the shards of a model: `path` is the index, whose weight_map names the file, in the same
/// folder, of each tensor. Index and shards must agree. Shards are in the order of their names.
bool tensor_index_open(struct tensor_file *file, const char *path, struct message *error);
/// Whether the path is one of an index: it ends in .index.json.
bool tensor_index_is(const char *path);
/// The path of a file beside an index, which the caller frees; NULL: out of memory.
char *tensor_index_beside(const char *path, const char *name);

/// The most shards of an index.
enum { TENSOR_SHARD_LIMIT = 1000 };

/// The tensor of this name, or NULL.
const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name);

/// Writes a file, completely or not at all; `path` and `force` are those of output_open(). `bytes`
/// of each tensor must match its shape and dtype; names must be unique. There must be at least one
/// tensor, because files without tensors cannot be read again. Tensors with wider elements come
/// first, so that all are aligned.
bool tensor_file_write(const char *path, bool force, const struct tensor *tensors, size_t count,
                       const struct tensor_note *notes, size_t note_count, struct message *error);

/// The same without the data: writes the file's header to an open output. The caller appends the
/// data with output_write() in the order of tensor_file_order() and completes the file with
/// output_commit(). `data` of the tensors is not used. False if memory ran out; the caller must
/// discard the output.
bool tensor_file_begin(struct output *output, const struct tensor *tensors, size_t count,
                       const struct tensor_note *notes, size_t note_count, struct message *error);
/// The order of the tensors in a written file; `order` has room for `count` tensors.
void tensor_file_order(const struct tensor *tensors, size_t count, const struct tensor **order);

#endif
