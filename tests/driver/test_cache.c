// SPDX-License-Identifier: MIT
/// The cache of compiled modules: what is found again, what is not, and that nothing about it makes
/// a load fail.
#include "cache_fixture.h"

#include <sys/stat.h>

static void kept_and_found(void **state)
{
    (void)state;
    ptx_device *device = open_device();
    char deep[600];
    struct stat facts;
    snprintf(deep, sizeof(deep), "%s/deep", folder);
    fake->jit_info_log = "ptxas warning : something\n";
    struct ptx_module_params params = { .cache = deep };
    assert_int_equal(ptx_launch(NULL, NULL), PTX_ERROR_INVALID); // an error that stays

    ptx_module *module = ptx_module_load(device, KERNEL_TEXT, &params);
    STORED(*ptx_module_cache_result(module));
    assert_string_equal(ptx_module_log(module), "ptxas warning : something");
    assert_int_equal(atomic_load(&fake->compilations), 2); // once to run and once to keep
    size_t bytes = ptx_module_cache_result(module)->bytes;
    ptx_module_unload(&module);

    struct files files = list_files(deep);
    assert_int_equal(files.count, 1);
    assert_int_equal(stat(files.paths[0], &facts), 0);
    assert_int_equal(facts.st_size, bytes);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(deep, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);

    fake->jit_info_log = "not asked again";
    module = ptx_module_load(device, KERNEL_TEXT, &params);
    HIT(*ptx_module_cache_result(module));
    assert_int_equal(ptx_module_cache_result(module)->bytes, bytes);
    assert_string_equal(ptx_module_log(module), "ptxas warning : something");
    assert_int_equal(atomic_load(&fake->compilations), 2);
    const struct ptx_function_info *info =
        ptx_function_get_info(ptx_module_function(module, "scale"));
    assert_int_equal(info->param_count, 3);
    assert_int_equal(ptx_launch(ptx_module_function(module, "fixed"),
                                &(struct ptx_launch_params) { .grid = { 1 } }),
                     PTX_OK);
    ptx_module_unload(&module);
    fake->jit_info_log = NULL;

    module = load_module(device, KERNEL_TEXT);
    expect(*ptx_module_cache_result(module), PTX_CACHE_OFF, "");
    assert_int_equal(atomic_load(&fake->compilations), 3);
    ptx_module_unload(&module);
    assert_null(ptx_module_cache_result(NULL));
    assert_error(PTX_ERROR_INVALID, "the function is NULL");
    empty_folder(deep);
    ptx_device_close(&device);
}

static void load_with(ptx_device *device, struct ptx_module_params params,
                      enum ptx_cache_outcome outcome)
{
    params.cache = folder;
    ptx_module *module = ptx_module_load(device, KERNEL_TEXT, &params);
    assert_non_null(module);
    assert_int_equal(ptx_module_cache_result(module)->outcome, outcome);
    ptx_module_unload(&module);
}

/// Each thing that machine code depends on makes another entry.
static void key(void **state)
{
    (void)state;
    static const struct ptx_module_params options[] = {
        { .max_registers = 40 }, { .max_registers = 41 }, { .line_info = true }, { .verbose = true }
    };
    ptx_device *device = open_device();
    for (int round = 0; round < 2; round++) {
        enum ptx_cache_outcome outcome = round ? PTX_CACHE_HIT : PTX_CACHE_STORED;
        load_with(device, (struct ptx_module_params) { 0 }, outcome);
        for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
            load_with(device, options[i], outcome);
    }
    for (int i = 0; i < 3; i++)
        STORED(load(device, variant(i), folder, 0));
    ptx_device_close(&device);

    fake->driver_version = 12050;
    device = open_device();
    STORED(load(device, KERNEL_TEXT, folder, 0));
    ptx_device_close(&device);
    fake->sm = 100;
    device = open_device();
    STORED(load(device, KERNEL_TEXT, folder, 0));
    HIT(load(device, KERNEL_TEXT, folder, 0));
    ptx_device_close(&device);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(1 << 16);
    *size = fread(bytes, 1, 1 << 16, file);
    fclose(file);
    return bytes;
}

/// Damage of any byte and of the length is a miss, and mended: every byte of the header, some of
/// the rest.
static void damage(void **state)
{
    (void)state;
    ptx_device *device = open_device();
    STORED(load(device, KERNEL_TEXT, folder, 0));
    struct files files = list_files(folder);
    size_t size = 0;
    char *good = read_file(files.paths[0], &size);
    char *bad = malloc(size + 1);
    for (size_t i = 0; i < 2 * size + 2; i += i % size < 64 || i % size > size - 4 ? 1 : 13) {
        memcpy(bad, good, size);
        bad[size] = 0;
        size_t length = size;
        if (i < size)
            bad[i] = (char)(bad[i] ^ 1 << i % 8);
        else
            length = i - size < size ? i - size : size + 1;
        write_file(files.paths[0], bad, length);
        expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_STORED, "was damaged");
        HIT(load(device, KERNEL_TEXT, folder, 0));
    }
    size_t mended_size = 0;
    char *mended = read_file(files.paths[0], &mended_size);
    assert_int_equal(mended_size, size);
    assert_memory_equal(mended, good, size);

    // Whole, but another text's: its name alone does not make it this one's.
    STORED(load(device, variant(1), folder, 0));
    struct files both = list_files(folder);
    int other = strcmp(both.paths[0], files.paths[0]) == 0;
    assert_int_equal(unlink(files.paths[0]), 0);
    assert_int_equal(rename(both.paths[other], files.paths[0]), 0);
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_STORED, "was damaged");
    free(mended);
    free(bad);
    free(good);
    ptx_device_close(&device);
}

static void what_is_no_file(void **state)
{
    (void)state;
    ptx_device *device = open_device();
    STORED(load(device, KERNEL_TEXT, folder, 0));
    struct files files = list_files(folder);
    char elsewhere[512];
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", root);
    assert_int_equal(rename(files.paths[0], elsewhere), 0);
    assert_int_equal(symlink(elsewhere, files.paths[0]), 0);
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_STORED, "cannot open the cached file");
    HIT(load(device, KERNEL_TEXT, folder, 0));
    assert_int_equal(unlink(files.paths[0]), 0);
    assert_int_equal(mkfifo(files.paths[0], 0600), 0);
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_STORED, "is no file");
    HIT(load(device, KERNEL_TEXT, folder, 0));
    assert_int_equal(chmod(files.paths[0], 0622), 0);
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_STORED, "can be written by others");
    HIT(load(device, KERNEL_TEXT, folder, 0));
    ptx_device_close(&device);
}

static void driver_refuses(void **state)
{
    (void)state;
    ptx_device *device = open_device();
    STORED(load(device, KERNEL_TEXT, folder, 0));
    fake->refuse_code = 1;
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_STORED,
           "the driver refused the cached code with CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
    HIT(load(device, KERNEL_TEXT, folder, 0));
    fake->refuse_code = 2;
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_FAILED,
           "cuModuleLoadDataEx failed with CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
    fake->fail_call = "cuLinkComplete";
    expect(load(device, variant(1), folder, 0), PTX_CACHE_FAILED,
           "cuLinkComplete failed with CUDA_ERROR_UNKNOWN (999)");
    fake->fail_call = NULL;
    assert_int_equal(list_files(folder).count, 1);
    ptx_device_close(&device);
}

/// The linker's code is kept only if it takes no more than the compiler's; that it does not is kept
/// too, so that the linker is not tried again.
static void worse_code_is_not_kept(void **state)
{
    (void)state;
    static const char reason[] = "the linker's code for kernel scale takes 105 registers and 103 "
                                 "bytes of local memory, not 104 and 103";
    ptx_device *device = open_device();
    fake->linked_registers = 105;
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_FAILED, reason);
    assert_int_equal(atomic_load(&fake->compilations), 2);
    struct ptx_cache_result again = load(device, KERNEL_TEXT, folder, 0);
    expect(again, PTX_CACHE_FAILED, reason);
    assert_int_equal(again.bytes, 0);
    assert_int_equal(atomic_load(&fake->compilations), 3);
    empty_folder(folder);

    fake->linked_registers = 0;
    fake->linked_local = 104;
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_FAILED, "104 registers and 104 bytes");
    empty_folder(folder);

    // What is only declared has no limit.
    fake->linked_registers = 104;
    fake->linked_local = 103;
    STORED(load(device, KERNEL_TEXT ".visible .entry fixed();\n", folder, 0));
    size_t size = 0;
    char *bytes = read_file(list_files(folder).paths[0], &size);
    size_t limits = 0;
    for (size_t i = 0; i + 12 < size; i++)
        limits += memcmp(bytes + i, ".maxnreg 104", 12) == 0;
    assert_int_equal(limits, 2);
    free(bytes);
    ptx_device_close(&device);
}

/// A text that does not compile is told as without a cache, and leaves nothing in it.
static void compiler_refuses(void **state)
{
    (void)state;
    char messages[2][8192];
    ptx_device *device = open_device();
    fake->jit_error_log = "ptxas application ptx input, line 3; error   : odd\n";
    fake->fail_call = "cuModuleLoadDataEx";
    fake->fail_result = CUDA_ERROR_INVALID_PTX;
    for (int i = 0; i < 2; i++) {
        assert_null(ptx_module_load(device, KERNEL_TEXT,
                                    &(struct ptx_module_params) { .cache = i ? folder : NULL }));
        assert_error(PTX_ERROR_JIT, "line 3 is: .target sm_80");
        snprintf(messages[i], sizeof(messages[i]), "%s", ptx_error_message());
    }
    assert_string_equal(messages[0], messages[1]);
    assert_int_equal(list_files(folder).count, 0);
    fake->jit_error_log = NULL;
    fake->fail_call = NULL;
    ptx_device_close(&device);
}

static void old_driver(void **state)
{
    (void)state;
    struct fake_cuda *old = fake_open(FAKE_OLD_LIBCUDA);
    assert_non_null(old);
    ptx_device *device = open_device();
    expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_FAILED, "has no linker");
    ptx_device_close(&device);
    assert_int_equal(atomic_load(&old->alive), 0);
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(kept_and_found),   CACHE_TEST(key),
        CACHE_TEST(damage),           CACHE_TEST(what_is_no_file),
        CACHE_TEST(driver_refuses),   CACHE_TEST(worse_code_is_not_kept),
        CACHE_TEST(compiler_refuses), CACHE_TEST(old_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
