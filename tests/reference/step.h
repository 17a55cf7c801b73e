// SPDX-License-Identifier: MIT
/// An optimizer step in plain C: the results that a GPU must give, bit for bit. Written from the
/// formulas of rules.h and muon.h; shares no code with the library.
#ifndef PTXGEN_TOOLS_REFERENCE_STEP_H
#define PTXGEN_TOOLS_REFERENCE_STEP_H

#include "reference/reference.h"

enum ref_step_rule { REF_ADAMW, REF_ADAM, REF_SGD, REF_LION, REF_MUON };
enum ref_step_format {
    REF_FULL,
    REF_STATE_BF16,
    REF_MASTER,
    REF_REMAINDER,
    REF_STOCHASTIC,
    REF_STATE_8BIT,
    REF_STATE_F16,
    REF_MASTER_24BIT
};

struct ref_step_hyper {
    double lr, beta1, beta2, eps, weight_decay, momentum, dampening, ema_decay;
};

/// A tensor on the host: arrays of `count` elements of the format's types.
struct ref_step_tensor {
    enum ref_step_rule rule;
    enum ref_step_format format;
    bool maximize, nesterov;
    enum ref_type parameter_type, gradient_type;
    void *parameter, *gradient, *state[2], *beside;
    void *absmax[2]; ///< of each block of 256 elements, an f32: STATE_8BIT; or its scale:
                     ///< STATE_F16; of 32 elements, an f16: MASTER_24BIT
    void *ema;       ///< the average of the weights; NULL: none
    enum ref_type ema_type;
    uint64_t count;
    struct ref_step_hyper hyper;
    uint32_t id;
    uint64_t seed;
    uint64_t first, run,
        stride;           ///< position in the whole parameter; run 0: all elements are consecutive
    const float *factors; ///< of the elements, after the step; NULL: none has one
    /// Of a matrix (muon.h): X, in f16, in the order of the elements, and lr * adjust.
    const uint16_t *x;
    float rate;
};

/// What a step does with the gradients.
enum ref_step_gradients { REF_GRADIENTS_RAW, REF_GRADIENTS_WRITE, REF_GRADIENTS_ZERO };

/// The number of a rule's states.
unsigned ref_step_states(enum ref_step_rule rule, double momentum);

/// Takes step `t` (from 1) with the gradients multiplied by `factor`.
void ref_step(const struct ref_step_tensor *tensor, uint32_t t, float factor,
              enum ref_step_gradients gradients);

/// The updates of a matrix's elements with these gradients, before they have length 1.
void ref_muon_updates(const struct ref_step_tensor *tensor, float factor, float *updates);

/// The map of 8-bit states, the least entry first; and the code that `state` gets in a block whose
/// largest state is `absmax`.
void ref_map(bool is_signed, float map[256]);
unsigned ref_code(const float map[256], float state, float absmax);

/// Four words of Philox4x32-7, to be checked against the published test vectors.
void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
