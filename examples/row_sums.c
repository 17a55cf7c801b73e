// SPDX-License-Identifier: MIT
// The program of docs/debugging.md: a kernel that adds up rows, with the fault that the command
// line names.
#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 1000, EXIT_SKIPPED = 77 };

static const char *fault = "none"; // or types, text, ahead, far, store, print, assert

static bool is(const char *word)
{
    return strcmp(fault, word) == 0;
}

static ptx_val row_load(ptx_builder *b, ptx_ptr x, ptx_val row, ptx_val column)
{
    return ptx_load(b, x, ptx_mad(b, row, COLUMNS, column));
}

static void row_sums(ptx_builder *b)
{
    ptx_entry (b, "row_sums", .block = { ROWS }) {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_ptr x = ptx_param_ptr(b, PTX_F32, "x", .readonly = true);
        ptx_ptr y = ptx_param_ptr(b, PTX_F32, "y", .writeonly = true);
        ptx_val row = ptx_global_index(b, PTX_X), sum = ptx_var(b, ptx_f32(0)), next = { 0 };
        ptx_for (b, k, ptx_u32(0), n, 1) {
            ptx_val column = ptx_add(b, k, is("far") ? 100000 : is("ahead") || is("assert"));
            if (is("assert"))
                ptx_assert(b, ptx_lt(b, column, n), "inside x", .file = __FILE__, .line = __LINE__);
            ptx_inlined (b, "row_load")
                next = row_load(b, x, row, is("types") ? sum : column);
            if (is("text"))
                next = ptx_asm(b, "frobnicate.f32 %0, %1;", .result = { PTX_F32 }, .in = { next });
            ptx_set(b, sum, ptx_add(b, sum, next));
        }
        if (is("print"))
            ptx_if (b, ptx_lt(b, row, 2))
                ptx_printf(b, "row %u: %g\n", row, sum);
        ptx_store(b, y, is("store") ? ptx_add(b, row, 100000) : row, is("types") ? n : sum);
    }
}

static int failed(const char *what)
{
    fprintf(stderr, "row_sums: %s\n", what);
    return 1;
}

// Each row is 0, 1, 2, ... 999.
static int run(ptx_device *gpu, ptx_function *function)
{
    static float x[ROWS][COLUMNS], y[ROWS];
    const uint32_t n = COLUMNS;
    bool right = true;

    for (unsigned k = 0; k < ROWS * COLUMNS; k++)
        x[k / COLUMNS][k % COLUMNS] = (float)(k % COLUMNS);
    ptx_buffer *from = ptx_buffer_create(gpu, sizeof x);
    ptx_buffer *to = from ? ptx_buffer_create(gpu, sizeof y) : NULL;
    const CUdeviceptr at[] = { ptx_buffer_address(from), ptx_buffer_address(to) };
    const struct ptx_arg args[] = { PTX_ARG(n), PTX_ARG(at[0]), PTX_ARG(at[1]) };
    const struct ptx_launch_params launch = { .grid = { 1 }, .args = args, .arg_count = 3 };
    const bool done = to && ptx_buffer_upload(from, 0, x, sizeof x, NULL) == PTX_OK &&
                      ptx_launch(function, &launch) == PTX_OK &&
                      ptx_buffer_download(to, 0, y, sizeof y, NULL) == PTX_OK &&
                      ptx_stream_synchronize(gpu, NULL) == PTX_OK;
    if (!done)
        failed(ptx_error_message());
    for (unsigned row = 0; row < ROWS; row++)
        right &= y[row] == COLUMNS * (COLUMNS - 1) / 2;
    ptx_buffer_destroy(&to);
    ptx_buffer_destroy(&from);
    return !done ? 1 : right ? puts("row_sums: right") < 0 : failed("wrong");
}

static int load_and_run(const char *text)
{
    ptx_device *gpu = ptx_device_open(NULL);
    ptx_module *module = gpu ? ptx_module_load(gpu, text, NULL) : NULL;
    ptx_function *function = module ? ptx_module_function(module, "row_sums") : NULL;
    const ptx_status error = ptx_error_status();
    int status = function ? run(gpu, function) : failed(ptx_error_message());

    if (!gpu && (error == PTX_ERROR_NO_DRIVER || error == PTX_ERROR_NO_DEVICE))
        status = EXIT_SKIPPED;
    ptx_module_unload(&module);
    ptx_device_close(&gpu);
    return status;
}

// row_sums [--emit] [FAULT [FOLDER]]
int main(int argc, char **argv)
{
    const int emit = argc > 1 && strcmp(argv[1], "--emit") == 0;
    const char *folder = argc > emit + 2 ? argv[emit + 2] : NULL;
    int status = 1;

    fault = argc > emit + 1 ? argv[emit + 1] : fault;
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) {
        .line_info = true, .source_folder = folder, .all_errors = true });
    row_sums(b);
    const char *text = ptx_builder_finish(b);
    for (unsigned k = 0; !text && ptx_builder_error_at(b, k); k++)
        fprintf(stderr, "%s\n", ptx_builder_error_at(b, k));
    if (text)
        status = emit ? fputs(text, stdout) < 0 : load_and_run(text);
    ptx_builder_destroy(&b);
    return status;
}
