// SPDX-License-Identifier: MIT
#include "clip/report.h"

#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_ROWS = 40, NAME_WIDTH = 32 };

const char *const clip_policies[CLIP_POLICY_COUNT] = {
    [CLIP_PROPAGATE] = "propagate",
    [CLIP_SKIP] = "skip",
    [CLIP_ZERO] = "zero",
    [CLIP_ERROR] = "error",
};

/// The types of the clipped tensors, or of the others, each once: "F32, BF16".
static void list_dtypes(char *list, size_t size, const struct clip_job *job, bool clipped)
{
    const struct tensor_dtype *seen[32];
    size_t count = 0, used = 0;
    list[0] = '\0';
    for (size_t k = 0; k < job->count; k++) {
        const struct tensor_dtype *dtype = job->tensors[k]->dtype;
        size_t i = 0;
        while (i < count && seen[i] != dtype)
            i++;
        if (i < count || count == 32 || (job->group_of[k] != CLIP_NO_GROUP) != clipped)
            continue;
        seen[count++] = dtype;
        int length = snprintf(list + used, size - used, "%s%s", count > 1 ? ", " : "", dtype->name);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
    }
}

const char *clip_group_title(const struct clip_job *job, const struct clip_group *group,
                             char quoted[QUOTED_SIZE])
{
    if (!job->grouped)
        return "all tensors";
    return group->name ? quote(quoted, group->name) : "(no match)";
}

static void print_groups(FILE *stream, const struct clip_job *job)
{
    fprintf(stream, "%-*s %8s %14s %14s %14s\n", NAME_WIDTH, "group", "tensors", "elements", "norm",
            "factor");
    for (uint32_t g = 0; g < job->group_count; g++) {
        const struct clip_group *group = &job->groups[g];
        char quoted[QUOTED_SIZE];
        if (g == MOST_ROWS) {
            fprintf(stream, "and %" PRIu32 " more group%s; --json has them all\n",
                    job->group_count - g, plural(job->group_count - g));
            return;
        }
        fprintf(stream, "%-*s %8" PRIu64 " %14" PRIu64 " %14.9g %14.9g\n", NAME_WIDTH,
                clip_group_title(job, group, quoted), group->tensors, group->elements,
                (double)group->record.norm, (double)group->record.factor);
    }
}

static void print_nonfinite(FILE *stream, const struct clip_job *job)
{
    static const char *const consequences[] = {
        [CLIP_PROPAGATE] = "it spreads",
        [CLIP_SKIP] = "their gradients are unchanged",
        [CLIP_ZERO] = "their gradients are zeros",
    };
    uint32_t found = 0;
    for (uint32_t g = 0; g < job->group_count; g++)
        found += job->groups[g].record.found_inf != 0.0f;
    if (found > 0)
        fprintf(stream,
                "NaN or infinity in %" PRIu32 " of %" PRIu32 " group%s: %s (--nonfinite %s)\n",
                found, job->group_count, plural(job->group_count), consequences[job->nonfinite],
                clip_policies[job->nonfinite]);
}

static uint64_t file_bytes(const struct clip_job *job)
{
    return 2 * (job->clipped.bytes + job->copied.bytes);
}

static void print_times(FILE *stream, const struct clip_job *job, const struct clip_report *report,
                        const struct clip_end *end)
{
    char rate[RATE_SIZE];
    rate_of(rate, (double)report->bytes, report->seconds);
    if (report->seconds > 0)
        fprintf(stream, "kernels: %.4f ms%s%s (%" PRIu64 " bytes)%s\n", report->seconds * 1e3,
                *rate ? ", " : "", rate, report->bytes,
                report->emulated ? ", the emulator's time" : "");
    else
        fprintf(stream, "kernels: too fast to be timed (%" PRIu64 " bytes)\n", report->bytes);
    rate_of(rate, (double)file_bytes(job), end->seconds);
    fprintf(stream, "from file to file: %.3f s%s%s; ", end->seconds, *rate ? ", " : "", rate);
}

void clip_print(FILE *stream, const struct clip_job *job, const struct clip_report *report,
                const struct clip_end *end)
{
    char dtypes[128];
    list_dtypes(dtypes, sizeof(dtypes), job, true);
    fprintf(stream, "%" PRIu64 " tensor%s (%s), %" PRIu64 " element%s, clipped on %s\n",
            job->clipped.tensors, plural(job->clipped.tensors), *dtypes ? dtypes : "none",
            job->clipped.elements, plural(job->clipped.elements), report->device);
    list_dtypes(dtypes, sizeof(dtypes), job, false);
    if (job->copied.tensors > 0)
        fprintf(stream, "%" PRIu64 " tensor%s of other types (%s) copied without a change\n",
                job->copied.tensors, plural(job->copied.tensors), dtypes);
    print_groups(stream, job);
    print_nonfinite(stream, job);
    print_times(stream, job, report, end);
    if (report->windows > 1)
        fprintf(stream, "in %zu windows, %" PRIu64 " bytes of device memory\n", report->windows,
                report->memory);
    else
        fprintf(stream, "in one piece, %" PRIu64 " bytes of device memory\n", report->memory);
    fprintf(stream, "%s\n", strcmp(end->output, "-") == 0 ? "standard output" : end->output);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *number(double x)
{
    if (isfinite(x))
        return json_real(x);
    return json_string(isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
}

/// A name that is not UTF-8, such as a part of a UTF-8 name, is quoted.
static json_t *name_json(const char *name)
{
    char quoted[QUOTED_SIZE];
    json_t *text = name ? json_string(name) : json_null();
    return text ? text : json_string(quote(quoted, name));
}

static json_t *groups_json(const struct clip_job *job)
{
    json_t *list = json_array();
    for (uint32_t g = 0; g < job->group_count; g++) {
        const struct clip_group *group = &job->groups[g];
        json_t *row = json_pack(
            "{s:o, s:I, s:I, s:I, s:o, s:o, s:b}", "name", name_json(group->name), "tensors",
            (json_int_t)group->tensors, "elements", (json_int_t)group->elements, "bytes",
            (json_int_t)group->bytes, "norm", number((double)group->record.norm), "factor",
            number((double)group->record.factor), "found_inf", group->record.found_inf != 0.0f);
        json_array_append_new(list, row);
    }
    return list;
}

bool clip_print_json(FILE *stream, const struct clip_job *job, const struct clip_report *report,
                     const struct clip_end *end, struct message *error)
{
    json_t *root =
        json_pack("{s:o, s:o, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:f, s:s, s:b, s:o}",
                  "input", name_json(end->input), "output", name_json(end->output), "device",
                  report->device, "emulator", report->emulated, "tensors",
                  (json_int_t)job->clipped.tensors, "elements", (json_int_t)job->clipped.elements,
                  "bytes", (json_int_t)job->clipped.bytes, "copied_tensors",
                  (json_int_t)job->copied.tensors, "copied_bytes", (json_int_t)job->copied.bytes,
                  "max_norm", number((double)job->max_norm), "eps", (double)job->eps, "loss_scale",
                  (double)job->loss_scale, "nonfinite", clip_policies[job->nonfinite], "found_inf",
                  report->summary.found_inf != 0.0f, "groups", groups_json(job));
    json_t *work =
        json_pack("{s:I, s:I, s:f, s:I, s:f}", "windows", (json_int_t)report->windows,
                  "device_memory", (json_int_t)report->memory, "kernel_seconds", report->seconds,
                  "kernel_bytes", (json_int_t)report->bytes, "seconds", end->seconds);
    json_object_update(root, work);
    json_decref(work);
    return json_print(stream, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), error);
}
