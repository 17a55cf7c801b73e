// SPDX-License-Identifier: MIT
/// Every operation of the driver layer, each in a function that cleans up after itself: for tests
/// in which one thing in it fails.
#ifndef PTXGEN_TESTS_DRIVER_OPERATIONS_H
#define PTXGEN_TESTS_DRIVER_OPERATIONS_H

#include "driver_fixture.h"

/// What operations work with; made while nothing fails.
struct scene {
    const char *cache_folder; ///< the caller's
    struct fake_cuda *fake;
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
    void (*prepare)(struct scene *scene); ///< before each run, while nothing fails; may be NULL
    bool does_without;                    ///< what fails need not make it fail
};

extern const struct operation operations[];
extern const size_t operation_count;

/// A scene on the fake.
struct scene scene_create(struct fake_cuda *libcuda, const char *cache_folder);
void scene_destroy(struct scene *scene);

/// Removes what loads have left in the cache's folder.
void empty_cache(const char *cache_folder);

#endif
