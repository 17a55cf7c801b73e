// SPDX-License-Identifier: MIT
/// Part of builder.h: products of matrices on tensor cores, tiles between shared memory and the
/// lanes of a warp, and copies into shared memory that run beside the code. The rules of builder.h
/// apply.
///
/// Every lane of a warp must execute ptx_mma(), ptx_ldmatrix() and ptx_stmatrix(): in code that
/// may diverge within a warp they are refused, as warp operations with the full mask are
/// (threads.h), and in blocks whose last warp has fewer than 32 threads.
///
/// Float products are not the same on every GPU: generations align and cut off summands in
/// different ways. Products of 8-bit integers are exact.
#ifndef PTXGEN_MATRIX_H
#define PTXGEN_MATRIX_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// D = A B + C, with A of 16 x k, B of k x 8, C and D of 16 x 8. Which element of a fragment a lane
/// has is in docs/matrices.md.
typedef enum ptx_fragment_role {
    PTX_FRAGMENT_A = 1,
    PTX_FRAGMENT_B,
    PTX_FRAGMENT_C, ///< and D
} ptx_fragment_role;

/// A matrix in the registers of a warp: this lane's part. It may be copied. role, type, k and the
/// number of words may be read; nothing may be written. ptx_fragment_words() gives the words, and
/// ptx_fragment_from() makes a fragment of words. Elements are PTX_F16, PTX_BF16, PTX_TF32, PTX_S8,
/// PTX_U8, PTX_E4M3X2, PTX_E5M2X2 (single ones, not pairs) or PTX_F64 in A and B, and PTX_F32,
/// PTX_F16, PTX_S32 or PTX_F64 in C. k is 8 or 16 for 16-bit elements, 4 or 8 for tf32, 16 or 32
/// for 8-bit ones, 4, 8 or 16 for f64, and 0 for C.
typedef struct ptx_fragment {
    ptx_val word[8]; ///< private: b32 or f64; for C the type of its elements, or b32 with two f16
    uint8_t words;   ///< how many words it has
    uint8_t role;    ///< enum ptx_fragment_role; 0 is no fragment
    uint8_t type;    ///< enum ptx_type of the elements
    uint8_t k;       ///< columns of A, rows of B; 0 for C
} ptx_fragment;

static inline ptx_fragment ptxgen_as_fragment(ptx_fragment x)
{
    return x;
}

/// A fragment of C whose elements are all `x`, of type PTX_F32, PTX_F16, PTX_S32 or PTX_F64.
PTXGEN_API ptx_fragment ptx_fragment_fill(ptx_builder *b, ptx_val x);
/// A fragment from its words, in the order of PTX's figures: any values of 32 bits for A and B, f64
/// for those of f64, pairs of f16 (f16x2 or 32-bit integers) or values of the type for C. Where k =
/// 8 and elements have 16 bits, the words of B get an instruction that hides them from ptxas,
/// unless they were just loaded: docs/matrices.md says why.
PTXGEN_API ptx_fragment ptx_fragment_from(ptx_builder *b, ptx_fragment_role role, ptx_type type,
                                          unsigned k, ptx_vec words);
/// The words of a fragment.
PTXGEN_API ptx_vec ptx_fragment_words(ptx_builder *b, ptx_fragment fragment);
/// A fragment of variables with the values of `init`: a sum that a loop adds to. It is used like
/// any fragment; an instruction reads the values last assigned.
PTXGEN_API ptx_fragment ptx_fragment_var(ptx_builder *b, ptx_fragment init);
/// Assigns `x` to the fragment of variables, which has the same role, type and k:
/// ptx_fragment_set(b, sum, ptx_mma(b, x, y, sum)).
PTXGEN_API void ptx_fragment_set(ptx_builder *b, ptx_fragment var, ptx_fragment x);

/// A fragment A of f16 or bf16 from fragments of C that are neighbours in their rows, of f32
/// (rounded to nearest even) or, for f16, of f16 too: from k / 8 of them, c[0] on. Each lane has
/// what it needs, and nothing is exchanged: the sum of one product is a factor of the next.
PTXGEN_API ptx_fragment ptx_fragment_to_a(ptx_builder *b, ptx_type type, unsigned k,
                                          const ptx_fragment *c);

struct ptx_fragment_load_params {
    ptx_val stride; ///< elements from a row to the next: u32, a multiple of 16 bytes but for f64
    bool trans;     ///< 16-bit elements and f64: rows in memory are columns of the matrix
};
/// Reads A or B from shared memory by ptx_ldmatrix(), f64 by loads. `p` points to the first
/// element, and its elements have the matrix's width: 8 bits for e4m3 and e5m2. Rows of A or
/// columns of B follow each other, with .trans columns of A or rows of B. Each begins at a multiple
/// of 16 bytes. `p` and the stride must be the same in all lanes of a warp: one that may differ is
/// an error when the entry ends, as in conditions of full-mask warp operations.
/// ptx_assume_warp_uniform() declares that it does not. What a function gets from its callers is
/// not checked. Fragments of the same shape and stride share this lane's place in straight code,
/// and its address where they are of one array; where many are loaded, ptx_matrix_load() takes
/// fewer instructions.
PTXGEN_API ptx_fragment ptx_fragment_load_emit(ptx_builder *b, ptx_fragment_role role,
                                               ptx_type type, unsigned k, ptx_ptr p,
                                               struct ptx_fragment_load_params params);
#define ptx_fragment_load(b, role, type, k, p, ...)                                                \
    ptx_fragment_load_emit(                                                                        \
        b, role, type, k, p,                                                                       \
        PTXGEN_STRUCT(ptx_fragment_load_params, PTXGEN_FIELDS(stride, __VA_ARGS__)))

/// A matrix A or B in shared memory, or C in shared or global memory, with this lane's address in
/// it, which is made once: fragments at constant offsets from it cost an instruction for four
/// tiles, or for two words of C. It may be copied; its fields are private.
typedef struct ptx_matrix {
    ptx_ptr first, lane; ///< private: the first element, and what this lane reads of tiles there
    ptx_val stride;      ///< private: elements
    uint8_t role, type;  ///< private: of its fragments; 0 is no matrix
    uint8_t k, tiles;    ///< private: of its fragments; of an instruction
    bool trans;          ///< private
} ptx_matrix;

/// The matrix from `p` on, as ptx_fragment_load() reads one: ptx_matrix_from(b, PTX_FRAGMENT_B,
/// PTX_BF16, 16, p, stride, .trans = true). C of fragments of `type`, with k = 0, as
/// ptx_fragment_store() writes it: ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, p, stride). Where
/// C of f16 or bf16 lies in shared memory, its rows too begin at multiples of 16 bytes.
PTXGEN_API ptx_matrix ptx_matrix_from_emit(ptx_builder *b, ptx_fragment_role role, ptx_type type,
                                           unsigned k, ptx_ptr p,
                                           struct ptx_fragment_load_params params);
#define ptx_matrix_from(b, role, type, k, p, ...)                                                  \
    ptx_matrix_from_emit(                                                                          \
        b, role, type, k, p,                                                                       \
        PTXGEN_STRUCT(ptx_fragment_load_params, PTXGEN_FIELDS(stride, __VA_ARGS__)))
/// The matrix `i` elements of memory further, the same in all lanes (checked as in
/// ptx_fragment_load()): the next stage of a buffer. Costs an instruction if `i` is no constant.
PTXGEN_API ptx_matrix ptx_matrix_at(ptx_builder *b, ptx_matrix matrix, ptx_val i);
/// Loads fragments to[0] to to[count - 1] from an element of the matrix on. They follow each other
/// down A, 16 rows apart, or across B, 8 columns apart: ptx_matrix_load(b, keys, k, 0, 8, y). Where
/// the stride is not a constant, rows of memory but the first cost more.
PTXGEN_API void ptx_matrix_load(ptx_builder *b, ptx_matrix matrix, unsigned row, unsigned column,
                                unsigned count, ptx_fragment *to);
/// Stores fragments from[0] to from[count - 1] of C from an element of the matrix on. They follow
/// each other across, 8 columns apart. From sm_90 on f16 and bf16 go to shared memory by
/// ptx_stmatrix(), which all lanes execute.
PTXGEN_API void ptx_matrix_store(ptx_builder *b, ptx_matrix matrix, unsigned row, unsigned column,
                                 unsigned count, const ptx_fragment *from);
/// Writes C to shared or global memory, row after row: `p` points to its first element, the same in
/// all lanes (checked as in ptx_fragment_load()), and rows are `stride` elements apart (u32, even,
/// the same in all lanes). f32 is rounded to nearest even where `p` points to f16 or bf16 (sm_80
/// and up).
PTXGEN_API void ptx_fragment_store(ptx_builder *b, ptx_fragment fragment, ptx_ptr p,
                                   ptx_val stride);

struct ptx_mma_params {
    ptx_fragment c;
    bool satfinite; ///< integers: clamped to the range of s32
};
/// A B + C as a fragment of C's type: f16 into f32 and f16, bf16 and tf32 into f32, s8 and u8 (in
/// any mixture) into s32, e4m3 and e5m2 (in any mixture) into f32 and f16, f64 into f64.
/// ptx_mma(b, x, y, sum). sm_80 and up; f16 with k = 8 sm_75; e4m3 and e5m2 sm_89, with k = 32 into
/// f32 PTX 8.4, else 8.7. f64 rounds each step along k; before sm_90 it is products of 8 x 4.
PTXGEN_API ptx_fragment ptx_mma_emit(ptx_builder *b, ptx_fragment x, ptx_fragment y,
                                     struct ptx_mma_params params);
#define ptx_mma(b, x, y, ...)                                                                      \
    ptx_mma_emit(                                                                                  \
        b, x, y,                                                                                   \
        PTXGEN_STRUCT(ptx_mma_params, PTXGEN_FIELDS_AS(ptxgen_as_fragment, c, __VA_ARGS__)))

struct ptx_ldmatrix_params {
    unsigned tiles; ///< 1, 2 or 4
    bool trans;     ///< rows in memory are columns in the registers
};

struct ptx_stmatrix_params {
    ptx_vec x; ///< 1, 2 or 4 words of 32 bits
    bool trans;
};

/// Loads tiles of 8 x 8 elements of 16 bits from shared memory: lane 8 t + r gives the address of
/// row r of tile t, a multiple of 16 bytes; `p` may differ between lanes. Word t of a lane has
/// elements 2 (lane % 4) and the next of row lane / 4 of tile t. ptx_ldmatrix(b, p, 4, .trans =
/// true). sm_75 and up.
PTXGEN_API ptx_vec ptx_ldmatrix_emit(ptx_builder *b, ptx_ptr p, struct ptx_ldmatrix_params params);
#define ptx_ldmatrix(b, p, ...)                                                                    \
    ptx_ldmatrix_emit(b, p, PTXGEN_STRUCT(ptx_ldmatrix_params, .tiles = __VA_ARGS__))
/// The inverse, ptx_stmatrix(b, p, words): stores words as tiles. sm_90 and up.
PTXGEN_API void ptx_stmatrix_emit(ptx_builder *b, ptx_ptr p, struct ptx_stmatrix_params params);
#define ptx_stmatrix(b, p, ...)                                                                    \
    ptx_stmatrix_emit(                                                                             \
        b, p, PTXGEN_STRUCT(ptx_stmatrix_params, PTXGEN_FIELDS_AS(ptxgen_as_vec, x, __VA_ARGS__)))

struct ptx_cp_async_params {
    unsigned bytes; ///< 4, 8 or 16; both addresses are multiples of it
    ptx_val taken;  ///< u32: bytes read from the source, the rest becomes zero; left out: all.
                    ///< None is ptx_u32(0): a plain 0 would leave it out
    bool bypass;    ///< 16 bytes: not kept in L1 (.cg)
};
/// Copies 4, 8 or 16 bytes from global to shared memory while the thread goes on. The copy is done
/// after ptx_cp_async_wait(); other threads see it after a barrier too. sm_80 and up.
PTXGEN_API void ptx_cp_async_emit(ptx_builder *b, ptx_ptr to, ptx_ptr from,
                                  struct ptx_cp_async_params params);
#define ptx_cp_async(b, to, from, ...)                                                             \
    ptx_cp_async_emit(b, to, from, PTXGEN_STRUCT(ptx_cp_async_params, .bytes = __VA_ARGS__))
/// Makes a group of the thread's copies since the last group.
PTXGEN_API void ptx_cp_async_commit(ptx_builder *b);
/// Waits until at most `pending` of the thread's latest groups are not done: 0 waits for all.
PTXGEN_API void ptx_cp_async_wait(ptx_builder *b, unsigned pending);
/// Waits until all copies of the thread are done, also those in no group.
PTXGEN_API void ptx_cp_async_wait_all(ptx_builder *b);

PTXGEN_END

#endif
