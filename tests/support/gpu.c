// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "gpu.h"
#include "open_device.h"
#include "reference/half.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

struct gpu gpu;

static uint64_t environment_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

void gpu_open(void)
{
    const char *filter = getenv("PTXGEN_TEST_FILTER");
    gpu = (struct gpu) { 0 };
    if (filter)
        cmocka_set_test_filter(filter);
    gpu.device = open_device();
    gpu.stream = ptx_stream_create(gpu.device);
    if (!gpu.stream) {
        fprintf(stderr, "FAILED, no stream: %s\n", ptx_error_message());
        exit(1);
    }
    gpu.seed = environment_number("PTXGEN_TEST_SEED", (uint64_t)time(NULL));
    gpu.variants = environment_number("PTXGEN_TEST_VARIANTS", 1);
    gpu.limit = "PTXGEN_TEST_MAX_SIZE";
    gpu.max_size = environment_number(gpu.limit, UINT64_MAX);
    if (environment_number("PTXGEN_TEST_LARGE", 1) == 0 && gpu.max_size > 1000000) {
        gpu.limit = "PTXGEN_TEST_LARGE";
        gpu.max_size = 1000000;
    }
    const struct ptx_device_info *info = ptx_device_get_info(gpu.device);
    const char *buffers = getenv("PTXGEN_TEST_BUFFERS");
    gpu.own_buffers =
        buffers ? strcmp(buffers, "own") == 0 : strstr(info->name, "emulator") != NULL;
    char name[PTX_TARGET_NAME_SIZE];
    printf("%s, sm_%d, driver %d, %s; kernels for %s; PTXGEN_TEST_SEED=%" PRIu64 "\n", info->name,
           info->sm, info->driver_version, info->library_path, ptx_target_name(gpu_target(), name),
           gpu.seed);
    fflush(stdout);
}

void gpu_open_from(int least_sm)
{
    gpu_open();
    const struct ptx_device_info *info = ptx_device_get_info(gpu.device);
    if (info->sm >= least_sm)
        return;
    fprintf(stderr, "SKIPPED: %s is sm_%d, and sm_%d is wanted\n", info->name, info->sm, least_sm);
    gpu_close();
    exit(EXIT_SKIPPED);
}

void gpu_owns(void *object, void (*destroy)(void *object))
{
    for (size_t k = 0; k < gpu.owns; k++)
        if (gpu.owned[k].object == object) {
            destroy(object);
            return;
        }
    assert_true(gpu.owns < sizeof gpu.owned / sizeof *gpu.owned);
    gpu.owned[gpu.owns].object = object;
    gpu.owned[gpu.owns++].destroy = destroy;
}

void gpu_close(void)
{
    while (gpu.owns) {
        gpu.owns--;
        gpu.owned[gpu.owns].destroy(gpu.owned[gpu.owns].object);
    }
    ptx_buffer_destroy(&gpu.shared);
    ptx_host_free(gpu.device, &gpu.host);
    ptx_stream_destroy(gpu.device, &gpu.stream);
    ptx_device_close(&gpu.device);
}

static void destroy_buffer(void *buffer)
{
    ptx_buffer_destroy(buffer);
}

void gpu_buffer(ptx_buffer **buffer, size_t bytes)
{
    gpu_owns(buffer, destroy_buffer);
    *buffer = ptx_buffer_create(gpu.device, bytes);
    if (!*buffer) {
        fprintf(stderr, "FAILED, no memory: %s\n", ptx_error_message());
        exit(1);
    }
}

int gpu_tests_run(void)
{
    if (!gpu.device)
        gpu_open();
    const int failed = tests_run(NULL, NULL);
    gpu_close();
    return failed;
}

struct random gpu_random(const char *name)
{
    struct random r = { gpu.seed };
    for (; *name; ++name)
        r.state = random_u64(&r) ^ (unsigned char)*name;
    return r;
}

enum ref_type gpu_ref_type(ptx_type dtype)
{
    return dtype == PTX_F64    ? REF_F64
           : dtype == PTX_F16  ? REF_F16
           : dtype == PTX_BF16 ? REF_BF16
                               : REF_F32;
}

float gpu_element(ptx_type type, const void *from, uint64_t i)
{
    const unsigned char *at = (const unsigned char *)from + i * ptx_type_bytes(type);
    uint16_t half;
    float x;

    if (type == PTX_F32)
        return memcpy(&x, at, sizeof x), x;
    memcpy(&half, at, sizeof half);
    return (float)(type == PTX_F16 ? f16_to_f64(half) : bf16_to_f64(half));
}

void gpu_set_element(ptx_type type, void *to, uint64_t i, float x)
{
    unsigned char *at = (unsigned char *)to + i * ptx_type_bytes(type);
    const uint16_t half = type == PTX_F16 ? f16_from_f64((double)x) : bf16_from_f64((double)x);

    memcpy(at, type == PTX_F32 ? (const void *)&x : &half, ptx_type_bytes(type));
}

struct ptx_target gpu_target(void)
{
    const struct ptx_device_info *info = ptx_device_get_info(gpu.device);
    struct ptx_target newest = { .sm = 70 };
    ptx_target_newest(info->sm, info->isa, &newest);
    return newest;
}

void gpu_report_text(const struct gpu_kernel *kernel)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/failed_%s_%ld.ptx", folder && *folder ? folder : "/tmp",
             kernel->name, (long)getpid());
    FILE *file = fopen(path, "w");
    if (file && fputs(kernel->text, file) >= 0 && fclose(file) == 0)
        fprintf(stderr, "  PTX: %s\n", path);
    else
        fprintf(stderr, "  PTX:\n%s\n", kernel->text);
}

static char *build(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                   struct ptx_target target)
{
    OWNED(ptx_builder) *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    ptx_kernel_emit(b, kernel, spec);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s: %s", spec->entry, ptx_builder_error(b));
    char *copy = malloc(strlen(text) + 1);
    assert_non_null(copy);
    strcpy(copy, text);
    return copy;
}

void gpu_kernel_load(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                     struct ptx_target target, struct gpu_kernel *loaded)
{
    memset(loaded, 0, sizeof *loaded);
    loaded->kernel = kernel;
    loaded->target = target;
    loaded->spec = *spec;
    loaded->spec.entry = variant_name(kernel, spec, loaded->name);
    loaded->type = gpu_ref_type(spec->dtype);
    loaded->text = build(kernel, &loaded->spec, target);
    loaded->launched = calloc(1, sizeof *loaded->launched);
    assert_non_null(loaded->launched);
    loaded->module = ptx_module_load(gpu.device, loaded->text, NULL);
    if (!loaded->module) {
        fprintf(stderr, "%s\n", ptx_error_message());
        gpu_report_text(loaded);
        fail_msg("%s: not loaded", loaded->name);
    }
    loaded->function = ptx_module_function(loaded->module, loaded->name);
    if (!loaded->function)
        fail_msg("%s: %s", loaded->name, ptx_error_message());
}

void gpu_kernel_unload(struct gpu_kernel *loaded)
{
    ptx_module_unload(&loaded->module);
    free(loaded->launched);
    free(loaded->text);
    loaded->text = NULL;
    loaded->launched = NULL;
}

bool gpu_kernel_has(const struct gpu_kernel *loaded, const char *option, const char *value)
{
    return variant_is(loaded->kernel, &loaded->spec, option, value);
}

ptx_status gpu_launch(const struct gpu_kernel *loaded, uint64_t n, const struct ptx_arg *args,
                      size_t count)
{
    struct ptx_geometry geometry;
    assert_true(ptx_kernel_geometry(loaded->kernel, loaded->spec.dtype, n, &geometry));
    assert_int_equal(geometry.block, loaded->kernel->block);
    return gpu_launch_grid(loaded, geometry.grid, args, count);
}

ptx_status gpu_launch_grid(const struct gpu_kernel *loaded, unsigned grid,
                           const struct ptx_arg *args, size_t count)
{
    return ptx_launch(loaded->function, &(struct ptx_launch_params) {
                                            .grid = { grid },
                                            .block = { loaded->kernel->block },
                                            .stream = gpu.stream,
                                            .args = args,
                                            .arg_count = count,
                                        });
}

int gpu_load_variants(const ptx_kernel *kernel, ptx_type dtype,
                      struct gpu_kernel loaded[GPU_MOST_VARIANTS])
{
    const struct ptx_target newest = gpu_target(), oldest = { .sm = 70 };
    struct ptx_kernel_spec spec;
    struct variant_pairs pairs = { 0 };
    const bool in_pairs = gpu.variants == 2 && (dtype == PTX_F32 || dtype == PTX_BF16);
    int count = 0, step = 0;
    for (bool more = variant_first(kernel, dtype, &spec); more;
         more = in_pairs            ? variant_next_pair(kernel, &spec, &pairs)
                : gpu.variants == 1 ? variant_next_option(kernel, &spec)
                                    : variant_next_values(kernel, &spec, ++step)) {
        assert_true(count + 2 <= GPU_MOST_VARIANTS);
        gpu_kernel_load(kernel, &spec, newest, &loaded[count++]);
        if ((dtype == PTX_BF16 || kernel == &ptx_kernel_cast_fp8) && newest.sm != oldest.sm)
            gpu_kernel_load(kernel, &spec, oldest, &loaded[count++]);
    }
    return count;
}

int gpu_sizes(struct random *r, uint64_t sizes[GPU_MOST_SIZES])
{
    const uint64_t wanted[GPU_MOST_SIZES] = {
        0,
        1,
        31,
        33,
        255,
        257,
        3080, // only whole vectors: rows of 256 vectors, and a few more
        4095,
        random_below(r, 4096) | 1,
        random_below(r, 40000) | 1,
        65537,
        random_below(r, 300000) | 1,
        1000003,
    };
    int count = 0;
    for (int i = 0; i < GPU_MOST_SIZES; ++i)
        if (wanted[i] <= gpu.max_size)
            sizes[count++] = wanted[i];
    return count;
}
