// SPDX-License-Identifier: MIT
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill_random(uint32_t *state, float *x, size_t n, double bound)
{
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = (float)(bound * ((*state >> 8) * 0x1p-23 - 1));
    }
}

// Activations have a variance of about 1; `share` of it comes from an adapter.
static void fill_adapters(uint32_t *state, float *adapters, const struct train_options *options,
                          double share)
{
    const size_t n = train_adapter_elements(options);
    for (size_t layer = 0; layer < 2; layer++) {
        fill_random(state, adapters + 2 * layer * n, n, 3 / sqrt(options->width));
        fill_random(state, adapters + (2 * layer + 1) * n, n, share * sqrt(3.0 / options->rank));
    }
}

// out[row] += m x, or m^T x, for m of `rows` rows.
static void add_product(double *out, const float *m, const double *x, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            out[i] += (double)m[i * columns + k] * x[k];
}

static void add_transposed(double *out, const float *m, const double *x, size_t rows,
                           size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            out[k] += (double)m[i * columns + k] * x[i];
}

// The activations of one example, and the gradients of the backward pass.
struct pass {
    double *x, *hidden, *y, *d_y, *d_hidden; // [width]
    double *low1, *low2, *d_low1, *d_low2;   // [rank]
    double *memory;
    size_t bytes;
};

static bool pass_create(struct pass *pass, const struct train_options *options)
{
    double **const wide[] = { &pass->x, &pass->hidden, &pass->y, &pass->d_y, &pass->d_hidden };
    double **const narrow[] = { &pass->low1, &pass->low2, &pass->d_low1, &pass->d_low2 };
    pass->bytes = (5 * (size_t)options->width + 4 * (size_t)options->rank) * sizeof(double);
    double *next = pass->memory = malloc(pass->bytes);
    if (!next)
        return false;
    for (size_t k = 0; k < 5; k++, next += options->width)
        *wide[k] = next;
    for (size_t k = 0; k < 4; k++, next += options->rank)
        *narrow[k] = next;
    return true;
}

static void forward(struct pass *pass, const struct train_data *data, const float *adapters,
                    const float *x, const struct train_options *options)
{
    const size_t width = options->width, rank = options->rank, n = train_adapter_elements(options);
    memset(pass->memory, 0, pass->bytes);
    for (size_t i = 0; i < width; i++)
        pass->x[i] = (double)x[i];
    add_product(pass->low1, adapters, pass->x, rank, width);
    add_product(pass->hidden, data->frozen, pass->x, width, width);
    add_product(pass->hidden, adapters + n, pass->low1, width, rank);
    for (size_t i = 0; i < width; i++)
        pass->hidden[i] = fmax(pass->hidden[i], 0);
    add_product(pass->low2, adapters + 2 * n, pass->hidden, rank, width);
    add_product(pass->y, data->frozen + width * width, pass->hidden, width, width);
    add_product(pass->y, adapters + 3 * n, pass->low2, width, rank);
}

// Computes all gradients from d_y.
static void backward(struct pass *pass, const struct train_data *data,
                     const struct train_options *options)
{
    const size_t width = options->width, rank = options->rank, n = train_adapter_elements(options);
    add_transposed(pass->d_low2, data->adapters + 3 * n, pass->d_y, width, rank);
    add_transposed(pass->d_hidden, data->frozen + width * width, pass->d_y, width, width);
    add_transposed(pass->d_hidden, data->adapters + 2 * n, pass->d_low2, rank, width);
    for (size_t i = 0; i < width; i++)
        if (!(pass->hidden[i] > 0))
            pass->d_hidden[i] = 0;
    add_transposed(pass->d_low1, data->adapters + n, pass->d_hidden, width, rank);
}

static void add_outer(double *out, const double *x, size_t rows, const double *y, size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            out[i * columns + k] += x[i] * y[k];
}

bool train_reference(const struct train_data *data, const struct train_options *options,
                     double *loss, double *norm)
{
    const size_t width = options->width, rank = options->rank, n = train_adapter_elements(options);
    const double elements = (double)options->batch * options->width;
    struct pass pass = { 0 };
    double *gradients = calloc(TRAIN_ADAPTERS * n, sizeof *gradients);
    const bool done = gradients && pass_create(&pass, options);

    *loss = *norm = 0;
    for (size_t e = 0; done && e < options->batch; e++) {
        const float *x = data->batches + e * width;
        const float *target = x + (size_t)options->batch * width;
        forward(&pass, data, data->adapters, x, options);
        for (size_t i = 0; i < width; i++) {
            const double error = pass.y[i] - (double)target[i];
            *loss += error * error / elements;
            pass.d_y[i] = 2 * error / elements;
        }
        backward(&pass, data, options);
        add_outer(gradients, pass.d_low1, rank, pass.x, width);
        add_outer(gradients + n, pass.d_hidden, width, pass.low1, rank);
        add_outer(gradients + 2 * n, pass.d_low2, rank, pass.hidden, width);
        add_outer(gradients + 3 * n, pass.d_y, width, pass.low2, rank);
    }
    for (size_t i = 0; done && i < TRAIN_ADAPTERS * n; i++)
        *norm += gradients[i] * gradients[i];
    *norm = sqrt(*norm);
    free(pass.memory);
    free(gradients);
    return done;
}

static bool make_targets(struct train_data *data, const float *teacher,
                         const struct train_options *options)
{
    const size_t width = options->width;
    struct pass pass;
    if (!pass_create(&pass, options))
        return false;
    for (size_t k = 0; k < options->batches; k++) {
        for (size_t e = 0; e < options->batch; e++) {
            float *x = data->batches + (2 * k * options->batch + e) * width;
            forward(&pass, data, teacher, x, options);
            for (size_t i = 0; i < width; i++)
                x[options->batch * width + i] = (float)pass.y[i];
        }
    }
    free(pass.memory);
    return true;
}

bool train_data_create(struct train_data *data, const struct train_options *options)
{
    const size_t width = options->width,
                 adapters = TRAIN_ADAPTERS * train_adapter_elements(options);
    const size_t examples = 2 * (size_t)options->batches * options->batch;
    uint32_t state = 1;

    data->frozen = malloc(2 * width * width * sizeof(float));
    data->adapters = malloc(adapters * sizeof(float));
    data->batches = malloc(examples * width * sizeof(float));
    float *teacher = malloc(adapters * sizeof(float));
    bool done = data->frozen && data->adapters && data->batches && teacher;
    if (done) {
        fill_random(&state, data->frozen, width * width, 3 / sqrt((double)width));
        fill_random(&state, data->frozen + width * width, width * width, sqrt(6.0 / (double)width));
        // With the usual b of zeros, half of the first step's gradients would be zero.
        fill_adapters(&state, data->adapters, options, 0.1);
        fill_adapters(&state, teacher, options, 0.5);
        fill_random(&state, data->batches, examples * width, 1);
        done = make_targets(data, teacher, options);
    }
    free(teacher);
    if (!done)
        train_data_destroy(data);
    return done;
}

void train_data_destroy(struct train_data *data)
{
    free(data->frozen);
    free(data->adapters);
    free(data->batches);
    *data = (struct train_data) { 0 };
}
