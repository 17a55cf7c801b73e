// SPDX-License-Identifier: MIT
// Softmax of each row of a matrix in place, one block per row, in C++. softmax.c has rows in
// registers.
#include "host.hpp"

#include <cmath>
#include <vector>

enum { BLOCK = 256, WARP = 32, WARPS = BLOCK / WARP, ROWS = 50, COLUMNS = 1000 };

// The pages show the lines from here to the next mark.
using operation = ptx::expr (*)(ptx::expr, ptx::expr);

static ptx::value warp_reduce(operation op, ptx::value x, unsigned lanes)
{
    for (unsigned mask = lanes / 2; mask > 0; mask /= 2)
        x = op(x, ptx::shfl_bfly(x, mask));
    return x;
}

// Reduces x over the block with op; every thread gets the result.
static ptx::value block_reduce(ptx::builder &b, operation op, ptx::value x)
{
    ptx::pointer warps = b.shared<float>(WARPS);
    ptx::value tid = b.tid(), lane = tid % WARP;

    x = warp_reduce(op, x, WARP);
    b.if_(lane == 0, [&] { warps[tid / WARP] = x; });
    b.barrier();
    x = warps[tid % WARPS];
    return warp_reduce(op, x, WARPS);
}

static void build(ptx::builder &b)
{
    b.entry("softmax", { BLOCK }, [&] {
        ptx::pointer rows = b.param_ptr<float>("rows");
        ptx::value columns = b.param<uint32_t>("columns"), tid = b.tid();
        ptx::pointer x = rows.at(ptx::mul_wide(b.ctaid(), columns));

        ptx::variable most = b.var(-INFINITY);
        b.for_(tid, columns, BLOCK, [&](ptx::value i) { most = ptx::max(most, x[i]); });
        ptx::value max = block_reduce(b, ptx::max, most);

        ptx::variable total = b.var(0.0f);
        b.for_(tid, columns, BLOCK, [&](ptx::value i) {
            ptx::value power = ptx::ex2((x[i] - max) * 1.44269504f); // log2(e)
            x[i] = power;
            total += power;
        });
        ptx::value sum = block_reduce(b, ptx::operator+, total);
        b.for_(tid, columns, BLOCK, [&](ptx::value i) { x[i] /= sum; });
    });
}

static void run(ptx::device &gpu, std::vector<float> &x)
{
    ptx::builder b(gpu.target());
    build(b);
    ptx::module module(gpu, b.finish());
    ptx::buffer rows(gpu, x.size() * sizeof(float));
    ptx::stream stream(gpu);

    rows.upload(x.data(), rows.size(), stream);
    const unsigned columns = COLUMNS;
    ptx::launch(module.function("softmax"), ptx::grid(ROWS, stream), rows, columns);
    rows.download(x.data(), rows.size(), stream);
    stream.synchronize();
}
// End of what the pages show.

static bool is_softmax(const std::vector<float> &x, const std::vector<float> &y)
{
    for (size_t start = 0; start < x.size(); start += COLUMNS) {
        double sum = 0;
        for (size_t i = start; i < start + COLUMNS; i++)
            sum += std::exp(x[i]);
        for (size_t i = start; i < start + COLUMNS; i++)
            if (!(std::fabs(y[i] * sum / std::exp(x[i]) - 1) < 1e-5))
                return false;
    }
    return true;
}

static bool check(ptx::device &gpu)
{
    std::vector<float> x(ROWS * COLUMNS);
    uint32_t state = 1;
    for (float &element : x) {
        state = state * 1664525u + 1013904223u;
        element = static_cast<float>(state >> 8) * 0x1p-20f - 8;
    }
    std::vector<float> y = x;
    run(gpu, y);
    return is_softmax(x, y);
}

int main(int argc, char **argv)
{
    return host_main(argc, argv, "softmax", build, check);
}
