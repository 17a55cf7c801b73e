// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // openat, fdopendir
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/// A name has a prefix, the digits, a suffix and a NUL.
enum { KEY_DIGITS = 32, NAME_BYTES = 7 + KEY_DIGITS + 6 + 1, ABANDONED_AFTER = 3600 /* seconds */ };

bool ptx_driver_folder_trusts(const struct stat *facts)
{
    return (facts->st_uid == geteuid() || facts->st_uid == 0) &&
           (facts->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The folder and those above it. What cannot be made shows when the folder is opened.
static bool make_folders(const char *path)
{
    char *part = malloc(strlen(path) + 1);
    if (!part)
        return false;
    strcpy(part, path);
    for (char *slash = strchr(part + (part[0] == '/'), '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0700);
        *slash = '/';
    }
    mkdir(part, 0700);
    free(part);
    return true;
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int refuse(int folder, const char *path, const char *why, char *reason, size_t reason_size)
{
    if (folder >= 0)
        close(folder);
    snprintf(reason, reason_size, "cannot use %.150s: %s", path, why);
    return -1;
}

int ptx_driver_folder_open(const char *path, char *reason, size_t reason_size)
{
    struct stat facts;
    char error[64] = "it cannot be opened";
    int folder = open_folder(path);
    if (folder < 0 && errno == ENOENT && make_folders(path))
        folder = open_folder(path);
    if (folder < 0 || fstat(folder, &facts) != 0) {
        strerror_r(errno, error, sizeof(error));
        return refuse(folder, path, error, reason, reason_size);
    }
    if (facts.st_uid != geteuid() && facts.st_uid != 0)
        return refuse(folder, path, "it belongs to another user", reason, reason_size);
    if (!ptx_driver_folder_trusts(&facts))
        return refuse(folder, path, "others can write to it: chmod go-w", reason, reason_size);
    return folder;
}

// ------------------------------------------------------------------------------------------ room

struct file {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
};

struct listing {
    struct file *files;
    size_t count;
    size_t room;
    uint64_t bytes;
};

/// Nothing else in the folder is touched: whose it is nobody knows.
enum kind { NOT_OURS, ENTRY, UNFINISHED };

static enum kind kind_of(const char *name)
{
    static const char prefix[] = "ptxgen-";
    static const char suffix[] = ".cubin";
    const char *digits = name + strlen(prefix);
    if (strncmp(name, prefix, strlen(prefix)) != 0 ||
        strspn(digits, "0123456789abcdef") != KEY_DIGITS ||
        strncmp(digits + KEY_DIGITS, suffix, strlen(suffix)) != 0)
        return NOT_OURS;
    const char *rest = digits + KEY_DIGITS + strlen(suffix);
    if (*rest == '\0')
        return ENTRY;
    return strncmp(rest, ".tmp-", 5) == 0 ? UNFINISHED : NOT_OURS;
}

static bool add(struct listing *listing, const char *name, const struct stat *facts)
{
    if (listing->count == listing->room) {
        size_t room = listing->room ? 2 * listing->room : 64;
        struct file *files = realloc(listing->files, room * sizeof(*files));
        if (!files)
            return false;
        listing->files = files;
        listing->room = room;
    }
    struct file *file = &listing->files[listing->count++];
    memcpy(file->name, name, sizeof(file->name));
    file->bytes = (uint64_t)facts->st_size;
    file->used = facts->st_mtim;
    listing->bytes += file->bytes;
    return true;
}

/// Lists the entries but for `name`, and removes what a process that died has left unfinished.
static bool list(int folder, DIR *open, const char *name, struct listing *listing)
{
    struct stat facts;
    time_t now = time(NULL);
    bool listed = true;
    for (struct dirent *found; listed && (found = readdir(open));) {
        enum kind kind = kind_of(found->d_name);
        if (kind == NOT_OURS || strcmp(found->d_name, name) == 0 ||
            fstatat(folder, found->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (kind == ENTRY)
            listed = add(listing, found->d_name, &facts);
        else if (now - facts.st_mtime > ABANDONED_AFTER)
            unlinkat(folder, found->d_name, 0);
    }
    return listed;
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct file *)a)->used;
    const struct timespec *y = &((const struct file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/// Another process may have removed a file first, or have used it just now; neither does harm.
static bool remove_oldest(int folder, struct listing *listing, uint64_t most)
{
    if (listing->bytes > most)
        qsort(listing->files, listing->count, sizeof(*listing->files), by_use);
    for (size_t i = 0; i < listing->count && listing->bytes > most; i++)
        if (unlinkat(folder, listing->files[i].name, 0) == 0 || errno == ENOENT)
            listing->bytes -= listing->files[i].bytes;
    return listing->bytes <= most;
}

bool ptx_driver_folder_make_room(int folder, const char *name, uint64_t bytes, uint64_t most)
{
    if (bytes > most)
        return false;
    struct listing listing = { 0 };
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *open = again >= 0 ? fdopendir(again) : NULL;
    bool made =
        open && list(folder, open, name, &listing) && remove_oldest(folder, &listing, most - bytes);
    if (open)
        closedir(open);
    else if (again >= 0)
        close(again);
    free(listing.files);
    return made;
}
