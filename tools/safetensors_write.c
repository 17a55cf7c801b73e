// SPDX-License-Identifier: MIT
#include "safetensors.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { WIDEST = 8 };

/// The next tensor to write: those with wider elements first, else in the given order. Advances
/// `*k`. The iteration begins with *width WIDEST and *k 0 and ends with NULL.
static const struct tensor *next(const struct tensor *tensors, size_t count, unsigned *width,
                                 size_t *k)
{
    for (; *width > 0; *width /= 2, *k = 0)
        while (*k < count)
            if (tensors[(*k)++].dtype->bytes == *width)
                return &tensors[*k - 1];
    return NULL;
}

/// Adds the value and takes ownership of it; false if memory ran out.
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool add_notes(json_t *header, const struct tensor_note *notes, size_t count)
{
    json_t *metadata = json_object();
    bool whole = set(header, "__metadata__", metadata);
    for (size_t k = 0; k < count && whole; k++)
        whole = set(metadata, notes[k].key, json_string(notes[k].value));
    return whole;
}

static bool add_tensor(json_t *header, const struct tensor *tensor, uint64_t begin)
{
    json_t *entry = json_object();
    json_t *shape = json_array();
    bool whole = set(header, tensor->name, entry) &&
                 set(entry, "dtype", json_string(tensor->dtype->name)) &&
                 set(entry, "shape", shape) &&
                 set(entry, "data_offsets",
                     json_pack("[I, I]", (json_int_t)begin, (json_int_t)(begin + tensor->bytes)));
    for (size_t k = 0; k < tensor->rank && whole; k++)
        whole = json_array_append_new(shape, json_integer((json_int_t)tensor->shape[k])) == 0;
    return whole;
}

static json_t *header_json(const struct tensor *tensors, size_t count,
                           const struct tensor_note *notes, size_t note_count)
{
    json_t *header = json_object();
    bool whole = note_count == 0 || add_notes(header, notes, note_count);
    uint64_t begin = 0;
    unsigned width = WIDEST;
    size_t k = 0;
    for (const struct tensor *t; whole && (t = next(tensors, count, &width, &k));) {
        whole = add_tensor(header, t, begin);
        begin += t->bytes;
    }
    if (whole)
        return header;
    json_decref(header);
    return NULL;
}

/// The text of the header, padded with blanks so that the data after it is aligned.
static char *header_text(const struct tensor *tensors, size_t count,
                         const struct tensor_note *notes, size_t note_count, size_t *length)
{
    json_watch();
    json_t *header = header_json(tensors, count, notes, note_count);
    char *text = json_text(header, JSON_COMPACT);
    if (!text)
        return NULL;
    size_t used = strlen(text);
    *length = (used + WIDEST - 1) / WIDEST * WIDEST;
    char *padded = realloc(text, *length + 1);
    if (!padded) {
        free(text);
        return NULL;
    }
    memset(padded + used, ' ', *length - used);
    return padded;
}

void tensor_file_order(const struct tensor *tensors, size_t count, const struct tensor **order)
{
    unsigned width = WIDEST;
    size_t k = 0;
    for (const struct tensor *t; (t = next(tensors, count, &width, &k));)
        *order++ = t;
}

bool tensor_file_begin(struct output *output, const struct tensor *tensors, size_t count,
                       const struct tensor_note *notes, size_t note_count, struct message *error)
{
    size_t length = 0;
    char *header = header_text(tensors, count, notes, note_count, &length);
    if (!header)
        return message_set(error, "%s: out of memory", output->name);
    uint8_t prefix[8];
    for (unsigned k = 0; k < 8; k++)
        prefix[k] = (uint8_t)((uint64_t)length >> 8 * k);
    output_write(output, prefix, sizeof(prefix));
    output_write(output, header, length);
    free(header);
    return true;
}

bool tensor_file_write(const char *path, bool force, const struct tensor *tensors, size_t count,
                       const struct tensor_note *notes, size_t note_count, struct message *error)
{
    struct output output;
    if (!output_open(&output, path, force, error))
        return false;
    if (!tensor_file_begin(&output, tensors, count, notes, note_count, error)) {
        output_discard(&output);
        return false;
    }
    unsigned width = WIDEST;
    size_t k = 0;
    for (const struct tensor *t; (t = next(tensors, count, &width, &k));)
        output_write(&output, t->data, (size_t)t->bytes);
    return output_commit(&output, error);
}
