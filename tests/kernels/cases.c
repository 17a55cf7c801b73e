// SPDX-License-Identifier: MIT
#include "cases.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

void suite_begin(struct suite *s, const ptx_kernel *kernel, ptx_type dtype)
{
    memset(s, 0, sizeof *s);
    s->random = gpu_random(kernel->name);
    s->random.state += (uint64_t)dtype;
    s->type = gpu_ref_type(dtype);
    s->count = gpu_load_variants(kernel, dtype, s->loaded);
    s->size_count = gpu_sizes(&s->random, s->sizes);
    for (int i = 0; i < s->size_count; ++i)
        if (s->sizes[i] > s->most)
            s->most = s->sizes[i];
}

void suite_end(struct suite *s)
{
    enum { FEW = 5000 }; // elements; with fewer, some variants may have no case
    for (int i = 0; i < s->count; ++i) {
        if (gpu.max_size >= FEW && !*s->loaded[i].launched)
            fail_msg("%s: no case launches it", s->loaded[i].name);
        gpu_kernel_unload(&s->loaded[i]);
    }
}

void *suite_room(const struct suite *s)
{
    void *room = malloc((size_t)(s->most + 1) * 8);
    assert_non_null(room);
    return room;
}

const void *suite_window(struct suite *s, const void *room, uint64_t n)
{
    uint64_t start = random_u64(&s->random) % (s->most - n + 1);
    return (const char *)room + start * ref_bytes(s->type);
}

void suite_mapped(const struct suite *s, struct gpu_case *c, const void *x, const void *y,
                  uint64_t n, bool in_place)
{
    struct gpu_tensor *tensor = gpu_case_tensor(c, "x", s->type, n, x, in_place ? y : NULL);
    if (in_place)
        gpu_case_alias(c, tensor);
    else
        gpu_case_tensor(c, "y", s->type, n, NULL, y);
}

struct gpu_tensor *suite_quantized(const struct suite *s, struct gpu_case *c, const void *x,
                                   const void *d_output, const void *d_input, uint64_t n,
                                   bool in_place)
{
    struct gpu_tensor *dx;
    gpu_case_tensor(c, "x", s->type, n, x, NULL);
    if (in_place) {
        dx = gpu_case_tensor(c, "d_output = d_input", s->type, n, d_output, d_input);
        gpu_case_alias(c, dx);
    } else {
        gpu_case_tensor(c, "d_output", s->type, n, d_output, NULL);
        dx = gpu_case_tensor(c, "d_input", s->type, n, NULL, d_input);
    }
    return dx;
}
