// SPDX-License-Identifier: MIT
/// Muon: the rule PTX_STEP_RULE_MUON of step plans, which steps whole matrices.
///
///     static const struct ptx_muon_params muon = { .steps = 5 };
///     struct ptx_step_group group = { .rule = PTX_STEP_RULE_MUON, .nesterov = true,
///         .hyper = { .lr = 0.02, .momentum = 0.95, .weight_decay = 0.1, .eps = 1e-7 },
///         .muon = &muon };
///     struct ptx_step_tensor tensor = { ..., .count = 768 * 3072, .columns = 3072 };
///
/// A tensor of such a group is a matrix of A rows and B columns: B is its `columns`, A * B its
/// `count`; a convolution is (out, rest). It has one state, the momentum m. Its group may stand
/// beside groups of other rules, and of rules of the caller's, in one plan: all share norms,
/// guards, loss scale, reports and phases. A tensor may have some of a matrix's rows: see "matrices
/// over ranks" below.
///
/// With g the gradient times the factor of its norm group, rounded once to f32 (-g under
/// `maximize`), one step is
///
///     m = fma(1 - momentum, g - m, m)                          in f32; then rounded to its format
///     u = nesterov ? fma(-(1 - momentum), m - g, m) : m        of the m before that rounding
///     X = rn_f16(u / max(s, eps))                              n x k, n <= k: transposed if A > B
///     X = the orthogonalized X                                 `steps` steps, below; 0: X as it is
///     p = fma(-(lr * weight_decay), p, p)
///     p = fma(-(lr * adjust), X, p)
///
/// Scalars are rounded to f32 first, as those of other rules; 1 - momentum, lr * weight_decay and
/// lr * adjust are formed from those in f64 and rounded once. The difference, each fma and the
/// quotient are rounded once in f32, the quotient once more to f16.
///
/// s is |u| (Frobenius), from sums in f64 that the norm's launch takes over m, as it is before the
/// step, and the raw gradient G. With mu the momentum, nu = 1 - mu, f the factor (-f under
/// `maximize`), and a = mu, b = nu, or a = mu^2, b = 1 - mu^2 with nesterov,
///
///     s^2 = a^2 m.m + 2 a b f m.G + b^2 f^2 G.G
///     s   = the larger of its root and 2^-20 (a |m| + b |f| |G|)
///
/// and max(s, eps) is rounded to f32. Where s is 0, X is 0. The order of a matrix's sums is
/// fixed by its number of elements alone.
///
/// The steps, with a triple (a, b, c) each. Products have operands in f16 and sums in f32; rn
/// rounds to f16:
///
///     plain:  R = rn(X X^T);  Z = rn(b R + c R R);  X = rn(a X + Z X)
///     Gram:   R = rn(X X^T); in each step
///                 Z = rn(b R + c R R)
///                 Q = rn(Z + a I) first and after a restart, else rn(a Q + Q Z)
///                 but in the last step and before a restart:
///                 T = rn(a R + R Z);  R = rn(a T + Z T)
///             a restart, after steps 2, 5, 8, ... where there are more than 3 and it is not the
///             last one:
///                 X = rn(Q X);  R = rn(X X^T)
///             at the end X = rn(Q X)
///     pairs:  as Gram, with T = rn(R Q);  R = rn(Q T), and a restart after each second step that
///             is not the last one
///
/// Up to 128 rows the form is plain where n = k, else Gram. Above, it follows from how many squares
/// of n x n have room beside X in six bytes an element, s = floor((3 k - k') / n') with k' and n'
/// the next multiples of 8: plain for s below 3, pairs for 3, else Gram. Of multiples of 8 those
/// with k < 1.5 n are plain, and those with k < 2 n go in pairs.
///
/// The form is fixed by a matrix's sizes and its group's steps alone. So a matrix gets the same
/// bits launched, captured, in phases, and beside any others given the same factor, on devices of
/// one generation and on the emulator that presents it: products of f16 are the one operation whose
/// bits the generations differ in. All else is as in other rules.
///
/// Triples that make X grow may bring a product beyond 65,504, which f16 does not hold: it is
/// infinite then, and all of X becomes infinite or NaN. Which of the two an element is, is not
/// fixed: of square matrices of 129 to 256 rows it may differ between drivers for sm_90.
///
/// X and the products have memory of the plan's: at most 2.2 bytes an element up to 128 rows and 6
/// above, where k is a multiple of 8; rows of others are longer in memory (docs/muon.md).
/// matrix_memory of struct ptx_step_params limits it: matrices are then stepped in windows, in the
/// order of the tensors, and a window has the memory that the one before has left.
///
/// The norm is always taken. Where matrices are not to be clipped, give them a norm group whose
/// limit in group_max_norms is INFINITY. A step that is skipped writes nothing; nor does a tensor
/// without a gradient. docs/muon.md has how close the result is to an exact one, and what is
/// refused.
///
/// Sources: Jordan et al. 2024; torch.optim.Muon of PyTorch 2.11; the Gram form is that of
/// Dao-AILab's gram-newton-schulz.
#ifndef PTXGEN_MUON_H
#define PTXGEN_MUON_H

#include <ptxgen/device.h>
#include <ptxgen/module.h>

PTXGEN_BEGIN

enum {
    PTX_MUON_STEPS = 5,              ///< of the default
    PTX_MUON_MOST_STEPS = 32,        ///< at most
    PTX_MUON_MOST_ROWS = 16384,      ///< the smaller side of a matrix, at most
    PTX_MUON_MOST_COLUMNS = 1 << 24, ///< each side, at most
};

/// What lr is multiplied by for a matrix of A rows and B columns.
typedef enum ptx_muon_adjust {
    PTX_MUON_ADJUST_ORIGINAL,        ///< sqrt(max(1, A / B)), Jordan's
    PTX_MUON_ADJUST_MATCH_RMS_ADAMW, ///< 0.2 sqrt(max(A, B)): updates about as large as AdamW's
} ptx_muon_adjust;

/// What a group with the rule MUON has besides its scalars, of which the rule uses lr, momentum
/// (from 0, below 1), weight_decay and eps. Fixed for the plan's life.
struct ptx_muon_params {
    /// At most PTX_MUON_MOST_STEPS. 0, as if left out: X is the normalized update itself. With any
    /// other field give the usual ones, too: PTX_MUON_STEPS.
    uint32_t steps;
    /// a, b and c of each step, one triple after the other. Finite. NULL: 3.4445, -4.7750 and
    /// 2.0315 in each.
    const float *triples;
    ptx_muon_adjust adjust;
    bool in_by_out; ///< weights are stored in x out, as GPT-2's Conv1D: adjust swaps A and B
};

// ------------------------------------------------------------------ rows or columns of a parameter

/// A parameter may have several matrices: attention's heads, or Q, K and V in one weight. Each is a
/// tensor of its own, with addresses in the middle of the parameter's arrays, and gets the bits
/// that it would get by itself. Where its elements are not consecutive there, `spread` of struct
/// ptx_step_tensor says how they lie: element i of the matrix, row after row, is element i / run *
/// stride + i % run of each array but the accumulator and `update`, whose elements are consecutive.
struct ptx_muon_spread {
    uint64_t run;    ///< below 2^30, whole rows or such a part of a row that there are whole ones.
                     ///< 0: all elements are consecutive
    uint64_t stride; ///< no less, and below 2^31; ignored if run is 0
};

/// Rows of a parameter, or columns, that are a matrix: `run` of them from `first` on; with a stride
/// also those from first + stride on, and so on as long as a run is there.
///
///     Q of Megatron's interleaved QKV, d rows each:  { .run = d, .stride = 3 * d }
///     head h of an output projection (out, in):      { .first = h * d, .run = d, .columns = true }
///     K of GPT-2's Conv1D (in, out), 3 n columns:    { .first = n, .run = n, .columns = true }
struct ptx_muon_range {
    uint64_t first, run;
    uint64_t stride; ///< no less than first + run, and with columns a divisor of theirs; 0: one run
    bool columns;
};

/// What a tensor takes from a range: where it begins, in elements behind each of the parameter's
/// addresses, and three of its fields.
struct ptx_muon_slice {
    uint64_t first;
    uint64_t count, columns;
    struct ptx_muon_spread spread;
};

/// The matrices of a parameter of rows x columns, one for each range. Errors: INVALID, where the
/// parameter or a range is empty, where a range leaves the parameter, where two overlap, and where
/// rows or columns are in none. With `rest` these become one matrix more, behind the others, if
/// they can be one range, and slices has room for it; `slice_count` gets their number. A function
/// of sizes alone: it needs no device.
PTXGEN_API ptx_status ptx_muon_slices(uint64_t rows, uint64_t columns,
                                      const struct ptx_muon_range *ranges, size_t range_count,
                                      bool rest, struct ptx_muon_slice *slices,
                                      size_t *slice_count);

// ---------------------------------------------------------------------------- matrices over ranks

/// Where each rank has some of a matrix's rows, with their momentum, the tensor there says so:
/// whole_rows of struct ptx_step_tensor. X of all rows goes to one rank, which has a Muon plan for
/// the products. A step is then, on each rank,
///
///     ptx_step_plan_norm_sq(plan, stream);
///     all-reduce of the norm's sums, and of matrix_sums
///     ptx_step_plan_finish(plan, stream);
///     ptx_step_plan_reduce(plan, stream);      // leaves X of its rows at each tensor's `update`
///     all-to-all: rows of X to the ranks that multiply
///     ptx_muon_plan_run(products, stream);     // all rows of its matrices, in place
///     all-to-all: back to each `update`
///     ptx_step_plan_step(plan, stream);
///
/// matrix_sums has PTX_MUON_SUMS f64s for each tensor: G.G, m.m and m.G over the rows that are
/// here. The ranks add up those of a matrix's tensors, so these are in the same order on each, or
/// the caller picks the rows. With the same sums, a matrix gets the same bits however it is cut,
/// and those of a whole one. A rank without rows of any matrix has tensors without elements for
/// them, and takes the same phases. Matrices that lie whole on a rank may be in the same plan:
/// their products are made by the step.
enum { PTX_MUON_SUMS = 3 };

/// Bytes from a row of X to the next at `update` and in parts: the next multiple of 16. What is
/// behind a row's elements is not read.
PTXGEN_API uint64_t ptx_muon_pitch(uint64_t columns);

/// Rows of X as one rank has sent them: `rows` of them from `at` on, a multiple of 16. A run reads
/// and writes them there: no two parts of a plan may overlap. Neither that nor what memory `at` is
/// of is checked.
struct ptx_muon_part {
    CUdeviceptr at;
    uint64_t rows; ///< 0: none
};

/// A matrix, from its parts in the order of its rows.
struct ptx_muon_matrix {
    uint64_t rows, columns;
    const struct ptx_muon_part *parts;
    size_t part_count;
    const struct ptx_muon_params *muon; ///< steps and triples; NULL: as in a group
};

struct ptx_muon_plan_params {
    const struct ptx_muon_matrix *matrices; ///< copied
    size_t matrix_count;                    ///< may be 0
    CUstream stream;                        ///< of the upload
    const struct ptx_module_params *module; ///< as in struct ptx_step_params; NULL: defaults
};

/// The products of matrices. It belongs to one device, and has its own device memory: at least two
/// bytes an element.
typedef struct ptx_muon_plan ptx_muon_plan;

/// Allocates, compiles and uploads; `params` and what it points to are not needed afterwards.
/// Messages name the matrix by its index. Errors (NULL, nothing stays allocated): INVALID, CAPTURE,
/// JIT, OUT_OF_MEMORY, DRIVER, UNSUPPORTED below sm_80, FORKED.
PTXGEN_API ptx_muon_plan *ptx_muon_plan_create(ptx_device *device,
                                               const struct ptx_muon_plan_params *params);
/// As ptx_clip_plan_destroy().
PTXGEN_API void ptx_muon_plan_destroy(ptx_muon_plan **plan);
/// Orthogonalizes all matrices, in place. Launches only; may be captured. Not for use from several
/// threads at the same time. Errors: INVALID, CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_muon_plan_run(ptx_muon_plan *plan, CUstream stream);

PTXGEN_END

#endif
