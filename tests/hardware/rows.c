// SPDX-License-Identifier: MIT
#include "rows.h"
#include "sanitized.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_device.h"
#include "random.h"

// Of many rows, a sanitizer sees every fifth.
enum { EVERY = SANITIZED_EVERY(5), FEW = 100, BATCH = 64 * EVERY, SHOWN = 40 };

// Corner values of every width and format, at positions that no power of two hits twice.
static uint64_t word_of(struct random *r, unsigned i)
{
    static const uint64_t corners[] = {
        0,
        UINT64_MAX,
        1,
        UINT64_C(0x8000000000000000),
        UINT64_C(0x7fffffffffffffff),
        UINT64_C(0x7ff0000000000000),
        UINT64_C(0x7ff8000000000000),
        UINT64_C(0x7f8000007f800000),
        UINT64_C(0x7fc0000080000000),
        UINT64_C(0x0000000100000002),
        UINT64_C(0x7c007c007f80ff80),
        UINT64_C(0x3f8000003f800000),
        UINT64_C(0x3c003c003f803f80),
        UINT64_C(0x8000800000010001),
        UINT64_C(0x7f7f7f7fff7f80ff),
    };
    const unsigned count = sizeof corners / sizeof *corners;
    return i % 2 ? random_u64(r) : corners[i / 2 % count];
}

static void rows_open(struct rows *rows, int argc, char **argv)
{
    struct random r = { 7 };

    if (!(argc > 1 ? recording_open_by(&rows->recording, argc, argv)
                   : recording_open(&rows->recording, NULL, NULL)))
        exit(2);
    rows->device = open_device();
    const struct ptx_device_info *info = ptx_device_get_info(rows->device);
    ptx_target_newest(info->sm, info->isa, &rows->target);
    for (unsigned i = 0; i < ROWS_IN / 8; i++)
        rows_put(rows->in, 8, i, word_of(&r, i));
    printf("%s, sm_%d, driver %d\n", info->name, info->sm, info->driver_version);
}

int rows_tests_run(struct rows *rows, int argc, char **argv)
{
    rows_open(rows, argc, argv);
    const int failed = tests_run(NULL, NULL);
    ptx_device_close(&rows->device);
    if (!recording_close(&rows->recording))
        fprintf(stderr, "rows: the recording cannot be written\n");
    return failed;
}

void rows_put(unsigned char *at, unsigned bytes, unsigned i, uint64_t value)
{
    for (unsigned k = 0; k < bytes; k++)
        at[i * bytes + k] = (unsigned char)(value >> 8 * k);
}

uint64_t rows_get(const unsigned char *at, unsigned bytes, unsigned i)
{
    uint64_t value = 0;
    for (unsigned k = 0; k < bytes; k++)
        value |= (uint64_t)at[i * bytes + k] << 8 * k;
    return value;
}

uint64_t rows_in(const struct rows *rows, unsigned bytes, unsigned i)
{
    return rows_get(rows->in, bytes, i);
}

// ---- kernels ------------------------------------------------------------------------------------

static void emit(ptx_builder *b, const struct row_test *test, const struct row *row,
                 const char *name)
{
    ptx_entry (b, name, .block = { row->threads }) {
        ptx_ptr in = ptx_param_ptr(b, PTX_U64, "in");
        ptx_ptr out = ptx_param_ptr(b, PTX_U64, "out");
        // Every parameter must be used, but not every case uses both.
        ptx_val word = ptx_load(b, in, ptx_u32(0));
        ptx_store(b, out, ptx_u32(ROWS_OUT / 8 - 1), word);
        test->emit(b, row, in, out);
    }
}

void rows_store_result(ptx_builder *b, ptx_ptr out, ptx_val v)
{
    if (v.type == PTX_PRED)
        v = ptx_select(b, v, ptx_u32(1), ptx_u32(0));
    ptx_ptr to = ptx_ptr_cast(b, (ptx_type)v.type, ptx_at(b, out, ptx_tid(b, PTX_X)));
    ptx_store(b, to, ptx_u32(0), v);
}

static ptx_builder *new_builder(const struct rows *rows)
{
    return ptx_builder_create(&(struct ptx_builder_params) { .target = rows->target });
}

bool rows_accepts(const struct rows *rows, const struct row_test *test, const struct row *row)
{
    OWNED(ptx_builder) *b = new_builder(rows);
    emit(b, test, row, "trial");
    const bool accepted = ptx_builder_finish(b) != NULL;
    return accepted;
}

static void need(bool ok, const char *what)
{
    if (!ok)
        fail_msg("%s: %s", what, ptx_error_message());
}

static void show(const struct rows *rows, const struct row_test *test, const struct row *row)
{
    OWNED(ptx_builder) *b = new_builder(rows);
    emit(b, test, row, "failed");
    fprintf(stderr, "%s\n", ptx_builder_finish(b));
}

// The first two words of the row's name, with which its line starts.
static void group_of(const struct row *row, char group[sizeof row->name])
{
    size_t k = 0;

    for (unsigned words = 0; row->name[k] && (row->name[k] != ' ' || ++words < 2); k++)
        group[k] = row->name[k] == ' ' || row->name[k] == ',' ? '_' : row->name[k];
    group[k] = '\0';
}

// Adds a row with the right result. Its fingerprint is a hash of its name and its expected output.
static void confirm(struct rows *rows, const struct row_test *test, const struct row *row)
{
    uint32_t hash = UINT32_C(0x811c9dc5);
    char group[sizeof row->name], fingerprint[16];

    for (const char *c = row->name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT32_C(0x01000193);
    for (unsigned k = 0; k < ROWS_OUT && !test->varies; k++)
        hash = (hash ^ rows->want[k]) * UINT32_C(0x01000193);
    group_of(row, group);
    snprintf(fingerprint, sizeof fingerprint, "%06x", (unsigned)(hash >> 8));
    const char *known = recording_find(&rows->recording, group);
    const char *end = known ? strchr(known, '\n') : NULL;
    const char *found = known ? strstr(known, fingerprint) : NULL;
    if (!found || (end && found > end))
        recording_add(&rows->recording, group, "%s", fingerprint);
}

static void compare(struct rows *rows, const struct row_test *test, const struct row *row)
{
    unsigned k = 0;

    while (k < ROWS_OUT && rows->out[k] == rows->want[k])
        k++;
    if (k == ROWS_OUT) {
        confirm(rows, test, row);
        return;
    }
    if (rows->wrong++ == 0)
        show(rows, test, row);
    if (rows->wrong <= SHOWN)
        fprintf(stderr, "%s: word %u of the output is %016llx, wanted %016llx\n", row->name, k / 8,
                (unsigned long long)rows_get(rows->out, 8, k / 8),
                (unsigned long long)rows_get(rows->want, 8, k / 8));
}

static void run_one(struct rows *rows, const struct row_test *test, const struct row *row,
                    ptx_module *module, const char *name, ptx_buffer *const buffers[2])
{
    const CUdeviceptr in = ptx_buffer_address(buffers[0]), out = ptx_buffer_address(buffers[1]);
    const struct ptx_arg args[] = { PTX_ARG(in), PTX_ARG(out) };
    const struct ptx_launch_params launch = { .grid = { row->grid ? row->grid : 1 },
                                              .args = args,
                                              .arg_count = 2 };
    const ptx_function *function = ptx_module_function(module, name);

    need(function != NULL, row->name);
    memset(rows->want, 0xcc, ROWS_OUT);
    if (test->before)
        test->before(rows, row, rows->want);
    rows_put(rows->want, 8, ROWS_OUT / 8 - 1, rows_in(rows, 8, 0));
    need(ptx_buffer_upload(buffers[1], 0, rows->want, ROWS_OUT, NULL) == PTX_OK, row->name);
    need(ptx_launch(function, &launch) == PTX_OK, row->name);
    need(ptx_buffer_download(buffers[1], 0, rows->out, ROWS_OUT, NULL) == PTX_OK, row->name);
    need(ptx_stream_synchronize(rows->device, NULL) == PTX_OK, row->name);
    test->expect(rows, row);
    compare(rows, test, row);
}

static void run_batch(struct rows *rows, const struct row_test *test, const struct row *row,
                      unsigned count, ptx_buffer *const buffers[2])
{
    const unsigned every = count < FEW ? 1 : EVERY;
    OWNED(ptx_builder) *b = new_builder(rows);
    char name[16];

    for (unsigned k = 0; k < count; k += every) {
        snprintf(name, sizeof name, "row_%u", k);
        emit(b, test, &row[k], name);
    }
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s ...: %s", row->name, ptx_builder_error(b));
    OWNED(ptx_module) *module = ptx_module_load(rows->device, text, NULL);
    need(module != NULL, row->name);
    for (unsigned k = 0; k < count; k += every) {
        snprintf(name, sizeof name, "row_%u", k);
        run_one(rows, test, &row[k], module, name, buffers);
    }
}

void rows_run(struct rows *rows, const struct row_test *test, const struct row *row, unsigned count)
{
    ptx_buffer *buffers[] = { ptx_buffer_create(rows->device, ROWS_IN),
                              ptx_buffer_create(rows->device, ROWS_OUT) };

    rows->wrong = 0;
    need(buffers[0] && buffers[1], "buffers");
    need(ptx_buffer_upload(buffers[0], 0, rows->in, ROWS_IN, NULL) == PTX_OK, "in");
    for (unsigned k = 0; k < count; k += BATCH)
        run_batch(rows, test, row + k, count - k < BATCH ? count - k : BATCH, buffers);
    ptx_buffer_destroy(&buffers[1]);
    ptx_buffer_destroy(&buffers[0]);
    if (rows->wrong)
        fail_msg("%u of %u rows are wrong", rows->wrong, count);
}
