// SPDX-License-Identifier: MIT
// Everything that the builder can write, one instruction at a time.
#ifndef PTXGEN_TESTS_OP_CASES_H
#define PTXGEN_TESTS_OP_CASES_H

#include <ptxgen/builder.h>

enum op_case_kind {
    CASE_OP,
    CASE_CVT,
    CASE_CVT_PACK,
    CASE_BITCAST,
    CASE_LOAD,
    CASE_STORE,
    CASE_ATOMIC,
    CASE_FENCE,
    CASE_SPECIAL,
    CASE_WARP,
    CASE_PRODUCT, // type and from: of A and B; what: k; to: of C
    CASE_TILES,   // lanes: how many; what: 1 to store, 2 with .trans
    CASE_COPY,    // what: bytes, or what it does with groups
    CASE_MATH,
    CASE_ATOMIC_VEC, // what: add, min, max
    CASE_PREFETCH,   // what: a ptx_prefetch_kind
    CASE_WORDS,      // lanes: how many; what: 1 with what is left over, 2 difference, 4 product
};

struct op_case {
    enum op_case_kind kind;
    unsigned what; // the opcode, the operation, the special register
    ptx_type type;
    ptx_type from;
    ptx_type to;
    ptx_round round;
    bool ftz, sat;
    bool relu, satfinite, two; // of conversions; two f32 in one result
    ptx_space space;
    unsigned lanes;
    bool nc;
    ptx_cache cache;
    ptx_order order;
    ptx_scope scope;
    bool used;    // atomics: `atom`, otherwise `red`
    bool literal; // operands are immediates
};

typedef void op_case_visit(void *user, const struct op_case *c);

// Every combination that the table and the enums allow, including those that the builder refuses.
void op_cases(op_case_visit *visit, void *user);
// The cases without modifiers again, with immediates.
void op_literal_cases(op_case_visit *visit, void *user);

// For a case of the instruction table: true if PTX gives a bound for the result, not its bits.
bool op_case_is_approximate(const struct op_case *c);
// The name of a case of values or conversions, as "add.rz.ftz.f32"; the buffer has OP_CASE_NAME
// bytes.
enum { OP_CASE_NAME = 80 };
void op_case_name(const struct op_case *c, char name[OP_CASE_NAME]);

// Shared by the cases of one entry.
struct op_frame {
    ptx_ptr space[PTX_SPACE_PARAM + 1];
    ptx_val of[PTX_TYPE_COUNT]; // one variable of each type
};
struct op_frame op_frame_open(ptx_builder *b);
// The conversion of a case; `hi` counts if it takes two f32.
ptx_val op_case_cvt(ptx_builder *b, const struct op_case *c, ptx_val x, ptx_val hi);
void op_case_emit(ptx_builder *b, const struct op_frame *frame, const struct op_case *c);

// A special register by its number: first the three axes of each vector, then the scalars.
ptx_val op_read_special(ptx_builder *b, unsigned what);

#endif
