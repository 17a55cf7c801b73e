// SPDX-License-Identifier: MIT
#ifndef PTXGEN_KERNELS_STEP_FORMAT_H
#define PTXGEN_KERNELS_STEP_FORMAT_H

#include "../common/lanes.h"
#include "step.h"

// One element as stored in memory.
struct ptxk_step_stored {
    ptx_type type;                      // of the parameter
    ptx_val parameter;                  // not read if it follows
    ptx_val beside;                     // master or remainder
    ptx_val state[PTX_STEP_MAX_STATES]; // in f32 in formats with blocks
};

// A format's file, which has its name in PTX_STEP_FORMATS, has one of these.
struct ptxk_step_format {
    const char *name;
    ptx_type parameters[3];  // those that a parameter may have
    ptx_type state, beside;  // as stored; beside: PTX_NONE if there is nothing
    const char *beside_name; // in messages
    bool follows;            // the parameter is only written: the rule works on what is beside it
    // What is rounded stochastically: a parameter in 16 bits; and the states that the rule says.
    bool rounds_parameter, rounds_states;
    // How many vectors a thread steps, at most, and how many blocks are wanted on a multiprocessor,
    // and wanted where a thread steps one vector or two: the fastest on an H200. What a thread does
    // once weighs most where an element has the fewest bytes; in short tiles most of that is
    // waiting.
    unsigned vectors, blocks, blocks_if_short;
    // The f32 that the rule works on, and the inverse; NULL: the parameter itself.
    ptx_val (*load)(ptx_builder *b, const struct ptxk_step_stored *from);
    void (*store)(ptx_builder *b, ptx_val p, struct ptxk_step_stored *to);
    const struct ptxk_step_blocks *by_block; // NULL: each state is stored by itself
};

// States that share a scale in blocks. A thread has PTXK_LANES elements of one.
struct ptxk_step_blocks {
    unsigned elements; // 256: a warp has a block; 32: each four lanes have one
    ptx_type scale;    // as stored: PTX_F32, or PTX_F16, to which it is rounded to nearest
    // What is read while states are converted: in device memory, and copied to each block's shared
    // memory, where it is `tables` (u32 words). A multiple of 16; 0: nothing.
    size_t table_bytes;
    const char *tables_meaning; // of the kernel's parameter
    void (*tables_fill)(void *tables);
    // The states of a thread's elements, in f32.
    void (*decode)(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_state *of,
                   const struct ptxk_lanes *stored, ptx_val scale, ptx_val state[PTXK_LANES]);
    // Whether `encode` takes the roots of positive states that the rule has.
    bool by_roots;
    // The inverse, of all states, which become what ptxk_lanes_write() takes. `state`: variables.
    // All lanes of the warp take part; `scale` becomes the new one, an f32, of all their states.
    void (*encode)(ptx_builder *b, ptx_ptr tables, const struct ptxk_step_rule *rule,
                   unsigned states, ptx_val (*state)[PTXK_LANES], ptx_val *scale);
    // Where what is beside the parameter has 8 bits: the values of the lanes that `load` takes, and
    // the words that ptxk_lanes_write() takes, of what `store` leaves. Else NULL.
    void (*beside_of)(ptx_builder *b, const struct ptxk_lanes *stored, ptx_val value[PTXK_LANES]);
    void (*beside_as_words)(ptx_builder *b, ptx_val value[PTXK_LANES]);
};

const struct ptxk_step_format *ptxk_step_format_of(ptx_step_format format);

// Comments on the code of a variant: its rule, format and types.
void ptxk_step_comment(ptx_builder *b, const struct ptxk_step_variant *v);

// How many halves of words of random bits an element of the variant gets: one for the parameter if
// it is rounded stochastically, and then one for each such state, that of the average being the
// last.
enum { PTXK_STREAMS = 1 + PTX_STEP_MAX_STATES };
unsigned ptxk_step_streams(const struct ptxk_step_variant *v);
// Whose bits a stream has: the number that rules.h calls `which`.
enum { PTXK_STREAM_PARAMETER, PTXK_STREAM_EMA, PTXK_STREAM_FIRST_STATE = 4 };
unsigned ptxk_step_stream_of(const struct ptxk_step_variant *v, unsigned stream);

// Whether a state is rounded stochastically; and an f32 with random bits (u32, below 2^16) added
// below bf16's last place, as ptxk_narrow() takes it. `quick`: there is no NaN.
bool ptxk_step_rounds_state(const struct ptxk_step_variant *v, unsigned k);
ptx_val ptxk_step_round(ptx_builder *b, ptx_val x, ptx_val random, bool quick);

// Converts to f32; the gradient does not change.
struct ptxk_step_element ptxk_step_load(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_stored *from);
// Converts back to the form that ptxk_narrow() takes, and lets the average follow, at `ema_rate`
// (f32). `random`: 16 bits (u32) of each stream.
struct ptxk_step_stored ptxk_step_store(ptx_builder *b, const struct ptxk_step_variant *v,
                                        const struct ptxk_step_element *e, ptx_val ema_rate,
                                        const ptx_val random[PTXK_STREAMS]);

// The f32 of a parameter in the form that ptxk_narrow() takes, as it is once it is stored as
// `type`.
ptx_val ptxk_step_as_stored(ptx_builder *b, ptx_type type, ptx_val x);

// The arrays of a tensor.
enum {
    ARRAY_PARAMETER,
    ARRAY_GRADIENT,
    ARRAY_BESIDE,
    ARRAY_STATE,
    ARRAYS = ARRAY_STATE + PTX_STEP_MAX_STATES
};
// The type of an array's elements; PTX_NONE: the variant has no such array.
ptx_type ptxk_step_array_type(const struct ptxk_step_variant *v, unsigned array);
// Whether it is the average of the weights.
bool ptxk_step_is_average(const struct ptxk_step_variant *v, unsigned array);
// Whether a step reads the array: a parameter with a master is only written, and so is an output.
bool ptxk_step_reads(const struct ptxk_step_variant *v, unsigned array);
// How its states share scales, and what is beside the parameter is stored; NULL: each by itself.
const struct ptxk_step_blocks *ptxk_step_blocks_of(const struct ptxk_step_variant *v);

#endif
