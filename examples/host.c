// SPDX-License-Identifier: MIT
#include "host.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BUFFERS = 8, EXIT_SKIPPED = 77 };

struct host {
    ptx_device *gpu;
    ptx_module *module;
    ptx_function *function;
    ptx_buffer *buffers[MAX_BUFFERS];
    size_t count;
    bool failed;
};

static void check(struct host *host, bool ok)
{
    if (!ok && !host->failed)
        fprintf(stderr, "%s\n", ptx_error_message());
    host->failed |= !ok;
}

static ptx_buffer *new_buffer(struct host *host, size_t bytes)
{
    if (host->failed || host->count == MAX_BUFFERS)
        return NULL;
    ptx_buffer *buffer = ptx_buffer_create(host->gpu, bytes);
    check(host, buffer);
    return host->buffers[host->count++] = buffer;
}

CUdeviceptr host_upload(struct host *host, const void *data, size_t bytes)
{
    ptx_buffer *buffer = new_buffer(host, bytes);
    if (buffer)
        check(host, ptx_buffer_upload(buffer, 0, data, bytes, NULL) == PTX_OK);
    return ptx_buffer_address(buffer);
}

CUdeviceptr host_zeros(struct host *host, size_t bytes)
{
    ptx_buffer *buffer = new_buffer(host, bytes);
    if (buffer)
        check(host, ptx_buffer_fill(buffer, 0, 0, bytes, NULL) == PTX_OK);
    return ptx_buffer_address(buffer);
}

void host_launch(struct host *host, unsigned blocks, const struct ptx_arg *args, size_t count)
{
    const struct ptx_launch_params params = { .grid = { blocks },
                                              .args = args,
                                              .arg_count = count };
    if (!host->failed)
        check(host, ptx_launch(host->function, &params) == PTX_OK);
}

bool host_download(struct host *host, CUdeviceptr from, void *data, size_t bytes)
{
    for (size_t k = 0; !host->failed && k < host->count; k++) {
        if (ptx_buffer_address(host->buffers[k]) != from)
            continue;
        check(host, ptx_buffer_download(host->buffers[k], 0, data, bytes, NULL) == PTX_OK);
        if (!host->failed)
            check(host, ptx_stream_synchronize(host->gpu, NULL) == PTX_OK);
        return !host->failed;
    }
    return false;
}

static int run(const char *text)
{
    struct host host = { 0 };
    bool right = false;

    host.gpu = ptx_device_open(NULL);
    if (!host.gpu) {
        const ptx_status status = ptx_error_status();
        const bool none = status == PTX_ERROR_NO_DRIVER || status == PTX_ERROR_NO_DEVICE;
        if (none)
            fprintf(stderr, "%s: no GPU, not run; PTXGEN_LIBCUDA may name the emulator\n",
                    example.entry);
        else
            fprintf(stderr, "%s\n", ptx_error_message());
        return none ? EXIT_SKIPPED : 1;
    }
    host.module = ptx_module_load(host.gpu, text, NULL);
    check(&host, host.module);
    if (!host.failed) {
        host.function = ptx_module_function(host.module, example.entry);
        check(&host, host.function);
    }
    if (!host.failed)
        right = example.run(&host) && !host.failed;
    if (!host.failed)
        printf("%s on %s: %s\n", example.entry, ptx_device_get_info(host.gpu)->name,
               right ? "OK" : "wrong");
    while (host.count > 0)
        ptx_buffer_destroy(&host.buffers[--host.count]);
    ptx_module_unload(&host.module);
    ptx_device_close(&host.gpu);
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    ptx_builder *b = ptx_builder_create(NULL);
    int status = 1;

    example.build(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fprintf(stderr, "%s\n", b ? ptx_builder_error(b) : "out of memory");
    else if (argc == 2 && strcmp(argv[1], "--emit") == 0)
        status = fputs(text, stdout) < 0;
    else if (argc == 1)
        status = run(text);
    else
        fprintf(stderr, "usage: %s [--emit]\n", argv[0]);
    ptx_builder_destroy(&b);
    return status;
}
