// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // openat, futimens
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 16 };

/// The place for one text's machine code in a folder.
struct cache {
    int folder;    ///< descriptor; -1: the folder cannot be used
    uint64_t most; ///< bytes that it may hold
    uint64_t key[2];
    char name[64]; ///< of the file
    struct ptx_cache_result *result;
};

static bool give_up(struct cache *cache, const char *what, int error)
{
    char text[128] = "";
    if (error && strerror_r(error, text, sizeof(text)) != 0)
        snprintf(text, sizeof(text), "error %d", error);
    snprintf(cache->result->reason, sizeof(cache->result->reason), "%s%s%s", what,
             error ? ": " : "", text);
    return false;
}

static void open_cache(struct cache *cache, const ptx_device *device, const char *source,
                       const struct ptx_module_params *params, struct ptx_cache_result *result)
{
    *cache = (struct cache) {
        .folder = ptx_driver_folder_open(params->cache, result->reason, sizeof(result->reason)),
        .most = params->cache_bytes ? params->cache_bytes : PTX_CACHE_BYTES,
        .result = result,
    };
    ptx_driver_entry_key(cache->key, device, source, params);
    snprintf(cache->name, sizeof(cache->name), PTX_DRIVER_ENTRY_NAME,
             (unsigned long long)cache->key[0], (unsigned long long)cache->key[1]);
}

static void close_cache(struct cache *cache)
{
    if (cache->folder >= 0)
        close(cache->folder);
    cache->folder = -1;
}

static bool read_all(int file, unsigned char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = read(file, bytes + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool read_file(struct cache *cache, int file, struct ptx_driver_entry *entry)
{
    struct stat facts;
    if (fstat(file, &facts) != 0)
        return give_up(cache, "cannot look at the cached file", errno);
    if (!S_ISREG(facts.st_mode))
        return give_up(cache, "the cached file is no file", 0);
    if (!ptx_driver_folder_trusts(&facts))
        return give_up(cache, "the cached file can be written by others", 0);
    if (facts.st_size > PTX_DRIVER_LARGEST_ENTRY)
        return give_up(cache, "the cached file was damaged", 0);
    entry->size = (size_t)facts.st_size;
    entry->bytes = malloc(entry->size + 1); // never of 0 bytes
    if (!entry->bytes)
        return give_up(cache, "out of host memory", 0);
    if (!read_all(file, entry->bytes, entry->size) || !ptx_driver_entry_is_whole(entry, cache->key))
        return give_up(cache, "the cached file was damaged", 0);
    futimens(file, NULL); // "used now"; in a folder that cannot be written to nothing is removed
    return true;
}

static bool read_entry(struct cache *cache, struct ptx_driver_entry *entry)
{
    if (cache->folder < 0)
        return false;
    int file = openat(cache->folder, cache->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && errno == ENOENT)
        return give_up(cache, "not in the cache yet", 0);
    if (file < 0)
        return give_up(cache, "cannot open the cached file", errno);
    bool whole = read_file(cache, file, entry);
    close(file);
    if (!whole)
        ptx_driver_entry_destroy(entry);
    return whole;
}

/// A new file beside the entry. Its name is not guessed by others: the folder is not theirs.
static int create_beside(struct cache *cache, char *name, size_t size)
{
    int file = -1;
    for (int i = 0; i < TRIES && file < 0; i++) {
        struct timespec now = { 0 };
        clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(name, size, "%s.tmp-%ld-%lx-%d", cache->name, (long)getpid(),
                 (unsigned long)now.tv_nsec, i);
        file =
            openat(cache->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0 && errno != EEXIST)
            break;
    }
    return file;
}

static bool write_all(int file, const unsigned char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = write(file, bytes + done, size - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

/// Not flushed to the disk: after a crash of the system the file may be damaged, which its reader
/// notices.
static bool write_entry(struct cache *cache, struct ptx_driver_entry *entry)
{
    char name[128];
    if (entry->size > PTX_DRIVER_LARGEST_ENTRY || entry->size > cache->most)
        return give_up(cache, "larger than the cache may be", 0);
    if (!ptx_driver_folder_make_room(cache->folder, cache->name, entry->size, cache->most))
        return give_up(cache, "the folder is full, and what is in it cannot be removed", 0);
    ptx_driver_entry_seal(entry, cache->key);
    int file = create_beside(cache, name, sizeof(name));
    if (file < 0)
        return give_up(cache, "cannot write to the folder", errno);
    bool written = write_all(file, entry->bytes, entry->size);
    int error = errno;
    if (close(file) != 0 && written) {
        written = false;
        error = errno;
    }
    if (written && renameat(cache->folder, name, cache->folder, cache->name) != 0) {
        written = false;
        error = errno;
    }
    if (written)
        return true;
    unlinkat(cache->folder, name, 0);
    return give_up(cache, "cannot write to the folder", error);
}

static bool load_entry(ptx_module *module, const struct ptx_driver_entry *entry)
{
    const struct ptx_driver_library *library = &module->device->library;
    CUmodule handle = NULL;
    char *log = ptx_driver_entry_log(entry);
    CUresult result =
        log ? library->cuModuleLoadDataEx(&handle, ptx_driver_entry_code(entry), 0, NULL, NULL)
            : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        module->handle = handle;
        module->log = log;
        return true;
    }
    free(log);
    snprintf(module->cache.reason, sizeof(module->cache.reason),
             "the driver refused the cached code with %s (%d)",
             ptx_driver_result_name(library, result), (int)result);
    return false;
}

bool ptx_driver_cache_load(ptx_module *module, const char *source,
                           const struct ptx_module_params *params, bool *keep)
{
    struct cache cache;
    struct ptx_driver_entry entry = { NULL, 0 };
    struct ptx_cache_result *result = &module->cache;
    *result = (struct ptx_cache_result) { .outcome = PTX_CACHE_FAILED };
    open_cache(&cache, module->device, source, params, result);
    bool found = read_entry(&cache, &entry);
    bool empty = found && !ptx_driver_entry_code(&entry);
    bool hit = found && !empty && load_entry(module, &entry);
    char *reason = empty ? ptx_driver_entry_log(&entry) : NULL;
    if (empty)
        give_up(&cache, reason ? reason : "out of host memory", 0);
    if (hit) {
        result->outcome = PTX_CACHE_HIT;
        result->bytes = entry.size;
    }
    *keep = cache.folder >= 0 && !hit && !empty;
    free(reason);
    ptx_driver_entry_destroy(&entry);
    close_cache(&cache);
    return hit;
}

/// So that later loads do not try the linker in vain.
static void keep_reason(struct cache *cache, struct ptx_driver_entry *entry)
{
    char reason[sizeof(cache->result->reason)];
    memcpy(reason, cache->result->reason, sizeof(reason));
    if (ptx_driver_entry_create(entry, NULL, 0, reason) && write_entry(cache, entry))
        memcpy(cache->result->reason, reason, sizeof(reason));
}

/// The reason is what was in the way of a hit, until something is in the way of keeping the code.
void ptx_driver_cache_keep(ptx_module *module, const char *source,
                           const struct ptx_module_params *params)
{
    struct cache cache;
    struct ptx_driver_entry entry = { NULL, 0 };
    struct ptx_cache_result *result = &module->cache;
    bool worse = false;
    open_cache(&cache, module->device, source, params, result);
    bool linked = cache.folder >= 0 && ptx_driver_link(module, source, params, &entry, &worse,
                                                       result->reason, sizeof(result->reason));
    if (linked && write_entry(&cache, &entry)) {
        result->outcome = PTX_CACHE_STORED;
        result->bytes = entry.size;
    }
    if (worse)
        keep_reason(&cache, &entry);
    ptx_driver_entry_destroy(&entry);
    close_cache(&cache);
}
