// SPDX-License-Identifier: MIT
// A host program that clips its gradients: a plan made once, a run captured into a CUDA graph, the
// graph launched every step.
#include <ptxgen/ptxgen.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WEIGHTS = 100003, BIASES = 300, EXIT_SKIPPED = 77 };

// The pages show the lines between here and the end mark.
static ptx_clip_plan *plan_gradients(ptx_device *gpu, CUdeviceptr weights, CUdeviceptr biases)
{
    const struct ptx_clip_tensor gradients[] = {
        { .data = weights, .count = WEIGHTS, .dtype = PTX_BF16 },
        { .data = biases, .count = BIASES, .dtype = PTX_F32 },
    };
    return ptx_clip_plan_create(
        gpu, &(struct ptx_clip_params) {
                 .tensors = gradients, .tensor_count = 2, .max_norm = 1.0f, .eps = 1e-6f });
}

static ptx_graph *capture_step(ptx_device *gpu, ptx_clip_plan *plan, CUstream stream)
{
    if (ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL) != PTX_OK)
        return NULL;
    ptx_clip_plan_run(plan, stream); // between the backward pass and the optimizer
    return ptx_capture_end(gpu, stream);
}
// End of what the pages show.

static int failed(void)
{
    const ptx_status status = ptx_error_status();
    if (status == PTX_ERROR_NO_DRIVER || status == PTX_ERROR_NO_DEVICE) {
        fprintf(stderr, "clip: no GPU, not run; PTXGEN_LIBCUDA may name the emulator\n");
        return EXIT_SKIPPED;
    }
    fprintf(stderr, "clip: %s\n", ptx_error_message());
    return 1;
}

// Every gradient is 0.5.
static bool make_gradients(ptx_buffer *weights, ptx_buffer *biases, CUstream stream)
{
    static uint16_t bf16[WEIGHTS];
    static float f32[BIASES];

    for (int i = 0; i < WEIGHTS; i++)
        bf16[i] = 0x3f00;
    for (int i = 0; i < BIASES; i++)
        f32[i] = 0.5f;
    return ptx_buffer_upload(weights, 0, bf16, sizeof bf16, stream) == PTX_OK &&
           ptx_buffer_upload(biases, 0, f32, sizeof f32, stream) == PTX_OK;
}

// Two steps: the first clips to 1, the second finds a norm of 1 and nothing to do.
static bool train(ptx_device *gpu, ptx_clip_plan *plan, CUstream stream,
                  struct ptx_clip_record records[2])
{
    ptx_graph *step = capture_step(gpu, plan, stream);
    bool done = step != NULL;

    for (int k = 0; k < 2 && done; k++)
        done = ptx_graph_launch(step, stream) == PTX_OK &&
               ptx_clip_plan_read(plan, 0, 1, &records[k], NULL, stream) == PTX_OK;
    done = done && ptx_stream_synchronize(gpu, stream) == PTX_OK;
    ptx_graph_destroy(&step);
    return done;
}

static bool clip_on_gpu(ptx_device *gpu, struct ptx_clip_record records[2])
{
    CUstream stream = ptx_stream_create(gpu);
    ptx_buffer *weights = ptx_buffer_create(gpu, WEIGHTS * sizeof(uint16_t));
    ptx_buffer *biases = ptx_buffer_create(gpu, BIASES * sizeof(float));
    ptx_clip_plan *plan = NULL;
    bool done = stream && weights && biases && make_gradients(weights, biases, stream);

    if (done)
        plan = plan_gradients(gpu, ptx_buffer_address(weights), ptx_buffer_address(biases));
    done = plan && train(gpu, plan, stream, records);
    ptx_clip_plan_destroy(&plan);
    ptx_buffer_destroy(&biases);
    ptx_buffer_destroy(&weights);
    ptx_stream_destroy(gpu, &stream);
    return done;
}

int main(int argc, char **argv)
{
    struct ptx_clip_record records[2];
    const double norm = 0.5 * sqrt(WEIGHTS + BIASES);
    ptx_device *gpu;

    if (argc == 2 && strcmp(argv[1], "--emit") == 0) {
        const struct ptx_clip_tensor tensors[] = { { .count = WEIGHTS, .dtype = PTX_BF16 },
                                                   { .count = BIASES, .dtype = PTX_F32 } };
        ptx_builder *b = ptx_builder_create(NULL);
        ptx_clip_emit(b, &(struct ptx_clip_params) {
                             .tensors = tensors, .tensor_count = 2, .max_norm = 1.0f });
        const char *text = ptx_builder_finish(b);
        const bool printed = text && fputs(text, stdout) >= 0;
        ptx_builder_destroy(&b);
        return printed ? 0 : 1;
    }
    gpu = ptx_device_open(NULL);
    if (!gpu)
        return failed();
    const bool done = clip_on_gpu(gpu, records);
    ptx_device_close(&gpu);
    if (!done)
        return failed();
    const bool right = fabs((double)records[0].norm - norm) < 1e-6 * norm &&
                       fabs((double)records[0].factor - 1 / (norm + 1e-6)) < 1e-6 / norm &&
                       fabs((double)records[1].norm - 1) < 0.01 && records[1].found_inf == 0.0f;
    printf("clip: norm %.6g, factor %.6g; then norm %.6g: %s\n", (double)records[0].norm,
           (double)records[0].factor, (double)records[1].norm, right ? "OK" : "wrong");
    return right ? 0 : 1;
}
