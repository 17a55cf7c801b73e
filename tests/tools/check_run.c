// SPDX-License-Identifier: MIT
// Runs `ptxgen run` from file to file. Writes a safetensors file for each kernel, an eighth of a
// layer of GPT-2 small, runs the command, and compares every bit of its output file with the
// reference.
//
//     check_run PTXGEN FOLDER DEVICE
//
// DEVICE is for the command's --device. The files of a run that fails stay in a new folder within
// FOLDER. Ends with 77 if there is no such device.
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "data.h"
#include "own_folder.h"
#include "reference/fp8.h"
#include "reference/learned.h"
#include "reference/observer.h"
#include "safetensors.h"

enum { EXIT_SKIPPED = 77, ROWS = 96, COLUMNS = 3072, PATH_SIZE = 512, MOST_TENSORS = 4 };
enum { ELEMENTS = ROWS * COLUMNS };

/// A named tensor with its own memory.
struct array {
    const char *name;
    enum ref_type type;
    uint64_t shape[2];
    size_t rank;
    void *data;
};

/// One run: the inputs and the expected outputs.
struct job {
    const char *kernel;
    const char *sets; ///< arguments of the command
    enum ref_type type;
    struct array input[MOST_TENSORS], output[MOST_TENSORS];
    size_t inputs, outputs;
};

static const ptx_type tensor_types[] = { [REF_F32] = PTX_F32,
                                         [REF_F64] = PTX_F64,
                                         [REF_F16] = PTX_F16,
                                         [REF_BF16] = PTX_BF16,
                                         [REF_U8] = PTX_U8 };

static uint64_t count_of(const struct array *array)
{
    return array->rank == 2 ? array->shape[0] * array->shape[1] : array->shape[0];
}

static struct array *add(struct array *list, size_t *count, const char *name, enum ref_type type,
                         uint64_t rows, uint64_t columns)
{
    struct array *array = &list[(*count)++];
    *array = (struct array) { name, type, { rows, columns }, columns ? 2 : 1, NULL };
    array->data = malloc((size_t)count_of(array) * ref_bytes(type));
    if (!array->data) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return array;
}

static void *input(struct job *job, const char *name, enum ref_type type, uint64_t rows,
                   uint64_t columns)
{
    return add(job->input, &job->inputs, name, type, rows, columns)->data;
}

static void *output(struct job *job, const char *name, enum ref_type type, uint64_t rows,
                    uint64_t columns)
{
    return add(job->output, &job->outputs, name, type, rows, columns)->data;
}

// ---- the jobs: the arguments, and the same for the reference ------------------------------------

static void squared_sum(struct job *job, struct random *r)
{
    void *x = input(job, "x", job->type, ROWS, COLUMNS);
    data_fill(r, job->type, DATA_PLAIN, x, ELEMENTS);
    ref_squared_sum(job->type, x, ELEMENTS, false,
                    output(job, "partials", REF_F64, ref_partial_count(ELEMENTS), 0));
    job->sets = "";
}

static void clip_scale_reduce(struct job *job, struct random *r)
{
    uint64_t count = ref_partial_count(ELEMENTS);
    void *partials = input(job, "partials", job->type, count, 0);
    data_fill(r, job->type, DATA_PLAIN, partials, count);
    data_make_positive(job->type, partials, count);
    struct ref_clip clip = { REF_PROPAGATE, 1.0f, 1e-6f };
    ref_clip_scale_reduce(job->type, partials, count, clip, output(job, "out", REF_F32, 3, 0));
    job->sets = "--set max_norm=1 --set eps=1e-6";
}

static void gradient_clip(struct job *job, struct random *r)
{
    const float record[3] = { 0.37f, 2.7f, 0.0f };
    void *gradient = input(job, "gradient", job->type, ROWS, COLUMNS);
    void *clipped = output(job, "gradient", job->type, ROWS, COLUMNS);
    data_fill(r, job->type, DATA_SPECIAL, gradient, ELEMENTS);
    memcpy(input(job, "record", REF_F32, 3, 0), record, sizeof record);
    memcpy(clipped, gradient, ELEMENTS * ref_bytes(job->type));
    ref_gradient_clip_from_device_scale(job->type, clipped, ELEMENTS, REF_ZERO, record);
    job->sets = "--set nonfinite=zero";
}

static struct ref_quantize quantize_of(const struct job *job)
{
    return (struct ref_quantize) { .scale = job->type == REF_F64 ? 0.03 : (double)0.03f,
                                   .zero_point = 3,
                                   .q_min = -128,
                                   .q_max = 127 };
}

static void quantize_ste_backward(struct job *job, struct random *r)
{
    const struct ref_quantize quantize = quantize_of(job);
    void *x = input(job, "x", job->type, ROWS, COLUMNS);
    void *d_output = input(job, "d_output", job->type, ROWS, COLUMNS);
    data_fill_ties(r, job->type, quantize.scale, x, ELEMENTS);
    data_fill(r, job->type, DATA_SPECIAL, d_output, ELEMENTS);
    ref_quantize_ste_backward(job->type, x, d_output,
                              output(job, "d_input", job->type, ROWS, COLUMNS), ELEMENTS, quantize);
    job->sets = "--set scale=0.03 --set zero_point=3";
}

static void lerp_backward(struct job *job, struct random *r)
{
    void *d_output = input(job, "d_output", job->type, ROWS, COLUMNS);
    void *d_a = output(job, "d_a", job->type, ROWS, COLUMNS);
    void *d_b = output(job, "d_b", job->type, ROWS, COLUMNS);
    data_fill(r, job->type, DATA_SPECIAL, d_output, ELEMENTS);
    ref_lerp_backward(job->type, d_output, d_a, d_b, ELEMENTS, 0.9);
    job->sets = "--set weight=0.9";
}

static void cast_fp8(struct job *job, struct random *r)
{
    void *x = input(job, "x", job->type, ROWS, COLUMNS),
         *y = output(job, "y", REF_U8, ROWS, COLUMNS);
    float *amax = input(job, "amax", REF_F32, 1, 0), *after = output(job, "amax", REF_F32, 1, 0);
    data_fill(r, job->type, DATA_PLAIN, x, ELEMENTS);
    *after = *amax = 0.5f;
    ref_cast_fp8(job->type, x, ELEMENTS, REF_E5M2, 100, y, after);
    job->sets = "--set scale=100 --set format=e5m2";
}

static void delayed_scale_update(struct job *job, struct random *r)
{
    const struct ref_delayed_scale rule = { .margin = 2 };
    void *history = input(job, "history", REF_F32, ROWS, COLUMNS);
    void *rolled = output(job, "history", REF_F32, ROWS, COLUMNS);
    void *scale = input(job, "scale", REF_F32, COLUMNS, 0);
    void *next = output(job, "scale", REF_F32, COLUMNS, 0);
    data_fill(r, REF_F32, DATA_PLAIN, history, ELEMENTS);
    data_fill(r, REF_F32, DATA_PLAIN, scale, COLUMNS);
    memcpy(rolled, history, ELEMENTS * sizeof(float));
    memcpy(next, scale, COLUMNS * sizeof(float));
    ref_delayed_scale_update(&rule, COLUMNS, ROWS, rolled, next,
                             output(job, "scale_inv", REF_F32, COLUMNS, 0));
    job->sets = "--set margin=2";
}

static void fake_quantize(struct job *job, struct random *r)
{
    const struct ref_quantize quantize = quantize_of(job);
    void *x = input(job, "x", job->type, ROWS, COLUMNS);
    data_fill_ties(r, job->type, quantize.scale, x, ELEMENTS);
    ref_fake_quantize(job->type, x, output(job, "y", job->type, ROWS, COLUMNS), ELEMENTS, quantize);
    job->sets = "--set scale=0.03 --set zero_point=3";
}

/// What learned quantizers share; `count` scales and zero points, which are written to `values`.
static struct ref_learned learned(struct job *job, struct random *r, uint64_t count,
                                  double *values[2], const void *tensors[2])
{
    const enum ref_type small = job->type == REF_F64 ? REF_F64 : REF_F32;
    void *x = input(job, "x", job->type, ROWS, COLUMNS);
    void *d_output = input(job, "d_output", job->type, ROWS, COLUMNS);
    void *scale = input(job, "scale", small, count, 0);
    void *zero_point = input(job, "zero_point", small, count, 0);
    data_fill_ties(r, job->type, 0.25, x, ELEMENTS);
    data_fill(r, job->type, DATA_PLAIN, d_output, ELEMENTS);
    for (uint64_t k = 0; k < count; ++k) {
        ref_store(small, scale, k, 0.25 + 0.03125 * (double)(k % 5));
        ref_store(small, zero_point, k, (double)(k % 9) - 4.25);
        values[0][k] = ref_load(small, scale, k);
        values[1][k] = ref_load(small, zero_point, k);
    }
    tensors[0] = x;
    tensors[1] = d_output;
    return (struct ref_learned) {
        .q_min = -8, .q_max = 7, .layout = REF_TENSOR, .scale = values[0], .zero_point = values[1]
    };
}

/// One scale in f32, one a column in f64, one a row in 16 bits.
static void quantize_learned_backward(struct job *job, struct random *r)
{
#define LEVELS "--set q_min=-8 --set q_max=7 "
    static const struct {
        enum ref_layout layout;
        uint64_t channels, inner;
        const char *sets;
    } layouts[] = {
        [REF_F32] = { REF_TENSOR, 1, 1, LEVELS },
        [REF_F64] = { REF_COLUMNS, COLUMNS, 1, LEVELS "--set layout=columns" },
        [REF_F16] = { REF_ROWS, ROWS, COLUMNS, LEVELS "--set layout=rows --set inner=3072" },
        [REF_BF16] = { REF_ROWS, ROWS, COLUMNS, LEVELS "--set layout=rows --set inner=3072" },
    };
#undef LEVELS
    static double scales[COLUMNS], zero_points[COLUMNS];
    const uint64_t channels = layouts[job->type].channels;
    const void *tensors[2];
    struct ref_learned q =
        learned(job, r, channels, (double *[2]) { scales, zero_points }, tensors);
    q.layout = layouts[job->type].layout;
    q.channels = channels;
    q.inner = layouts[job->type].inner;
    const uint64_t pieces = ref_learned_pieces(job->type, ELEMENTS, &q);
    void *d_input = output(job, "d_input", job->type, ROWS, COLUMNS);
    double *scale_sums = output(job, "scale_sums", REF_F64, pieces, 0);
    ref_learned_backward(job->type, tensors[0], tensors[1], d_input, ELEMENTS, &q, scale_sums,
                         output(job, "zero_sums", REF_F64, pieces, 0));
    job->sets = layouts[job->type].sets;
}

/// One piece a group.
static void quantize_learned_groups(struct job *job, struct random *r)
{
    enum { GROUP = 32, GROUPS = ELEMENTS / GROUP };
    static double scales[GROUPS], zero_points[GROUPS], sums[2][GROUPS];
    const void *tensors[2];
    struct ref_learned q = learned(job, r, GROUPS, (double *[2]) { scales, zero_points }, tensors);
    q.layout = REF_ROWS;
    q.channels = GROUPS;
    q.inner = GROUP;
    void *d_input = output(job, "d_input", job->type, ROWS, COLUMNS);
    ref_learned_backward(job->type, tensors[0], tensors[1], d_input, ELEMENTS, &q, sums[0],
                         sums[1]);
    ref_learned_reduce(REF_F32, sums[0], GROUPS, GROUPS, 1, 1,
                       output(job, "d_scale", REF_F32, GROUPS, 0));
    ref_learned_reduce(REF_F32, sums[1], GROUPS, GROUPS, 1, 1,
                       output(job, "d_zero_point", REF_F32, GROUPS, 0));
    job->sets = "--set q_min=-8 --set q_max=7";
}

static void observe_min_max(struct job *job, struct random *r)
{
    void *x = input(job, "x", job->type, ROWS, COLUMNS);
    float *before = input(job, "extremes", REF_F32, 2, 0);
    float *after = output(job, "extremes", REF_F32, 2, 0);
    data_fill(r, job->type, DATA_PLAIN, x, ELEMENTS);
    after[0] = before[0] = 0.5f;
    after[1] = before[1] = -0.5f;
    ref_observe_min_max(job->type, x, ELEMENTS, after);
    job->sets = "";
}

static void moving_average_update(struct job *job, struct random *r)
{
    const struct ref_observer rule = {
        .averaging_constant = 0.25f, .eps = 0x1p-23f, .q_min = -8, .q_max = 7
    };
    float *extremes = input(job, "extremes", REF_F32, 2, 0);
    float *averages = input(job, "averages", REF_F32, 2, 0);
    float *no_extremes = output(job, "extremes", REF_F32, 2, 0);
    float *next = output(job, "averages", REF_F32, 2, 0);
    int32_t zero_point;
    (void)r;
    no_extremes[0] = extremes[0] = -1.7f;
    no_extremes[1] = extremes[1] = 2.9f;
    next[0] = averages[0] = -1.1f;
    next[1] = averages[1] = 3.3f;
    ref_moving_average_update(&rule, no_extremes, next, output(job, "scale", REF_F32, 1, 0),
                              &zero_point);
    job->sets = "--set averaging_constant=0.25 --set q_min=-8 --set q_max=7";
}

static const struct {
    const char *kernel;
    void (*prepare)(struct job *job, struct random *r);
    int types; ///< the first `types` of enum ref_type
} kernels[] = {
    { "squared_sum", squared_sum, 4 },
    { "clip_scale_reduce", clip_scale_reduce, 2 },
    { "gradient_clip_from_device_scale", gradient_clip, 4 },
    { "quantize_ste_backward", quantize_ste_backward, 4 },
    { "lerp_backward", lerp_backward, 4 },
    { "cast_fp8", cast_fp8, 1 },
    { "delayed_scale_update", delayed_scale_update, 1 },
    { "fake_quantize", fake_quantize, 4 },
    { "quantize_learned_backward", quantize_learned_backward, 4 },
    { "quantize_learned_groups", quantize_learned_groups, 1 },
    { "observe_min_max", observe_min_max, 4 },
    { "moving_average_update", moving_average_update, 1 },
};

// ---- files --------------------------------------------------------------------------------------

static bool write_inputs(const struct job *job, const char *path)
{
    struct tensor tensors[MOST_TENSORS];
    struct message error;
    for (size_t k = 0; k < job->inputs; ++k) {
        const struct array *array = &job->input[k];
        uint64_t count = count_of(array);
        tensors[k] = (struct tensor) { .name = array->name,
                                       .dtype = tensor_dtype_of(tensor_types[array->type]),
                                       .shape = array->shape,
                                       .rank = array->rank,
                                       .count = count,
                                       .bytes = count * ref_bytes(array->type),
                                       .data = array->data };
    }
    if (tensor_file_write(path, false, tensors, job->inputs, NULL, 0, &error))
        return true;
    fprintf(stderr, "%s\n", error.text);
    return false;
}

static bool same_tensor(const struct array *want, const struct tensor_file *file)
{
    const struct tensor *got = tensor_file_find(file, want->name);
    uint64_t count = count_of(want), wrong = 0;
    const struct tensor_dtype *dtype = want->type == REF_U8
                                           ? tensor_dtype_named("F8_E5M2")
                                           : tensor_dtype_of(tensor_types[want->type]);
    if (!got || got->dtype != dtype || got->count != count) {
        fprintf(stderr, "%s: '%s' is missing, or not of its type and size\n", file->path,
                want->name);
        return false;
    }
    for (uint64_t i = 0; i < count; ++i)
        if (!ref_same(want->type, got->data, want->data, i) && wrong++ == 0)
            fprintf(stderr, "%s: %s[%" PRIu64 "] is %a, want %a\n", file->path, want->name, i,
                    ref_load(want->type, got->data, i), ref_load(want->type, want->data, i));
    if (wrong)
        fprintf(stderr, "%s: %s: %" PRIu64 " of %" PRIu64 " elements differ\n", file->path,
                want->name, wrong, count);
    return wrong == 0;
}

static bool outputs_are_right(const struct job *job, const char *path)
{
    struct tensor_file file;
    struct message error;
    if (!tensor_file_open(&file, path, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    bool right = true;
    for (size_t k = 0; k < job->outputs; ++k)
        right = same_tensor(&job->output[k], &file) && right;
    tensor_file_close(&file);
    return right;
}

/// Returns the status to exit with: 0, 1 or 77.
static int run_job(const struct job *job, const char *ptxgen, const char *folder,
                   const char *device)
{
    char in[PATH_SIZE], out[PATH_SIZE], command[4 * PATH_SIZE];
    const char *dtype = ptx_type_name(tensor_types[job->type]);
    snprintf(in, sizeof in, "%s/%s.%s.%s.safetensors", folder, job->kernel, dtype, device);
    snprintf(out, sizeof out, "%s/%s.%s.%s.out.safetensors", folder, job->kernel, dtype, device);
    if (!write_inputs(job, in))
        return 1;
    remove(out);
    snprintf(command, sizeof command, "'%s' run %s --device '%s' --input '%s' --output '%s' %s",
             ptxgen, job->kernel, device, in, out, job->sets);
    printf("$ %s\n", command);
    fflush(stdout);
    int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
        remove(in);
        return EXIT_SKIPPED;
    }
    bool right = status == 0 && outputs_are_right(job, out);
    if (right) {
        remove(in);
        remove(out);
    }
    printf("%s: %s.%s\n\n", right ? "same bits as the reference" : "FAILED", job->kernel, dtype);
    return right ? 0 : 1;
}

static void release(struct job *job)
{
    for (size_t k = 0; k < job->inputs; ++k)
        free(job->input[k].data);
    for (size_t k = 0; k < job->outputs; ++k)
        free(job->output[k].data);
}

int main(int argc, char **argv)
{
    int failed = 0, done = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: check_run PTXGEN FOLDER DEVICE\n");
        return 2;
    }
    char folder[OWN_FOLDER_SIZE];
    own_folder(folder, argv[2], "check_run");
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; ++k)
        for (int type = 0; type < kernels[k].types; ++type) {
            struct random r = { k * 10 + (uint64_t)type };
            struct job job = { .kernel = kernels[k].kernel, .type = (enum ref_type)type };
            kernels[k].prepare(&job, &r);
            int status = run_job(&job, argv[1], folder, argv[3]);
            release(&job);
            if (status == EXIT_SKIPPED) {
                rmdir(folder);
                fprintf(stderr, "SKIPPED: no GPU for ptxgen run\n");
                return EXIT_SKIPPED;
            }
            failed += status;
            ++done;
        }
    rmdir(folder);
    printf("ptxgen run: %d of %d give the reference's bits\n", done - failed, done);
    return failed != 0;
}
