// SPDX-License-Identifier: MIT
/// Scalars that a plan reads and writes at the caller's addresses: a random selection, with values
/// that change from step to step.
#ifndef PTXGEN_TESTS_CALLER_SCALARS_H
#define PTXGEN_TESTS_CALLER_SCALARS_H

#include "gpu.h"

enum { CALLER_MOST_GROUPS = 8 };

/// The selection, as bits. Of the last three, at most one is set.
enum caller_has {
    CALLER_MAX_NORMS = 1,
    CALLER_FOUND_INF = 2,
    CALLER_FOUND_INF_TO = 4,
    CALLER_LOSS_SCALE = 8,
    CALLER_STATE = 16,
    CALLER_UPDATED_STATE = 32,
};

struct caller_scalars {
    ptx_buffer *memory;
    unsigned has;
    struct ptx_loss_scale_params update;
    struct caller_values { ///< in device memory
        struct ptx_loss_scale_state state;
        float loss_scale, found_inf, found_inf_to;
        float max_norms[CALLER_MOST_GROUPS];
    } values; ///< what the memory must contain
};

void caller_scalars_create(struct caller_scalars *s, struct random *r, unsigned has);
void caller_scalars_destroy(struct caller_scalars *s);
/// New values, in the memory too. One time in three, some of them are unusable: NaN, 0, negative or
/// infinite.
void caller_scalars_change(struct caller_scalars *s, struct random *r);
/// The loss scale in effect, for a plan whose own one is `own`.
float caller_scalars_loss_scale(const struct caller_scalars *s, float own);
/// Updates the values for a step that found something, or found nothing, and compares the memory
/// with them. Waits for the stream.
void caller_scalars_check(struct caller_scalars *s, bool found);

/// Sets the fields of struct ptx_clip_params or struct ptx_step_params.
#define CALLER_SCALARS_SET(s, params)                                                              \
    do {                                                                                           \
        const struct caller_scalars *from_ = (s);                                                  \
        const CUdeviceptr at_ = ptx_buffer_address(from_->memory);                                 \
        (params)->max_norms_at = CALLER_AT(from_, at_, CALLER_MAX_NORMS, max_norms);               \
        (params)->found_inf_at = CALLER_AT(from_, at_, CALLER_FOUND_INF, found_inf);               \
        (params)->found_inf_to = CALLER_AT(from_, at_, CALLER_FOUND_INF_TO, found_inf_to);         \
        (params)->loss_scale_at = CALLER_AT(from_, at_, CALLER_LOSS_SCALE, loss_scale);            \
        (params)->loss_scale_state =                                                               \
            CALLER_AT(from_, at_, CALLER_STATE | CALLER_UPDATED_STATE, state);                     \
        (params)->update = from_->has & CALLER_UPDATED_STATE ? &from_->update : NULL;              \
    } while (0)
#define CALLER_AT(s, base, bits, member)                                                           \
    ((s)->has & (bits) ? (base) + offsetof(struct caller_values, member) : 0)

#endif
