// SPDX-License-Identifier: MIT
// The calls of the builder as methods and functions of C++: their texts are those of C, and so is
// that of examples/classify_cpp.cc; errors are at the caller's line.
#define main classify_main
#include "../../../examples/classify_cpp.cc"
#undef main

#include "fixture.hpp"
#include "in_c.h"

static void module_calls(ptx::builder &b)
{
    const int primes[] = { 2, 3, 5, 7 };
    ptx_data_params params = {};
    params.name = "few";
    params.values = primes;
    params.bytes = 8;
    params.count = 9;
    params.align = 64;
    ptx::pointer table = b.const_("primes", primes), more = b.global("more", { 2, 3, 5, 7 });
    ptx::pointer few = b.global(PTX_S32, params), hits = b.global<uint64_t>("hits", 3);

    b.asm_module(".global .align 4 .u32 counter;", { "counter" });
    ptx::function sum = b.func<int>("sum", [&] {
        ptx::value x = b.param<int>("x"), y = b.param<int>("y");
        b.if_(x < 0, [&] { b.return_value(y); });
        return x + y;
    });
    ptx::function hit = b.func("hit", [&] { hits.atomic(PTX_ATOMIC_add, 1, 1); });
    b.entry("k", { 32 }, [&] {
        ptx::pointer to = b.param_ptr<int>("to"), scale = b.param_array<int>("scale", 2);
        ptx::pointer shared = b.shared_dynamic<uint32_t>(), own = b.local(PTX_BF16, 4);
        ptx::value tid = b.tid();
        b.comment("sums of 100%");
        ptx::value x = sum(table[1], scale[1] * 3);
        ptx::value y = b.call("sum", x, -4);
        hit();
        to[0] = y + more[few[2]];
        own[1] = ptx::bitcast(PTX_BF16, b.use(ptx_u16(7)));
        ptx::pointer word = b.string("all");
        b.printf("%d of %s at %p\n", y + 1, word.generic(), shared.generic());
        b.printf("no values\n");
        b.assert_(tid < 32, "tid < 32");
        ptx_message_params message = {};
        message.text = "tid < 33";
        message.file = "a.c";
        message.line = 3;
        b.assert_(tid < 33, message);
        b.if_(tid > 40, [&] { b.trap_message("never"); });
        ptx::variable one = b.var(1u);
        b.asm_(ptx::text("add.u32 %0, %0, %1;").inout(one).in(tid).pure());
        auto [lane, found] = b.asm_many<2>(ptx::text("shfl.sync.idx.b32 %0|%1, %2, 0, 31, "
                                                     "0xffffffff;")
                                               .result(PTX_B32)
                                               .result(PTX_PRED)
                                               .in(one)
                                               .reads(PTX_MEMORY_NONE)
                                               .writes(PTX_MEMORY_NONE)
                                               .convergence(PTX_CONVERGENCE_WARP)
                                               .divergence(PTX_DIVERGENCE_WARPS));
        (void)found;
        b.asm_(ptx::text("st.shared.u32 [%1], %0;")
                   .in(lane)
                   .at(shared.at(tid))
                   .isa(60)
                   .sm(70)
                   .reads(PTX_MEMORY_NONE)
                   .writes(PTX_MEMORY_SHARED));
        b.asm_ptr<uint32_t>(PTX_SPACE_GLOBAL, "counter").atomic(PTX_ATOMIC_add, 0, 1);
    });
}

static void threads(ptx::builder &b)
{
    b.entry("k", { 64 }, [&] {
        ptx::value x = b.param<uint32_t>("x"), f = b.param<float>("f");
        ptx::value t = b.laneid() + (b.warpid() + b.ntid(PTX_Y));
        ptx::value cluster = b.cluster_ctarank() + b.clusterid();
        ptx::value times = b.clock64() + b.globaltimer();
        ptx::value lanes = ptx::shfl_up(t, 1) + ptx::shfl_idx(t, 3);
        ptx::value near = ptx::shfl_down(f, 1) + ptx::shfl_bfly(f * 2, 1);
        ptx_shfl_params half = {};
        half.width = 16;
        b.shfl(PTX_SHFL_DOWN, t, 1, half);
        ptx::value odd = (x & 1) == 1;
        ptx::value votes = ptx::vote_all(odd) & ptx::vote_any(odd), same = ptx::vote_uniform(odd);
        ptx::value voters = ptx::popc(ptx::ballot(!odd));
        ptx::value matches = ptx::match_any(t, ptx_u32(15)) + ptx::match_all(t);
        ptx::value reduced = ptx::redux_add(t) + ptx::redux_max(t);
        ptx::value all = b.barrier_all(odd), any = b.barrier_any(!odd);
        ptx::value count = b.barrier_count(all ^ any);
        b.barrier_named(3, 64);
        b.barrier_warp(ptx_full_warp());
        b.assume_warp_uniform(f);
        ptx::value active = b.activemask();
        b.fence(PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
        b.nanosleep(count + 100);
        b.griddepcontrol_wait();
        b.griddepcontrol_launch_dependents();
        ptx_label end = b.label_create("end");
        b.branch_if(count > 3, end);
        ptx_label next = b.label_create("next");
        b.branch(next);
        b.label_place(next);
        b.label_place(end);
        b.if_(f > 9, [&] { b.trap(); });
    });
}

static void accesses(ptx::builder &b)
{
    b.entry("k", { 32 }, [&] {
        ptx::pointer p = b.param_ptr<float>("p"), q = b.param_ptr<uint32_t>("q");
        ptx::value i = b.tid();
        ptx_load_vec_params streaming = {};
        streaming.cache = PTX_CACHE_STREAMING;
        ptx::vec four = p.load_vec(i * 4, 4, streaming);
        ptx::value sum = four[0] + four[3];
        p.store_vec(i * 4, four);
        ptx_store_vec_params stored = {};
        stored.cache = PTX_CACHE_STREAMING;
        p.store_vec(i * 2, { sum * 2, 1 }, stored);
        ptx_atomic_params acquire = {};
        acquire.order = PTX_ORDER_ACQUIRE;
        acquire.scope = PTX_SCOPE_SYSTEM;
        q.atomic(PTX_ATOMIC_max, i + 1, 7, acquire);
        q.atomic_cas(0, ptx_u32(1), i + 2);
        ptx::pointer there = b.ptr_from<double>(PTX_SPACE_GLOBAL, p.address() + 16);
        there[0] = ptx::cast<double>(sum);
        ptx::vec halves = b.unpack(PTX_F16, b.cvt_pack(PTX_F16X2, sum, sum * 3));
        ptx::value again = b.pack(PTX_F16X2, { halves[1], halves[0] });
        q[5] = ptx::bitcast<uint32_t>(again);
        ptx_op_params zero = {};
        zero.round = PTX_ROUND_RZ;
        p[6] = b.op(PTX_OP_add, { sum, ptx_f32(1) }, zero);
        ptx::value k = q[i];
        q[7] = ptx::lop3(k, i, ptx::shf_l(k, i, 3), 0x96);
        q[8] = ptx::bfi(k, i, 4, 8);
        p[9] = ptx::math_pow(sum, ptx::math_exp(-sum));
        p[10] = ptx::tanh(ptx::rsqrt_approx(ptx::div_full(sum, 3)));
    });
}

static void matrices(ptx::builder &b)
{
    b.entry("k", { 32 }, [&] {
        ptx::pointer from = b.param_ptr(PTX_BF16, "from"), to = b.param_ptr<float>("to");
        ptx::pointer tile = b.shared(PTX_BF16, 1024);
        ptx::value lane = b.laneid();
        ptx_cp_async_params bypass = {};
        bypass.bypass = true;
        b.cp_async(tile.at(lane * 8), from, 16, bypass);
        b.cp_async_commit();
        b.cp_async_wait(0);
        b.cp_async_wait_all();
        b.barrier();
        ptx::fragment_variable sum = b.var(b.fragment_fill(0.0f));
        b.for_(0, ptx_u32(64), 16, [&](ptx::value i) {
            ptx::fragment x = b.fragment_load(PTX_FRAGMENT_A, PTX_BF16, 16, tile, 16);
            ptx::fragment y =
                b.fragment_load(PTX_FRAGMENT_B, PTX_BF16, 16, tile.at(i), ptx_u32(64), true);
            sum = ptx::mma(x, y, sum);
        });
        sum.store(to, 8);
        ptx::vec words = b.ldmatrix(tile.at(lane * 8), 4, true);
        ptx::fragment x = b.fragment_from(PTX_FRAGMENT_A, PTX_BF16, 16, words);
        ptx::vec again = x.fragment_words();
        b.stmatrix(tile.at(lane * 8), again);
        ptx::matrix down = b.matrix_from(PTX_FRAGMENT_A, PTX_BF16, 16, tile, 16);
        ptx::matrix across = b.matrix_from(PTX_FRAGMENT_B, PTX_BF16, 16, tile, 16, true);
        x = down.at(b.ctaid() * 8).load(0, 0);
        auto y = across.load<2>(0, 0);
        ptx::fragment s[2];
        for (int k = 0; k < 2; k++)
            s[k] = ptx::mma(x, y[k], sum);
        ptx::mma(ptx::fragment_to_a(PTX_BF16, s[0], s[1]), y[1], sum).store(to, 8);
        x = ptx::fragment_to_a(PTX_BF16, s[0]);
        ptx::matrix eights = b.matrix_from(PTX_FRAGMENT_B, PTX_BF16, 8, tile, 16);
        ptx::mma(x, eights.load(0, 0), sum).store(to, 8);
        ptx::matrix result = b.matrix_from(PTX_FRAGMENT_C, PTX_F32, 0, tile, 16);
        result.store(0, 0, std::array<ptx::fragment, 2> { s[0], s[1] });
        result.store(16, 8, s[1]);
    });
}

static void results(ptx::builder &b)
{
    ptx_func_params divide = {};
    divide.name = "divide";
    divide.results[0] = divide.results[1] = PTX_U32;
    b.func(divide, [&] {
        ptx::value x = b.param<uint32_t>("x"), y = b.param<uint32_t>("y");
        ptx::value quotient = x / y, rest = x % y;
        b.return_values(quotient, rest);
    });
    b.entry("k", { 64 }, [&] {
        ptx::pointer p = b.param_ptr<uint32_t>("p"), q = b.param_ptr<float>("q");
        ptx::value tid = b.tid();
        p.prefetch(tid + 1, PTX_PREFETCH_L2);
        ptx::vec d = b.call_many("divide", tid, 10);
        p[tid] = d[0] + d[1];
        ptx::value x = q[tid];
        ptx::vec old = q.atomic_vec(PTX_ATOMIC_add, 4, { x, 1 });
        q[0] = old[1];
        b.barrier_arrive(1, 64);
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
    }
}
#define REFUSED(words, ...)                                                                        \
    expect_error(__LINE__, words, [](ptx::builder &b) {                                            \
        ptx::function twice = b.func<float>("twice", [&] { return b.param<float>("x") * 2; });     \
        b.entry("k", { 64 }, [&] {                                                                 \
            ptx::value u = b.tid(), f = ptx::cast<float>(u);                                       \
            ptx::pointer p = b.shared<float>(4);                                                   \
            ptx::fragment c = b.fragment_fill(0.0f);                                               \
            (void)u, (void)f, (void)p, (void)c, (void)twice;                                       \
            __VA_ARGS__;                                                                           \
        });                                                                                        \
    })

static void errors()
{
    REFUSED("ptx_call", ptx::value x = twice(u));
    REFUSED("ptx_call", ptx::value x = twice(f, f));
    REFUSED("ptx_call", ptx::value x = twice());
    REFUSED("ptx_call", b.call("thrice", f));
    REFUSED("2 operands of one", b.call("twice", twice(f), twice(f)));
    REFUSED("ptx_printf", b.printf("%d\n", f));
    REFUSED("ptx_printf", b.printf("%d %d\n", u));
    REFUSED("2 operands of one", b.printf("%f %f\n", twice(f), twice(f)));
    REFUSED("ptx_assert", b.assert_(u, "u"));
    REFUSED("ptx_trap_message", b.trap_message(nullptr));
    REFUSED("ptx_const", b.const_("a", std::vector<float>()));
    REFUSED("ptx_const", b.const_<float>(nullptr, { 1 }));
    REFUSED("ptx_global", b.global<float>("g", 0));
    REFUSED("ptx_shared_dynamic", b.shared_dynamic(PTX_PRED));
    REFUSED("ptx_param_array", b.param_array<float>("w", 0));
    REFUSED("ptx_string", b.string(nullptr));
    REFUSED("ptx_asm", b.asm_(ptx::text("nothing")));
    REFUSED("an input of the text was never set", ptx::value no;
            b.asm_(ptx::text("mov.u32 %0, %1;").result<int>().in(no, u)));
    REFUSED("more operands than ptx_asm() takes", ptx::text t("mov.u32 %0, %1;");
            for (int k = 0; k < 40; k++) std::move(t).in(u); b.asm_(std::move(t)));
    REFUSED("the text was used before", ptx::text t("membar.gl;"); b.asm_(std::move(t));
            b.asm_(std::move(t)));
    REFUSED("another number of results",
            b.asm_many<2>(ptx::text("mov.u32 %0, 1;").result(PTX_U32)));
    REFUSED("an address of the text is no pointer",
            b.asm_(ptx::text("ld.global.u32 %0, [%1];").result(PTX_U32).at(ptx::pointer())));
    REFUSED("at most 16 names",
            b.asm_module(".global .u32 a;", { "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a",
                                              "a", "a", "a", "a", "a", "a" }));
    REFUSED("ptx_asm_ptr", b.asm_ptr<float>(PTX_SPACE_GLOBAL, "nowhere"));
    REFUSED("ptx_mma", ptx::mma(c, c, c));
    REFUSED("ptx_mma", ptx::mma(ptx::fragment(), ptx::fragment(), c));
    REFUSED("ptx_fragment_fill", b.fragment_fill(u));
    REFUSED("ptx_fragment_load", b.fragment_load(PTX_FRAGMENT_A, PTX_F16, 16, p, 16));
    REFUSED("ptx_matrix_from", b.matrix_from(PTX_FRAGMENT_A, PTX_F16, 16, p, 16));
    REFUSED("the matrix is empty", ptx::mma(ptx::matrix().at(u).load(0, 0), c, c));
    REFUSED("of fragments A", ptx::pointer h = b.shared(PTX_F16, 256);
            b.matrix_from(PTX_FRAGMENT_A, PTX_F16, 16, h, 16).store(0, 0, c));
    REFUSED("ptx_fragment_to_a", ptx::fragment_to_a(PTX_BF16, c, ptx::fragment()));
    REFUSED("ptx_fragment_set", auto v = b.var(c); v = ptx::fragment());
    REFUSED("2 operands of one", b.cp_async(p.at(u), p.at(u), 4));
    REFUSED("ptx_asm", b.asm_(ptx::text(nullptr)));
    REFUSED("2 operands of one", p.store_vec(ptx::cast<uint32_t>(twice(f)), { twice(f), f }));
    REFUSED("2 operands of one",
            b.asm_(ptx::text("add.f32 %0, %1, %2;").result<float>().in(twice(f), twice(f)).pure()));
    REFUSED("ptx_store_vec", p.store_vec(u, { f, f, f }));
    REFUSED("ptx_load_vec", p.load_vec(u, 3));
    REFUSED("ptx_shfl_down", ptx::value x = ptx::shfl_down(f, f));
    REFUSED("ptx_ballot", ptx::value x = ptx::ballot(u));
    REFUSED("ptx_atomic_cas", p.atomic_cas(0, 1, u));
    REFUSED("at most 4 operands", b.op(PTX_OP_add, { u, u, u, u, u }));
    REFUSED("ptx_barrier_named", b.barrier_named(16, 0));
    REFUSED("ptx_barrier_arrive", b.barrier_arrive(1, 0));
    REFUSED("ptx_return_values", b.return_values(u, f));
    REFUSED("ptx_call", b.call_many("twice", u));
    REFUSED("ptx_atomic_vec", p.atomic_vec(PTX_ATOMIC_add, 0, { f, f }));
    REFUSED("ptx_prefetch", p.prefetch(0, PTX_PREFETCH_L1));
    REFUSED("ptx_branch: the label", b.branch(ptx_label()));
    REFUSED("ptx_pack", b.pack(PTX_U32, { u, u, u, u, u, u, u, u, u }));
    REFUSED("was never set", ptx::value x = p.load_vec(u, 2)[2] + f);
}

// Of the calls of C++, too, each begins without the error of the one before.
static void all_errors()
{
    ptx_builder_params params = {};
    params.all_errors = true;
    ptx::builder b(params);
    unsigned count = 0;

    try {
        b.entry("k", { 32 }, [&] {
            ptx::value u = b.tid(), bad = ptx::sqrt(u), worse = bad * u;
            b.if_(worse > bad, [&] { ptx::value x = u << 1.5; });
        });
        b.finish();
    } catch (const ptx::error &) {
    }
    for (; b.error_at(count); count++)
        if (!std::strstr(b.error_at(count), count ? "ptx_shl" : "ptx_sqrt"))
            fail(b.error_at(count));
    if (count != 2)
        fail("not two errors: " + std::to_string(count));
}

int main()
{
    expect_text("classify", classify_in_c, build);
    expect_text("module", module_in_c, module_calls);
    expect_text("threads", threads_in_c, threads, 90);
    expect_text("accesses", accesses_in_c, accesses);
    expect_text("matrices", matrices_in_c, matrices, 90);
    expect_text("results", results_in_c, results, 90);
    errors();
    all_errors();
    return failures != 0;
}
