// SPDX-License-Identifier: MIT
// Operations: an engine, and a row each. A row says what a call has and what it launches; the
// engine checks, compiles, launches and describes.
#ifndef PTXGEN_PLANS_OPERATIONS_ENGINE_H
#define PTXGEN_PLANS_OPERATIONS_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include <ptxgen/binding.h>
#include <ptxgen/kernels.h>
#include <ptxgen/operations.h>

#include "plans/arrays.h"

// Of a row; its lists end with an empty element.
enum { PLAN_MOST_ARGS = 13, PLAN_MOST_FIELDS = 20, PLAN_MOST_LAUNCHES = 4, PLAN_DTYPES = 4 };

// ---- a call -------------------------------------------------------------------------------------

// A launch of a call: its variant of the kernel, and its size.
struct plan_chosen {
    const struct plan_launch *launch;
    struct plan_slot *slot;                 // once it is compiled
    uint8_t option[PTX_KERNEL_MAX_OPTIONS]; // 0: the kernel's default; k: the row's choice k - 1
    ptx_type dtype;
    uint32_t grid;
    bool left_out; // by this call, and prepared
};

union plan_params {
#define PLAN_PARAMS(name, ...) struct ptx_##name##_params name;
    PTX_OPERATIONS(PLAN_PARAMS)
};

// The parameters with defaults filled in, and the values derived from them. Kernels' arguments
// point into it, at offsets that are the same for all calls of a variant.
struct plan_call {
    union plan_params params; // first, so that the offset of a parameter is that in its struct
    ptx_operation id;
    const struct plan_operation *row;
    const char *function; // of operations.h, for messages
    ptx_type dtype;       // of the tensors
    uint64_t n;
    uint64_t scales; // how many: the channels or groups, or 1
    float scale;     // a scale by value, for tensors that are not f64
    // What rows derive; undefined where `derive` does not set it. First what launches depend on,
    // which the presence and the alignment of addresses may change; then other addresses.
    int32_t target; // of a quantizer: TARGET_S8 and so on
    bool columns;   // the layout that is fast for the channels, in place of rows
    bool whole;     // the first launch of a learned quantizer has the gradients
    uint64_t entries, pieces, width, sums;
    uint64_t blocks;
    CUdeviceptr extremes, tracker, zero_sums;
    struct plan_chosen chosen[2];
    size_t chosen_count;
};

// A compiled variant, and the offsets of its arguments in a call.
struct plan_slot {
    ptx_module *module; // protected by the mutex
    _Atomic(ptx_function *)
        ready; // NULL until compiled; the following members are complete when it is set
    size_t arg_count;
    struct plan_place {
        size_t offset, size;
        enum ptx_arg_type type;
    } args[PLAN_MOST_ARGS];
};

// ---- a row --------------------------------------------------------------------------------------

// X(kind, C type, the type of an argument): the types of members. An address is an integer that
// messages show in hexadecimal; its C type is that of another kind on some machines.
#define PLAN_NUMBER_KINDS(X)                                                                       \
    X(KIND_BOOL, bool, INTEGER)                                                                    \
    X(KIND_S32, int32_t, INTEGER)                                                                  \
    X(KIND_U32, uint32_t, INTEGER)                                                                 \
    X(KIND_U64, uint64_t, INTEGER)                                                                 \
    X(KIND_F32, float, FLOAT)                                                                      \
    X(KIND_F64, double, FLOAT)
#define PLAN_KINDS(X) PLAN_NUMBER_KINDS(X) X(KIND_ADDRESS, CUdeviceptr, INTEGER)

// A member of a call: its name in messages, where it is, and its type.
#define PLAN_KIND(kind, ...) kind,
enum plan_kind { KIND_NONE, PLAN_KINDS(PLAN_KIND) };
struct plan_member {
    const char *name;
    uint16_t offset;
    uint8_t kind; // KIND_NONE: there is no member
};

// A condition: true if the member is this value, or, `unlike`, if it is another. Without a member:
// true. Where there are several conditions, all must hold.
struct plan_when {
    struct plan_member member;
    bool unlike;
    int32_t value;
};
enum { PLAN_CONDITIONS = 2 };

// Types beside those of types.h.
enum { OF_TENSORS = PTX_NONE, OF_SCALES = PTX_TYPE_COUNT }; // f64 for tensors of f64, else f32

enum { READ = 1, WRITTEN = 2 };

// A member that is checked, or that kernels take, or both: first the numbers of a row, then its
// arrays, then values that are not checked. Of several members for one parameter of
// a kernel, the first whose conditions hold is the argument.
struct plan_field {
    struct plan_member member;
    const char *param; // of the kernels; NULL: the member's name
    const char *must;  // a number: its range in words; NULL: not checked
    uint8_t access;    // an array's address: READ, WRITTEN; 0: no address that is checked
    uint8_t type;
    uint8_t elements;                       // how many, if `count` is no member; 0: 1
    bool may_be_first;                      // may start exactly where the row's first array starts
    bool optional;                          // not checked if it is 0
    bool scratch;                           // memory for the call alone
    bool power_of_2, not_0;                 // a number
    bool narrow;                            // an f64 that kernels take in the type of scales
    struct plan_member count;               // of an array
    struct plan_when when[PLAN_CONDITIONS]; // otherwise the member is not used
    double least, greatest, otherwise;      // of a number; what 0 means, if that is not 0
};

// Values that exclude each other: refused if all conditions hold. The message says what the members
// are, and the remedy.
struct plan_refusal {
    struct plan_when when[PLAN_CONDITIONS];
    bool with_elements; // not if there are no elements
    const char *remedy;
};

// What tensors with channels, groups or a range of levels have; members that a row lacks are none.
struct plan_shape {
    struct plan_member channels, inner, columns, group, q_min, q_max, zero_point;
    struct plan_when leveled; // when the zero point must be from q_min to q_max
};

// A kernel's option by its name. The value is that of the first choice whose condition holds, or
// the kernel's default.
struct plan_option {
    const char *name;
    bool of_shape; // sizes and alignment decide: prepare compiles every choice
    struct {
        const char *value;
        struct plan_when when;
    } choices[PTX_KERNEL_MAX_CHOICES + 1];
};

struct plan_launch {
    const ptx_kernel *kernel;
    struct plan_when when[PLAN_CONDITIONS];
    uint8_t type;
    bool programmatic;            // may begin before the launch ahead of it has ended
    struct plan_when unless;      // sizes decide: this call does without it; prepare compiles it
    struct plan_member n, blocks; // none: the call's n; as the kernel's geometry has it
    struct plan_option options[PTX_KERNEL_MAX_OPTIONS + 1];
};

struct plan_operation {
    struct plan_member dtype; // none: f32
    struct plan_member n;     // elements; none: 1
    struct plan_shape shape;
    struct plan_refusal refusals[7];
    struct plan_field fields[PLAN_MOST_FIELDS + 1];
    // Checks what else is to be checked, and derives values. The parameters are checked otherwise.
    ptx_status (*derive)(struct plan_call *call);
    struct plan_launch launches[PLAN_MOST_LAUNCHES + 1];
};

#define PLAN_DECLARE(name, ...) extern const struct plan_operation ptxp_operation_##name;
PTX_OPERATIONS(PLAN_DECLARE)

// How rows are written: P() names a parameter of struct PARAMS, which the row's file defines, D()
// a derived value; A() and DA() name those that are addresses.
#define KIND_OF_TYPE(kind, type, ...) , type : kind
#define KIND_OF(member)               _Generic((member)PLAN_NUMBER_KINDS(KIND_OF_TYPE))
#define BRACED(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define MEMBER_AS(name, type, member, kind) BRACED(name, offsetof(type, member), kind)
#define MEMBER(name, type, member)          MEMBER_AS(name, type, member, KIND_OF(((type *)0)->member))
#define P(name)                             MEMBER(#name, struct PARAMS, name)
#define D(name)                             MEMBER(#name, struct plan_call, name)
#define A(name)                             MEMBER_AS(#name, struct PARAMS, name, KIND_ADDRESS)
#define DA(name)                            MEMBER_AS(#name, struct plan_call, name, KIND_ADDRESS)
// An enumeration; a message shows its value as a signed number.
#define ENUM(name)                          MEMBER_AS(#name, struct PARAMS, name, KIND_S32)
// Conditions.
#define IS(member, value)                   BRACED(member, false, value)
#define ABSENT(member)                      BRACED(member, false, 0)
#define GIVEN(member)                       BRACED(member, true, 0)
#define REFUSED(why, ...)                   BRACED(.when = { __VA_ARGS__ }, .remedy = why)
// Fields: an array, whose type is that of the tensors unless the row says otherwise; a number; a
// value that is not checked.
#define READS(name)                         .member = A(name), .access = READ
#define WRITES(name)                        .member = A(name), .access = WRITTEN
#define UPDATES(name)                       .member = A(name), .access = READ | WRITTEN
#define NUMBER(name, range, words)          .member = P(name), range, .must = words
#define VALUE(...)                          BRACED(.member = __VA_ARGS__)
#define BETWEEN(low, high)                  .least = low, .greatest = high
#define ABOVE_0                             BETWEEN(DBL_TRUE_MIN, DBL_MAX)
#define TENSORS                             .dtype = P(dtype), .n = P(count)
#define OPTION(option, ...)                 BRACED(.name = option, .choices = { __VA_ARGS__ })

// ---- the engine ---------------------------------------------------------------------------------

extern const struct plan_operation *const ptxp_operations[PTX_OPERATION_COUNT];

// The number of values of an option that the row names, with the default; 1 if there is none.
unsigned ptxp_option_values(const struct plan_option *option);

// As ptx_operation_run() begins: checks the parameters, but for addresses, and chooses the launches
// with their slots. Whether launches of `operations` may overlap.
ptx_status ptxp_operation_choose(ptx_operations *operations, ptx_operation id, const void *params,
                                 struct plan_call *call);
bool ptxp_operation_overlaps(const ptx_operations *operations);
// The bytes of the struct of its parameters.
size_t ptxp_operation_bytes(ptx_operation id);
// The array of a field; its `bytes` are 0 where the call has none.
struct plan_array ptxp_operation_array(const struct plan_call *call, const struct plan_field *f);

#endif
