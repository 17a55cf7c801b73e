// SPDX-License-Identifier: MIT
#include "operations.h"
#include "owned.h"

static ptx_status made(struct scene *scene, bool made_it)
{
    scene->calls_when_made = calls_so_far();
    return made_it ? PTX_OK : ptx_error_status();
}

static ptx_status open_and_close(struct scene *scene)
{
    OWNED(ptx_device) *device = ptx_device_open(NULL);
    ptx_status status = made(scene, device);
    return status;
}

static ptx_status open_given(struct scene *scene)
{
    struct ptx_device_params params = { .context = ptx_device_context(scene->device) };
    OWNED(ptx_device) *device = ptx_device_open(&params);
    ptx_status status = made(scene, device);
    return status;
}

static ptx_status count(struct scene *scene)
{
    (void)scene;
    int devices = 0;
    ptx_status status = ptx_device_count(&devices);
    assert_int_equal(devices, status ? 0 : 1);
    return status;
}

static ptx_status memory_info(struct scene *scene)
{
    size_t available = 0;
    return ptx_device_memory(scene->device, &available, NULL);
}

static ptx_status buffer(struct scene *scene)
{
    OWNED(ptx_buffer) *made_buffer = ptx_buffer_create(scene->device, 32);
    ptx_status status = made(scene, made_buffer);
    return status;
}

static ptx_status pinned(struct scene *scene)
{
    void *memory = ptx_host_alloc(scene->device, 32);
    ptx_status status = made(scene, memory);
    ptx_host_free(scene->device, &memory);
    return status;
}

static ptx_status upload(struct scene *scene)
{
    return ptx_buffer_upload(scene->buffer, 0, "abc", 4, scene->stream);
}

static ptx_status download(struct scene *scene)
{
    char bytes[4];
    return ptx_buffer_download(scene->buffer, 0, bytes, 4, scene->stream);
}

static ptx_status copy(struct scene *scene)
{
    return ptx_buffer_copy(scene->buffer, 0, scene->buffer, 4, 4, scene->stream);
}

static ptx_status fill(struct scene *scene)
{
    return ptx_buffer_fill(scene->buffer, 0, 1, 4, scene->stream);
}

static ptx_status stream(struct scene *scene)
{
    CUstream made_stream = ptx_stream_create(scene->device);
    ptx_status status = made(scene, made_stream);
    ptx_stream_destroy(scene->device, &made_stream);
    return status;
}

static ptx_status synchronize(struct scene *scene)
{
    return ptx_stream_synchronize(scene->device, scene->stream);
}

static ptx_status ask_capturing(struct scene *scene)
{
    bool capturing = false;
    return ptx_stream_is_capturing(scene->device, scene->stream, &capturing);
}

static ptx_status event(struct scene *scene)
{
    CUevent made_event = ptx_event_create(scene->device);
    ptx_status status = made(scene, made_event);
    ptx_event_destroy(scene->device, &made_event);
    return status;
}

static ptx_status record(struct scene *scene)
{
    return ptx_event_record(scene->device, scene->event, scene->stream);
}

static ptx_status wait_event(struct scene *scene)
{
    return ptx_stream_wait_event(scene->device, scene->stream, scene->event);
}

static ptx_status wait_for_event(struct scene *scene)
{
    return ptx_event_synchronize(scene->device, scene->event);
}

static ptx_status elapsed(struct scene *scene)
{
    float milliseconds = 0;
    return ptx_event_elapsed(scene->device, scene->event, scene->event, &milliseconds);
}

static ptx_status module(struct scene *scene)
{
    OWNED(ptx_module) *made_module = ptx_module_load(scene->device, KERNEL_TEXT, NULL);
    ptx_status status = made(scene, made_module);
    return status;
}

static ptx_status global(struct scene *scene)
{
    CUdeviceptr address = 0;
    ptx_status status = ptx_module_global(scene->module, "counter", &address, NULL);
    assert_int_equal(address == 0, status != PTX_OK);
    return status;
}

static ptx_status occupancy(struct scene *scene)
{
    int blocks = 0;
    return ptx_function_occupancy(ptx_module_function(scene->module, "fixed"), 64, 0, &blocks);
}

static ptx_status launch(struct scene *scene)
{
    return ptx_launch(ptx_module_function(scene->module, "fixed"),
                      &(struct ptx_launch_params) { .grid = { 1 }, .stream = scene->stream });
}

static ptx_status cooperative_launch(struct scene *scene)
{
    return ptx_launch(ptx_module_function(scene->module, "fixed"),
                      &(struct ptx_launch_params) { .grid = { 1 }, .cooperative = true });
}

static ptx_status capture(struct scene *scene)
{
    ptx_status status = ptx_capture_begin(scene->device, scene->captured, PTX_CAPTURE_GLOBAL);
    if (!status)
        status =
            ptx_launch(ptx_module_function(scene->module, "fixed"),
                       &(struct ptx_launch_params) { .grid = { 1 }, .stream = scene->captured });
    if (status) {
        ptx_capture_abandon(scene->device, scene->captured);
        return status;
    }
    OWNED(ptx_graph) *graph = ptx_capture_end(scene->device, scene->captured);
    status = made(scene, graph);
    return status;
}

static ptx_status abandon(struct scene *scene)
{
    ptx_status status = ptx_capture_begin(scene->device, scene->captured, PTX_CAPTURE_GLOBAL);
    made(scene, !status);
    if (!status)
        ptx_capture_abandon(scene->device, scene->captured);
    return status;
}

static ptx_status graph_launch(struct scene *scene)
{
    return ptx_graph_launch(scene->graph, scene->stream);
}

static ptx_status address_range(struct scene *scene)
{
    CUdeviceptr base = 0;
    ptx_status status =
        ptx_address_range(scene->device, ptx_buffer_address(scene->buffer), &base, NULL);
    assert_int_equal(base == 0, status != PTX_OK);
    return status;
}

const struct operation operations[] = {
    { "open_and_close", open_and_close },
    { "open_given", open_given },
    { "count", count },
    { "memory_info", memory_info },
    { "buffer", buffer },
    { "pinned", pinned },
    { "upload", upload },
    { "download", download },
    { "copy", copy },
    { "fill", fill },
    { "stream", stream },
    { "synchronize", synchronize },
    { "ask_capturing", ask_capturing },
    { "event", event },
    { "record", record },
    { "wait_event", wait_event },
    { "wait_for_event", wait_for_event },
    { "elapsed", elapsed },
    { "module", module },
    { "global", global },
    { "occupancy", occupancy },
    { "launch", launch },
    { "cooperative_launch", cooperative_launch },
    { "capture", capture },
    { "abandon", abandon },
    { "graph_launch", graph_launch },
    { "address_range", address_range },
};

const size_t operation_count = sizeof(operations) / sizeof(operations[0]);

struct scene scene_create(void)
{
    struct scene scene = { .device = open_device() };
    scene.buffer = ptx_buffer_create(scene.device, 32);
    scene.module = load_module(scene.device, KERNEL_TEXT);
    scene.stream = ptx_stream_create(scene.device);
    scene.event = ptx_event_create(scene.device);
    assert_int_equal(ptx_event_record(scene.device, scene.event, scene.stream), PTX_OK);
    scene.captured = ptx_stream_create(scene.device);
    assert_int_equal(ptx_capture_begin(scene.device, scene.captured, PTX_CAPTURE_GLOBAL), PTX_OK);
    scene.graph = ptx_capture_end(scene.device, scene.captured);
    assert_non_null(scene.graph);
    return scene;
}

void scene_destroy(struct scene *scene)
{
    ptx_graph_destroy(&scene->graph);
    ptx_stream_destroy(scene->device, &scene->captured);
    ptx_event_destroy(scene->device, &scene->event);
    ptx_stream_destroy(scene->device, &scene->stream);
    ptx_module_unload(&scene->module);
    ptx_buffer_destroy(&scene->buffer);
    ptx_device_close(&scene->device);
}
