// SPDX-License-Identifier: MIT
// Times the writing of every kernel's text in every type, default options, for sm_90: the time of
// the processor from create to destroy, memory at its peak, allocations. Needs no GPU.
//
//     bench_emit [SAMPLES]
#include "emit_time.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 16 };

int main(int argc, char **argv)
{
    const long asked = argc > 1 ? strtol(argv[1], NULL, 10) : 501;
    const unsigned samples = asked > 0 && asked < 1000000 ? (unsigned)asked : 501;
    const struct ptx_target target = { .sm = 90 };
    const ptx_kernel *kernel;
    struct emit_time t;

    printf("%-32s %-5s %6s %8s %9s %9s %8s %9s %6s\n", "kernel", "dtype", "instr.", "text B",
           "best us", "median us", "ns/instr", "peak B", "allocs");
    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++) {
        for (unsigned type = 1; type < PTX_TYPE_COUNT; type++) {
            const struct ptx_spec spec = { .dtype = (ptx_type)type };
            if (!(kernel->dtypes >> type & 1))
                continue;
            if (!emit_time(kernel, &spec, target, samples, BATCH, &t)) {
                fprintf(stderr, "bench_emit: %s\n", t.error);
                return 1;
            }
            printf("%-32s %-5s %6zu %8zu %9.2f %9.2f %8.1f %9zu %6u\n", kernel->name,
                   ptx_type_name(spec.dtype), t.instructions, t.text_bytes, t.best * 1e6,
                   t.median * 1e6, t.best * 1e9 / (double)t.instructions, t.peak_bytes,
                   t.allocations);
        }
    }
    return 0;
}
