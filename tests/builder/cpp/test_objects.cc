// SPDX-License-Identifier: MIT
// The objects of ptxgen.hpp on a device: results, errors, moves. On a GPU, and on the emulator.
#include <ptxgen/ptxgen.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

static int failures;

static void expect(bool right, const char *what)
{
    if (!right) {
        std::fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}
#define EXPECT(...) expect(__VA_ARGS__, #__VA_ARGS__)

template <class Body> static void expect_error(ptx_status status, const char *words, Body body)
{
    try {
        body();
        std::fprintf(stderr, "no error: %s\n", words);
        failures++;
    } catch (const ptx::error &e) {
        if (e.status() == status && std::strstr(e.what(), words))
            return;
        std::fprintf(stderr, "not \"%s\": %s: %s\n", words, ptx_status_name(e.status()), e.what());
        failures++;
    }
}

static ptx::module compiled(const ptx::device &gpu)
{
    ptx::builder b(gpu.target());

    b.entry("axpy", { 64 }, [&] {
        ptx::value n = b.param<uint64_t>("n"), a = b.param<double>("a");
        ptx::pointer x = b.param_ptr<double>("x"), y = b.param_ptr<double>("y");
        b.grid_stride(n, [&](ptx::value i) { y[i] += a * x[i]; });
    });
    return ptx::module(gpu, b.finish());
}

static void kernels(const ptx::device &gpu)
{
    std::vector<double> x(1000), y(1000), result(1000);
    ptx::module module = compiled(gpu), moved = std::move(module);
    ptx_function *axpy = moved.function("axpy");
    ptx::stream stream(gpu);
    ptx::buffer at_x(gpu, x.size() * sizeof x[0]), at_y(gpu, at_x.size());
    const uint64_t n = x.size();

    for (size_t i = 0; i < x.size(); i++)
        x[i] = static_cast<double>(i), y[i] = 1;
    at_x.upload(x.data(), at_x.size(), stream);
    at_y.upload(y.data(), at_y.size(), stream);
    ptx::launch(axpy, ptx::grid(3, stream), n, 0.5, at_x, at_y);
    at_y.download(result.data(), at_y.size(), stream);
    gpu.synchronize(stream);
    for (size_t i = 0; i < x.size(); i++)
        EXPECT(result[i] == 1 + 0.5 * x[i]);
    EXPECT(!module && moved);
    ptx::buffer taken = std::move(at_x);
    EXPECT(!at_x.get() && at_x.address() == 0 && taken.size() == n * sizeof x[0]);
    taken = ptx::buffer(gpu, 8);
    EXPECT(taken.size() == 8);
    expect_error(PTX_ERROR_INVALID, "takes 8 bytes, not 4", [&] {
        ptx::launch(axpy, ptx::grid(1), 3, 0.5, at_y, at_y); // an int for a u64
    });
    expect_error(PTX_ERROR_INVALID, "arguments", [&] { ptx::launch(axpy, ptx::grid(1), n); });
    expect_error(PTX_ERROR_NOT_FOUND, "other", [&] { moved.function("other"); });
    expect_error(PTX_ERROR_JIT, "", [&] { ptx::module(gpu, ".version 7.0\n.target sm_80\nno"); });
    expect_error(PTX_ERROR_INVALID, "", [&] { at_y.upload(x.data(), 1 << 20); });
}

static void plans(const ptx::device &gpu)
{
    const float gradient[2] = { 3, 4 };
    ptx::buffer memory(gpu, sizeof gradient);
    ptx::stream stream(gpu);
    ptx_clip_tensor tensor = {};
    ptx_clip_params params = {};
    float clipped[2];

    tensor.data = memory.address();
    tensor.count = 2;
    tensor.dtype = PTX_F32;
    params.tensors = &tensor;
    params.tensor_count = 1;
    expect_error(PTX_ERROR_INVALID, "max_norm", [&] { ptx::clip_plan(gpu, params); });
    params.max_norm = 1;
    ptx::clip_plan plan(gpu, params), empty;
    memory.upload(gradient, sizeof gradient, stream);
    ptx::check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_RELAXED));
    ptx::check(ptx_clip_plan_run(plan, stream));
    ptx::graph graph(gpu, stream);
    ptx::check(ptx_graph_launch(graph, stream));
    memory.download(clipped, sizeof clipped, stream);
    gpu.synchronize(stream);
    EXPECT(std::fabs(clipped[0] - 0.6f) < 1e-6f && std::fabs(clipped[1] - 0.8f) < 1e-6f);
    empty = std::move(plan);
    EXPECT(empty && !plan);
    expect_error(PTX_ERROR_CAPTURE, "", [&] { ptx::graph(gpu, stream); });
    expect_error(PTX_ERROR_INVALID, "", [&] { ptx::step_plan(gpu, ptx_step_params()); });
    ptx::operations operations(gpu);
    EXPECT(operations);
}

static void parts(const ptx::device &gpu)
{
    ptx::stream one(gpu), two;
    ptx::event event(gpu);
    ptx::host_memory memory(gpu, 64);
    const CUstream handle = one;

    std::memset(memory, 1, 64);
    two = std::move(one);
    EXPECT(two == handle && !one.get());
    ptx::stream three = std::move(two);
    EXPECT(three == handle && !two.get() && event.get());
    gpu.synchronize(three);
    expect_error(PTX_ERROR_INVALID, "", [&] { ptx::host_memory(gpu, 0); });
}

int main()
{
    try {
        ptx::device gpu, other;
        kernels(gpu);
        plans(gpu);
        parts(gpu);
        ptx_device *const opened = gpu;
        other = std::move(gpu);
        EXPECT(other == opened && !gpu);
        ptx_device_params none = {};
        none.ordinal = 1000;
        expect_error(PTX_ERROR_NO_DEVICE, "1000", [&] { ptx::device unknown(none); });
    } catch (const ptx::error &e) {
        const bool absent = e.status() == PTX_ERROR_NO_DRIVER || e.status() == PTX_ERROR_NO_DEVICE;
        std::fprintf(stderr, "%s: %s\n", absent ? "SKIPPED, no GPU" : "FAILED", e.what());
        return absent ? 77 : 1;
    }
    return failures != 0;
}
