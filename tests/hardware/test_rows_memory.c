// SPDX-License-Identifier: MIT
// Loads and stores: every type, space, vector, cache hint, order and scope that the builder
// accepts, each in its own kernel, whose output is compared with plain C. On a GPU if there is one,
// and on the emulator in CI.
#include "rows.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64, MOST_ROWS = 8192, PARAM_BYTES = 64, WIDE = 32 };

static struct rows rows;
static struct row list[MOST_ROWS];
static unsigned listed;

// ---- what every kernel does ---------------------------------------------------------------------

static bool is_signed(ptx_type type)
{
    return type >= PTX_S8 && type <= PTX_S64;
}

static bool is_integer(ptx_type type)
{
    return type >= PTX_U8 && type <= PTX_S64;
}

// Integers are stored as 64 bits, to show what a load leaves in the upper part of the register.
// Other types are stored as they are, with the same stride.
static void store_wide(ptx_builder *b, ptx_ptr out, ptx_val i, ptx_val v)
{
    const ptx_type type = (ptx_type)v.type;

    if (is_integer(type))
        v = ptx_cvt(b, is_signed(type) ? PTX_S64 : PTX_U64, v);
    ptx_ptr at = ptx_ptr_cast(b, (ptx_type)v.type, ptx_at(b, out, i));
    ptx_store(b, at, ptx_u32(0), v);
}

static void expect_wide(unsigned i, ptx_type type, uint64_t bits)
{
    const unsigned bytes = ptx_type_bytes(type), width = 8 * bytes;

    if (is_signed(type) && width < 64 && bits >> (width - 1) & 1)
        bits |= UINT64_MAX << width;
    rows_put(rows.want + 8 * i, is_integer(type) ? 8 : bytes, 0, bits);
}

static ptx_val element_of(ptx_builder *b, const struct row *row)
{
    return ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(row->c.lanes));
}

// Copies each thread's lanes of `in` to the same position in another space, byte by byte.
static void fill(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr to, ptx_val at)
{
    const uint32_t bytes = row->c.lanes * ptx_type_bytes(row->c.type);
    ptx_ptr from = ptx_ptr_cast(b, PTX_U8, in);
    ptx_val first = ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(bytes));
    from = ptx_at(b, from, first);
    to = ptx_ptr_cast(b, PTX_U8, to);
    to = ptx_at(b, to, at);

    for (uint32_t k = 0; k < bytes; k++) {
        ptx_val v = ptx_load(b, from, ptx_u32(k));
        ptx_store(b, to, ptx_u32(k), v);
    }
}

static ptx_val bytes_of(ptx_builder *b, const struct row *row)
{
    return ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(row->c.lanes * ptx_type_bytes(row->c.type)));
}

// ---- loads --------------------------------------------------------------------------------------

static ptx_ptr load_from(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_val *i)
{
    const ptx_type type = row->c.type;
    ptx_ptr p = ptx_ptr_cast(b, type, in);

    switch (row->c.space) {
    case PTX_SPACE_GENERIC:
        return ptx_ptr_from(b, type, PTX_SPACE_GENERIC, ptx_ptr_address(b, p));
    case PTX_SPACE_SHARED:
        p = ptx_shared(b, PTX_U64, THREADS * WIDE / 8);
        fill(b, row, in, p, bytes_of(b, row));
        ptx_barrier(b);
        return ptx_ptr_cast(b, type, p);
    case PTX_SPACE_LOCAL:
        p = ptx_local(b, PTX_U64, WIDE / 8);
        fill(b, row, in, p, ptx_u32(0));
        *i = ptx_u32(0);
        return ptx_ptr_cast(b, type, p);
    default:
        return p;
    }
}

static void emit_load(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const struct op_case *c = &row->c;
    ptx_val i = element_of(b, row), to = i;
    ptx_ptr p = load_from(b, row, in, &i);
    ptx_vec v = ptx_load_vec(b, p, i, c->lanes, .nc = c->nc, .cache = c->cache, .order = c->order,
                             .scope = c->scope);

    for (unsigned k = 0; k < v.lanes; k++) {
        ptx_val at = ptx_add(b, to, ptx_u32(k));
        store_wide(b, out, at, v.lane[k]);
    }
}

static void expect_load(struct rows *r, const struct row *row)
{
    const unsigned bytes = ptx_type_bytes(row->c.type);

    for (unsigned i = 0; i < THREADS * row->c.lanes; i++)
        expect_wide(i, row->c.type, rows_in(r, bytes, i));
}

// ---- stores -------------------------------------------------------------------------------------

// Stores to `out`, with a gap after each thread's lanes, which must not change. Or stores to
// another space, and copies all of it to `out`; another thread does that if it can.
static void emit_store(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    const struct op_case *c = &row->c;
    const uint32_t bytes = c->lanes * ptx_type_bytes(c->type);
    ptx_ptr from = ptx_ptr_cast(b, c->type, in);
    ptx_val i = element_of(b, row);
    ptx_vec v = { .lanes = c->lanes };

    for (unsigned k = 0; k < c->lanes; k++) {
        ptx_val at = ptx_add(b, i, ptx_u32(k));
        v.lane[k] = ptx_load(b, from, at);
    }
    const bool device = c->space <= PTX_SPACE_GLOBAL;
    ptx_ptr p = device                        ? ptx_ptr_cast(b, c->type, out)
                : c->space == PTX_SPACE_LOCAL ? ptx_local(b, c->type, c->lanes)
                                              : ptx_shared(b, c->type, THREADS * c->lanes);
    if (c->space == PTX_SPACE_GENERIC)
        p = ptx_ptr_from(b, c->type, PTX_SPACE_GENERIC, ptx_ptr_address(b, p));
    ptx_val to = device ? ptx_mul(b, i, ptx_u32(2)) : c->space == PTX_SPACE_LOCAL ? ptx_u32(0) : i;
    ptx_store_vec(b, p, to, v, .nc = c->nc, .cache = c->cache, .order = c->order,
                  .scope = c->scope);
    if (device)
        return;
    ptx_val tid = ptx_tid(b, PTX_X), other = tid, first = ptx_u32(0);
    if (c->space == PTX_SPACE_SHARED) {
        ptx_barrier(b);
        other = ptx_xor(b, tid, ptx_u32(THREADS - 1));
        first = ptx_mul(b, other, ptx_u32(bytes));
    }
    p = ptx_at(b, ptx_ptr_cast(b, PTX_U8, p), first);
    ptx_val gap = ptx_mul(b, other, ptx_u32(2 * bytes));
    ptx_ptr at = ptx_at(b, ptx_ptr_cast(b, PTX_U8, out), gap);
    for (uint32_t k = 0; k < bytes; k++) {
        ptx_val byte = ptx_load(b, p, ptx_u32(k));
        ptx_store(b, at, ptx_u32(k), byte);
    }
}

static void expect_store(struct rows *r, const struct row *row)
{
    const unsigned bytes = row->c.lanes * ptx_type_bytes(row->c.type);

    for (unsigned t = 0; t < THREADS; t++)
        memcpy(r->want + 2 * t * bytes, r->in + t * bytes, bytes);
}

static const struct row_test loads = { emit_load, expect_load, NULL };
static const struct row_test stores = { emit_store, expect_store, NULL };

// ---- all of them --------------------------------------------------------------------------------

static void collect(void *user, const struct op_case *c)
{
    static const char *const spaces[] = { "generic", "global", "shared", "local", "param" };
    const enum op_case_kind *kind = user;
    const struct row_test *test = *kind == CASE_LOAD ? &loads : &stores;
    struct row row = { .c = *c, .threads = THREADS };

    if (c->kind != *kind || c->space == PTX_SPACE_PARAM || !rows_accepts(&rows, test, &row))
        return;
    assert_true(listed < MOST_ROWS);
    snprintf(row.name, sizeof row.name, "%s %s %s x%u nc %d cache %d order %d scope %d",
             *kind == CASE_LOAD ? "load" : "store", ptx_type_name(c->type), spaces[c->space],
             c->lanes, c->nc, c->cache, c->order, c->scope);
    list[listed++] = row;
}

static void run_kind(enum op_case_kind kind, unsigned least)
{
    listed = 0;
    op_cases(collect, &kind);
    assert_true(listed > least);
    rows_run(&rows, kind == CASE_LOAD ? &loads : &stores, list, listed);
    printf("%u rows\n", listed);
}

TEST(every_load)
{
    run_kind(CASE_LOAD, 500);
}

TEST(every_store)
{
    run_kind(CASE_STORE, 300);
}

// ---- parameters ---------------------------------------------------------------------------------

// An array passed by value, read in every type and vector.
TEST(parameters)
{
    unsigned char bytes[PARAM_BYTES];
    unsigned ran = 0;

    memcpy(bytes, rows.in + 24, sizeof bytes);
    ptx_buffer *to = ptx_buffer_create(rows.device, ROWS_OUT);
    assert_non_null(to);
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        for (unsigned lanes = 1; lanes <= 8; lanes *= 2) {
            const ptx_type type = (ptx_type)t;
            const unsigned count = type == PTX_PRED ? 0 : PARAM_BYTES / ptx_type_bytes(type);
            OWNED(ptx_builder) *b =
                ptx_builder_create(&(struct ptx_builder_params) { .target = rows.target });
            ptx_entry (b, "k", .block = { 1 }) {
                ptx_ptr array = ptx_param_array(b, PTX_U64, "array", PARAM_BYTES / 8);
                ptx_ptr out = ptx_param_ptr(b, PTX_U64, "out");
                ptx_ptr p = ptx_ptr_cast(b, type, array);
                for (unsigned i = 0; i < count; i += lanes) {
                    ptx_vec v = ptx_load_vec(b, p, ptx_u32(i), lanes);
                    for (unsigned k = 0; k < v.lanes; k++)
                        store_wide(b, out, ptx_u32(i + k), v.lane[k]);
                }
            }
            const char *text = ptx_builder_finish(b);
            OWNED(ptx_module) *module = text ? ptx_module_load(rows.device, text, NULL) : NULL;
            if (text) {
                assert_non_null(module);
                const CUdeviceptr address = ptx_buffer_address(to);
                const struct ptx_arg args[] = { { bytes, sizeof bytes }, PTX_ARG(address) };
                const struct ptx_launch_params launch = { .grid = { 1 },
                                                          .args = args,
                                                          .arg_count = 2 };
                memset(rows.want, 0xcc, ROWS_OUT);
                for (unsigned i = 0; i < count; i++)
                    expect_wide(i, type, rows_get(bytes, ptx_type_bytes(type), i));
                assert_int_equal(ptx_buffer_fill(to, 0, 0xcc, ROWS_OUT, NULL), PTX_OK);
                const ptx_function *function = ptx_module_function(module, "k");
                assert_int_equal(ptx_launch(function, &launch), PTX_OK);
                assert_int_equal(ptx_buffer_download(to, 0, rows.out, ROWS_OUT, NULL), PTX_OK);
                assert_int_equal(ptx_stream_synchronize(rows.device, NULL), PTX_OK);
                assert_memory_equal(rows.out, rows.want, ROWS_OUT);
                ran++;
            }
        }
    ptx_buffer_destroy(&to);
    assert_true(ran > 30);
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}
