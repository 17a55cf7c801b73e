// SPDX-License-Identifier: MIT
/// main() of the examples in C++: `--emit` prints the text; else the example runs, and the exit
/// status is 0 if the result is right, 1 if not, 77 without a GPU.
#ifndef PTXGEN_EXAMPLES_HOST_HPP
#define PTXGEN_EXAMPLES_HOST_HPP

#include <ptxgen/ptxgen.hpp>

#include <cstdio>
#include <cstring>

/// `build` writes the module, `run` runs it and returns whether the result is right.
inline int host_main(int argc, char **argv, const char *name, void (*build)(ptx::builder &b),
                     bool (*run)(ptx::device &gpu))
{
    try {
        if (argc > 1 && !std::strcmp(argv[1], "--emit")) {
            ptx::builder b;
            build(b);
            std::printf("%s", b.finish());
            return 0;
        }
        ptx::device gpu;
        const bool right = run(gpu);
        std::printf("%s: %s\n", name, right ? "the result is right" : "WRONG");
        return right ? 0 : 1;
    } catch (const ptx::error &e) {
        if (e.status() == PTX_ERROR_NO_DRIVER || e.status() == PTX_ERROR_NO_DEVICE) {
            std::fprintf(stderr, "%s: no GPU, not run; PTXGEN_LIBCUDA may name the emulator\n",
                         name);
            return 77; // skipped
        }
        std::fprintf(stderr, "%s: %s\n", name, e.what());
        return 1;
    }
}

#endif
