// SPDX-License-Identifier: MIT
// The tables of the products, their module, and the launches.
#include "muon_schedule.h"

#include <stdlib.h>
#include <string.h>

#include <ptxgen/buffer.h>
#include <ptxgen/launch.h>
#include <ptxgen/stream.h>

#include "driver/capture.h"
#include "driver/error.h"
#include "load.h"

enum { CHIP_ENTRIES = MUON_ENTRIES - MUON_CHIP_64 };

struct row {
    struct muon_product product;
    uint32_t launch, order;
};

// What the host writes, and where it is on the device.
struct tables {
    struct row *rows;
    size_t row_count, row_room;
    struct muon_tile *tiles;
    size_t tile_count, tile_room;
    struct muon_chip *chips;
    size_t chip_count[CHIP_ENTRIES], chips_total;
    struct muon_step *steps;
    uint32_t *schedule_at;
    size_t step_count;
    size_t counter_count;
    uint32_t launches;
};

struct launch {
    unsigned entry, blocks;
    CUdeviceptr table; // of the tiles, or of the chips
};

struct muon_products {
    ptx_device *device;
    ptx_module *module;
    ptx_function *functions[MUON_ENTRIES];
    ptx_buffer *memory;
    CUdeviceptr products;
    struct launch *launches;
    unsigned launch_count;
    unsigned chip_launches; // the first ones, which run beside the others
    CUstream beside;
    CUevent begins, ends;
};

static ptx_status out_of_memory(void)
{
    return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY,
                     "out of host memory for the tables of Muon's products");
}

// Room for `more` elements behind `count`.
static bool grow(void *array, size_t *room, size_t count, size_t more, size_t size)
{
    void *old, *larger;
    size_t wanted = *room ? *room : 64;

    if (count + more <= *room)
        return true;
    while (wanted < count + more)
        wanted *= 2;
    memcpy(&old, array, sizeof old);
    larger = realloc(old, wanted * size);
    if (!larger)
        return false;
    memcpy(array, &larger, sizeof larger);
    *room = wanted;
    return true;
}

// ---- tables -------------------------------------------------------------------------------------

static ptx_status take_product(void *to, uint32_t launch, const struct muon_product *product)
{
    struct tables *t = to;

    if (!grow(&t->rows, &t->row_room, t->row_count, 1, sizeof *t->rows))
        return out_of_memory();
    t->rows[t->row_count] = (struct row) { *product, launch, (uint32_t)t->row_count };
    t->row_count++;
    if (t->launches < launch + 1)
        t->launches = launch + 1;
    return PTX_OK;
}

// Launches in their order; in one, long products first, so that short ones fill the end.
static int by_launch(const void *x, const void *y)
{
    const struct row *a = x, *b = y;

    if (a->launch != b->launch)
        return a->launch < b->launch ? -1 : 1;
    if (a->product.slice != b->product.slice)
        return a->product.slice > b->product.slice ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static uint32_t tiles_of(uint32_t elements)
{
    return (elements + MUON_TILE - 1) / MUON_TILE;
}

// Neighbouring blocks share rows of B, or its columns.
static ptx_status add_tiles(struct tables *t, uint32_t number)
{
    struct muon_product *p = &t->rows[number].product;
    const uint32_t down = tiles_of(p->rows), across = tiles_of(p->columns);
    uint32_t place = 0;

    for (uint32_t column = 0; column < across; column++)
        for (uint32_t row = p->symmetric ? column : 0; row < down; row++, place++) {
            if (!grow(&t->tiles, &t->tile_room, t->tile_count, p->slices, sizeof *t->tiles))
                return out_of_memory();
            for (uint32_t slice = 0; slice < p->slices; slice++)
                t->tiles[t->tile_count++] =
                    (struct muon_tile) { number, row, column, slice, place, 0 };
        }
    if (p->slices > 1) {
        p->counters = t->counter_count; // an index until the address is known
        t->counter_count += place;
    }
    return PTX_OK;
}

static int by_columns(const void *x, const void *y)
{
    const struct muon_chip *a = x, *b = y;

    if ((a->rows > 64) != (b->rows > 64))
        return a->rows > 64 ? 1 : -1;
    if (a->columns != b->columns)
        return a->columns > b->columns ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

static ptx_status add_chips(struct tables *t, const struct muon_set *set, CUdeviceptr workspace)
{
    t->chips = calloc(set->count + 1, sizeof *t->chips);
    if (!t->chips)
        return out_of_memory();
    for (size_t k = 0; k < set->count; k++) {
        const struct muon_matrix *m = &set->matrices[k];
        const uint32_t steps = set->schedules[m->schedule].steps;
        if (!m->rows || !steps || !ptxp_muon_on_chip(m))
            continue;
        t->chip_count[m->rows > 64]++;
        t->chips[t->chips_total++] = (struct muon_chip) {
            .x = workspace + m->x,
            .steps = t->schedule_at[m->schedule], // an index until the address is known
            .step_count = steps,
            .rows = m->rows,
            .columns = m->columns,
            .pitch = (uint32_t)muon_pitch(m->columns),
        };
    }
    qsort(t->chips, t->chips_total, sizeof *t->chips, by_columns);
    return PTX_OK;
}

static ptx_status add_steps(struct tables *t, const struct muon_set *set)
{
    size_t count = 0;

    for (uint32_t s = 0; s < set->schedule_count; s++)
        count += set->schedules[s].steps;
    t->steps = calloc(count + 1, sizeof *t->steps);
    t->schedule_at = calloc((size_t)set->schedule_count + 1, sizeof *t->schedule_at);
    if (!t->steps || !t->schedule_at)
        return out_of_memory();
    for (uint32_t s = 0; s < set->schedule_count; s++) {
        const struct muon_schedule *from = &set->schedules[s];
        t->schedule_at[s] = (uint32_t)t->step_count;
        for (uint32_t k = 0; k < from->steps; k++)
            t->steps[t->step_count++] =
                (struct muon_step) { from->triples[k][0], from->triples[k][1], from->triples[k][2],
                                     ptxp_muon_restarts(k + 1, from->steps) };
    }
    return PTX_OK;
}

static ptx_status fill(struct tables *t, const struct muon_set *set, CUdeviceptr workspace)
{
    ptx_status status = add_steps(t, set);

    if (!status)
        status = add_chips(t, set, workspace);
    for (size_t k = 0; k < set->count && !status; k++)
        status = ptxp_muon_visit(&set->matrices[k], &set->schedules[set->matrices[k].schedule],
                                 workspace, take_product, t);
    if (!status && t->row_count)
        qsort(t->rows, t->row_count, sizeof *t->rows, by_launch);
    for (size_t k = 0; k < t->row_count && !status; k++)
        status = add_tiles(t, (uint32_t)k);
    return status;
}

static void free_tables(struct tables *t)
{
    free(t->rows);
    free(t->tiles);
    free(t->chips);
    free(t->steps);
    free(t->schedule_at);
}

// ---- the device's copy --------------------------------------------------------------------------

// Where each table begins in the memory.
struct places {
    size_t products, tiles, chips, steps, counters, bytes;
};

static struct places place(const struct tables *t)
{
    struct places p = { 0 };

    p.tiles = p.products + t->row_count * sizeof(struct muon_product);
    p.chips = p.tiles + t->tile_count * sizeof(struct muon_tile);
    p.steps = (p.chips + t->chips_total * sizeof(struct muon_chip) + 15) / 16 * 16;
    p.counters = p.steps + t->step_count * sizeof(struct muon_step);
    p.bytes = p.counters + t->counter_count * sizeof(uint32_t);
    return p;
}

static ptx_status upload(struct muon_products *m, const struct tables *t, CUstream stream)
{
    const struct places at = place(t);
    unsigned char *image = calloc(at.bytes + 1, 1);

    if (!image)
        return out_of_memory();
    m->memory = ptx_buffer_create(m->device, at.bytes);
    if (!m->memory) {
        free(image);
        return ptx_error_status();
    }
    const CUdeviceptr base = ptx_buffer_address(m->memory);
    m->products = base + at.products;
    for (size_t k = 0; k < t->row_count; k++) {
        struct muon_product p = t->rows[k].product;
        if (p.slices > 1)
            p.counters = base + at.counters + p.counters * sizeof(uint32_t);
        memcpy(image + at.products + k * sizeof p, &p, sizeof p);
    }
    for (size_t k = 0; k < t->chips_total; k++) {
        struct muon_chip c = t->chips[k];
        c.steps = base + at.steps + c.steps * sizeof(struct muon_step);
        memcpy(image + at.chips + k * sizeof c, &c, sizeof c);
    }
    if (t->tile_count)
        memcpy(image + at.tiles, t->tiles, t->tile_count * sizeof *t->tiles);
    if (t->step_count)
        memcpy(image + at.steps, t->steps, t->step_count * sizeof *t->steps);
    ptx_status status = ptx_buffer_upload(m->memory, 0, image, at.bytes, stream);
    if (!status)
        status = ptx_stream_synchronize(m->device, stream);
    free(image);
    return status;
}

static ptx_status make_launches(struct muon_products *m, const struct tables *t)
{
    const struct places at = place(t);
    const CUdeviceptr base = ptx_buffer_address(m->memory);
    size_t chip = 0, tile = 0;

    m->launches = calloc((size_t)t->launches + CHIP_ENTRIES, sizeof *m->launches);
    if (!m->launches)
        return out_of_memory();
    for (unsigned k = 0; k < CHIP_ENTRIES; k++) {
        if (!t->chip_count[k])
            continue;
        m->chip_launches++;
        m->launches[m->launch_count++] =
            (struct launch) { MUON_CHIP_64 + k, (unsigned)t->chip_count[k],
                              base + at.chips + chip * sizeof(struct muon_chip) };
        chip += t->chip_count[k];
    }
    for (uint32_t k = 0; k < t->launches; k++) {
        const size_t begin = tile;
        while (tile < t->tile_count && t->rows[t->tiles[tile].product].launch == k)
            tile++;
        if (tile - begin > INT32_MAX)
            return ptxd_fail(PTX_ERROR_INVALID, "a product of %zu tiles: a grid has 2^31 - 1",
                             tile - begin);
        m->launches[m->launch_count++] =
            (struct launch) { MUON_TILES, (unsigned)(tile - begin),
                              base + at.tiles + begin * sizeof(struct muon_tile) };
    }
    return PTX_OK;
}

static ptx_status load(struct muon_products *m, const struct ptx_module_params *module,
                       CUstream stream)
{
    static const struct ptx_module_params defaults;
    ptx_builder *b = ptxp_builder_create(m->device);

    if (!b)
        return ptx_error_status();
    ptxk_muon_emit(b);
    m->module = ptxp_load(m->device, b, "the kernels of Muon's products",
                          module ? module : &defaults, stream);
    ptx_builder_destroy(&b);
    for (unsigned k = 0; k < MUON_ENTRIES && m->module; k++) {
        m->functions[k] = ptx_module_function(m->module, ptxk_muon_entries[k]);
        if (!m->functions[k])
            return ptx_error_status();
    }
    return m->module ? PTX_OK : ptx_error_status();
}

// Matrices with a block each and those in tiles have nothing in common, and leave multiprocessors
// to each other.
static ptx_status make_branch(struct muon_products *m)
{
    m->beside = ptx_stream_create(m->device);
    m->begins = m->beside ? ptx_event_create(m->device) : NULL;
    m->ends = m->begins ? ptx_event_create(m->device) : NULL;
    return m->ends ? PTX_OK : ptx_error_status();
}

// ---- the object ---------------------------------------------------------------------------------

static ptx_status create(struct muon_products *m, const struct muon_set *set, CUdeviceptr workspace,
                         const struct ptx_module_params *module, CUstream stream)
{
    const struct ptx_device_info *info = ptx_device_get_info(m->device);
    struct tables tables = { 0 };

    if (info->sm < 80)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                         "Muon needs sm_80 or newer, for products of f16 matrices: %s is sm_%d",
                         info->name, info->sm);
    ptx_status status = fill(&tables, set, workspace);
    if (!status && (tables.row_count || tables.chips_total)) {
        status = upload(m, &tables, stream);
        if (!status)
            status = make_launches(m, &tables);
        if (!status)
            status = load(m, module, stream);
        if (!status && tables.row_count && tables.chips_total)
            status = make_branch(m);
    }
    free_tables(&tables);
    return status;
}

struct muon_products *ptxp_muon_create(ptx_device *device, const struct muon_set *set,
                                       CUdeviceptr workspace,
                                       const struct ptx_module_params *module, CUstream stream)
{
    struct muon_products *m = calloc(1, sizeof *m);

    if (!m) {
        out_of_memory();
        return NULL;
    }
    m->device = device;
    if (create(m, set, workspace, module, stream)) {
        ptxp_muon_destroy(m);
        return NULL;
    }
    return m;
}

// `follows`: the launch before on the stream is one of tiles, too, and may overlap with it.
static ptx_status launch(const struct muon_products *products, unsigned k, bool follows,
                         CUstream stream)
{
    const struct launch *l = &products->launches[k];
    const struct ptx_arg of_tiles[] = { PTX_ARG(products->products), PTX_ARG(l->table) };
    const struct ptx_arg of_chips[] = { PTX_ARG(l->table) };
    const bool tiles = l->entry == MUON_TILES;
    const struct ptx_launch_params params = { .grid = { l->blocks },
                                              .shared_bytes = ptxk_muon_shared(l->entry),
                                              .stream = stream,
                                              .args = tiles ? of_tiles : of_chips,
                                              .arg_count = tiles ? 2 : 1,
                                              .programmatic = follows };

    return ptx_launch(products->functions[l->entry], &params);
}

ptx_status ptxp_muon_launch(const struct muon_products *products, unsigned k, CUstream stream)
{
    return launch(products, k, false, stream);
}

// Whether the stream beside is free: until a capture that a run took it into has ended, it is of no
// use to runs elsewhere.
static ptx_status branches(const struct muon_products *m, CUstream stream, bool *may)
{
    struct ptxd_capture own, other;

    *may = false;
    if (!m->beside)
        return PTX_OK;
    ptx_status status = ptxd_stream_capture(m->device, stream, &own);
    if (!status)
        status = ptxd_stream_capture(m->device, m->beside, &other);
    *may = !status && (!other.active || (own.id && own.id == other.id));
    return status;
}

// The stream beside does what follows when `stream` has done what is on it.
static ptx_status fork(const struct muon_products *m, CUstream stream)
{
    const ptx_status status = ptx_event_record(m->device, m->begins, stream);

    return status ? status : ptx_stream_wait_event(m->device, m->beside, m->begins);
}

static ptx_status run_chips(const struct muon_products *m, CUstream stream)
{
    ptx_status status = PTX_OK;

    for (unsigned k = 0; k < m->chip_launches && !status; k++)
        status = launch(m, k, false, stream);
    return status;
}

// Tiles; `joins`: the last waits for the stream beside, so that a launch comes last on the stream.
static ptx_status run_tiles(const struct muon_products *m, bool joins, CUstream stream)
{
    const unsigned first = m->chip_launches, last = m->launch_count - 1;
    ptx_status status = PTX_OK;

    for (unsigned k = first; k < m->launch_count && !status; k++) {
        const bool waits = joins && k == last;
        if (waits)
            status = ptx_stream_wait_event(m->device, stream, m->ends);
        if (!status)
            status = launch(m, k, k > first && !waits, stream);
    }
    return status;
}

static ptx_status run_branches(const struct muon_products *m, CUstream stream)
{
    ptx_status status = fork(m, stream);

    if (status)
        return status;
    status = run_chips(m, m->beside);
    if (!status)
        status = ptx_event_record(m->device, m->ends, m->beside);
    if (!status)
        status = run_tiles(m, true, stream);
    if (status)
        ptxd_stream_join(m->device, stream, m->beside, m->ends);
    return status;
}

ptx_status ptxp_muon_run(const struct muon_products *products, CUstream stream)
{
    bool beside;
    ptx_status status = branches(products, stream, &beside);

    if (!status && beside)
        return run_branches(products, stream);
    if (!status)
        status = run_chips(products, stream);
    return status ? status : run_tiles(products, false, stream);
}

struct muon_launch ptxp_muon_launch_at(const struct muon_products *products, unsigned k)
{
    const struct launch *l = &products->launches[k];

    return (struct muon_launch) { ptxk_muon_entries[l->entry], l->blocks };
}

unsigned ptxp_muon_launches(const struct muon_products *products)
{
    return products->launch_count;
}

void ptxp_muon_destroy(struct muon_products *products)
{
    if (!products)
        return;
    ptx_event_destroy(products->device, &products->begins);
    ptx_event_destroy(products->device, &products->ends);
    ptx_stream_destroy(products->device, &products->beside);
    ptx_module_unload(&products->module);
    ptx_buffer_destroy(&products->memory);
    free(products->launches);
    free(products);
}
