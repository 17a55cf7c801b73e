// SPDX-License-Identifier: MIT
// The tables of the products, their module, and the launches.
#include "muon_schedule.h"

#include <stdlib.h>
#include <string.h>

#include <ptxgen/buffer.h>
#include <ptxgen/launch.h>
#include <ptxgen/stream.h>

#include "driver/error.h"
#include "load.h"

enum { CHIP_ENTRIES = 3, TURNS = 2 };
enum { GROUPS_SM = 90, GROUPS_ISA = 80 }; // whose tensor cores a warpgroup shares

struct row {
    struct muon_product product;
    uint32_t level, order;
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
    uint32_t *done; // of each matrix in tiles: tiles up to the product before
    uint32_t *all;  // and up to this one
    uint32_t *level;
    uint32_t matrix_count;
    uint64_t stages; // that all tiles pass through
    uint64_t beside; // as in struct muon_set
    uint32_t side;   // of a tile
    uint32_t band;   // tiles of a band, at most; 0: there are none
    bool groups;     // warpgroups multiply
};

// In the order of their launches: the shortest first, since blocks stay until those of the launch
// before them have ended, and then those that need a multiprocessor alone.
static const unsigned chip_entries[CHIP_ENTRIES] = { MUON_CHIP_64, MUON_SQUARE, MUON_CHIP_128 };

struct launch {
    unsigned entry, blocks;
    uint32_t shared;   // bytes of a block
    CUdeviceptr table; // of the tiles, or of the chips
};

// What the blocks of the tiles' launch share.
struct queue {
    CUdeviceptr turns, done;
    uint32_t tiles, matrices;
};

struct muon_products {
    ptx_device *device;
    ptx_module *module;
    ptx_function *functions[MUON_ENTRIES];
    ptx_buffer *memory;
    CUdeviceptr products;
    struct muon_taker taker;
    struct queue queue;
    struct launch launches[MUON_ENTRIES]; // the chips', and then that of the tiles
    unsigned launch_count;
    bool groups; // the text is for sm_90a
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

static ptx_status take_product(void *to, uint32_t level, const struct muon_product *product)
{
    struct tables *t = to;

    if (!grow(&t->rows, &t->row_room, t->row_count, 1, sizeof *t->rows))
        return out_of_memory();
    t->rows[t->row_count] = (struct row) { *product, level, (uint32_t)t->row_count };
    t->rows[t->row_count].product.matrix = t->matrix_count;
    t->row_count++;
    return PTX_OK;
}

// Levels in their order; in one, long products first, so that short ones fill the end.
static int by_level(const void *x, const void *y)
{
    const struct row *a = x, *b = y;

    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->product.slice != b->product.slice)
        return a->product.slice > b->product.slice ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static uint32_t tiles_of(uint32_t elements, uint32_t side)
{
    return (elements + side - 1) / side;
}

// Small tiles where the products that can be computed at once have fewer large ones than there is
// room for.
static uint32_t choose_side(const struct tables *t, const struct muon_set *set,
                            const ptx_device *device)
{
    const uint64_t room = (uint64_t)ptx_device_get_info(device)->multiprocessors *
                          ptxk_muon_blocks(MUON_TILE, t->groups);
    const uint64_t levels = t->row_count ? t->rows[t->row_count - 1].level + 1 : 1;
    uint64_t tiles = 0;

    if (set->side)
        return set->side;
    for (size_t k = 0; k < t->row_count; k++) {
        const struct muon_product *p = &t->rows[k].product;
        const uint64_t down = tiles_of(p->rows, MUON_TILE),
                       across = tiles_of(p->columns, MUON_TILE);
        tiles += (p->symmetric ? down * (down + 1) / 2 : down * across) * p->slices;
    }
    return tiles / levels < room ? MUON_SMALL : MUON_TILE;
}

// Whether tiles beside each other are computed as bands.
static bool has_bands(const struct tables *t, const struct muon_product *p)
{
    return t->groups && t->side == MUON_SMALL && p->across && !p->symmetric && !p->e &&
           p->depth <= 2 * MUON_BAND_DEPTH;
}

// As long as they are few enough to be computed at once: each matrix has them at a restart, and at
// the end.
static uint32_t choose_band(const struct tables *t, const struct muon_set *set,
                            const ptx_device *device)
{
    enum { MOST = 3, TIMES = 2, BLOCKS = 2 };
    const uint64_t room = (uint64_t)ptx_device_get_info(device)->multiprocessors * BLOCKS;
    uint64_t tiles = 0;

    if (set->band)
        return set->band;
    for (size_t k = 0; k < t->row_count; k++) {
        const struct muon_product *p = &t->rows[k].product;
        if (has_bands(t, p))
            tiles += (uint64_t)tiles_of(p->rows, t->side) * tiles_of(p->columns, t->side);
    }
    const uint64_t band = (tiles / TIMES + room - 1) / room;
    return (uint32_t)(band > MOST ? MOST : band < 2 ? 0 : band);
}

static ptx_status add_bands(struct tables *t, uint32_t number, uint32_t down, uint32_t across)
{
    const struct muon_product *p = &t->rows[number].product;
    const uint32_t bands = (across + t->band - 1) / t->band;

    if (!grow(&t->tiles, &t->tile_room, t->tile_count, (size_t)bands * down, sizeof *t->tiles))
        return out_of_memory();
    for (uint32_t k = 0; k < bands; k++)
        for (uint32_t row = 0; row < down; row++) {
            const uint32_t column = across * k / bands, next = across * (k + 1) / bands;
            t->tiles[t->tile_count++] =
                (struct muon_tile) { number, row, column, 0, 0, next - column };
        }
    t->all[p->matrix] += bands * down;
    t->stages += (uint64_t)down * across * ((p->slice + MUON_DEPTH - 1) / MUON_DEPTH);
    return PTX_OK;
}

// Neighbouring blocks share rows of B, or its columns. A level of a matrix begins when those before
// it are done.
static ptx_status add_tiles(struct tables *t, uint32_t number)
{
    struct muon_product *p = &t->rows[number].product;
    uint32_t *done = &t->done[p->matrix], *all = &t->all[p->matrix], *level = &t->level[p->matrix];
    const uint32_t down = tiles_of(p->rows, t->side), across = tiles_of(p->columns, t->side);
    const uint32_t in_square = MUON_TILE / t->side;
    uint32_t place = 0;

    if (*level != t->rows[number].level) {
        *level = t->rows[number].level;
        *done = *all;
    }
    p->needed = *done;
    if (t->band && has_bands(t, p))
        return add_bands(t, number, down, across);
    for (uint32_t column = 0; column < across; column++)
        for (uint32_t row = p->symmetric ? column / in_square * in_square : 0; row < down;
             row++, place++) {
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
    *all += place;
    t->stages += (uint64_t)place * p->slices * ((p->slice + MUON_DEPTH - 1) / MUON_DEPTH);
    return PTX_OK;
}

// The place of its entry there.
static unsigned kind_of(uint32_t rows)
{
    return rows > MUON_CHIP_MOST ? 1 : rows > MUON_CHIP_MOST / 2 ? 2 : 0;
}

static int by_columns(const void *x, const void *y)
{
    const struct muon_chip *a = x, *b = y;

    if (kind_of(a->rows) != kind_of(b->rows))
        return kind_of(a->rows) > kind_of(b->rows) ? 1 : -1;
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
        if (!m->rows || !steps || !ptxp_muon_on_chip(m, t->groups))
            continue;
        const uint64_t kept = ptxp_muon_kept(m, steps);
        t->chip_count[kind_of(m->rows)]++;
        t->chips[t->chips_total++] = (struct muon_chip) {
            .x = workspace + m->x,
            .steps = t->schedule_at[m->schedule], // an index until the address is known
            .kept = kept ? workspace + m->x + kept : 0,
            .step_count = steps,
            .rows = m->rows,
            .columns = m->columns,
            .pitch = (uint32_t)muon_pitch(m->columns),
            .taken = m->taken,
            .given = m->given,
            .to = (uint32_t)(m->out - m->x),
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

static ptx_status fill(struct tables *t, const struct muon_set *set, CUdeviceptr workspace,
                       const ptx_device *device)
{
    ptx_status status = add_steps(t, set);

    if (!status)
        status = add_chips(t, set, workspace);
    for (size_t k = 0; k < set->count && !status; k++) {
        const size_t before = t->row_count;
        if (ptxp_muon_on_chip(&set->matrices[k], t->groups))
            continue;
        status = ptxp_muon_visit(&set->matrices[k], &set->schedules[set->matrices[k].schedule],
                                 workspace, take_product, t);
        t->matrix_count += t->row_count > before;
    }
    if (!status && t->row_count) {
        qsort(t->rows, t->row_count, sizeof *t->rows, by_level);
        t->side = choose_side(t, set, device);
        t->band = choose_band(t, set, device);
        t->done = calloc(t->matrix_count, sizeof *t->done);
        t->all = calloc(t->matrix_count, sizeof *t->all);
        t->level = calloc(t->matrix_count, sizeof *t->level);
        if (!t->done || !t->all || !t->level)
            return out_of_memory();
    }
    for (size_t k = 0; k < t->row_count && !status; k++)
        status = add_tiles(t, (uint32_t)k);
    if (!status && t->tile_count > INT32_MAX)
        status =
            ptxd_fail(PTX_ERROR_INVALID, "products of %zu tiles: 2^31 - 1 at most", t->tile_count);
    return status;
}

static void free_tables(struct tables *t)
{
    free(t->rows);
    free(t->tiles);
    free(t->chips);
    free(t->steps);
    free(t->schedule_at);
    free(t->done);
    free(t->all);
    free(t->level);
}

// ---- the device's copy --------------------------------------------------------------------------

// Where each table begins in the memory.
struct places {
    size_t products, tiles, chips, steps, turns, done, counters, bytes;
};

static struct places place(const struct tables *t)
{
    struct places p = { 0 };

    p.tiles = p.products + t->row_count * sizeof(struct muon_product);
    p.chips = p.tiles + t->tile_count * sizeof(struct muon_tile);
    p.steps = (p.chips + t->chips_total * sizeof(struct muon_chip) + 15) / 16 * 16;
    p.turns = p.steps + t->step_count * sizeof(struct muon_step);
    p.done = p.turns + TURNS * sizeof(uint32_t);
    p.counters = p.done + t->matrix_count * sizeof(uint32_t);
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

// What the next launch steps beside the products needs room on some multiprocessors: that of so
// many blocks of tiles that both end at the same time. A block steps `PACE` elements, in bytes
// bound by what one multiprocessor can have under way, while another one passes through a stage.
static size_t spared(const struct muon_products *m, const struct tables *t, size_t most)
{
    enum { PACE = 2240, MOST_OF = 8 };
    const size_t limit = most / MOST_OF;

    if (!t->beside || !t->stages || ptx_device_get_info(m->device)->sm < 90)
        return 0;
    const double blocks = (double)t->beside / (double)PACE * (double)most / (double)t->stages;
    return blocks < (double)limit ? (size_t)blocks : limit;
}

// Beside a chip that asks for less than half of a multiprocessor's shared memory an H200 begins no
// block of tiles, although it has room; beside one that asks for a little more it does.
static uint32_t shared_of_chips(const struct muon_products *m, const struct tables *t,
                                unsigned entry, size_t count)
{
    const struct ptx_device_info *info = ptx_device_get_info(m->device);
    const uint32_t shared = ptxk_muon_shared(entry, m->groups);
    const uint32_t half = (uint32_t)info->shared_per_sm / 2 + MUON_ALIGNED;

    return m->groups && entry == MUON_CHIP_128 && t->tile_count &&
                   count <= (size_t)info->multiprocessors
               ? half
               : shared;
}

// As many blocks of tiles as multiprocessors have room for.
static void make_launches(struct muon_products *m, const struct tables *t)
{
    const bool small = t->side == MUON_SMALL;
    const size_t all = (size_t)ptx_device_get_info(m->device)->multiprocessors *
                       ptxk_muon_blocks(t->side, m->groups);
    const size_t most = all - spared(m, t, all);
    const struct places at = place(t);
    const CUdeviceptr base = ptx_buffer_address(m->memory);
    size_t chip = 0;

    for (unsigned k = 0; k < CHIP_ENTRIES; k++) {
        const unsigned entry = chip_entries[k];
        if (!t->chip_count[k])
            continue;
        m->launches[m->launch_count++] =
            (struct launch) { entry, (unsigned)t->chip_count[k],
                              shared_of_chips(m, t, entry, t->chip_count[k]),
                              base + at.chips + chip * sizeof(struct muon_chip) };
        chip += t->chip_count[k];
    }
    if (t->tile_count) {
        const unsigned entry = small ? MUON_SMALL_TILES : MUON_TILES;
        m->launches[m->launch_count++] =
            (struct launch) { entry, (unsigned)(t->tile_count < most ? t->tile_count : most),
                              ptxk_muon_shared(entry, m->groups), base + at.tiles };
    }
    m->queue = (struct queue) { base + at.turns, base + at.done, (uint32_t)t->tile_count,
                                t->matrix_count };
}

static bool is_taken(const struct muon_products *m, unsigned entry)
{
    return m->taker.name[entry] != NULL;
}

static ptx_status emit(const struct muon_products *m, ptx_builder *b, unsigned entries)
{
    unsigned others = entries, before = 0;
    ptx_status status = PTX_OK;

    for (unsigned k = 0; k < MUON_ENTRIES; k++) {
        others &= ~((unsigned)is_taken(m, k) << k);
        before += others >> k & 1;
    }
    ptxk_muon_emit(b, others);
    for (unsigned k = 0; k < MUON_ENTRIES && !status; k++) {
        if (!(entries >> k & 1) || !is_taken(m, k))
            continue;
        m->taker.emit(m->taker.user, b, k);
        status = m->taker.bind(m->taker.user, b, k, before++);
    }
    return status;
}

static ptx_status load(struct muon_products *m, const struct ptx_module_params *module,
                       CUstream stream)
{
    static const struct ptx_module_params defaults;
    unsigned entries = 0;

    for (unsigned k = 0; k < m->launch_count; k++)
        if (!m->functions[m->launches[k].entry])
            entries |= 1u << m->launches[k].entry;
    if (!entries)
        return PTX_OK;
    ptx_builder *b =
        m->groups ? ptxp_builder_create_own(m->device) : ptxp_builder_create(m->device);
    if (!b)
        return ptx_error_status();
    ptx_status status = emit(m, b, entries);
    if (!status)
        m->module = ptxp_load(m->device, b, "the kernels of Muon's products",
                              module ? module : &defaults, stream);
    ptx_builder_destroy(&b);
    for (unsigned k = 0; k < MUON_ENTRIES && m->module; k++) {
        if (!(entries & 1u << k))
            continue;
        m->functions[k] = ptx_module_function(m->module, is_taken(m, k) ? m->taker.name[k]
                                                                        : ptxk_muon_entries[k]);
        if (!m->functions[k])
            return ptx_error_status();
    }
    return m->module ? PTX_OK : ptx_error_status();
}

// ---- the object ---------------------------------------------------------------------------------

bool ptxp_muon_has_groups(const ptx_device *device)
{
    const struct ptx_device_info *info = ptx_device_get_info(device);

    return info->sm == GROUPS_SM && info->isa >= GROUPS_ISA;
}

static ptx_status create(struct muon_products *m, const struct muon_products *like,
                         const struct muon_set *set, CUdeviceptr workspace,
                         const struct ptx_module_params *module, CUstream stream)
{
    const struct ptx_device_info *info = ptx_device_get_info(m->device);
    struct tables tables = { .beside = set->beside };

    if (info->sm < 80)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                         "Muon needs sm_80 or newer, for products of f16 matrices: %s is sm_%d",
                         info->name, info->sm);
    m->groups = like ? like->groups : ptxp_muon_has_groups(m->device) && !set->by_warps;
    tables.groups = m->groups;
    ptx_status status = fill(&tables, set, workspace, m->device);
    if (!status && (tables.row_count || tables.chips_total)) {
        status = upload(m, &tables, stream);
        if (!status)
            make_launches(m, &tables);
        if (!status)
            status = load(m, module, stream);
    }
    free_tables(&tables);
    return status;
}

struct muon_products *ptxp_muon_create_like(const struct muon_products *like, ptx_device *device,
                                            const struct muon_set *set, CUdeviceptr workspace,
                                            const struct ptx_module_params *module, CUstream stream)
{
    struct muon_products *m = calloc(1, sizeof *m);

    if (!m) {
        out_of_memory();
        return NULL;
    }
    m->device = device;
    m->taker = set->taker;
    if (like)
        memcpy(m->functions, like->functions, sizeof m->functions);
    if (create(m, like, set, workspace, module, stream)) {
        ptxp_muon_destroy(m);
        return NULL;
    }
    return m;
}

struct muon_products *ptxp_muon_create(ptx_device *device, const struct muon_set *set,
                                       CUdeviceptr workspace,
                                       const struct ptx_module_params *module, CUstream stream)
{
    return ptxp_muon_create_like(NULL, device, set, workspace, module, stream);
}

// `follows`: the launch before on the stream is one of these, too, and overlaps with it. They have
// no matrix in common, and leave multiprocessors to each other.
static ptx_status launch(const struct muon_products *products, unsigned k, bool follows,
                         CUstream stream)
{
    const struct launch *l = &products->launches[k];
    const struct queue *q = &products->queue;
    const struct ptx_arg of_tiles[] = { PTX_ARG(products->products), PTX_ARG(l->table),
                                        PTX_ARG(q->turns),           PTX_ARG(q->done),
                                        PTX_ARG(q->tiles),           PTX_ARG(q->matrices) };
    const struct ptx_arg of_chips[] = { PTX_ARG(l->table) };
    const bool tiles = l->entry == MUON_TILES || l->entry == MUON_SMALL_TILES;
    struct ptx_launch_params params = {
        .grid = { l->blocks },
        .shared_bytes = l->shared,
        .stream = stream,
        .args = tiles ? of_tiles : of_chips,
        .arg_count = tiles ? sizeof of_tiles / sizeof *of_tiles : 1,
        .programmatic = follows,
    };

    if (is_taken(products, l->entry))
        params.args =
            products->taker.args(products->taker.user, l->entry,
                                 &(struct muon_values) { l->table, products->products, q->turns,
                                                         q->done, q->tiles, q->matrices },
                                 &params.arg_count);
    return ptx_launch(products->functions[l->entry], &params);
}

ptx_status ptxp_muon_launch(const struct muon_products *products, unsigned k, CUstream stream)
{
    return launch(products, k, false, stream);
}

// The chips' first: blocks of tiles take what is left of the multiprocessors, and stay.
ptx_status ptxp_muon_run(const struct muon_products *products, CUstream stream)
{
    ptx_status status = PTX_OK;

    for (unsigned k = 0; k < products->launch_count && !status; k++)
        status = launch(products, k, k > 0, stream);
    return status;
}

struct muon_launch ptxp_muon_launch_at(const struct muon_products *products, unsigned k)
{
    const struct launch *l = &products->launches[k];

    return (struct muon_launch) { ptxk_muon_entries[l->entry], l->blocks, products->groups };
}

unsigned ptxp_muon_launches(const struct muon_products *products)
{
    return products->launch_count;
}

void ptxp_muon_destroy(struct muon_products *products)
{
    if (!products)
        return;
    ptx_module_unload(&products->module);
    ptx_buffer_destroy(&products->memory);
    free(products);
}
