// SPDX-License-Identifier: MIT
// Fragments from memory, and matrices. A lane's address is made once; fragments are at constant
// offsets from it.
#include "matrix_parts.h"

// ---- what is asked of pointers and strides ------------------------------------------------------

bool ptxb_stride_ok(ptx_builder *b, const char *call, ptx_val *stride, unsigned multiple)
{
    *stride = ptxb_typed(b, call, "the stride", *stride, PTX_U32);
    if (!ptxb_usable(b, call, "the stride", *stride))
        return false;
    if (stride->type != PTX_U32) {
        ptxb_fail(b, call, "the stride is %s; it must be u32",
                  ptx_type_name((ptx_type)stride->type));
        return false;
    }
    if (stride->kind == PTX_KIND_IMMEDIATE && stride->bits % multiple) {
        ptxb_fail(b, call, "the stride is %llu elements; it must be a multiple of %u",
                  (unsigned long long)stride->bits, multiple);
        return false;
    }
    return true;
}

// Whether rows of `length` elements lie within an array, as far as that is known; `unit` bytes are
// accessed at a time.
bool ptxb_rows_in_array(ptx_builder *b, const char *call, ptx_ptr p, ptx_val stride, unsigned rows,
                        unsigned length, unsigned unit)
{
    const int64_t bytes = ptx_type_bytes((ptx_type)p.type);
    ptx_ptr last = p;

    if (!ptxb_in_array(b, call, p, unit))
        return false;
    if (stride.kind != PTX_KIND_IMMEDIATE)
        return true;
    last.offset += ((int64_t)(rows - 1) * (int64_t)stride.bits + length) * bytes - unit;
    return ptxb_in_array(b, call, last, unit);
}

void ptxb_require_uniform_matrix(ptx_builder *b, const char *call, ptx_ptr p, ptx_val stride)
{
    ptxb_require_uniform(b, call, "the pointer", p.base);
    ptxb_require_uniform(b, call, "the stride", stride);
}

// ---- a lane's address ---------------------------------------------------------------------------

// The side is rows of A and columns of B; in memory it goes down the rows, with .trans along them.
enum { SIDE = 8, WORD_DEPTH = 4 }; // sides of a tile; elements of f64 along k that lanes have
static unsigned side_of(ptx_fragment_role role)
{
    return role == PTX_FRAGMENT_A ? 2 * SIDE : SIDE;
}

// Bytes that a lane accesses at a time, at a multiple of them.
static unsigned unit_of(ptx_fragment_role role, ptx_ptr p)
{
    return role == PTX_FRAGMENT_C ? ptxb_sum_unit(p) : ptxb_bits(p.type) < 64 ? 16 : 8;
}

// Bytes of an element, where a pair of 8 bits is two.
static unsigned element_bytes(ptx_type type)
{
    return ptxb_fragment_bits(type) / 8;
}

static ptx_val masked(ptx_builder *b, ptx_val x, unsigned bits)
{
    return ptx_and(b, x, ptx_u32(bits));
}

// row * stride + column, in bytes.
static ptx_val place(ptx_builder *b, ptx_val row, ptx_val stride, unsigned bytes, ptx_val column)
{
    stride = stride.kind == PTX_KIND_IMMEDIATE ? ptx_u32((uint32_t)stride.bits * bytes)
                                               : ptx_mul(b, stride, ptx_u32(bytes));
    return ptxb_is_given(column) ? ptx_mad(b, row, stride, column) : ptx_mul(b, row, stride);
}

// The row of a tile that this lane gives the address of. Lanes follow each other down 8 rows of a
// tile. Of four tiles bit 3 of the lane tells which of two neighbours it has, and bit 4 which two.
// Words of A alternate between the upper and the lower rows and then go along k, those of B go
// along k; after the last word comes the next fragment. Two fragments of C are four tiles as one of
// A is. 16 bytes of a row are a tile's.
static ptx_val tile_lane(ptx_builder *b, const ptx_matrix *m, unsigned words, unsigned tiles)
{
    const bool low = tiles > 1, high = tiles > 2, trans = m->trans;
    const bool low_down = low && (m->role != PTX_FRAGMENT_B || words == 1) != trans;
    const bool high_down = high && (m->role != PTX_FRAGMENT_C && words < 4) != trans;
    const bool low_along = low && !low_down, high_along = high && !high_down;
    ptx_val lane = ptx_laneid(b), row = lane, column = { 0 };

    if (!low_down || !high_down)
        row = masked(b, lane, low_down ? 15 : 7);
    if (high_down && !low_down)
        row = ptx_or(b, row, masked(b, ptx_shr(b, lane, ptx_u32(1)), 8));
    if (low_along)
        column = ptx_shl(b, masked(b, lane, high_along ? 24 : 8), ptx_u32(1));
    else if (high_along)
        column = masked(b, lane, 16);
    return place(b, row, m->stride, ptx_type_bytes((ptx_type)m->first.type), column);
}

// Lane l has element l % 4 along k of row l / 4 of A, or column of B.
static ptx_val word_lane(ptx_builder *b, const ptx_matrix *m)
{
    ptx_val lane = ptx_laneid(b), side = ptx_shr(b, lane, ptx_u32(2)), depth = masked(b, lane, 3);

    return place(b, m->trans ? depth : side, m->stride, 8,
                 ptx_shl(b, m->trans ? side : depth, ptx_u32(3)));
}

// What a lane's place depends on but the stride, in a byte.
static uint8_t shape_of(const ptx_matrix *m, unsigned words)
{
    const unsigned bytes = ptx_type_bytes((ptx_type)m->first.type);

    return (uint8_t)((words - 1) << 4 | (bytes < 8 ? bytes / 2 : 3) << 2 | (m->trans ? 2 : 0) |
                     (m->role == PTX_FRAGMENT_A ? 1 : 0));
}

// A lane's place in a single fragment, which those after it in straight code share.
static ptx_val single_lane(ptx_builder *b, const ptx_matrix *m, unsigned words)
{
    const uint8_t shape = shape_of(m, words);
    ptx_val lane = ptxb_kept_lane(b, m->stride, shape);

    if (ptxb_is_given(lane))
        return lane;
    lane = m->type == PTX_F64 ? word_lane(b, m) : tile_lane(b, m, words, words);
    if (m->stride.kind != PTX_KIND_VARIABLE)
        ptxb_keep_lane(b, m->stride, shape, lane);
    return lane;
}

// Checks what a matrix is made of. Returns the words of a fragment, 0 after an error.
static unsigned matrix_ok(ptx_builder *b, const char *call, ptx_fragment_role role, ptx_type type,
                          unsigned k, ptx_ptr p, struct ptx_fragment_load_params *params,
                          bool matrix)
{
    if (!ptxb_pointer_ok(b, call, p))
        return 0;
    const unsigned words = ptxb_fragment_count(b, call, role, type, k);
    const unsigned bytes = element_bytes(type);
    if (!words)
        return 0;
    if (role == PTX_FRAGMENT_C && matrix)
        return ptxb_sum_ok(b, call, type, p, params) ? words : 0;
    if (role == PTX_FRAGMENT_C || p.space != PTX_SPACE_SHARED ||
        ptx_type_bytes((ptx_type)p.type) != bytes || (params->trans && bytes != 2 && bytes != 8)) {
        ptxb_fail(b, call,
                  "fragment %s of %s from %s in %s memory%s: A and B come from elements of their "
                  "width in shared memory%s; .trans is for elements of 16 and 64 bits",
                  ptxb_fragment_role(role), ptx_type_name(type), ptx_type_name((ptx_type)p.type),
                  ptxb_space_name(p.space), params->trans ? " with .trans" : "",
                  bytes != ptx_type_bytes(type) ? ", of 8 bits (ptx_ptr_cast to PTX_B8)" : "");
        return 0;
    }
    const bool down = !params->trans;
    if (!ptxb_stride_ok(b, call, &params->stride, unit_of(role, p) / bytes) ||
        !ptxb_rows_in_array(b, call, p, params->stride, down ? side_of(role) : k,
                            down ? k : side_of(role), unit_of(role, p)))
        return 0;
    ptxb_require_uniform_matrix(b, call, p, params->stride);
    return words;
}

// `tiles`: that an instruction loads or stores; 0: lanes store their own words. `single`: of one
// fragment.
static ptx_matrix make_matrix(ptx_builder *b, ptx_fragment_role role, ptx_type type, unsigned k,
                              ptx_ptr p, const struct ptx_fragment_load_params *params,
                              unsigned words, unsigned tiles, bool single)
{
    ptx_matrix m = { .first = p,
                     .stride = params->stride,
                     .role = (uint8_t)role,
                     .type = (uint8_t)type,
                     .k = (uint8_t)k,
                     .tiles = (uint8_t)tiles,
                     .trans = params->trans };
    if (!tiles) {
        m.lane = ptx_at(b, p, ptxb_sum_lane(b, m.stride));
        return m;
    }
    ptx_val at = single            ? single_lane(b, &m, words)
                 : type == PTX_F64 ? word_lane(b, &m)
                                   : tile_lane(b, &m, words, tiles);

    m.lane = ptx_ptr_cast(b, (ptx_type)p.type, ptx_at(b, ptx_ptr_cast(b, PTX_B8, p), at));
    return m;
}

// A pointer moved by rows and columns of memory.
ptx_ptr ptxb_matrix_moved(ptx_builder *b, const ptx_matrix *m, ptx_ptr p, unsigned row,
                          unsigned column)
{
    if (m->stride.kind == PTX_KIND_IMMEDIATE)
        return ptx_at(b, p, ptx_u64((uint64_t)row * m->stride.bits + column));
    if (row)
        p = ptx_at(b, p, ptx_mul(b, m->stride, ptx_u32(row)));
    return ptx_at(b, p, ptx_u64(column));
}

static ptx_ptr lane_at(ptx_builder *b, const ptx_matrix *m, unsigned side, unsigned depth)
{
    return m->trans ? ptxb_matrix_moved(b, m, m->lane, depth, side)
                    : ptxb_matrix_moved(b, m, m->lane, side, depth);
}

// The words of one fragment of f64.
static void load_words(ptx_builder *b, const ptx_matrix *m, unsigned side, unsigned depth,
                       ptx_fragment *f)
{
    const bool is_a = m->role == PTX_FRAGMENT_A;

    for (unsigned w = 0; w < f->words; w++) {
        ptx_ptr p = lane_at(b, m, side + (is_a ? w % 2 * SIDE : 0),
                            depth + (is_a ? w / 2 : w) * WORD_DEPTH);
        f->word[w] = ptx_load_emit(b, p, (struct ptx_load_params) { .index = ptx_u32(0) });
    }
}

// `count` fragments from an element on, which follow each other down A or across B.
static void load_fragments(ptx_builder *b, const ptx_matrix *m, unsigned words, unsigned side,
                           unsigned depth, unsigned count, ptx_fragment *to)
{
    const unsigned step = side_of((ptx_fragment_role)m->role), most = m->tiles / words;

    for (unsigned at = 0; at < count && !b->failed;) {
        const ptx_fragment f =
            ptxb_fragment_make((ptx_fragment_role)m->role, (ptx_type)m->type, m->k, words);
        unsigned many = 1;
        to[at] = f;
        if (m->type == PTX_F64) {
            load_words(b, m, side + at * step, depth, &to[at]);
        } else {
            for (many = most ? most : 1; many > count - at;)
                many /= 2;
            ptx_ptr p = ptx_ptr_cast(b, PTX_B16, lane_at(b, m, side + at * step, depth));
            const ptx_vec v = ptx_ldmatrix_emit(
                b, p, (struct ptx_ldmatrix_params) { .tiles = many * words, .trans = m->trans });
            for (unsigned w = 0; w < many * words; w++) {
                to[at + w / words] = w % words ? to[at + w / words] : f;
                to[at + w / words].word[w % words] = v.lane[w];
            }
        }
        at += many;
    }
}

ptx_fragment ptx_fragment_load_emit(ptx_builder *b, ptx_fragment_role role, ptx_type type,
                                    unsigned k, ptx_ptr p, struct ptx_fragment_load_params params)
{
    const ptx_fragment poison = { 0 };
    const unsigned words = matrix_ok(b, "fragment_load", role, type, k, p, &params, false);
    ptx_fragment f = poison;

    if (!words)
        return poison;
    b->within = "fragment_load";
    const ptx_matrix m = make_matrix(b, role, type, k, p, &params, words, words, true);
    load_fragments(b, &m, words, 0, 0, 1, &f);
    b->within = NULL;
    return b->failed ? poison : f;
}

// ---- matrices -----------------------------------------------------------------------------------

ptx_matrix ptx_matrix_from_emit(ptx_builder *b, ptx_fragment_role role, ptx_type type, unsigned k,
                                ptx_ptr p, struct ptx_fragment_load_params params)
{
    const ptx_matrix poison = { .role = 0 };
    const unsigned words = matrix_ok(b, "matrix_from", role, type, k, p, &params, true);

    if (!words)
        return poison;
    b->within = "matrix_from";
    if (params.stride.kind == PTX_KIND_VARIABLE) // later rows are as far apart
        params.stride = ptx_copy(b, params.stride);
    // Before sm_80 all lanes must give an address of the array, also where fewer tiles are loaded.
    const unsigned tiles = role == PTX_FRAGMENT_C     ? ptxb_sum_tiles(b, p)
                           : b->params.target.sm < 80 ? words
                                                      : 4;
    const ptx_matrix m = make_matrix(b, role, type, k, p, &params, words, tiles, false);
    b->within = NULL;
    return b->failed ? poison : m;
}

bool ptxb_is_matrix(ptx_builder *b, const char *call, const ptx_matrix *m)
{
    if (!ptxb_ready(b, call))
        return false;
    if (!m->role) {
        if (!ptxb_follows(b))
            ptxb_fail(b, call, "the matrix was never set; ptx_matrix_from() makes one");
        return false;
    }
    return ptxb_pointer_ok(b, call, m->first) && ptxb_pointer_ok(b, call, m->lane);
}

ptx_matrix ptx_matrix_at(ptx_builder *b, ptx_matrix m, ptx_val i)
{
    const ptx_matrix poison = { .role = 0 };

    if (!ptxb_is_matrix(b, "matrix_at", &m))
        return poison;
    const unsigned multiple =
        unit_of((ptx_fragment_role)m.role, m.first) / ptx_type_bytes((ptx_type)m.first.type);
    i = ptxb_typed(b, "matrix_at", "the index", i, i.type == PTX_U64 ? PTX_U64 : PTX_S64);
    if (!ptxb_usable(b, "matrix_at", "the index", i))
        return poison;
    if (i.kind == PTX_KIND_IMMEDIATE && i.bits % multiple) {
        ptxb_fail(b, "matrix_at", "the index is %lld elements; it must be a multiple of %u",
                  (long long)i.bits, multiple);
        return poison;
    }
    ptxb_require_uniform(b, "matrix_at", "the index", i);
    b->within = "matrix_at";
    m.lane = ptx_at(b, m.lane, i);
    m.first = i.kind == PTX_KIND_IMMEDIATE ? ptx_at(b, m.first, i) : m.lane; // no place is known
    b->within = NULL;
    return b->failed ? poison : m;
}

bool ptxb_matrix_place_ok(ptx_builder *b, const char *call, const ptx_matrix *m, unsigned row,
                          unsigned column, unsigned count)
{
    enum { FAR = 1 << 24 };
    const ptx_fragment_role role = (ptx_fragment_role)m->role;
    const bool is_c = role == PTX_FRAGMENT_C, turned = (role == PTX_FRAGMENT_B) != m->trans;
    const unsigned down = turned ? column : row, along = turned ? row : column;
    const unsigned unit = unit_of(role, m->first), sides = side_of(role) * count;
    const unsigned bytes = ptx_type_bytes((ptx_type)m->first.type);

    if (down > FAR || along > FAR) {
        ptxb_fail(b, call, "row %u, column %u is too far from the matrix's beginning", row, column);
        return false;
    }
    if (along * bytes % unit) {
        ptxb_fail(
            b, call,
            "%s %u begins at byte %u of a row in memory; it must be a multiple of %u elements",
            turned ? "row" : "column", along, along * bytes, unit / bytes);
        return false;
    }
    if (m->stride.kind != PTX_KIND_IMMEDIATE)
        return true;
    ptx_ptr first = m->first;
    first.offset += ((int64_t)down * (int64_t)m->stride.bits + along) * bytes;
    return ptxb_rows_in_array(b, call, first, m->stride,
                              is_c       ? 2 * SIDE
                              : m->trans ? m->k
                                         : sides,
                              is_c || m->trans ? sides : m->k, unit);
}

void ptx_matrix_load(ptx_builder *b, ptx_matrix m, unsigned row, unsigned column, unsigned count,
                     ptx_fragment *to)
{
    if (to && count <= MATRIX_FRAGMENTS)
        memset(to, 0, count * sizeof *to);
    if (!ptxb_is_matrix(b, "matrix_load", &m))
        return;
    if (m.role == PTX_FRAGMENT_C) {
        ptxb_fail(b, "matrix_load",
                  "the matrix is of fragments C, which are stored (ptx_matrix_store)");
        return;
    }
    if (!to || !count || count > MATRIX_FRAGMENTS) {
        ptxb_fail(b, "matrix_load",
                  to ? "there are %u fragments to load; it must be 1 to %u"
                     : "`to` is NULL; it points to the %u fragments that are loaded (at most %u)",
                  count, MATRIX_FRAGMENTS);
        return;
    }
    if (!ptxb_matrix_place_ok(b, "matrix_load", &m, row, column, count))
        return;
    const bool is_a = m.role == PTX_FRAGMENT_A;
    const unsigned words =
        ptxb_fragment_count(b, "matrix_load", (ptx_fragment_role)m.role, (ptx_type)m.type, m.k);
    b->within = "matrix_load";
    load_fragments(b, &m, words, is_a ? row : column, is_a ? column : row, count, to);
    b->within = NULL;
    if (b->failed)
        memset(to, 0, count * sizeof *to);
}
