// SPDX-License-Identifier: MIT
/// make_gradients ROWS COLUMNS FILE: tensors of one shape for all five kernels, f32, in a
/// safetensors file. Normally distributed, from a fixed seed: the same file on every machine.
///
///     x          a layer's values, deviation 1
///     d_output   the gradient of its output, deviation 0.01
///     gradient   the gradient of its weights, deviation 0.02
///     record     scale, norm and found_inf that clip `gradient` to the norm 1
#include "safetensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SIDE = 1000000 };

static uint64_t next_u64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double next_unit(uint64_t *state)
{
    return (double)(next_u64(state) >> 11) * 0x1p-52 - 1;
}

// Marsaglia's polar method: two numbers a turn.
static void fill_normal(float *x, uint64_t n, double deviation, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i += 2) {
        double u, v, s;
        do {
            u = next_unit(&seed);
            v = next_unit(&seed);
            s = u * u + v * v;
        } while (s >= 1 || s == 0);
        s = deviation * sqrt(-2 * log(s) / s);
        x[i] = (float)(u * s);
        if (i + 1 < n)
            x[i + 1] = (float)(v * s);
    }
}

static void fill_record(float record[3], const float *gradient, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)gradient[i] * gradient[i];
    record[1] = (float)sqrt(sum);
    record[0] = record[1] > 1 ? 1 / record[1] : 1;
    record[2] = 0;
}

static struct tensor tensor_f32(const char *name, const uint64_t *shape, size_t rank,
                                const float *data)
{
    struct tensor tensor = { .name = name, .dtype = tensor_dtype_of(PTX_F32), .shape = shape };
    tensor.rank = rank;
    tensor.count = rank == 2 ? shape[0] * shape[1] : shape[0];
    tensor.bytes = tensor.count * sizeof(float);
    tensor.data = data;
    return tensor;
}

static int make(const uint64_t shape[2], const char *path)
{
    const uint64_t n = shape[0] * shape[1], three = 3;
    float *x = calloc(3 * n, sizeof *x), record[3];
    float *d_output = x + n, *gradient = d_output + n;
    struct message error = { "out of memory" };
    bool made = false;
    if (x) {
        fill_normal(x, n, 1, 1);
        fill_normal(d_output, n, 0.01, 2);
        fill_normal(gradient, n, 0.02, 3);
        fill_record(record, gradient, n);
        const struct tensor tensors[] = {
            tensor_f32("x", shape, 2, x),
            tensor_f32("d_output", shape, 2, d_output),
            tensor_f32("gradient", shape, 2, gradient),
            tensor_f32("record", &three, 1, record),
        };
        made = tensor_file_write(path, tensors, 4, NULL, 0, &error);
    }
    free(x);
    if (!made)
        fprintf(stderr, "make_gradients: %s\n", error.text);
    return made ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool read_side(const char *text, uint64_t *side)
{
    char *end;
    errno = 0;
    *side = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && *side > 0 &&
           *side <= MAX_SIDE;
}

int main(int argc, char **argv)
{
    uint64_t shape[2];
    if (argc != 4 || !read_side(argv[1], &shape[0]) || !read_side(argv[2], &shape[1])) {
        fprintf(stderr, "usage: make_gradients ROWS COLUMNS FILE, each side up to %d\n", MAX_SIDE);
        return 2;
    }
    return make(shape, argv[3]);
}
