// SPDX-License-Identifier: MIT
// Assembles many cases as one module, in one run of ptxas.
#ifndef PTXGEN_TESTS_OP_BATCH_H
#define PTXGEN_TESTS_OP_BATCH_H

#include "op_cases.h"

// The text of one case alone, or the builder's error; freed by the caller. `needs` becomes the
// least ISA.
char *op_case_text(const struct op_case *c, struct ptx_target target, int isa, int *needs,
                   bool *failed);
// The lines of such a text that the case itself wrote; freed by the caller.
char *op_case_body(const char *text);

struct op_batch {
    ptx_builder *b;
    struct op_frame frame;
    int entry, in_entry, entries;
};

void op_batch_begin(struct op_batch *batch, struct ptx_target target);
void op_batch_add(struct op_batch *batch, const struct op_case *c, size_t number);
// Assembles the module with another header. Element k of the result says whether ptxas refused case
// k; freed by the caller. `unplaced` counts errors in lines of no case.
bool *op_batch_refused(struct op_batch *batch, int isa, const char *target, size_t count,
                       unsigned *unplaced);

#endif
