// SPDX-License-Identifier: MIT
/// Every operation of the driver layer, for tests that make one call in it fail. Each function
/// frees what it creates.
#ifndef PTXGEN_TESTS_DRIVER_OPERATIONS_H
#define PTXGEN_TESTS_DRIVER_OPERATIONS_H

#include "emulator_faults.h"

/// The objects that the operations use; created while nothing fails.
struct scene {
    /// The number of driver calls when the operation's constructor returned. A later failure is in
    /// a destructor, which cannot report it.
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
