// SPDX-License-Identifier: MIT
#include "safetensors.h"

#include "input.h"
#include "json.h"
#include "npy.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct tensor_dtype dtypes[] = {
#define DTYPE(name, bytes, type) { #name, bytes, PTX_##type },
    TENSOR_DTYPES(DTYPE)
#undef DTYPE
};

enum { DTYPE_COUNT = sizeof(dtypes) / sizeof(dtypes[0]) };

const struct tensor_dtype *tensor_dtype_named(const char *name)
{
    for (size_t k = 0; k < DTYPE_COUNT; k++)
        if (strcmp(dtypes[k].name, name) == 0)
            return &dtypes[k];
    return NULL;
}

const struct tensor_dtype *tensor_dtype_of(ptx_type type)
{
    for (size_t k = 0; k < DTYPE_COUNT; k++)
        if (dtypes[k].type == type && type != PTX_NONE)
            return &dtypes[k];
    return NULL;
}

const struct tensor_dtype *tensor_dtype_of_format(const char *format)
{
    static const char prefix[] = "F8_";
    for (size_t k = 0; k < DTYPE_COUNT; k++)
        if (strncmp(dtypes[k].name, prefix, sizeof(prefix) - 1) == 0 &&
            strcasecmp(dtypes[k].name + sizeof(prefix) - 1, format) == 0)
            return &dtypes[k];
    return NULL;
}

// ---- the header ---------------------------------------------------------------------------------

/// State of the checks of one header.
struct reader {
    struct tensor_file *file;
    const char *data; ///< the file after the header
    uint64_t data_bytes;
    uint64_t data_at; ///< offset of the data in the file
    uint64_t *shape;  ///< next free element of file->shapes
    struct message *error;
};

enum { DEEPEST = 3 };

/// Refuses JSON that would be deeply nested or much larger than the file, before a tree is built.
/// Recognises strings; the JSON parser checks all other syntax.
static bool check_nesting(const char *path, const char *text, size_t length, struct message *error)
{
    char open[DEEPEST] = { 0 };
    size_t items[DEEPEST] = { 0 };
    size_t depth = 0;
    bool string = false;
    for (size_t k = 0; k < length; k++) {
        char c = text[k];
        if (string) {
            k += c == '\\';
            string = c != '"';
        } else if (c == '"') {
            string = true;
        } else if (c == '{' || c == '[') {
            if (depth == DEEPEST)
                return message_set(error, "%s: byte %zu: header nests deeper than %d levels", path,
                                   k + 8, DEEPEST);
            open[depth] = c;
            items[depth++] = 1;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',' && depth > 0 && open[depth - 1] == '[' &&
                   ++items[depth - 1] > TENSOR_RANK_LIMIT) {
            return message_set(error, "%s: byte %zu: array of more than %d numbers in the header",
                               path, k + 8, TENSOR_RANK_LIMIT);
        }
    }
    return true;
}

static json_t *parse(const char *path, const char *text, size_t length, struct message *error)
{
    if (length == 0 || text[0] != '{') {
        message_set(error, "%s: byte 8: the header must begin with '{'", path);
        return NULL;
    }
    if (!check_nesting(path, text, length, error))
        return NULL;
    json_error_t json_error;
    json_watch();
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &json_error);
    if (!json_whole()) {
        json_decref(root);
        root = NULL;
        message_set(error, "%s: out of memory", path);
    } else if (!root) {
        int at = json_error.position < 0 ? 0 : json_error.position;
        char quoted[QUOTED_SIZE];
        message_set(error, "%s: byte %d: the header is not valid JSON: %s", path, at + 8,
                    quote(quoted, json_error.text));
    }
    return root;
}

static bool read_notes(struct reader *r, json_t *metadata)
{
    const char *path = r->file->path;
    if (!json_is_object(metadata))
        return message_set(r->error, "%s: __metadata__ must be an object of strings", path);
    r->file->notes = calloc(json_object_size(metadata) + 1, sizeof(*r->file->notes));
    if (!r->file->notes)
        return message_set(r->error, "%s: out of memory", path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        char quoted[QUOTED_SIZE];
        if (!json_is_string(value))
            return message_set(r->error, "%s: __metadata__: %s must be a string", path,
                               quote(quoted, key));
        r->file->notes[r->file->note_count++] =
            (struct tensor_note) { .key = key, .value = json_string_value(value) };
    }
    return true;
}

static bool fail(struct reader *r, const struct tensor *tensor)
{
    char quoted[QUOTED_SIZE];
    return message_set(r->error, "%s: tensor %s: ", r->file->path, quote(quoted, tensor->name));
}

/// A number of elements or bytes: a JSON integer >= 0.
static bool read_size(struct reader *r, const struct tensor *tensor, const char *what, size_t k,
                      const json_t *value, uint64_t *size)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *size = (uint64_t)json_integer_value(value);
        return true;
    }
    fail(r, tensor);
    message_add(r->error, "%s[%zu] must be an integer, 0 or more", what, k);
    if (json_is_integer(value))
        message_add(r->error, ", not %" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        message_add(r->error, "; %g is written with a point or an exponent",
                    json_real_value(value));
    return false;
}

static bool read_dtype(struct reader *r, struct tensor *tensor, const json_t *value)
{
    const char *name = json_string_value(value);
    tensor->dtype = name ? tensor_dtype_named(name) : NULL;
    if (tensor->dtype)
        return true;
    fail(r, tensor);
    char quoted[QUOTED_SIZE];
    if (name)
        message_add(r->error, "unknown dtype %s", quote(quoted, name));
    else
        message_add(r->error, "dtype must be a string");
    return false;
}

static bool read_shape(struct reader *r, struct tensor *tensor, const json_t *value)
{
    if (!json_is_array(value)) {
        fail(r, tensor);
        message_add(r->error, "shape must be an array of integers");
        return false;
    }
    tensor->rank = json_array_size(value);
    tensor->shape = r->shape;
    tensor->count = 1;
    for (size_t k = 0; k < tensor->rank; k++) {
        uint64_t extent;
        if (!read_size(r, tensor, "shape", k, json_array_get(value, k), &extent))
            return false;
        *r->shape++ = extent;
        if (extent > 0 && tensor->count > UINT64_MAX / tensor->dtype->bytes / extent) {
            fail(r, tensor);
            message_add(r->error, "shape has more bytes than 64 bits can count");
            return false;
        }
        tensor->count *= extent;
    }
    tensor->bytes = tensor->count * tensor->dtype->bytes;
    return true;
}

static bool read_offsets(struct reader *r, struct tensor *tensor, const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) != 2) {
        fail(r, tensor);
        message_add(r->error, "data_offsets must be two integers, begin and end");
        return false;
    }
    uint64_t begin, end;
    if (!read_size(r, tensor, "data_offsets", 0, json_array_get(value, 0), &begin) ||
        !read_size(r, tensor, "data_offsets", 1, json_array_get(value, 1), &end))
        return false;
    if (begin > end || end > r->data_bytes) {
        fail(r, tensor);
        message_add(r->error, "data_offsets [%" PRIu64 ", %" PRIu64 "] ", begin, end);
        if (begin > end)
            message_add(r->error, "end before they begin");
        else
            message_add(r->error,
                        "reach beyond the data, which begins at byte %" PRIu64 " and has %" PRIu64
                        " byte%s",
                        r->data_at, r->data_bytes, plural(r->data_bytes));
        return false;
    }
    if (end - begin != tensor->bytes) {
        fail(r, tensor);
        message_add(r->error,
                    "data_offsets [%" PRIu64 ", %" PRIu64 "] (from byte %" PRIu64 " of the file) "
                    "hold %" PRIu64 " byte%s, but %" PRIu64 " element%s of %s take %" PRIu64,
                    begin, end, r->data_at + begin, end - begin, plural(end - begin), tensor->count,
                    plural(tensor->count), tensor->dtype->name, tensor->bytes);
        return false;
    }
    tensor->data = r->data + begin;
    return true;
}

static bool read_tensor(struct reader *r, struct tensor *tensor, json_t *entry)
{
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    if (!json_is_object(entry)) {
        fail(r, tensor);
        message_add(r->error, "must be an object with dtype, shape and data_offsets");
        return false;
    }
    for (size_t k = 0; k < 3; k++) {
        if (!json_object_get(entry, fields[k])) {
            fail(r, tensor);
            message_add(r->error, "%s is missing", fields[k]);
            return false;
        }
    }
    if (json_object_size(entry) != 3) {
        fail(r, tensor);
        message_add(r->error, "has more than dtype, shape and data_offsets");
        return false;
    }
    // In this order, because the size of the shape needs the dtype, and the offsets need the size.
    return read_dtype(r, tensor, json_object_get(entry, "dtype")) &&
           read_shape(r, tensor, json_object_get(entry, "shape")) &&
           read_offsets(r, tensor, json_object_get(entry, "data_offsets"));
}

static int by_place(const void *x, const void *y)
{
    const struct tensor *a = x;
    const struct tensor *b = y;
    uintptr_t a_data = (uintptr_t)a->data;
    uintptr_t b_data = (uintptr_t)b->data;
    if (a_data != b_data)
        return a_data < b_data ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/// The tensors, sorted by their data, must cover all of it exactly once.
static bool check_cover(struct reader *r)
{
    const struct tensor *tensors = r->file->tensors;
    uint64_t end = 0;
    for (size_t k = 0; k < r->file->count; k++) {
        uint64_t begin = (uint64_t)((const char *)tensors[k].data - r->data);
        if (begin != end) {
            fail(r, &tensors[k]);
            char quoted[QUOTED_SIZE];
            if (begin < end)
                message_add(r->error, "its data at byte %" PRIu64 " overlaps tensor %s",
                            r->data_at + begin, quote(quoted, tensors[k - 1].name));
            else
                message_add(r->error,
                            "its data begins at byte %" PRIu64 ", but byte %" PRIu64
                            " is the next that no tensor has: a gap of %" PRIu64 " byte%s",
                            r->data_at + begin, r->data_at + end, begin - end, plural(begin - end));
            return false;
        }
        end = begin + tensors[k].bytes;
    }
    if (end != r->data_bytes)
        return message_set(r->error, "%s: byte %" PRIu64 ": %" PRIu64 " byte%s that no tensor has",
                           r->file->path, r->data_at + end, r->data_bytes - end,
                           plural(r->data_bytes - end));
    return true;
}

static size_t count_extents(json_t *root)
{
    size_t extents = 0;
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry)
    {
        (void)key;
        extents += json_array_size(json_object_get(entry, "shape"));
    }
    return extents;
}

static bool read_entries(struct reader *r, json_t *root)
{
    struct tensor_file *file = r->file;
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0) {
            if (!read_notes(r, entry))
                return false;
            continue;
        }
        struct tensor *tensor = &file->tensors[file->count];
        tensor->name = key;
        if (!read_tensor(r, tensor, entry))
            return false;
        file->count++;
    }
    return true;
}

/// Fills `file` from a header of `length` bytes at `text`, followed by `data_bytes` bytes of data.
/// After a failure the caller must call tensor_file_close().
static bool read_header(struct tensor_file *file, const char *text, size_t length,
                        size_t data_bytes, struct message *error)
{
    json_t *root = parse(file->path, text, length, error);
    if (!root)
        return false;
    file->header = root;
    file->tensors = calloc(json_object_size(root) + 1, sizeof(*file->tensors));
    file->shapes = calloc(count_extents(root) + 1, sizeof(*file->shapes));
    if (!file->tensors || !file->shapes)
        return message_set(error, "%s: out of memory", file->path);
    struct reader r = {
        .file = file,
        .data = text + length,
        .data_bytes = data_bytes,
        .data_at = length + 8,
        .shape = file->shapes,
        .error = error,
    };
    if (!read_entries(&r, root))
        return false;
    qsort(file->tensors, file->count, sizeof(*file->tensors), by_place);
    if (!check_cover(&r))
        return false;
    return file->count > 0 || message_set(error, "%s: there is no tensor in it", file->path);
}

// ---- the file -----------------------------------------------------------------------------------

static uint64_t read_u64(const uint8_t bytes[8])
{
    uint64_t x = 0;
    for (unsigned k = 0; k < 8; k++)
        x |= (uint64_t)bytes[k] << 8 * k;
    return x;
}

bool tensor_file_parse(struct tensor_file *file, const char *path, const void *bytes, size_t size,
                       struct message *error)
{
    *file = (struct tensor_file) { .path = path };
    if (npy_is(bytes, size)) {
        const bool parsed = npy_parse(file, path, bytes, size, error);
        if (!parsed)
            tensor_file_close(file);
        return parsed;
    }
    if (size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0 && strstr(path, ".npz"))
        return message_set(error, "%s: an .npz is an archive: save one array as .npy", path);
    if (size < 8)
        return message_set(error,
                           "%s: %zu byte%s, too short for the 8 bytes of header length at byte 0",
                           path, size, plural(size));
    uint64_t header = read_u64(bytes);
    if (header > TENSOR_HEADER_LIMIT)
        return message_set(error,
                           "%s: byte 0: header length %" PRIu64
                           " is above the limit of %d: is it a safetensors file?",
                           path, header, (int)TENSOR_HEADER_LIMIT);
    if (header > size - 8)
        return message_set(
            error, "%s: truncated: byte 0: header length %" PRIu64 ", but only %zu byte%s follow%s",
            path, header, size - 8, plural(size - 8), size - 8 == 1 ? "s" : "");
    const char *text = (const char *)bytes + 8;
    if (!read_header(file, text, (size_t)header, size - 8 - (size_t)header, error)) {
        tensor_file_close(file);
        return false;
    }
    return true;
}

static void *map_file(int descriptor, const char *path, size_t *size, struct message *error)
{
    if (!input_size(descriptor, path, size, error))
        return NULL;
    void *map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (map == MAP_FAILED) {
        message_set(error, "cannot map %s: %s", path, strerror(errno));
        return NULL;
    }
    return map;
}

bool tensor_file_open(struct tensor_file *file, const char *path, struct message *error)
{
    if (tensor_index_is(path))
        return tensor_index_open(file, path, error);
    int descriptor = input_open(&path, error);
    if (descriptor < 0)
        return false;
    size_t size = 0;
    void *map = map_file(descriptor, path, &size, error);
    close(descriptor);
    if (!map)
        return false;
    if (!tensor_file_parse(file, path, map, size, error)) {
        munmap(map, size);
        return false;
    }
    file->map = map;
    file->map_bytes = size;
    signals_mapped(map, size, path);
    return true;
}

void tensor_file_close(struct tensor_file *file)
{
    free(file->tensors);
    free(file->notes);
    free(file->shapes);
    json_decref(file->header);
    for (size_t k = 0; k < file->shard_count; k++) {
        free(file->shards[k].name);
        tensor_file_close(&file->shards[k]);
    }
    free(file->shards);
    free(file->own_name);
    free(file->index);
    if (file->map) {
        signals_mapped(NULL, 0, NULL);
        munmap(file->map, file->map_bytes);
    }
    *file = (struct tensor_file) { 0 };
}

const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name)
{
    for (size_t k = 0; k < file->count; k++)
        if (strcmp(file->tensors[k].name, name) == 0)
            return &file->tensors[k];
    return NULL;
}
