// SPDX-License-Identifier: MIT
// What the mutator puts into PTX text. In an instruction ? is the number of a register and # a
// number; the names are those that the texts of corpus_launch declare.
#ifndef PTXGEN_TESTS_FUZZ_PTX_LINES_H
#define PTXGEN_TESTS_FUZZ_PTX_LINES_H

// clang-format off
static const char *const fuzz_numbers[] = {
    "0", "1", "2", "3", "4", "7", "8", "15", "16", "31", "32", "33", "63", "64", "127", "128", "255",
    "256", "1023", "1024", "4095", "65535", "65536", "0x7fffffff", "0x80000000", "0xffffffff",
    "0x7fffffffffffffff", "0x8000000000000000", "0xffffffffffffffff", "-1", "-2147483648",
    "0f3f800000", "0f7fc00000", "0f7f800000", "0f00000001", "0d3ff0000000000000",
    "0d7ff8000000000000", "1.5", "1e30", "sh", "gl", "lo", "co",
};

static const char *const fuzz_modifiers[] = {
    ".u8", ".u16", ".u32", ".u64", ".s8", ".s16", ".s32", ".s64", ".b8", ".b16", ".b32", ".b64",
    ".f16", ".f16x2", ".bf16", ".bf16x2", ".f32", ".f64", ".pred", ".rn", ".rz", ".rm", ".rp",
    ".rni", ".rzi", ".ftz", ".sat", ".lo", ".hi", ".wide", ".cc", ".global", ".shared", ".local",
    ".param", ".const", ".volatile", ".relaxed", ".acquire", ".release", ".acq_rel", ".cta", ".gpu",
    ".sys", ".cluster", ".v2", ".v4", ".v8", ".add", ".min", ".max", ".and", ".or", ".xor", ".exch",
    ".cas", ".inc", ".dec", ".eq", ".ne", ".lt", ".le", ".gt", ".ge", ".ltu", ".num", ".nan",
    ".sync", ".aligned", ".up", ".down", ".bfly", ".idx", ".all", ".any", ".uni", ".ballot",
    ".approx", ".full", ".NaN", ".relu", ".to", ".extern", ".visible", ".func", ".entry", ".align",
};

static const char *const fuzz_instructions[] = {
    "ld.global.u32 %r?, [%rd?];", "ld.global.u64 %rd?, [%rd?+#];", "ld.u8 %r?, [%rd?+#];",
    "ld.global.v4.f32 {%f?, %f?, %f?, _}, [%rd?];", "ld.global.v2.u64 {%rd?, %rd?}, [%rd?+16];",
    "ld.shared.u32 %r?, [%r?];", "ld.shared.v2.f32 {%f?, %f?}, [sh+8];", "ld.shared.u8 %r?, [sh+#];",
    "ld.local.u32 %r?, [lo+4];", "ld.local.u16 %rs?, [%r?];", "ld.const.u32 %r?, [co+4];",
    "ld.param.u64 %rd?, [p0];", "ld.param.u32 %r?, [p2];", "ld.param.u8 %r?, [p0+#];",
    "ld.volatile.global.u32 %r?, [%rd?];", "ld.acquire.gpu.global.u32 %r?, [%rd?];",
    "ld.global.nc.f64 %fd?, [%rd?];", "st.global.u32 [%rd?], %r?;", "st.u16 [%rd?+#], %rs?;",
    "st.global.v4.u32 [%rd?], {%r?, %r?, 1, %r?};", "st.global.v2.f64 [%rd?+16], {%fd?, %fd?};",
    "st.shared.u32 [sh+4], %r?;", "st.shared.u32 [%r?], %r?;", "st.shared.f32 [%r?+#], %f?;",
    "st.volatile.shared.u64 [sh], %rd?;", "st.release.cta.shared.u32 [sh], %r?;",
    "st.local.u32 [lo], %r?;", "st.local.v2.u32 [%r?], {%r?, %r?};", "st.global.b8 [%rd?], %r?;",
    "atom.global.add.u32 %r?, [%rd?], %r?;", "atom.shared.cas.b32 %r?, [sh], %r?, %r?;",
    "atom.global.cas.b16 %rs?, [%rd?+2], %rs?, %rs?;", "atom.shared.exch.b64 %rd?, [%r?], %rd?;",
    "atom.global.add.f32 %f?, [%rd?], %f?;", "atom.add.f64 %fd?, [%rd?], %fd?;",
    "atom.global.add.noftz.f16x2 %r?, [%rd?], %r?;", "red.shared.max.s32 [%r?], %r?;",
    "atom.acq_rel.gpu.global.inc.u32 %r?, [%rd?], #;", "red.global.and.b64 [%rd?+8], %rd?;",
    "mov.u32 %r?, %tid.x;", "mov.u32 %r?, %ctaid.y;", "mov.u32 %r?, %ntid.x;", "mov.u32 %r?, #;",
    "mov.u32 %r?, sh;", "mov.u64 %rd?, gl;", "mov.u32 %r?, lo;", "mov.u64 %rd?, co;",
    "mov.u32 %r?, %laneid;", "mov.u32 %r?, %lanemask_lt;", "mov.u64 %rd?, %clock64;",
    "mov.u32 %r?, %dynamic_smem_size;", "mov.u32 %r?, %warpid;", "mov.u32 %r?, %cluster_ctarank;",
    "mov.b64 %rd?, {%r?, %r?};", "mov.b64 {%r?, _}, %rd?;", "mov.b32 {%rs?, %rs?}, %r?;",
    "mov.f32 %f?, #;", "mov.pred %p?, !%p?;", "mov.b32 %f?, %r?;", "mov.b64 %rd?, %fd?;",
    "cvta.to.global.u64 %rd?, %rd?;", "cvta.shared.u64 %rd?, %rd?;", "cvta.local.u64 %rd?, %rd?;",
    "isspacep.shared %p?, %rd?;", "add.s32 %r?, %r?, %r?;", "add.s64 %rd?, %rd?, #;",
    "add.cc.u32 %r?, %r?, %r?;", "addc.u32 %r?, %r?, %r?;", "sub.s32 %r?, %r?, #;",
    "mul.wide.u32 %rd?, %r?, 4;", "mad.lo.s32 %r?, %r?, %r?, %r?;", "mul.hi.u64 %rd?, %rd?, %rd?;",
    "div.s32 %r?, %r?, %r?;", "rem.u32 %r?, %r?, %r?;", "div.u64 %rd?, %rd?, %rd?;",
    "rem.s64 %rd?, %rd?, %rd?;", "div.s16 %rs?, %rs?, %rs?;", "abs.s32 %r?, %r?;",
    "neg.s64 %rd?, %rd?;", "min.s32 %r?, %r?, #;", "max.u16 %rs?, %rs?, %rs?;",
    "shl.b32 %r?, %r?, %r?;", "shr.s64 %rd?, %rd?, %r?;", "shf.l.wrap.b32 %r?, %r?, %r?, %r?;",
    "bfe.s32 %r?, %r?, %r?, %r?;", "bfi.b64 %rd?, %rd?, %rd?, %r?, #;", "bfind.u64 %r?, %rd?;",
    "prmt.b32 %r?, %r?, %r?, %r?;", "prmt.b32.f4e %r?, %r?, %r?, %r?;", "fns.b32 %r?, %r?, %r?, #;",
    "lop3.b32 %r?, %r?, %r?, %r?, 0x96;", "popc.b64 %r?, %rd?;", "brev.b64 %rd?, %rd?;",
    "clz.b32 %r?, %r?;", "sad.s32 %r?, %r?, %r?, %r?;", "dp4a.s32.u32 %r?, %r?, %r?, %r?;",
    "dp2a.hi.s32.s32 %r?, %r?, %r?, %r?;", "and.b32 %r?, %r?, #;", "xor.pred %p?, %p?, %p?;",
    "selp.b32 %r?, %r?, %r?, %p?;", "slct.u32.s32 %r?, %r?, %r?, %r?;", "cnot.b32 %r?, %r?;",
    "setp.lt.u32 %p?, %r?, %r?;", "setp.eq.s32 %p?|%p?, %r?, #;", "setp.gtu.f32 %p?, %f?, %f?;",
    "setp.ne.and.u64 %p?, %rd?, 0, %p?;", "set.lt.f32.f32 %f?, %f?, %f?;", "testp.finite.f64 %p?, %fd?;",
    "add.f32 %f?, %f?, %f?;", "fma.rn.f32 %f?, %f?, %f?, %f?;", "mul.rz.ftz.f32 %f?, %f?, #;",
    "div.rn.f32 %f?, %f?, %f?;", "div.full.f32 %f?, %f?, %f?;", "sqrt.rp.f64 %fd?, %fd?;",
    "rcp.approx.ftz.f32 %f?, %f?;", "ex2.approx.f32 %f?, %f?;", "tanh.approx.f32 %f?, %f?;",
    "add.rn.f16 %rs?, %rs?, %rs?;", "fma.rn.f16x2 %r?, %r?, %r?, %r?;", "max.bf16x2 %r?, %r?, %r?;",
    "fma.rn.f64 %fd?, %fd?, %fd?, %fd?;", "copysign.f64 %fd?, %fd?, %fd?;", "min.NaN.f32 %f?, %f?, %f?;",
    "cvt.rzi.s32.f32 %r?, %f?;", "cvt.rn.f32.u64 %f?, %rd?;", "cvt.rpi.u8.f64 %r?, %fd?;",
    "cvt.sat.s16.s64 %rs?, %rd?;", "cvt.rn.f16.f32 %rs?, %f?;", "cvt.f64.f32 %fd?, %f?;",
    "cvt.rn.f16x2.f32 %r?, %f?, %f?;", "cvt.u64.u32 %rd?, %r?;", "cvt.rni.f32.f32 %f?, %f?;",
    "bar.sync 0;", "bar.sync #, 64;", "bar.sync %r?;", "bar.arrive 1, 64;", "barrier.sync 1, #;",
    "bar.red.popc.u32 %r?, 0, %p?;", "bar.red.and.pred %p?, 0, 32, %p?;", "bar.warp.sync %r?;",
    "shfl.sync.bfly.b32 %r?, %r?, #, 31, -1;", "shfl.sync.down.b32 %r?|%p?, %r?, %r?, %r?, -1;",
    "shfl.sync.idx.b32 %f?, %f?, 0, 0x1f, 0xffff;", "shfl.sync.up.b32 %r?, %r?, 1, 0, %r?;",
    "vote.sync.ballot.b32 %r?, %p?, -1;", "vote.sync.any.pred %p?, %p?, %r?;",
    "match.any.sync.b32 %r?, %r?, -1;", "match.all.sync.b64 %r?|%p?, %rd?, #;",
    "redux.sync.add.s32 %r?, %r?, -1;", "activemask.b32 %r?;", "membar.gl;", "fence.sc.gpu;",
    "nanosleep.u32 #;", "prefetch.global.L2 [%rd?];", "bra L1;", "@%p? bra L2;", "@!%p? bra.uni L1;",
    "call (%r?), fn, (%r?);", "@%p? call (%r?), fn, (%r?);", "call leaf;", "ret;", "@%p? ret;",
    "exit;", "@%p? exit;", "trap;", "@%p? trap;", "L1:", "L2:", "{", "}", "@%p? add.s32 %r?, %r?, 1;",
    ".reg .b64 %rd<9>;", ".reg .b32 %r<100>;", ".shared .align 8 .b8 sh[#];", ".local .align 8 .b8 lo[#];",
    ".global .u32 gl[#] = {1, 2, 3};", ".global .u64 at = gl;", ".const .f32 co[4] = {1.0, 2.0};",
    ".extern .shared .align 16 .b8 dyn[];", ".reqntid #;", ".maxntid #, 2, 1;", ".minnctapersm #;",
    ".func leaf() { ret; }", ".visible .entry k2(.param .u64 p0) { ret; }",
};
// clang-format on

#endif
