// SPDX-License-Identifier: MIT
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/// A new file beside `path`, which its mode and the umask make as readable as any other.
static int create_beside(const char *path, char **temporary)
{
    size_t size = strlen(path) + 48;
    *temporary = malloc(size);
    if (!*temporary)
        return -1;
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        snprintf(*temporary, size, "%s.%ld.%u.tmp", path, (long)getpid(), attempt);
        int file = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static void forget(struct output *output)
{
    free(output->path);
    free(output->temporary);
    *output = (struct output) { 0 };
}

static bool fail(struct output *output, const char *path, struct message *error)
{
    message_set(error, "cannot write %s: %s", path, strerror(errno));
    output_discard(output);
    return false;
}

bool output_open(struct output *output, const char *path, struct message *error)
{
    *output = (struct output) { 0 };
    if (!path || strcmp(path, "-") == 0) {
        output->stream = stdout;
        return true;
    }
    struct stat status;
    bool exists = stat(path, &status) == 0;
    // Through symbolic links, so that it is not the link that the new file replaces.
    output->path = exists ? realpath(path, NULL) : strdup(path);
    if (!output->path)
        return fail(output, path, error);
    if (exists && !S_ISREG(status.st_mode)) {
        output->stream = fopen(output->path, "wb");
        return output->stream || fail(output, path, error);
    }
    int file = create_beside(output->path, &output->temporary);
    if (file < 0) {
        free(output->temporary);
        output->temporary = NULL;
        return fail(output, path, error);
    }
    output->stream = fdopen(file, "wb");
    if (!output->stream) {
        int reason = errno;
        close(file);
        errno = reason;
        return fail(output, path, error);
    }
    return true;
}

void output_write(struct output *output, const void *bytes, size_t count)
{
    if (count > 0 && !output->reason && fwrite(bytes, 1, count, output->stream) != count)
        output->reason = errno ? errno : EIO;
}

bool output_commit(struct output *output, struct message *error)
{
    FILE *stream = output->stream;
    const char *path = output->path ? output->path : "standard output";
    errno = output->reason;
    if (output->reason || fflush(stream) != 0 || (output->temporary && fsync(fileno(stream)) != 0))
        return fail(output, path, error);
    output->stream = NULL;
    if (stream != stdout && fclose(stream) != 0)
        return fail(output, path, error);
    if (output->temporary && rename(output->temporary, output->path) != 0)
        return fail(output, path, error);
    forget(output);
    return true;
}

void output_discard(struct output *output)
{
    if (output->stream && output->stream != stdout)
        fclose(output->stream);
    if (output->temporary)
        unlink(output->temporary);
    forget(output);
}

static char *read_stream(FILE *stream, const char *path, size_t limit, struct message *error)
{
    size_t length = 0;
    size_t room = 1 << 16;
    char *text = malloc(room);
    while (text) {
        length += fread(text + length, 1, room - length - 1, stream);
        if (length < room - 1 || length > limit)
            break;
        room *= 2;
        char *longer = realloc(text, room);
        if (!longer)
            free(text);
        text = longer;
    }
    if (!text) {
        message_set(error, "%s: out of memory", path);
        return NULL;
    }
    text[length] = '\0';
    if (ferror(stream))
        message_set(error, "cannot read %s: %s", path, strerror(errno));
    else if (length > limit)
        message_set(error, "%s: more than %zu bytes", path, limit);
    else
        return text;
    free(text);
    return NULL;
}

char *read_text(const char *path, size_t limit, struct message *error)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", limit, error);
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        message_set(error, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = read_stream(stream, path, limit, error);
    fclose(stream);
    return text;
}
