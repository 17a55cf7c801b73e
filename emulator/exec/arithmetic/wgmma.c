// SPDX-License-Identifier: MIT
// wgmma.mma_async: the product of a warpgroup, of which a warp makes its 16 rows when it comes to
// the instruction. B, and A unless it is in registers, lie in shared memory as descriptors tell.
#include "dot.h"
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "fragment.h"

#include <stdalign.h>

enum {
    GROUP = 4, // warps
    ROWS = 16, // of A, of a warp
    COLUMNS = 8,
    CHUNK = 16,     // bytes that stay together, whatever the layout
    ROW_CHUNKS = 2, // of a row of A or of a column of B
    ROW_BYTES = ROW_CHUNKS * CHUNK,
    DEPTH = ROW_BYTES, // most elements of a row
    MOST_CHUNKS = ROWS * ROW_CHUNKS,
    MOST_FACTOR = 4, // registers of A
};

// ---- matrices in shared memory ------------------------------------------------------------------

// What a descriptor tells. `width`: chunks of a row of the pattern that is swizzled; 1: none is.
// `base`: where the pattern begins, by the bits of an address from 7 on.
struct matrix {
    uint32_t start, leading, stride;
    unsigned width, base;
    bool across; // chunks lie along M or N, not along K
};

static struct matrix matrix_of(uint64_t descriptor, bool across)
{
    static const uint8_t widths[] = { 1, 8, 4, 2 };
    const uint32_t mask = 0x3fff;
    return (struct matrix) { .start = ((uint32_t)descriptor & mask) * CHUNK,
                             .leading = ((uint32_t)(descriptor >> 16) & mask) * CHUNK,
                             .stride = ((uint32_t)(descriptor >> 32) & mask) * CHUNK,
                             .width = widths[descriptor >> 62],
                             .base = (unsigned)(descriptor >> 49) & 7,
                             .across = across };
}

// Where chunk `i` of the rows from `first` on is: the chunks of a row, one after the other, or,
// where they lie across, those of eight rows for each k.
static uint32_t chunk_at(const struct matrix *m, unsigned first, unsigned depth, unsigned i)
{
    const uint32_t most = UINT32_C(0x3ffff); // of what a descriptor can give
    uint32_t offset;
    if (!m->across) {
        const unsigned row = first + i / ROW_CHUNKS, part = i % ROW_CHUNKS;
        offset = row % 8 * m->width * CHUNK + row / 8 * m->stride +
                 part * (m->width == 1 ? m->leading : CHUNK);
    } else {
        const unsigned column = first / 8 + i / depth, k = i % depth;
        offset = k % 8 * m->width * CHUNK;
        offset += m->width == 1 ? column * m->stride + k / 8 * m->leading
                                : column % m->width * CHUNK + column / m->width * m->leading +
                                      k / 8 * m->stride;
    }
    const uint32_t at = (m->start + offset) & most;
    return at ^ (((at >> 7) - m->base) & (m->width - 1)) * CHUNK; // bits 4 and on
}

// ---- a factor -----------------------------------------------------------------------------------

// Rows of A or columns of B, as bytes. What is undefined in one reaches all its sums.
struct factor {
    alignas(64) unsigned char at[ROWS][ROW_BYTES];
    uint32_t open; // rows that have it
    uint32_t origin[ROWS];
};

struct product {
    struct emu_warp *warp;
    const struct emu_op *op;
    unsigned char *frame;
    uint32_t *init;
    unsigned bits, depth; // of an element of A and B; elements of a row
    unsigned sum_bits;
    bool added; // scale-d
};

static void open_row(struct factor *f, unsigned row, uint32_t origin)
{
    if (!(f->open >> row & 1))
        f->origin[row] = origin;
    f->open |= 1u << row;
}

static bool read_is_ordered(const struct product *p, unsigned count, const uint32_t *at)
{
    int32_t away[EMU_LANES] = { 0 };
    for (unsigned i = 0; i < count; i++)
        away[i] = (int32_t)(at[i] - at[0]);
    if (!p->warp->block->race || emu_race_lanes(p->warp, p->op, UINT32_MAX >> (EMU_LANES - count),
                                                at[0], away, CHUNK, EMU_USE_LOAD))
        return true;
    for (unsigned i = 0; i < count; i++)
        if (!emu_race_access(p->warp, p->op, i, at[i], CHUNK, EMU_USE_LOAD, false))
            return false;
    return true;
}

// Puts a chunk's elements into their rows.
static void take_chunk(const struct product *p, const struct matrix *m, unsigned i,
                       const unsigned char *from, struct factor *f)
{
    const unsigned bytes = p->bits / 8, count = CHUNK / bytes;
    if (!m->across) {
        memcpy(&f->at[i / ROW_CHUNKS][i % ROW_CHUNKS * CHUNK], from, CHUNK);
        return;
    }
    for (unsigned part = 0; part < count; part++) // of 16 bits
        memcpy(&f->at[i / p->depth * count + part][i % p->depth * bytes], from + part * bytes,
               sizeof(uint16_t));
}

// Opens the rows of the elements of a chunk that were never written.
static void open_chunk(const struct product *p, const struct matrix *m, unsigned i,
                       uint32_t address, unsigned char *shadow, struct factor *f)
{
    const unsigned bytes = p->bits / 8, count = CHUNK / bytes;
    for (unsigned part = 0; shadow && part < count; part++) {
        const unsigned row = m->across ? i / p->depth * count + part : i / ROW_CHUNKS;
        unsigned char *at = shadow + part * bytes;
        if (!emu_shadow_set(at, bytes))
            open_row(f, row,
                     emu_undefined_load(p->warp, p->op, address + part * bytes, at, bytes).origin);
    }
}

// Reads `count` rows from `first` on. False after a fault.
static bool read_rows(const struct product *p, const struct matrix *m, unsigned first,
                      unsigned count, struct factor *f)
{
    const unsigned chunks = count * ROW_CHUNKS;
    struct emu_access access[MOST_CHUNKS];
    uint32_t at[MOST_CHUNKS];
    bool defined = true;
    for (unsigned i = 0; i < chunks; i++) {
        at[i] = chunk_at(m, first, p->depth, i);
        if (!emu_lane_range(p->warp, p->op, i, at[i], CHUNK, EMU_USE_LOAD, &access[i]))
            return false;
        if (defined && p->init && access[i].shadow)
            defined = emu_shadow_set(access[i].shadow, CHUNK);
    }
    if (!read_is_ordered(p, chunks, at))
        return false;
    f->open = 0;
    for (unsigned i = 0; i < chunks; i++)
        take_chunk(p, m, i, access[i].host, f);
    for (unsigned i = 0; !defined && i < chunks; i++)
        open_chunk(p, m, i, at[i], access[i].shadow, f);
    return true;
}

// Where a row's chunk is in the registers of mma: in those of four lanes.
static unsigned char *packed_at(uint32_t words[MOST_FACTOR][EMU_LANES], bool is_a, unsigned row,
                                unsigned chunk)
{
    const unsigned reg = is_a ? chunk * 2 + row / 8 : chunk;
    return (unsigned char *)&words[reg][row % 8 * (CHUNK / sizeof(uint32_t))];
}

static void pack_rows(const struct factor *f, unsigned rows, bool is_a,
                      uint32_t words[MOST_FACTOR][EMU_LANES])
{
    for (unsigned i = 0; i < rows * ROW_CHUNKS; i++)
        memcpy(packed_at(words, is_a, i / ROW_CHUNKS, i % ROW_CHUNKS),
               &f->at[i / ROW_CHUNKS][i % ROW_CHUNKS * CHUNK], CHUNK);
}

// A, from registers.
static void fetch_rows(const struct product *p, struct factor *f)
{
    uint32_t words[MOST_FACTOR][EMU_LANES];
    f->open = 0;
    for (unsigned reg = 0; reg < MOST_FACTOR; reg++) {
        const struct emu_value *value = &p->op->src[reg];
        const uint32_t undefined = emu_undefined_in(p->init, value, UINT32_MAX);
        alignas(64) uint32_t scratch[EMU_LANES];
        struct emu_undefined_lanes u;
        memcpy(words[reg], emu_fetch(p->warp, p->frame, value, scratch), sizeof words[reg]);
        if (undefined)
            emu_undefined_fetch(p->warp, p->init, p->op, value, undefined, &u);
        for (uint32_t m = undefined; m; m &= m - 1)
            if (u.lane[emu_first(m)].bits)
                open_row(f, emu_first(m) / 4 + reg % 2 * 8, u.lane[emu_first(m)].origin);
    }
    for (unsigned i = 0; i < MOST_CHUNKS; i++)
        memcpy(&f->at[i / ROW_CHUNKS][i % ROW_CHUNKS * CHUNK],
               packed_at(words, true, i / ROW_CHUNKS, i % ROW_CHUNKS), CHUNK);
}

static void negate(const struct product *p, struct factor *f, unsigned rows)
{
    for (unsigned row = 0; row < rows; row++)
        for (unsigned k = p->bits / 8 - 1; k < ROW_BYTES; k += p->bits / 8)
            f->at[row][k] ^= 0x80; // the host's bytes are in PTX's order
}

static void elements_of(const struct product *p, const unsigned char row[ROW_BYTES],
                        uint64_t bits[DEPTH])
{
    for (unsigned k = 0; k < p->depth; k++) {
        bits[k] = 0;
        memcpy(&bits[k], row + k * (p->bits / 8), p->bits / 8);
    }
}

// ---- the sums of eight columns ------------------------------------------------------------------

struct sums {
    uint64_t at[ROWS][COLUMNS];
    bool open[ROWS][COLUMNS];
    uint32_t origin[ROWS][COLUMNS];
};

// The first register of D that has the tile, and how many do.
static const struct emu_value *tile_of(const struct product *p, unsigned tile, unsigned *count)
{
    *count = ROWS * COLUMNS * p->sum_bits / 32 / EMU_LANES;
    return &p->op->dst[tile * *count];
}

static void fetch_sums(const struct product *p, unsigned tile, struct sums *s)
{
    const uint64_t low = UINT64_MAX >> (64 - p->sum_bits);
    unsigned count;
    const struct emu_value *values = tile_of(p, tile, &count);
    memset(s, 0, sizeof *s);
    for (unsigned reg = 0; p->added && reg < count; reg++) {
        const uint32_t undefined = emu_undefined_in(p->init, &values[reg], UINT32_MAX);
        alignas(64) uint32_t scratch[EMU_LANES];
        const uint32_t *words = emu_fetch(p->warp, p->frame, &values[reg], scratch);
        struct emu_undefined_lanes u;
        if (undefined) {
            memset(&u, 0, sizeof u);
            emu_undefined_fetch(p->warp, p->init, p->op, &values[reg], undefined, &u);
        }
        for (unsigned i = 0; i < EMU_LANES * emu_parts_of(p->sum_bits); i++) {
            const unsigned lane = i % EMU_LANES, part = i / EMU_LANES, shift = part * p->sum_bits;
            const struct emu_position at = emu_position_in_sum(p->sum_bits, lane, reg, part);
            s->at[at.row][at.column] = words[lane] >> shift & low;
            s->open[at.row][at.column] = undefined && u.lane[lane].bits >> shift & low;
            if (s->open[at.row][at.column])
                s->origin[at.row][at.column] = u.lane[lane].origin;
        }
    }
}

static void put_sums(const struct product *p, unsigned tile, const struct factor *a,
                     const struct factor *b, const struct sums *s)
{
    unsigned count;
    const struct emu_value *values = tile_of(p, tile, &count);
    for (unsigned reg = 0; reg < count; reg++) {
        uint32_t words[EMU_LANES] = { 0 }, open = 0;
        struct emu_undefined_lanes u;
        for (unsigned i = 0; i < EMU_LANES * emu_parts_of(p->sum_bits); i++) {
            const unsigned lane = i % EMU_LANES, part = i / EMU_LANES, shift = part * p->sum_bits;
            const struct emu_position at = emu_position_in_sum(p->sum_bits, lane, reg, part);
            const bool row = a->open >> at.row & 1, column = b->open >> at.column & 1;
            words[lane] |= (uint32_t)s->at[at.row][at.column] << shift;
            if (!row && !column && !s->open[at.row][at.column])
                continue;
            if (!open)
                memset(&u, 0, sizeof u);
            open |= 1u << lane;
            u.lane[lane].bits |= UINT64_MAX >> (64 - p->sum_bits) << shift;
            u.lane[lane].computed = u.lane[lane].bits;
            u.lane[lane].origin = row      ? a->origin[at.row]
                                  : column ? b->origin[at.column]
                                           : s->origin[at.row][at.column];
        }
        emu_put(p->frame, p->init, &values[reg], UINT32_MAX, words);
        if (open)
            emu_undefined_put(p->warp, p->init, &values[reg], open, &u);
    }
}

// f16 with sums in f32, of defined sources, as quick_mma() in mma.c. False: it is another one, or
// there are numbers that need the general way.
static bool quick_tile(const struct product *p, unsigned tile, uint32_t (*const a)[EMU_LANES],
                       const struct factor *b)
{
    enum { A = MOST_FACTOR, B = 2 };
    static const uint32_t zeros[EMU_LANES];
    const struct emu_tile_sums how = emu_half_sums(p->warp->block->exec->config->gpu->sm);
    alignas(64) uint32_t scratch[EMU_TILE_SUMS][EMU_LANES], sums[EMU_TILE_SUMS][EMU_LANES];
    uint32_t packed[MOST_FACTOR][EMU_LANES];
    const uint32_t *of_a[A], *of_b[B], *of_c[EMU_TILE_SUMS];
    unsigned count;
    const struct emu_value *values = tile_of(p, tile, &count);
    pack_rows(b, COLUMNS, false, packed);
    for (unsigned reg = 0; reg < A; reg++)
        of_a[reg] = a[reg];
    for (unsigned reg = 0; reg < B; reg++)
        of_b[reg] = packed[reg];
    for (unsigned reg = 0; reg < EMU_TILE_SUMS; reg++) {
        if (p->added && emu_undefined_in(p->init, &values[reg], UINT32_MAX))
            return false;
        of_c[reg] = p->added ? emu_fetch(p->warp, p->frame, &values[reg], scratch[reg]) : zeros;
    }
    if (!emu_tile_of(emu_lane_build())(&how, p->depth, of_a, of_b, of_c, sums))
        return false;
    for (unsigned reg = 0; reg < EMU_TILE_SUMS; reg++)
        emu_put(p->frame, p->init, &values[reg], UINT32_MAX, sums[reg]);
    return true;
}

static void any_tile(const struct product *p, unsigned tile, const struct factor *a,
                     const struct factor *b)
{
    const struct emu_insn *insn = p->op->insn;
    const int sm = p->warp->block->exec->config->gpu->sm;
    const bool lines = emu_lines_fit(insn, p->depth);
    struct emu_line columns[COLUMNS], of_row;
    uint64_t y[COLUMNS][DEPTH], x[DEPTH];
    struct sums s;
    fetch_sums(p, tile, &s);
    for (unsigned column = 0; column < COLUMNS; column++) {
        elements_of(p, b->at[column], y[column]);
        if (lines)
            emu_fill_line(insn, y[column], p->depth, &columns[column]);
    }
    for (unsigned row = 0; row < ROWS; row++) {
        elements_of(p, a->at[row], x);
        if (lines)
            emu_fill_line(insn, x, p->depth, &of_row);
        for (unsigned column = 0; column < COLUMNS; column++) {
            uint64_t *c = &s.at[row][column];
            uint32_t word = (uint32_t)*c;
            if (lines && emu_dot_lines(sm, &of_row, &columns[column], p->depth, &word))
                *c = word;
            else
                *c = emu_dot(insn, sm, x, y[column], p->depth, *c);
        }
    }
    put_sums(p, tile, a, b, &s);
}

// ---- the instruction ----------------------------------------------------------------------------

static bool require_group(struct emu_warp *warp, const struct emu_op *op)
{
    const struct emu_block *block = warp->block;
    const uint32_t threads = (warp->index / GROUP + 1) * GROUP * EMU_LANES;
    return block->threads >= threads ||
           emu_fault(warp, op->insn, 0, EMU_ILLEGAL_INSTRUCTION,
                     "it needs the four warps of a warpgroup, %u to %u; the block has %u threads",
                     warp->index / GROUP * GROUP, warp->index / GROUP * GROUP + GROUP - 1,
                     (unsigned)block->threads);
}

// The matrix of a descriptor, which all lanes have.
static bool find_matrix(const struct product *p, unsigned src, const char *name, bool across,
                        struct matrix *m)
{
    alignas(64) uint64_t scratch[EMU_LANES];
    const uint64_t *lanes = emu_fetch(p->warp, p->frame, &p->op->src[src], scratch);
    for (unsigned i = 1; i < EMU_LANES; i++)
        if (lanes[i] != lanes[0])
            return emu_fault(p->warp, p->op->insn, i, EMU_ILLEGAL_INSTRUCTION,
                             "lanes 0 and %u give different descriptors of %s", i, name);
    *m = matrix_of(lanes[0], across);
    return true;
}

static bool take_scale(struct product *p, unsigned src)
{
    uint32_t scratch[EMU_LANES], lanes;
    memcpy(&lanes, emu_fetch(p->warp, p->frame, &p->op->src[src], scratch), sizeof lanes);
    p->added = lanes != 0;
    return lanes == 0 || lanes == UINT32_MAX ||
           emu_fault(p->warp, p->op->insn, emu_first(~lanes), EMU_ILLEGAL_INSTRUCTION,
                     "lanes give different scales of D: true in the lanes 0x%08x", (unsigned)lanes);
}

bool emu_wgmma(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame, uint32_t *init)
{
    const struct emu_insn *insn = op->insn;
    const bool in_registers = insn->letters[2] == 'A';
    const unsigned of_a = in_registers ? emu_fragment_registers(insn, 'A') : 1;
    struct product p = { .warp = warp,
                         .op = op,
                         .frame = frame,
                         .init = init,
                         .bits = emu_bits((enum emu_type)insn->source_type),
                         .depth = emu_sizes_of((enum emu_shape)insn->shape).k,
                         .sum_bits = emu_bits((enum emu_type)insn->type) };
    // After A, the descriptor of B, and the scale of D: constants, as many as the form has.
    const struct emu_value *constants = &op->src[of_a + 2];
    const unsigned count = op->src_count - of_a - 2;
    bool set[4] = { false }; // A and B are negated; A and B lie across
    for (unsigned k = 0; k < count; k++)
        set[k + (k == 2 && in_registers)] = (int32_t)constants[k].operand->bits == (k < 2 ? -1 : 1);
    struct matrix from_a, from_b;
    struct factor a, b;
    if (!require_group(warp, op) || !find_matrix(&p, of_a, "B", set[3], &from_b) ||
        !take_scale(&p, of_a + 1))
        return false;
    if (in_registers)
        fetch_rows(&p, &a);
    else if (!find_matrix(&p, 0, "A", set[2], &from_a) ||
             !read_rows(&p, &from_a, warp->index % GROUP * ROWS, ROWS, &a))
        return false;
    if (set[0])
        negate(&p, &a, ROWS);
    const bool quick = insn->source_type == EMU_F16 && insn->type == EMU_F32 && !a.open;
    uint32_t packed[MOST_FACTOR][EMU_LANES];
    if (quick)
        pack_rows(&a, ROWS, true, packed);
    for (unsigned tile = 0; tile < insn->eighths; tile++) {
        if (!read_rows(&p, &from_b, tile * COLUMNS, COLUMNS, &b))
            return false;
        if (set[1])
            negate(&p, &b, COLUMNS);
        if (!quick || b.open || !quick_tile(&p, tile, packed, &b))
            any_tile(&p, tile, &a, &b);
    }
    return true;
}
