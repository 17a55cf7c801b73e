// SPDX-License-Identifier: MIT
// Runs random kernels on a driver (PTXGEN_LIBCUDA names it), and hashes the output of each. The
// hashes of a real GPU are in tests/hardware; a driver that computes the same bits has the same
// hashes.
//
//     differential [-s SEED] [-n COUNT] [-o FILE] [-v FILE]   programs SEED to SEED + COUNT - 1:
//                                   writes lines `seed hash`; to the file of -v, lines with a hash
//                                   of each step
//     differential -c FILE ...      compares with the lines of a file of either kind. Writes the
//                                   PTX of each program that differs to differential-SEED.ptx;
//                                   with a file of -v, also the PTX of only the first wrong step
//                                   and the steps that it needs, to differential-SEED-STEP.ptx
//     differential -k STEP ...      runs that step and those that it needs
//     differential -w FILE ...      writes the output itself, program after program
//     differential -a COUNT [-s SEED]  hands programs to ptxas, for every target that it knows
//     differential -p SEED [-k STEP]  prints the PTX; with -k, of that step and those that it needs
//
// A program depends only on its seed: the alphabet is frozen (random_program_alphabet.c), and
// test_program_texts.c compares the texts with the recorded ones. Results of approximate
// instructions are compared with what PTX documents for their operands. They are not part of the
// hash; neither are the payloads of f64 NaNs (canonical() in random_program_emit.c).
#include "random_program_assemble.h"
#include "random_program_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    uint64_t seed;
    unsigned count, workers, last, assembled;
    const char *out, *verbose, *compare, *words;
    bool print;
};

static FILE *open_file(const char *path, const char *mode)
{
    FILE *f = path ? fopen(path, mode) : stdout;
    if (!f)
        die(path, "cannot be opened");
    return f;
}

static void write_ptx(FILE *to, uint64_t seed, unsigned last)
{
    static struct program p;
    ptx_builder *b = program_builder();

    program_make(&p, seed);
    if (last < PROGRAM_STEPS)
        program_cut(&p, last);
    program_emit(b, &p, "program");
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    fputs(text, to);
    ptx_builder_destroy(&b);
}

static void write_lines(const struct program_run *r, FILE *f, bool verbose)
{
    for (unsigned k = 0; k < r->count; k++) {
        const struct program_result *result = &r->results[k];
        fprintf(f, "%" PRIu64 " %016" PRIx64, r->seed + k, result->hash);
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

static void report(uint64_t seed, const struct program_result *result, const char *steps)
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

static unsigned wrong_results(const struct program_run *r)
{
    unsigned wrong = 0, held = 0, reported = 0;
    char name[OP_CASE_NAME];

    for (unsigned k = 0; k < r->count; k++) {
        const struct program_result *result = &r->results[k];
        const uint64_t *word = result->first.word;
        wrong += result->wrong;
        held += result->held;
        if (!result->wrong || reported++ >= 20)
            continue;
        op_case_name(&result->first.c, name);
        fprintf(stderr,
                "program %" PRIu64 ": %u results are beyond their bound, the first %s of %" PRIx64
                ", %" PRIx64 ": %" PRIx64 "\n",
                r->seed + k, result->wrong, name, word[0], word[1], word[2]);
    }
    fprintf(stderr, "%u approximate results compared with their bound, %u beyond it\n", held,
            wrong);
    return wrong;
}

static unsigned compare(const struct program_run *r, const char *path)
{
    FILE *f = open_file(path, "r");
    unsigned differences = 0, found = 0;
    uint64_t seed, hash;
    char line[1024];
    int used;

    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%" SCNu64 " %" SCNx64 "%n", &seed, &hash, &used) != 2 || seed < r->seed ||
            seed - r->seed >= r->count)
            continue;
        const struct program_result *result = &r->results[seed - r->seed];
        found++;
        if (result->hash != hash && ++differences <= 20)
            report(seed, result, line + used);
    }
    fclose(f);
    printf("%u of %u programs differ\n", differences, found);
    if (found < r->count)
        die(path, "does not have all of these programs");
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
        } else if (!strcmp(argv[k], "-a")) {
            o.assembled = (unsigned)number;
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
    if (!o.count || !o.workers || o.workers > PROGRAM_MAX_WORKERS || (o.words && o.workers > 1))
        die("-n, -j", "out of range; -w goes with one worker, -j 1");
    return o;
}

int main(int argc, char **argv)
{
    const struct options o = options(argc, argv);
    struct program_run r = {
        .seed = o.seed, .count = o.count, .workers = o.workers, .last = o.last
    };

    program_catalogue();
    if (o.print) {
        write_ptx(stdout, o.seed, o.last);
        return 0;
    }
    if (o.assembled)
        return program_assemble(o.seed, o.assembled);
    if (!(r.device = ptx_device_open(NULL)))
        return skipped("no GPU: ", ptx_error_message());
    if (o.words)
        r.words = open_file(o.words, "wb");
    r.results = calloc(r.count, sizeof *r.results);
    if (!r.results)
        die("memory", "too many programs");
    program_run_all(&r);
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
    const unsigned differences = (o.compare ? compare(&r, o.compare) : 0) + wrong_results(&r);
    ptx_device_close(&r.device);
    free(r.results);
    return differences ? 1 : 0;
}
