// SPDX-License-Identifier: MIT
/// Every call of a clip plan, of a step plan and of operations that takes a stream, as one table,
/// for tests that count driver calls or make them fail.
#ifndef PTXGEN_TESTS_SUBJECTS_H
#define PTXGEN_TESTS_SUBJECTS_H

#include <ptxgen/clip.h>
#include <ptxgen/operations.h>
#include <ptxgen/step.h>

/// A device, and memory for a subject of each kind, every byte 0.
enum {
    SCENE_CLIP_TENSORS = 5,
    SCENE_STEP_TENSORS = 40, ///< more than one launch can set
    SCENE_ARRAYS = 6,        ///< of a tensor of a step plan
    SCENE_ROOM = 512,        ///< bytes of an array
    SCENE_BYTES = (SCENE_STEP_TENSORS + 1) * SCENE_ARRAYS * SCENE_ROOM
};
struct scene {
    ptx_device *device;
    ptx_buffer *memory;
    CUdeviceptr at;
    bool any_address; ///< subjects do not check addresses with the driver
    CUstream stream;  ///< of creations
    struct ptx_clip_tensor clip[SCENE_CLIP_TENSORS];
    struct ptx_step_tensor step[SCENE_STEP_TENSORS];
};

/// Opens the device of PTXGEN_LIBCUDA.
void scene_create(struct scene *in);
void scene_destroy(struct scene *in);

/// That of a program's tests: created before each, and destroyed after it.
extern struct scene scene;
int scene_set_up(void **state);
int scene_tear_down(void **state);

/// The address of an array of a step plan's tensor. Those of tensor SCENE_STEP_TENSORS are free.
CUdeviceptr scene_place(const struct scene *in, unsigned tensor, unsigned array);

typedef ptx_status subject_call(const struct scene *in, void *object, CUstream stream);

struct call {
    const char *name; ///< of the public function; NULL ends a list
    subject_call *call;
    int launches;         ///< of kernels
    bool allocates;       ///< host memory
    subject_call *before; ///< must come before each call; NULL: none
};

/// A clip plan, a step plan, or operations, of which one is called.
struct subject {
    const char *name;
    void *(*create)(const struct scene *in); ///< NULL: refused
    void (*destroy)(void *object);
    bool is_operation;     ///< creation compiles nothing: the first call does
    struct call calls[12]; ///< the first one is a run
};
/// An object in the program's scene, which must be created.
void *subject_create(const struct subject *subject);

enum { SUBJECTS = 13, CLIP_SUBJECT = 0, STEP_SUBJECT = 1, FIRST_OPERATION = 2 };
extern const struct subject subjects[SUBJECTS];

/// The message begins with the name and a colon, has the words, and names no other function of
/// plans.
void expect_named(const char *name, const char *words);

#endif
