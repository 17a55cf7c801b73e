// SPDX-License-Identifier: MIT
/// Every operation of the driver layer, each in a function that cleans up after itself: for tests
/// in which one thing in it fails.
#ifndef PTXGEN_TESTS_DRIVER_OPERATIONS_H
#define PTXGEN_TESTS_DRIVER_OPERATIONS_H

#include "emulator_faults.h"

/// What operations work with; made while nothing fails.
struct scene {
    /// How many driver calls there had been when the operation's constructor was through. What
    /// fails after that fails in a destructor, which has no way to say so.
    int calls_when_made;
    ptx_device *device;
    ptx_buffer *buffer;
    ptx_module *module;
    CUstream stream;
    CUstream captured;
    CUevent event;
    ptx_graph *graph;
};

struct operation {
    const char *name;
    ptx_status (*run)(struct scene *scene);
};

extern const struct operation operations[];
extern const size_t operation_count;

struct scene scene_create(void);
void scene_destroy(struct scene *scene);

#endif
