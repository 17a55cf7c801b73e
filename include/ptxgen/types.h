// SPDX-License-Identifier: MIT
/// The vocabulary of the builder: types, values, pointers, targets.
///
/// Everything here is a constant or a small struct passed by value. Nothing here emits an
/// instruction or allocates. A mistake is reported when a builder call uses the value.
#ifndef PTXGEN_TYPES_H
#define PTXGEN_TYPES_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/common.h>

PTXGEN_BEGIN

/// Value types: name, PTX spelling, bits, and class of the registers. As in PTX, 8-bit values live
/// in 16-bit registers and can only be loaded, stored and converted. So can the last three: two
/// floats of 8 bits (4 or 5 of them the exponent), and an f32 with 10 bits of fraction, for tensor
/// cores.
#define PTX_TYPES(X)                                                                               \
    X(PRED, "pred", 1, P)                                                                          \
    X(U8, "u8", 8, RS)                                                                             \
    X(U16, "u16", 16, RS)                                                                          \
    X(U32, "u32", 32, R)                                                                           \
    X(U64, "u64", 64, RD)                                                                          \
    X(S8, "s8", 8, RS)                                                                             \
    X(S16, "s16", 16, RS)                                                                          \
    X(S32, "s32", 32, R)                                                                           \
    X(S64, "s64", 64, RD)                                                                          \
    X(B8, "b8", 8, RS)                                                                             \
    X(B16, "b16", 16, RS)                                                                          \
    X(B32, "b32", 32, R)                                                                           \
    X(B64, "b64", 64, RD)                                                                          \
    X(F16, "f16", 16, RS)                                                                          \
    X(BF16, "bf16", 16, RS)                                                                        \
    X(F32, "f32", 32, F)                                                                           \
    X(F64, "f64", 64, FD)                                                                          \
    X(F16X2, "f16x2", 32, R)                                                                       \
    X(BF16X2, "bf16x2", 32, R)                                                                     \
    X(E4M3X2, "e4m3x2", 16, RS)                                                                    \
    X(E5M2X2, "e5m2x2", 16, RS)                                                                    \
    X(TF32, "tf32", 32, R)

/// The type of a value. PTX_NONE (zero) is the type of a poisoned value.
typedef enum ptx_type {
    PTX_NONE,
#define PTX_TYPE_ENUM(name, text, bits, reg) PTX_##name,
    PTX_TYPES(PTX_TYPE_ENUM)
#undef PTX_TYPE_ENUM
        PTX_TYPE_COUNT
} ptx_type;

/// A set of types has one bit for each type: `PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64)`.
#define PTX_TYPE_BIT(name) (UINT32_C(1) << PTX_##name)

/// The PTX spelling without a dot ("f32"); "none" for PTX_NONE and for values out of range.
PTXGEN_API const char *ptx_type_name(ptx_type type);
/// The type with this spelling, or PTX_NONE.
PTXGEN_API ptx_type ptx_type_parse(const char *name);
/// Bytes of one element in memory; 0 for PTX_NONE and PTX_PRED, which cannot be in memory.
PTXGEN_API unsigned ptx_type_bytes(ptx_type type);

/// State spaces of memory.
typedef enum ptx_space {
    PTX_SPACE_GENERIC, ///< an address of any of these spaces, as hosts know it
    PTX_SPACE_GLOBAL,
    PTX_SPACE_SHARED, ///< of a block
    PTX_SPACE_LOCAL,  ///< of a thread
    PTX_SPACE_PARAM,
    PTX_SPACE_CONST,
} ptx_space;

/// An axis of the grid and its blocks.
typedef enum ptx_axis {
    PTX_X,
    PTX_Y,
    PTX_Z,
} ptx_axis;

/// The kind of a ptx_val. PTX_KIND_POISON is zero, so `ptx_val v = {0};` is a poisoned value, which
/// every builder call refuses.
typedef enum ptx_kind {
    PTX_KIND_POISON,    ///< no value: left out, or the result of a call that failed
    PTX_KIND_REGISTER,  ///< the result of a call; never changes
    PTX_KIND_VARIABLE,  ///< of ptx_var(): ptx_set() changes it
    PTX_KIND_IMMEDIATE, ///< a constant with a type
    PTX_KIND_NUMBER,    ///< a constant without a type; see ptx_number_signed()
} ptx_kind;

/// A value: the result of a builder call, or an immediate. It may be copied, and its fields may be
/// read as they say, but not written: `{0}` is the only value that is written by hand. A value
/// belongs to the builder and entry that made it: all others refuse it, also those made after that
/// builder was destroyed. So do pointers, fragments and labels.
///
/// A C copy of a variable, `ptx_val t = x`, is the same variable: a later ptx_set() of x changes t.
/// ptx_copy(b, x) is the value that x has now.
typedef struct ptx_val {
    uint64_t bits; ///< may be read of an immediate: its bits, zero-extended; else private
    uint32_t reg;  ///< may be compared: values of one entry in one register have the same number
    uint8_t kind;  ///< may be read: enum ptx_kind; PTX_KIND_POISON (0) is no value
    uint8_t type;  ///< may be read: enum ptx_type, unless `kind` is a number's
} ptx_val;

/// `reg` of poison that stands for an expression of C++ numbers alone: value.hpp, for a message.
#define PTXGEN_NUMBERS_ALONE UINT32_MAX

/// Up to eight values of one type: the result of a vector load, the operand of a vector store. Its
/// fields may be read and written.
typedef struct ptx_vec {
    ptx_val lane[8];
    unsigned lanes;
} ptx_vec;

/// A typed pointer: an address and the type of the elements. It may be copied, and the fields that
/// say so may be read; none may be written. `{0}` is no pointer. ptx_ptr_address() gives the
/// address.
typedef struct ptx_ptr {
    ptx_val base;    ///< private: the address, or no value where `symbol` has it
    uint32_t symbol; ///< private: the declared array that this points into, 0 if none
    uint32_t count;  ///< may be read: elements from here on, if known at build time; else 0
    int64_t offset;  ///< private: bytes from base or symbol
    uint8_t type;    ///< may be read: enum ptx_type of the elements; PTX_NONE is no pointer
    uint8_t space;   ///< may be read: enum ptx_space
    bool readonly;   ///< may be read: stores through it are refused
    bool writeonly;  ///< may be read: loads through it are refused
    uint32_t param;  ///< private: the parameter that this comes from, counted from 1; 0: none
} ptx_ptr;

/// Writes the text of a module; see builder.h.
typedef struct ptx_builder ptx_builder;

/// A position in an entry's code; see ptx_label_create(). Its fields are private.
typedef struct ptx_label {
    uint64_t builder; ///< its number
    uint32_t id;      ///< 0 is no label
} ptx_label;

/// An immediate with these bits, which must fit the type. Emits nothing.
static inline ptx_val ptx_imm_bits(ptx_type type, uint64_t bits)
{
    ptx_val v = { 0, 0, PTX_KIND_IMMEDIATE, 0 };
    v.type = (uint8_t)type;
    v.bits = bits;
    return v;
}

/// Immediates of the type in the name.
static inline ptx_val ptx_u16(uint16_t x)
{
    return ptx_imm_bits(PTX_U16, x);
}

static inline ptx_val ptx_s16(int16_t x)
{
    return ptx_imm_bits(PTX_S16, (uint16_t)x);
}

static inline ptx_val ptx_u32(uint32_t x)
{
    return ptx_imm_bits(PTX_U32, x);
}

static inline ptx_val ptx_s32(int32_t x)
{
    return ptx_imm_bits(PTX_S32, (uint32_t)x);
}

static inline ptx_val ptx_u64(uint64_t x)
{
    return ptx_imm_bits(PTX_U64, x);
}

static inline ptx_val ptx_s64(int64_t x)
{
    return ptx_imm_bits(PTX_S64, (uint64_t)x);
}

static inline ptx_val ptx_b32(uint32_t x)
{
    return ptx_imm_bits(PTX_B32, x);
}

static inline ptx_val ptx_b64(uint64_t x)
{
    return ptx_imm_bits(PTX_B64, x);
}

/// A constant predicate.
static inline ptx_val ptx_bool(bool x)
{
    return ptx_imm_bits(PTX_PRED, x);
}

/// `x` as an immediate of any type. Integers: `x` must be an integer in the type's range. Floats:
/// rounded to nearest even; a packed type gets `x` in both halves. Infinity is valid for every
/// float type, but a finite `x` must not round to it. A value that does not fit gives a poisoned
/// value, whose first use is an error that names the number and the type.
PTXGEN_API ptx_val ptx_imm(ptx_type type, double x);

/// `x` rounded to nearest even; see ptx_imm().
static inline ptx_val ptx_f32(double x)
{
    return ptx_imm(PTX_F32, x);
}

static inline ptx_val ptx_f64(double x)
{
    return ptx_imm(PTX_F64, x);
}

/// Zero of the type; false for a predicate.
static inline ptx_val ptx_zero(ptx_type type)
{
    return ptx_imm_bits(type, 0);
}

/// A number without a type, which a call gives the type of the operand, variable or pointer that it
/// belongs to: ptx_add(b, x, 4) is ptx_add(b, x, ptx_u32(4)) where x is u32. It must fit the type,
/// or the call is an error; floats round it to nearest even. An index, a lane, a mask and a time
/// need no other operand. Arguments that are C numbers become such values.
/// Fields of options are not arguments: `.taken = ptx_u32(0)`, since `.taken = 0` sets the first
/// member of the value and leaves it out. clang and, in C, gcc refuse that. g++ does not: there any
/// number but 0 is an error of the builder, and a 0 is silently the field that is left out.
static inline ptx_val ptx_number_signed(int64_t x)
{
    ptx_val v = { 0, 0, PTX_KIND_NUMBER, PTX_S64 };
    v.bits = (uint64_t)x;
    return v;
}

static inline ptx_val ptx_number_unsigned(uint64_t x)
{
    ptx_val v = { 0, 0, PTX_KIND_NUMBER, PTX_U64 };
    v.bits = x;
    return v;
}

/// The same for a number with a fraction, or for an integer that is written as one: 2.0.
static inline ptx_val ptx_number_float(double x)
{
    ptx_val v = ptx_imm(PTX_F64, x);
    v.kind = PTX_KIND_NUMBER;
    return v;
}

/// A GPU architecture: `{ .sm = 90 }` is sm_90, `{ .sm = 90, .suffix = 'a' }` is sm_90a, `{ 0 }` is
/// the default, sm_80.
struct ptx_target {
    int sm;
    char suffix; ///< 'a' for architecture-specific, 'f' for family-specific, 0 for portable text
};

/// Parses "sm_90a". Returns false, with *target unchanged, for an unknown target.
PTXGEN_API bool ptx_target_parse(const char *name, struct ptx_target *target);
/// Known target `k`, in ascending order, and the least PTX ISA that has it (80 for 8.0). False past
/// the last. Either pointer may be NULL.
PTXGEN_API bool ptx_target_at(size_t k, struct ptx_target *target, int *least_isa);
/// The newest portable target for a GPU of compute capability `sm` (90 is 9.0) and a driver that
/// accepts PTX ISA up to `isa` (84 is 8.4; 0: any). struct ptx_device_info of device.h has both.
/// Returns false, with *target unchanged, if there is none.
PTXGEN_API bool ptx_target_newest(int sm, int isa, struct ptx_target *target);
/// Whether a PTX ISA of this version exists; ten times major plus minor: 80 for 8.0. True for all
/// versions from 9.0 on: 9.5 is the newest that is known, and later drivers accept later ones.
PTXGEN_API bool ptx_isa_exists(int isa);
/// Size of the buffer for ptx_target_name(), including the NUL.
enum { PTX_TARGET_NAME_SIZE = 16 };
/// Writes "sm_90a" into `name` and returns it.
PTXGEN_API const char *ptx_target_name(struct ptx_target target, char name[PTX_TARGET_NAME_SIZE]);

PTXGEN_END

// PTXGEN_ARG(x): a value is itself, and a C number is a ptx_val without a type. What is neither is
// an error of the compiler. C++ and clang, which has them in C, choose by overloads, so that a call
// is as long as it looks; other compilers of C by _Generic.
#ifdef PTXGEN_NO_PLACES
#define PTXGEN_ARG(x) (x)
#else
// clang-format off
#if defined(__cplusplus)
#define PTXGEN_OVERLOAD
#elif defined(__GNUC__) && defined(__clang__)
#if __has_extension(overloadable_unmarked)
#define PTXGEN_OVERLOAD __attribute__((__overloadable__))
#endif
#endif
#ifdef PTXGEN_OVERLOAD
// The kinds of numbers and what each is handed on as. Shorter ones are promoted to these.
#define PTXGEN_NUMBERS(X) \
    X(int, signed) X(unsigned, unsigned) X(long, signed) X(unsigned long, unsigned) \
    X(long long, signed) X(unsigned long long, unsigned) X(float, float) X(double, float)
// What is taken where no overload fits.
#if defined(__GNUC__) && (defined(__clang__) || __GNUC__ >= 12)
#define PTXGEN_NEITHER __attribute__((__unavailable__("an operand is a value (ptx_val) or a number")))
#endif
#define PTXGEN_OVERLOADED(type, kind) \
    PTXGEN_OVERLOAD static inline ptx_val ptx_number(type x) \
    { \
        return ptx_number_##kind(x); \
    }
PTXGEN_NUMBERS(PTXGEN_OVERLOADED)
#undef PTXGEN_OVERLOADED
PTXGEN_OVERLOAD static inline ptx_val ptx_number(ptx_val x)
{
    return x;
}
#ifdef __cplusplus
static inline ptx_val ptx_number(long double x)
{
    return ptx_number_float(static_cast<double>(x));
}
#endif
#ifdef PTXGEN_NEITHER
ptx_val ptx_number(...) PTXGEN_OVERLOAD PTXGEN_NEITHER;
#endif
#define PTXGEN_ARG ptx_number
#else
static inline ptx_val ptx_number_value(ptx_val x)
{
    return x;
}
// The function for `x`: one for each kind of number, and `value` for the rest.
#define PTXGEN_BY_TYPE(x, is_signed, is_unsigned, is_float, value) \
    _Generic(x, int: is_signed, unsigned: is_unsigned, float: is_float, double: is_float, \
             long: is_signed, unsigned long: is_unsigned, long long: is_signed, \
             unsigned long long: is_unsigned, _Bool: is_unsigned, char: is_signed, \
             signed char: is_signed, unsigned char: is_unsigned, short: is_signed, \
             unsigned short: is_unsigned, default: value)
#define PTXGEN_NUMBER(b, x) \
    PTXGEN_BY_TYPE(x, ptx_number_signed, ptx_number_unsigned, ptx_number_float, ptx_number_value)(x)
#define PTXGEN_ARG(x) PTXGEN_ONCE(PTXGEN_NUMBER, , x)
#endif
// clang-format on
#endif

static inline ptx_vec ptxgen_as_vec(ptx_vec x)
{
    return x;
}

// The fields of an options struct that begins with a value: `.index = i, .cache = ...`.
// clang-format off
#define PTXGEN_FIELDS(field, ...) PTXGEN_FIELDS_AS(PTXGEN_ARG, field, __VA_ARGS__)
// The same where the first is what `as` returns. An initializer alone would take a ptx_val for the
// first member of a ptx_vec.
#define PTXGEN_FIELDS_1(as, field, x)      .field = as(x)
#define PTXGEN_FIELDS_2(as, field, x, ...) .field = as(x), __VA_ARGS__
#define PTXGEN_TENTH(x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, ...) x10
#define PTXGEN_FIELDS_AS(as, field, ...) \
    PTXGEN_JOIN(PTXGEN_FIELDS_, PTXGEN_TENTH(__VA_ARGS__, 2, 2, 2, 2, 2, 2, 2, 2, 1, 0))(as, field, __VA_ARGS__)
// clang-format on

#endif
