// SPDX-License-Identifier: MIT
/// A clip plan and a step plan with right parameters, and refusals of each after a change: at
/// creation, by description and as text.
#ifndef PTXGEN_TESTS_PLAN_REFUSALS_H
#define PTXGEN_TESTS_PLAN_REFUSALS_H

#include "plan_calls.h"

// The last tensor of a step plan has 8-bit states in two blocks.
enum { TENSORS = 4, COUNT = 100, LAST_COUNT = 300, ROOM = 1024, SCALARS = 8 };
enum { PARAMETER, GRADIENT, BESIDE, STATE, ABSMAX = STATE + 2, STEP = ABSMAX + 2, EMA, ARRAYS };
enum { BYTES = (TENSORS * ARRAYS + SCALARS) * ROOM };

extern ptx_buffer *memory;
extern CUdeviceptr base; ///< of the memory
extern struct ptx_clip_tensor clip_tensors[TENSORS];
extern struct ptx_clip_params clip_params;
extern struct ptx_step_tensor step_tensors[TENSORS];
extern struct ptx_step_group step_groups[2];
extern struct ptx_step_params step_params;
extern const unsigned element_bytes[TENSORS][ARRAYS]; ///< of a step plan's; 0: it has none

/// For all tests of a program: the GPU and the memory.
int open_plans(void **state);
int close_plans(void **state);
/// For each test: the parameters are right.
int set_up(void **state);

/// Where an array of a step plan's tensor is, and the field that says so.
CUdeviceptr place(unsigned tensor, unsigned array);
CUdeviceptr *address(unsigned tensor, unsigned array);

struct kind {
    const char *create_name, *describe_name, *emit_name, *move_name;
    void *(*create)(void);
    void (*destroy)(void *plan);
    ptx_status (*describe)(void), (*emit)(ptx_builder *b);
    ptx_status (*move)(void *plan); ///< all tensors, to the addresses in the parameters
};
enum { CLIP_KIND, STEP_KIND };
extern const struct kind kinds[2];

/// The plan, which must be created.
void *create(const struct kind *kind);
/// The call must have been refused as invalid, with these words.
void expect_invalid(ptx_status status, const char *call, const char *words);
/// Creation must be refused, and leave no memory.
void refuse_creation(const struct kind *kind, const char *words);
/// Description and text must be refused, without a device, with and without a builder.
void refuse_description(const struct kind *kind, const char *words);
/// All of them.
void refuse(const struct kind *kind, const char *words);

// With this change of parameters p, their number of norm groups n, and the first tensor t, the
// plan is refused with these words.
#define CLIP(words, ...)                                                                           \
    do {                                                                                           \
        struct ptx_clip_params *p = &clip_params;                                                  \
        struct ptx_clip_tensor *t = clip_tensors;                                                  \
        uint32_t *n = &p->group_count;                                                             \
        set_up(NULL);                                                                              \
        (void)p, (void)t, (void)n;                                                                 \
        __VA_ARGS__;                                                                               \
        refuse(&kinds[CLIP_KIND], words);                                                          \
    } while (0)
#define STEP(words, ...)                                                                           \
    do {                                                                                           \
        struct ptx_step_params *p = &step_params;                                                  \
        struct ptx_step_group *g = step_groups;                                                    \
        struct ptx_step_tensor *t = step_tensors;                                                  \
        uint32_t *n = &p->norm_group_count;                                                        \
        set_up(NULL);                                                                              \
        (void)p, (void)g, (void)t, (void)n;                                                        \
        __VA_ARGS__;                                                                               \
        refuse(&kinds[STEP_KIND], words);                                                          \
    } while (0)
#define BOTH(words, ...)                                                                           \
    CLIP(words, __VA_ARGS__);                                                                      \
    STEP(words, __VA_ARGS__)

#endif
