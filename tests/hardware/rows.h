// SPDX-License-Identifier: MIT
/// Rows of the table that move data: a kernel a case, its whole output held against plain C.
///
/// Runs on any libcuda ($PTXGEN_LIBCUDA). A case is what the builder accepts for the device's
/// target.
#ifndef PTXGEN_TESTS_ROWS_H
#define PTXGEN_TESTS_ROWS_H

#include <ptxgen/ptxgen.h>

#include "op_cases.h"
#include "recording.h"

enum { ROWS_IN = 20480, ROWS_OUT = 65536 }; // bytes

/// One thing to try. The entry has the parameters `in` and `out`, and what else `emit` declares.
struct row {
    struct op_case c;
    unsigned threads, grid;
    char name[128];
};

struct rows {
    ptx_device *device;
    struct ptx_target target;
    unsigned char in[ROWS_IN];
    unsigned char out[ROWS_OUT];  ///< what the kernel left
    unsigned char want[ROWS_OUT]; ///< what it should have
    unsigned wrong;               // rows of the last run
    struct recording recording;   // a line for each row that came out as wanted, on a GPU
};

/// Opens the device and fills `in`; exits with 77 where there is none. Of the arguments, `-c FILE`
/// names the rows that a GPU has confirmed, `-o FILE` is where this run's are written.
void rows_open(struct rows *rows, int argc, char **argv);
/// Prints how many rows no GPU has confirmed.
void rows_close(struct rows *rows);

/// `emit` writes the body between its parameters' declaration and the end of the entry; `expect`
/// fills `want`, which begins as `before` (0xcc where NULL), and so does the device's `out`.
/// `varies`: what is wanted depends on the run, as with a clock.
struct row_test {
    void (*emit)(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out);
    void (*expect)(struct rows *rows, const struct row *row);
    void (*before)(struct rows *rows, const struct row *row, unsigned char *out);
    bool varies;
};

/// Whether the builder takes the row.
bool rows_accepts(const struct rows *rows, const struct row_test *test, const struct row *row);
/// Runs rows in modules of many, and fails the test in the end if a byte of one's output is not as
/// wanted; the first one's PTX is on standard error.
void rows_run(struct rows *rows, const struct row_test *test, const struct row *row,
              unsigned count);

/// For `emit`: the thread's result to `out`, 8 bytes a thread; a predicate as 1 or 0.
void rows_store_result(ptx_builder *b, ptx_ptr out, ptx_val v);

/// The i-th word of `in`, of any width.
uint64_t rows_in(const struct rows *rows, unsigned bytes, unsigned i);
void rows_put(unsigned char *at, unsigned bytes, unsigned i, uint64_t value);
uint64_t rows_get(const unsigned char *at, unsigned bytes, unsigned i);

#endif
