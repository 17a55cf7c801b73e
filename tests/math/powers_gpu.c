// SPDX-License-Identifier: MIT
// The error of ptx_math_pow() on a GPU, of every STEP-th f32 x and each of 50 exponents: the rows
// that `math_sweep powers STEP` prints in hours on a CPU, with the same hashes.
//
//     nvcc -ptx -arch=compute_80 -O3 -Itests/support tests/math/powers.cu -o powers.ptx
//     math_powers_gpu powers.ptx [STEP]
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "math_inputs.h"
#include "math_kernels.h"
#include "math_powers.h"

#define PROGRAM "math_powers_gpu"
#include "die.h"

enum { MOST = 1 << 26, STATES = 3 };

struct sweep {
    ptx_device *device;
    ptx_module *ours, *counting;
    ptx_buffer *x, *y, *out, *state;
};

static char *read_text(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;

    if (file)
        fclose(file);
    if (!size)
        die(path, "cannot be read");
    text[size] = '\0';
    return text;
}

static ptx_module *load(struct sweep *s, const char *text)
{
    ptx_module *module = text ? ptx_module_load(s->device, text, NULL) : NULL;
    if (!module)
        die("load", ptx_error_message());
    return module;
}

static ptx_buffer *buffer(struct sweep *s, size_t bytes)
{
    ptx_buffer *made = ptx_buffer_create(s->device, bytes);
    if (!made)
        die("memory", ptx_error_message());
    return made;
}

static void open_all(struct sweep *s, const char *path, uint64_t inputs)
{
    const size_t bytes = (inputs < MOST ? inputs : MOST) * sizeof(float);
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 80 } });

    math_kernels(b);
    if (!ptx_builder_finish(b))
        die("builder", ptx_builder_error(b));
    s->ours = load(s, ptx_builder_finish(b));
    ptx_builder_destroy(&b);
    s->counting = load(s, read_text(path));
    s->x = buffer(s, bytes);
    s->y = buffer(s, bytes);
    s->out = buffer(s, bytes);
    s->state = buffer(s, STATES * sizeof(uint64_t));
}

static void launch(ptx_module *module, const char *name, uint32_t n, const struct ptx_arg *args,
                   size_t count)
{
    const bool ours = !strcmp(name, "pow");
    const uint32_t whole = (n - 1) / MATH_BLOCK + 1;
    const struct ptx_launch_params params = {
        .grid = { ours || whole < 2112 ? whole : 2112 },
        .block = { MATH_BLOCK },
        .args = args,
        .arg_count = count,
    };
    const ptx_function *function = ptx_module_function(module, name);

    if (!function)
        die(name, ptx_error_message());
    check(ptx_launch(function, &params));
}

static void sweep_part(const struct sweep *s, uint32_t n, uint32_t first, uint32_t step,
                       float power)
{
    const CUdeviceptr x = ptx_buffer_address(s->x), y = ptx_buffer_address(s->y);
    const CUdeviceptr out = ptx_buffer_address(s->out), state = ptx_buffer_address(s->state);
    const struct ptx_arg inputs[] = { PTX_ARG(n),     PTX_ARG(first), PTX_ARG(step),
                                      PTX_ARG(power), PTX_ARG(x),     PTX_ARG(y) };
    const struct ptx_arg pow[] = { PTX_ARG(n), PTX_ARG(x), PTX_ARG(y), PTX_ARG(out) };
    const struct ptx_arg counted[] = { PTX_ARG(n), PTX_ARG(power), PTX_ARG(x), PTX_ARG(out),
                                       PTX_ARG(state) };

    launch(s->counting, "powers_inputs", n, inputs, 6);
    launch(s->ours, "pow", n, pow, 4);
    launch(s->counting, "powers_count", n, counted, 5);
}

// One exponent. True if no result is infinitely far from the exact value.
static bool sweep_power(const struct sweep *s, float power, uint32_t step)
{
    const uint64_t inputs = ((UINT64_C(1) << 32) - 1) / step + 1;
    uint64_t state[STATES];

    check(ptx_buffer_fill(s->state, 0, 0, sizeof state, NULL));
    for (uint64_t i = 0; i < inputs; i += MOST) {
        const uint32_t n = inputs - i < MOST ? (uint32_t)(inputs - i) : MOST;
        sweep_part(s, n, (uint32_t)(i * step), step, power);
    }
    check(ptx_buffer_download(s->state, 0, state, sizeof state, NULL));
    check(ptx_stream_synchronize(s->device, NULL));
    printf("X(pow(x, %a), 0x%016" PRIx64 ") // %" PRIu64 " inputs, %.3f ulp at %a; %" PRIu64
           " wrong\n",
           (double)power, state[1], inputs, (double)math_value((uint32_t)(state[0] >> 32)),
           (double)math_value((uint32_t)state[0]), state[2]);
    fflush(stdout);
    return !state[2];
}

int main(int argc, char **argv)
{
    const unsigned long long step = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct sweep s = { 0 };
    bool right = true;

    if (argc < 2 || !step || step > UINT32_MAX)
        die("usage", "math_powers_gpu FILE.ptx [STEP]");
    if (!(s.device = ptx_device_open(NULL)))
        die("device", ptx_error_message());
    open_all(&s, argv[1], ((UINT64_C(1) << 32) - 1) / step + 1);
    for (size_t k = 0; k < MATH_POWERS; k++)
        right = sweep_power(&s, math_powers[k], (uint32_t)step) && right;
    ptx_buffer_destroy(&s.state);
    ptx_buffer_destroy(&s.out);
    ptx_buffer_destroy(&s.y);
    ptx_buffer_destroy(&s.x);
    ptx_module_unload(&s.counting);
    ptx_module_unload(&s.ours);
    ptx_device_close(&s.device);
    return right ? 0 : 1;
}
