// SPDX-License-Identifier: MIT
/// The one table of instructions.
///
/// A row makes the enumerator PTX_OP_<name>, the builder function ptx_<name>(), its type check, its
/// text, its ISA and target floor, its line in docs/instructions.md and its tests.
///
/// Columns of PTX_OPS_*: name, shape, meaning, then one or more forms. A form is
/// `{ types, spelling, modifiers, least ISA, least target }`; the first form whose types hold the
/// operands' type is taken, and where none does, that is the type error.
///
/// A shape is "result=operands": T the form's type, W twice its width, u a u32, s an s32, p a
/// predicate; f a u32 that is 0 to 255 as an immediate, i a u32 that is an immediate from 0 to 255.
/// Operands f and i come last. The PTX text is spelling + modifiers + type; '%' in a spelling marks
/// where the modifiers go when that is not the end.
///
/// Constants are operands like any other, so a division by a constant 0 and a shift beyond the
/// width are no errors of the builder, and trap nowhere: the row says what they give.
///
/// ISA versions are ten times major plus minor; 60 and sm_70 are the floors of the library.
#ifndef PTXGEN_OPS_H
#define PTXGEN_OPS_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/types.h>

/// Modifiers that a form allows.
enum ptx_modifier {
    PTX_MOD_ROUND = 1,  ///< .rn (the default, always spelled out), .rz, .rm, .rp
    PTX_MOD_FTZ = 2,    ///< .ftz: subnormal inputs and results become zero
    PTX_MOD_SAT = 4,    ///< .sat: clamped to [0, 1] (floats) or to the type's range (integers)
    PTX_MOD_TWICE = 8,  ///< the type is spelled twice, as cvt requires
    PTX_MOD_APPROX = 16 ///< the result is approximate: within PTX's documented error, not one value
};

#define PTX_TYPES_S      (PTX_TYPE_BIT(S16) | PTX_TYPE_BIT(S32) | PTX_TYPE_BIT(S64))
#define PTX_TYPES_U      (PTX_TYPE_BIT(U16) | PTX_TYPE_BIT(U32) | PTX_TYPE_BIT(U64))
#define PTX_TYPES_I      (PTX_TYPES_S | PTX_TYPES_U)
#define PTX_TYPES_I32    (PTX_TYPE_BIT(U32) | PTX_TYPE_BIT(S32))
#define PTX_TYPES_I64    (PTX_TYPE_BIT(U64) | PTX_TYPE_BIT(S64))
#define PTX_TYPES_I16_32 (PTX_TYPE_BIT(U16) | PTX_TYPE_BIT(S16) | PTX_TYPES_I32)
#define PTX_TYPES_B      (PTX_TYPE_BIT(B16) | PTX_TYPE_BIT(B32) | PTX_TYPE_BIT(B64))
#define PTX_TYPES_BITS   (PTX_TYPES_I | PTX_TYPES_B) ///< spelled .b16, .b32, .b64
#define PTX_TYPES_W32    (PTX_TYPES_I32 | PTX_TYPE_BIT(B32))
#define PTX_TYPES_W64    (PTX_TYPES_I64 | PTX_TYPE_BIT(B64))
#define PTX_TYPES_F16S   (PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(F16X2))
#define PTX_TYPES_BF16S  (PTX_TYPE_BIT(BF16) | PTX_TYPE_BIT(BF16X2))
#define PTX_TYPES_TENSOR (PTX_TYPE_BIT(E4M3X2) | PTX_TYPE_BIT(E5M2X2) | PTX_TYPE_BIT(TF32))

#define PTX_MOD_ROUND_FTZ     (PTX_MOD_ROUND | PTX_MOD_FTZ)
#define PTX_MOD_ROUND_FTZ_SAT (PTX_MOD_ROUND | PTX_MOD_FTZ | PTX_MOD_SAT)
#define PTX_MOD_FTZ_SAT       (PTX_MOD_FTZ | PTX_MOD_SAT)
#define PTX_MOD_APPROX_FTZ    (PTX_MOD_APPROX | PTX_MOD_FTZ)

// clang-format off

#define PTX_OPS_UNARY(X) \
    X(neg, "T=T", "-x", \
      { PTX_TYPES_S, "neg", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "neg", PTX_MOD_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "neg", 0, 60, 70 }, \
      { PTX_TYPES_F16S, "neg", PTX_MOD_FTZ, 60, 70 }, \
      { PTX_TYPES_BF16S, "neg", 0, 70, 80 }) \
    X(abs, "T=T", "|x|", \
      { PTX_TYPES_S, "abs", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "abs", PTX_MOD_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "abs", 0, 60, 70 }, \
      { PTX_TYPES_F16S, "abs", PTX_MOD_FTZ, 65, 70 }, \
      { PTX_TYPES_BF16S, "abs", 0, 70, 80 }) \
    X(not, "T=T", "~x; logical not of a predicate", \
      { PTX_TYPES_BITS, "not.b", 0, 60, 70 }, \
      { PTX_TYPE_BIT(PRED), "not", 0, 60, 70 }) \
    X(popc, "u=T", "number of one bits", \
      { PTX_TYPES_W32 | PTX_TYPES_W64, "popc.b", 0, 60, 70 }) \
    X(clz, "u=T", "number of leading zero bits", \
      { PTX_TYPES_W32 | PTX_TYPES_W64, "clz.b", 0, 60, 70 }) \
    X(bfind, "u=T", "place of the most significant non-sign bit; 0xffffffff if none", \
      { PTX_TYPES_I32 | PTX_TYPES_I64, "bfind", 0, 60, 70 }) \
    X(brev, "T=T", "bits in reverse order", \
      { PTX_TYPES_W32 | PTX_TYPES_W64, "brev.b", 0, 60, 70 }) \
    X(sqrt, "T=T", "square root, correctly rounded", \
      { PTX_TYPE_BIT(F32), "sqrt", PTX_MOD_ROUND_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "sqrt", PTX_MOD_ROUND, 60, 70 }) \
    X(rcp, "T=T", "1 / x, correctly rounded", \
      { PTX_TYPE_BIT(F32), "rcp", PTX_MOD_ROUND_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "rcp", PTX_MOD_ROUND, 60, 70 }) \
    X(sqrt_approx, "T=T", "square root, approximate", \
      { PTX_TYPE_BIT(F32), "sqrt.approx", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(rcp_approx, "T=T", "1 / x, approximate", \
      { PTX_TYPE_BIT(F32), "rcp.approx", PTX_MOD_APPROX_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "rcp.approx.ftz", PTX_MOD_APPROX, 60, 70 }) \
    X(rsqrt_approx, "T=T", "1 / sqrt(x), approximate", \
      { PTX_TYPE_BIT(F32), "rsqrt.approx", PTX_MOD_APPROX_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "rsqrt.approx", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(ex2, "T=T", "2 to the power x, approximate", \
      { PTX_TYPE_BIT(F32), "ex2.approx", PTX_MOD_APPROX_FTZ, 60, 70 }, \
      { PTX_TYPES_F16S, "ex2.approx", PTX_MOD_APPROX, 70, 75 }, \
      { PTX_TYPES_BF16S, "ex2.approx.ftz", PTX_MOD_APPROX, 78, 90 }) \
    X(lg2, "T=T", "logarithm to base 2, approximate", \
      { PTX_TYPE_BIT(F32), "lg2.approx", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(sin, "T=T", "sine of x in radians, approximate", \
      { PTX_TYPE_BIT(F32), "sin.approx", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(cos, "T=T", "cosine of x in radians, approximate", \
      { PTX_TYPE_BIT(F32), "cos.approx", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(tanh, "T=T", "hyperbolic tangent, approximate", \
      { PTX_TYPE_BIT(F32), "tanh.approx", PTX_MOD_APPROX, 70, 75 }, \
      { PTX_TYPES_F16S, "tanh.approx", PTX_MOD_APPROX, 70, 75 }, \
      { PTX_TYPES_BF16S, "tanh.approx", PTX_MOD_APPROX, 78, 90 }) \
    X(rint, "T=T", "nearest integer, ties to even, as a float", \
      { PTX_TYPE_BIT(F32), "cvt.rni", PTX_MOD_TWICE | PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16), "cvt.rni", PTX_MOD_TWICE, 60, 70 }, \
      { PTX_TYPE_BIT(BF16), "cvt.rni", PTX_MOD_TWICE, 78, 90 }) \
    X(trunc, "T=T", "x without its fraction", \
      { PTX_TYPE_BIT(F32), "cvt.rzi", PTX_MOD_TWICE | PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16), "cvt.rzi", PTX_MOD_TWICE, 60, 70 }, \
      { PTX_TYPE_BIT(BF16), "cvt.rzi", PTX_MOD_TWICE, 78, 90 }) \
    X(floor, "T=T", "greatest integer not above x, as a float", \
      { PTX_TYPE_BIT(F32), "cvt.rmi", PTX_MOD_TWICE | PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16), "cvt.rmi", PTX_MOD_TWICE, 60, 70 }, \
      { PTX_TYPE_BIT(BF16), "cvt.rmi", PTX_MOD_TWICE, 78, 90 }) \
    X(ceil, "T=T", "least integer not below x, as a float", \
      { PTX_TYPE_BIT(F32), "cvt.rpi", PTX_MOD_TWICE | PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16), "cvt.rpi", PTX_MOD_TWICE, 60, 70 }, \
      { PTX_TYPE_BIT(BF16), "cvt.rpi", PTX_MOD_TWICE, 78, 90 }) \
    X(is_finite, "p=T", "neither infinite nor NaN", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "testp.finite", 0, 60, 70 }) \
    X(is_infinite, "p=T", "plus or minus infinity", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "testp.infinite", 0, 60, 70 }) \
    X(is_number, "p=T", "not NaN", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "testp.number", 0, 60, 70 }) \
    X(is_nan, "p=T", "NaN", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "testp.notanumber", 0, 60, 70 }) \
    X(is_normal, "p=T", "normal: not zero, subnormal, infinite or NaN", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "testp.normal", 0, 60, 70 }) \
    X(is_subnormal, "p=T", "subnormal", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "testp.subnormal", 0, 60, 70 })

#define PTX_COMPARE_ORDERED(text) \
    { PTX_TYPES_I, text, 0, 60, 70 }, \
    { PTX_TYPE_BIT(F32), text, PTX_MOD_FTZ, 60, 70 }, \
    { PTX_TYPE_BIT(F64), text, 0, 60, 70 }, \
    { PTX_TYPE_BIT(F16), text, PTX_MOD_FTZ, 60, 70 }, \
    { PTX_TYPE_BIT(BF16), text, 0, 78, 90 }

#define PTX_COMPARE_FLOAT(text) \
    { PTX_TYPE_BIT(F32), text, PTX_MOD_FTZ, 60, 70 }, \
    { PTX_TYPE_BIT(F64), text, 0, 60, 70 }, \
    { PTX_TYPE_BIT(F16), text, PTX_MOD_FTZ, 60, 70 }, \
    { PTX_TYPE_BIT(BF16), text, 0, 78, 90 }

#define PTX_OPS_BINARY(X) \
    X(add, "T=TT", "x + y", \
      { PTX_TYPE_BIT(S32), "add", PTX_MOD_SAT, 60, 70 }, \
      { PTX_TYPES_I, "add", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "add", PTX_MOD_ROUND_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "add", PTX_MOD_ROUND, 60, 70 }, \
      { PTX_TYPES_F16S, "add.rn", PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPES_BF16S, "add.rn", 0, 78, 90 }) \
    X(sub, "T=TT", "x - y", \
      { PTX_TYPE_BIT(S32), "sub", PTX_MOD_SAT, 60, 70 }, \
      { PTX_TYPES_I, "sub", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "sub", PTX_MOD_ROUND_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "sub", PTX_MOD_ROUND, 60, 70 }, \
      { PTX_TYPES_F16S, "sub.rn", PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPES_BF16S, "sub.rn", 0, 78, 90 }) \
    X(mul, "T=TT", "x * y; the low half for integers", \
      { PTX_TYPES_I, "mul.lo", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "mul", PTX_MOD_ROUND_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "mul", PTX_MOD_ROUND, 60, 70 }, \
      { PTX_TYPES_F16S, "mul.rn", PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPES_BF16S, "mul.rn", 0, 78, 90 }) \
    X(mul_hi, "T=TT", "the high half of x * y", \
      { PTX_TYPES_I, "mul.hi", 0, 60, 70 }) \
    X(mul_wide, "W=TT", "x * y in twice the width", \
      { PTX_TYPES_I16_32, "mul.wide", 0, 60, 70 }) \
    X(div, "T=TT", "x / y; integers truncate towards zero; an integer by 0: what the GPU gives", \
      { PTX_TYPES_I, "div", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "div", PTX_MOD_ROUND_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "div", PTX_MOD_ROUND, 60, 70 }) \
    X(div_approx, "T=TT", "x / y, approximate; 0 for y beyond 2^126", \
      { PTX_TYPE_BIT(F32), "div.approx", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(div_full, "T=TT", "x / y, approximate over the full range of y", \
      { PTX_TYPE_BIT(F32), "div.full", PTX_MOD_APPROX_FTZ, 60, 70 }) \
    X(rem, "T=TT", "remainder of the truncating x / y; by 0: what the GPU gives", \
      { PTX_TYPES_I, "rem", 0, 60, 70 }) \
    X(min, "T=TT", "the smaller; the other operand if one is NaN", \
      { PTX_TYPES_I, "min", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "min", PTX_MOD_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "min", 0, 60, 70 }, \
      { PTX_TYPES_F16S, "min", PTX_MOD_FTZ, 70, 80 }, \
      { PTX_TYPES_BF16S, "min", 0, 70, 80 }) \
    X(max, "T=TT", "the larger; the other operand if one is NaN", \
      { PTX_TYPES_I, "max", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32), "max", PTX_MOD_FTZ, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "max", 0, 60, 70 }, \
      { PTX_TYPES_F16S, "max", PTX_MOD_FTZ, 70, 80 }, \
      { PTX_TYPES_BF16S, "max", 0, 70, 80 }) \
    X(min_nan, "T=TT", "the smaller; NaN if either is NaN", \
      { PTX_TYPE_BIT(F32), "min%.NaN", PTX_MOD_FTZ, 70, 80 }, \
      { PTX_TYPES_F16S, "min%.NaN", PTX_MOD_FTZ, 70, 80 }, \
      { PTX_TYPES_BF16S, "min.NaN", 0, 70, 80 }) \
    X(max_nan, "T=TT", "the larger; NaN if either is NaN", \
      { PTX_TYPE_BIT(F32), "max%.NaN", PTX_MOD_FTZ, 70, 80 }, \
      { PTX_TYPES_F16S, "max%.NaN", PTX_MOD_FTZ, 70, 80 }, \
      { PTX_TYPES_BF16S, "max.NaN", 0, 70, 80 }) \
    X(copysign, "T=TT", "the magnitude of y with the sign of x", \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "copysign", 0, 60, 70 }) \
    X(and, "T=TT", "bitwise and; logical and of predicates", \
      { PTX_TYPES_BITS, "and.b", 0, 60, 70 }, \
      { PTX_TYPE_BIT(PRED), "and", 0, 60, 70 }) \
    X(or, "T=TT", "bitwise or; logical or of predicates", \
      { PTX_TYPES_BITS, "or.b", 0, 60, 70 }, \
      { PTX_TYPE_BIT(PRED), "or", 0, 60, 70 }) \
    X(xor, "T=TT", "bitwise exclusive or; inequality of predicates", \
      { PTX_TYPES_BITS, "xor.b", 0, 60, 70 }, \
      { PTX_TYPE_BIT(PRED), "xor", 0, 60, 70 }) \
    X(shl, "T=Tu", "x shifted left; by the width or more: 0", \
      { PTX_TYPES_BITS, "shl.b", 0, 60, 70 }) \
    X(shr, "T=Tu", "x shifted right, filled with the sign for signed types; by the width or more: the fill", \
      { PTX_TYPES_I | PTX_TYPES_B, "shr", 0, 60, 70 }) \
    X(bmsk, "T=TT", "y one bits from bit x on; both clamped to 32", \
      { PTX_TYPE_BIT(U32), "bmsk.clamp.b", 0, 76, 70 }) \
    X(szext, "T=Tu", "the y lowest bits of x, filled with zeros or the sign; y clamped to 32", \
      { PTX_TYPES_I32, "szext.clamp", 0, 76, 70 }) \
    X(eq, "p=TT", "x == y; false if either is NaN", PTX_COMPARE_ORDERED("setp.eq")) \
    X(ne, "p=TT", "x != y; false if either is NaN (see neu)", PTX_COMPARE_ORDERED("setp.ne")) \
    X(lt, "p=TT", "x < y; false if either is NaN", PTX_COMPARE_ORDERED("setp.lt")) \
    X(le, "p=TT", "x <= y; false if either is NaN", PTX_COMPARE_ORDERED("setp.le")) \
    X(gt, "p=TT", "x > y; false if either is NaN", PTX_COMPARE_ORDERED("setp.gt")) \
    X(ge, "p=TT", "x >= y; false if either is NaN", PTX_COMPARE_ORDERED("setp.ge")) \
    X(equ, "p=TT", "x == y; true if either is NaN", PTX_COMPARE_FLOAT("setp.equ")) \
    X(neu, "p=TT", "x != y; true if either is NaN", PTX_COMPARE_FLOAT("setp.neu")) \
    X(ltu, "p=TT", "x < y; true if either is NaN", PTX_COMPARE_FLOAT("setp.ltu")) \
    X(leu, "p=TT", "x <= y; true if either is NaN", PTX_COMPARE_FLOAT("setp.leu")) \
    X(gtu, "p=TT", "x > y; true if either is NaN", PTX_COMPARE_FLOAT("setp.gtu")) \
    X(geu, "p=TT", "x >= y; true if either is NaN", PTX_COMPARE_FLOAT("setp.geu")) \
    X(ordered, "p=TT", "neither is NaN", PTX_COMPARE_FLOAT("setp.num")) \
    X(unordered, "p=TT", "either is NaN", PTX_COMPARE_FLOAT("setp.nan"))

#define PTX_OPS_TERNARY(X) \
    X(fma, "T=TTT", "x * y + z with one rounding", \
      { PTX_TYPE_BIT(F32), "fma", PTX_MOD_ROUND_FTZ_SAT, 60, 70 }, \
      { PTX_TYPE_BIT(F64), "fma", PTX_MOD_ROUND, 60, 70 }, \
      { PTX_TYPES_F16S, "fma.rn", PTX_MOD_FTZ_SAT, 60, 70 }, \
      { PTX_TYPES_BF16S, "fma.rn", 0, 70, 80 }) \
    X(mad, "T=TTT", "the low half of x * y, plus z", \
      { PTX_TYPES_I, "mad.lo", 0, 60, 70 }) \
    X(mad_hi, "T=TTT", "the high half of x * y, plus z", \
      { PTX_TYPE_BIT(S32), "mad.hi", PTX_MOD_SAT, 60, 70 }, \
      { PTX_TYPES_I, "mad.hi", 0, 60, 70 }) \
    X(mad_wide, "W=TTW", "x * y in twice the width, plus z", \
      { PTX_TYPES_I16_32, "mad.wide", 0, 60, 70 }) \
    X(sad, "T=TTT", "|x - y| + z", \
      { PTX_TYPES_I, "sad", 0, 60, 70 }) \
    X(selp, "T=TTp", "p ? x : y", \
      { PTX_TYPES_I | PTX_TYPES_B | PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "selp", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16) | PTX_TYPES_F16S | PTX_TYPES_BF16S | PTX_TYPES_TENSOR, "selp.b", 0, 60, 70 }) \
    X(bfe, "T=Tff", "y: first bit, z: length; that field of x, extended by its sign if signed", \
      { PTX_TYPES_I32 | PTX_TYPES_I64, "bfe", 0, 60, 70 }) \
    X(shf_l, "T=TTu", "(y:x) shifted left by z, clamped at 32; the high word", \
      { PTX_TYPES_W32, "shf.l.clamp.b", 0, 60, 70 }) \
    X(shf_r, "T=TTu", "(y:x) shifted right by z, clamped at 32; the low word", \
      { PTX_TYPES_W32, "shf.r.clamp.b", 0, 60, 70 }) \
    X(prmt, "T=TTu", "bytes of (y:x) chosen by the nibbles of z", \
      { PTX_TYPES_W32, "prmt.b", 0, 60, 70 }) \
    X(dp4a, "T=TTT", "dot product of four bytes, plus z", \
      { PTX_TYPE_BIT(U32), "dp4a.u32", 0, 60, 70 }, \
      { PTX_TYPE_BIT(S32), "dp4a.s32", 0, 60, 70 })

#define PTX_OPS_QUATERNARY(X) \
    X(bfi, "T=TTff", "y with x inserted; z: first bit, w: length", \
      { PTX_TYPES_W32 | PTX_TYPES_W64, "bfi.b", 0, 60, 70 }) \
    X(lop3, "T=TTTi", "any bitwise function of x, y, z; w, an immediate, is its truth table", \
      { PTX_TYPES_W32, "lop3.b", 0, 60, 70 })

/// Instructions with signatures other than "values in, one value out"; builder.h and the headers
/// that it includes declare them one by one. Columns: name, meaning, spelling, least ISA, least
/// target.
#define PTX_OPS_SPECIAL(X) \
    X(mov, "copy a value, read a special register, take an address", "mov", 60, 70) \
    X(add_cc, "sum of integers of several words, with addc", "add.cc", 60, 70) \
    X(sub_cc, "their difference, with subc", "sub.cc", 60, 70) \
    X(mad_cc, "their product with a word, added to one, with madc and addc", "mad.lo.cc", 60, 70) \
    X(cvt, "convert between types", "cvt", 60, 70) \
    X(cvt_bf16, "f32 to bf16", "cvt", 70, 80) \
    X(cvt_bf16_any, "bf16 to or from f16, f64 and integers, directly", "cvt", 78, 90) \
    X(cvt_pack, "two f32 to f16x2 or bf16x2", "cvt", 70, 80) \
    X(cvt_fp8, "two f32, or f16x2, to e4m3x2 or e5m2x2, and these to f16x2", "cvt", 81, 89) \
    X(cvt_tf32, "f32 to tf32, ties away from zero", "cvt.rna", 70, 80) \
    X(cvt_tf32_any, "f32 to tf32, to nearest even or towards zero", "cvt", 78, 90) \
    X(cvta, "address to the global window", "cvta", 60, 70) \
    X(ld, "load", "ld", 60, 70) \
    X(st, "store", "st", 60, 70) \
    X(wide_256, "32-byte loads and stores", "ld.global.v8", 88, 100) \
    X(atom, "atomic read-modify-write, the old value returned", "atom", 60, 70) \
    X(red, "atomic read-modify-write, nothing returned", "red", 60, 70) \
    X(atom_vec, "atomic read-modify-write of each element of a vector", "atom.global.v4", 81, 90) \
    X(fence, "order memory accesses", "fence", 60, 70) \
    X(prefetch, "bring a line to a cache", "prefetch", 60, 70) \
    X(prefetch_evict, "the same, with what is evicted first", "prefetch", 74, 80) \
    X(prefetchu, "bring a line to the uniform cache", "prefetchu", 60, 70) \
    X(bar, "barrier over the block", "bar", 60, 70) \
    X(bar_arrive, "arrive at a barrier without waiting", "bar.arrive", 60, 70) \
    X(bar_red, "barrier over the block that reduces a predicate", "bar.red", 60, 70) \
    X(bar_warp, "barrier over lanes of a warp", "bar.warp.sync", 60, 70) \
    X(shfl, "exchange a value between lanes", "shfl.sync", 60, 70) \
    X(vote, "combine a predicate over lanes", "vote.sync", 60, 70) \
    X(match, "lanes that hold the same value", "match", 60, 70) \
    X(redux, "reduce an integer over lanes", "redux.sync", 70, 80) \
    X(activemask, "lanes that execute together now", "activemask", 62, 70) \
    X(ldmatrix, "load tiles of 8 x 8 into the lanes of a warp", "ldmatrix", 65, 75) \
    X(stmatrix, "store tiles of 8 x 8 from the lanes of a warp", "stmatrix", 78, 90) \
    X(mma, "product of matrices, added to one", "mma.sync", 70, 80) \
    X(mma_k8, "the same, f16 with k = 8", "mma.sync", 65, 75) \
    X(mma_f64, "the same, f64 of 16 x k", "mma.sync", 78, 90) \
    X(mma_f8, "the same, e4m3 and e5m2 with k = 32 into f32", "mma.sync", 84, 89) \
    X(mma_f8_f16, "the same with k = 16, and into f16", "mma.sync", 87, 89) \
    X(cp_async, "copy from global to shared memory beside the code", "cp.async", 70, 80) \
    X(bra, "branch", "bra", 60, 70) \
    X(ret, "leave the kernel", "ret", 60, 70) \
    X(trap, "abort the kernel with an error", "trap", 60, 70) \
    X(nanosleep, "suspend the thread for about so many nanoseconds", "nanosleep", 63, 70) \
    X(griddepcontrol, "programmatic dependent launch", "griddepcontrol", 78, 90)

/// Atomic operations. Columns: name, meaning, then forms as above. The `red` form is printed if the
/// result is not used.
#define PTX_ATOMICS(X) \
    X(add, "old + x", \
      { PTX_TYPES_I32 | PTX_TYPE_BIT(U64), "add", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64), "add", 0, 60, 70 }, \
      { PTX_TYPE_BIT(F16X2), "add.noftz", 0, 62, 70 }, \
      { PTX_TYPE_BIT(F16), "add.noftz", 0, 63, 70 }, \
      { PTX_TYPES_BF16S, "add.noftz", 0, 78, 90 }) \
    X(min, "min(old, x)", { PTX_TYPES_I32 | PTX_TYPES_I64, "min", 0, 60, 70 }) \
    X(max, "max(old, x)", { PTX_TYPES_I32 | PTX_TYPES_I64, "max", 0, 60, 70 }) \
    X(inc, "old >= x ? 0 : old + 1", { PTX_TYPE_BIT(U32), "inc", 0, 60, 70 }) \
    X(dec, "old == 0 || old > x ? x : old - 1", { PTX_TYPE_BIT(U32), "dec", 0, 60, 70 }) \
    X(and, "old & x", { PTX_TYPES_W32 | PTX_TYPES_W64, "and.b", 0, 60, 70 }) \
    X(or, "old | x", { PTX_TYPES_W32 | PTX_TYPES_W64, "or.b", 0, 60, 70 }) \
    X(xor, "old ^ x", { PTX_TYPES_W32 | PTX_TYPES_W64, "xor.b", 0, 60, 70 }) \
    X(exch, "x", { PTX_TYPES_W32 | PTX_TYPES_W64, "exch.b", 0, 60, 70 })
#define PTX_ATOMICS_CAS(X) \
    X(cas, "old == compare ? x : old", \
      { PTX_TYPES_W32 | PTX_TYPES_W64, "cas.b", 0, 60, 70 }, \
      { PTX_TYPE_BIT(U16) | PTX_TYPE_BIT(S16) | PTX_TYPE_BIT(B16), "cas.b", 0, 63, 70 })

/// Reductions over the lanes of a warp. Columns: name, meaning, types.
#define PTX_WARP_REDUCTIONS(X) \
    X(add, "sum", PTX_TYPES_I32) \
    X(min, "least", PTX_TYPES_I32) \
    X(max, "greatest", PTX_TYPES_I32) \
    X(and, "bitwise and", PTX_TYPES_W32) \
    X(or, "bitwise or", PTX_TYPES_W32) \
    X(xor, "bitwise exclusive or", PTX_TYPES_W32)

/// Special registers with an axis. Columns: name, PTX name, meaning, least ISA, least target,
/// whether threads of one block may see different values.
#define PTX_SPECIAL_VECTORS(X) \
    X(tid, "%tid", "thread within the block", 60, 70, true) \
    X(ntid, "%ntid", "threads in the block", 60, 70, false) \
    X(ctaid, "%ctaid", "block within the grid", 60, 70, false) \
    X(nctaid, "%nctaid", "blocks in the grid", 60, 70, false) \
    X(clusterid, "%clusterid", "cluster within the grid", 78, 90, false) \
    X(nclusterid, "%nclusterid", "clusters in the grid", 78, 90, false) \
    X(cluster_ctaid, "%cluster_ctaid", "block within the cluster", 78, 90, false) \
    X(cluster_nctaid, "%cluster_nctaid", "blocks in the cluster", 78, 90, false)

/// Special registers without an axis. Columns as above, with the type after the PTX name.
#define PTX_SPECIAL_SCALARS(X) \
    X(laneid, "%laneid", U32, "lane within the warp", 60, 70, true) \
    X(warpid, "%warpid", U32, "warp slot; may change while the thread runs", 60, 70, true) \
    X(nwarpid, "%nwarpid", U32, "warp slots", 60, 70, false) \
    X(smid, "%smid", U32, "multiprocessor; may change while the thread runs", 60, 70, true) \
    X(nsmid, "%nsmid", U32, "multiprocessor numbers in use", 60, 70, false) \
    X(gridid, "%gridid", U64, "number of the launch", 60, 70, false) \
    X(lanemask_eq, "%lanemask_eq", U32, "mask of this lane", 60, 70, true) \
    X(lanemask_le, "%lanemask_le", U32, "mask of this lane and those below", 60, 70, true) \
    X(lanemask_lt, "%lanemask_lt", U32, "mask of the lanes below", 60, 70, true) \
    X(lanemask_ge, "%lanemask_ge", U32, "mask of this lane and those above", 60, 70, true) \
    X(lanemask_gt, "%lanemask_gt", U32, "mask of the lanes above", 60, 70, true) \
    X(clock, "%clock", U32, "cycle counter of the multiprocessor, low word", 60, 70, true) \
    X(clock64, "%clock64", U64, "cycle counter of the multiprocessor", 60, 70, true) \
    X(globaltimer, "%globaltimer", U64, "nanoseconds, as coarse as the device likes", 60, 70, true) \
    X(dynamic_smem_size, "%dynamic_smem_size", U32, "bytes of dynamic shared memory", 60, 70, false) \
    X(total_smem_size, "%total_smem_size", U32, "bytes of shared memory of the block", 60, 70, false) \
    X(cluster_ctarank, "%cluster_ctarank", U32, "rank of the block in the cluster", 78, 90, false) \
    X(cluster_nctarank, "%cluster_nctarank", U32, "blocks in the cluster", 78, 90, false)

/// Targets. Columns: sm, suffix, least ISA.
#define PTX_TARGETS(X) \
    X(70, 0, 60) X(72, 0, 61) X(75, 0, 63) X(80, 0, 70) X(86, 0, 71) X(87, 0, 74) X(88, 0, 90) \
    X(89, 0, 78) X(90, 0, 78) X(90, 'a', 80) \
    X(100, 0, 86) X(100, 'f', 88) X(100, 'a', 86) X(103, 0, 88) X(103, 'f', 88) X(103, 'a', 88) \
    X(110, 0, 90) X(110, 'f', 90) X(110, 'a', 90) \
    X(120, 0, 87) X(120, 'f', 88) X(120, 'a', 87) X(121, 0, 88) X(121, 'f', 88) X(121, 'a', 88)

// clang-format on

PTXGEN_BEGIN

// ---- values -------------------------------------------------------------------------------------

/// A mutable variable with the initial value `init`. Only variables can be targets of ptx_set().
/// Use it like any value.
PTXGEN_API ptx_val ptx_var(ptx_builder *b, ptx_val init);
/// Assigns `x` to the variable; the types must be the same.
PTXGEN_API void ptx_set(ptx_builder *b, ptx_val var, ptx_val x);
/// A new value equal to the current value of `x`. A later ptx_set() of a variable does not change
/// it.
PTXGEN_API ptx_val ptx_copy(ptx_builder *b, ptx_val x);

/// One function for each row of ops.h: ptx_add(b, x, y), ptx_sqrt(b, x), ptx_fma(b, x, y, z) ...
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x);
PTX_OPS_UNARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y);
PTX_OPS_BINARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z);
PTX_OPS_TERNARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_##name(ptx_builder *b, ptx_val x, ptx_val y, ptx_val z, ptx_val w);
PTX_OPS_QUATERNARY(PTX_DECLARE)
#undef PTX_DECLARE

/// The rows of the table, for ptx_op(): PTX_OP_add.
typedef enum ptx_opcode {
    PTX_OP_NONE,
#define PTX_DECLARE(name, ...) PTX_OP_##name,
    PTX_OPS_UNARY(PTX_DECLARE) PTX_OPS_BINARY(PTX_DECLARE) PTX_OPS_TERNARY(PTX_DECLARE)
        PTX_OPS_QUATERNARY(PTX_DECLARE) PTX_OPS_SPECIAL(PTX_DECLARE)
#undef PTX_DECLARE
            PTX_OP_COUNT
} ptx_opcode;

/// The atomic operations, for ptx_atomic(): PTX_ATOMIC_add.
typedef enum ptx_atomic_op {
#define PTX_DECLARE(name, ...) PTX_ATOMIC_##name,
    PTX_ATOMICS(PTX_DECLARE) PTX_ATOMICS_CAS(PTX_DECLARE)
#undef PTX_DECLARE
        PTX_ATOMIC_COUNT
} ptx_atomic_op;

/// Rounding mode. Zero is the mode that C uses: nearest even for floats, towards zero for float to
/// integer.
typedef enum ptx_round {
    PTX_ROUND_DEFAULT,
    PTX_ROUND_RN,  ///< nearest, ties to even
    PTX_ROUND_RZ,  ///< towards zero
    PTX_ROUND_RM,  ///< towards minus infinity
    PTX_ROUND_RP,  ///< towards plus infinity
    PTX_ROUND_RNA, ///< nearest, ties away from zero: only in conversions to PTX_TF32
} ptx_round;

/// An instruction of the table with its operands and modifiers, for ptx_op().
struct ptx_op_params {
    ptx_opcode op;
    ptx_val x, y, z, w; ///< the operands, as many as the row has
    ptx_round round;
    bool ftz; ///< subnormal inputs and results become zero
    bool sat; ///< clamped to [0, 1] (floats) or to the type's range (integers)
};

/// Emits any row of ops.h with modifiers that the row allows: ptx_op(b, PTX_OP_add, .x = x, .y = y,
/// .round = PTX_ROUND_RZ).
PTXGEN_API ptx_val ptx_op_emit(ptx_builder *b, struct ptx_op_params params);
#define ptx_op(b, ...) ptx_op_emit(b, PTXGEN_STRUCT(ptx_op_params, .op = __VA_ARGS__))

/// cond ? x : y, for every type except predicates. Both operands are evaluated.
PTXGEN_API ptx_val ptx_select(ptx_builder *b, ptx_val cond, ptx_val x, ptx_val y);

/// The special registers, for ptx_special().
typedef enum ptx_special_register {
#define PTX_DECLARE(name, ...) PTX_SPECIAL_##name,
    PTX_SPECIAL_VECTORS(PTX_DECLARE) PTX_SPECIAL_SCALARS(PTX_DECLARE)
#undef PTX_DECLARE
        PTX_SPECIAL_COUNT
} ptx_special_register;

/// Reads a special register by its number, PTX_SPECIAL_ and its name. One without an axis takes
/// PTX_X.
PTXGEN_API ptx_val ptx_special(ptx_builder *b, ptx_special_register special, ptx_axis axis);
/// Special registers: ptx_tid(b, PTX_X), ptx_laneid(b) ...
#define PTX_DECLARE(name, ...)                                                                     \
    static inline ptx_val ptx_##name(ptx_builder *b, ptx_axis axis)                                \
    {                                                                                              \
        return ptx_special(b, PTX_SPECIAL_##name, axis);                                           \
    }
PTX_SPECIAL_VECTORS(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...)                                                                     \
    static inline ptx_val ptx_##name(ptx_builder *b)                                               \
    {                                                                                              \
        return ptx_special(b, PTX_SPECIAL_##name, PTX_X);                                          \
    }
PTX_SPECIAL_SCALARS(PTX_DECLARE)
#undef PTX_DECLARE

// ---- the table, as data -------------------------------------------------------------------------

/// A form of an instruction; see ops.h.
struct ptx_op_form {
    uint32_t types;     ///< PTX_TYPE_BIT() bits
    const char *text;   ///< the spelling, without modifiers and type
    unsigned modifiers; ///< enum ptx_modifier bits
    int isa;            ///< least PTX ISA: 80 for 8.0
    int sm;             ///< least target: 90 for sm_90
};

/// A row of ops.h.
struct ptx_op_info {
    const char *name;
    const char *shape; ///< NULL for a special row
    const char *meaning;
    const struct ptx_op_form *forms;
    size_t form_count;
};

/// The row of `op`, or NULL if there is none.
PTXGEN_API const struct ptx_op_info *ptx_op_get_info(ptx_opcode op);
/// The row of an atomic operation; its shape is NULL.
PTXGEN_API const struct ptx_op_info *ptx_atomic_get_info(ptx_atomic_op op);

PTXGEN_END

#endif
