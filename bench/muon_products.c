// SPDX-License-Identifier: MIT
// Times Muon's products, from X to its orthogonalized form, five steps with Jordan's triple, as one
// graph. Prints a row for each set: microseconds, the least and the median of all runs.
//
//     muon_products [SET...]     gpt2, heads, convolutions, qwen; between, alone: of less than 2.5
//                                times as many columns as rows, many and one; all by default;
//                                COUNTxROWSxCOLUMNS: so many of these sizes
//     muon_products --launches [SET...]    each launch, alone
//     muon_products --by-warps ...    with mma.sync where the library would take wgmma
//     muon_products --hash [large | ROWSxCOLUMNS...]    of the results of some matrices: the same
//                                     on a GPU and on the emulator that presents its generation
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/ptxgen.h>

#include "plans/muon_products.h"

enum { REPETITIONS = 15, MOST_SHAPES = 8, MOST_LAUNCHES = 32 };

struct shape {
    uint32_t count, rows, columns;
};

static const struct set {
    const char *name;
    struct shape shapes[MOST_SHAPES];
} sets[] = {
    { "gpt2", { { 12, 768, 2304 }, { 12, 768, 768 }, { 24, 768, 3072 } } },
    { "heads", { { 1536, 128, 4096 } } },
    { "convolutions",
      { { 21, 64, 288 },
        { 21, 64, 576 },
        { 21, 128, 576 },
        { 21, 128, 1152 },
        { 21, 256, 1152 },
        { 21, 256, 256 } } },
    { "qwen", { { 48, 896, 896 }, { 48, 128, 896 }, { 72, 896, 4864 } } },
    { "between", { { 24, 768, 1024 }, { 12, 1024, 2048 }, { 12, 1024, 1536 } } },
    { "alone", { { 1, 1024, 2048 } } },
    { "hashed",
      { { 1, 257, 700 },
        { 1, 130, 130 },
        { 1, 130, 1040 },
        { 1, 128, 513 },
        { 1, 100, 100 },
        { 1, 64, 200 },
        { 1, 33, 33 } } },
    { "hashed, large", { { 1, 512, 2048 }, { 1, 384, 384 }, { 1, 128, 4096 } } },
};
enum { SETS = sizeof sets / sizeof *sets, HASHED = SETS - 2 };

static const float jordan[5][3] = {
    { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f },
    { 3.4445f, -4.7750f, 2.0315f }, { 3.4445f, -4.7750f, 2.0315f },
};
static const struct muon_schedule schedule = { 5, jordan };

static struct bench {
    ptx_device *device;
    CUstream stream;
    struct muon_matrix *matrices;
    size_t count;
    uint64_t bytes, elements;
    ptx_buffer *workspace, *kept; // X is overwritten by a run
    bool by_warps;
    struct muon_products *products;
} bench;

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "muon_products: %s: %s\n", what, ptx_error_message());
    exit(1);
}

// f16 of a number whose magnitude is below 1, to nearest.
static uint16_t f16(double x)
{
    const uint16_t sign = x < 0 ? 0x8000 : 0;
    int exponent;

    x = fabs(x);
    if (x < 0x1p-14)
        return (uint16_t)(sign | (unsigned)lrint(x * 0x1p24));
    frexp(x, &exponent);
    return (uint16_t)(sign + (((unsigned)exponent + 13) << 10) +
                      (unsigned)lrint(ldexp(x, 11 - exponent)));
}

static double from_f16(uint16_t bits)
{
    const double size = bits & 0x7c00 ? ldexp(1024 + (bits & 1023), ((bits >> 10) & 31) - 25)
                                      : ldexp(bits & 1023, -24);
    return bits & 0x8000 ? -size : size;
}

// X of a shape: random, of norm 1.
static uint16_t *make(const struct shape *s)
{
    const size_t pitch = (size_t)muon_pitch(s->columns) / 2;
    const double scale = sqrt(12.0 / 4 / ((double)s->rows * s->columns));
    uint16_t *x = calloc(s->rows * pitch, 2);
    uint32_t state = s->rows * 31 + s->columns;

    require(x != NULL, "memory");
    for (uint32_t row = 0; row < s->rows; row++)
        for (uint32_t j = 0; j < s->columns; j++) {
            state = state * 1664525u + 1013904223u;
            x[row * pitch + j] = f16(scale * ((double)(state >> 8) * 0x1p-23 - 1));
        }
    return x;
}

static void open_set(const struct set *set)
{
    size_t at = 0;

    bench.count = bench.elements = 0;
    for (unsigned s = 0; s < MOST_SHAPES; s++)
        bench.count += set->shapes[s].count;
    bench.matrices = calloc(bench.count, sizeof *bench.matrices);
    require(bench.matrices != NULL, "memory");
    for (unsigned s = 0; s < MOST_SHAPES; s++)
        for (uint32_t k = 0; k < set->shapes[s].count; k++) {
            const struct shape *shape = &set->shapes[s];
            bench.elements += (uint64_t)shape->rows * shape->columns;
            bench.matrices[at++] =
                (struct muon_matrix) { .rows = shape->rows, .columns = shape->columns };
        }
    const struct muon_set all = { .matrices = bench.matrices,
                                  .count = bench.count,
                                  .schedules = &schedule,
                                  .schedule_count = 1,
                                  .by_warps = bench.by_warps };
    require(!ptxp_muon_layout(&all, &bench.bytes), "layout");
    bench.workspace = ptx_buffer_create(bench.device, bench.bytes);
    bench.kept = ptx_buffer_create(bench.device, bench.bytes);
    require(bench.workspace && bench.kept, "device memory");
    require(!ptx_buffer_fill(bench.kept, 0, 0xff, bench.bytes, bench.stream), "fill");
    at = 0;
    for (unsigned s = 0; s < MOST_SHAPES; s++) {
        const struct shape *shape = &set->shapes[s];
        uint16_t *x = shape->count ? make(shape) : NULL;
        for (uint32_t k = 0; k < shape->count; k++)
            require(!ptx_buffer_upload(bench.kept, bench.matrices[at++].x, x,
                                       shape->rows * muon_pitch(shape->columns), bench.stream),
                    "upload");
        require(!ptx_stream_synchronize(bench.device, bench.stream), "upload");
        free(x);
    }
    bench.products = ptxp_muon_create(bench.device, &all, ptx_buffer_address(bench.workspace), NULL,
                                      bench.stream);
    require(bench.products != NULL, "products");
}

static void close_set(void)
{
    ptxp_muon_destroy(bench.products);
    ptx_buffer_destroy(&bench.workspace);
    ptx_buffer_destroy(&bench.kept);
    free(bench.matrices);
}

static void restore(void)
{
    require(!ptx_buffer_copy(bench.workspace, 0, bench.kept, 0, bench.bytes, bench.stream), "copy");
}

// Rows of a result have lengths near 1, and are nearly orthogonal: a faulty product shows.
static bool is_orthogonal(const struct muon_matrix *m)
{
    const size_t pitch = (size_t)muon_pitch(m->columns), bytes = m->rows * pitch;
    uint16_t *x = malloc(bytes);
    bool right = true;

    require(x != NULL, "memory");
    require(!ptx_buffer_download(bench.workspace, m->out, x, bytes, bench.stream) &&
                !ptx_stream_synchronize(bench.device, bench.stream),
            "download");
    for (uint32_t k = 0; k < 64; k++) {
        const uint32_t i = k * 7919 % m->rows, j = (k * 104729 + 1) % m->rows;
        double dot = 0;
        for (uint32_t l = 0; l < m->columns; l++)
            dot += from_f16(x[i * pitch / 2 + l]) * from_f16(x[j * pitch / 2 + l]);
        right &= i == j ? dot > 0.4 && dot < 1.5 : fabs(dot) < 0.35;
    }
    free(x);
    return right;
}

static int by_size(const void *x, const void *y)
{
    const float a = *(const float *)x, b = *(const float *)y;

    return a < b ? -1 : a > b;
}

static bool time_set(const struct set *set)
{
    CUevent begin = ptx_event_create(bench.device), end = ptx_event_create(bench.device);
    float times[REPETITIONS];
    bool right = true;

    open_set(set);
    require(begin && end, "events");
    require(!ptx_capture_begin(bench.device, bench.stream, PTX_CAPTURE_THREAD_LOCAL), "capture");
    require(!ptxp_muon_run(bench.products, bench.stream), "run");
    ptx_graph *graph = ptx_capture_end(bench.device, bench.stream);
    require(graph != NULL, "capture");
    for (unsigned k = 0; k < REPETITIONS; k++) {
        restore();
        require(!ptx_event_record(bench.device, begin, bench.stream), "event");
        require(!ptx_graph_launch(graph, bench.stream), "launch");
        require(!ptx_event_record(bench.device, end, bench.stream), "event");
        require(!ptx_event_synchronize(bench.device, end), "run");
        require(!ptx_event_elapsed(bench.device, begin, end, &times[k]), "event");
    }
    for (size_t k = 0; k < bench.count; k += bench.count / 5 + 1)
        right &= is_orthogonal(&bench.matrices[k]);
    right &= is_orthogonal(&bench.matrices[bench.count - 1]);
    qsort(times, REPETITIONS, sizeof *times, by_size);
    printf("%-14s %5zu matrices %7.1f M elements %2u launches %4.2f B an element: %9.1f us, median "
           "%9.1f us%s\n",
           set->name, bench.count, (double)bench.elements * 1e-6,
           ptxp_muon_launches(bench.products), (double)bench.bytes / (double)bench.elements,
           (double)times[0] * 1e3, (double)times[REPETITIONS / 2] * 1e3,
           right ? "" : ", NOT ORTHOGONAL");
    ptx_graph_destroy(&graph);
    ptx_event_destroy(bench.device, &begin);
    ptx_event_destroy(bench.device, &end);
    close_set();
    return right;
}

static bool time_launches(const struct set *set)
{
    CUevent events[MOST_LAUNCHES + 1];
    float least[MOST_LAUNCHES], time;

    open_set(set);
    const unsigned count = ptxp_muon_launches(bench.products);
    require(count <= MOST_LAUNCHES, "launches");
    for (unsigned k = 0; k <= count; k++)
        require((events[k] = ptx_event_create(bench.device)) != NULL, "event");
    for (unsigned turn = 0; turn < REPETITIONS; turn++) {
        restore();
        for (unsigned k = 0; k <= count; k++) {
            require(!ptx_event_record(bench.device, events[k], bench.stream), "event");
            if (k < count)
                require(!ptxp_muon_launch(bench.products, k, bench.stream), "launch");
        }
        require(!ptx_event_synchronize(bench.device, events[count]), "run");
        for (unsigned k = 0; k < count; k++) {
            require(!ptx_event_elapsed(bench.device, events[k], events[k + 1], &time), "event");
            least[k] = turn && least[k] < time ? least[k] : time;
        }
    }
    printf("%s:", set->name);
    for (unsigned k = 0; k < count; k++) {
        const struct muon_launch l = ptxp_muon_launch_at(bench.products, k);
        printf("%s %s of %u blocks %.1f us", k ? "," : "", l.name, l.blocks,
               (double)least[k] * 1e3);
    }
    puts("");
    for (unsigned k = 0; k <= count; k++)
        ptx_event_destroy(bench.device, &events[k]);
    close_set();
    return true;
}

// Multiply-adds of five steps, n n k and n n n so many times as the form has it.
static uint64_t multiply_adds(const struct muon_matrix *m)
{
    const uint64_t square = (uint64_t)m->rows * m->rows;
    const uint64_t room = (3 * m->columns - muon_pitch(m->columns) / 2) / (muon_pitch(m->rows) / 2);
    const bool plain = m->rows == m->columns || (m->rows > 128 && room < 3);
    const bool pairs = m->rows > 128 && room == 3;

    return plain   ? square * (10 * (uint64_t)m->columns + 5 * (uint64_t)m->rows)
           : pairs ? square * (6 * (uint64_t)m->columns + 11 * (uint64_t)m->rows)
                   : square * (4 * (uint64_t)m->columns + 14 * (uint64_t)m->rows);
}

static uint64_t print_hashes(const struct set *set)
{
    uint64_t sum = 0;

    open_set(set);
    restore();
    require(!ptxp_muon_run(bench.products, bench.stream), "run");
    for (size_t k = 0; k < bench.count; k++) {
        const struct muon_matrix *m = &bench.matrices[k];
        const size_t bytes = m->rows * (size_t)muon_pitch(m->columns);
        unsigned char *x = malloc(bytes);
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        require(x != NULL, "memory");
        require(!ptx_buffer_download(bench.workspace, m->out, x, bytes, bench.stream) &&
                    !ptx_stream_synchronize(bench.device, bench.stream),
                "download");
        for (size_t i = 0; i < bytes; i++)
            hash = (hash ^ x[i]) * UINT64_C(0x100000001b3);
        printf("%u x %u: %016llx\n", m->rows, m->columns, (unsigned long long)hash);
        fflush(stdout);
        sum += multiply_adds(m);
        free(x);
    }
    close_set();
    return sum;
}

// A set of matrices of one size: ROWSxCOLUMNS, with `counted` COUNTxROWSxCOLUMNS.
static struct set set_of(const char *sizes, bool counted)
{
    struct set set = { sizes, { { 1, 0, 0 } } };
    struct shape *s = set.shapes;
    char end;
    const bool read =
        counted ? sscanf(sizes, "%" SCNu32 "x%" SCNu32 "x%" SCNu32 "%c", &s->count, &s->rows,
                         &s->columns, &end) == 3
                : sscanf(sizes, "%" SCNu32 "x%" SCNu32 "%c", &s->rows, &s->columns, &end) == 2;

    if (!read || !s->count || !s->rows || s->rows > s->columns) {
        fprintf(stderr, "muon_products: %s: give %sROWSxCOLUMNS, no more rows than columns\n",
                sizes, counted ? "the name of a set, or COUNTx" : "");
        exit(1);
    }
    return set;
}

static const struct set *named(const char *name)
{
    for (unsigned k = 0; k < HASHED; k++)
        if (strcmp(sets[k].name, name) == 0)
            return &sets[k];
    return NULL;
}

static bool time_of(const struct set *set, bool launches)
{
    return launches ? time_launches(set) : time_set(set);
}

int main(int argc, char **argv)
{
    bench.by_warps = argc > 1 && strcmp(argv[1], "--by-warps") == 0;
    argc -= bench.by_warps;
    argv += bench.by_warps;
    const bool hashes = argc > 1 && strcmp(argv[1], "--hash") == 0;
    const bool launches = argc > 1 && strcmp(argv[1], "--launches") == 0;
    bool right = true;

    bench.device = ptx_device_open(NULL);
    require(bench.device != NULL, "device");
    bench.stream = ptx_stream_create(bench.device);
    require(bench.stream != NULL, "stream");
    if (hashes) {
        const bool large = argc > 2 && strcmp(argv[2], "large") == 0;
        uint64_t sum = argc > 2 && !large ? 0 : print_hashes(&sets[HASHED + large]);
        for (int k = 2; k < argc && !large; k++) {
            const struct set one = set_of(argv[k], false);
            sum += print_hashes(&one);
        }
        printf("%.2f billion multiply-adds\n", (double)sum * 1e-9);
    }
    const int first = 1 + launches;
    for (unsigned k = 0; k < HASHED && !hashes && argc == first; k++)
        right &= time_of(&sets[k], launches);
    for (int k = first; k < argc && !hashes; k++) {
        const struct set *set = named(argv[k]);
        const struct set given = set ? *set : set_of(argv[k], true);
        right &= time_of(&given, launches);
    }
    ptx_stream_destroy(bench.device, &bench.stream);
    ptx_device_close(&bench.device);
    return !right;
}
