// SPDX-License-Identifier: MIT
// A host program that takes a ready kernel: ask for its text, load it once, launch it on a stream.
#include <ptxgen/ptxgen.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100003, EXIT_SKIPPED = 77 };

// The pages show the lines between here and the end mark.
static const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };

static ptx_module *prepare(ptx_device *gpu) // once: writes the text and compiles it
{
    ptx_builder *b = ptx_builder_create(NULL);
    ptx_kernel_emit(b, ptx_kernel_find("squared_sum"), &spec);
    const char *text = ptx_builder_finish(b); // NULL: ptx_builder_error(b) says why
    ptx_module *module = ptx_module_load(gpu, text, NULL);
    ptx_builder_destroy(&b);
    return module; // NULL: ptx_error_message() says why
}

static ptx_status sum_of_squares(ptx_module *module, CUdeviceptr x, uint64_t n,
                                 CUdeviceptr partials, CUstream stream) // every step: no waiting
{
    struct ptx_geometry shape = { 0 };
    ptx_kernel_geometry(ptx_kernel_find("squared_sum"), spec.dtype, n, &shape);
    const struct ptx_arg args[] = { PTX_ARG(x), PTX_ARG(n), PTX_ARG(partials) };
    return ptx_launch(ptx_module_function(module, "squared_sum_f32"),
                      &(struct ptx_launch_params) {
                          .grid = { shape.grid }, .stream = stream, .args = args, .arg_count = 3 });
}
// End of what the pages show.

static int failed(void)
{
    const ptx_status status = ptx_error_status();
    if (status == PTX_ERROR_NO_DRIVER || status == PTX_ERROR_NO_DEVICE) {
        fprintf(stderr, "embed: no GPU, not run; PTXGEN_LIBCUDA may name the emulator\n");
        return EXIT_SKIPPED;
    }
    fprintf(stderr, "embed: %s\n", ptx_error_message());
    return 1;
}

static bool sum_on_gpu(ptx_device *gpu, const float *x, double *partials, size_t bytes)
{
    ptx_module *module = prepare(gpu);
    CUstream stream = ptx_stream_create(gpu);
    ptx_buffer *from = ptx_buffer_create(gpu, N * sizeof *x);
    ptx_buffer *to = ptx_buffer_create(gpu, bytes);
    bool done = module && stream && from && to &&
                ptx_buffer_upload(from, 0, x, N * sizeof *x, stream) == PTX_OK &&
                sum_of_squares(module, ptx_buffer_address(from), N, ptx_buffer_address(to),
                               stream) == PTX_OK &&
                ptx_buffer_download(to, 0, partials, bytes, stream) == PTX_OK &&
                ptx_stream_synchronize(gpu, stream) == PTX_OK;
    ptx_buffer_destroy(&to);
    ptx_buffer_destroy(&from);
    ptx_stream_destroy(gpu, &stream);
    ptx_module_unload(&module);
    return done;
}

static int emit(void)
{
    ptx_builder *b = ptx_builder_create(NULL);
    ptx_kernel_emit(b, ptx_kernel_find("squared_sum"), &spec);
    const char *text = ptx_builder_finish(b);
    const bool printed = text && fputs(text, stdout) >= 0;
    ptx_builder_destroy(&b);
    return printed ? 0 : 1;
}

int main(int argc, char **argv)
{
    static float x[N];
    struct ptx_geometry shape = { 0 };
    double sum = 0, expected = 0;

    if (argc == 2 && strcmp(argv[1], "--emit") == 0)
        return emit();
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 1000) * 0x1p-8f;
        expected += (double)x[i] * x[i];
    }
    ptx_device *gpu = ptx_device_open(NULL);
    if (!gpu)
        return failed();
    ptx_kernel_geometry(ptx_kernel_find("squared_sum"), spec.dtype, N, &shape);
    double *partials = calloc(shape.grid, sizeof *partials); // one a block
    const bool done = partials && sum_on_gpu(gpu, x, partials, shape.grid * sizeof *partials);
    ptx_device_close(&gpu);
    for (uint32_t k = 0; k < shape.grid && done; k++)
        sum += partials[k];
    free(partials);
    if (!done)
        return failed();
    const bool right = fabs(sum - expected) <= 1e-12 * expected;
    printf("squared_sum: norm %.9g: %s\n", sqrt(sum), right ? "OK" : "wrong");
    return right ? 0 : 1;
}
