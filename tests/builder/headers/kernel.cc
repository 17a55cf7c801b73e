// SPDX-License-Identifier: MIT
// A kernel in C++20 that uses every macro of the headers.
#include <ptxgen/ptxgen.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

static void write_kernel(ptx_builder *b)
{
    ptx_asm_module(b, ".global .align 4 .u32 flips;", .declares = { "flips" });
    ptx_entry (b, "kernel", .block = { 128, 2 }, .min_blocks = 1) {
        ptx_ptr in = ptx_param_ptr(b, PTX_F32, "in", .length = "n", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_val n = ptx_param(b, PTX_U32, "n", .meaning = "elements");
        ptx_val bare = ptx_param(b, PTX_F32, "bare");
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_val sum = ptx_var(b, ptx_f32(0));

        ptx_for (b, i, tid, n, ptx_u32(128)) {
            ptx_val x = ptx_load(b, in, i, .nc = true, .cache = PTX_CACHE_STREAMING);
            ptx_vec two = ptx_load_vec(b, out, ptx_u32(0), 2);
            ptx_store_vec(b, out, ptx_u32(2), two, .cache = PTX_CACHE_STREAMING);
            ptx_set(b, sum, ptx_op(b, PTX_OP_add, .x = sum, .y = x, .round = PTX_ROUND_RZ));
        }
        ptx_grid_stride (b, i, n)
            ptx_store_vec(b, out, i, ptx_vec2(sum, 1));
        ptx_while (b, ptx_lt(b, sum, bare)) {
            ptx_set(b, sum, ptx_add(b, sum, sum));
        }
        ptx_loop (b) {
            ptx_break_if(b, ptx_gt(b, sum, ptx_f32(4)));
            ptx_set(b, sum, ptx_mul(b, sum, ptx_f32(2)));
        }
        ptx_val rounded = ptx_cvt(b, PTX_S32, sum, .round = PTX_ROUND_RN);
        ptx_val moved = ptx_shfl(b, PTX_SHFL_DOWN, rounded, ptx_u32(1), .width = 16);
        ptx_if (b, ptx_eq(b, tid, ptx_u32(0))) {
            ptx_store(b, out, ptx_u32(1), ptx_cvt(b, PTX_F32, moved));
        }
        ptx_else_if (b, ptx_gt(b, tid, 9)) {
            ptx_for_down (b, i, n, 0, 4)
                ptx_continue_if(b, ptx_eq(b, i, 8));
        }
        ptx_else (b) {
            ptx_atomic(b, PTX_ATOMIC_add, out, ptx_u32(0), sum, .order = PTX_ORDER_RELAXED,
                       .scope = PTX_SCOPE_SYSTEM);
            ptx_comment(b, "in C++ %d", 20);
            ptx_val pair[2];
            ptx_asm(b, "add.u32 %0, %1, 1;", .result = { PTX_U32 }, .in = { tid }, .pure = true);
            ptx_asm_many(b, pair, "mov.u32 %0, 1; mov.u32 %1, 2;", .result = { PTX_U32, PTX_U32 },
                         .isa = 60);
            ptx_asm(b, "red.global.add.u32 [flips], %0;", .in = { pair[1] });
        }
    }
}

// The kind that PTX_ARG() derives from a variable's type.
enum answer { yes };
static float single;
static const double twice = 2;
static const unsigned count = 4;
static const long long wide = 3;
static bool flag;
static answer answered;
static ptx_buffer *buffer;
static const char *const text_pointer = "";
static float array[2];
static struct {
    int x, y;
} pair;
static_assert(PTX_ARG_TYPE(single) == PTX_ARG_FLOAT && PTX_ARG_TYPE(twice) == PTX_ARG_FLOAT);
static_assert(PTX_ARG_TYPE(count) == PTX_ARG_INTEGER && PTX_ARG_TYPE(wide) == PTX_ARG_INTEGER);
static_assert(PTX_ARG_TYPE(flag) == PTX_ARG_INTEGER && PTX_ARG_TYPE(answered) == PTX_ARG_UNTYPED);
static_assert(PTX_ARG_TYPE(buffer) == PTX_ARG_POINTER);
static_assert(PTX_ARG_TYPE(text_pointer) == PTX_ARG_POINTER);
static_assert(PTX_ARG_TYPE(array) == PTX_ARG_UNTYPED && PTX_ARG_TYPE(pair) == PTX_ARG_UNTYPED);
static constexpr ptx_arg args[] = { PTX_ARG(single), PTX_ARG(buffer), { &count, sizeof count } };
static_assert(args[0].size == sizeof(float) && args[0].type == PTX_ARG_FLOAT);
static_assert(args[1].type == PTX_ARG_POINTER && args[2].type == PTX_ARG_UNTYPED);

// An error names the file and line, and arguments are evaluated from left to right.
static bool has_places()
{
    ptx_builder *b = ptx_builder_create(nullptr);
    int line = 0;

    ptx_entry (b, "wrong", .block = { 32 }) {
        const std::string name = "n";
        ptx_val n = ptx_param(b, PTX_U32, (name + "_x").c_str());
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_ntid(b, PTX_X), ptx_tid(b, PTX_X));
        ptx_for (b, j, 0, ptx_mul(b, i, 2), 1)
            ptx_add(b, ptx_select(b, ptx_lt(b, j, 7u), j, 3L), 4ull);
        line = __LINE__ + 1;
        ptx_add(b, ptx_add(b, i, n), ptx_f32(1));
    }
    const bool refused = !ptx_builder_finish(b);
    const std::string place =
        std::string(__FILE__) + ":" + std::to_string(line) + ": wrong: ptx_add";
    const bool ok =
        refused && std::string(ptx_builder_error(b)).compare(0, place.size(), place) == 0;
    if (!ok)
        std::fprintf(stderr, "not at %s: %s\n", place.c_str(), ptx_builder_error(b));
    ptx_builder_destroy(&b);
    return ok;
}

// Texts that live as long as the statement: the calls must read them in it. They are too long to
// stand in the string object itself. `kept` keeps them for longer.
template <class Kept> static void write_texts(ptx_builder *b, Kept kept)
{
    const std::string wide(70, 'w');

    ptx_func (b, kept(wide + "_function").c_str(), .result = PTX_U32)
        ptx_return_value(b, ptx_param(b, PTX_U32, kept(wide + "_x").c_str()));
    ptx_entry (b, kept(wide + "_entry").c_str(), .block = { 32 }) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p");
        ptx_val pair[2], n = ptx_load(b, p, 0);
        ptx_printf(b, kept(wide + " none\n").c_str());
        ptx_printf(b, kept(wide + " %u of %u\n").c_str(), n, ptx_add(b, n, 1));
        ptx_assert(b, ptx_ne(b, n, 0), kept(wide + " fails").c_str(),
                   .file = kept(wide + ".c").c_str());
        n = ptx_call(b, kept(wide + "_function").c_str(), ptx_add(b, n, 2));
        n = ptx_asm(b, kept("add.u32 %0, %1, 1; // " + wide).c_str(), .result = { PTX_U32 },
                    .in = { n });
        ptx_asm_many(b, pair, kept("mov.u32 %0, 1; mov.u32 %1, 2; // " + wide).c_str(),
                     .result = { PTX_U32, PTX_U32 });
        ptx_store(b, p, pair[0], n);
        ptx_trap_message(b, kept(wide + " is the end").c_str());
    }
}

static bool reads_texts_in_time()
{
    std::deque<std::string> all;
    ptx_builder *b = ptx_builder_create(nullptr), *want = ptx_builder_create(nullptr);

    write_texts(b, [](std::string text) { return text; });
    write_texts(want, [&](std::string text) -> const std::string & {
        return all.emplace_back(std::move(text));
    });
    const char *text = ptx_builder_finish(b), *wanted = ptx_builder_finish(want);
    const bool ok = text && wanted && !std::strcmp(text, wanted);
    if (!ok)
        std::fprintf(stderr, "%s\nis not\n%s\n", text ? text : ptx_builder_error(b),
                     wanted ? wanted : ptx_builder_error(want));
    ptx_builder_destroy(&b);
    ptx_builder_destroy(&want);
    return ok;
}

int main()
{
    if (!has_places() || !reads_texts_in_time())
        return 1;
    ptx_builder_params params = {};
    params.target.sm = 90;
    ptx_builder *b = ptx_builder_create(&params);

    write_kernel(b);
    const char *text = ptx_builder_finish(b);
    const bool ok = text && std::strstr(text, "red.relaxed.sys.global.add.f32") &&
                    std::strstr(text, "cvt.rni.s32.f32") && std::strstr(text, ".reqntid 128, 2, 1");
    if (!ok)
        std::fprintf(stderr, "%s\n", text ? text : ptx_builder_error(b));
    ptx_builder_destroy(&b);
    return ok && std::strcmp(ptxgen_version(), "") != 0 ? 0 : 1;
}
