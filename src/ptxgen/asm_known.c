// SPDX-License-Identifier: MIT
// What is known of PTX's instructions, up to PTX ISA 9.0.
#include "asm_text.h"

// The names of a row stand for the instructions that begin with them, part by part, up to a longer
// name of another row. What ops.h has a row for computes a value, and is not here.
static const struct {
    unsigned facts;
    const char *names;
} rows[] = {
    { 0, // values that depend on the operands alone
      "addc clusterlaunchcontrol.query_cancel cnot createpolicy cvt cvta dp2a fns getctarank "
      "isspacep istypep mad24 madc mapa mbarrier.pending_count mov mul24 set setp slct subc suq "
      "txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 "
      "vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4" },
    { ASM_SOURCE, "bra brx" },
    { ASM_LANES, "activemask" },
    { ASM_WARP, "match redux shfl vote" },
    { ASM_LANES | ASM_WARP,
      "elect match.any mma movmatrix shfl.down shfl.sync.down shfl.sync.up shfl.up wmma" },
    { ASM_READS, "ld ldu multimem.ld_reduce suld tex tld4" },
    { ASM_READS | ASM_LANES | ASM_WARP, "wmma.load" },
    { ASM_READS | ASM_SHARED | ASM_LANES, "mbarrier.test_wait mbarrier.try_wait" },
    { ASM_READS | ASM_SHARED | ASM_LANES | ASM_WARP, "ldmatrix wgmma.mma_async" },
    { ASM_WRITES, "discard multimem.st st sust" },
    { ASM_WRITES | ASM_WARP, "wmma.store" },
    { ASM_WRITES | ASM_SHARED, "clusterlaunchcontrol.try_cancel st.bulk tcgen05.alloc" },
    { ASM_WRITES | ASM_SHARED | ASM_WARP, "stmatrix" },
    { ASM_READS | ASM_WRITES, "cp multimem.red red sured tensormap" },
    { ASM_READS | ASM_WRITES | ASM_UPDATES, "cp.reduce" },
    { ASM_READS | ASM_WRITES | ASM_LANES, "atom" },
    { ASM_READS | ASM_WRITES | ASM_SHARED, "cp.async.mbarrier" },
    { ASM_READS | ASM_WRITES | ASM_SHARED | ASM_LANES, "mbarrier tcgen05" },
    { ASM_READS | ASM_WRITES | ASM_BLOCK, "call" },
    { ASM_EFFECT,
      "alloca applypriority brkpt cp.async.bulk.commit_group cp.async.bulk.prefetch "
      "cp.async.commit_group cp.async.wait_all exit fence griddepcontrol membar prefetch prefetchu "
      "ret stacksave tcgen05.fence tcgen05.relinquish_alloc_permit tcgen05.wait trap" },
    { ASM_EFFECT | ASM_SOURCE,
      "cp.async.bulk.wait_group cp.async.wait_group nanosleep pmevent setmaxnreg stackrestore "
      "tcgen05.dealloc" },
    { ASM_EFFECT | ASM_SOURCE | ASM_WARP,
      "bar.warp wgmma.commit_group wgmma.fence wgmma.wait_group" },
    { ASM_EFFECT | ASM_SOURCE | ASM_BLOCK, "bar barrier" },
    { ASM_EFFECT | ASM_BLOCK, "bar.cta.red bar.red barrier.cta.red barrier.red" },
};

bool ptxb_asm_begins(struct asm_mnemonic m, const char *parts, size_t length)
{
    return m.length >= length && !memcmp(m.at, parts, length) &&
           (m.length == length || m.at[length] == '.' || m.at[length] == ':');
}

bool ptxb_asm_has(struct asm_mnemonic m, const char *part)
{
    while (m.length) {
        m.length--;
        if (*m.at++ == '.' && asm_is(m, part))
            return true;
    }
    return false;
}

// Whether a row of ops.h is spelled so.
static bool is_of_builder(struct asm_mnemonic m)
{
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++) {
        const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)op);
        for (size_t k = 0; info->shape && k < info->form_count; k++) {
            const char *const text = info->forms[k].text;
            if (*text == *m.at && ptxb_asm_begins(m, text, strcspn(text, ".%")))
                return true;
        }
    }
    return false;
}

unsigned ptxb_asm_facts(struct asm_mnemonic m)
{
    static const char *const changing[] = { "acquire", "local", "mmio", "relaxed", "volatile" };
    unsigned facts = ASM_UNKNOWN;
    size_t longest = 0;

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (const char *name = rows[k].names; *name; name++) {
            if (*name != *m.at || (name > rows[k].names && name[-1] != ' '))
                continue;
            const size_t length = strcspn(name, " ");
            if (length > longest && ptxb_asm_begins(m, name, length)) {
                longest = length;
                facts = rows[k].facts;
            }
        }
    if (facts == ASM_UNKNOWN && !is_of_builder(m))
        return facts;
    facts &= ~(unsigned)ASM_UNKNOWN; // of a row of ops.h
    if (!(facts & ASM_BLOCK) && (ptxb_asm_has(m, "sync") || ptxb_asm_has(m, "aligned")))
        facts |= ASM_WARP;
    // A load of a thread's own memory, or of memory that others change, is not the same for all.
    for (size_t k = 0; facts & ASM_READS && k < sizeof changing / sizeof *changing; k++)
        facts |= ptxb_asm_has(m, changing[k]) ? ASM_LANES : 0;
    return facts;
}

bool ptxb_asm_varies(const char *name)
{
    static const struct {
        const char *name;
        bool varies;
    } registers[] = {
#define VECTOR(name, text, meaning, isa, sm, varies)       { text, varies },
#define SCALAR(name, text, type, meaning, isa, sm, varies) { text, varies },
        PTX_SPECIAL_VECTORS(VECTOR) PTX_SPECIAL_SCALARS(SCALAR)
#undef SCALAR
#undef VECTOR
    };

    // %clock stands for %clock_hi, too, %tid for %tid.x.
    for (size_t k = 0; k < sizeof registers / sizeof *registers; k++)
        if (registers[k].varies && !strncmp(name, registers[k].name, strlen(registers[k].name)))
            return true;
    return name[1] == 'p' && name[2] == 'm' && asm_is_digit(name[3]);
}
