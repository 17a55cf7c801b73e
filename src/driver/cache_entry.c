// SPDX-License-Identifier: MIT
#include "cache.h"

#include <stdlib.h>
#include <string.h>

/// What an entry begins with, as this machine has its numbers. Code and log follow.
struct header {
    char format[16];
    uint64_t key[2];
    uint64_t code_bytes;
    uint64_t log_bytes;
    uint64_t checksum[2]; ///< of all of the entry, with zeros here
};

static const char format[16] = "ptxgen cubin 1\n";

struct digest {
    uint64_t a, b;
};

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/// Each word enters both halves by steps that can be undone, so a single changed word always shows.
static void stir(struct digest *digest, uint64_t word)
{
    digest->a = turn(digest->a ^ word, 29) * UINT64_C(0x9e3779b97f4a7c15);
    digest->b = turn((digest->b + word) * UINT64_C(0xd6e8feb86659fd93), 31);
}

/// Adds a field, its length first, so that no two lists of fields are the same bytes.
static void add(struct digest *digest, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t word = 0;
    stir(digest, bytes);
    for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        stir(digest, word);
    }
    word = 0;
    memcpy(&word, at, bytes);
    stir(digest, word);
}

static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static void finish(const struct digest *digest, uint64_t result[2])
{
    result[0] = spread(digest->a + turn(digest->b, 17));
    result[1] = spread(digest->b ^ digest->a);
}

void ptx_driver_entry_key(uint64_t key[2], const ptx_device *device, const char *source,
                          const struct ptx_module_params *params)
{
    const struct ptx_device_info *gpu = &device->info;
    const char *file = strrchr(gpu->library_path, '/');
    file = file ? file + 1 : gpu->library_path;
    const int64_t facts[] = { gpu->driver_version, gpu->sm, params->max_registers,
                              params->line_info, params->verbose };
    struct digest digest = { 1, 2 };
    add(&digest, format, sizeof(format));
    add(&digest, facts, sizeof(facts));
    add(&digest, file, strlen(file));
    add(&digest, source, strlen(source));
    finish(&digest, key);
}

// --------------------------------------------------------------------------------------- entries

bool ptx_driver_entry_create(struct ptx_driver_entry *entry, const void *code, size_t code_bytes,
                             const char *log)
{
    size_t log_bytes = strlen(log);
    struct header header = { .code_bytes = code_bytes, .log_bytes = log_bytes };
    entry->size = sizeof(header) + code_bytes + log_bytes;
    entry->bytes = malloc(entry->size);
    if (!entry->bytes)
        return false;
    memcpy(entry->bytes, &header, sizeof(header));
    if (code_bytes)
        memcpy(entry->bytes + sizeof(header), code, code_bytes);
    memcpy(entry->bytes + sizeof(header) + code_bytes, log, log_bytes);
    return true;
}

void ptx_driver_entry_destroy(struct ptx_driver_entry *entry)
{
    free(entry->bytes);
    *entry = (struct ptx_driver_entry) { NULL, 0 };
}

static struct header header_of(const struct ptx_driver_entry *entry)
{
    struct header header;
    memcpy(&header, entry->bytes, sizeof(header));
    return header;
}

const void *ptx_driver_entry_code(const struct ptx_driver_entry *entry)
{
    return header_of(entry).code_bytes ? entry->bytes + sizeof(struct header) : NULL;
}

char *ptx_driver_entry_log(const struct ptx_driver_entry *entry)
{
    struct header header = header_of(entry);
    char *log = malloc(header.log_bytes + 1);
    if (!log)
        return NULL;
    memcpy(log, entry->bytes + sizeof(header) + header.code_bytes, header.log_bytes);
    log[header.log_bytes] = '\0';
    return log;
}

static void sum(const struct ptx_driver_entry *entry, uint64_t checksum[2])
{
    struct header header = header_of(entry);
    struct digest digest = { 3, 4 };
    memset(header.checksum, 0, sizeof(header.checksum));
    add(&digest, &header, sizeof(header));
    add(&digest, entry->bytes + sizeof(header), entry->size - sizeof(header));
    finish(&digest, checksum);
}

void ptx_driver_entry_seal(struct ptx_driver_entry *entry, const uint64_t key[2])
{
    struct header header = header_of(entry);
    memcpy(header.format, format, sizeof(format));
    memcpy(header.key, key, sizeof(header.key));
    memcpy(entry->bytes, &header, sizeof(header));
    sum(entry, header.checksum);
    memcpy(entry->bytes, &header, sizeof(header));
}

bool ptx_driver_entry_is_whole(const struct ptx_driver_entry *entry, const uint64_t key[2])
{
    if (entry->size < sizeof(struct header))
        return false;
    struct header header = header_of(entry);
    uint64_t checksum[2];
    size_t room = entry->size - sizeof(header);
    if (memcmp(header.format, format, sizeof(format)) != 0 ||
        memcmp(header.key, key, sizeof(header.key)) != 0 || header.code_bytes > room ||
        header.log_bytes != room - header.code_bytes)
        return false;
    sum(entry, checksum);
    return memcmp(header.checksum, checksum, sizeof(checksum)) == 0;
}
