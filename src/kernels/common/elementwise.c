// SPDX-License-Identifier: MIT
#include "elementwise.h"

static ptx_val all_aligned_alike(ptx_builder *b, const struct tensors *t)
{
    ptx_ptr tensors[MAX_INPUTS + MAX_OUTPUTS];

    for (unsigned k = 0; k < t->inputs + t->outputs; k++)
        tensors[k] = k < t->inputs ? t->in[k] : t->out[k - t->inputs];
    return ptxk_aligned_alike(b, tensors, t->inputs + t->outputs);
}

static void move_to_block(ptx_builder *b, struct tensors *t, ptx_val start)
{
    const ptx_val first = ptx_ptr_address(b, t->in[0]);

    for (unsigned k = 0; k < t->inputs; k++)
        t->in[k] = ptx_at(b, t->in[k], start);
    for (unsigned k = 0; k < t->outputs; k++) {
        const bool in_place = ptx_ptr_address(b, t->out[k]).reg == first.reg;
        t->out[k] = in_place ? t->in[0] : ptx_at(b, t->out[k], start);
    }
}

static struct elements elements_of_thread(ptx_builder *b, ptx_val n, const struct tensors *tensors)
{
    struct elements e = { .of = *tensors };
    const unsigned lanes = ptxk_vector_lanes((ptx_type)tensors->in[0].type);
    const uint32_t size = tensors->block * lanes;

    ptx_comment(b, "this thread's elements: 16 bytes, aligned where the data begins unaligned too");
    ptx_val alike = all_aligned_alike(b, tensors);
    ptx_val skew = ptxk_elements_beyond_boundary(b, tensors->in[0]);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, size);
    ptx_val start = ptx_sub(b, first, skew); // block 0 starts before the tensor: wraps around
    ptx_val left = ptx_bitcast(b, PTX_S64, ptx_sub(b, n, start));
    e.end = ptx_cvt(b, PTX_S32, ptx_min(b, left, size));
    ptx_val outside = ptx_cvt(b, PTX_S32, skew);
    e.head = ptx_select(b, ptx_eq(b, block, 0), outside, 0);
    move_to_block(b, &e.of, start);

    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), lanes);
    e.place = ptx_bitcast(b, PTX_S32, mine);
    e.whole = ptx_le(b, e.place, ptx_sub(b, e.end, lanes));
    e.whole = ptx_and(b, e.whole, ptx_ge(b, e.place, e.head));
    if (alike.kind != PTX_KIND_POISON)
        e.whole = ptx_and(b, e.whole, alike);
    return e;
}

static void read_vectors(ptx_builder *b, const struct elements *e)
{
    ptx_val i = ptx_bitcast(b, PTX_U32, e->place);

    for (unsigned t = 0; t < e->of.inputs; t++)
        ptxk_lanes_read(b, &e->in[t], ptx_at(b, e->of.in[t], i));
}

struct elements ptxk_read_elements(ptx_builder *b, ptx_val n, const struct tensors *tensors)
{
    const ptx_type dtype = (ptx_type)tensors->in[0].type;
    struct elements e = elements_of_thread(b, n, tensors);
    ptx_val now = e.whole;

    ptx_comment(b, "a whole vector is read at once; of others these stay 0");
    for (unsigned t = 0; t < tensors->inputs; t++)
        e.in[t] = ptxk_lanes_var(b, dtype, ptxk_vector_lanes(dtype));
    if (tensors->early.kind != PTX_KIND_POISON)
        now = ptx_and(b, now, tensors->early);
    ptx_if (b, now)
        read_vectors(b, &e);
    return e;
}

static void write_lanes(ptx_builder *b, const struct elements *e, compute_lanes *compute,
                        const void *user, ptx_val i, const ptx_vec *in)
{
    ptx_vec out[MAX_OUTPUTS];

    for (unsigned t = 0; t < e->of.outputs; t++)
        out[t] = in[0];
    compute(b, user, in, out);
    if (in->lanes > 1)
        ptx_comment(b, "written at once");
    for (unsigned t = 0; t < e->of.outputs; t++)
        ptx_store_vec(b, e->of.out[t], i, out[t]);
}

void ptxk_write_elements(ptx_builder *b, const struct elements *e, compute_lanes *compute,
                         const void *user)
{
    const ptx_type dtype = (ptx_type)e->of.in[0].type;
    const unsigned width = ptxk_vector_lanes(dtype);
    ptx_vec in[MAX_INPUTS];

    ptx_if (b, e->whole) {
        if (e->of.early.kind != PTX_KIND_POISON) {
            ptx_if (b, ptx_not(b, e->of.early))
                read_vectors(b, e);
        }
        ptx_comment(b, "a whole vector");
        for (unsigned t = 0; t < e->of.inputs; t++)
            in[t] = ptxk_lanes_vec(b, &e->in[t]);
        write_lanes(b, e, compute, user, ptx_bitcast(b, PTX_U32, e->place), in);
    }
    ptx_else (b) {
        ptx_comment(b, "part of a vector, or unaligned: one element after the other");
        ptx_val lo = ptx_max(b, e->place, e->head);
        ptx_val hi = ptx_min(b, ptx_add(b, e->place, width), e->end);
        ptx_for (b, i, lo, hi, 1) {
            for (unsigned t = 0; t < e->of.inputs; t++)
                in[t] = ptx_load_vec(b, e->of.in[t], i, 1);
            write_lanes(b, e, compute, user, i, in);
        }
    }
}
