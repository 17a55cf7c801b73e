// SPDX-License-Identifier: MIT
// What is known of PTX's instructions: each of PTX ISA 9.0 in a text, and what may be said of it.
#include "builder_fixture.h"

// Where a text stands, and where its instruction does.
enum { EVERYWHERE, SOME_WARPS, SOME_LANES, GUARDED };

// Whether a text is accepted that sets a result before the instruction.
static bool accepts(const char *mnemonic, const char *operand, struct ptx_asm_params p, int where)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = { 100, 'a' } });
    char text[200];

    snprintf(
        text, sizeof text,
        "{ .reg .b32 t; .reg .pred q; mov.b32 %%0, %%1; setp.ne.b32 q, %%1, 0; %s%s %s, %%1; }",
        where == GUARDED ? "@q " : "", mnemonic, operand);
    p.text = text;
    p.result[0] = PTX_U32;
    ptx_entry (b, "k", .block = { 64 }) {
        ptx_val lane = ptx_tid(b, PTX_X), warp = ptx_shr(b, lane, 5), x = ptx_ctaid(b, PTX_X);
        ptx_if (b, ptx_lt(b, where == SOME_LANES ? lane : where == SOME_WARPS ? warp : x, 1)) {
            p.in[0] = x;
            ptx_asm_emit(b, p);
        }
    }
    const bool accepted = ptx_builder_finish(b);
    return accepted;
}

// What may be said of an instruction: P .pure, R no reads, W no writes, O results that differ only
// where operands do; and, where nothing is said, that it stands in code of some L lanes and of some
// B warps. Under a guard stands what no other thread needs to reach.
static void find_claims(const char *mnemonic, const char *operand, char found[7])
{
#define TRY(k, letter, where, ...)                                                                 \
    found[k] =                                                                                     \
        accepts(mnemonic, operand, (struct ptx_asm_params) { __VA_ARGS__ }, where) ? letter : '-'

    TRY(0, 'P', EVERYWHERE, .pure = true);
    TRY(1, 'R', EVERYWHERE, .reads = PTX_MEMORY_NONE);
    TRY(2, 'W', EVERYWHERE, .writes = PTX_MEMORY_NONE);
    TRY(3, 'O', EVERYWHERE, .divergence = PTX_DIVERGENCE_OPERANDS);
    TRY(6, 'L', GUARDED, .text = NULL);
    TRY(4, 'L', SOME_LANES, .text = NULL);
    TRY(5, 'B', SOME_WARPS, .text = NULL);
    if (found[4] != found[6])
        found[4] = '?';
    found[6] = 0;
}

static const struct {
    const char *claims, *operand, *mnemonics;
} families[] = {
    { "PRWOLB", "t",
      "abs.s32 add.u32 add.cc.u32 add.rn.f32.f16 addc.cc.u32 and.b32 bfe.u32 bfi.b32 "
      "bfind.shiftamt.u32 "
      "bmsk.clamp.b32 brev.b32 clz.b32 cnot.b32 copysign.f32 cos.approx.f32 "
      "createpolicy.fractional.L2::evict_last.b64 createpolicy.range.global.L2::evict_last.b64 "
      "cvt.rn.f16.f32 cvt.pack.sat.s16.s32.b32 cvta.to.global.u64 cvta.local.u64 div.full.f32 "
      "dp2a.lo.s32.u32 dp4a.s32.u32 ex2.approx.ftz.f32 fma.rn.f32 fns.b32 "
      "getctarank.shared::cluster.u32 isspacep.local istypep.texref lg2.approx.f32 lop3.b32 "
      "mad.wide.u32 mad.lo.cc.u32 mad24.hi.s32 madc.lo.u32 mapa.shared::cluster.u32 max.NaN.f32 "
      "min.s16x2 mov.b32 mul.wide.u16 mul24.lo.u32 neg.f32 not.b32 or.pred popc.b64 prmt.b32.f4e "
      "rcp.approx.ftz.f64 rem.s32 rsqrt.approx.f32 sad.u32 selp.f32 set.le.u32.f32 setp.lt.and.u32 "
      "shf.l.wrap.b32 shl.b32 shr.s32 sin.approx.f32 slct.f32.s32 sqrt.rn.f64 sub.cc.u32 subc.u32 "
      "suq.width.b32 szext.wrap.s32 tanh.approx.bf16x2 testp.subnormal.f32 txq.level.width.b32 "
      "vabsdiff.s32.s32.s32 vabsdiff2.s32.u32.u32.add vabsdiff4.u32.u32.u32 vadd.u32.u32.u32.sat "
      "vadd2.s32.s32.s32 vadd4.s32.s32.s32 vavrg2.s32.s32.s32 vavrg4.u32.u32.u32 vmad.u32.u32.u32 "
      "vmax.s32.s32.s32 vmax2.s32.s32.s32 vmax4.s32.s32.s32 vmin.s32.s32.s32 vmin2.s32.s32.s32 "
      "vmin4.s32.s32.s32 vset.s32.u32.lt vset2.s32.u32.lt vset4.s32.u32.lt vshl.u32.u32.u32.clamp "
      "vshr.u32.u32.u32.wrap vsub.s32.s32.s32 vsub2.s32.s32.s32 vsub4.s32.s32.s32 xor.b16 "
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 mbarrier.pending_count.b64 "
      "ld.const.u32 ld.param.u32 ld.param::entry.b64" },
    { "-RW-LB", "t", "activemask.b32" },
    { "-RWO-B", "t",
      "shfl.sync.idx.b32 shfl.bfly.b32 vote.sync.ballot.b32 vote.all.pred "
      "match.all.sync.b64 redux.sync.add.u32 setmaxnreg.inc.sync.aligned.u32 bar.warp.sync" },
    { "-RWO-B", "[t]",
      "wgmma.fence.sync.aligned wgmma.commit_group.sync.aligned wgmma.wait_group.sync.aligned "
      "tcgen05.wait::ld.sync.aligned tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned "
      "tcgen05.dealloc.cta_group::2.sync.aligned.b32" },
    { "-RW--B", "t",
      "elect.sync match.any.sync.b32 shfl.sync.down.b32 shfl.up.b32 "
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "movmatrix.sync.aligned.m8n8.trans.b16 "
      "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32" },
    { "--WOLB", "t",
      "ld.u32 ld.global.u32 ld.weak.shared::cluster.u32 ld.global.nc.L1::no_allocate.u32 "
      "ldu.global.u32 "
      "tex.2d.v4.f32.f32 tld4.r.2d.v4.f32.f32 suld.b.1d.b32.clamp "
      "multimem.ld_reduce.weak.global.add.f32" },
    { "--W-LB", "t",
      "ld.local.u32 ld.volatile.shared.u32 ld.relaxed.gpu.global.u32 ld.acquire.sys.u32 "
      "ld.mmio.relaxed.sys.global.u32 multimem.ld_reduce.relaxed.gpu.global.add.f32 "
      "mbarrier.test_wait.shared.b64 mbarrier.try_wait.parity.acquire.cta.shared::cta.b64" },
    { "--W--B", "t",
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 wmma.load.a.sync.aligned.row.m16n16k16.f16 "
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16" },
    { "-R-OLB", "[t]",
      "st.u32 st.global.u32 st.volatile.global.u32 st.release.gpu.u32 st.bulk.weak.shared::cta "
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 sust.b.1d.b32.clamp "
      "discard.global.L2 multimem.st.global.f32 "
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128" },
    { "-R-O-B", "[t]",
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 wmma.store.d.sync.aligned.row.m16n16k16.global.f32 "
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32" },
    { "---OLB", "[t]",
      "red.add.u32 red.relaxed.gpu.global.add.u32 multimem.red.global.add.f32 "
      "sured.b.add.1d.u32.clamp "
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 "
      "cp.async.ca.shared.global cp.async.mbarrier.arrive.noinc.shared.b64 "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 "
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group "
      "tensormap.replace.tile.rank.global.b1024.b32 mbarrier.init.shared.b64 mbarrier.inval.b64 "
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 "
      "mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 "
      "tcgen05.mma.cta_group::1.kind::f16 tcgen05.mma.ws.cta_group::1.kind::tf32 "
      "tcgen05.cp.cta_group::1.128x256b tcgen05.shift.cta_group::1.down "
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64" },
    { "---O-B", "[t]",
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "tcgen05.st.sync.aligned.32x32b.x1.b32" },
    { "----LB", "t",
      "atom.add.u32 atom.acquire.gpu.global.cas.b32 atom.shared::cluster.exch.b128 "
      "mbarrier.arrive.shared.b64 mbarrier.arrive_drop.release.cta.shared::cta.b64" },
    { "-----B", "t", "tcgen05.ld.sync.aligned.32x32b.x1.b32" },
    { "-RWOLB", "t",
      "alloca.u64 stacksave.u64 stackrestore.u64 nanosleep.u32 pmevent.mask cp.async.wait_group "
      "cp.async.bulk.wait_group.read" },
    { "-RWOLB", "[t]",
      "applypriority.global.L2::evict_normal brkpt fence.acq_rel.gpu fence.proxy.async.global "
      "fence.proxy.tensormap::generic.acquire.gpu fence.mbarrier_init.release.cluster "
      "fence.acquire.sync_restrict::shared::cluster.cluster membar.gl griddepcontrol.wait "
      "prefetch.L1 prefetch.tensormap prefetchu.L1 trap cp.async.commit_group "
      "cp.async.wait_all cp.async.bulk.commit_group cp.async.bulk.prefetch.L2.global "
      "cp.async.bulk.prefetch.tensor.2d.L2.global.tile tcgen05.fence::before_thread_sync" },
    { "-RWO--", "t",
      "bar.sync bar.cta.sync bar.arrive barrier.sync barrier.cta.sync.aligned "
      "barrier.cluster.arrive.release barrier.cluster.wait.acquire.aligned bar.red.popc.u32 "
      "barrier.cta.red.and.pred" },
    { "---O--", "(t), f", "call call.uni" },
    // Trusted where something is said, and the worst where nothing is.
    { "PRWO--", "t",
      "newop.b32 addx.u32 ld2.global.u32 ldmatrix2.sync.aligned.b16 bars.sync atomic.add.u32 "
      "new.sync.b32 st_bulk.shared.u32 cpy.async mbar.init prefetch2.L1 wgmma2.mma_async "
      "elected.sync" },
};

TEST(instructions_are_known)
{
    unsigned failed = 0;

    for (size_t k = 0; k < sizeof families / sizeof *families; k++)
        for (const char *at = families[k].mnemonics; *at; at += strspn(at, " ")) {
            char mnemonic[100], found[7];
            const size_t length = strcspn(at, " ");
            snprintf(mnemonic, sizeof mnemonic, "%.*s", (int)length, at);
            find_claims(mnemonic, families[k].operand, found);
            if (strcmp(found, families[k].claims) != 0) {
                print_error("%s: %s, and not %s\n", mnemonic, found, families[k].claims);
                failed++;
            }
            at += length;
        }
    assert_int_equal(failed, 0);
}

static ptx_ptr shared_of(ptx_builder *b)
{
    return ptx_shared(b, PTX_U32, 64);
}

static ptx_ptr global_of(ptx_builder *b)
{
    return ptx_ptr_from(b, PTX_U32, PTX_SPACE_GLOBAL, ptx_u64(256));
}

#define REFUSED(text, words, ...)                                                                  \
    REFUSED_AT(90, ptx_asm(b, text, __VA_ARGS__), "k: ptx_asm: ", words)
#define TAKEN(text, ...)                                                                           \
    do {                                                                                           \
        ptx_builder *b = builder_at(90);                                                           \
        ptx_entry (b, "k", .block = { 64 })                                                        \
            ptx_asm(b, text, __VA_ARGS__);                                                         \
        EXPECT_LINES(b, "ret;");                                                                   \
    } while (0)
#define RESULT .result = { PTX_U32 }

TEST(claims_are_held_against_the_table)
{
    REFUSED("discard.global.L2 [%0], 128;", "'discard.global.L2' writes memory, which .writes of",
            .at = { global_of(b) }, .writes = PTX_MEMORY_NONE);
    REFUSED("activemask.b32 %0;", "'activemask.b32' differs between lanes, which .pure excludes",
            RESULT, .pure = true);
    REFUSED(
        "activemask.b32 %0;",
        ".divergence says that results are the same in a block, and the text uses activemask.b32, "
        "which differs between threads",
        RESULT, .divergence = PTX_DIVERGENCE_NONE);
    REFUSED("activemask.b32 %0;", ".divergence says that results are the same in a warp", RESULT,
            .divergence = PTX_DIVERGENCE_WARPS);
    REFUSED("{ .reg .u32 t; mov.u32 t, %%tid.x; mov.u32 %0, %%lanemask_lt; }",
            ".divergence says that results are the same in a warp", RESULT,
            .divergence = PTX_DIVERGENCE_WARPS);
    REFUSED("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [0];",
            "needs all threads of a warp together, which .convergence excludes", RESULT,
            .convergence = PTX_CONVERGENCE_NONE);
    REFUSED("{ .local .b32 l[4]; ld.local.u32 %0, [l]; }",
            ".divergence says that results differ only where an operand does, and the text uses "
            "ld.local.u32",
            RESULT, .divergence = PTX_DIVERGENCE_OPERANDS);
    REFUSED("{ .local .b32 l[4]; ld.local.u32 %0, [l]; }", "'ld.local.u32' reads memory", RESULT,
            .reads = PTX_MEMORY_NONE);
    REFUSED("atom.global.add.u32 %0, [%1], 1;", "and the text uses atom.global.add.u32", RESULT,
            .at = { global_of(b) }, .divergence = PTX_DIVERGENCE_NONE);
    REFUSED("{ .reg .pred q; elect.sync _|q, -1; selp.u32 %0, 1, 0, q; }",
            "and the text uses elect", RESULT, .divergence = PTX_DIVERGENCE_NONE);
    REFUSED(
        "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%0], [%1];",
        "'clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128' writes memory",
        .at = { shared_of(b), shared_of(b) }, .writes = PTX_MEMORY_GLOBAL);
    REFUSED("{ .reg .b32 t; mov.b32 t, %%tid.x; activemask.b32 %0; }",
            "and the text uses activemask", RESULT, .divergence = PTX_DIVERGENCE_WARPS);
    REFUSED("shfl.sync.up.b32 %0, 1, 1, 0, -1;", "and the text uses shfl.sync.up.b32", RESULT,
            .divergence = PTX_DIVERGENCE_NONE);
    REFUSED("nanosleep.u32 20; mov.u32 %0, 1;",
            "'nanosleep.u32' has an effect beside its results, which .pure excludes", RESULT,
            .pure = true);
    REFUSED("vote.sync.any.pred %0, 1, -1;",
            "'vote.sync.any.pred' needs other threads, which .pure", .result = { PTX_PRED },
            .pure = true);
    REFUSED("@%0 new.op;",
            "'new.op' is not known to the builder, may need all threads of a block, "
            "and has a guard",
            .in = { p });
    // Spaces: what is written comes first, what is read last; some are in shared memory always.
    REFUSED("cp.async.ca.shared.global [%0], [%1], 4;", "'cp.async.ca.shared.global' reads memory",
            .at = { shared_of(b), global_of(b) }, .reads = PTX_MEMORY_SHARED);
    REFUSED("cp.async.ca.shared.global [%0], [%1], 4;", "'cp.async.ca.shared.global' writes memory",
            .at = { shared_of(b), global_of(b) }, .writes = PTX_MEMORY_GLOBAL);
    REFUSED("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 16;",
            "'cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32' reads memory",
            .at = { global_of(b), shared_of(b) }, .reads = PTX_MEMORY_SHARED);
    REFUSED("mbarrier.init.b64 [%0], 1;", "'mbarrier.init.b64' writes memory",
            .in = { ptx_u64(64) }, .writes = PTX_MEMORY_GLOBAL);
    REFUSED("st.bulk.weak.shared::cta [%0], 64, 0;",
            "'st.bulk.weak.shared::cta' is of shared memory, and .at[0] points to global memory",
            .at = { global_of(b) });
    REFUSED("discard.L2 [%0], 128;",
            "'discard.L2' is of generic memory, and .at[0] points to shared",
            .at = { shared_of(b) });
}

TEST(claims_that_hold_are_taken)
{
    TAKEN("activemask.b32 %0;", RESULT, .divergence = PTX_DIVERGENCE_WARPS,
          .convergence = PTX_CONVERGENCE_WARP);
    TAKEN("{ .reg .b32 t; atom.global.add.u32 t, [%1], 1; shfl.sync.idx.b32 %0, t, 0, 31, -1; }",
          RESULT, .at = { global_of(b) }, .divergence = PTX_DIVERGENCE_WARPS);
    TAKEN("mbarrier.arrive.shared.b64 _, [%1]; mov.u32 %0, 1;", RESULT, .at = { shared_of(b) },
          .divergence = PTX_DIVERGENCE_NONE);
    TAKEN("fence.acquire.sync_restrict::shared::cluster.cluster; @%1 mov.u32 %0, 1;\n"
          "@!%1 fence.acq_rel.gpu; @!%1 mov.u32 %0, 2;",
          RESULT, .in = { ptx_bool(true) }, .reads = PTX_MEMORY_NONE, .writes = PTX_MEMORY_NONE);
    TAKEN("new.op.sync.u32 %0, 1;", RESULT, .pure = true);
    TAKEN("@%1 new.op %0; mov.u32 %0, 1;", RESULT, .in = { ptx_bool(true) },
          .convergence = PTX_CONVERGENCE_NONE);
    TAKEN("{ new.op %0; .reg .u32 t; mov.u32 t, %%tid.x; }", RESULT,
          .divergence = PTX_DIVERGENCE_NONE);
    TAKEN("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 16;",
          .at = { global_of(b), shared_of(b) }, .writes = PTX_MEMORY_GLOBAL);
}

// The parameters of a function are those of its callers.
TEST(parameters_of_functions_vary)
{
    for (int function = 0; function < 2; function++) {
        ptx_builder *b = builder_at(80);
        if (function)
            ptx_func (b, "f", .result = PTX_U32) {
                ptx_param(b, PTX_U32, "n");
                ptx_return_value(b, ptx_asm(b, "ld.param.u32 %0, [n];", RESULT, .pure = true));
            }
        ptx_entry (b, "k") {
            ptx_val n = ptx_param(b, PTX_U32, "m");
            ptx_asm(b, "ld.param.u32 %0, [m]; add.u32 %0, %0, %1;", RESULT, .in = { n },
                    .pure = true);
        }
        if (function)
            EXPECT_ERROR(b,
                         "f: ptx_asm: 'ld.param.u32' differs between lanes, which .pure excludes");
        else
            EXPECT_LINES(b, "ret;");
    }
}

// A result is set on each way through the text.
TEST(results_are_set_on_each_way)
{
    static const struct {
        const char *text, *words; // NULL: accepted
    } cases[] = {
        { "{ @%1 bra x; mov.u32 %0, 1; x: }",
          "is set only where no branch of the text skips it, and undefined" },
        { "{ bra x; mov.u32 %0, %1; x: }", "no branch" },
        { "{ @%1 bra x; mov.u32 %0, 1; bra y; x: y: }", "no branch" },
        { "{ @%1 bra x; mov.u32 %0, 1; bra y; x: mov.u32 %0, 2; y: }", NULL },
        { "{ @%1 bra x; { mov.u32 %0, 1; bra.uni y; } x: mov.u32 %0, 2; y: trap; }", NULL },
        { "{ @%1 bra x; mov.u32 %0, 1; bra y; x: trap; y: }", NULL },
        { "{ @%1 bra x; mov.u32 %0, 1; bra y; x: @%1 trap; y: }", "no branch" },
        { "{ mov.u32 %0, 2; @%1 bra x; mov.u32 %0, 1; x: }", NULL },
        { "{ @%1 bra x; x: mov.u32 %0, 1; }", NULL },
        { "{ x: mov.u32 %0, 1; @%1 bra x; }", NULL },
        { "{ bra y; x: mov.u32 %0, 1; bra z; y: @%1 bra x; bra x; z: }", NULL },
        { "{ bra y; x: mov.u32 %0, 1; bra z; y: @%1 bra x; z: }", "no branch" },
        { "{ { @%1 bra x; mov.u32 %0, 1; x: } } ", "no branch" },
        { "{ t: .branchtargets x, y; brx.idx 0, t; x: mov.u32 %0, 1; y: @%1 trap; }", "no branch" },
        { "{ t: .branchtargets x, y; brx.idx 0, t; x: y: t2: @%1 trap; mov.u32 %0, 1; }", NULL },
        { "@%1 mov.u32 %0, 1;", "is set under a guard only" },
        { "@%1 mov.u32 %0, 1; @!%1 mov.u32 %0, 2;", NULL },
        { "{ @%1 bra x; @!%1 mov.u32 %0, 1; x: @%1 mov.u32 %0, 2; }", NULL },
        { "{ @%1 bra x; @%1 mov.u32 %0, 1; x: @!%1 mov.u32 %0, 2; }", "under a guard only" },
        { "{ .reg .pred q; mov.pred q, %1; @q mov.u32 %0, 1; @!q mov.u32 %0, 2; }", NULL },
        { "{ .reg .pred q; mov.pred q, %1; @q mov.u32 %0, 1; not.pred q, q; @!q mov.u32 %0, 2; }",
          "under a guard only" },
        { "{ .reg .pred q, qq; mov.pred q, %1; @q mov.u32 %0, 1; not.pred qq, q; @!q mov.u32 %0, "
          "2; }",
          NULL },
        { "{ .reg .pred q; mov.pred q, %1; @q mov.u32 %0, 1; not.pred q, q; mov.u32 %0, 2; }",
          NULL },
        { "@%1 nanosleep.u32 %0;", "no statement of the text sets %0" },
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NEW_ENTRY (b, 80)
            ptx_asm(b, cases[k].text, RESULT, .in = { ptx_bool(true) });
        if (cases[k].words)
            EXPECT_ERROR(b, "k: ptx_asm: ", cases[k].words);
        else
            EXPECT_LINES(b, "ret;");
    }
}
