// SPDX-License-Identifier: MIT
#include "clip/outputs.h"

#include <stdlib.h>
#include <string.h>

/// The path of a part, which the caller frees; NULL: out of memory.
static char *path_of(const struct clip_job *job, size_t part, const char *path)
{
    const char *shard = job->parts[part].file->path, *slash = strrchr(shard, '/');
    return tensor_index_is(path) ? tensor_index_beside(path, slash ? slash + 1 : shard)
                                 : strdup(path);
}

bool clip_outputs_check(const struct clip_job *job, const char *path, bool force,
                        struct message *error)
{
    bool good = !tensor_index_is(path) || output_check(path, force, error);
    for (size_t k = 0; k < job->part_count && good; k++) {
        char *part = path_of(job, k, path);
        good = part ? output_check(part, force, error) : message_set(error, "out of memory");
        free(part);
    }
    return good;
}

/// Whether a file other than `input` will be replaced.
static bool replaces_other(const char *path, const char *input)
{
    struct stat present, own;
    return output_replaces(path, &present) &&
           (stat(input, &own) != 0 || own.st_dev != present.st_dev || own.st_ino != present.st_ino);
}

bool clip_outputs_tell(const struct clip_job *job, const char *path, struct message *error)
{
    struct message first;
    size_t count = tensor_index_is(path) && replaces_other(path, job->file->path);
    message_set(&first, "%s", path);
    for (size_t k = 0; k < job->part_count; k++) {
        char *part = path_of(job, k, path);
        if (!part)
            return message_set(error, "out of memory");
        if (replaces_other(part, job->parts[k].file->path) && count++ == 0)
            message_set(&first, "%s", part);
        free(part);
    }
    if (count == 1)
        fprintf(stderr, "ptxgen clip: %s exists, and is replaced when the new file is complete\n",
                first.text);
    else if (count > 1)
        fprintf(stderr,
                "ptxgen clip: %s and %zu more file%s exist, and are replaced when the new ones are "
                "complete\n",
                first.text, count - 1, plural(count - 1));
    return true;
}

bool clip_outputs_open(struct clip_outputs *outputs, const struct clip_job *job, const char *path,
                       bool force, struct message *error)
{
    *outputs = (struct clip_outputs) { .job = job, .path = path };
    outputs->paths = calloc(job->part_count, sizeof(*outputs->paths));
    outputs->files = calloc(job->part_count, sizeof(*outputs->files));
    if (!outputs->paths || !outputs->files)
        return message_set(error, "out of memory");
    for (size_t k = 0; k < job->part_count; k++) {
        const struct tensor_file *file = job->parts[k].file;
        outputs->paths[k] = path_of(job, k, path);
        if (!outputs->paths[k])
            return message_set(error, "out of memory");
        if (!output_open(&outputs->files[k], outputs->paths[k], force, error) ||
            !tensor_file_begin(&outputs->files[k], file->tensors, file->count, file->notes,
                               file->note_count, error))
            return false;
    }
    return true;
}

void clip_outputs_write(struct clip_outputs *outputs, size_t tensor, const void *bytes,
                        size_t count)
{
    while (tensor >= outputs->job->parts[outputs->current].end)
        outputs->current++;
    output_write(&outputs->files[outputs->current], bytes, count);
}

/// The names of the tensors and of their shards are those of the input, and so is the index.
static bool write_index(const struct clip_outputs *outputs, bool force, struct message *error)
{
    const char *text = outputs->job->file->index;
    struct output index;
    if (!output_open(&index, outputs->path, force, error))
        return false;
    output_write(&index, text, strlen(text));
    return output_commit(&index, error);
}

bool clip_outputs_commit(struct clip_outputs *outputs, bool force, struct message *error)
{
    for (size_t k = 0; k < outputs->job->part_count; k++)
        if (!output_commit(&outputs->files[k], error))
            return false;
    return !tensor_index_is(outputs->path) || write_index(outputs, force, error);
}

void clip_outputs_discard(struct clip_outputs *outputs)
{
    for (size_t k = 0; outputs->files && k < outputs->job->part_count; k++)
        output_discard(&outputs->files[k]);
    for (size_t k = 0; outputs->paths && k < outputs->job->part_count; k++)
        free(outputs->paths[k]);
    free(outputs->files);
    free(outputs->paths);
    *outputs = (struct clip_outputs) { 0 };
}
