// SPDX-License-Identifier: MIT
#include "safetensors.h"

#include "safetensors_header.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
    if (!tensor_header_read(file, text, (size_t)header, size - 8 - (size_t)header, error)) {
        tensor_file_close(file);
        return false;
    }
    return true;
}

static void *map_file(int descriptor, const char *path, size_t *size, struct message *error)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        message_set(error, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        message_set(error, "%s: not a regular file", path);
        return NULL;
    }
    if (status.st_size == 0) {
        message_set(error, "%s: empty; a safetensors file begins with 8 bytes of header length",
                    path);
        return NULL;
    }
    *size = (size_t)status.st_size;
    void *map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (map == MAP_FAILED) {
        message_set(error, "cannot map %s: %s", path, strerror(errno));
        return NULL;
    }
    return map;
}

bool tensor_file_open(struct tensor_file *file, const char *path, struct message *error)
{
    *file = (struct tensor_file) { .path = path };
    // A FIFO must not make the open wait for its writer.
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return message_set(error, "cannot read %s: %s", path, strerror(errno));
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
