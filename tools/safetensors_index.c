// SPDX-License-Identifier: MIT
/// Models in several safetensors files, and the index that names the file of each tensor.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "input.h"
#include "json.h"
#include "safetensors.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char suffix[] = ".index.json";

/// The files of an index while it is read.
struct opening {
    struct tensor_file *file;
    json_t *root;     ///< the parsed index
    json_t *map;      ///< its weight_map
    json_t *names;    ///< an object with the name of each shard
    int *descriptors; ///< of each shard; -1: not open
    size_t *sizes;    ///< of each shard, in bytes
    char *region;     ///< memory into which all are mapped
    size_t page;
    struct message *error;
};

bool tensor_index_is(const char *path)
{
    size_t length = strlen(path), end = sizeof(suffix) - 1;
    return length > end && strcmp(path + length - end, suffix) == 0;
}

char *tensor_index_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, length = strlen(name) + 1;
    char *beside = malloc(folder + length);
    if (!beside)
        return NULL;
    memcpy(beside, path, folder);
    memcpy(beside + folder, name, length);
    return beside;
}

static bool out_of_memory(struct opening *o)
{
    return message_set(o->error, "%s: out of memory", o->file->path);
}

/// The index is not trusted: a shard is a file in its own folder.
static bool is_file_name(const char *name)
{
    return name && name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

static bool read_names(struct opening *o)
{
    const char *path = o->file->path, *key;
    char quoted[QUOTED_SIZE], shown[QUOTED_SIZE];
    json_t *value;
    if (!json_is_object(o->map) || json_object_size(o->map) == 0)
        return message_set(
            o->error, "%s: no weight_map with tensors: is it the index of a sharded model?", path);
    o->names = json_object();
    json_object_foreach(o->map, key, value)
    {
        const char *name = json_string_value(value);
        if (!is_file_name(name))
            return message_set(
                o->error, "%s: weight_map: %s must have the name of a file in the same folder%s%s",
                path, quote(quoted, key), name ? ", not " : "", name ? quote(shown, name) : "");
        json_object_set_new(o->names, name, json_null());
    }
    if (!json_whole())
        return out_of_memory(o);
    if (json_object_size(o->names) > TENSOR_SHARD_LIMIT)
        return message_set(o->error, "%s: %zu shards; at most %d are supported", path,
                           json_object_size(o->names), (int)TENSOR_SHARD_LIMIT);
    return true;
}

static bool parse(struct opening *o)
{
    const char *path = o->file->path;
    json_error_t reason;
    o->file->index = read_text(path, TENSOR_HEADER_LIMIT, o->error);
    if (!o->file->index)
        return false;
    json_watch();
    o->root = json_loads(o->file->index, JSON_REJECT_DUPLICATES, &reason);
    if (!json_whole())
        return out_of_memory(o);
    char quoted[QUOTED_SIZE];
    if (!o->root)
        return message_set(o->error, "%s: line %d: the index is not valid JSON: %s", path,
                           reason.line, quote(quoted, reason.text));
    o->map = json_object_get(o->root, "weight_map");
    return read_names(o);
}

static int by_name(const void *x, const void *y)
{
    const struct tensor_file *a = x;
    const struct tensor_file *b = y;
    return strcmp(a->path, b->path);
}

static bool name_shards(struct opening *o)
{
    struct tensor_file *file = o->file;
    size_t count = json_object_size(o->names);
    const char *name;
    json_t *value;
    file->shards = calloc(count, sizeof(*file->shards));
    o->descriptors = malloc(count * sizeof(*o->descriptors));
    o->sizes = calloc(count, sizeof(*o->sizes));
    if (!file->shards || !o->descriptors || !o->sizes)
        return out_of_memory(o);
    json_object_foreach(o->names, name, value)
    {
        (void)value;
        struct tensor_file *shard = &file->shards[file->shard_count];
        shard->name = tensor_index_beside(file->path, name);
        if (!shard->name)
            return out_of_memory(o);
        shard->path = shard->name;
        o->descriptors[file->shard_count++] = -1;
    }
    qsort(file->shards, file->shard_count, sizeof(*file->shards), by_name);
    return true;
}

static size_t whole_pages(const struct opening *o, size_t bytes)
{
    return (bytes + o->page - 1) / o->page * o->page;
}

/// Maps all shards side by side, so that one range of addresses is the model.
static bool map_shards(struct opening *o)
{
    struct tensor_file *file = o->file;
    o->page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t k = 0; k < file->shard_count; k++) {
        const char *path = file->shards[k].path;
        o->descriptors[k] = input_open(&path, o->error);
        if (o->descriptors[k] < 0 || !input_size(o->descriptors[k], path, &o->sizes[k], o->error))
            return false;
        file->map_bytes += whole_pages(o, o->sizes[k]);
    }
    o->region = mmap(NULL, file->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (o->region == MAP_FAILED)
        return message_set(o->error, "cannot map %s: %s", file->path, strerror(errno));
    file->map = o->region;
    size_t at = 0;
    for (size_t k = 0; k < file->shard_count; k++) {
        if (mmap(o->region + at, o->sizes[k], PROT_READ, MAP_PRIVATE | MAP_FIXED, o->descriptors[k],
                 0) == MAP_FAILED)
            return message_set(o->error, "cannot map %s: %s", file->shards[k].path,
                               strerror(errno));
        at += whole_pages(o, o->sizes[k]);
    }
    signals_mapped(file->map, file->map_bytes, file->path);
    return true;
}

static bool read_shards(struct opening *o)
{
    struct tensor_file *file = o->file;
    size_t at = 0;
    for (size_t k = 0; k < file->shard_count; k++) {
        struct tensor_file *shard = &file->shards[k];
        char *name = shard->name;
        bool read = tensor_file_parse(shard, name, o->region + at, o->sizes[k], o->error);
        shard->name = name;
        if (!read)
            return false;
        at += whole_pages(o, o->sizes[k]);
        file->count += shard->count;
    }
    file->tensors = calloc(file->count + 1, sizeof(*file->tensors));
    if (!file->tensors)
        return out_of_memory(o);
    at = 0;
    for (size_t k = 0; k < file->shard_count; k++) {
        memcpy(file->tensors + at, file->shards[k].tensors,
               file->shards[k].count * sizeof(*file->tensors));
        at += file->shards[k].count;
    }
    return true;
}

static const char *name_of(const struct tensor_file *shard)
{
    const char *slash = strrchr(shard->path, '/');
    return slash ? slash + 1 : shard->path;
}

/// Every tensor is in the shard that the index names, and in no other.
static bool check_map(struct opening *o)
{
    char quoted[QUOTED_SIZE], shown[QUOTED_SIZE];
    for (size_t k = 0; k < o->file->shard_count; k++) {
        const struct tensor_file *shard = &o->file->shards[k];
        for (size_t i = 0; i < shard->count; i++) {
            const char *name = shard->tensors[i].name;
            const char *wanted = json_string_value(json_object_get(o->map, name));
            if (!wanted)
                return message_set(o->error, "%s: tensor %s is not in the index %s", shard->path,
                                   quote(quoted, name), o->file->path);
            if (strcmp(wanted, name_of(shard)) != 0)
                return message_set(o->error, "%s: tensor %s belongs into %s by the index %s",
                                   shard->path, quote(quoted, name), quote(shown, wanted),
                                   o->file->path);
        }
    }
    const char *name;
    json_t *value;
    if (json_object_size(o->map) == o->file->count)
        return true;
    json_object_foreach(o->map, name, value)
    {
        if (!tensor_file_find(o->file, name))
            return message_set(o->error, "%s: tensor %s is not in its shard %s", o->file->path,
                               quote(quoted, name), quote(shown, json_string_value(value)));
    }
    return true;
}

bool tensor_index_open(struct tensor_file *file, const char *path, struct message *error)
{
    *file = (struct tensor_file) { .path = path };
    struct opening o = { .file = file, .error = error };
    bool done = parse(&o) && name_shards(&o) && map_shards(&o) && read_shards(&o) && check_map(&o);
    for (size_t k = 0; o.descriptors && k < file->shard_count; k++)
        if (o.descriptors[k] >= 0)
            close(o.descriptors[k]);
    free(o.descriptors);
    free(o.sizes);
    json_decref(o.names);
    json_decref(o.root);
    if (!done)
        tensor_file_close(file);
    return done;
}
