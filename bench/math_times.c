// SPDX-License-Identifier: MIT
// Times the functions of <ptxgen/math.h> on a GPU, beside CUDA's if their PTX is given. Each thread
// adds up results of arguments in registers, so memory plays no part. The versions run in turn.
// Prints a row for each function: picoseconds a result, the least of all launches.
//
//     nvcc -ptx -arch=compute_80 -O3 bench/math_peers.cu -o math_peers.ptx
//     math_times [math_peers.ptx|- [BLOCKS [TURNS]]]      default 4224 blocks of 128, 4096 turns
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 128, REPETITIONS = 9 };

struct bench {
    ptx_device *device;
    ptx_buffer *out;
    unsigned blocks, turns;
};

// The first argument, and the steps from thread to thread and from turn to turn; pow's y is 1.7.
struct range {
    float first, thread_step, turn_step;
};

static struct range range_of(const char *name)
{
    if (!strcmp(name, "log1p") || !strncmp(name, "erf", 3) || !strcmp(name, "tanh"))
        return (struct range) { 0.01f, 0x1p-9f, 0x1p-11f };
    if (!strncmp(name, "log", 3) || !strcmp(name, "rsqrt") || !strcmp(name, "pow"))
        return (struct range) { 0.01f, 0x1p-3f, 0x1p-7f };
    return (struct range) { -8, 0x1p-6f, 0x1p-9f };
}

// ---- our kernels --------------------------------------------------------------------------------

struct loop {
    ptx_ptr out;
    ptx_val turn_step, y, turns, x, sum;
};

static struct loop begin(ptx_builder *b)
{
    struct loop l;
    l.out = ptx_param_ptr(b, PTX_F32, "out", .writeonly = true);
    ptx_val first = ptx_param(b, PTX_F32, "first");
    ptx_val thread_step = ptx_param(b, PTX_F32, "thread_step");
    l.turn_step = ptx_param(b, PTX_F32, "turn_step");
    l.y = ptx_param(b, PTX_F32, "y");
    l.turns = ptx_param(b, PTX_U32, "turns");
    ptx_val thread = ptx_cvt(b, PTX_F32, ptx_tid(b, PTX_X));
    l.x = ptx_var(b, ptx_fma(b, thread, thread_step, first));
    l.sum = ptx_var(b, ptx_mul(b, l.y, ptx_f32(0)));
    return l;
}

static void next(ptx_builder *b, const struct loop *l, ptx_val result)
{
    ptx_set(b, l->sum, ptx_add(b, l->sum, result));
    ptx_set(b, l->x, ptx_add(b, l->x, l->turn_step));
}

static void end(ptx_builder *b, const struct loop *l)
{
    ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(BLOCK), ptx_tid(b, PTX_X));
    ptx_store(b, l->out, i, l->sum);
}

static void build(ptx_builder *b)
{
#define ENTRY(name, call)                                                                          \
    ptx_entry (b, #name, .block = { BLOCK }) {                                                     \
        struct loop l = begin(b);                                                                  \
        ptx_for (b, turn, ptx_u32(0), l.turns, ptx_u32(1))                                         \
            next(b, &l, call);                                                                     \
        end(b, &l);                                                                                \
    }
#define UNARY(name, ...)  ENTRY(name, ptx_math_##name(b, l.x))
#define BINARY(name, ...) ENTRY(name, ptx_math_##name(b, l.x, l.y))
    PTX_MATH_UNARY(UNARY)
    PTX_MATH_BINARY(BINARY)
}

static ptx_module *load_ours(const struct bench *bench)
{
    struct ptx_target target = { .sm = 80 };
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    build(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fprintf(stderr, "math_times: %s\n", ptx_builder_error(b));
    ptx_module *module = text ? ptx_module_load(bench->device, text, NULL) : NULL;
    ptx_builder_destroy(&b);
    return module;
}

// ---- theirs -------------------------------------------------------------------------------------

static ptx_module *load_file(const struct bench *bench, const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    if (!size) {
        fprintf(stderr, "math_times: cannot read %s\n", path);
        return NULL;
    }
    ptx_module *module = ptx_module_load(bench->device, text, NULL);
    if (!module)
        fprintf(stderr, "math_times: %s: %s\n", path, ptx_error_message());
    return module;
}

// ---- times --------------------------------------------------------------------------------------

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Picoseconds a result of one launch; negative if it failed.
static double launch(struct bench *bench, const ptx_function *function, const char *name)
{
    struct range r = range_of(name);
    const CUdeviceptr out = ptx_buffer_address(bench->out);
    const float y = 1.7f;
    const struct ptx_arg args[] = { PTX_ARG(out),         PTX_ARG(r.first), PTX_ARG(r.thread_step),
                                    PTX_ARG(r.turn_step), PTX_ARG(y),       PTX_ARG(bench->turns) };
    const struct ptx_launch_params params = { .grid = { bench->blocks },
                                              .block = { BLOCK },
                                              .args = args,
                                              .arg_count = sizeof args / sizeof *args };
    const double begun = seconds();
    if (ptx_launch(function, &params) != PTX_OK ||
        ptx_stream_synchronize(bench->device, NULL) != PTX_OK)
        return -1;
    return (seconds() - begun) * 1e12 / bench->blocks / BLOCK / bench->turns;
}

static bool time_row(struct bench *bench, ptx_module *const module[2], const char *name)
{
    double least[2] = { 1e300, 1e300 };
    const unsigned versions = module[1] ? 2 : 1;

    for (unsigned k = 0; k <= REPETITIONS; k++)
        for (unsigned v = 0; v < versions; v++) {
            char entry[32];
            snprintf(entry, sizeof entry, "%s%s", v ? "cuda_" : "", name);
            const ptx_function *function = ptx_module_function(module[v], entry);
            const double time = function ? launch(bench, function, name) : -1;
            if (time < 0) {
                fprintf(stderr, "math_times: %s: %s\n", name, ptx_error_message());
                return false;
            }
            if (k && time < least[v]) // the first one warms up
                least[v] = time;
        }
    printf("| %s | %.3f |", name, least[0]);
    printf(versions > 1 ? " %.3f |\n" : "\n", least[1]);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    struct bench bench = { .blocks = argc > 2 ? (unsigned)atoi(argv[2]) : 4224,
                           .turns = argc > 3 ? (unsigned)atoi(argv[3]) : 4096 };
    ptx_module *module[2] = { NULL, NULL };
    const bool peers = argc > 1 && strcmp(argv[1], "-") != 0;
    bool right = false;

    if (!bench.blocks || !bench.turns) {
        fprintf(stderr, "usage: math_times [FILE.ptx|- [BLOCKS [TURNS]]]\n");
        return 2;
    }
    bench.device = ptx_device_open(NULL);
    bench.out =
        bench.device ? ptx_buffer_create(bench.device, sizeof(float) * BLOCK * bench.blocks) : NULL;
    module[0] = bench.out ? load_ours(&bench) : NULL;
    module[1] = module[0] && peers ? load_file(&bench, argv[1]) : NULL;
    if (!module[0])
        fprintf(stderr, "math_times: %s\n", ptx_error_message());
    else if (module[1] || !peers) {
        printf(peers ? "| function | ptxgen, ps | CUDA, ps |\n" : "| function | ptxgen, ps |\n");
        right = true;
        for (size_t k = 0; right && ptx_math_get_info(k); k++)
            right = time_row(&bench, module, ptx_math_get_info(k)->name);
    }
    ptx_module_unload(&module[1]);
    ptx_module_unload(&module[0]);
    ptx_buffer_destroy(&bench.out);
    ptx_device_close(&bench.device);
    return right ? 0 : 1;
}
