// SPDX-License-Identifier: MIT
// Threads together: barriers, shuffles, votes; waiting and ending.
#include "builder_fixture.h"

TEST(barriers_are_spelled)
{
    NEW_ENTRY (b, 80) {
        ptx_val p = ptx_eq(b, ptx_tid(b, PTX_X), ptx_u32(0));
        ptx_barrier(b);
        ptx_barrier_named(b, 0, 0);
        ptx_barrier_named(b, 15, 1024);
        ptx_val all = ptx_barrier_all(b, p), any = ptx_barrier_any(b, p);
        ptx_val count = ptx_barrier_count(b, ptx_bool(true));
        assert_true(all.type == PTX_PRED && any.type == PTX_PRED && count.type == PTX_U32);
        ptx_barrier_warp(b, ptx_full_warp());
    }
    EXPECT_LINES(b, "bar.sync 0;", "bar.sync 0;", "bar.sync 15, 1024;",
                 "bar.red.and.pred %p2, 0, %p1;", "bar.red.or.pred %p3, 0, %p1;",
                 "mov.pred %p4, 1;\n bar.red.popc.u32 %r2, 0, %p4;", "bar.warp.sync 0xffffffff;");
}

TEST(indices_are_spelled)
{
    ptx_builder *b = builder_at(80);
    ptx_entry (b, "shaped", .block = { 64, 2 }) {
        ptx_global_index(b, PTX_X);
        ptx_global_index(b, PTX_Y);
        assert_int_equal(ptx_global_index(b, PTX_Z).type, PTX_U32);
        assert_int_equal(ptx_global_index_wide(b, PTX_X).type, PTX_U64);
        assert_int_equal(ptx_global_index_wide(b, PTX_Z).type, PTX_U64);
    }
    EXPECT_LINES(b, "mov.u32 %r1, %ctaid.x;\n mov.u32 %r2, %tid.x;\n mad.lo.u32 %r3, %r1, 64, %r2;",
                 "mov.u32 %r4, %ctaid.y;\n mov.u32 %r5, %tid.y;\n mad.lo.u32 %r6, %r4, 2, %r5;",
                 "mov.u32 %r7, %ctaid.z;\n mov.u32 %r8, %ctaid.x;\n mov.u32 %r9, %tid.x;",
                 "cvt.u64.u32 %rd1, %r9;\n mad.wide.u32 %rd2, %r8, 64, %rd1;",
                 "mov.u32 %r10, %ctaid.z;\n cvt.u64.u32 %rd3, %r10;\n ret;");
    b = builder_at(80);
    ptx_entry (b, "any") {
        ptx_global_index(b, PTX_Y);
        ptx_global_index_wide(b, PTX_X);
    }
    EXPECT_LINES(b, "mov.u32 %r1, %ctaid.y;\n mov.u32 %r2, %ntid.y;\n mov.u32 %r3, %tid.y;",
                 "mad.lo.u32 %r4, %r1, %r2, %r3;", "mov.u32 %r5, %ntid.x;", "%ctaid.x;", "%tid.x;",
                 "mad.wide.u32 %rd2, %r6, %r5, %rd1;");
}

// 32-bit counters take the index and the step from 64 bits, so that neither wraps.
TEST(grids_share_a_range)
{
    NEW_ENTRY_WITH (b, 80, .block = { 128 }) {
        ptx_val n = ptx_param(b, PTX_U32, "n"), m = ptx_param(b, PTX_S64, "m");
        ptx_grid_stride (b, i, n)
            ptx_mul(b, i, i);
        ptx_grid_stride (b, i, m)
            ptx_break_if(b, ptx_eq(b, i, 5));
    }
    EXPECT_LINES(b, "%ctaid.x;", "%tid.x;", "mad.wide.u32 %rd3, %r2, 128, %rd2;", "%nctaid.x;",
                 "mul.wide.u32 %rd4, %r4, 128;", "cvt.sat.u32.u64 %r5, %rd3;",
                 "cvt.sat.u32.u64 %r6, %rd4;", "setp.ge.u32 %p1, %r5, %r1;",
                 "$for_1:", "mul.lo.u32", "sub.u32 %r8, %r1, %r5;", "setp.le.u32 %p2, %r8, %r6;",
                 "add.u32 %r5, %r5, %r6;", "$for_1_end:", "mad.wide.u32", "mul.wide.u32",
                 "setp.ge.s64 %p3, %rd6, %rd1;", "$for_2:");
    // The threads of a warp may end at different numbers; after the loop they are together.
    for (int after = 0; after < 2; after++) {
        b = builder_at(80);
        ptx_entry (b, "k", .block = { 128 }) {
            ptx_val n = ptx_param(b, PTX_S32, "n"), sum = ptx_var(b, ptx_s32(0));
            ptx_grid_stride (b, i, n) {
                ptx_set(b, sum, ptx_add(b, sum, i));
                if (!after)
                    ptx_shfl_down(b, sum, 1);
            }
            if (after)
                ptx_shfl_down(b, sum, 1);
        }
        if (after)
            EXPECT_LINES(b, "cvt.sat.s32.u64", "shfl.sync.down");
        else
            EXPECT_ERROR(b, "shfl.sync.down.b32 with the full mask is in code that only some");
    }
}

#define REFUSED(call, ...) REFUSED_AT(80, call, __VA_ARGS__)

TEST(wrong_indices_are_named)
{
    REFUSED(ptx_global_index(b, (ptx_axis)3), "global_index: 3 is not an axis");
    REFUSED(ptx_global_index_wide(b, (ptx_axis)-1), "global_index_wide: -1 is not an axis");
    REFUSED(ptx_grid_stride (b, i, f) {}, "grid_stride: n is f32; it must be u32, s32, u64 or s64");
    REFUSED(ptx_grid_stride (b, i, p) {}, "grid_stride: n is pred");
    REFUSED(ptx_grid_stride (b, i, 100) {}, "grid_stride: n is the number 100, and nothing here");
    REFUSED(ptx_grid_stride (b, i, (ptx_val) { 0 }) {}, "grid_stride: n was never set");
    REFUSED(ptx_grid_stride (b, i, u) ptx_set(b, i, u), "set: the first value is not a variable");
    REFUSED(ptx_grid_stride (b, i, u) C_BREAK, "entry: a block inside it was never closed");
    REFUSED(ptx_grid_stride_end(b, u), "for: this block is not open");
}

TEST(shuffles_move_every_type)
{
    NEW_ENTRY (b, 80) {
        const ptx_val one = ptx_u32(1);
        ptx_val f = ptx_copy(b, ptx_f32(1)), d = ptx_copy(b, ptx_f64(1));
        ptx_val h = ptx_var(b, ptx_imm(PTX_BF16, 1)), s = ptx_copy(b, ptx_imm(PTX_S8, -1));
        ptx_val mask = ptx_activemask(b);
        assert_int_equal(ptx_shfl_down(b, f, one).type, PTX_F32);
        assert_int_equal(ptx_shfl_up(b, f, one).type, PTX_F32);
        assert_int_equal(ptx_shfl_bfly(b, f, one).type, PTX_F32);
        assert_int_equal(ptx_shfl_idx(b, f, one).type, PTX_F32);
        assert_int_equal(ptx_shfl_down(b, d, one).type, PTX_F64);
        assert_int_equal(ptx_shfl_down(b, h, one).type, PTX_BF16);
        assert_int_equal(ptx_shfl_down(b, s, one).type, PTX_S8);
        ptx_shfl(b, PTX_SHFL_UP, ptx_u32(5), one, .mask = mask, .width = 8);
        ptx_shfl(b, PTX_SHFL_IDX, ptx_f32(5), one, .width = 1);
    }
    EXPECT_LINES(b, "activemask.b32 %r1;", "shfl.sync.down.b32 %r2, %f1, 1, 31, 0xffffffff;",
                 "mov.b32 %f2, %r2;", "shfl.sync.up.b32 %r3, %f1, 1, 0, 0xffffffff;",
                 "shfl.sync.bfly.b32 %r4, %f1, 1, 31, 0xffffffff;",
                 "shfl.sync.idx.b32 %r5, %f1, 1, 31, 0xffffffff;", "mov.b64 {%r6, %r7}, %fd1;",
                 "shfl.sync.down.b32 %r8, %r6, 1, 31,", "shfl.sync.down.b32 %r9, %r7, 1, 31,",
                 "mov.b64 %fd2, {%r8, %r9};", "cvt.u32.u16 %r10, %rs1;",
                 "shfl.sync.down.b32 %r11, %r10, 1, 31,", "cvt.u16.u32 %rs3, %r11;",
                 "cvt.u32.u8 %r12, %rs2;", "shfl.sync.down.b32 %r13, %r12,",
                 "cvt.u8.u32 %rs4, %r13;", "shfl.sync.up.b32 %r15, %r14, 1, 6144, %r1;",
                 "shfl.sync.idx.b32 %r16, %f6, 1, 7967, 0xffffffff;");
}

TEST(lanes_vote_match_and_reduce)
{
    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_tid(b, PTX_X), p = ptx_eq(b, x, ptx_u32(0)), m = ptx_full_warp();
        ptx_val s = ptx_bitcast(b, PTX_S32, x), d = ptx_copy(b, ptx_f64(1));
        ptx_vote_all(b, p, m);
        ptx_vote_any(b, p, m);
        ptx_vote_uniform(b, p, m);
        assert_int_equal(ptx_ballot(b, ptx_bool(true), m).type, PTX_U32);
        ptx_match_any(b, x, m);
        ptx_match_all(b, d, m);
        ptx_match_any(b, ptx_f32(1), m);
#define EACH(name, ...) assert_int_equal(ptx_redux_##name(b, s, m).type, PTX_S32);
        PTX_WARP_REDUCTIONS(EACH)
#undef EACH
        ptx_redux_add(b, x, x);
    }
    EXPECT_LINES(b, "vote.sync.all.pred %p2, %p1, 0xffffffff;", "vote.sync.any.pred %p3, %p1,",
                 "vote.sync.uni.pred %p4, %p1,",
                 "mov.pred %p5, 1;\n vote.sync.ballot.b32 %r2, %p5, 0xffffffff;",
                 "match.any.sync.b32 %r3, %r1, 0xffffffff;", "mov.b64 %rd1, %fd1;",
                 "match.all.sync.b64 %r4, %rd1, 0xffffffff;", "mov.b32 %r5, 0x3f800000;",
                 "match.any.sync.b32 %r6, %r5,", "redux.sync.add.s32 %r7, %r1, 0xffffffff;",
                 "redux.sync.min.s32 %r8,", "redux.sync.max.s32 %r9,", "redux.sync.and.b32 %r10,",
                 "redux.sync.or.b32 %r11,", "redux.sync.xor.b32 %r12,",
                 "redux.sync.add.u32 %r13, %r1, %r1;");
}

TEST(threads_wait_and_end)
{
    NEW_ENTRY (b, 90) {
        ptx_griddepcontrol_wait(b);
        ptx_nanosleep(b, ptx_u32(100));
        ptx_griddepcontrol_launch_dependents(b);
        ptx_trap(b);
    }
    EXPECT_LINES(b, ".version 7.8", "griddepcontrol.wait;", "nanosleep.u32 100;",
                 "griddepcontrol.launch_dependents;", "trap;");
}

// A barrier of more threads than a block has would never end, in the entry or in what it calls.
TEST(named_barriers_have_their_threads)
{
    static const struct {
        struct ptx_entry_params entry;
        unsigned most; // in whole warps
    } entries[] = { { { .block = { 64, 2 } }, 128 },
                    { { .block = { 48 } }, 64 },
                    { { .max_block = { 256 } }, 256 },
                    { { .block = { 0 } }, 1024 } };

    for (unsigned k = 0; k < 16; k++) {
        struct ptx_entry_params entry = entries[k / 4].entry;
        const bool called = k & 1, above = k & 2;
        const unsigned threads = entries[k / 4].most + (above ? 32 : 0);
        if (threads > 1024)
            continue;
        ptx_builder *b = builder_at(80);
        ptx_func (b, "waits")
            ptx_barrier_named(b, 1, called ? threads : 32);
        entry.name = "k";
        const int block = ptx_entry_begin(b, entry);
        ptx_call(b, "waits");
        if (!called)
            ptx_barrier_named(b, 2, threads);
        ptx_entry_end(b, block);
        if (above)
            EXPECT_ERROR(b, "would wait for ever", called ? "function 'waits'" : "barrier 2 waits");
        else
            EXPECT_LINES(b, "bar.sync");
    }
}

TEST(wrong_calls_are_named)
{
    const ptx_val none = { 0 }, m = ptx_full_warp();

    REFUSED(ptx_barrier_named(b, 16, 0), "barrier_named: barrier 16 for 0 threads", "16 barriers");
    REFUSED(ptx_barrier_named(b, 1, 33), "barrier_named: barrier 1 for 33", "whole warps");
    REFUSED(ptx_barrier_named(b, 1, 1056), "barrier_named: barrier 1 for 1056", "32 to 1024");
    REFUSED(ptx_barrier_all(b, u), "barrier_all: the condition is u32");
    REFUSED(ptx_barrier_any(b, none), "barrier_any: the condition was never set");
    REFUSED(ptx_barrier_count(b, f), "barrier_count: the condition is f32");
    REFUSED(ptx_barrier_warp(b, f), "barrier_warp: the mask is f32; it must be u32");
    REFUSED(ptx_barrier_warp(b, none), "barrier_warp: the mask was never set");
    REFUSED(ptx_shfl(b, PTX_SHFL_IDX, f, u, .mask = ptx_imm(PTX_U32, -1)),
            "shfl: the mask is the immediate -1, which u32 cannot hold");
    REFUSED(ptx_shfl_down(b, none, u), "ptx_shfl_down: x was never set");
    REFUSED(ptx_shfl_down(b, f, f), "ptx_shfl_down: the lane is f32; it must be u32");
    REFUSED(ptx_shfl_down(b, p, u), "ptx_shfl_down: x is pred", "ptx_ballot");
    REFUSED(ptx_shfl_down(b, f, 33), "ptx_shfl_down: the lane is 33; a warp has 32 lanes");
    REFUSED(ptx_shfl_up(b, f, ptx_u32(32)), "ptx_shfl_up: the lane is 32;", "the lower 5 bits");
    REFUSED(ptx_shfl_idx(b, f, -1), "the lane is the number -1, which u32 cannot hold");
    REFUSED(ptx_shfl(b, PTX_SHFL_BFLY, f, UINT32_MAX), "ptx_shfl_bfly: the lane is 4294967295;");
    REFUSED(ptx_shfl(b, PTX_SHFL_UP, f, u, .mask = f), "shfl: the mask is f32");
    REFUSED(ptx_shfl(b, PTX_SHFL_UP, f, u, .width = 3), "shfl: .width is 3", "8, 16 or 32");
    REFUSED(ptx_shfl(b, PTX_SHFL_UP, f, u, .width = 64), "shfl: .width is 64");
    REFUSED(ptx_shfl(b, (ptx_shfl_mode)4, f, u), "shfl: 4 is not a mode", "PTX_SHFL_BFLY");
    REFUSED(ptx_vote_all(b, u, m), "vote_all: the condition is u32");
    REFUSED(ptx_vote_any(b, p, f), "vote_any: the mask is f32");
    REFUSED(ptx_vote_uniform(b, p, none), "vote_uniform: the mask was never set");
    REFUSED(ptx_ballot(b, f, m), "ballot: the condition is f32");
    REFUSED(ptx_match_any(b, h, m), "match_any: x is f16", "32 or 64 bits");
    REFUSED(ptx_match_all(b, none, m), "match_all: x was never set");
    REFUSED(ptx_match_all(b, f, h), "match_all: the mask is f16");
    REFUSED(ptx_redux_add(b, f, m), "redux_add: x is f32; the instruction takes u32 or s32");
    REFUSED(ptx_redux_xor(b, f, m), "redux_xor: x is f32; the instruction takes u32, s32 or b32");
    REFUSED(ptx_redux_add(b, none, m), "redux_add: x was never set");
    REFUSED(ptx_nanosleep(b, f), "nanosleep: the time is f32; it must be u32");
    REFUSED(ptx_nanosleep(b, none), "nanosleep: the time was never set");
    REFUSED_AT(75, ptx_redux_add(b, u, m), "redux_add: redux.sync.add.u32 needs sm_80", "sm_75");
    REFUSED(ptx_griddepcontrol_wait(b), "griddepcontrol: griddepcontrol needs sm_90", "sm_80");
    REFUSED(ptx_griddepcontrol_launch_dependents(b), "griddepcontrol needs sm_90");
#undef REFUSED
#undef REFUSED_AT
}

TEST(a_pinned_isa_is_a_floor)
{
    for (int call = 0; call < 2; call++) {
        ptx_builder *b =
            ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 70 }, .isa = 60 });
        ptx_entry (b, "k") {
            if (call)
                ptx_nanosleep(b, ptx_u32(1));
            else
                ptx_activemask(b);
        }
        if (call)
            EXPECT_ERROR(b, "nanosleep needs PTX ISA 6.3", "pinned to 6.0");
        else
            EXPECT_ERROR(b, "activemask needs PTX ISA 6.2", "pinned to 6.0");
    }
}
