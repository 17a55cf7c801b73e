// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // memfd_create
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int descriptor, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(descriptor, bytes, count);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return true;
}

/// Copies the rest of standard input. Returns false, with errno set, if it cannot.
static bool copy_rest(int memory)
{
    char block[1 << 16];
    for (;;) {
        ssize_t count = read(STDIN_FILENO, block, sizeof(block));
        if (count == 0)
            return true;
        if (count < 0 && errno != EINTR)
            return false;
        if (count > 0 && !write_all(memory, block, (size_t)count))
            return false;
    }
}

static bool replace_stdin(void)
{
    int memory = memfd_create("ptxgen", MFD_CLOEXEC);
    if (memory < 0)
        return false;
    bool done = copy_rest(memory) && lseek(memory, 0, SEEK_SET) == 0 &&
                dup2(memory, STDIN_FILENO) == STDIN_FILENO;
    int reason = errno;
    close(memory);
    errno = reason;
    return done;
}

int input_open(const char **path, struct message *error)
{
    struct stat status;
    int descriptor;
    if (strcmp(*path, "-") != 0) {
        descriptor = open(*path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } else {
        *path = "standard input";
        if (isatty(STDIN_FILENO)) {
            message_set(error, "standard input is a terminal; - takes a pipe or a file");
            return -1;
        }
        const bool whole = fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
                           lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
        descriptor =
            whole || replace_stdin() ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    }
    if (descriptor < 0)
        message_set(error, "cannot read %s: %s", *path, strerror(errno));
    return descriptor;
}

bool input_size(int descriptor, const char *path, size_t *size, struct message *error)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return message_set(error, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return message_set(error, "%s: not a regular file", path);
    if (status.st_size == 0)
        return message_set(
            error, "%s: empty; a safetensors file begins with 8 bytes of header length", path);
    *size = (size_t)status.st_size;
    return true;
}
