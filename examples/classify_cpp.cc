// SPDX-License-Identifier: MIT
// The best of 8 classes for each sample of 16 features, in C++: a function, a constant table, a
// counter in global memory, dynamic shared memory, an array of parameters, a product of matrices, a
// line of PTX, an assertion and printf in one kernel.
#include "host.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

enum { SAMPLES = 16, FEATURES = 16, CLASSES = 8, WARP = 32, TILES = 20, WATCHED = 77 };

using table = std::array<float, size_t { CLASSES } * FEATURES>;

static table make_weights()
{
    table weights;
    for (size_t i = 0; i < weights.size(); i++)
        weights[i] = static_cast<float>(i * 37 % 64) / 64 - 0.5f;
    return weights;
}

// The pages show the lines from here to the next mark.
static void build(ptx::builder &b)
{
    ptx::pointer weights = b.const_("weights", make_weights());
    ptx::pointer counts = b.global<uint32_t>("counts", CLASSES);
    ptx::function squash = b.func<float>("squash", [&] {
        ptx::value x = b.param<float>("x");
        return x / (1 + ptx::abs(x));
    });

    // A warp takes a tile of 16 samples.
    b.entry("classify", { WARP }, [&] {
        ptx::value tiles = b.param<uint32_t>("tiles"), watched = b.param<uint32_t>("watched");
        ptx::pointer features = b.param_ptr(PTX_F16, "features");
        ptx::pointer classes = b.param_ptr<uint32_t>("classes");
        ptx::pointer marks = b.param_ptr<uint32_t>("marks");
        ptx::pointer bias = b.param_array<float>("bias", CLASSES);
        ptx::pointer rows = b.shared_dynamic(PTX_F16), columns = rows.at(SAMPLES * FEATURES);
        ptx::pointer scores = b.shared<float>(SAMPLES * CLASSES);
        ptx::value lane = b.tid(), first = b.ctaid() * SAMPLES;

        b.assert_(b.ctaid() < tiles, "a block for each tile");
        ptx::pointer tile = features.at(first * FEATURES);
        b.for_(lane, SAMPLES * FEATURES, WARP, [&](ptx::value i) { rows[i] = tile[i]; });
        b.for_(lane, CLASSES * FEATURES, WARP,
               [&](ptx::value i) { columns[i] = ptx::cast(PTX_F16, weights[i]); });
        b.barrier();

        ptx::fragment x = b.fragment_load(PTX_FRAGMENT_A, PTX_F16, FEATURES, rows, FEATURES);
        ptx::fragment y = b.fragment_load(PTX_FRAGMENT_B, PTX_F16, FEATURES, columns, FEATURES);
        ptx::mma(x, y, b.fragment_fill(0.0f)).store(scores, CLASSES);
        b.barrier();

        b.if_(lane < SAMPLES, [&] {
            ptx::variable best = b.var(0u), most = b.var(-1.0f);
            b.for_(0, ptx_u32(CLASSES), 1, [&](ptx::value k) {
                ptx::value score = squash(scores[lane * CLASSES + k] + bias[k]);
                b.if_(score > most, [&] {
                    most = score;
                    best = k;
                });
            });
            ptx::value mark = b.asm_(ptx::text("cvt.rni.sat.u8.f32 %0, %1;")
                                         .result<uint32_t>()
                                         .in((most + 1) * 127.5f)
                                         .pure());
            ptx::value sample = first + lane;
            classes[sample] = best;
            marks[sample] = mark;
            counts.atomic(PTX_ATOMIC_add, best, 1);
            b.if_(sample == watched,
                  [&] { b.printf("sample %u: class %u, mark %u\n", sample, best, mark); });
        });
    });
}
// End of what the pages show.

// The bits of an f16 that holds x exactly: x is 0 or a normal number of 11 bits.
static uint16_t half(float x)
{
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<uint16_t>(
        x == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 13 & 0x3ffff) - (112 << 10)) & 0x7fff));
}

// Runs the kernel, and compares it with the same in C++.
static bool run(ptx::device &gpu)
{
    const table weights = make_weights();
    std::array<float, CLASSES> bias;
    std::vector<float> features(size_t { TILES } * SAMPLES * FEATURES);
    std::vector<uint16_t> halves;
    std::vector<uint32_t> classes(size_t { TILES } * SAMPLES), marks(classes.size());
    uint32_t counts[CLASSES] = {}, counted[CLASSES] = {}, state = 1;

    for (size_t k = 0; k < CLASSES; k++)
        bias[k] = static_cast<float>(k) / 16 - 0.25f;
    for (float &x : features) {
        state = state * 1664525u + 1013904223u;
        x = static_cast<float>(state >> 26) / 16 - 2;
        halves.push_back(half(x));
    }

    ptx::builder b(gpu.target());
    build(b);
    ptx::module module(gpu, b.finish());
    ptx::stream stream(gpu);
    ptx::buffer x(gpu, halves.size() * sizeof halves[0]),
        y(gpu, classes.size() * sizeof classes[0]);
    ptx::buffer z(gpu, y.size());
    x.upload(halves.data(), x.size(), stream);
    const size_t shared = (SAMPLES + CLASSES) * FEATURES * sizeof halves[0];
    ptx::launch(module.function("classify"), ptx::grid(TILES, stream, shared), uint32_t { TILES },
                uint32_t { WATCHED }, x, y, z, bias);
    y.download(classes.data(), y.size(), stream);
    z.download(marks.data(), z.size(), stream);
    gpu.download(module.global("counts"), counts, sizeof counts, stream);
    stream.synchronize();

    bool right = true;
    for (size_t i = 0; i < classes.size(); i++) {
        uint32_t best = 0;
        float most = -1;
        for (uint32_t k = 0; k < CLASSES; k++) {
            float score = 0; // exact
            for (size_t j = 0; j < FEATURES; j++)
                score += features[i * FEATURES + j] * weights[k * FEATURES + j];
            score += bias[k];
            score /= 1 + std::fabs(score);
            if (score > most)
                most = score, best = k;
        }
        counted[best]++;
        right &= classes[i] == best &&
                 marks[i] == static_cast<uint32_t>(std::nearbyint((most + 1) * 127.5f));
    }
    return right && !std::memcmp(counts, counted, sizeof counts);
}

int main(int argc, char **argv)
{
    return host_main(argc, argv, "classify", build, run);
}
