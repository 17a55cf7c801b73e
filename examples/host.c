// SPDX-License-Identifier: MIT
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUFFERS = 32, EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

struct host {
    ptx_device *gpu;
    ptx_module *module;
    ptx_buffer *buffers[MAX_BUFFERS];
    void *arrays[MAX_BUFFERS];
    size_t buffer_count, array_count;
    bool failed;
};

static void check(struct host *host, bool ok)
{
    if (!ok && !host->failed)
        fprintf(stderr, "%s: %s\n", example.name, ptx_error_message());
    host->failed |= !ok;
}

void *host_alloc(struct host *host, size_t count, size_t bytes)
{
    void *array = NULL;

    if (!host->failed && host->array_count < MAX_BUFFERS)
        array = calloc(count ? count : 1, bytes);
    if (array)
        return host->arrays[host->array_count++] = array;
    if (!host->failed)
        fprintf(stderr, "%s: out of memory\n", example.name);
    host->failed = true;
    return NULL;
}

float *host_random_array(struct host *host, size_t n, float low, float high)
{
    float *x = (float *)host_alloc(host, n, sizeof *x);
    if (x)
        host_random_floats(x, n, low, high);
    return x;
}

static ptx_buffer *new_buffer(struct host *host, size_t bytes)
{
    if (host->failed || host->buffer_count == MAX_BUFFERS)
        return NULL;
    ptx_buffer *buffer = ptx_buffer_create(host->gpu, bytes);
    check(host, buffer);
    return host->buffers[host->buffer_count++] = buffer;
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

// To nearest even; x is finite.
static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

CUdeviceptr host_upload_floats(struct host *host, ptx_type type, float *x, size_t n)
{
    if (type == PTX_F32 || host->failed)
        return host_upload(host, x, n * sizeof *x);
    uint16_t *bf16 = (uint16_t *)host_alloc(host, n, sizeof *bf16);
    for (size_t i = 0; bf16 && i < n; i++) {
        bf16[i] = to_bf16(x[i]);
        x[i] = from_bf16(bf16[i]);
    }
    return host_upload(host, bf16, n * sizeof *bf16);
}

bool host_download_floats(struct host *host, ptx_type type, CUdeviceptr from, float *x, size_t n)
{
    if (type == PTX_F32)
        return host_download(host, from, x, n * sizeof *x);
    uint16_t *bf16 = (uint16_t *)host_alloc(host, n, sizeof *bf16);
    if (!bf16 || !host_download(host, from, bf16, n * sizeof *bf16))
        return false;
    for (size_t i = 0; i < n; i++)
        x[i] = from_bf16(bf16[i]);
    return true;
}

void host_launch(struct host *host, const char *entry, const struct ptx_launch_params *params)
{
    if (host->failed)
        return;
    ptx_function *function = ptx_module_function(host->module, entry);
    check(host, function && ptx_launch(function, params) == PTX_OK);
}

bool host_download(struct host *host, CUdeviceptr from, void *data, size_t bytes)
{
    for (size_t k = 0; !host->failed && k < host->buffer_count; k++) {
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
                    example.name);
        else
            fprintf(stderr, "%s: %s\n", example.name, ptx_error_message());
        return none ? EXIT_SKIPPED : 1;
    }
    host.module = ptx_module_load(host.gpu, text, NULL);
    check(&host, host.module);
    if (!host.failed)
        right = example.run(&host) && !host.failed;
    if (!host.failed)
        printf("%s on %s: %s\n", example.name, ptx_device_get_info(host.gpu)->name,
               right ? "OK" : "wrong");
    while (host.buffer_count > 0)
        ptx_buffer_destroy(&host.buffers[--host.buffer_count]);
    while (host.array_count > 0)
        free(host.arrays[--host.array_count]);
    ptx_module_unload(&host.module);
    ptx_device_close(&host.gpu);
    return right ? 0 : 1;
}

static int usage(void)
{
    fprintf(stderr, "usage: %s [--emit]%s", example.name,
            example.type != PTX_NONE ? " [f32|bf16]" : "");
    for (unsigned k = 0; example.size_names[k]; k++)
        fprintf(stderr, " [%s", example.size_names[k]);
    for (unsigned k = 0; example.size_names[k]; k++)
        fputc(']', stderr);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

// Takes an argument into the example; `size` counts the sizes so far.
static bool take(const char *argument, unsigned *size)
{
    const ptx_type type = ptx_type_parse(argument);

    if (example.type != PTX_NONE && (type == PTX_F32 || type == PTX_BF16)) {
        example.type = type;
        return true;
    }
    char *end = NULL;
    const unsigned long value = strtoul(argument, &end, 10);
    if (!example.size_names[*size] || *argument < '1' || *argument > '9' || *end || value > 1 << 24)
        return false;
    example.sizes[(*size)++] = (uint32_t)value;
    return true;
}

int main(int argc, char **argv)
{
    const bool emit = argc > 1 && strcmp(argv[1], "--emit") == 0;
    unsigned size = 0;

    for (int k = emit ? 2 : 1; k < argc; k++)
        if (!take(argv[k], &size))
            return usage();
    ptx_builder *b = ptx_builder_create(NULL);
    int status = 1;
    example.build(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fprintf(stderr, "%s: %s\n", example.name, b ? ptx_builder_error(b) : "out of memory");
    else
        status = emit ? fputs(text, stdout) < 0 : run(text);
    ptx_builder_destroy(&b);
    return status;
}
