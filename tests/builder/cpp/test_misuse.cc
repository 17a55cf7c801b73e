// SPDX-License-Identifier: MIT
// What is empty, was moved from, or outlives its builder: each use is an error that says what is
// wrong. On a GPU, and on the emulator.
#include "fixture.hpp"

#include <memory>
#include <vector>

struct world {
    ptx::device gpu;
    ptx::stream stream { gpu };
    ptx::buffer memory { gpu, 64 };
    ptx::module module;
};

static void load(world &w)
{
    ptx::builder b(w.gpu.target());
    b.entry("k", { 32 }, [&] { b.param_ptr<uint32_t>("p")[0] = 1; });
    w.module = ptx::module(w.gpu, b.finish());
}

// An empty object, which was moved from.
template <class T> static T &moved_from(T &object, std::vector<std::shared_ptr<void>> &kept)
{
    kept.push_back(std::make_shared<T>(std::move(object)));
    return object;
}
#define MOVED(x) moved_from(x, kept)

using kept_objects = std::vector<std::shared_ptr<void>>;
struct misuse {
    int line;
    const char *words;
    void (*use)(world &w, kept_objects &kept);
};
#define MISUSE(words, ...)                                                                         \
    {                                                                                              \
        __LINE__, words, [](world &w, kept_objects &kept) {                                        \
            (void)w, (void)kept;                                                                   \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    }

static ptx_clip_params no_clip()
{
    return ptx_clip_params();
}

// Objects of a device.
static const misuse of_objects[] = {
    MISUSE("the device is empty", ptx::device d; MOVED(d); d.synchronize()),
    MISUSE("the device is empty", ptx::device d; MOVED(d); d.target()),
    MISUSE("the device is empty", ptx::device d; d.reset(); ptx::buffer(d, 4)),
    MISUSE("the device is empty", ptx::device d; MOVED(d); ptx::stream s(d)),
    MISUSE("the device is empty", ptx::device d; MOVED(d); ptx::clip_plan(d, no_clip())),
    MISUSE("the device is empty", ptx::device d; MOVED(d); ptx::operations o(d)),
    MISUSE("the stream is empty", ptx::stream s; s.synchronize()),
    MISUSE("the stream is empty", ptx::stream s(w.gpu); MOVED(s); w.memory.fill(0, 4, s)),
    MISUSE("the stream is empty", ptx::stream s; ptx::grid(1, s)),
    MISUSE("the event is empty", ptx::event e; e.record(w.stream)),
    MISUSE("the event is empty", ptx::event e(w.gpu), f; e.record(w.stream); e.since(f)),
    MISUSE("the event is empty", ptx::event e(w.gpu); MOVED(e); w.stream.wait(e)),
    MISUSE("the host memory is empty", ptx::host_memory m(w.gpu, 4); MOVED(m);
           w.memory.upload(m, 4)),
    MISUSE("the buffer is empty", ptx::buffer m; m.fill(0, 4)),
    MISUSE("the buffer is empty", ptx::buffer m(w.gpu, 4); MOVED(m); m.upload(&w, 4)),
    MISUSE("the buffer is empty", uint32_t x; ptx::buffer m(w.gpu, 4);
           ptx_buffer *taken = m.release(); ptx_buffer_destroy(&taken); m.download(&x, 4)),
    MISUSE("args[0]", ptx::buffer m; ptx::launch(w.module.function("k"), ptx::grid(1), m)),
    MISUSE("args[0]", ptx::buffer m(w.gpu, 4); MOVED(m);
           ptx::launch(w.module.function("k"), ptx::grid(1), m)),
    MISUSE("the module is empty", ptx::module m; m.function("k")),
    MISUSE("the module is empty", MOVED(w.module); w.module.function("k")),
    MISUSE("the module is empty", ptx::module m; m.global("g")),
    MISUSE("the module is empty", ptx::module m; m.log()),
    MISUSE("the graph is empty", ptx::graph g; g.launch(w.stream)),
    MISUSE("the graph is empty", ptx::graph g; ptx_graph_launch(g, w.stream)),
    MISUSE("the operations object is empty", ptx::operations o;
           ptx_operation_prepare(o, PTX_OPERATION_fp8_cast, nullptr)),
    MISUSE("the clip plan is empty", ptx::clip_plan p; p.run(w.stream)),
    MISUSE("the clip plan is empty", ptx::clip_plan p; p.info()),
    MISUSE("the clip plan is empty", ptx::clip_plan p; ptx_clip_plan_run(p, w.stream)),
    MISUSE("the step plan is empty", ptx::step_plan p; p.norm_sq()),
    MISUSE("the step plan is empty", ptx::step_plan p; p.set_hyper(0, ptx_step_hyper())),
    MISUSE("the step plan is empty", ptx::step_plan p; p.error_if_nonfinite()),
    MISUSE("the muon plan is empty", ptx::muon_plan p; p.run(w.stream)),
    MISUSE("the block plan is empty", ptx::block_plan p; p.run(nullptr, 0, w.stream)),
    MISUSE("the rule is empty", ptx::rule r; r.info()),
};

static ptx::value value_of(ptx::builder &b)
{
    ptx::value x;
    b.entry("k", {}, [&] { x = b.tid(); });
    return x;
}

// What belongs to a builder, and outlives it.
static const misuse of_builders[] = {
    MISUSE("the builder is empty", ptx::builder b; MOVED(b); b.finish()),
    MISUSE("the builder is empty", ptx::builder b; MOVED(b); b.func("f", [] {})),
    MISUSE("the builder is empty", ptx::builder b; MOVED(b); b.const_("c", { 1.0f })),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.global<int>("g", 1)),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.printf("x")),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.fragment_fill(0.0f)),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.asm_(ptx::text("membar.gl;"))),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.inlined("f", [] { return 1; })),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.call("f")),
    MISUSE("the builder is empty", ptx::builder b; b.reset(); b.activemask()),
    MISUSE("the function is empty", ptx::function f; f()),
    MISUSE("the function is empty", ptx::builder b; ptx::value x = value_of(b); ptx::function f;
           f(x)),
    MISUSE(
        "builder of this value is gone", ptx::value x; {
            ptx::builder b;
            x = value_of(b);
        } ptx::value y = x + 1),
    MISUSE("builder of this value is gone", ptx::builder b; ptx::value x = value_of(b);
           b = ptx::builder(); ptx::value y = -x),
    MISUSE("builder of this value is gone", ptx::builder b; ptx::value x = value_of(b); b.reset();
           ptx::value y = ptx::shfl_down(x, 1)),
    MISUSE("builder of this value is gone", ptx::builder b; ptx::value x = value_of(b);
           std::unique_ptr<ptx_builder, void (*)(ptx_builder *)> owned(
               b.release(), [](ptx_builder *o) { ptx_builder_destroy(&o); });
           ptx::value y = x * x),
    MISUSE(
        "builder of this value is gone", std::unique_ptr<ptx::variable> v; {
            ptx::builder b;
            b.entry("k", {}, [&] { v.reset(new ptx::variable(b.var(1))); });
        } *v += 1),
    MISUSE(
        "builder of this value is gone", std::unique_ptr<ptx::variable> v; {
            ptx::builder b;
            b.entry("k", {}, [&] { v.reset(new ptx::variable(b.var(1))); });
        } ptx::value x = *v),
    MISUSE(
        "builder of this value is gone", ptx::pointer p; {
            ptx::builder b;
            p = b.global<float>("g", 4);
        } ptx::value x = p[0]),
    MISUSE(
        "builder of this value is gone", ptx::pointer p; {
            ptx::builder b;
            p = b.global<float>("g", 4);
        } p[1] = 3),
    MISUSE(
        "builder of this value is gone", ptx::pointer p; {
            ptx::builder b;
            p = b.global<float>("g", 4);
        } p.atomic(PTX_ATOMIC_add, 0, 1)),
    MISUSE(
        "builder of this value is gone", ptx::pointer p; {
            ptx::builder b;
            p = b.global<float>("g", 4);
        } p.at(1)),
    MISUSE(
        "builder of this value is gone", ptx::pointer p; {
            ptx::builder b;
            p = b.global<float>("g", 4);
        } ptx::value x = p.generic()),
    MISUSE(
        "builder of this value is gone", ptx::function f; {
            ptx::builder b;
            f = b.func("f", [] {});
        } f()),
    MISUSE(
        "builder of this value is gone", ptx::fragment c; {
            ptx::builder b;
            b.entry("k", { 32 }, [&] { c = b.fragment_fill(0.0f); });
        } ptx::mma(c, c, c)),
    MISUSE(
        "builder of this value is gone", ptx::fragment c; {
            ptx::builder b;
            b.entry("k", { 32 }, [&] { c = b.fragment_fill(0.0f); });
        } c.fragment_words()),
    MISUSE(
        "builder of this value is gone", ptx::vec v; {
            ptx::builder b;
            b.entry("k", { 32 }, [&] { v = b.shared<float>(4).load_vec(0, 4); });
        } ptx::value x = v[0] + v[1]),
    MISUSE("the pointer is empty", ptx::pointer p; p[0] = 1),
    MISUSE("the pointer is empty", ptx::pointer p; p[0] = p[1]),
    MISUSE("the pointer is empty", ptx::pointer p; ptx::value x = p[0]),
    MISUSE("the pointer is empty", ptx::pointer p; p[0] += 1),
    MISUSE("the pointer is empty", ptx::pointer p; p.store(0, 1, {})),
    MISUSE("the pointer is empty", ptx::pointer p; p.at(1)),
    MISUSE("the pointer is empty", ptx::pointer p; p.as(PTX_U32)),
    MISUSE("the pointer is empty", ptx::pointer p; p.load_vec(0, 2)),
    MISUSE("the pointer is empty", ptx::pointer p; p.store_vec(0, { 1, 2 })),
    MISUSE("the pointer is empty", ptx::pointer p; p.atomic(PTX_ATOMIC_add, 0, 1)),
    MISUSE("the pointer is empty", ptx::pointer p; p.atomic_cas(0, 1, 2)),
    MISUSE("the pointer is empty", ptx::pointer p; p.atomic_vec(PTX_ATOMIC_add, 0, { 1, 2 })),
    MISUSE("the pointer is empty", ptx::pointer p; p.prefetch(0, PTX_PREFETCH_L2)),
    MISUSE("the pointer is empty", ptx::pointer p; ptx::value x = p.address()),
    MISUSE("the pointer is empty", ptx::pointer p; ptx::value x = p.generic()),
    MISUSE("the pointer is empty", ptx::pointer p; ptx::value x = p.load(0, {})),
    MISUSE("the pointer is empty", ptx::builder b; b.entry("k", {},
                                                           [&] {
                                                               ptx::pointer p;
                                                               p[b.tid()] = 1;
                                                           })),
    MISUSE("the fragment is empty", ptx::builder b;
           b.entry("k", { 32 }, [&] { ptx::fragment().store(b.shared<float>(256), 16); })),
    MISUSE("the fragment is empty", ptx::fragment().fragment_words()),
    MISUSE("the fragment is empty", ptx::fragment none; ptx::mma(none, none, none)),
    MISUSE("the fragment is empty", ptx::fragment none; ptx::fragment_to_a(PTX_F16, none)),
    MISUSE("the matrix is empty", ptx::matrix none; none.at(1)),
    MISUSE("the matrix is empty", ptx::matrix none; none.load(0, 0)),
    MISUSE("the matrix is empty", ptx::matrix none; none.store(0, 0, ptx::fragment())),
    MISUSE("was never set", ptx::builder b;
           b.entry("k", {}, [&] { b.shared<uint32_t>(4)[0] = ptx::value() + 1; }); b.finish()),
    MISUSE("was never set", ptx::builder b;
           b.entry("k", {}, [&] { b.shared<uint32_t>(4)[0] = -ptx::value(); }); b.finish()),
    MISUSE("numbers alone", ptx::builder b;
           b.entry("k", {}, [&] { b.shared<uint32_t>(4)[0] = ptx::expr(1) + 1; }); b.finish()),
    MISUSE("was never set", ptx::builder b;
           b.entry("k", {}, [&] { ptx::value x = b.tid() + ptx::value(); }); b.finish()),
    MISUSE("ptx_load", ptx::builder b; b.entry("k", {}, [&] { ptx_load(b, ptx::pointer(), 0); });
           b.finish()),
    MISUSE("ptx_fragment_words", ptx::builder b;
           b.entry("k", {}, [&] { ptx_fragment_words(b, ptx::fragment()); }); b.finish()),
    MISUSE("ptx_mma", ptx::builder b; b.entry("k", { 32 },
                                              [&] {
                                                  ptx::fragment none, c = b.fragment_fill(0.0f);
                                                  ptx::mma(none, none, c);
                                              });
           b.finish()),
};

template <size_t n> static void try_all(const misuse (&cases)[n], world &w)
{
    for (const misuse &each : cases) {
        const std::string line = "line " + std::to_string(each.line) + ": ";
        kept_objects kept;
        if (!w.module)
            load(w);
        try {
            each.use(w, kept);
            fail(line + "no error, " + each.words);
        } catch (const ptx::error &e) {
            if (e.status() != PTX_ERROR_INVALID || !std::strstr(e.what(), each.words))
                fail(line + "not \"" + each.words + "\": " + e.what());
        }
    }
}

// What is no error: asking, assigning to an empty object, copies of values, the same variable.
static void right_uses(world &w)
{
    ptx::buffer empty, full(w.gpu, 8);
    ptx::step_plan plan;
    if (empty || !full || plan || empty.address() || empty.size() || plan.get())
        fail("an empty object, or one that is not");
    empty = std::move(full);
    empty.fill(1, 8, w.stream);
    w.stream.synchronize();

    ptx::builder b;
    b.entry("k", {}, [&] {
        ptx::value x = b.tid(), y = std::move(x);
        ptx::variable v = b.var(1u), same = std::move(v);
        v += x + y;
        same = v * 2;
        ptx::pointer p = b.shared<uint32_t>(4), q = std::move(p);
        p[0] = q[1];
    });
    ptx::builder moved = std::move(b);
    if (!moved.finish())
        fail("values of a builder that was moved");
    ptx::builder view = ptx::builder::of(moved); // does not own it
    view.reset();
    if (!moved.finish())
        fail("a builder that another object does not own");
}

static void graphs(world &w)
{
    uint32_t x = 0;
    ptx_function *const k = w.module.function("k");
    ptx::graph graph =
        ptx::capture(w.gpu, w.stream, [&] { ptx::launch(k, ptx::grid(1, w.stream), w.memory); });
    graph.launch(w.stream);
    w.memory.download(&x, sizeof x, w.stream);
    w.stream.synchronize();
    if (x != 1)
        fail("a graph");
    try {
        ptx::capture(w.gpu, w.stream, [] { throw 7; });
        fail("an exception of a capture is lost");
    } catch (int) {
        w.stream.synchronize(); // the capture has ended
    }
}

int main()
{
    try {
        world w;
        try_all(of_objects, w);
        try_all(of_builders, w);
        right_uses(w);
        graphs(w);
    } catch (const ptx::error &e) {
        const bool absent = e.status() == PTX_ERROR_NO_DRIVER || e.status() == PTX_ERROR_NO_DEVICE;
        std::fprintf(stderr, "%s: %s\n", absent ? "SKIPPED, no GPU" : "FAILED", e.what());
        return absent ? 77 : 1;
    }
    return failures != 0;
}
