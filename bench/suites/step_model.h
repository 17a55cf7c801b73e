// SPDX-License-Identifier: MIT
/// What the suite of step plans measures: a rule with a format over the parameters of a model, and
/// its check against plain C.
#ifndef PTXGEN_BENCH_STEP_MODEL_H
#define PTXGEN_BENCH_STEP_MODEL_H

#include "bench.h"

#define CODES_SCALE 256.0f ///< of an e4m3 copy

enum {
    PARAMETER,
    GRADIENT,
    BESIDE,
    STATE,
    ABSMAX = STATE + 2,
    EMA = ABSMAX + 2,
    CODES,
    SUM,
    ARRAYS,
    BLOCK = 256,
    SMALL_BLOCK = 32
};

/// Tensors of that many rows or more are matrices, which have a transpose: those of GPT-2 124M are
/// as large, and its vectors have none.
enum { COLUMNS = 768, LEAST_ROWS = 16 };

/// What is measured. A plan that accumulates sums the gradients of micro-batches.
enum part {
    STEP,
    FIRST_MICRO_BATCH, ///< without the fill of the counts that makes it the first again
    LATER_MICRO_BATCH,
    TWO_MICRO_BATCHES, ///< and the step, which takes up the last one
};

/// A rule with a format, and the element size of each array in bytes; 0: no such array. An absmax
/// has an element for each BLOCK of the others, or SMALL_BLOCK.
struct kind {
    const char *name;
    ptx_step_rule rule;
    ptx_step_format format;
    ptx_type dtype;
    unsigned bytes[ARRAYS];
    const struct ptx_guard_params *guards; ///< NULL: none
    bool reports, weight_reports, amax, transposed;
    bool agc; ///< rows are clipped, by so high a limit that none is, which the check relies on
    ptx_fp8_blocks blocks; ///< of matrices, in codes and transposed ones
    enum part part;
    const struct ptx_rule_params *own; ///< the rule as a caller writes it; NULL: the library's
    unsigned moved;                    ///< bytes an element; 0: what the plan says
};

/// The parameters of a model: arrays in which a tensor has the same element offset everywhere.
struct model {
    const char *name;
    const struct kind *kind;
    struct ptx_step_group group;
    struct ptx_step_tensor *tensors;
    uint64_t *first; ///< of each tensor: index of its first element in every array
    size_t count;
    uint64_t elements, room; ///< room: elements of an array, including the gaps between tensors
    ptx_buffer *array[ARRAYS];
    ptx_buffer *counts, *reports, *weight_reports, *accumulated;
    ptx_buffer *amax, *transposed;
    ptx_buffer *blocks, *block_scales; ///< codes of all matrices, then transposed; their factors
    ptx_buffer *scale;                 ///< of the codes, for all tensors: CODES_SCALE
    ptx_step_plan *plan;
    ptx_graph *graph;
};

/// The elements of an array for `count` elements of a tensor from a multiple of BLOCK on.
static inline uint64_t elements_of(const struct kind *kind, unsigned array, uint64_t count)
{
    const uint64_t block = kind->format == PTX_STEP_FORMAT_MASTER_24BIT ? SMALL_BLOCK : BLOCK;

    return array == ABSMAX || array == ABSMAX + 1 ? (count + block - 1) / block : count;
}

static inline ptx_type gradient_type(const struct kind *kind)
{
    return kind->bytes[GRADIENT] == 4 ? PTX_F32 : PTX_BF16;
}

/// Takes a step and, where the kind accumulates, micro-batches. Compares some elements of three
/// tensors, with their copies, with plain C. The first step of the model's states.
bool step_check(struct bench *b, const struct model *m);

#endif
