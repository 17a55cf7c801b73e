// SPDX-License-Identifier: MIT
// Muon plans: matrices that are put together from parts, multiplied, and taken apart.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/buffer.h>
#include <ptxgen/launch.h>
#include <ptxgen/muon.h>
#include <ptxgen/stream.h>

#include "driver/capture.h"
#include "driver/error.h"
#include "driver/nvtx.h"
#include "kernels/muon_parts.h"
#include "load.h"
#include "muon_program.h"

enum { TRIPLE = 3, PART_ALIGNMENT = 16, LINE = 8 };

struct ptx_muon_plan {
    ptx_device *device;
    ptx_module *module;
    ptx_function *functions[MUON_PARTS_ENTRIES];
    ptx_buffer *memory; // tables, then the products' workspace
    CUdeviceptr tables[MUON_PARTS_ENTRIES], tiles;
    unsigned tile_count;
    struct muon_products *products;
};

// What a plan is made from.
struct making {
    const struct ptx_muon_plan_params *params;
    struct muon_matrix *matrices;
    struct muon_schedule *schedules; // one a matrix
    float (*triples)[TRIPLE];
    struct muon_part_row *rows[MUON_PARTS_ENTRIES];
    struct muon_part_tile *tiles;
    size_t row_count, tile_count;
    uint64_t workspace; // bytes
};

uint64_t ptx_muon_pitch(uint64_t columns)
{
    return (columns + LINE - 1) / LINE * LINE * sizeof(uint16_t);
}

static ptx_status out_of_memory(void)
{
    return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a Muon plan");
}

static bool turns(const struct ptx_muon_matrix *m)
{
    return m->rows > m->columns;
}

static uint32_t steps_of(const struct ptx_muon_matrix *m)
{
    return m->muon ? m->muon->steps : (uint32_t)PTX_MUON_STEPS;
}

// ---- checks -------------------------------------------------------------------------------------

static ptx_status check_matrix(size_t k, const struct ptx_muon_matrix *m)
{
    uint64_t rows = 0;

    if (!m->rows || !m->columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "matrix %zu: it is %" PRIu64 " x %" PRIu64
                         ": leave one without elements out",
                         k, m->rows, m->columns);
    ptx_status status = ptxp_muon_check_sides("matrix", k, m->rows, m->columns);
    if (!status && m->muon)
        status = ptxp_muon_check("matrix", k, m->muon);
    if (status)
        return status;
    if (!m->parts)
        return ptxd_fail(PTX_ERROR_INVALID, "matrix %zu: parts is NULL", k);
    for (size_t n = 0; n < m->part_count; n++) {
        const struct ptx_muon_part *part = &m->parts[n];
        if (part->rows && (!part->at || part->at % PART_ALIGNMENT))
            return ptxd_fail(PTX_ERROR_INVALID,
                             "matrix %zu: parts[%zu].at is 0x%llx; it must be a multiple of %d", k,
                             n, (unsigned long long)part->at, PART_ALIGNMENT);
        if (part->rows > m->rows - rows)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "matrix %zu: its parts to parts[%zu] have more rows than its %" PRIu64,
                             k, n, m->rows);
        rows += part->rows;
    }
    return rows == m->rows ? PTX_OK
                           : ptxd_fail(PTX_ERROR_INVALID,
                                       "matrix %zu: its parts have %" PRIu64 " rows, and it has "
                                       "%" PRIu64,
                                       k, rows, m->rows);
}

static ptx_status check(const struct ptx_muon_plan_params *params)
{
    ptx_status status = PTX_OK;

    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    if (params->matrix_count && !params->matrices)
        return ptxd_fail(PTX_ERROR_INVALID, "matrices is NULL, and matrix_count is %zu",
                         params->matrix_count);
    for (size_t k = 0; k < params->matrix_count && !status; k++)
        status = check_matrix(k, &params->matrices[k]);
    return status;
}

// ---- tables -------------------------------------------------------------------------------------

static uint64_t tiles_of(uint64_t rows, uint64_t columns)
{
    return (rows + MUON_PARTS_TILE - 1) / MUON_PARTS_TILE *
           ((columns + MUON_PARTS_TILE - 1) / MUON_PARTS_TILE);
}

static struct muon_set set_of(const struct making *m)
{
    return (struct muon_set) { .matrices = m->matrices,
                               .count = m->params->matrix_count,
                               .schedules = m->schedules,
                               .schedule_count = (uint32_t)m->params->matrix_count };
}

static ptx_status allocate(struct making *m)
{
    const size_t count = m->params->matrix_count;
    uint64_t steps = 0, parts = 0, tiles = 0;

    for (size_t k = 0; k < count; k++) {
        const struct ptx_muon_matrix *of = &m->params->matrices[k];
        steps += steps_of(of);
        for (size_t n = 0; n < of->part_count; n++) {
            parts += of->parts[n].rows != 0;
            tiles += tiles_of(of->parts[n].rows, of->columns);
        }
    }
    if (tiles > INT32_MAX || count > UINT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the matrices have more than 2^31 tiles of %d x %d elements: make several "
                         "plans",
                         MUON_PARTS_TILE, MUON_PARTS_TILE);
    m->matrices = calloc(count + 1, sizeof *m->matrices);
    m->schedules = calloc(count + 1, sizeof *m->schedules);
    m->triples = calloc(steps + 1, sizeof *m->triples);
    m->tiles = calloc(tiles + 1, sizeof *m->tiles);
    for (unsigned k = 0; k < MUON_PARTS_ENTRIES; k++)
        m->rows[k] = calloc(parts + 1, sizeof *m->rows[k]);
    return m->matrices && m->schedules && m->triples && m->tiles && m->rows[MUON_GATHER] &&
                   m->rows[MUON_SCATTER]
               ? PTX_OK
               : out_of_memory();
}

static ptx_status lay_out(struct making *m)
{
    ptx_status status = allocate(m);
    float(*triples)[TRIPLE] = m->triples;

    for (size_t k = 0; k < m->params->matrix_count && !status; k++) {
        const struct ptx_muon_matrix *of = &m->params->matrices[k];
        const uint64_t least = turns(of) ? of->columns : of->rows;
        const uint64_t most = turns(of) ? of->rows : of->columns;
        m->matrices[k] = (struct muon_matrix) { .rows = (uint32_t)least,
                                                .columns = (uint32_t)most,
                                                .schedule = (uint32_t)k };
        m->schedules[k] = ptxp_muon_schedule(of->muon, triples);
        triples += m->schedules[k].steps;
    }
    const struct muon_set set = set_of(m);
    return status ? status : ptxp_muon_layout(&set, &m->workspace);
}

static void fill(struct making *m, CUdeviceptr workspace)
{
    for (size_t k = 0; k < m->params->matrix_count; k++) {
        const struct ptx_muon_matrix *of = &m->params->matrices[k];
        const uint32_t line = (uint32_t)(ptx_muon_pitch(of->columns) / sizeof(uint16_t));
        const uint64_t pitch = ptx_muon_pitch(turns(of) ? of->rows : of->columns);
        const uint64_t end = turns(of) ? of->rows : of->columns;
        uint64_t first = 0;
        for (size_t n = 0; n < of->part_count; n++) {
            const struct ptx_muon_part *part = &of->parts[n];
            const uint64_t at = turns(of) ? first * sizeof(uint16_t) : first * pitch;
            if (!part->rows)
                continue;
            first += part->rows;
            const struct muon_part_row row = {
                .at = part->at,
                .rows = (uint32_t)part->rows,
                .columns = (uint32_t)of->columns,
                .line = line,
                .x_line = (uint32_t)(pitch / sizeof(uint16_t)),
                .transposed = turns(of),
                .last =
                    turns(of) && first < of->rows ? 0 : (uint32_t)(pitch / sizeof(uint16_t) - end),
            };
            for (uint64_t tile = 0; tile < tiles_of(part->rows, of->columns); tile++)
                m->tiles[m->tile_count++] =
                    (struct muon_part_tile) { (uint32_t)m->row_count, (uint32_t)tile };
            m->rows[MUON_GATHER][m->row_count] = m->rows[MUON_SCATTER][m->row_count] = row;
            m->rows[MUON_GATHER][m->row_count].x = workspace + m->matrices[k].x + at;
            m->rows[MUON_SCATTER][m->row_count].x = workspace + m->matrices[k].out + at;
            m->row_count++;
        }
    }
}

static void free_making(struct making *m)
{
    free(m->matrices);
    free(m->schedules);
    free(m->triples);
    free(m->tiles);
    for (unsigned k = 0; k < MUON_PARTS_ENTRIES; k++)
        free(m->rows[k]);
}

// ---- plans --------------------------------------------------------------------------------------

static uint64_t rounded_up(uint64_t bytes)
{
    enum { ALIGNMENT = 256 };
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static ptx_status upload(ptx_muon_plan *plan, struct making *m)
{
    uint64_t parts = 0, tiles = 0;

    for (size_t k = 0; k < m->params->matrix_count; k++)
        for (size_t n = 0; n < m->params->matrices[k].part_count; n++) {
            const uint64_t rows = m->params->matrices[k].parts[n].rows;
            parts += rows != 0;
            tiles += tiles_of(rows, m->params->matrices[k].columns);
        }
    const uint64_t table = rounded_up(parts * sizeof(struct muon_part_row));
    const uint64_t work =
        MUON_PARTS_ENTRIES * table + rounded_up(tiles * sizeof(struct muon_part_tile));
    plan->memory = ptx_buffer_create(plan->device, (size_t)(work + m->workspace));
    if (!plan->memory)
        return ptx_error_status();
    const CUdeviceptr base = ptx_buffer_address(plan->memory);
    fill(m, base + work);
    ptx_status status = PTX_OK;
    for (unsigned k = 0; k < MUON_PARTS_ENTRIES && !status && parts; k++) {
        plan->tables[k] = base + k * table;
        status = ptx_buffer_upload(plan->memory, (size_t)(k * table), m->rows[k],
                                   (size_t)parts * sizeof *m->rows[k], m->params->stream);
    }
    plan->tiles = base + MUON_PARTS_ENTRIES * table;
    plan->tile_count = (unsigned)tiles;
    if (!status && tiles)
        status = ptx_buffer_upload(plan->memory, (size_t)(MUON_PARTS_ENTRIES * table), m->tiles,
                                   (size_t)tiles * sizeof *m->tiles, m->params->stream);
    if (!status)
        status = ptx_stream_synchronize(plan->device, m->params->stream);
    if (status)
        return status;
    const struct muon_set set = set_of(m);
    plan->products =
        ptxp_muon_create(plan->device, &set, base + work, m->params->module, m->params->stream);
    return plan->products ? PTX_OK : ptx_error_status();
}

static ptx_status load(ptx_muon_plan *plan, const struct ptx_muon_plan_params *params)
{
    static const struct ptx_module_params defaults;
    ptx_builder *b = ptxp_builder_create(plan->device);

    if (!b)
        return ptx_error_status();
    ptxk_muon_parts_emit(b);
    plan->module = ptxp_load(plan->device, b, "the kernels of a Muon plan",
                             params->module ? params->module : &defaults, params->stream);
    ptx_builder_destroy(&b);
    for (unsigned k = 0; k < MUON_PARTS_ENTRIES && plan->module; k++) {
        plan->functions[k] = ptx_module_function(plan->module, ptxk_muon_parts_entries[k]);
        if (!plan->functions[k])
            return ptx_error_status();
    }
    return plan->module ? PTX_OK : ptx_error_status();
}

static ptx_status make(ptx_muon_plan *plan, const struct ptx_muon_plan_params *params)
{
    struct making m = { .params = params };
    ptx_status status = check(params);

    if (!status)
        status = ptxp_refuse_capture(plan->device, params->stream, "Muon plan");
    if (!status)
        status = lay_out(&m);
    if (!status && params->matrix_count)
        status = upload(plan, &m);
    if (!status && params->matrix_count)
        status = load(plan, params);
    free_making(&m);
    return status;
}

ptx_muon_plan *ptx_muon_plan_create(ptx_device *device, const struct ptx_muon_plan_params *params)
{
    ptx_muon_plan *plan;

    if (!device) {
        ptxd_fail(PTX_ERROR_INVALID, "%s: device is NULL", __func__);
        return NULL;
    }
    plan = calloc(1, sizeof *plan);
    if (!plan) {
        ptxd_named(out_of_memory(), __func__);
        return NULL;
    }
    plan->device = device;
    ptxd_range_begin(__func__);
    if (ptxd_named(make(plan, params), __func__))
        ptx_muon_plan_destroy(&plan);
    ptxd_range_end();
    return plan;
}

void ptx_muon_plan_destroy(ptx_muon_plan **plan)
{
    if (!plan || !*plan)
        return;
    ptx_muon_plan *old = *plan;
    *plan = NULL;
    ptxp_muon_destroy(old->products);
    ptx_module_unload(&old->module);
    ptx_buffer_destroy(&old->memory);
    free(old);
}

static ptx_status copy(const ptx_muon_plan *plan, unsigned entry, CUstream stream)
{
    const struct ptx_arg args[] = { PTX_ARG(plan->tables[entry]), PTX_ARG(plan->tiles) };
    const struct ptx_launch_params params = {
        .grid = { plan->tile_count }, .stream = stream, .args = args, .arg_count = 2
    };

    return ptx_launch(plan->functions[entry], &params);
}

ptx_status ptx_muon_plan_run(ptx_muon_plan *plan, CUstream stream)
{
    ptx_status status;

    if (!plan)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: plan is NULL", __func__);
    if (!plan->tile_count)
        return PTX_OK;
    ptxd_range_begin(__func__);
    status = copy(plan, MUON_GATHER, stream);
    if (!status)
        status = ptxp_muon_run(plan->products, stream);
    if (!status)
        status = copy(plan, MUON_SCATTER, stream);
    ptxd_range_end();
    return ptxd_named(status, __func__);
}
