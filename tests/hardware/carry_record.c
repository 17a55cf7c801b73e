// SPDX-License-Identifier: MIT
// Runs chains of instructions that pass the carry flag on (carry_chain.c) on a driver
// (PTXGEN_LIBCUDA names it). Compares every result with plain C, and a hash of each chain with that
// of a GPU.
//
//     carry_record [-n COUNT] [-o FILE]    writes lines `chain_<seed> hash` to standard output or
//                                          FILE
//     carry_record -c LINES [-o FILE] ...  compares with the lines of a file; with -o, writes the
//                                          lines and those of the missing chains
//     carry_record -p SEED                 prints the PTX of a chain
//     carry_record -a TARGET [-n COUNT]    has ptxas assemble the chains
#include <ptxgen/driver.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "carry_chain.h"
#include "ptxas_batch.h"
#include "recording.h"

#define PROGRAM "carry_record"
#include "die.h"
#include "owned.h"

enum { THREADS = 64, BATCH = 100, IN_WORDS = CHAIN_LOADS + 1, SHOWN = 5 };

struct run {
    ptx_device *device;
    ptx_buffer *in, *out;
    struct recording recording;
    unsigned wrong, differ;
};

// The module with `count` chains from chain `first` on; the caller frees it.
static char *module_text(unsigned first, unsigned count)
{
    FILE *f = tmpfile();
    struct chain chain;

    if (!f)
        die("temporary file", "cannot be made");
    chain_write_header(f);
    for (unsigned seed = first; seed < first + count; seed++) {
        chain_make(&chain, seed);
        chain_write(f, &chain, seed);
    }
    const long size = ftell(f);
    char *text = size < 0 ? NULL : calloc(1, (size_t)size + 1);
    rewind(f);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size)
        die("temporary file", "cannot be read");
    fclose(f);
    return text;
}

// Compares the results of each thread with plain C. Words that the chain does not write stay 0xcc.
static void expect(struct run *run, unsigned seed, const struct chain *chain,
                   uint64_t in[THREADS][IN_WORDS], uint64_t out[THREADS][CHAIN_RESULTS])
{
    uint64_t wanted[CHAIN_RESULTS];

    for (unsigned t = 0; t < THREADS; t++) {
        memset(wanted, 0xcc, sizeof wanted);
        chain_compute(chain, in[t], wanted);
        if (!memcmp(wanted, out[t], sizeof wanted))
            continue;
        unsigned k = 0;
        while (wanted[k] == out[t][k])
            k++;
        if (run->wrong++ < SHOWN)
            printf("chain %u, thread %u, %s %u: %" PRIx64 ", plain C gives %" PRIx64
                   " (carry_record -p %u prints it)\n",
                   seed, t, k < CHAIN_MOST ? "result" : "flag", k, out[t][k], wanted[k], seed);
        return;
    }
}

static void compare(struct run *run, unsigned seed, uint64_t hash)
{
    char name[32];
    uint64_t wanted;

    snprintf(name, sizeof name, "chain_%u", seed);
    const char *known = recording_find(&run->recording, name);
    if (!known) {
        recording_add(&run->recording, name, "%016" PRIx64, hash);
    } else if (sscanf(known, "%" SCNx64, &wanted) != 1 || wanted != hash) {
        if (run->differ++ < SHOWN)
            printf("%s: %016" PRIx64 ", the GPU gave%.17s\n", name, hash, known);
    }
}

static void run_chain(struct run *run, ptx_module *module, unsigned seed)
{
    uint64_t in[THREADS][IN_WORDS], out[THREADS][CHAIN_RESULTS];
    const CUdeviceptr from = ptx_buffer_address(run->in), to = ptx_buffer_address(run->out);
    const struct ptx_arg args[] = { PTX_ARG(from), PTX_ARG(to) };
    const struct ptx_launch_params launch = {
        .grid = { 1 }, .block = { THREADS }, .args = args, .arg_count = 2
    };
    struct chain chain;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char name[32];

    chain_make(&chain, seed);
    for (unsigned t = 0; t < THREADS; t++) {
        chain_inputs(seed, t, in[t]);
        in[t][CHAIN_LOADS] = 0;
    }
    snprintf(name, sizeof name, "chain_%u", seed);
    const ptx_function *function = ptx_module_function(module, name);
    if (!function)
        die(name, ptx_error_message());
    check(ptx_buffer_upload(run->in, 0, in, sizeof in, NULL));
    check(ptx_buffer_fill(run->out, 0, 0xcc, sizeof out, NULL));
    check(ptx_launch(function, &launch));
    check(ptx_buffer_download(run->out, 0, out, sizeof out, NULL));
    check(ptx_stream_synchronize(run->device, NULL));
    for (unsigned k = 0; k < THREADS * CHAIN_RESULTS; k++) {
        hash = (hash ^ out[k / CHAIN_RESULTS][k % CHAIN_RESULTS]) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 32;
    }
    expect(run, seed, &chain, in, out);
    compare(run, seed, hash);
}

static int run_all(unsigned count, const char *known, const char *out)
{
    struct run run = { .device = ptx_device_open(NULL) };

    if (!run.device)
        return skipped("no GPU: ", ptx_error_message());
    run.in = ptx_buffer_create(run.device, THREADS * IN_WORDS * 8);
    run.out = ptx_buffer_create(run.device, THREADS * CHAIN_RESULTS * 8);
    if (!run.in || !run.out)
        die("memory", ptx_error_message());
    if (!recording_open(&run.recording, known, known || out ? out : "-"))
        return 2;
    for (unsigned first = 1; first <= count; first += BATCH) {
        const unsigned batch = count - first + 1 < BATCH ? count - first + 1 : BATCH;
        ALLOCATED(char) *text = module_text(first, batch);
        OWNED(ptx_module) *module = ptx_module_load(run.device, text, NULL);
        if (!module)
            die("load", ptx_error_message());
        for (unsigned seed = first; seed < first + batch; seed++)
            run_chain(&run, module, seed);
    }
    if (known || out)
        printf("%u chains: %u differ from plain C, %u from the recording\n", count, run.wrong,
               run.differ);
    ptx_buffer_destroy(&run.in);
    ptx_buffer_destroy(&run.out);
    ptx_device_close(&run.device);
    if (!recording_close(&run.recording))
        die(out, "cannot be written");
    return run.wrong || run.differ ? 1 : 0;
}

static int assemble(unsigned count, const char *target)
{
    if (!ptxas_find())
        return skipped("no ptxas", "");
    char *text = module_text(1, count);
    struct ptxas_report report = ptxas_run(text, target);
    for (size_t k = 0; k < report.count && k < SHOWN; k++)
        printf("line %d: %s\n", report.errors[k].line, report.errors[k].text);
    printf("%u chains, %s\n", count, report.accepted ? "accepted by ptxas" : "refused by ptxas");
    const bool accepted = report.accepted;
    ptxas_report_free(&report);
    free(text);
    return accepted ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *known = NULL, *out = NULL, *target = NULL;
    unsigned count = 2000, print = 0;

    for (int k = 1; k < argc; k += 2) {
        const char *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (!value)
            die(argv[k], "needs a value");
        if (!strcmp(argv[k], "-c"))
            known = value;
        else if (!strcmp(argv[k], "-o"))
            out = value;
        else if (!strcmp(argv[k], "-a"))
            target = value;
        else if (!strcmp(argv[k], "-n"))
            count = (unsigned)strtoul(value, NULL, 10);
        else if (!strcmp(argv[k], "-p"))
            print = (unsigned)strtoul(value, NULL, 10);
        else
            die(argv[k], "not an option");
    }
    if (print) {
        ALLOCATED(char) *text = module_text(print, 1);
        fputs(text, stdout);
        return 0;
    }
    return target ? assemble(count, target) : run_all(count, known, out);
}
