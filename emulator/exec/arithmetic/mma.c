// SPDX-License-Identifier: MIT
// mma and wmma: fragments, which are tiles of matrices in the registers of the lanes of a warp.
#include "dot.h"
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"
#include "fragment.h"
#include "sparse.h"

#include <fenv.h>
#include <stdalign.h>

enum { MOST = 32, MOST_A = 64, MOST_B = 128 }; // rows; elements of a row of A, of a column of B

// Operands of a product. C and D have the same places, but not always the same type.
enum factor { IS_A, IS_B, IS_C, IS_D };

struct tiles {
    uint64_t a[MOST][MOST_A], b[MOST][MOST_B], c[MOST][MOST];
    // What the undefined bits of the sources reach: rows, columns, single results. 0: nothing.
    struct {
        uint32_t row_origin[MOST], column_origin[MOST], origin[MOST][MOST];
        bool row[MOST], column[MOST], one[MOST][MOST];
    } open;
};

// Bits come as words.
static unsigned element_bits(const struct emu_insn *insn, enum factor factor)
{
    const unsigned bits = emu_bits((enum emu_type)(factor == IS_C   ? insn->sum_type
                                                   : factor == IS_D ? insn->type
                                                                    : insn->source_type));
    return bits == 1 ? 32 : bits;
}

// Elements of a column of B.
static unsigned depth_of(const struct emu_insn *insn)
{
    const unsigned k = emu_sizes_of((enum emu_shape)insn->shape).k;
    return insn->source_type == EMU_B1 ? k / 32 : k;
}

static unsigned registers_of(const struct emu_insn *insn, enum factor factor)
{
    return emu_fragment_registers(insn, "ABCD"[factor]);
}

// Fragments of wmma have the elements row after row, lane after lane, and again from the first if
// there is room left: PTX leaves it open.
static struct emu_position in_order(const struct emu_insn *insn, enum factor factor, unsigned lane,
                                    unsigned reg, unsigned part)
{
    const struct emu_sizes size = emu_sizes_of((enum emu_shape)insn->shape);
    const unsigned rows = factor == IS_B ? size.n : size.m;
    const unsigned columns = factor < IS_C ? size.k : size.n;
    const unsigned parts = emu_parts_of(element_bits(insn, factor));
    const unsigned at =
        ((lane * registers_of(insn, factor) + reg) * parts + part) % (rows * columns);
    return (struct emu_position) { at / columns, at % columns };
}

static struct emu_position place_in(const struct emu_insn *insn, enum factor factor, unsigned bits,
                                    unsigned lane, unsigned reg, unsigned part)
{
    if (emu_is_opaque((enum emu_shape)insn->shape))
        return in_order(insn, factor, lane, reg, part);
    return factor >= IS_C ? emu_position_in_sum(bits, lane, reg, part)
                          : emu_position_in_factor(bits, lane, reg, part, factor == IS_A);
}

static void open_element(struct tiles *t, enum factor factor, struct emu_position at,
                         uint32_t origin)
{
    bool *open = factor == IS_A   ? &t->open.row[at.row]
                 : factor == IS_B ? &t->open.column[at.row]
                                  : &t->open.one[at.row][at.column];
    uint32_t *from = factor == IS_A   ? &t->open.row_origin[at.row]
                     : factor == IS_B ? &t->open.column_origin[at.row]
                                      : &t->open.origin[at.row][at.column];
    *open = true;
    *from = *from ? *from : origin;
}

static void gather_register(struct emu_warp *warp, unsigned char *frame, const uint32_t *init,
                            const struct emu_op *op, enum factor factor, unsigned reg, unsigned src,
                            struct tiles *t)
{
    const unsigned bits = element_bits(op->insn, factor);
    const uint64_t low = UINT64_MAX >> (64 - bits);
    const uint32_t undefined = emu_undefined_in(init, &op->src[src], UINT32_MAX);
    alignas(64) uint64_t scratch[EMU_LANES];
    const void *lanes = emu_fetch(warp, frame, &op->src[src], scratch);
    const uint32_t *words = lanes;
    const uint64_t *longs = lanes;
    struct emu_undefined_lanes u;
    if (undefined) {
        memset(&u, 0, sizeof u);
        emu_undefined_fetch(warp, init, op, &op->src[src], undefined, &u);
    }
    for (unsigned i = 0; i < EMU_LANES * emu_parts_of(bits); i++) {
        const unsigned lane = i % EMU_LANES, part = i / EMU_LANES;
        const struct emu_position at = place_in(op->insn, factor, bits, lane, reg, part);
        *(factor == IS_A   ? &t->a[at.row][at.column]
          : factor == IS_B ? &t->b[at.row][at.column]
                           : &t->c[at.row][at.column]) =
            bits == 64 ? longs[lane] : words[lane] >> part * bits & low;
        if (undefined && u.lane[lane].bits >> part * bits & low)
            open_element(t, factor, at, u.lane[lane].origin);
    }
}

static void put_results(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                        const struct emu_op *op, const struct tiles *t)
{
    const unsigned bits = element_bits(op->insn, IS_D);
    for (unsigned reg = 0; reg < op->dst_count; reg++) {
        struct emu_undefined_lanes u;
        uint64_t longs[EMU_LANES] = { 0 };
        uint32_t open = 0;
        for (unsigned i = 0; i < EMU_LANES * emu_parts_of(bits); i++) {
            const unsigned lane = i % EMU_LANES, part = i / EMU_LANES;
            const struct emu_position at = place_in(op->insn, IS_D, bits, lane, reg, part);
            const uint64_t all = UINT64_MAX >> (64 - bits) << part * bits;
            const bool row = t->open.row[at.row], column = t->open.column[at.column];
            longs[lane] |= t->c[at.row][at.column] << part * bits;
            if (!row && !column && !t->open.one[at.row][at.column])
                continue;
            if (!open)
                memset(&u, 0, sizeof u);
            open |= 1u << lane;
            u.lane[lane].bits |= all;
            u.lane[lane].computed |= all;
            u.lane[lane].origin = row      ? t->open.row_origin[at.row]
                                  : column ? t->open.column_origin[at.column]
                                           : t->open.origin[at.row][at.column];
        }
        emu_put_longs(frame, init, &op->dst[reg], UINT32_MAX, longs);
        if (open)
            emu_undefined_put(warp, init, &op->dst[reg], open, &u);
    }
}

// The elements of B that meet those of a row of A, where the metadata names them. False after a
// fault.
static bool sparse_row(struct emu_warp *warp, unsigned char *frame, const uint32_t *init,
                       const struct emu_op *op, unsigned row, unsigned src, struct tiles *t,
                       uint8_t at[MOST_A])
{
    const struct emu_value *value = &op->src[src];
    const uint32_t lanes = emu_sparse_lanes(op->insn, op->src[src + 1].operand->bits, row);
    const uint32_t undefined = emu_undefined_in(init, value, lanes);
    alignas(64) uint32_t scratch[EMU_LANES];
    const uint32_t *metadata = emu_fetch(warp, frame, value, scratch);
    struct emu_undefined_lanes u = { 0 };
    if (undefined) {
        emu_undefined_fetch(warp, init, op, value, undefined, &u);
        open_element(t, IS_A, (struct emu_position) { row, 0 },
                     u.lane[emu_first(undefined)].origin);
        memset(at, 0, MOST_A);
        return true;
    }
    const int wrong = emu_sparse_columns(op->insn, metadata, lanes, row, at);
    return wrong < 0 || emu_fault(warp, op->insn, (unsigned)wrong, EMU_ILLEGAL_INSTRUCTION,
                                  "metadata 0x%08x names the elements of row %u of A wrongly",
                                  (unsigned)metadata[wrong], row);
}

// m16n8 of f16 with sums in f32, of defined sources: most of what kernels multiply. False: it is
// another one, or there are numbers that need the general way.
static bool quick_mma(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                      const struct emu_op *op)
{
    enum { A = EMU_TILE_MOST / 4, B = EMU_TILE_MOST / 8, SOURCES = A + B + EMU_TILE_SUMS };
    const struct emu_insn *insn = op->insn;
    const struct emu_sizes size = emu_sizes_of((enum emu_shape)insn->shape);
    const unsigned in_a = size.k / 4, in_b = size.k / 8;
    if (insn->source_type != EMU_F16 || insn->factor_type != EMU_F16 || insn->type != EMU_F32 ||
        insn->sum_type != EMU_F32 || size.m != 16 || size.n != 8 || size.k > EMU_TILE_MOST ||
        size.k % 8 != 0 || emu_is_opaque((enum emu_shape)insn->shape) || emu_is_sparse(insn) ||
        emu_host_rounding(insn->round) != FE_TONEAREST)
        return false;
    alignas(64) uint32_t scratch[SOURCES][EMU_LANES], sums[EMU_TILE_SUMS][EMU_LANES];
    const uint32_t *at[SOURCES];
    for (unsigned k = 0; k < in_a + in_b + EMU_TILE_SUMS; k++) {
        if (emu_undefined_in(init, &op->src[k], UINT32_MAX))
            return false;
        at[k] = emu_fetch(warp, frame, &op->src[k], scratch[k]);
    }
    const struct emu_tile_sums how = emu_half_sums(warp->block->exec->config->gpu->sm);
    if (!emu_tile_of(emu_lane_build())(&how, size.k, at, at + in_a, at + in_a + in_b, sums))
        return false;
    for (unsigned k = 0; k < EMU_TILE_SUMS; k++)
        emu_put(frame, init, &op->dst[k], UINT32_MAX, sums[k]);
    return true;
}

bool emu_mma(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame, uint32_t *init)
{
    if (quick_mma(warp, frame, init, op))
        return true;
    const struct emu_insn *insn = op->insn;
    const struct emu_sizes size = emu_sizes_of((enum emu_shape)insn->shape);
    const bool sparse = emu_is_sparse(insn);
    const unsigned depth = depth_of(insn) / (sparse ? 2 : 1);
    const int sm = warp->block->exec->config->gpu->sm;
    const int rounding = emu_host_rounding(insn->round);
    struct tiles t;
    unsigned src = 0;
    memset(&t.open, 0, sizeof t.open);
    for (unsigned factor = IS_A; factor <= IS_C; factor++) {
        const unsigned count = registers_of(insn, (enum factor)factor);
        for (unsigned reg = 0; reg < count; reg++)
            gather_register(warp, frame, init, op, (enum factor)factor, reg, src++, &t);
    }
    const bool lines = !sparse && emu_lines_fit(insn, depth);
    struct emu_line columns[MOST], of_row;
    for (unsigned column = 0; lines && column < size.n; column++)
        emu_fill_line(insn, t.b[column], depth, &columns[column]);
    for (unsigned row = 0; row < size.m; row++) {
        uint8_t at[MOST_A];
        if (lines)
            emu_fill_line(insn, t.a[row], depth, &of_row);
        if (sparse && !sparse_row(warp, frame, init, op, row, src, &t, at))
            return false;
        if (rounding != FE_TONEAREST)
            fesetround(rounding);
        for (unsigned column = 0; column < size.n; column++) {
            uint64_t chosen[MOST_A], *c = &t.c[row][column];
            uint32_t word = (uint32_t)*c;
            if (lines && emu_dot_lines(sm, &of_row, &columns[column], depth, &word)) {
                *c = word;
                continue;
            }
            for (unsigned k = 0; sparse && k < depth; k++)
                chosen[k] = t.b[column][at[k]];
            *c = emu_dot(insn, sm, t.a[row], sparse ? chosen : t.b[column], depth, *c);
        }
        if (rounding != FE_TONEAREST)
            fesetround(FE_TONEAREST);
    }
    put_results(warp, frame, init, op, &t);
    return true;
}

// ---- wmma.load, wmma.store ----------------------------------------------------------------------

// The rows of a matrix in memory, or its columns: lines of `count` elements.
struct lines {
    enum factor factor;
    unsigned count, length, bytes, bits; // of an element; fewer than 8 bits come as words
    bool transposed;                     // against the places of the fragment
    uint64_t first, stride;
    struct emu_access at[MOST];
};

static enum factor factor_of(const struct emu_op *op)
{
    const char letter = op->insn->letters[op->handler == EMU_DO_TILE_LOAD ? 0 : 2];
    return letter == 'A' ? IS_A : letter == 'B' ? IS_B : IS_D;
}

// The address and the stride, which are those of all lanes.
static bool fetch_address(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                          struct lines *lines)
{
    alignas(64) uint64_t scratch[2][EMU_LANES];
    const bool strided = strchr(op->insn->letters, 'u') != NULL;
    const uint64_t *addresses = emu_addresses(warp, frame, op, scratch[0]);
    const uint32_t *strides =
        strided ? emu_fetch(warp, frame, &op->src[op->src_count - 1], scratch[1]) : NULL;
    lines->first = addresses[0];
    lines->stride =
        strides ? strides[0] * (uint64_t)lines->bits / 8 : lines->length * (uint64_t)lines->bytes;
    for (unsigned i = 1; i < EMU_LANES; i++)
        if (addresses[i] != addresses[0] || (strides && strides[i] != strides[0]))
            return emu_fault(warp, op->insn, i, EMU_ILLEGAL_INSTRUCTION,
                             "lanes 0 and %u give different addresses or strides of one matrix", i);
    return true;
}

static bool find_lines(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                       enum emu_use use, struct lines *lines)
{
    const struct emu_sizes size = emu_sizes_of((enum emu_shape)op->insn->shape);
    const enum factor factor = factor_of(op);
    const unsigned bits = emu_bits((enum emu_type)op->insn->type);
    const unsigned depth = bits < 8 ? size.k * bits / 32 : size.k;
    const unsigned rows = factor == IS_B ? depth : size.m;
    const unsigned columns = factor == IS_A ? depth : size.n;
    const bool by_column = op->insn->mode == EMU_MODE_TRANSPOSED;
    const unsigned fragment = (bits == 64 ? 8 : 4) * registers_of(op->insn, factor);
    struct emu_op access = *op;
    *lines = (struct lines) { .factor = factor,
                              .count = by_column ? columns : rows,
                              .length = by_column ? rows : columns,
                              .bytes = op->bytes,
                              .bits = bits,
                              .transposed = by_column != (factor == IS_B) };
    access.handler = use == EMU_USE_LOAD ? EMU_DO_LOAD : EMU_DO_STORE;
    if (!fetch_address(warp, frame, op, lines))
        return false;
    for (unsigned k = 0; k < lines->count; k++) {
        const uint64_t address = lines->first + k * lines->stride;
        const uint32_t bytes = lines->length * lines->bytes;
        const unsigned align = fragment < 16 ? fragment : 16;
        if (address % align)
            return emu_fault(warp, op->insn, 0, EMU_MISALIGNED_ADDRESS,
                             "misaligned row or column of a matrix at 0x%llx: a multiple of %u is "
                             "required",
                             (unsigned long long)address, align);
        if (!emu_lane_range(warp, &access, 0, address, bytes, use, &lines->at[k]))
            return false;
        if (warp->block->race && lines->at[k].shared &&
            !emu_race_access(warp, &access, 0, (uint32_t)(lines->at[k].host - warp->block->shared),
                             bytes, use, false))
            return false;
    }
    return true;
}

// An element of the fragment in memory. The shadow is NULL if there is none.
static struct emu_access element_at(const struct lines *lines, struct emu_position at,
                                    uint64_t *address)
{
    const unsigned line = lines->transposed ? at.column : at.row;
    const unsigned offset = (lines->transposed ? at.row : at.column) * lines->bytes;
    struct emu_access element = lines->at[line];
    element.host += offset;
    element.shadow = element.shadow ? element.shadow + offset : NULL;
    *address = lines->first + line * lines->stride + offset;
    return element;
}

bool emu_tile_load(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                   uint32_t *init)
{
    struct lines lines;
    if (!find_lines(warp, frame, op, EMU_USE_LOAD, &lines))
        return false;
    for (unsigned reg = 0; reg < op->dst_count; reg++) {
        struct emu_undefined_lanes u = { 0 };
        uint64_t longs[EMU_LANES] = { 0 };
        uint32_t open = 0;
        for (unsigned i = 0; i < EMU_LANES * emu_parts_of(8 * lines.bytes); i++) {
            const unsigned lane = i % EMU_LANES, part = i / EMU_LANES;
            const unsigned shift = part * lines.bytes * 8;
            const struct emu_position at =
                place_in(op->insn, lines.factor, 8 * lines.bytes, lane, reg, part);
            uint64_t address, value = 0;
            const struct emu_access element = element_at(&lines, at, &address);
            memcpy(&value, element.host, lines.bytes);
            longs[lane] |= value << shift;
            if (!init || !element.shadow || emu_shadow_set(element.shadow, lines.bytes))
                continue;
            const struct emu_undefined one =
                emu_undefined_load(warp, op, address, element.shadow, lines.bytes);
            u.lane[lane].bits |= one.bits << shift;
            u.lane[lane].computed |= one.computed << shift;
            u.lane[lane].origin = u.lane[lane].origin ? u.lane[lane].origin : one.origin;
            open |= 1u << lane;
        }
        emu_put_longs(frame, init, &op->dst[reg], UINT32_MAX, longs);
        if (open)
            emu_undefined_put(warp, init, &op->dst[reg], open, &u);
    }
    return true;
}

// The bits of one element that are undefined.
static struct emu_undefined part_of(struct emu_undefined u, unsigned shift, unsigned bytes)
{
    const uint64_t low = UINT64_MAX >> (64 - 8 * bytes);
    return (struct emu_undefined) { u.bits >> shift & low, u.computed >> shift & low, u.origin };
}

bool emu_tile_store(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                    uint32_t *init)
{
    const unsigned count = registers_of(op->insn, IS_D);
    struct lines lines;
    if (!find_lines(warp, frame, op, EMU_USE_STORE, &lines))
        return false;
    for (unsigned reg = 0; reg < count; reg++) {
        const struct emu_value *value = &op->src[1 + reg];
        alignas(64) uint64_t scratch[EMU_LANES];
        const void *lanes = emu_fetch(warp, frame, value, scratch);
        const uint32_t *words = lanes;
        const uint64_t *longs = lanes;
        struct emu_undefined_lanes u = { 0 };
        if (emu_undefined_in(init, value, UINT32_MAX))
            emu_undefined_fetch(warp, init, op, value, UINT32_MAX, &u);
        for (unsigned i = 0; i < EMU_LANES * emu_parts_of(8 * lines.bytes); i++) {
            const unsigned lane = i % EMU_LANES, part = i / EMU_LANES;
            const unsigned shift = part * lines.bytes * 8;
            const struct emu_undefined open = part_of(u.lane[lane], shift, lines.bytes);
            const uint64_t word = lines.bytes == 8 ? longs[lane] : words[lane] >> shift;
            uint64_t address;
            const struct emu_access element = element_at(
                &lines, place_in(op->insn, IS_D, 8 * lines.bytes, lane, reg, part), &address);
            memcpy(element.host, &word, lines.bytes);
            if (element.shadow)
                emu_undefined_store(warp, element.shadow, lines.bytes, open);
            else if (emu_is_host_address(op->space, address) && open.computed &&
                     !emu_report_finding(warp, op->insn, lane, EMU_FINDING_HOST, EMU_TO_HOST,
                                         emu_origin_text(warp->block->exec->shadows, open.origin)))
                return false;
        }
    }
    return true;
}
