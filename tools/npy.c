// SPDX-License-Identifier: MIT
#include "npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";

enum { MAGIC_BYTES = 6, VERSION_BYTES = 2 };

/// The types that numpy has by itself; bfloat16 and 8-bit floats are of other packages.
static const struct {
    const char *descr, *dtype;
} types[] = {
    { "|b1", "BOOL" }, { "|u1", "U8" },  { "|i1", "I8" },  { "<u2", "U16" }, { "<i2", "I16" },
    { "<f2", "F16" },  { "<u4", "U32" }, { "<i4", "I32" }, { "<f4", "F32" }, { "<u8", "U64" },
    { "<i8", "I64" },  { "<f8", "F64" }, { "<c8", "C64" },
};

/// The header while it is read.
struct cursor {
    const char *at, *end;
    bool ok; ///< nothing was missing so far
};

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\n", *c->at))
        c->at++;
}

static bool take(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static void need(struct cursor *c, char wanted)
{
    c->ok = take(c, wanted) && c->ok;
}

/// A string in quotes, cut to fit.
static void take_string(struct cursor *c, char *text, size_t size)
{
    skip_blanks(c);
    const char quote = c->at < c->end ? *c->at : '\0';
    const char *stop = quote == '\'' || quote == '"'
                           ? memchr(c->at + 1, quote, (size_t)(c->end - c->at - 1))
                           : NULL;
    text[0] = '\0';
    c->ok = c->ok && stop;
    if (!stop)
        return;
    const size_t length = (size_t)(stop - c->at - 1);
    snprintf(text, size, "%.*s", (int)(length < size ? length : size - 1), c->at + 1);
    c->at = stop + 1;
}

static bool take_word(struct cursor *c, const char *word)
{
    skip_blanks(c);
    const size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

static uint64_t take_number(struct cursor *c)
{
    uint64_t value = 0;
    bool digits = false, fits = true;
    skip_blanks(c);
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, digits = true)
        fits = fits && !__builtin_mul_overflow(value, 10u, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*c->at - '0'), &value);
    c->ok = c->ok && digits && fits;
    return value;
}

static void take_shape(struct cursor *c, struct tensor *tensor, uint64_t *shape)
{
    need(c, '(');
    while (c->ok && !take(c, ')')) {
        if (tensor->rank == TENSOR_RANK_LIMIT) {
            c->ok = false;
            return;
        }
        shape[tensor->rank++] = take_number(c);
        if (!take(c, ',')) {
            need(c, ')');
            return;
        }
    }
}

struct header {
    char descr[16];
    bool fortran, has_descr, has_order, has_shape;
    bool structured; ///< the type is a list of fields; the rest is not read
};

static void read_header(struct cursor *c, struct header *header, struct tensor *tensor,
                        uint64_t *shape)
{
    need(c, '{');
    while (c->ok && !take(c, '}')) {
        char key[16];
        take_string(c, key, sizeof(key));
        need(c, ':');
        if (strcmp(key, "descr") == 0 && !header->has_descr) {
            header->has_descr = true;
            header->structured = take(c, '[');
            c->ok = c->ok && !header->structured;
            take_string(c, header->descr, sizeof(header->descr));
        } else if (strcmp(key, "fortran_order") == 0) {
            header->has_order = true;
            header->fortran = take_word(c, "True");
            c->ok = c->ok && (header->fortran || take_word(c, "False"));
        } else if (strcmp(key, "shape") == 0 && !header->has_shape) {
            header->has_shape = true;
            take_shape(c, tensor, shape);
        } else {
            c->ok = false;
        }
        if (!take(c, ',')) {
            need(c, '}');
            break;
        }
    }
    c->ok = c->ok && header->has_descr && header->has_order && header->has_shape;
}

static bool size_of(struct tensor *tensor)
{
    tensor->count = 1;
    for (size_t k = 0; k < tensor->rank; k++)
        if (__builtin_mul_overflow(tensor->count, tensor->shape[k], &tensor->count))
            return false;
    return !__builtin_mul_overflow(tensor->count, (uint64_t)tensor->dtype->bytes, &tensor->bytes);
}

static bool check(const struct header *header, struct tensor *tensor, const char *path,
                  uint64_t data_bytes, struct message *error)
{
    char quoted[QUOTED_SIZE];
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++)
        if (strcmp(types[k].descr, header->descr) == 0)
            tensor->dtype = tensor_dtype_named(types[k].dtype);
    if (header->descr[0] == '>')
        return message_set(
            error, "%s: big-endian; save array.astype(array.dtype.newbyteorder('<'))", path);
    if (!tensor->dtype)
        return message_set(error,
                           "%s: elements of type %s; there are booleans, integers, float16, "
                           "float32, float64 and complex64",
                           path, quote(quoted, header->descr));
    if (header->fortran && tensor->rank > 1)
        return message_set(error, "%s: in Fortran order; save numpy.ascontiguousarray(array)",
                           path);
    if (!size_of(tensor) || tensor->bytes != data_bytes)
        return message_set(
            error, "%s: %" PRIu64 " byte%s of data, which is not what its type and shape take",
            path, data_bytes, plural(data_bytes));
    return true;
}

static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path;
    const char *dot = strrchr(begin, '.');
    return strndup(begin, dot && dot > begin ? (size_t)(dot - begin) : strlen(begin));
}

bool npy_is(const void *bytes, size_t size)
{
    return size >= MAGIC_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

bool npy_parse(struct tensor_file *file, const char *path, const void *bytes, size_t size,
               struct message *error)
{
    const unsigned char *at = bytes;
    const size_t wide = size > MAGIC_BYTES && at[MAGIC_BYTES] == 1 ? 2 : 4;
    const size_t head = MAGIC_BYTES + VERSION_BYTES + wide;
    struct header header = { 0 };
    uint64_t length = 0;
    if (size >= head)
        for (size_t k = 0; k < wide; k++)
            length |= (uint64_t)at[MAGIC_BYTES + VERSION_BYTES + k] << 8 * k;
    if (size < head || at[MAGIC_BYTES] < 1 || at[MAGIC_BYTES] > 3 || length > size - head)
        return message_set(error, "%s: a truncated .npy file, or one of an unknown version", path);
    file->tensors = calloc(1, sizeof(*file->tensors));
    file->shapes = calloc(TENSOR_RANK_LIMIT, sizeof(*file->shapes));
    file->own_name = name_of(path);
    if (!file->tensors || !file->shapes || !file->own_name)
        return message_set(error, "%s: out of memory", path);
    struct tensor *tensor = file->tensors;
    tensor->name = file->own_name;
    tensor->shape = file->shapes;
    struct cursor c = { (const char *)at + head, (const char *)at + head + length, true };
    read_header(&c, &header, tensor, file->shapes);
    if (header.structured)
        return message_set(
            error, "%s: elements of a structured type; save array.view('u1'), its bytes", path);
    if (!c.ok)
        return message_set(error, "%s: the header of the .npy file is damaged", path);
    if (!check(&header, tensor, path, size - head - length, error))
        return false;
    tensor->data = at + head + length;
    file->count = 1;
    return true;
}
