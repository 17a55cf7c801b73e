// SPDX-License-Identifier: MIT
/// The cache of compiled modules: what is found again, what is not, and that nothing about it makes
/// a load fail.
#include "driver_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FILES = 64 };

static char root[256];   // of all folders of this test
static char folder[512]; // the cache

struct files {
    int count;
    char paths[MOST_FILES][512];
};

/// All that is in the folder, in any order.
static struct files list_files(const char *path)
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

static void empty_folder(const char *path)
{
    struct files files = list_files(path);
    for (int i = 0; i < files.count; i++)
        if (unlink(files.paths[i]) != 0)
            rmdir(files.paths[i]);
}

static int cache_setup(void **state)
{
    snprintf(root, sizeof(root), "%s/ptxgen-test-cache-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof(folder), "%s/cache", root);
    return fake_setup(state);
}

static int cache_teardown(void **state)
{
    empty_folder(folder);
    empty_folder(root);
    if (rmdir(root) != 0)
        return -1;
    return fake_teardown(state);
}

#define CACHE_TEST(function) cmocka_unit_test_setup_teardown(function, cache_setup, cache_teardown)

/// Loads through the cache and unloads; what the cache says of it.
static struct ptx_cache_result load(ptx_device *device, const char *text, const char *cache,
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

static void expect(struct ptx_cache_result result, enum ptx_cache_outcome outcome,
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
static const char *variant(int number)
{
    static _Thread_local char text[2048];
    snprintf(text, sizeof(text), "// variant %d\n" KERNEL_TEXT, number);
    return text;
}

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

static void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
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

static void folders_that_cannot_be_used(void **state)
{
    (void)state;
    char file[512];
    char below[600];
    ptx_device *device = open_device();
    snprintf(file, sizeof(file), "%s/file", root);
    snprintf(below, sizeof(below), "%s/below", file);
    write_file(file, "x", 1);
    assert_int_equal(ptx_launch(NULL, NULL), PTX_ERROR_INVALID);
    expect(load(device, KERNEL_TEXT, file, 0), PTX_CACHE_FAILED, "Not a directory");
    expect(load(device, KERNEL_TEXT, below, 0), PTX_CACHE_FAILED, "Not a directory");
    expect(load(device, KERNEL_TEXT, "", 0), PTX_CACHE_FAILED, "No such file");
    STORED(load(device, KERNEL_TEXT, folder, 0));
    for (mode_t mode = 0720; mode <= 0722; mode += 2) {
        assert_int_equal(chmod(folder, mode), 0);
        expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_FAILED, "chmod go-w");
    }
    assert_int_equal(chmod(folder, 0755), 0);
    HIT(load(device, KERNEL_TEXT, folder, 0));
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 4711, (gid_t)-1), 0);
        expect(load(device, KERNEL_TEXT, folder, 0), PTX_CACHE_FAILED, "belongs to another user");
        assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
    } else {
        assert_int_equal(chmod(folder, 0500), 0);
        HIT(load(device, KERNEL_TEXT, folder, 0));
        expect(load(device, variant(1), folder, 0), PTX_CACHE_FAILED, "Permission denied");
        assert_int_equal(chmod(folder, 0700), 0);
    }
    assert_error(PTX_ERROR_INVALID, "the function is NULL");
    assert_int_equal(unlink(file), 0);
    ptx_device_close(&device);
}

/// A limit on the size of files is what a full disk looks like: the first bytes fit.
static void disk_full(void **state)
{
    (void)state;
    struct rlimit before;
    ptx_device *device = open_device();
    STORED(load(device, KERNEL_TEXT, folder, 0));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most <= 100; most += 100) {
        struct rlimit limit = { .rlim_cur = most, .rlim_max = before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        struct ptx_cache_result result = load(device, variant(1), folder, 0);
        struct ptx_cache_result hit = load(device, KERNEL_TEXT, folder, 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        expect(result, PTX_CACHE_FAILED, "cannot write to the folder: File too large");
        assert_int_equal(result.bytes, 0);
        HIT(hit);
        assert_int_equal(list_files(folder).count, 1);
    }
    STORED(load(device, variant(1), folder, 0));
    ptx_device_close(&device);
}

static void age(const char *path, time_t seconds)
{
    struct timespec times[2] = { { 0 } };
    times[0].tv_sec = times[1].tv_sec = time(NULL) - seconds;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/// Makes all entries older, in the order that they are in.
static void let_time_pass(void)
{
    struct files files = list_files(folder);
    struct stat facts;
    for (int i = 0; i < files.count; i++) {
        assert_int_equal(stat(files.paths[i], &facts), 0);
        age(files.paths[i], time(NULL) - facts.st_mtime + 100);
    }
}

static void size_is_capped(void **state)
{
    (void)state;
    ptx_device *device = open_device();
    size_t one = load(device, variant(0), folder, 0).bytes; // all variants have one length
    for (int i = 1; i < 4; i++) {
        let_time_pass();
        STORED(load(device, variant(i), folder, 4 * one));
    }
    let_time_pass();
    assert_int_equal(list_files(folder).count, 4);
    HIT(load(device, variant(0), folder, 0)); // the oldest is now the newest
    STORED(load(device, variant(4), folder, 4 * one));
    assert_int_equal(list_files(folder).count, 4);
    HIT(load(device, variant(0), folder, 0));
    HIT(load(device, variant(4), folder, 0));
    STORED(load(device, variant(1), folder, 4 * one));

    // What is replaced takes no room of its own.
    struct files files = list_files(folder);
    assert_int_equal(truncate(files.paths[0], (off_t)one - 1), 0);
    int hits = 0;
    for (int i = 0; i < 5; i++) // 2 was the oldest when 1 came again
        hits += i != 2 && load(device, variant(i), folder, 4 * one).outcome == PTX_CACHE_HIT;
    assert_int_equal(hits, 3);

    // Room for one only; and not even for that.
    STORED(load(device, variant(5), folder, 2 * one - 1));
    assert_int_equal(list_files(folder).count, 1);
    expect(load(device, variant(6), folder, one - 1), PTX_CACHE_FAILED, "larger than the cache");
    HIT(load(device, variant(5), folder, one - 1));
    assert_int_equal(list_files(folder).count, 1);
    ptx_device_close(&device);
}

static void other_files_stay(void **state)
{
    (void)state;
    // The last two are what a process leaves that dies while it writes, long ago and just now.
    static const char *const names[] = {
        "notes.txt",
        "ptxgen-0123456789abcdef0123456789abcdef.cubin.bak",
        "ptxgen-0123456789abcdef0123456789abcde.cubin",
        "ptxgen-0123456789ABCDEF0123456789abcdef.cubin",
        "ptxgen-0123456789abcdef0123456789abcdef.cubin.tmp-1-2-3",
        "ptxgen-0123456789abcdef0123456789abcdef.cubin.tmp-4-5-6",
    };
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    char paths[COUNT][600];
    ptx_device *device = open_device();
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, names[i]);
        write_file(paths[i], "something", 9);
        age(paths[i], i == COUNT - 1 ? 10 : 100000);
    }
    size_t one = load(device, variant(0), folder, 0).bytes;
    STORED(load(device, variant(1), folder, one));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(access(paths[i], F_OK), i == COUNT - 2 ? -1 : 0);
    assert_int_equal(list_files(folder).count, COUNT);
    ptx_device_close(&device);
}

/// Loads a few texts again and again, in a folder that has room for two of them.
static int hammer(ptx_device *device, int seed)
{
    int failures = 0;
    for (int i = 0; i < 60; i++) {
        struct ptx_module_params params = { .cache = folder, .cache_bytes = 2048 };
        ptx_module *module = ptx_module_load(device, variant((i * 7 + seed) % 5), &params);
        const struct ptx_cache_result *result = ptx_module_cache_result(module);
        failures += !module || !ptx_module_function(module, "fixed") ||
                    (result->outcome == PTX_CACHE_STORED && strstr(result->reason, "damaged"));
        ptx_module_unload(&module);
    }
    return failures;
}

static void *hammer_in_thread(void *device)
{
    return (void *)(intptr_t)hammer(device, 3);
}

static int hammer_in_process(int seed)
{
    ptx_device *device = ptx_device_open(NULL);
    pthread_t thread;
    void *failures = NULL;
    if (!device || pthread_create(&thread, NULL, hammer_in_thread, device) != 0)
        return 1;
    int own = hammer(device, seed);
    pthread_join(thread, &failures);
    ptx_device_close(&device);
    return own > 0 || failures;
}

static void many_at_once(void **state)
{
    (void)state;
    enum { PROCESSES = 6 };
    pid_t processes[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        processes[i] = fork();
        if (processes[i] == 0)
            _exit(hammer_in_process(i));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int ended = 0;
        assert_int_equal(waitpid(processes[i], &ended, 0), processes[i]);
        assert_true(WIFEXITED(ended));
        assert_int_equal(WEXITSTATUS(ended), 0);
    }
    struct files files = list_files(folder);
    for (int i = 0; i < files.count; i++)
        assert_null(strstr(files.paths[i], ".tmp-"));
    assert_in_range(files.count, 1, 5);
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
        CACHE_TEST(compiler_refuses), CACHE_TEST(folders_that_cannot_be_used),
        CACHE_TEST(disk_full),        CACHE_TEST(size_is_capped),
        CACHE_TEST(other_files_stay), CACHE_TEST(many_at_once),
        CACHE_TEST(old_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
