// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // O_TMPFILE
#include "output.h"

#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { TEMPORARY_NAMES = 100, WRITE_BITS = 0222, GROUP_BITS = 0070, MODE_BITS = 0777 };

static bool fail(struct output *output, struct message *error)
{
    // Writing can read a mapped file, which another process may have truncated.
    const char *reason = errno == EFAULT
                             ? "the file that it is copied from became shorter meanwhile"
                             : strerror(errno);
    message_set(error, "cannot write %s: %s", output->name, reason);
    output_discard(output);
    return false;
}

// ---- what may be written ------------------------------------------------------------------------

/// The open descriptor that /dev/stdout, /dev/fd/N and similar paths name, or -1.
static int descriptor_named(const char *path)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t k = 0; k < 2; k++) {
        size_t length = strlen(folders[k]);
        const char *digits = path + length;
        if (strncmp(path, folders[k], length) == 0 && *digits && strlen(digits) < 6 &&
            digits[strspn(digits, "0123456789")] == '\0')
            return atoi(digits);
    }
    return -1;
}

bool output_is_stdout(const char *path)
{
    return descriptor_named(path) == STDOUT_FILENO;
}

static bool refuse_link(const char *path, struct message *error)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    return message_set(error, "cannot write %s: it is a symbolic link to %s, which does not exist",
                       path, target);
}

/// Checks the path: *exists is true for a file that may be replaced.
static bool look(const char *path, bool force, bool *exists, struct stat *present,
                 struct message *error)
{
    if (path[0] == '\0')
        return message_set(error, "cannot write a file without a name: the name given is empty");
    *exists = stat(path, present) == 0;
    if (!*exists) {
        struct stat link;
        size_t length = strlen(path);
        if (errno == ENOENT && lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
            return refuse_link(path, error);
        return (errno == ENOENT && path[length - 1] != '/') ||
               message_set(error, "cannot write %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(present->st_mode))
        return message_set(error, "cannot write %s: it is a folder", path);
    if (force || !S_ISREG(present->st_mode))
        return true;
    if ((present->st_mode & WRITE_BITS) == 0)
        return message_set(error,
                           "cannot write %s: it is read-only (mode %04o); --force replaces it",
                           path, (unsigned)(present->st_mode & MODE_BITS));
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return message_set(error,
                           "cannot write %s: %s; --force replaces it, if its folder may be written",
                           path, strerror(errno));
    return true;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

/// Whether the folder takes a new file, which the output is at first.
static bool look_at_folder(const char *path, bool exists, struct message *error)
{
    char *resolved = exists ? realpath(path, NULL) : NULL;
    char *folder = folder_of(resolved ? resolved : path);
    const bool open = folder && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
    const int reason = errno;
    free(resolved);
    free(folder);
    if (open)
        return true;
    return message_set(error, "cannot write %s: %s%s", path,
                       reason == EACCES || reason == EPERM || reason == EROFS
                           ? "its folder takes no new file: "
                           : "",
                       strerror(reason));
}

bool output_check(const char *path, bool force, struct message *error)
{
    bool exists;
    struct stat present;
    if (descriptor_named(path) >= 0)
        return true;
    return look(path, force, &exists, &present, error) &&
           ((exists && !S_ISREG(present.st_mode)) || look_at_folder(path, exists, error));
}

bool output_replaces(const char *path, struct stat *present)
{
    return descriptor_named(path) < 0 && stat(path, present) == 0 && S_ISREG(present->st_mode);
}

// ---- beginning ----------------------------------------------------------------------------------

static void name_temporary(char *name, size_t size, const char *folder, unsigned attempt)
{
    snprintf(name, size, "%sptxgen.%ld.%u.tmp", folder, (long)getpid(), attempt);
}

/// The name in /proc through which an unnamed file can be linked.
static void name_descriptor(char name[48], int file)
{
    snprintf(name, 48, "/proc/self/fd/%d", file);
}

/// A file with a temporary name; a signal that ends the process removes it.
static int create_named(struct output *output, const char *folder, mode_t mode)
{
    size_t size = strlen(folder) + 48;
    output->temporary = malloc(size);
    for (unsigned k = 0; output->temporary && k < TEMPORARY_NAMES; k++) {
        name_temporary(output->temporary, size, folder, k);
        if (!signals_remove(output->temporary)) {
            errno = EMFILE;
            break;
        }
        int file = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file >= 0)
            return file;
        int reason = errno;
        signals_keep(output->temporary);
        errno = reason;
        if (reason != EEXIST)
            break;
    }
    free(output->temporary);
    output->temporary = NULL;
    return -1;
}

/// Creates a file in the folder of its destination; -1: errno has the reason.
static int create(struct output *output)
{
    // A replacement gets its mode at the end. Until then no other user can read it.
    const mode_t mode = output->replaces ? 0600 : 0666;
    char name[48];
    char *folder = folder_of(output->path);
    if (!folder)
        return -1;
    int file = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
    if (file >= 0) {
        name_descriptor(name, file);
        if (access(name, F_OK) != 0) {
            close(file); // no /proc
            file = -1;
            errno = EOPNOTSUPP;
        }
    }
    if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        file = create_named(output, folder, mode);
    free(folder);
    return file;
}

static bool open_directly(struct output *output, int descriptor, struct message *error)
{
    if (descriptor == STDOUT_FILENO) {
        output->stream = stdout;
        return true;
    }
    int file = descriptor >= 0 ? dup(descriptor) : -1;
    if (descriptor < 0)
        output->stream = fopen(output->name, "wb");
    else if (file >= 0)
        output->stream = fdopen(file, "wb");
    return output->stream || fail(output, error);
}

static bool open_beside(struct output *output, struct message *error)
{
    // Resolves symbolic links, so that the new file does not replace a link.
    output->path = output->replaces ? realpath(output->name, NULL) : strdup(output->name);
    int file = output->path ? create(output) : -1;
    if (file < 0 && output->path && (errno == EACCES || errno == EPERM || errno == EROFS)) {
        message_set(error, "cannot write %s: its folder takes no new file: %s", output->name,
                    strerror(errno));
        output_discard(output);
        return false;
    }
    output->stream = file >= 0 ? fdopen(file, "wb") : NULL;
    if (output->stream)
        return true;
    int reason = errno;
    if (file >= 0)
        close(file);
    errno = reason;
    return fail(output, error);
}

bool output_open(struct output *output, const char *path, bool force, struct message *error)
{
    *output = (struct output) { .name = path && strcmp(path, "-") != 0 ? path : "standard output" };
    int descriptor = path ? descriptor_named(path) : STDOUT_FILENO;
    if (descriptor >= 0)
        return open_directly(output, descriptor, error);
    if (!look(path, force, &output->replaces, &output->present, error))
        return false;
    if (output->replaces && !S_ISREG(output->present.st_mode))
        return open_directly(output, -1, error);
    return open_beside(output, error);
}

void output_write(struct output *output, const void *bytes, size_t count)
{
    if (count > 0 && !output->reason && fwrite(bytes, 1, count, output->stream) != count)
        output->reason = errno ? errno : EIO;
}

// ---- completing ---------------------------------------------------------------------------------

/// Copies the access control list of the replaced file, or removes any list that the folder gives
/// to new files. With a list, the group bits of the mode are not the rights of the group. False if
/// the list cannot be kept.
static bool keep_access_list(struct output *output, int file)
{
    static const char attribute[] = "system.posix_acl_access";
    char list[1024];
    ssize_t size = getxattr(output->path, attribute, list, sizeof(list));
    if (size < 0 && errno == ERANGE)
        return false;
    if (size < 0)
        return fremovexattr(file, attribute) == 0 || errno == ENODATA || errno == EOPNOTSUPP;
    return fsetxattr(file, attribute, list, (size_t)size, 0) == 0;
}

/// Copies mode, owner, group and access control list of the replaced file. If the process may not
/// set the group, the group gets no more rights than others.
static bool keep_mode(struct output *output, int file)
{
    const struct stat *present = &output->present;
    mode_t mode = present->st_mode & MODE_BITS;
    bool kept = fchown(file, present->st_uid, present->st_gid) == 0 ||
                fchown(file, (uid_t)-1, present->st_gid) == 0;
    if (!kept || !keep_access_list(output, file))
        mode &= ~(mode_t)GROUP_BITS | (mode & 07) << 3;
    return fchmod(file, mode) == 0;
}

/// Gives an unnamed file a temporary name; false: errno has the reason.
static bool link_temporary(struct output *output, const char *descriptor)
{
    char *folder = folder_of(output->path);
    size_t size = folder ? strlen(folder) + 48 : 0;
    bool linked = false;
    output->temporary = folder ? malloc(size) : NULL;
    for (unsigned k = 0; output->temporary && !linked && k < TEMPORARY_NAMES; k++) {
        name_temporary(output->temporary, size, folder, k);
        if (!signals_remove(output->temporary)) {
            errno = EMFILE;
            break;
        }
        linked = linkat(AT_FDCWD, descriptor, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) == 0;
        if (!linked && errno != EEXIST)
            break;
    }
    int reason = errno;
    if (!linked) {
        signals_keep(output->temporary);
        free(output->temporary);
        output->temporary = NULL;
    }
    free(folder);
    errno = reason;
    return linked;
}

/// Gives the complete file its name.
static bool put_in_place(struct output *output, int file)
{
    char descriptor[48];
    name_descriptor(descriptor, file);
    if (!output->temporary) {
        if (!output->replaces &&
            linkat(AT_FDCWD, descriptor, AT_FDCWD, output->path, AT_SYMLINK_FOLLOW) == 0)
            return true;
        // link() does not replace a file; rename() does.
        if (!link_temporary(output, descriptor))
            return false;
    }
    if (rename(output->temporary, output->path) != 0)
        return false;
    signals_keep(output->temporary);
    free(output->temporary);
    output->temporary = NULL;
    return true;
}

bool output_commit(struct output *output, struct message *error)
{
    FILE *stream = output->stream;
    errno = output->reason;
    if (output->reason || fflush(stream) != 0)
        return fail(output, error);
    if (output->path) {
        int file = fileno(stream);
        if ((output->replaces && !keep_mode(output, file)) || fsync(file) != 0 ||
            !put_in_place(output, file))
            return fail(output, error);
    }
    output->stream = NULL;
    if (stream != stdout && fclose(stream) != 0)
        return fail(output, error);
    output_discard(output);
    return true;
}

void output_discard(struct output *output)
{
    if (output->stream && output->stream != stdout)
        fclose(output->stream);
    if (output->temporary) {
        unlink(output->temporary);
        signals_keep(output->temporary);
    }
    free(output->path);
    free(output->temporary);
    *output = (struct output) { 0 };
}

// ---- reading ------------------------------------------------------------------------------------

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
