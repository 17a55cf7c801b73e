// SPDX-License-Identifier: MIT
// Kernels made at random, run on whatever driver serves (PTXGEN_LIBCUDA chooses), and a hash of all
// that each writes. The hashes of a real GPU are kept in tests/hardware; a driver that computes the
// same gives the same, bit for bit.
//
//     differential [-s SEED] [-n COUNT] [-o FILE] [-v FILE]   programs SEED to SEED + COUNT - 1:
//                                   lines `seed hash`; in the file of -v with a hash of each step
//     differential -c FILE ...      compares with the lines of a file, either kind, and writes the
//                                   PTX of each program that differs to differential-SEED.ptx; of
//                                   a file of -v, what the first wrong step needs alone to
//                                   differential-SEED-STEP.ptx
//     differential -w FILE ...      writes the words themselves, program after program
//     differential -p SEED [-k STEP]  prints the PTX; with -k, of that step and what it needs alone
//
// A program depends on its seed and on the instruction table: a change of the table makes other
// programs, whose lines have to be recorded anew (tests/hardware/record.sh). The results of
// approximate instructions are held against what PTX documents of their operands, and are not part
// of the hash, as f64 NaN payloads are not: see canonical() in random_program_emit.c.
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "approximate.h"
#include "random_program.h"

enum { BATCH = 32, MAX_WORKERS = 64 };

struct result {
    uint64_t hash;
    uint64_t step[PROGRAM_STEPS];
    unsigned steps;
    unsigned held, wrong; // results of approximate instructions
    struct {
        struct op_case c;
        uint64_t word[3];
    } first; // that is wrong
    struct op_case approximate[PROGRAM_APPROXIMATES];
    unsigned approximates;
};

struct options {
    uint64_t seed;
    unsigned count, workers, last;
    const char *out, *verbose, *compare, *words;
    bool print;
};

struct run {
    const struct options *o;
    ptx_device *device;
    ptx_buffer *in;
    struct result *results;
    pthread_mutex_t lock;
    unsigned next;
    FILE *words;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "differential: %s: %s\n", what, why);
    exit(2);
}

static void check(ptx_status status)
{
    if (status != PTX_OK)
        die("driver", ptx_error_message());
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *f = path ? fopen(path, mode) : stdout;
    if (!f)
        die(path, "cannot be opened");
    return f;
}

static ptx_builder *new_builder(void)
{
    const struct ptx_builder_params params = { .target = { .sm = 90 } };
    return ptx_builder_create(&params);
}

static void write_ptx(FILE *to, uint64_t seed, unsigned last)
{
    static struct program p;
    ptx_builder *b = new_builder();

    program_plan(&p, seed);
    if (last < PROGRAM_STEPS)
        program_cut(&p, last);
    program_emit(b, &p, "program");
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    fputs(text, to);
    ptx_builder_destroy(&b);
}

// ---- running ------------------------------------------------------------------------------------

static uint64_t hash_words(const uint64_t *w, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t k = 0; k < count; k++) {
        hash = (hash ^ w[k]) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 32;
    }
    return hash;
}

// Holds each result against what PTX documents, where the thread has come by; and takes it out.
static void take_approximate(struct result *result, uint64_t *words)
{
    const uint64_t untouched = UINT64_C(0xcccccccccccccccc);

    for (unsigned k = 0; k < result->approximates * PROGRAM_THREADS; k++) {
        const struct op_case *c = &result->approximate[k / PROGRAM_THREADS];
        const unsigned width = 8 * ptx_type_bytes(c->type);
        const uint64_t mask = width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;
        uint64_t *at = words + PROGRAM_APPROXIMATE + 3 * k;

        if (at[0] == untouched && at[1] == untouched && at[2] == untouched)
            continue;
        result->held++;
        const uint64_t x = at[0] & mask, y = at[1] & mask, z = at[2] & mask;
        at[2] = 0;
        if (approximate_error(c, x, y, z).right || result->wrong++)
            continue;
        result->first.c = *c;
        memcpy(result->first.word, (const uint64_t[]) { x, y, z }, sizeof result->first.word);
    }
}

// A launch that fails takes the device's context with it: no program after it can be run.
static void launched(uint64_t seed, ptx_status status)
{
    if (status == PTX_OK)
        return;
    fprintf(stderr, "program %" PRIu64 ": ", seed);
    check(status);
}

static void run_program(struct run *r, const ptx_function *function, ptx_buffer *out,
                        CUstream stream, uint64_t seed)
{
    struct result *result = &r->results[seed - r->o->seed];
    uint64_t words[PROGRAM_WORDS];
    const CUdeviceptr in = ptx_buffer_address(r->in), to = ptx_buffer_address(out);
    const struct ptx_arg args[] = { PTX_ARG(in), PTX_ARG(to) };
    const struct ptx_launch_params launch = {
        .grid = { PROGRAM_GRID }, .stream = stream, .args = args, .arg_count = 2
    };

    check(ptx_buffer_fill(out, 0, 0xcc, sizeof words, stream));
    launched(seed, ptx_launch(function, &launch));
    launched(seed, ptx_buffer_download(out, 0, words, sizeof words, stream));
    launched(seed, ptx_stream_synchronize(r->device, stream));
    if (r->words && fseek(r->words, (long)((seed - r->o->seed) * sizeof words), SEEK_SET) == 0)
        fwrite(words, sizeof words, 1, r->words);
    take_approximate(result, words);
    result->hash = hash_words(words, PROGRAM_WORDS);
    for (unsigned k = 0; k < PROGRAM_STEPS; k++)
        result->step[k] = hash_words(words + k * PROGRAM_THREADS, PROGRAM_THREADS);
}

static void run_batch(struct run *r, unsigned first, struct program *p, ptx_buffer *out,
                      CUstream stream)
{
    const unsigned left = r->o->count - first, count = left < BATCH ? left : BATCH;
    ptx_builder *b = new_builder();
    char name[16];

    for (unsigned k = 0; k < count; k++) {
        snprintf(name, sizeof name, "program_%u", k);
        program_plan(p, r->o->seed + first + k);
        program_emit(b, p, name);
        r->results[first + k].steps = p->steps;
        r->results[first + k].approximates = p->approximates;
        memcpy(r->results[first + k].approximate, p->approximate, sizeof p->approximate);
    }
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    ptx_module *module =
        ptx_module_load(r->device, text, &(struct ptx_module_params) { .stream = stream });
    if (!module)
        die("load", ptx_error_message());
    for (unsigned k = 0; k < count; k++) {
        snprintf(name, sizeof name, "program_%u", k);
        const ptx_function *function = ptx_module_function(module, name);
        if (!function)
            die(name, ptx_error_message());
        run_program(r, function, out, stream, r->o->seed + first + k);
    }
    ptx_module_unload(&module);
    ptx_builder_destroy(&b);
}

static void *work(void *user)
{
    struct run *r = user;
    struct program *p = calloc(1, sizeof *p);
    ptx_buffer *out = ptx_buffer_create(r->device, PROGRAM_WORDS * 8);
    CUstream stream = ptx_stream_create(r->device);

    if (!p || !out || !stream)
        die("memory", ptx_error_message());
    for (;;) {
        pthread_mutex_lock(&r->lock);
        const unsigned first = r->next;
        r->next += BATCH;
        pthread_mutex_unlock(&r->lock);
        if (first >= r->o->count)
            break;
        run_batch(r, first, p, out, stream);
    }
    ptx_stream_destroy(r->device, &stream);
    ptx_buffer_destroy(&out);
    free(p);
    return NULL;
}

static void run_all(struct run *r)
{
    static unsigned char in[PROGRAM_IN_BYTES];
    pthread_t thread[MAX_WORKERS];

    program_inputs(in);
    r->in = ptx_buffer_create(r->device, sizeof in);
    r->results = calloc(r->o->count, sizeof *r->results);
    if (!r->in || !r->results)
        die("memory", ptx_error_message());
    check(ptx_buffer_upload(r->in, 0, in, sizeof in, NULL));
    check(ptx_stream_synchronize(r->device, NULL));
    pthread_mutex_init(&r->lock, NULL);
    for (unsigned k = 0; k < r->o->workers; k++)
        if (pthread_create(&thread[k], NULL, work, r))
            die("threads", "cannot be started");
    for (unsigned k = 0; k < r->o->workers; k++)
        pthread_join(thread[k], NULL);
    pthread_mutex_destroy(&r->lock);
    ptx_buffer_destroy(&r->in);
}

// ---- results ------------------------------------------------------------------------------------

static void write_lines(const struct run *r, FILE *f, bool verbose)
{
    for (unsigned k = 0; k < r->o->count; k++) {
        const struct result *result = &r->results[k];
        fprintf(f, "%" PRIu64 " %016" PRIx64, r->o->seed + k, result->hash);
        for (unsigned s = 0; verbose && s < result->steps; s++)
            fprintf(f, " %016" PRIx64, result->step[s]);
        fputc('\n', f);
    }
}

static void write_program(uint64_t seed, unsigned last)
{
    char path[64];

    if (last < PROGRAM_STEPS)
        snprintf(path, sizeof path, "differential-%" PRIu64 "-%u.ptx", seed, last);
    else
        snprintf(path, sizeof path, "differential-%" PRIu64 ".ptx", seed);
    FILE *f = open_file(path, "w");
    write_ptx(f, seed, last);
    fclose(f);
}

static void report(uint64_t seed, const struct result *result, const char *steps)
{
    uint64_t hash;
    int used;

    printf("program %" PRIu64 " differs", seed);
    for (unsigned s = 0; s < result->steps && sscanf(steps, "%" SCNx64 "%n", &hash, &used) == 1;
         s++, steps += used)
        if (hash != result->step[s]) {
            printf(" from step %u on", s);
            write_program(seed, s);
            break;
        }
    printf("\n");
    write_program(seed, PROGRAM_STEPS);
}

static unsigned wrong_results(const struct run *r)
{
    unsigned wrong = 0, held = 0, reported = 0;
    char name[OP_CASE_NAME];

    for (unsigned k = 0; k < r->o->count; k++) {
        const struct result *result = &r->results[k];
        const uint64_t *word = result->first.word;
        wrong += result->wrong;
        held += result->held;
        if (!result->wrong || reported++ >= 20)
            continue;
        op_case_name(&result->first.c, name);
        fprintf(stderr,
                "program %" PRIu64 ": %u results are beyond their bound, the first %s of %" PRIx64
                ", %" PRIx64 ": %" PRIx64 "\n",
                r->o->seed + k, result->wrong, name, word[0], word[1], word[2]);
    }
    fprintf(stderr, "%u approximate results held against their bound, %u beyond it\n", held, wrong);
    return wrong;
}

static unsigned compare(const struct run *r)
{
    FILE *f = open_file(r->o->compare, "r");
    unsigned differences = 0, found = 0, left_out = 0;
    uint64_t seed, hash;
    char line[1024];
    int used;

    while (fgets(line, sizeof line, f)) {
        const bool out = strstr(line, " left out") != NULL;
        if (sscanf(line, "%" SCNu64 " %" SCNx64 "%n", &seed, &hash, &used) != (out ? 1 : 2) ||
            seed < r->o->seed || seed - r->o->seed >= r->o->count)
            continue;
        const struct result *result = &r->results[seed - r->o->seed];
        found++;
        left_out += out;
        if (out || result->hash == hash)
            continue;
        if (++differences <= 20)
            report(seed, result, line + used);
    }
    fclose(f);
    printf("%u of %u programs differ, %u left out\n", differences, found - left_out, left_out);
    if (found < r->o->count)
        die(r->o->compare, "has not all of these programs");
    return differences;
}

static struct options options(int argc, char **argv)
{
    struct options o = { .seed = 1, .count = 500, .workers = 4, .last = PROGRAM_STEPS };

    for (int k = 1; k + 1 < argc; k += 2) {
        const char *value = argv[k + 1];
        const unsigned long long number = strtoull(value, NULL, 10);
        if (!strcmp(argv[k], "-s") || !strcmp(argv[k], "-p")) {
            o.seed = number;
            o.print |= argv[k][1] == 'p';
        } else if (!strcmp(argv[k], "-n")) {
            o.count = (unsigned)number;
        } else if (!strcmp(argv[k], "-j")) {
            o.workers = (unsigned)number;
        } else if (!strcmp(argv[k], "-k")) {
            o.last = (unsigned)number;
        } else if (!strcmp(argv[k], "-o")) {
            o.out = value;
        } else if (!strcmp(argv[k], "-v")) {
            o.verbose = value;
        } else if (!strcmp(argv[k], "-w")) {
            o.words = value;
        } else if (!strcmp(argv[k], "-c")) {
            o.compare = value;
        } else {
            die(argv[k], "not an option");
        }
    }
    if (!o.count || !o.workers || o.workers > MAX_WORKERS || (o.words && o.workers > 1))
        die("-n, -j", "out of range; -w goes with one worker, -j 1");
    return o;
}

int main(int argc, char **argv)
{
    const struct options o = options(argc, argv);
    struct run r = { .o = &o };

    program_catalogue();
    if (o.print) {
        write_ptx(stdout, o.seed, o.last);
        return 0;
    }
    if (!(r.device = ptx_device_open(NULL))) {
        fprintf(stderr, "differential: nothing to run on: %s\n", ptx_error_message());
        return 77;
    }
    if (o.words)
        r.words = open_file(o.words, "wb");
    run_all(&r);
    if (r.words)
        fclose(r.words);
    if (o.verbose) {
        FILE *f = open_file(o.verbose, "w");
        write_lines(&r, f, true);
        fclose(f);
    }
    if (o.out || !o.compare) {
        FILE *f = open_file(o.out, "w");
        write_lines(&r, f, false);
        if (o.out)
            fclose(f);
    }
    const unsigned differences = (o.compare ? compare(&r) : 0) + wrong_results(&r);
    ptx_device_close(&r.device);
    free(r.results);
    return differences ? 1 : 0;
}
