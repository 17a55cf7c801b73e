// SPDX-License-Identifier: MIT
/// The choice of the libcuda, and the messages if none can be used.
#include "driver_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

FAKE_TEST(named_library_serves)
{
    ptx_device *device = open_device();
    assert_non_null(strstr(ptx_device_get_info(device)->library_path, "fake_libcuda"));
    ptx_device_close(&device);
    assert_null(device);
}

FAKE_TEST(missing_library)
{
    setenv("PTXGEN_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    assert_null(ptx_device_open(NULL));
    assert_error(PTX_ERROR_NO_DRIVER, "/nowhere/libcuda.so.1");
    assert_message("PTXGEN_LIBCUDA names this library");
    int count = 7;
    assert_int_equal(ptx_device_count(&count), PTX_ERROR_NO_DRIVER);
    assert_int_equal(count, 0);
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

/// The loader's search is first; of the other places, only existing ones are tried. In a child
/// process, because a library that is found stays mapped.
FAKE_TEST(search_begins_with_the_loader)
{
    const pid_t process = fork();
    if (process == 0) {
        unsetenv("PTXGEN_LIBCUDA");
        ptx_device *device = ptx_device_open(NULL);
        const char *message = device ? "" : ptx_error_message();
        const char *tried = strstr(message, "what was tried:");
        bool ok = !tried || (strstr(tried, "what was tried:\nlibcuda.so.1") &&
                             strstr(message, "which may be ptxgen's emulator"));
        if (tried && strstr(tried, "/usr/lib/wsl/"))
            ok = ok && access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0;
        if (!ok)
            fprintf(stderr, "%s\n", message);
        _exit(ok ? 0 : 1);
    }
    int ended = 0;
    assert_int_equal(waitpid(process, &ended, 0), process);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
}

FAKE_TEST(stub_in_the_process_is_passed_over)
{
    void *present = dlopen(FAKE_STUB_LIBCUDA, RTLD_NOW);
    assert_non_null(present);
    void *same = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_ptr_equal(present, same);
    ptx_device *device = open_device();
    assert_non_null(strstr(ptx_device_get_info(device)->library_path, "fake_libcuda"));
    ptx_device_close(&device);
    dlclose(same);
    dlclose(present);
}

FAKE_TEST(library_in_the_process_comes_first)
{
    void *present = dlopen(FAKE_PRESENT_LIBCUDA, RTLD_NOW);
    assert_non_null(present);
    OWNED(ptx_device) *device = open_device();
    assert_non_null(strstr(ptx_device_get_info(device)->library_path, "fake_present"));
    ptx_device_close(&device);
    dlclose(present);
    device = open_device();
    assert_null(strstr(ptx_device_get_info(device)->library_path, "fake_present"));
}

FAKE_TEST(stub_by_name)
{
    setenv("PTXGEN_LIBCUDA", FAKE_STUB_LIBCUDA, 1);
    assert_null(ptx_device_open(NULL));
    assert_error(PTX_ERROR_NO_DRIVER, "CUDA_ERROR_STUB_LIBRARY (34)");
    assert_message("install the NVIDIA display driver");
    assert_message("library: ");
    assert_int_equal(ptx_error_code(), CUDA_ERROR_STUB_LIBRARY);
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

FAKE_TEST(required_function_missing)
{
    setenv("PTXGEN_LIBCUDA", FAKE_BROKEN_LIBCUDA, 1);
    assert_null(ptx_device_open(NULL));
    assert_error(PTX_ERROR_NO_DRIVER, "has no cuMemAlloc_v2");
    assert_message("update the driver");
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

FAKE_TEST(optional_function_missing)
{
    struct fake_cuda *usual = fake;
    fake = fake_open(FAKE_OLD_LIBCUDA);
    assert_non_null(fake);
    fake->driver_version = 11040;
    ptx_device *device = open_device();
    assert_int_equal(ptx_device_get_info(device)->isa, 74);
    ptx_module *module = load_module(device, KERNEL_TEXT);
    ptx_function *fixed = ptx_module_function(module, "fixed");
    struct ptx_launch_params params = { .grid = { 1 }, .programmatic = true };
    assert_int_equal(ptx_launch(fixed, &params), PTX_OK);
    params.cooperative = true;
    assert_int_equal(ptx_launch(fixed, &params), PTX_ERROR_UNSUPPORTED);
    assert_message("a cooperative launch needs cuLaunchKernelEx");
    assert_message("update the driver to 520");
    ptx_module_unload(&module);
    ptx_device_close(&device);
    assert_int_equal(atomic_load(&fake->alive), 0);
    fake = usual;
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

FAKE_TEST(versions_of_the_language)
{
    static const int cases[][2] = { { 10020, 0 },  { 11000, 70 }, { 12040, 84 }, { 12060, 85 },
                                    { 12080, 87 }, { 13000, 90 }, { 13040, 94 }, { 14030, 95 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake->driver_version = cases[i][0];
        OWNED(ptx_device) *device = open_device();
        assert_int_equal(ptx_device_get_info(device)->driver_version, cases[i][0]);
        assert_int_equal(ptx_device_get_info(device)->isa, cases[i][1]);
    }
}

FAKE_TEST(names_of_statuses)
{
    assert_string_equal(ptx_status_name(PTX_OK), "PTX_OK");
    assert_string_equal(ptx_status_name(PTX_ERROR_FORKED), "PTX_ERROR_FORKED");
    for (int status = PTX_OK; status <= PTX_ERROR_NONFINITE; status++)
        assert_memory_equal(ptx_status_name((ptx_status)status), "PTX_", 4);
    assert_string_equal(ptx_status_name((ptx_status)99), "unknown status");
}
