// SPDX-License-Identifier: MIT
// Many cases in one module, put through ptxas at once.
#ifndef PTXGEN_TESTS_OP_BATCH_H
#define PTXGEN_TESTS_OP_BATCH_H

#include "op_cases.h"

// One case alone, as text or as the builder's error; freed by the caller. `needs` is the least ISA.
char *op_case_text(const struct op_case *c, struct ptx_target target, int isa, int *needs,
                   bool *failed);
// Of such a text, what the case itself wrote; freed by the caller.
char *op_case_body(const char *text);

struct op_batch {
    ptx_builder *b;
    struct op_frame frame;
    int entry, in_entry, entries;
};

void op_batch_begin(struct op_batch *batch, struct ptx_target target);
void op_batch_add(struct op_batch *batch, const struct op_case *c, size_t number);
// Assembles the module under another header and tells which of the cases, by number below `count`,
// ptxas refused; freed by the caller. `unplaced` counts what was refused and is none of them.
bool *op_batch_refused(struct op_batch *batch, int isa, const char *target, size_t count,
                       unsigned *unplaced);

#endif
