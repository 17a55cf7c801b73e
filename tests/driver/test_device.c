// SPDX-License-Identifier: MIT
/// Devices: the choice of the context, the facts of the GPU, fork.
#include "driver_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

FAKE_TEST(primary_context_by_default)
{
    OWNED(ptx_device) *device = open_device();
    assert_int_equal(atomic_load(&fake->alive), 1);
    assert_int_equal(fake->context_depth(), 0);
    assert_non_null(ptx_device_context(device));
    assert_int_equal(ptx_device_get_info(device)->ordinal, 0);
    OWNED(ptx_device) *second = ptx_device_open(&(struct ptx_device_params) { .ordinal = 1 });
    assert_string_equal(ptx_device_get_info(second)->name, "Fake GPU 1");
    assert_ptr_not_equal(ptx_device_context(device), ptx_device_context(second));
    ptx_device_close(&device);
    ptx_device_close(NULL);
}

FAKE_TEST(current_context_is_adopted)
{
    CUcontext current = fake->context_create(1);
    ptx_device *device = open_device();
    assert_ptr_equal(ptx_device_context(device), current);
    assert_int_equal(ptx_device_get_info(device)->ordinal, 1);
    assert_int_equal(atomic_load(&fake->alive), 0);
    assert_int_equal(fake->context_depth(), 1);
    ptx_device_close(&device);

    device = ptx_device_open(&(struct ptx_device_params) { .ordinal = 1 });
    assert_ptr_equal(ptx_device_context(device), current);
    ptx_device_close(&device);
    fake->context_pop();
    free(current);
}

FAKE_TEST(current_context_is_left_alone)
{
    CUcontext current = fake->context_create(0);
    ptx_device *device = ptx_device_open(&(struct ptx_device_params) { .primary = true });
    assert_ptr_not_equal(ptx_device_context(device), current);
    assert_int_equal(ptx_device_get_info(device)->ordinal, 0);
    ptx_device_close(&device);

    device = ptx_device_open(&(struct ptx_device_params) { .ordinal = 1 });
    assert_ptr_not_equal(ptx_device_context(device), current);
    assert_int_equal(ptx_device_get_info(device)->ordinal, 1);

    ptx_buffer *buffer = ptx_buffer_create(device, 16);
    assert_non_null(buffer);
    assert_int_equal(fake->context_depth(), 1);
    ptx_buffer_destroy(&buffer);
    ptx_device_close(&device);
    fake->context_pop();
    free(current);
}

FAKE_TEST(given_context)
{
    CUcontext given = fake->context_create(1);
    fake->context_pop();
    OWNED(ptx_device) *device = ptx_device_open(&(struct ptx_device_params) { .context = given });
    assert_non_null(device);
    assert_ptr_equal(ptx_device_context(device), given);
    assert_int_equal(ptx_device_get_info(device)->ordinal, 1);
    assert_int_equal(fake->context_depth(), 0);
    free(given);
}

FAKE_TEST(no_such_device)
{
    assert_null(ptx_device_open(&(struct ptx_device_params) { .ordinal = 2 }));
    assert_error(PTX_ERROR_NO_DEVICE, "there is no GPU 2: the driver sees 2");
    assert_null(ptx_device_open(&(struct ptx_device_params) { .ordinal = -1 }));
    assert_error(PTX_ERROR_NO_DEVICE, "there is no GPU -1");
    fake->device_count = 0;
    assert_null(ptx_device_open(NULL));
    assert_error(PTX_ERROR_NO_DEVICE, "the driver sees no GPU");
    int count = 5;
    assert_int_equal(ptx_device_count(&count), PTX_ERROR_NO_DEVICE);
    assert_int_equal(count, 0);
}

FAKE_TEST(counting)
{
    int count = 0;
    assert_int_equal(ptx_device_count(&count), PTX_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ptx_device_count(NULL), PTX_ERROR_INVALID);
}

FAKE_TEST(facts)
{
    OWNED(ptx_device) *device = open_device();
    const struct ptx_device_info *info = ptx_device_get_info(device);
    assert_int_equal(info->driver_version, 12040);
    assert_int_equal(info->isa, 84);
    assert_int_equal(info->sm, 90);
    assert_string_equal(info->name, "Fake GPU 0");
    assert_int_equal(info->memory, 1 << 30);
    assert_int_equal(info->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    assert_int_equal(info->warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    assert_int_equal(info->l2_cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    assert_int_equal(info->max_grid[0], 2147483647);
    assert_int_equal(info->max_grid[2], 65535);
    assert_int_equal(info->max_block[1], 1024);
    assert_int_equal(info->max_block[2], 64);
    assert_int_equal(info->shared_per_block, 49152);
    assert_int_equal(info->shared_per_block_optin, 232448);
    assert_int_equal(info->memory_bus_width, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    size_t available = 0;
    size_t total = 0;
    assert_int_equal(ptx_device_memory(device, &available, &total), PTX_OK);
    assert_int_equal(available, 1000);
    assert_int_equal(total, 2000);
    assert_int_equal(ptx_device_memory(device, NULL, NULL), PTX_OK);
    assert_int_equal(ptx_device_memory(NULL, NULL, NULL), PTX_ERROR_INVALID);
    assert_null(ptx_device_get_info(NULL));
    assert_null(ptx_device_context(NULL));
}

/// The newest PTX ISA of each driver, from NVIDIA's release notes. A driver between two of these
/// has the ISA of the older one.
FAKE_TEST(newest_isa)
{
    static const struct {
        int driver, isa;
    } known[] = { { 11000, 70 }, { 11010, 71 }, { 11020, 72 }, { 11030, 73 }, { 11040, 74 },
                  { 11050, 75 }, { 11060, 76 }, { 11070, 77 }, { 11080, 78 }, { 12000, 80 },
                  { 12010, 81 }, { 12020, 82 }, { 12030, 83 }, { 12040, 84 }, { 12050, 85 },
                  { 12060, 85 }, { 12070, 86 }, { 12080, 87 }, { 12090, 88 }, { 13000, 90 },
                  { 13010, 91 }, { 13020, 92 }, { 13030, 93 }, { 13040, 94 }, { 13050, 95 } };
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k)
        for (int before = k > 0; before >= 0; --before) {
            fake->driver_version = known[k].driver - before;
            OWNED(ptx_device) *device = open_device();
            assert_int_equal(ptx_device_get_info(device)->isa, known[k - (size_t)before].isa);
        }
}

FAKE_TEST(objects_keep_the_device)
{
    ptx_device *device = open_device();
    ptx_buffer *buffer = ptx_buffer_create(device, 4);
    ptx_module *module = load_module(device, KERNEL_TEXT);
    ptx_device_close(&device);
    assert_int_equal(ptx_buffer_fill(buffer, 0, 1, 4, NULL), PTX_OK);
    ptx_buffer_destroy(&buffer);
    assert_int_equal(atomic_load(&fake->alive), 2);
    ptx_module_unload(&module);
    assert_int_equal(atomic_load(&fake->alive), 0);
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        (void)!(call);                                                                             \
        if (ptx_error_status() != PTX_ERROR_FORKED)                                                \
            _exit(__LINE__ % 255 + 1);                                                             \
        ptx_launch(NULL, NULL);                                                                    \
    } while (0)

static void child(ptx_device *device, ptx_buffer *buffer, ptx_module *module,
                  ptx_function *function, ptx_graph *graph)
{
    int calls = atomic_load(&fake->calls);
    char byte = 0;
    CUdeviceptr address = 0;
    int blocks = 0;
    bool capturing = false;
    REFUSED(ptx_buffer_create(device, 4));
    REFUSED(ptx_buffer_create(device, 0));
    ptx_buffer_create(device, 4);
    if (!strstr(ptx_error_message(), "start the child before CUDA is opened, or with exec"))
        _exit(254);
    REFUSED(ptx_buffer_upload(buffer, 0, &byte, 1, NULL));
    REFUSED(ptx_buffer_download(buffer, 0, &byte, 1, NULL));
    REFUSED(ptx_buffer_fill(buffer, 0, 0, 0, NULL));
    REFUSED(ptx_host_alloc(device, 4));
    REFUSED(ptx_stream_create(device));
    REFUSED(ptx_stream_synchronize(device, NULL));
    REFUSED(ptx_stream_is_capturing(device, NULL, &capturing));
    REFUSED(ptx_event_create(device));
    REFUSED(ptx_module_load(device, KERNEL_TEXT, NULL));
    REFUSED(ptx_module_function(module, "scale"));
    REFUSED(ptx_module_global(module, "counter", &address, NULL));
    REFUSED(ptx_function_occupancy(function, 32, 0, &blocks));
    REFUSED(ptx_launch(function, &(struct ptx_launch_params) { .grid = { 1 } }));
    REFUSED(ptx_device_memory(device, NULL, NULL));
    REFUSED(ptx_address_range(device, 4096, NULL, NULL));
    REFUSED(ptx_capture_begin(device, (CUstream)2, PTX_CAPTURE_GLOBAL));
    REFUSED(ptx_capture_end(device, (CUstream)2));
    REFUSED(ptx_graph_launch(graph, NULL));
    ptx_capture_abandon(device, (CUstream)2);
    ptx_graph_destroy(&graph);
    ptx_buffer_destroy(&buffer);
    ptx_module_unload(&module);
    ptx_device_close(&device);
    _exit(atomic_load(&fake->calls) == calls ? 0 : 255);
}

FAKE_TEST(use_after_fork_is_refused)
{
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(device, 4);
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    ptx_function *function = ptx_module_function(module, "fixed");
    CUstream stream = ptx_stream_create(device);
    assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_GLOBAL), PTX_OK);
    OWNED(ptx_graph) *graph = ptx_capture_end(device, stream);
    assert_non_null(graph);
    pid_t process = fork();
    if (process == 0)
        child(device, buffer, module, function, graph);
    int ended = 0;
    assert_int_equal(waitpid(process, &ended, 0), process);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    assert_int_equal(ptx_buffer_fill(buffer, 0, 1, 4, NULL), PTX_OK);
    ptx_stream_destroy(device, &stream);
}
