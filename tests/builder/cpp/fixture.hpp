// SPDX-License-Identifier: MIT
// Of the tests of ptxgen.hpp: counts what is wrong, and compares texts with those of C.
#ifndef FIXTURE_HPP
#define FIXTURE_HPP

#include <ptxgen/ptxgen.hpp>

#include <cstdio>
#include <cstring>
#include <string>

static int failures;

static void fail(const std::string &what)
{
    std::fprintf(stderr, "%s\n", what.c_str());
    failures++;
}

static void expect_text(const char *name, void (*in_c)(ptx_builder *),
                        void (*in_cpp)(ptx::builder &), int sm = 0)
{
    const ptx_target target = { sm, 0 };
    ptx::builder c(target), cpp(target);

    in_c(c);
    in_cpp(cpp);
    try {
        const std::string want = c.finish(), text = cpp.finish();
        if (text != want)
            fail(std::string(name) + ": in C:\n" + want + "in C++:\n" + text);
    } catch (const ptx::error &e) {
        fail(std::string(name) + ": " + e.what());
    }
}

#endif
