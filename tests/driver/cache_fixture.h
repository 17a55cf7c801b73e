// SPDX-License-Identifier: MIT
/// What the tests of the cache of compiled modules share: its folder, and loads by way of it.
#ifndef PTXGEN_TESTS_DRIVER_CACHE_FIXTURE_H
#define PTXGEN_TESTS_DRIVER_CACHE_FIXTURE_H

#include "driver_fixture.h"

#include <dirent.h>
#include <unistd.h>

enum { MOST_FILES = 64 };

static char root[256];   // of all folders of this test
static char folder[512]; // the cache

struct files {
    int count;
    char paths[MOST_FILES][512];
};

/// All that is in the folder, in any order.
static inline struct files list_files(const char *path)
{
    struct files files = { 0 };
    DIR *open = opendir(path);
    for (struct dirent *found; open && (found = readdir(open));)
        if (found->d_name[0] != '.' && files.count < MOST_FILES)
            snprintf(files.paths[files.count++], sizeof(files.paths[0]), "%.200s/%.250s", path,
                     found->d_name);
    if (open)
        closedir(open);
    return files;
}

static inline void empty_folder(const char *path)
{
    struct files files = list_files(path);
    for (int i = 0; i < files.count; i++)
        if (unlink(files.paths[i]) != 0)
            rmdir(files.paths[i]);
}

static inline int cache_setup(void **state)
{
    snprintf(root, sizeof(root), "%s/ptxgen-test-cache-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof(folder), "%s/cache", root);
    return fake_setup(state);
}

static inline int cache_teardown(void **state)
{
    empty_folder(folder);
    empty_folder(root);
    if (rmdir(root) != 0)
        return -1;
    return fake_teardown(state);
}

#define CACHE_TEST(function) cmocka_unit_test_setup_teardown(function, cache_setup, cache_teardown)

/// Loads through the cache and unloads; what the cache says of it.
static inline struct ptx_cache_result load(ptx_device *device, const char *text, const char *cache,
                                           uint64_t bytes)
{
    ptx_module *module = ptx_module_load(
        device, text, &(struct ptx_module_params) { .cache = cache, .cache_bytes = bytes });
    if (!module)
        fail_msg("%s", ptx_error_message());
    assert_non_null(ptx_module_function(module, "fixed"));
    struct ptx_cache_result result = *ptx_module_cache_result(module);
    ptx_module_unload(&module);
    return result;
}

static inline void expect(struct ptx_cache_result result, enum ptx_cache_outcome outcome,
                          const char *reason)
{
    if (result.outcome != outcome || !strstr(result.reason, reason) ||
        (!reason[0] && result.reason[0]))
        fail_msg("outcome %d and '%s' wanted, got %d and '%s'", (int)outcome, reason,
                 (int)result.outcome, result.reason);
}

#define STORED(result) expect(result, PTX_CACHE_STORED, "not in the cache yet")
#define HIT(result)    expect(result, PTX_CACHE_HIT, "")

/// KERNEL_TEXT with a comment of its own.
static inline const char *variant(int number)
{
    static _Thread_local char text[2048];
    snprintf(text, sizeof(text), "// variant %d\n" KERNEL_TEXT, number);
    return text;
}

static inline void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

#endif
