// SPDX-License-Identifier: MIT
/// Gradients in a safetensors file. Normally distributed, from a fixed seed: the same file on every
/// machine.
///
/// make_gradients ROWS COLUMNS FILE: tensors of one shape for all five kernels, f32.
///
///     x          a layer's values, deviation 1
///     d_output   the gradient of its output, deviation 0.01
///     gradient   the gradient of its weights, deviation 0.02
///     record     scale, norm and found_inf that clip `gradient` to the norm 1
///
/// make_gradients gpt2 LAYERS WIDTH VOCABULARY CONTEXT FILE: the gradient of every parameter of a
/// model of GPT-2's build, with its name and shape; matrices in bf16, vectors in f32. 12 768 50257
/// 1024 is GPT-2 small: 148 tensors, 124439808 elements.
#include "safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Marsaglia's polar method: two numbers per iteration.
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
        made = tensor_file_write(path, true, tensors, 4, NULL, 0, &error);
    }
    free(x);
    if (!made)
        fprintf(stderr, "make_gradients: %s\n", error.text);
    return made ? EXIT_SUCCESS : EXIT_FAILURE;
}

// ---- a model ------------------------------------------------------------------------------------

enum { MAX_LAYERS = 1000, NAME_SIZE = 48 };

/// A parameter of GPT-2; its shape is in units of the width, except for the embeddings' rows.
static const struct parameter {
    const char *name;
    unsigned rows, columns; ///< widths; 0 columns: a vector
} embedding[] = {
    { "wte.weight", 0, 1 }, // rows: the vocabulary
    { "wpe.weight", 0, 1 }, // rows: the context
}, layer[] = {
    { "ln_1.weight", 1, 0 },        { "ln_1.bias", 1, 0 },
    { "attn.c_attn.weight", 1, 3 }, { "attn.c_attn.bias", 3, 0 },
    { "attn.c_proj.weight", 1, 1 }, { "attn.c_proj.bias", 1, 0 },
    { "ln_2.weight", 1, 0 },        { "ln_2.bias", 1, 0 },
    { "mlp.c_fc.weight", 1, 4 },    { "mlp.c_fc.bias", 4, 0 },
    { "mlp.c_proj.weight", 4, 1 },  { "mlp.c_proj.bias", 1, 0 },
}, last[] = {
    { "ln_f.weight", 1, 0 },
    { "ln_f.bias", 1, 0 },
};

enum {
    EMBEDDING_COUNT = sizeof embedding / sizeof *embedding,
    LAYER_COUNT = sizeof layer / sizeof *layer,
    LAST_COUNT = sizeof last / sizeof *last,
};

struct model {
    struct tensor *tensors;
    uint64_t (*shapes)[2];
    char (*names)[NAME_SIZE];
    size_t count;
};

static void add(struct model *model, const char *name, uint64_t rows, uint64_t columns)
{
    size_t k = model->count++;
    struct tensor *tensor = &model->tensors[k];
    snprintf(model->names[k], NAME_SIZE, "%s", name);
    model->shapes[k][0] = rows;
    model->shapes[k][1] = columns;
    *tensor = (struct tensor) {
        .name = model->names[k],
        .dtype = tensor_dtype_of(columns ? PTX_BF16 : PTX_F32),
        .shape = model->shapes[k],
        .rank = columns ? 2 : 1,
        .count = columns ? rows * columns : rows,
    };
    tensor->bytes = tensor->count * tensor->dtype->bytes;
}

static void add_all(struct model *model, const uint64_t sides[4])
{
    uint64_t width = sides[1];
    char name[NAME_SIZE];
    for (size_t k = 0; k < EMBEDDING_COUNT; k++)
        add(model, embedding[k].name, sides[2 + k], width);
    for (uint64_t l = 0; l < sides[0]; l++)
        for (size_t k = 0; k < LAYER_COUNT; k++) {
            snprintf(name, sizeof(name), "h.%" PRIu64 ".%s", l, layer[k].name);
            add(model, name, layer[k].rows * width, layer[k].columns * width);
        }
    for (size_t k = 0; k < LAST_COUNT; k++)
        add(model, last[k].name, last[k].rows * width, 0);
}

// To nearest even; the numbers here are finite.
static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static bool write_tensor(struct output *output, const struct tensor *tensor, uint64_t seed)
{
    float *x = calloc((size_t)tensor->count, sizeof *x);
    if (!x)
        return false;
    fill_normal(x, tensor->count, 0.0005, seed);
    // Converts in place: the output never overtakes the input.
    for (uint64_t i = 0; tensor->dtype->bytes == 2 && i < tensor->count; i++) {
        uint16_t half = bf16_of(x[i]);
        memcpy((char *)x + 2 * i, &half, sizeof(half));
    }
    output_write(output, x, (size_t)tensor->bytes);
    free(x);
    return true;
}

static bool write_model(const struct model *model, const char *path, struct message *error)
{
    struct output output;
    const struct tensor **order = calloc(model->count, sizeof(*order));
    if (!order || !output_open(&output, path, true, error)) {
        free(order);
        return false;
    }
    bool whole = tensor_file_begin(&output, model->tensors, model->count, NULL, 0, error);
    tensor_file_order(model->tensors, model->count, order);
    for (size_t k = 0; k < model->count && whole; k++)
        whole = write_tensor(&output, order[k], k + 1);
    free(order);
    if (whole)
        return output_commit(&output, error);
    output_discard(&output);
    return false;
}

/// `sides`: layers, width, vocabulary, context.
static int make_model(const uint64_t sides[4], const char *path)
{
    size_t count = EMBEDDING_COUNT + (size_t)sides[0] * LAYER_COUNT + LAST_COUNT;
    struct model model = {
        .tensors = calloc(count, sizeof(*model.tensors)),
        .shapes = calloc(count, sizeof(*model.shapes)),
        .names = calloc(count, sizeof(*model.names)),
    };
    struct message error = { "out of memory" };
    bool made = false;
    if (model.tensors && model.shapes && model.names) {
        add_all(&model, sides);
        made = write_model(&model, path, &error);
    }
    free(model.tensors);
    free(model.shapes);
    free(model.names);
    if (!made)
        fprintf(stderr, "make_gradients: %s\n", error.text);
    return made ? EXIT_SUCCESS : EXIT_FAILURE;
}

// ---- the command line ---------------------------------------------------------------------------

static bool read_side(const char *text, uint64_t *side)
{
    char *end;
    errno = 0;
    *side = strtoull(text, &end, 10);
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && *side > 0 &&
           *side <= MAX_SIDE;
}

static bool read_sides(char **texts, size_t count, uint64_t *sides)
{
    bool right = true;
    for (size_t k = 0; k < count; k++)
        right = read_side(texts[k], &sides[k]) && right;
    return right;
}

int main(int argc, char **argv)
{
    uint64_t sides[4];
    if (argc == 4 && read_sides(argv + 1, 2, sides))
        return make(sides, argv[3]);
    if (argc == 7 && strcmp(argv[1], "gpt2") == 0 && read_sides(argv + 2, 4, sides) &&
        sides[0] <= MAX_LAYERS)
        return make_model(sides, argv[6]);
    fprintf(stderr,
            "usage: make_gradients ROWS COLUMNS FILE\n"
            "       make_gradients gpt2 LAYERS WIDTH VOCABULARY CONTEXT FILE\n"
            "each side up to %d, layers up to %d\n",
            MAX_SIDE, MAX_LAYERS);
    return 2;
}
