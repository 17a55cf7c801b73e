// SPDX-License-Identifier: MIT
/// Part of builder.h: integers of several words. The rules of builder.h apply.
///
/// Such an integer is an array of values, the lowest word first, all u32 or all u64: of 128 bits,
/// ptx_val x[2] of u64. All have `count` words, 1 to 32. C arrays are known only when the kernel is
/// written, so loops over words are loops of C:
///
///     // product = x * y, of 4 and 4 words
///     for (unsigned k = 0; k < 4; k++)
///         product[k] = ptx_u32(0);
///     for (unsigned k = 0; k < 4; k++)
///         ptx_words_mad(b, 4, product + k, x, y[k], product + k);
///
/// Each call is one chain of instructions that hand the carry on, add.cc, addc.cc ..., which stand
/// together in the text, so that no other instruction can come between and change the carry. The
/// arrays may overlap: all words are read before results are set. A constant word has a type,
/// ptx_u32(5). A result is uniform where all words of the operands are.
#ifndef PTXGEN_WORDS_H
#define PTXGEN_WORDS_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// The most words of an integer.
enum { PTX_WORDS_MAX = 32 };

/// sum = x + y. `carry` gets what is left over: 0 or 1, in the type of the words; NULL: nothing
/// needs it.
PTXGEN_API void ptx_words_add(ptx_builder *b, unsigned count, ptx_val *sum, const ptx_val *x,
                              const ptx_val *y, ptx_val *carry);
/// difference = x - y. `borrow` gets 1 where x < y, as integers without a sign, and 0 where not;
/// NULL: nothing needs it.
PTXGEN_API void ptx_words_sub(ptx_builder *b, unsigned count, ptx_val *difference, const ptx_val *x,
                              const ptx_val *y, ptx_val *borrow);
/// sum = x * y + z for a single word y. CAUTION: `sum` is an array of count + 1 words, which always
/// hold it: one more than x and z have. The call sets them all.
PTXGEN_API void ptx_words_mad(ptx_builder *b, unsigned count, ptx_val *sum, const ptx_val *x,
                              ptx_val y, const ptx_val *z);

PTXGEN_END

#endif
