// SPDX-License-Identifier: MIT
// Trains the adapters of a two-layer network. The builder writes the kernels of the network, and a
// step plan does everything after the backward pass: unscaling, clipping, detection, Adam, loss
// scale. Steps are first launched kernel by kernel, then captured into one CUDA graph and replayed;
// both runs must give the same bits. The gradient of one step is set to infinity, to show a skipped
// step.
//
// The default sizes are for a GPU. On the emulator use smaller ones, which take a few seconds:
// train --width 48 --rank 4 --batches 3 --steps 24 --repeats 1.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

enum { EXIT_SKIPPED = 77 };

struct outcomes {
    struct train_outcome direct, captured;
    float milliseconds[2]; // minimum of each form
};

static bool outcome_create(struct train_outcome *outcome, const struct train_options *options)
{
    const size_t n = TRAIN_ADAPTERS * train_adapter_elements(options);
    outcome->history = calloc(options->steps, sizeof *outcome->history);
    outcome->adapters = calloc(n, sizeof *outcome->adapters);
    return outcome->history && outcome->adapters;
}

static void outcome_destroy(struct train_outcome *outcome)
{
    free(outcome->history);
    free(outcome->adapters);
}

// Prints what was checked and whether it holds.
static bool report(bool right, const char *statement)
{
    printf("%-5s %s\n", right ? "OK" : "WRONG", statement);
    return right;
}

// ----------------------------------------------------------------------------------------- checks

// Gradients are rounded to f16, activations to f32.
static bool near(double x, double expected)
{
    return fabs(x - expected) <= 1e-3 * fabs(expected);
}

static bool first_step_right(const struct train_data *data, const struct train_options *options,
                             const struct train_record *first)
{
    double loss, norm;
    if (!train_reference(data, options, &loss, &norm))
        return report(false, "out of memory");
    printf("first step: loss %.6g, norm %.6g; in plain C %.6g, %.6g\n", (double)first->loss,
           (double)first->norm, loss, norm);
    return report(near((double)first->loss, loss) && near((double)first->norm, norm),
                  "loss and norm of the first step are those of plain C");
}

static bool same_bits(const struct train_outcome *x, const struct train_outcome *y,
                      const struct train_options *options)
{
    const size_t n = TRAIN_ADAPTERS * train_adapter_elements(options);
    return memcmp(x->history, y->history, options->steps * sizeof *x->history) == 0 &&
           memcmp(x->adapters, y->adapters, n * sizeof *x->adapters) == 0 &&
           memcmp(&x->progress, &y->progress, sizeof x->progress) == 0;
}

// F-GRAPH-BWD-002.
static bool graph_right(const struct ptx_graph_info *info)
{
    printf("graph: %zu kernels, %zu copies, %zu fills, %zu host functions, %zu others\n",
           info->kernel_nodes, info->memcpy_nodes, info->memset_nodes, info->host_nodes,
           info->other_nodes);
    return report(info->kernel_nodes > 0 && info->nodes == info->kernel_nodes,
                  "the captured step is launches and nothing else");
}

static bool skips_right(const struct train_outcome *run, const struct train_options *options)
{
    const struct train_record *spoilt = &run->history[options->spoilt];
    unsigned skipped = 0, clipped = 0;
    bool right = spoilt->found_inf == 1;
    for (unsigned k = 0; k < options->steps; k++) {
        const struct train_record *record = &run->history[k];
        skipped += record->found_inf != 0;
        clipped += record->norm > options->max_norm && record->found_inf == 0;
        if (record->found_inf != 0 && k + 1 < options->steps)
            right = right && record[1].loss_scale == record->loss_scale / 2;
    }
    printf("clipped: %u of %u steps; skipped: %u, step %u on purpose\n", clipped, options->steps,
           skipped, options->spoilt);
    return report(right && run->progress.step == options->steps &&
                      run->progress.taken == (float)(options->steps - skipped),
                  "the spoilt step was skipped, and the loss scale halved after every skip");
}

// Runs only the spoilt step, from the start.
static bool skipped_step_changes_nothing(struct trainer *trainer, const struct train_data *data,
                                         const struct train_options *options,
                                         struct train_outcome *scratch)
{
    const size_t n = TRAIN_ADAPTERS * train_adapter_elements(options);
    if (!trainer_run(trainer, TRAIN_CAPTURED, options->spoilt, 1, scratch))
        return false;
    return report(memcmp(scratch->adapters, data->adapters, n * sizeof *data->adapters) == 0,
                  "a skipped step leaves every weight as it was");
}

static bool learns(const struct train_outcome *run, const struct train_options *options)
{
    double first = 0, last = 0;
    if (options->steps < 2 * options->batches)
        return true;
    for (unsigned k = 0; k < options->batches; k++) {
        first += (double)run->history[k].loss / options->batches;
        last += (double)run->history[options->steps - 1 - k].loss / options->batches;
    }
    printf("loss over all batches: %.6g at first, %.6g at last\n", first, last);
    return report(last < 0.97 * first, "the loss falls");
}

// ------------------------------------------------------------------------------------------- runs

static void print_history(const struct train_outcome *run, const struct train_options *options)
{
    printf("%6s %12s %12s %12s\n", "step", "loss", "norm", "loss scale");
    for (unsigned k = 0; k < options->steps; k++) {
        const struct train_record *record = &run->history[k];
        const bool skipped = record->found_inf != 0;
        if (skipped || k % (options->steps / 10 + 1) == 0 || k + 1 == options->steps)
            printf("%6u %12.6g %12.6g %12g%s\n", k, (double)record->loss, (double)record->norm,
                   (double)record->loss_scale, skipped ? "  skipped" : "");
    }
}

static void print_times(const struct outcomes *o, const struct train_options *options)
{
    const double direct = (double)o->milliseconds[TRAIN_DIRECT] * 1e3 / options->steps;
    const double captured = (double)o->milliseconds[TRAIN_CAPTURED] * 1e3 / options->steps;
    printf("time of a step: %.2f us launched one by one, %.2f us captured: %.2f times as fast\n",
           direct, captured, direct / captured);
}

// Alternates the two forms. Every run must give the bits of the first one: F-GRAPH-BWD-001, and 004
// of 1,000 steps.
static bool run_both(struct trainer *trainer, const struct train_options *options,
                     struct outcomes *o)
{
    bool same = true;
    double difference = 0;
    for (unsigned k = 0; k < 2 * options->repeats; k++) {
        const enum train_form form = k % 2 ? TRAIN_CAPTURED : TRAIN_DIRECT;
        struct train_outcome *outcome = k == 0 ? &o->direct : &o->captured;
        if (!trainer_run(trainer, form, 0, options->steps, outcome))
            return false;
        if (k < 2 || outcome->milliseconds < o->milliseconds[form])
            o->milliseconds[form] = outcome->milliseconds;
        same = same && (k == 0 || same_bits(&o->direct, outcome, options));
        for (unsigned i = 0; k > 0 && i < options->steps; i++)
            difference = fmax(difference, fabs((double)o->direct.history[i].loss -
                                               (double)outcome->history[i].loss));
    }
    printf("losses of the captured run differ by at most %g\n", difference);
    return report(same && difference == 0,
                  "captured and not: the same losses, norms, loss scales and weights, every bit");
}

static bool train(ptx_device *device, const struct train_options *options,
                  const struct train_data *data, struct outcomes *o)
{
    struct trainer *trainer = trainer_create(device, options, data);
    bool right = trainer && run_both(trainer, options, o);
    if (right) {
        print_history(&o->direct, options);
        right = graph_right(trainer_graph_info(trainer));
        right &= first_step_right(data, options, &o->direct.history[0]);
        right &= skips_right(&o->direct, options);
        right &= skipped_step_changes_nothing(trainer, data, options, &o->captured);
        right &= learns(&o->direct, options);
        if (!strstr(ptx_device_get_info(device)->name, "emulator"))
            print_times(o, options);
    }
    trainer_destroy(&trainer);
    return right;
}

static int run(const struct train_options *options)
{
    struct train_data data;
    struct outcomes o = { 0 };
    ptx_device *device = ptx_device_open(NULL);
    if (!device) {
        const ptx_status status = ptx_error_status();
        const bool none = status == PTX_ERROR_NO_DRIVER || status == PTX_ERROR_NO_DEVICE;
        fprintf(stderr, "train: %s\n",
                none ? "no GPU, not run; PTXGEN_LIBCUDA may name the emulator"
                     : ptx_error_message());
        return none ? EXIT_SKIPPED : 1;
    }
    printf("train on %s: width %u, rank %u, batch %u, %u batches, %u steps\n",
           ptx_device_get_info(device)->name, options->width, options->rank, options->batch,
           options->batches, options->steps);
    bool right = false;
    if (!train_data_create(&data, options)) {
        fprintf(stderr, "train: out of memory\n");
    } else {
        right = outcome_create(&o.direct, options) && outcome_create(&o.captured, options) &&
                train(device, options, &data, &o);
        if (!right)
            fprintf(stderr, "train: %s\n", *ptx_error_message() ? ptx_error_message() : "wrong");
        train_data_destroy(&data);
    }
    outcome_destroy(&o.direct);
    outcome_destroy(&o.captured);
    ptx_device_close(&device);
    return right ? 0 : 1;
}

// ---------------------------------------------------------------------------------------- options

static int emit(void)
{
    ptx_builder *b = ptx_builder_create(NULL);
    train_emit(b);
    const char *text = ptx_builder_finish(b);
    const bool printed = text && fputs(text, stdout) >= 0;
    if (!text)
        fprintf(stderr, "%s\n", b ? ptx_builder_error(b) : "out of memory");
    ptx_builder_destroy(&b);
    return printed ? 0 : 1;
}

static bool take_option(struct train_options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        unsigned *value, most;
    } numbers[] = {
        { "--width", &options->width, 8192 },     { "--rank", &options->rank, 1024 },
        { "--batch", &options->batch, 1024 },     { "--batches", &options->batches, 1024 },
        { "--steps", &options->steps, 1000000 },  { "--spoilt", &options->spoilt, 1000000 },
        { "--repeats", &options->repeats, 1000 },
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        char *end = NULL;
        if (strcmp(name, numbers[k].name) != 0)
            continue;
        const unsigned long number = value ? strtoul(value, &end, 10) : 0;
        *numbers[k].value = (unsigned)number;
        return value && end != value && !*end && number > 0 && number <= numbers[k].most;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct train_options options = {
        .width = 1024,
        .rank = 8,
        .batch = 4,
        .batches = 16,
        .steps = 1000,
        .repeats = 3,
        .max_norm = 0.25f,
    };
    bool understood = true;
    if (argc == 2 && strcmp(argv[1], "--emit") == 0)
        return emit();
    for (int k = 1; understood && k < argc; k += 2)
        understood = take_option(&options, argv[k], argv[k + 1]);
    if (options.spoilt == 0)
        options.spoilt = options.steps / 2;
    if (!understood || options.spoilt >= options.steps) {
        fprintf(stderr,
                "usage: %s [--width N] [--rank N] [--batch N] [--batches N] [--steps N]\n"
                "       [--spoilt STEP] [--repeats N] | --emit\n",
                argv[0]);
        return 2;
    }
    return run(&options);
}
