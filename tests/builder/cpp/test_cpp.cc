// SPDX-License-Identifier: MIT
// Kernels in C++: their texts are those of C; errors have places; two operands that emit are
// refused.
#include "fixture.hpp"
#include "in_c.h"

static void operators(ptx::builder &b)
{
    b.entry("k", { 64, 2 }, [&] {
        ptx::value n = b.param<uint32_t>("n"), s = b.param<int>("s"), x = b.param<float>("x");
        ptx::value i = ptx::mad(b.ctaid(), b.ntid(), b.tid());
        ptx::value j = b.ctaid(PTX_Y) * b.ntid(PTX_Y) + b.tid(PTX_Y);
        ptx::value k = (i + j) * (n - 1) + 4;
        ptx::value bits = ((k & 15) | i << 2) ^ j >> 3, rest = k / 3 % n, rev = ~(7 - n);
        ptx::value y = -(x * x) / (x + 0.5);
        ptx::value any = (x < y & n >= 3) | x != x | s != -1;
        ptx::value odd = !(y == 2) ^ (x > y ^ 1 <= x);
    });
}

static void assignments(ptx::builder &b)
{
    b.entry("k", {}, [&] {
        ptx::value x = b.param<float>("x"), n = b.param<uint64_t>("n");
        ptx::variable v = b.var(1.0f), w = b.var(x * x), u = b.var(uint64_t(3));
        v += x * 2;
        v *= w;
        w = v;
        w = 5;
        ptx::value before = w;
        w = before / x - w;
        u <<= 4;
        u %= n;
    });
}

static void memory(ptx::builder &b)
{
    b.entry("k", { 32 }, [&] {
        ptx::pointer p = b.param_ptr<float>("p"), q = b.param_ptr<uint32_t>("q");
        ptx::pointer s = b.shared<float>(64), l = b.local<int32_t>(2);
        ptx::value i = b.global_index();
        p[i] = p[i] + s[i + 1];
        s[0] = p[3];
        l[1] = -4;
        p[i + 2] *= ptx::cast<float>(q[i]);
        ptx::value x = p[q[0]];
        p.at(i)[7] = ptx::select(x < 0, 0, x);
        q.atomic(PTX_ATOMIC_add, i, 1);
        ptx_load_params streaming = {};
        streaming.cache = PTX_CACHE_STREAMING;
        ptx::value again = p.load(i, streaming);
        ptx_store_params stored = {};
        stored.cache = PTX_CACHE_STREAMING;
        p.store(i, x, stored);
        s.as(PTX_U32)[i] = ptx::bitcast<uint32_t>(x);
    });
}

static void blocks(ptx::builder &b)
{
    b.entry("k", { 32 }, [&] {
        ptx::value n = b.param<uint32_t>("n");
        ptx::variable sum = b.var(0u);
        b.for_(b.tid(), n, 32, [&](ptx::value i) {
            b.continue_if(i == 5);
            sum += i;
        });
        b.for_down(n * 2, 1, 3, [&](ptx::value i) { b.break_if(i > sum); });
        b.grid_stride(n, [&](ptx::value i) { sum ^= i; });
        b.if_(sum < 3, [&] { sum = 1; }).else_if(sum % 4 == 2, [&] { sum = 2; }).else_([&] {
            sum = 3;
        });
        b.while_(sum < n, [&] { sum *= 2; });
        b.loop([&] {
            sum -= 1;
            b.break_if(sum < 9);
            b.if_(sum == 77, [&] { b.continue_(); });
        });
        b.return_if(sum == n);
        b.inlined("tripled", [&] { sum *= 3; });
        sum = b.inlined("squared", [&] { return n * n; }) + 1;
        ptx_if (b, n < 100) // the macros of C take expressions
            ptx_trap(b);
    });
}

// A caller's function over expressions: its arguments emit nothing.
static ptx::value less(ptx::expr x, ptx::expr y)
{
    return std::move(x) - std::move(y);
}

static void helpers(ptx::builder &b)
{
    b.entry("k", {}, [&] {
        ptx::pointer p = b.shared<uint32_t>(4);
        ptx::value n = b.param<uint32_t>("n"), m = b.param<uint32_t>("m");
        p[0] = less(n * 3, m + 5);
        p[1] = less(less(n ^ 1, m ^ 2), 7);
        p[2] = less(p[3], n);
    });
}

static void functions(ptx::builder &b)
{
    b.entry("k", {}, [&] {
        ptx::value x = b.param<float>("x"), i = b.param<int>("i");
        ptx::value y = ptx::fma(ptx::abs(x), ptx::max(x, 1), ptx::sqrt(ptx::rcp(x)));
        ptx::value least = ptx::min(ptx::cast<float>(i), ptx::cast<float>(ptx::cast<double>(y)));
        ptx::value number = ptx::select(ptx::is_nan(y), x, ptx::bitcast<float>(i));
        ptx_cvt_params nearest = {};
        nearest.round = PTX_ROUND_RN;
        ptx::value rounded = ptx::cast<int>(y, nearest);
        ptx::value wide = ptx::mad_wide(i, i, ptx::mul_wide(i, 3));
        ptx::value moved = b.use(ptx_shfl_down(b, x + y, 1));
    });
}

// ---- errors -------------------------------------------------------------------------------------

template <class Body> static void expect_error(int line, const char *words, Body body)
{
    ptx::builder b;
    const std::string place = std::string(__FILE__) + ":" + std::to_string(line) + ": ";

    try {
        body(b);
        fail("no error, \"" + std::string(words) + "\":\n" + b.finish());
    } catch (const ptx::error &e) {
        if (std::string(e.what()).compare(0, place.size(), place) || !std::strstr(e.what(), words))
            fail("not \"" + place + "..." + words + "\": " + e.what());
        if (e.status() != PTX_ERROR_INVALID || std::strcmp(e.what(), b.error()))
            fail("another status or message: " + std::string(b.error()));
    }
}
#define REFUSED(words, ...)                                                                        \
    expect_error(__LINE__, words, [](ptx::builder &b) {                                            \
        b.entry("k", { 64 }, [&] {                                                                 \
            ptx::value u = b.tid(), f = ptx::cast<float>(u);                                       \
            ptx::variable v = b.var(1.0f);                                                         \
            ptx::pointer p = b.shared<float>(4);                                                   \
            (void)u, (void)f, (void)v, (void)p;                                                    \
            __VA_ARGS__;                                                                           \
        });                                                                                        \
    })

// A function that emits, as a user has them.
static ptx::value twice(const ptx::value &x)
{
    return x * 2;
}

static void errors()
{
    REFUSED("ptx_add: x is u32 and y is f32", ptx::value x = u + f);
    REFUSED("ptx_mul: x is u32 and y is f32", ptx::value x = 1 + (u + u * f));
    REFUSED("y is the number -1, which u32 cannot hold", ptx::value x = u - -1);
    REFUSED("y is the number 0.5, which u32 cannot hold", ptx::value x = u * 0.5);
    REFUSED("ptx_set: the variable is f32 and the value u32", v = u);
    REFUSED("ptx_sub: x is f32 and y is u32", v -= u);
    REFUSED("ptx_store: the value is u32", p[u] = u);
    REFUSED("ptx_add: x is f32 and y is u32", p[u] += u);
    REFUSED("ptx_load: the index is f32", ptx::value x = p[f]);
    REFUSED("ptx_select: the condition is u32", ptx::value x = ptx::select(u, f, f));
    REFUSED("ptx_cvt: there is no conversion", ptx::value x = ptx::cast(PTX_PRED, u));
    REFUSED("ptx_if: the condition is u32", b.if_(u, [] {}));
    REFUSED("ptx_else_if: the condition is f32", b.if_(u < 1, [] {}).else_if(f, [] {}));
    REFUSED("ptx_for: lo, hi and step are u32, f32", b.for_(u, f, u, [](ptx::value) {}));
    REFUSED("ptx_for_down: the step must be above", b.for_down(u, 0, 0, [](ptx::value) {}));
    REFUSED("ptx_grid_stride: n is f32", b.grid_stride(f, [](ptx::value) {}));
    REFUSED("ptx_while: the condition is u32", b.while_(u + 1, [] {}));
    REFUSED("ptx_break: there is no loop", b.break_());
    REFUSED("ptx_continue_if: there is no loop", b.continue_if(u < 3));
    REFUSED("ptx_barrier: barrier 1", b.if_(u < 3, [&] { b.barrier(); }));
    REFUSED("ptx_local: the array has no elements", b.local<float>(0));
    REFUSED("ptx_param: parameter 'n' is never used", b.param<float>("n"));
    REFUSED("ptx_tid: 3 is not an axis", ptx::value x = b.tid(static_cast<ptx_axis>(3)));
    REFUSED("x was never set", ptx::value none; ptx::value x = none + u);
    REFUSED("belongs to another builder", ptx::builder o; ptx::value y;
            o.entry("k", {}, [&] { y = o.tid(); }); ptx::value x = u + y);
    // An operand has a place of its own; after it, the call's is the same again.
    REFUSED("ptx_printf: value 1", ptx_val x; ptx_printf_emit(b, "%f", &(x = u + 1), 1));
    REFUSED("was made inside a block that is closed", ptx::value y; b.loop([&] { y = u + 1; });
            ptx::value x = y + 1);
}

// C++ does not order the calls, so the text would depend on the compiler.
static void operands_that_emit()
{
    REFUSED("2 operands of one expression have emitted before", ptx::value x = twice(u) + twice(f));
    REFUSED("2 operands of one", ptx::value x = (twice(u) + 1) * (u - twice(u)));
    REFUSED("3 operands of one", ptx::value x = ptx::fma(twice(f), twice(f), twice(f)));
    REFUSED("2 operands of one", ptx::value x = twice(f) + ptx_neg(b, f));
    REFUSED("2 operands of one", ptx::value x = p.at(u)[0] + p.at(u)[1]);
    REFUSED("2 operands of one", b.for_(twice(u), twice(u), 1, [](ptx::value) {}));
    REFUSED("2 operands of one", v += twice(f) * twice(f));
    REFUSED("2 operands of one", less(twice(u), twice(u)));
    REFUSED("the value is an expression of numbers alone", p[0] = ptx::max(3, 4));
    REFUSED("is an expression of numbers alone", ptx::value x = ptx::max(3, 4); p[0] = x);
    REFUSED("was never set", auto e = u * 2; ptx::value x = std::move(e) + std::move(e));
    REFUSED("was never set", auto e = u * 2; u = std::move(e); u = std::move(e); u = u + u);
    REFUSED("2 operands of one", p.store(twice(u), twice(f), ptx_store_params()));
    ptx::builder b;
    b.entry("k", { 64 }, [&] {
        ptx::value u = b.tid(), named = twice(u);
        ptx::value x = named + twice(u) * named; // one is in order
        x = twice(twice(x + 1)) - u;
    });
    if (!b.finish())
        fail(b.error());
}

// ---- objects ------------------------------------------------------------------------------------

static void builders_move()
{
    ptx::builder b(ptx_target { 90, 0 });
    ptx::builder moved = std::move(b);

    moved.entry("k", {}, [&] { ptx::value x = moved.tid() + 1; });
    if (b.get() || !std::strstr(moved.finish(), ".target sm_90"))
        fail("a builder that was moved");
    b = std::move(moved);
    if (moved.get() || !b.get() || b.error())
        fail("a builder that was moved back");
    ptx_builder *released = b.release();
    if (b.get() || !released)
        fail("a builder that was released");
    ptx_builder_destroy(&released);
}

// A builder that was moved from or released, in any call, is named as that.
static void empty_builders()
{
    using use = void (*)(ptx::builder &);
    const use uses[] = {
        [](ptx::builder &b) { b.finish(); },
        [](ptx::builder &b) { b.entry("k", {}, [] {}); },
        [](ptx::builder &b) { b.param<float>("x"); },
        [](ptx::builder &b) { b.shared<float>(4); },
        [](ptx::builder &b) { ptx::value x = b.tid(); },
        [](ptx::builder &b) { b.var(1); },
        [](ptx::builder &b) { b.if_(b.tid() < 1, [] {}); },
        [](ptx::builder &b) { b.loop([] {}); },
        [](ptx::builder &b) { b.grid_stride(4, [](ptx::value) {}); },
        [](ptx::builder &b) { b.barrier(); },
        [](ptx::builder &b) { ptx_barrier(b); },
        [](ptx::builder &b) { ptx_if (b, ptx_bool(true)) ptx_barrier(b); },
        [](ptx::builder &b) { throw ptx::error(PTX_ERROR_INVALID, b.error()); },
    };

    for (int released = 0; released < 2; released++) {
        ptx::builder b, taken;
        ptx_builder *owned = released ? b.release() : nullptr;
        if (!released)
            taken = std::move(b);
        ptx_builder_destroy(&owned);
        for (const use &each : uses) {
            try {
                each(b);
                fail("a use of an empty builder");
            } catch (const ptx::error &e) {
                if (e.status() != PTX_ERROR_INVALID || !std::strstr(e.what(), "it was moved from"))
                    fail(std::string("of an empty builder: ") + e.what());
            }
        }
    }
}

// What leaves a body is not lost, and what it left open is an error that says so.
static void exceptions_leave_bodies()
{
    using leave = void (*)(ptx::builder &, const ptx::value &);
    const struct {
        const char *name;
        leave body;
    } cases[] = {
        { "entry()", [](ptx::builder &, const ptx::value &) { throw 7; } },
        { "if_()", [](ptx::builder &b, const ptx::value &x) { b.if_(x < 1, [] { throw 7; }); } },
        { "else_if()",
          [](ptx::builder &b, const ptx::value &x) {
              b.if_(x < 1, [] {}).else_if(x < 2, [] { throw 7; });
          } },
        { "else_()", [](ptx::builder &b,
                        const ptx::value &x) { b.if_(x < 1, [] {}).else_([] { throw 7; }); } },
        { "for_()", [](ptx::builder &b,
                       const ptx::value &x) { b.for_(0, x, 1, [](ptx::value) { throw 7; }); } },
        { "for_down()",
          [](ptx::builder &b, const ptx::value &x) {
              b.for_down(x, 0, 1, [](ptx::value) { throw 7; });
          } },
        { "grid_stride()",
          [](ptx::builder &b, const ptx::value &x) {
              b.grid_stride(x, [](ptx::value) { throw 7; });
          } },
        { "while_()",
          [](ptx::builder &b, const ptx::value &x) { b.while_(x < 1, [] { throw 7; }); } },
        { "loop()", [](ptx::builder &b, const ptx::value &) { b.loop([] { throw 7; }); } },
        { "inlined()",
          [](ptx::builder &b, const ptx::value &) { b.inlined("f", [] { throw 7; }); } },
    };

    for (const auto &each : cases) {
        ptx::builder b;
        const std::string words = std::string("k: an exception left the body of ") + each.name;
        bool caught = false;
        try {
            b.entry("k", { 64 }, [&] { each.body(b, b.tid()); });
        } catch (int thrown) {
            caught = thrown == 7;
        }
        try {
            b.entry("l", { 64 }, [] {});
            b.finish();
            fail("no error: " + words);
        } catch (const ptx::error &e) {
            if (!caught || !std::strstr(e.what(), words.c_str()) ||
                !std::strstr(e.what(), __FILE__))
                fail("not \"" + words + "\": " + e.what());
        }
    }
}

static ptx_val thrown()
{
    throw 7;
}

static ptx_fragment thrown_fragment()
{
    throw 7;
}

static ptx_ptr thrown_ptr()
{
    throw 7;
}

// An operand of a macro that throws leaves no place behind. The operands before it stay, some words
// for each exception, and later calls have their own.
static void operands_throw()
{
    using call = void (*)(ptx_builder *, ptx_val, ptx_ptr);
    static const call calls[] = {
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_add(b, x, thrown()); },
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_fma(b, x, x, thrown()); },
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_bfi(b, x, x, thrown(), x); },
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_set(b, x, thrown()); },
        [](ptx_builder *b, ptx_val x, ptx_ptr) {
            ptx_add(b, x, ptx_add(b, x, ptx_bitcast(b, PTX_F32, thrown())));
        },
        [](ptx_builder *b, ptx_val, ptx_ptr) { ptx_assume_warp_uniform(b, thrown()); },
        [](ptx_builder *b, ptx_val, ptx_ptr p) { ptx_at(b, p, thrown()); },
        [](ptx_builder *b, ptx_val, ptx_ptr p) { ptx_load(b, ptx_at(b, p, 1), thrown()); },
        [](ptx_builder *b, ptx_val, ptx_ptr) { ptx_load(b, thrown_ptr(), 0); },
        [](ptx_builder *b, ptx_val x, ptx_ptr p) { ptx_store(b, p, x, thrown()); },
        [](ptx_builder *b, ptx_val x, ptx_ptr p) { ptx_atomic_add(b, p, x, thrown()); },
        [](ptx_builder *b, ptx_val x, ptx_ptr p) { ptx_atomic_cas(b, p, x, 1, thrown()); },
        [](ptx_builder *b, ptx_val, ptx_ptr p) { ptx_fragment_store(b, thrown_fragment(), p, 8); },
        [](ptx_builder *b, ptx_val, ptx_ptr p) {
            ptx_fragment_store(b, ptx_fragment(), p, thrown());
        },
        [](ptx_builder *b, ptx_val, ptx_ptr) {
            ptx_fragment_set(b, ptx_fragment(), thrown_fragment());
        },
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_printf(b, "%u %u", x, thrown()); },
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_call(b, "f", x, thrown()); },
        [](ptx_builder *b, ptx_val, ptx_ptr) { ptx_branch_if(b, thrown(), ptx_label()); },
        [](ptx_builder *b, ptx_val, ptx_ptr) { ptx_if (b, thrown()) {} },
        [](ptx_builder *b, ptx_val x, ptx_ptr) { ptx_for (b, i, x, thrown(), 1) {} },
    };

    for (const call &each : calls) {
        ptx::builder b;
        const std::string line = std::to_string(&each - calls);
        int caught = 0;
        ptx_val known = {};
        size_t held = 0, holds = 0;
        b.entry("k", { 64 }, [&] {
            const ptx_val x = ptx_var(b, ptx_u32(1));
            const ptx_ptr p = ptx_shared(b, PTX_F32, 64);
            ptx_store(b, p, 0, 1.0);
            for (unsigned k = 0; k < 300; k++) {
                try {
                    each(b, x, p);
                } catch (int) {
                    caught++;
                }
                holds = ptx_builder_get_info(b).peak_bytes;
                held = held ? held : holds;
            }
            known = ptx_add(b, ptx_u32(40), 2);
            // A function has no place of its own: none is left for it.
            (ptx_builder_fail)(b, "no place");
        });
        const std::string error = b.error();
        if (caught != 300)
            fail("operand " + line + " did not throw");
        if (error.rfind("k: no place", 0) != 0)
            fail("operand " + line + ": " + error);
        if (known.kind == PTX_KIND_POISON)
            fail("operand " + line + ": a later call lacks its operands");
        if (holds - held > 300 * 512)
            fail("operand " + line + " leaves " + std::to_string(holds - held) + " bytes");
    }
}

// inlined() gives back what the body returns, of any type; an expression is emitted in the block.
static void inlined_results()
{
    ptx_builder_params params = {};
    params.line_info = true;
    ptx::builder b(params);
    b.entry("k", { 64 }, [&] {
        ptx::pointer p = b.param_ptr<float>("p");
        const std::string word = b.inlined("none", [] { return std::string("kept"); });
        ptx::variable sum = b.inlined("sum", [&] { return b.var(2.0f); });
        ptx::variable &same = b.inlined("same", [&]() -> ptx::variable & { return sum; });
        const ptx::pointer second = b.inlined("second", [&] { return p.at(1); });
        same = b.inlined("first", [&] { return second[0]; });
        p[3] = sum;
        if (word != "kept" || &same != &sum)
            fail("inlined() loses results");
    });
    const std::string text = b.finish();
    const size_t load = text.find("ld.global.f32"), place = text.rfind(".loc", load);
    if (load == std::string::npos || text.substr(place, text.find('\n', place) - place)
                                             .find("inlined_at") == std::string::npos)
        fail("an expression that inlined() returns is emitted outside of it:\n" + text);
}

int main()
{
    expect_text("operators", operators_in_c, operators);
    expect_text("assignments", assignments_in_c, assignments);
    expect_text("memory", memory_in_c, memory);
    expect_text("blocks", blocks_in_c, blocks);
    expect_text("helpers", helpers_in_c, helpers);
    expect_text("functions", functions_in_c, functions);
    errors();
    operands_that_emit();
    builders_move();
    empty_builders();
    exceptions_leave_bodies();
    operands_throw();
    inlined_results();
    return failures != 0;
}
