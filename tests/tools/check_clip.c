// SPDX-License-Identifier: MIT
// Runs `ptxgen clip` from file to file: tensors of all types, with odd sizes at odd addresses,
// clipped in one piece, in windows, and into the input file. Compares every bit of the outputs and
// every number of the report with the reference.
//
//     check_clip PTXGEN FOLDER DEVICE
//
// DEVICE is for the command's --device. The files of a run that fails stay in a new folder within
// FOLDER. Ends with 77 if there is no such device.
#define _POSIX_C_SOURCE 200809L

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "clip_file.h"
#include "data.h"
#include "own_folder.h"

enum { EXIT_SKIPPED = 77, PATH_SIZE = 512, COMMAND_SIZE = 8 * PATH_SIZE };

/// A tensor of the input. Sizes are odd, and the tensors follow each other without a gap, so most
/// start at an odd address.
struct part {
    const char *name;
    const char *dtype;
    uint64_t count;
};

static const struct part small[] = {
    { "flags.b", "BOOL", 3 },   { "a.w", "F32", 5001 }, { "b.w", "F16", 70001 },
    { "a.none", "F16", 0 },     { "step", "I64", 1 },   { "c.w", "F64", 2048 },
    { "b.v", "BF16", 33333 },   { "none.x", "F32", 0 }, { "scale", "F32", 1 },
    { "c.bias", "F32", 10007 }, { "a.v", "F64", 4099 },
};

/// More chunks than threads in a block, in one tensor and over several.
static const struct part large[] = { { "b.w", "F32", 4500001 },
                                     { "a.w", "BF16", 2600001 },
                                     { "b.v", "F16", 3 } };

/// Small tensors that share chunks. Their groups alternate. make_many() sets the names.
static struct part many[1300];

static void make_many(void)
{
    static char names[sizeof many / sizeof *many][16];
    static const char *const dtypes[] = { "F32", "BF16", "F64", "F16", "BOOL" };
    struct random r = { 23 };
    for (unsigned k = 0; k < sizeof many / sizeof *many; k++) {
        snprintf(names[k], sizeof names[k], "%c.%u", "abc"[k % 3], k);
        const uint64_t count = random_below(&r, k % 100 == 7 ? 9000 : 200);
        many[k] = (struct part) { names[k], dtypes[random_below(&r, 5)], count };
    }
}

/// Nothing to clip.
static const struct part none[] = { { "a", "I32", 5 }, { "b", "U8", 0 } };

#define PARTS(list) list, sizeof(list) / sizeof *(list)

static const struct job {
    const char *name;
    const struct part *parts;
    size_t count;
    const char *options; ///< the options that give `told`
    enum data_kind data;
    struct clip_told told;
} jobs[] = {
#define JOB(name, list, data, options, ...)                                                        \
    {                                                                                              \
        name, PARTS(list), options, data,                                                          \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
    JOB("plain", small, DATA_PLAIN, "--max-norm 1", 1, 1e-6f, 1, REF_PROPAGATE, false),
    JOB("groups", small, DATA_PLAIN,
        "--max-norm 0.5 --eps 0 --loss-scale 1024 --group-by '^([^.]*)\\.'", 0.5f, 0, 1024,
        REF_PROPAGATE, true),
    JOB("high", small, DATA_PLAIN, "--max-norm 1e30", 1e30f, 1e-6f, 1, REF_PROPAGATE, false),
    JOB("unscale", small, DATA_PLAIN, "--max-norm inf --loss-scale 3", INFINITY, 1e-6f, 3,
        REF_PROPAGATE, false),
    JOB("wild", small, DATA_WILD, "--max-norm 2 --group-by '^[^.]+\\.'", 2, 1e-6f, 1, REF_PROPAGATE,
        true),
    JOB("propagate", small, DATA_SPECIAL, "--max-norm 1 --nonfinite propagate", 1, 1e-6f, 1,
        REF_PROPAGATE, false),
    JOB("skip", small, DATA_SPECIAL,
        "--max-norm 1 --nonfinite skip --loss-scale 8 --group-by '(.*)\\.'", 1, 1e-6f, 8, REF_SKIP,
        true),
    JOB("zero", small, DATA_SPECIAL, "--max-norm 1 --nonfinite zero --group-by '(.*)\\.'", 1, 1e-6f,
        1, REF_ZERO, true),
    JOB("large", large, DATA_PLAIN, "--max-norm 1 --group-by '(.*)\\.'", 1, 1e-6f, 1, REF_PROPAGATE,
        true),
    JOB("many", many, DATA_PLAIN, "--max-norm 1", 1, 1e-6f, 1, REF_PROPAGATE, false),
    JOB("many groups", many, DATA_PLAIN, "--max-norm 0.5 --loss-scale 8 --group-by '(.*)\\.'", 0.5f,
        1e-6f, 8, REF_PROPAGATE, true),
    JOB("none", none, DATA_PLAIN, "--max-norm 1", 1, 1e-6f, 1, REF_PROPAGATE, false),
#undef JOB
};

// ---- the input ----------------------------------------------------------------------------------

static void fill(const struct part *part, struct random *r, enum data_kind kind,
                 unsigned char *data)
{
    static const struct {
        const char *name;
        enum ref_type type;
    } types[] = {
        { "F32", REF_F32 }, { "F64", REF_F64 }, { "F16", REF_F16 }, { "BF16", REF_BF16 }
    };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (strcmp(part->dtype, types[k].name) == 0) {
            data_fill(r, types[k].type, kind, data, part->count);
            return;
        }
    for (size_t k = 0; k < part->count * tensor_dtype_named(part->dtype)->bytes; k++)
        data[k] = (unsigned char)(random_u64(r) & 1);
}

/// The header has no blanks at its end, so the data starts at an odd place too.
static char *header_of(const struct job *job)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "made by", "check_clip");
    uint64_t begin = 0;
    for (size_t k = 0; k < job->count; k++) {
        const struct part *part = &job->parts[k];
        uint64_t end = begin + part->count * tensor_dtype_named(part->dtype)->bytes;
        json_object_set_new(header, part->name,
                            json_pack("{s:s, s:[I], s:[I, I]}", "dtype", part->dtype, "shape",
                                      (json_int_t)part->count, "data_offsets", (json_int_t)begin,
                                      (json_int_t)end));
        begin = end;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

static bool write_input(const struct job *job, const char *path)
{
    struct random r = { 17 };
    FILE *file = fopen(path, "wb");
    char *header = header_of(job);
    bool written = file && header;
    if (written) {
        unsigned char prefix[8];
        for (unsigned k = 0; k < 8; k++)
            prefix[k] = (unsigned char)((uint64_t)strlen(header) >> 8 * k);
        fwrite(prefix, 1, 8, file);
        fputs(header, file);
    }
    for (size_t k = 0; k < job->count && written; k++) {
        size_t bytes = (size_t)job->parts[k].count * tensor_dtype_named(job->parts[k].dtype)->bytes;
        unsigned char *data = malloc(bytes + 1);
        if (data)
            fill(&job->parts[k], &r, job->data, data);
        written = data && fwrite(data, 1, bytes, file) == bytes;
        free(data);
    }
    free(header);
    if (file && fclose(file) != 0)
        written = false;
    if (!written)
        fprintf(stderr, "%s: cannot be written\n", path);
    return written;
}

// ---- one run ------------------------------------------------------------------------------------

/// The files of a job.
struct files {
    char in[PATH_SIZE], out[PATH_SIZE], other[PATH_SIZE], report[PATH_SIZE];
};

struct place {
    const char *ptxgen, *device;
};

/// Runs the command and reads its report. On a failure returns NULL and sets the exit status.
static json_t *run(const struct job *job, const struct place *place, const char *in,
                   const char *out, const char *more, const char *report_path, int *exit_status)
{
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command,
             "'%s' clip '%s' %s --device '%s' --output '%s' --json %s >'%s'", place->ptxgen, in,
             job->options, place->device, out, more, report_path);
    printf("$ %s\n", command);
    fflush(stdout);
    int status = system(command);
    *exit_status = 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED)
        *exit_status = EXIT_SKIPPED;
    json_error_t error;
    json_t *report = status == 0 ? json_load_file(report_path, 0, &error) : NULL;
    if (status == 0 && !report)
        fprintf(stderr, "%s: %s\n", report_path, error.text);
    return report;
}

static bool same_number(json_t *value, float want)
{
    if (isfinite(want))
        return json_is_number(value) && (float)json_number_value(value) == want;
    const char *text = json_string_value(value);
    return text && strcmp(text, isnan(want) ? "nan" : "inf") == 0;
}

static bool report_is_right(const struct job *job, const json_t *report,
                            const struct clip_found *found)
{
    json_t *groups = json_object_get(report, "groups");
    size_t matched = 0;
    uint64_t elements = (uint64_t)json_integer_value(json_object_get(report, "elements"));
    for (size_t k = 0; k < json_array_size(groups); k++) {
        json_t *row = json_array_get(groups, k);
        const char *name = json_string_value(json_object_get(row, "name"));
        size_t length = name ? strcspn(name, ".") : 0;
        for (uint32_t g = 0; g < found->group_count; g++) {
            const float *record = found->records[g];
            if (strncmp(found->names[g], name ? name : "", length) == 0 &&
                found->names[g][length] == '\0' &&
                same_number(json_object_get(row, "factor"), record[0]) &&
                same_number(json_object_get(row, "norm"), record[1]) &&
                json_is_true(json_object_get(row, "found_inf")) == (record[2] != 0))
                matched++;
        }
    }
    // For a file without gradients, the command has one group, and the reference none.
    if (elements == found->elements && matched == found->group_count &&
        json_array_size(groups) == (found->group_count ? found->group_count : 1))
        return true;
    fprintf(stderr, "%s: the report is not right\n", job->name);
    return false;
}

static bool same_files(const char *x, const char *y)
{
    char command[COMMAND_SIZE];
    snprintf(command, sizeof command, "cmp '%s' '%s'", x, y);
    return system(command) == 0;
}

// ---- the three runs of a job --------------------------------------------------------------------

/// The caller releases *whole, the report.
static int run_whole(const struct job *job, const struct place *place, const struct files *files,
                     json_t **whole)
{
    struct clip_found found;
    int status;
    json_t *report = run(job, place, files->in, files->out, "", files->report, &status);
    if (!report)
        return status;
    bool right = json_integer_value(json_object_get(report, "windows")) == 1 &&
                 clip_file_compare(files->in, files->out, &job->told, &found) && found.wrong == 0 &&
                 report_is_right(job, report, &found);
    *whole = report;
    return right ? 0 : 1;
}

/// With little memory the tensors are loaded in turn. The output and the numbers must be the same.
static int run_windows(const struct job *job, const struct place *place, const struct files *files,
                       const json_t *whole, int64_t bytes)
{
    char more[64];
    int status;
    int64_t memory = json_integer_value(json_object_get(whole, "device_memory"));
    memory -= bytes - bytes / 7;
    snprintf(more, sizeof more, "--memory %lld", (long long)memory);
    json_t *report = run(job, place, files->in, files->other, more, files->report, &status);
    if (!report)
        return status;
    bool right = json_integer_value(json_object_get(report, "windows")) > 2 &&
                 json_integer_value(json_object_get(report, "device_memory")) <= memory &&
                 json_equal(json_object_get(report, "groups"), json_object_get(whole, "groups")) &&
                 same_files(files->out, files->other);
    json_decref(report);
    return right ? 0 : 1;
}

static int run_in_place(const struct job *job, const struct place *place, const struct files *files)
{
    char command[COMMAND_SIZE];
    int status;
    snprintf(command, sizeof command, "cp '%s' '%s'", files->in, files->other);
    if (system(command) != 0)
        return 1;
    json_t *report = run(job, place, files->other, files->other, "", files->report, &status);
    if (!report)
        return status;
    json_decref(report);
    return same_files(files->out, files->other) ? 0 : 1;
}

/// The bytes of the gradients, with each one's distance to a multiple of 256 at its end.
static int64_t window_bytes(const struct job *job)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < job->count; k++) {
        const struct tensor_dtype *dtype = tensor_dtype_named(job->parts[k].dtype);
        if (dtype->name[0] == 'F' || dtype->type == PTX_BF16)
            bytes += (int64_t)((job->parts[k].count * dtype->bytes + 255) / 256 * 256);
    }
    return bytes;
}

static int run_job(const struct job *job, const struct place *place, const char *folder)
{
    struct files files;
    int64_t bytes = window_bytes(job);
    json_t *whole = NULL;
    snprintf(files.in, PATH_SIZE, "%s/clip.%s.%s.in", folder, job->name, place->device);
    snprintf(files.out, PATH_SIZE, "%s/clip.%s.%s.out", folder, job->name, place->device);
    snprintf(files.other, PATH_SIZE, "%s/clip.%s.%s.other", folder, job->name, place->device);
    snprintf(files.report, PATH_SIZE, "%s/clip.%s.%s.json", folder, job->name, place->device);
    if (!write_input(job, files.in))
        return 1;
    int status = run_whole(job, place, &files, &whole);
    if (status == 0 && bytes > 0)
        status = run_windows(job, place, &files, whole, bytes);
    json_decref(whole);
    if (status == 0)
        status = run_in_place(job, place, &files);
    if (status != 1) {
        remove(files.in);
        remove(files.out);
        remove(files.other);
        remove(files.report);
    }
    if (status != EXIT_SKIPPED)
        printf("%s: %s\n\n", status == 0 ? "same bits as the reference" : "FAILED", job->name);
    return status;
}

int main(int argc, char **argv)
{
    int failed = 0, done = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: check_clip PTXGEN FOLDER DEVICE\n");
        return 2;
    }
    const struct place place = { argv[1], argv[3] };
    char folder[OWN_FOLDER_SIZE];
    own_folder(folder, argv[2], "check_clip");
    make_many();
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        int status = run_job(&jobs[k], &place, folder);
        if (status == EXIT_SKIPPED) {
            rmdir(folder);
            fprintf(stderr, "SKIPPED: no GPU for ptxgen clip\n");
            return EXIT_SKIPPED;
        }
        failed += status;
        done++;
    }
    rmdir(folder);
    printf("ptxgen clip: %d of %d give the reference's bits\n", done - failed, done);
    return failed != 0;
}
