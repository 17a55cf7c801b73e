// SPDX-License-Identifier: MIT
/// The folder of the cache of compiled modules: one that cannot be used, a full disk, the size that
/// it is held to, other files in it, and many processes in it at once.
#include "cache_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(folders_that_cannot_be_used),
        CACHE_TEST(disk_full),
        CACHE_TEST(size_is_capped),
        CACHE_TEST(other_files_stay),
        CACHE_TEST(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
