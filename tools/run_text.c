// SPDX-License-Identifier: MIT
#include "run_text.h"

#include "emulator.h"
#include "launch_args.h"
#include "ptxas.h"
#include "run_report.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(struct message *error, const char *format, ...) PTXGEN_PRINTF(2, 3);

static int usage(struct message *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

// ---- the words of the command line --------------------------------------------------------------

struct geometry {
    unsigned grid[3], block[3];
    size_t shared;
    uint64_t seed;
};

static bool parse_number(const char *text, const char **end, uint64_t *value)
{
    char *stop = NULL;
    errno = 0;
    *value = *text >= '0' && *text <= '9' ? strtoull(text, &stop, 10) : 0;
    *end = stop;
    return stop && errno == 0;
}

/// "4", "4,2" or "4x2x1".
static int parse_shape(const char *option, const char *text, unsigned shape[3],
                       struct message *error)
{
    char quoted[QUOTED_SIZE];
    const char *at = text;
    uint64_t value;
    for (int k = 0; k < 3; k++)
        shape[k] = 1;
    for (int k = 0; k < 3; k++) {
        const char *end;
        if (!parse_number(at, &end, &value) || value > UINT32_MAX)
            break;
        if (value == 0)
            return usage(error, "--%s %s: a size of 0 launches nothing", option, text);
        shape[k] = (unsigned)value;
        if (*end == '\0')
            return EXIT_DONE;
        if (*end != ',' && *end != 'x')
            break;
        at = end + 1;
    }
    return usage(error, "--%s %s: give 1 to 3 numbers, as 4 or 4,2,1", option, quote(quoted, text));
}

static int parse_count(const char *option, const char *text, uint64_t *value, struct message *error)
{
    char quoted[QUOTED_SIZE];
    const char *end;
    *value = 0;
    if (text && (!parse_number(text, &end, value) || *end))
        return usage(error, "--%s %s: give a number from 0", option, quote(quoted, text));
    return EXIT_DONE;
}

static int read_words(const struct run_text_params *params, struct geometry *geometry,
                      struct message *error)
{
    uint64_t shared;
    int status = EXIT_DONE;
    if (!params->grid)
        return usage(error, "--grid is missing: how many blocks? as 4 or 4,2,1");
    status = parse_shape("grid", params->grid, geometry->grid, error);
    if (status == EXIT_DONE && params->block)
        status = parse_shape("block", params->block, geometry->block, error);
    if (status == EXIT_DONE)
        status = parse_count("shared", params->shared, &shared, error);
    if (status == EXIT_DONE)
        status = parse_count("seed", params->seed, &geometry->seed, error);
    if (status != EXIT_DONE)
        return status;
    geometry->shared = (size_t)shared;
    if (params->sanitize && strcmp(params->sanitize, "on") != 0 &&
        strcmp(params->sanitize, "warn") != 0 && strcmp(params->sanitize, "off") != 0)
        return usage(error, "--sanitize takes on, warn or off");
    return launch_args_check(&params->args, error) ? EXIT_DONE : EXIT_USAGE;
}

static bool same_file(const char *path, const struct stat *present)
{
    struct stat status;
    return strcmp(path, "-") != 0 && stat(path, &status) == 0 && status.st_dev == present->st_dev &&
           status.st_ino == present->st_ino;
}

/// The output must not take the place of what is read: it has other contents.
static int check_files(const struct run_text_params *params, struct message *error)
{
    struct stat present;
    unsigned streams = strcmp(params->path, "-") == 0;
    for (size_t k = 0; k < params->inputs->count; k++)
        streams += strcmp(params->inputs->items[k], "-") == 0;
    if (streams > 1)
        return usage(error, "- is given twice: standard input is one file");
    if (!params->output)
        return EXIT_DONE;
    if (output_replaces(params->output, &present)) {
        bool same = same_file(params->path, &present);
        for (size_t k = 0; k < params->inputs->count; k++)
            same = same || same_file(params->inputs->items[k], &present);
        if (same)
            return usage(error, "--output %s is a file that is read: name another one",
                         params->output);
    }
    return output_check(params->output, params->force, error) ? EXIT_DONE : EXIT_FAILED;
}

// ---- the run ------------------------------------------------------------------------------------

struct run {
    const struct run_text_params *params;
    struct geometry geometry;
    char *text;
    struct array_files files;
    bool presented; ///< the emulated device is that of the text
    struct opened opened;
    CUstream stream;
    CUevent begin, end;
    ptx_module *module;
    ptx_function *function;
    const struct ptx_function_info *info;
    struct launch_args args;
    ptx_buffer **buffers; ///< of the arguments that are arrays
    CUdeviceptr *addresses;
    float milliseconds;
};

/// The environment of the emulator, before it is loaded. The command prints its report; warnings
/// have nothing but the log.
static bool prepare_emulator(struct run *run)
{
    const char *sanitize = run->params->sanitize;
    run->presented = present_target(run->text);
    if (sanitize && setenv("PTXGEN_EMU_SANITIZE",
                           strcmp(sanitize, "on") == 0    ? "1"
                           : strcmp(sanitize, "off") == 0 ? "0"
                                                          : sanitize,
                           1) != 0)
        return false;
    const char *mode = getenv("PTXGEN_EMU_SANITIZE");
    return (mode && strcmp(mode, "warn") == 0) || setenv("PTXGEN_EMU_LOG", "/dev/null", 0) == 0;
}

/// Whether there is a device, before anything is read: the command may have to start again.
static int find_device(const struct place *place, struct message *error)
{
    int devices;
    if (place->chosen || emulator_is_ruled_out() || ptx_device_count(&devices) == PTX_OK)
        return EXIT_DONE;
    const int status = gpu_error(error);
    if (status == EXIT_NOTHING)
        emulator_advise(error, false);
    return status;
}

static int open_device(struct run *run, const struct place *place, struct message *error)
{
    if (!prepare_emulator(run)) {
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    int status = place_open(place, &run->opened, error);
    if (status == EXIT_FAILED && run->presented)
        lacks_target(error);
    if (status != EXIT_DONE)
        return status;
    if (run->params->sanitize && !run->opened.emulated)
        return usage(error, "--sanitize is of the emulator: add --device emulator, or on a GPU run "
                            "compute-sanitizer ptxgen run ...");
    run->stream = ptx_stream_create(run->opened.device);
    run->begin = run->stream ? ptx_event_create(run->opened.device) : NULL;
    run->end = run->begin ? ptx_event_create(run->opened.device) : NULL;
    return run->end ? EXIT_DONE : gpu_error(error);
}

/// The name within a mangled one, _Z4copyPf: what a user of nvcc calls the kernel.
static bool is_mangled(const char *symbol, const char *name)
{
    char *end;
    if (strncmp(symbol, "_Z", 2) != 0 || symbol[2] < '1' || symbol[2] > '9')
        return false;
    const unsigned long length = strtoul(symbol + 2, &end, 10);
    return length == strlen(name) && strncmp(end, name, length) == 0;
}

static int choose(struct run *run, struct message *error)
{
    const char *entry = run->params->entry;
    unsigned matches = 0;
    ptx_function *function, *found = NULL;
    for (size_t k = 0; (function = ptx_module_function_at(run->module, k)); k++) {
        const char *name = ptx_function_get_info(function)->name;
        if (entry && strcmp(name, entry) == 0) {
            run->function = function;
            return EXIT_DONE;
        }
        if (!entry || is_mangled(name, entry)) {
            found = function;
            matches++;
        }
    }
    if (matches == 1) {
        run->function = found;
        return EXIT_DONE;
    }
    if (entry)
        usage(error, "--entry %s: %s %s has", entry,
              matches ? "several kernels have this name;" : "no such kernel;", run->params->path);
    else
        usage(error, "%s: %s has", matches ? "--entry is missing" : "nothing to run",
              run->params->path);
    const char *separator = "";
    for (size_t k = 0; (function = ptx_module_function_at(run->module, k)); k++, separator = ",")
        message_add(error, "%s %s", separator, ptx_function_get_info(function)->name);
    if (!*separator)
        message_add(error, " no .visible .entry");
    return EXIT_USAGE;
}

static int load(struct run *run, struct message *error)
{
    run->module = ptx_module_load(run->opened.device, run->text,
                                  &(struct ptx_module_params) { .line_info = true });
    if (!run->module) {
        int status = gpu_error(error);
        place_errors(error, run->params->path);
        return status;
    }
    int status = choose(run, error);
    if (status == EXIT_DONE)
        run->info = ptx_function_get_info(run->function);
    return status;
}

static int check_block(struct run *run, struct message *error)
{
    const int *required = run->info->required_block;
    unsigned *block = run->geometry.block;
    if (!block[0] && !required[0])
        return usage(error, "--block is missing: how many threads has a block? as 256 or 16,16");
    for (int k = 0; k < 3; k++) {
        if (!run->params->block)
            block[k] = (unsigned)required[k];
        if (required[0] && block[k] != (unsigned)required[k])
            return usage(error, "--block %s: the kernel's .reqntid is %d,%d,%d", run->params->block,
                         required[0], required[1], required[2]);
    }
    return EXIT_DONE;
}

static int check_geometry(struct run *run, struct message *error)
{
    const struct ptx_device_info *device = ptx_device_get_info(run->opened.device);
    const struct geometry *geometry = &run->geometry;
    int status = check_block(run, error);
    if (status != EXIT_DONE)
        return status;
    uint64_t threads = 1, blocks = 1;
    for (int k = 0; k < 3; k++) {
        if (geometry->grid[k] > (unsigned)device->max_grid[k])
            return usage(error, "--grid %s: at most %d blocks in %c", run->params->grid,
                         device->max_grid[k], "xyz"[k]);
        if (geometry->block[k] > (unsigned)device->max_block[k])
            return usage(error, "--block %s: at most %d threads in %c", run->params->block,
                         device->max_block[k], "xyz"[k]);
        threads *= geometry->block[k];
        blocks *= geometry->grid[k];
    }
    if (threads > (uint64_t)run->info->max_threads_per_block)
        return usage(error,
                     "--block %s: %" PRIu64 " threads, and a block of this kernel has at most %d",
                     run->params->block, threads, run->info->max_threads_per_block);
    if (geometry->shared > (size_t)run->info->max_dynamic_shared)
        return usage(error, "--shared %zu: this kernel may have at most %d bytes on this device",
                     geometry->shared, run->info->max_dynamic_shared);
    int resident = 0;
    if (run->params->cooperative &&
        ptx_function_occupancy(run->function, (int)threads, geometry->shared, &resident) != PTX_OK)
        return gpu_error(error);
    const uint64_t most = (uint64_t)resident * (uint64_t)device->multiprocessors;
    if (run->params->cooperative && blocks > most)
        return usage(error,
                     "--cooperative: %" PRIu64 " blocks, and %" PRIu64 " are resident at once",
                     blocks, most);
    return EXIT_DONE;
}

static ptx_status upload(struct run *run)
{
    for (size_t k = 0; k < run->args.count; k++) {
        struct launch_arg *arg = &run->args.items[k];
        if (!arg->is_array)
            continue;
        run->buffers[k] = ptx_buffer_create(run->opened.device, (size_t)arg->array.bytes);
        if (!run->buffers[k])
            return ptx_error_status();
        run->addresses[k] = ptx_buffer_address(run->buffers[k]);
        arg->value = &run->addresses[k];
        if (arg->spec.fill == ARRAY_UNINITIALISED)
            continue;
        const ptx_status status = ptx_buffer_upload(run->buffers[k], 0, arg->array.data,
                                                    (size_t)arg->array.bytes, run->stream);
        if (status != PTX_OK)
            return status;
    }
    return PTX_OK;
}

static ptx_status launch(struct run *run, struct ptx_arg *values)
{
    ptx_device *device = run->opened.device;
    struct ptx_launch_params params = {
        .shared_bytes = run->geometry.shared,
        .stream = run->stream,
        .args = values,
        .arg_count = run->args.count,
        .cooperative = run->params->cooperative,
    };
    memcpy(params.grid, run->geometry.grid, sizeof(params.grid));
    memcpy(params.block, run->geometry.block, sizeof(params.block));
    for (size_t k = 0; k < run->args.count; k++)
        values[k] = (struct ptx_arg) { .value = run->args.items[k].value,
                                       .size = run->args.items[k].param->size };
    ptx_status status = ptx_event_record(device, run->begin, run->stream);
    if (status == PTX_OK)
        status = ptx_launch(run->function, &params);
    if (status == PTX_OK)
        status = ptx_event_record(device, run->end, run->stream);
    if (status == PTX_OK)
        status = ptx_stream_synchronize(device, run->stream);
    if (status == PTX_OK)
        status = ptx_event_elapsed(device, run->begin, run->end, &run->milliseconds);
    return status;
}

static ptx_status download(struct run *run)
{
    ptx_status status = PTX_OK;
    for (size_t k = 0; status == PTX_OK && k < run->args.count; k++) {
        struct launch_arg *arg = &run->args.items[k];
        if (arg->is_array && arg->array.bytes)
            status = ptx_buffer_download(run->buffers[k], 0, arg->elements,
                                         (size_t)arg->array.bytes, run->stream);
    }
    return status == PTX_OK ? ptx_stream_synchronize(run->opened.device, run->stream) : status;
}

/// Memory for the results: a file's elements are read only.
static bool own_elements(struct run *run)
{
    for (size_t k = 0; k < run->args.count; k++) {
        struct launch_arg *arg = &run->args.items[k];
        if (arg->is_array && !arg->elements)
            arg->elements = malloc((size_t)arg->array.bytes + 1);
        if (arg->is_array && !arg->elements)
            return false;
    }
    return true;
}

/// What kernels print goes to standard error where standard output is for the arrays. Returns the
/// descriptor to put back, or -1.
static int divert(const struct run_text_params *params)
{
    if (!params->output || !output_is_stdout(params->output))
        return -1;
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    if (kept >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    return kept;
}

static void put_back(int kept)
{
    if (kept < 0)
        return;
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

/// A fault in the words of the command: which kernel failed, and which array an address belongs to.
static int fault(const struct run *run, struct message *error)
{
    static const char earlier[] = "an earlier kernel failed: ";
    const int status = gpu_error(error);
    struct message words = { 0 };
    const char *text = error->text;
    if (strncmp(text, earlier, sizeof(earlier) - 1) == 0) {
        text += sizeof(earlier) - 1;
        message_add(&words, "%s failed: ", run->info->name);
    }
    message_add(&words, "%.*s", (int)strcspn(text, "\n"), text);
    for (size_t k = 0; k < run->args.count; k++) {
        char address[32];
        const int length = snprintf(address, sizeof(address), " 0x%llx", run->addresses[k]);
        const char *found = run->addresses[k] ? strstr(words.text, address) : NULL;
        if (found && !isxdigit((unsigned char)found[length]))
            message_add(&words, ";%s is the array %s", address, run->args.items[k].array.name);
    }
    if (!run->geometry.shared && strstr(words.text, " 0 of them dynamic"))
        message_add(&words, "; --shared BYTES gives a block dynamic shared memory");
    *error = words;
    return status;
}

static int execute(struct run *run, struct message *error)
{
    struct ptx_arg *values = calloc(run->args.count + 1, sizeof(*values));
    run->buffers = calloc(run->args.count + 1, sizeof(*run->buffers));
    run->addresses = calloc(run->args.count + 1, sizeof(*run->addresses));
    int status = EXIT_FAILED;
    if (!values || !run->buffers || !run->addresses || !own_elements(run)) {
        message_set(error, "out of memory");
    } else {
        const int kept = divert(run->params);
        status = upload(run) == PTX_OK && launch(run, values) == PTX_OK && download(run) == PTX_OK
                     ? EXIT_DONE
                     : fault(run, error);
        put_back(kept);
    }
    free(values);
    return status;
}

// ---- the results --------------------------------------------------------------------------------

static void print_report(const struct run *run, FILE *stream)
{
    const unsigned *grid = run->geometry.grid, *block = run->geometry.block;
    fprintf(stream, "%s on %s\ngrid %u,%u,%u of blocks of %u,%u,%u threads\n%.4f ms%s\n",
            run->info->name, run->opened.name, grid[0], grid[1], grid[2], block[0], block[1],
            block[2], (double)run->milliseconds,
            run->opened.emulated ? ", the emulator's time" : ", the first launch");
    if (!run->params->output)
        return;
    fprintf(stream, "%s:\n", run->params->output);
    for (size_t k = 0; k < run->args.count; k++)
        if (run->args.items[k].is_array)
            print_tensor(stream, &run->args.items[k].array);
}

static bool print_json(const struct run *run, FILE *stream, struct message *error)
{
    const unsigned *grid = run->geometry.grid, *block = run->geometry.block;
    json_t *tensors = json_array();
    for (size_t k = 0; k < run->args.count; k++)
        if (run->args.items[k].is_array)
            json_array_append_new(tensors, tensor_json(&run->args.items[k].array));
    json_t *root = json_pack(
        "{s:s, s:s, s:b, s:[iii], s:[iii], s:I, s:f, s:o, s:o}", "kernel", run->info->name,
        "device", run->opened.name, "emulator", run->opened.emulated, "grid", grid[0], grid[1],
        grid[2], "block", block[0], block[1], block[2], "shared", (json_int_t)run->geometry.shared,
        "seconds", (double)run->milliseconds / 1e3, "output",
        json_string_or_null(run->params->output), "tensors", tensors);
    return json_print(stream, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), error);
}

static int write_arrays(struct run *run, struct message *error)
{
    struct tensor *tensors = calloc(run->args.count + 1, sizeof(*tensors));
    size_t count = 0;
    if (!tensors) {
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    for (size_t k = 0; k < run->args.count; k++)
        if (run->args.items[k].is_array) {
            run->args.items[k].array.data = run->args.items[k].elements;
            tensors[count++] = run->args.items[k].array;
        }
    bool written =
        tensor_file_write(run->params->output, run->params->force, tensors, count, NULL, 0, error);
    free(tensors);
    return written ? EXIT_DONE : EXIT_FAILED;
}

static int report(struct run *run, struct message *error)
{
    const char *output = run->params->output;
    FILE *stream = output && output_is_stdout(output) ? stderr : stdout;
    int status = output ? write_arrays(run, error) : EXIT_DONE;
    if (status != EXIT_DONE)
        return status;
    if (!run->params->json)
        print_report(run, stream);
    else if (!print_json(run, stream, error))
        return EXIT_FAILED;
    return EXIT_DONE;
}

static int check_output(const struct run *run, struct message *error)
{
    for (size_t k = 0; k < run->args.count; k++)
        if (run->args.items[k].is_array)
            return EXIT_DONE;
    return run->params->output
               ? usage(error, "--output %s: no argument is an array", run->params->output)
               : EXIT_DONE;
}

static void release(struct run *run)
{
    // A failed run may have pending copies to memory that is about to be freed.
    if (run->stream)
        ptx_stream_synchronize(run->opened.device, run->stream);
    for (size_t k = 0; run->buffers && k < run->args.count; k++)
        ptx_buffer_destroy(&run->buffers[k]);
    ptx_module_unload(&run->module);
    ptx_event_destroy(run->opened.device, &run->begin);
    ptx_event_destroy(run->opened.device, &run->end);
    ptx_stream_destroy(run->opened.device, &run->stream);
    ptx_device_close(&run->opened.device);
    free(run->buffers);
    free(run->addresses);
    launch_args_release(&run->args);
    array_files_close(&run->files);
    free(run->text);
}

static int read_files(struct run *run, struct message *error)
{
    char target[PTX_TARGET_NAME_SIZE];
    run->text = read_text(run->params->path, TEXT_LIMIT, error);
    if (!run->text)
        return EXIT_FAILED;
    if (!ptx_directive(run->text, ".target", target, sizeof(target))) {
        message_set(error, NOT_PTX, run->params->path);
        return EXIT_FAILED;
    }
    return array_files_open(&run->files, run->params->inputs, error) ? EXIT_DONE : EXIT_FAILED;
}

static int read_args(struct run *run, struct message *error)
{
    const struct launch_limits limits = {
        .memory = ptx_device_get_info(run->opened.device)->memory,
        .emulated = run->opened.emulated,
    };
    return launch_args_read(&run->args, run->info, &run->params->args, &run->files, &limits,
                            run->geometry.seed, error);
}

int run_text(const struct run_text_params *params, const struct place *place, struct message *error)
{
    struct run *run = calloc(1, sizeof(*run));
    if (!run) {
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    run->params = params;
    int status = read_words(params, &run->geometry, error);
    if (status == EXIT_DONE)
        status = check_files(params, error);
    if (status == EXIT_DONE)
        status = find_device(place, error);
    if (status == EXIT_DONE)
        status = read_files(run, error);
    if (status == EXIT_DONE)
        status = open_device(run, place, error);
    if (status == EXIT_DONE)
        status = load(run, error);
    if (status == EXIT_DONE)
        status = check_geometry(run, error);
    if (status == EXIT_DONE)
        status = read_args(run, error);
    if (status == EXIT_DONE)
        status = check_output(run, error);
    if (status == EXIT_DONE)
        status = execute(run, error);
    if (status == EXIT_DONE)
        status = report(run, error);
    release(run);
    free(run);
    return status;
}
