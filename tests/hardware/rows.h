// SPDX-License-Identifier: MIT
/// Rows of the table that move data: one kernel for each case. Its whole output is compared with
/// plain C.
///
/// Runs on any libcuda (PTXGEN_LIBCUDA). The cases are those that the builder accepts for the
/// device's target.
#ifndef PTXGEN_TESTS_ROWS_H
#define PTXGEN_TESTS_ROWS_H

#include <ptxgen/ptxgen.h>

#include "op_cases.h"
#include "recording.h"

enum { ROWS_IN = 20480, ROWS_OUT = 65536 }; // bytes

/// One case. The entry has the parameters `in` and `out`, and those that `emit` declares.
struct row {
    struct op_case c;
    unsigned threads, grid;
    char name[128];
};

struct rows {
    ptx_device *device;
    struct ptx_target target;
    unsigned char in[ROWS_IN];
    unsigned char out[ROWS_OUT];  ///< the kernel's output
    unsigned char want[ROWS_OUT]; ///< the expected output
    unsigned wrong;               // wrong rows in the last run
    struct recording recording;   // a line for each row that had the right result on a GPU
};

/// Opens the device and fills `in`. Without a device, exits with 77. Of the arguments, `-c FILE`
/// names the file of the rows that a GPU confirmed, and `-o FILE` the file for the rows of this
/// run.
/// Then runs the program's tests, and closes the device. Returns what tests_run() does.
int rows_tests_run(struct rows *rows, int argc, char **argv);

/// `emit` writes the entry after the declaration of its parameters. `expect` fills `want`. Both
/// `want` and the device's `out` start with the bytes of `before`, or 0xcc if it is NULL. `varies`:
/// the expected output depends on the run, as with a clock.
struct row_test {
    void (*emit)(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out);
    void (*expect)(struct rows *rows, const struct row *row);
    void (*before)(struct rows *rows, const struct row *row, unsigned char *out);
    bool varies;
};

/// True if the builder accepts the row.
bool rows_accepts(const struct rows *rows, const struct row_test *test, const struct row *row);
/// Runs rows, many in one module. Fails the test at the end if any byte of an output is wrong; the
/// PTX of the first wrong row is printed on standard error.
void rows_run(struct rows *rows, const struct row_test *test, const struct row *row,
              unsigned count);

/// For `emit`: stores the thread's result to `out`, 8 bytes for each thread; a predicate as 1 or 0.
void rows_store_result(ptx_builder *b, ptx_ptr out, ptx_val v);

/// The i-th word of `in`, of any width.
uint64_t rows_in(const struct rows *rows, unsigned bytes, unsigned i);
void rows_put(unsigned char *at, unsigned bytes, unsigned i, uint64_t value);
uint64_t rows_get(const unsigned char *at, unsigned bytes, unsigned i);

#endif
