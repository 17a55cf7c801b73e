// SPDX-License-Identifier: MIT
// The pipeline that clip plans replace, as a baseline for the peers: one launch for each tensor,
// one element per thread, and a single thread that adds the partial sums. Prints its module:
//
//     squared_sum   a launch for each tensor: partials[block] = sum of x^2 over the block, in f32
//     reduce        one thread: record = { scale, norm }
//     clip          a launch for each tensor: x * scale
//
//     original DTYPE [TARGET]      f32, bf16 or f16; sm_80 unless given
#include <ptxgen/builder.h>

#include <stdio.h>

enum { BLOCK = 256 };

static ptx_val element_of_thread(ptx_builder *b)
{
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val tid = ptx_cvt(b, PTX_U64, ptx_tid(b, PTX_X));
    return ptx_mad_wide(b, block, ptx_u32(BLOCK), tid);
}

static ptx_val square_or_zero(ptx_builder *b, ptx_ptr x, ptx_val i, ptx_val n)
{
    ptx_val square = ptx_var(b, ptx_f32(0));
    ptx_if (b, ptx_lt(b, i, n)) {
        ptx_val value = ptx_cvt(b, PTX_F32, ptx_load(b, x, i));
        ptx_set(b, square, ptx_mul(b, value, value));
    }
    return square;
}

static void squared_sum(ptx_builder *b, ptx_type dtype)
{
    ptx_entry (b, "squared_sum", .block = { BLOCK }) {
        ptx_ptr x = ptx_param_ptr(b, dtype, "x", .length = "n", .readonly = true);
        ptx_val n = ptx_param(b, PTX_U64, "n");
        ptx_ptr partials = ptx_param_ptr(b, PTX_F32, "partials", .meaning = "one a block");
        ptx_ptr sums = ptx_shared(b, PTX_F32, BLOCK);

        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_val i = element_of_thread(b);
        ptx_store(b, sums, tid, square_or_zero(b, x, i, n));
        ptx_barrier(b);
        for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
            ptx_if (b, ptx_lt(b, tid, ptx_u32(half))) {
                ptx_val mine = ptx_load(b, sums, tid);
                ptx_val other = ptx_load(b, sums, ptx_add(b, tid, ptx_u32(half)));
                ptx_store(b, sums, tid, ptx_add(b, mine, other));
            }
            ptx_barrier(b);
        }
        ptx_if (b, ptx_eq(b, tid, ptx_u32(0))) {
            ptx_val sum = ptx_load(b, sums, ptx_u32(0));
            ptx_store(b, partials, ptx_ctaid(b, PTX_X), sum);
        }
    }
}

static void reduce(ptx_builder *b)
{
    ptx_entry (b, "reduce", .block = { 1 }) {
        ptx_ptr partials = ptx_param_ptr(b, PTX_F32, "partials", .length = "n", .readonly = true);
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_val max_norm = ptx_param(b, PTX_F32, "max_norm");
        ptx_val unscale = ptx_param(b, PTX_F32, "unscale", .meaning = "multiplies the scale");
        ptx_ptr record = ptx_param_ptr(b, PTX_F32, "record", .meaning = "scale, norm");

        ptx_val sum = ptx_var(b, ptx_f32(0));
        ptx_for (b, i, ptx_u32(0), n, ptx_u32(1))
            ptx_set(b, sum, ptx_add(b, sum, ptx_load(b, partials, i)));
        ptx_val norm = ptx_sqrt(b, sum);
        ptx_val scale = ptx_min(b, ptx_f32(1), ptx_div(b, max_norm, norm));
        ptx_store(b, record, ptx_u32(0), ptx_mul(b, scale, unscale));
        ptx_store(b, record, ptx_u32(1), norm);
    }
}

static void clip(ptx_builder *b, ptx_type dtype)
{
    ptx_entry (b, "clip", .block = { BLOCK }) {
        ptx_ptr x = ptx_param_ptr(b, dtype, "x", .length = "n");
        ptx_val n = ptx_param(b, PTX_U64, "n");
        ptx_ptr record = ptx_param_ptr(b, PTX_F32, "record", .readonly = true);

        ptx_val scale = ptx_load(b, record, ptx_u32(0));
        ptx_return_if(b, ptx_eq(b, scale, ptx_f32(1)));
        ptx_val i = element_of_thread(b);
        ptx_return_if(b, ptx_ge(b, i, n));
        ptx_val value = ptx_cvt(b, PTX_F32, ptx_load(b, x, i));
        ptx_store(b, x, i, ptx_cvt(b, dtype, ptx_mul(b, value, scale)));
    }
}

int main(int argc, char **argv)
{
    struct ptx_builder_params params = { .target = { .sm = 80 } };
    const ptx_type dtype = argc > 1 ? ptx_type_parse(argv[1]) : PTX_NONE;

    if (!(dtype == PTX_F32 || dtype == PTX_F16 || dtype == PTX_BF16) ||
        (argc > 2 && !ptx_target_parse(argv[2], &params.target))) {
        fputs("usage: original f32|f16|bf16 [TARGET]\n", stderr);
        return 2;
    }
    ptx_builder *b = ptx_builder_create(&params);
    squared_sum(b, dtype);
    reduce(b);
    clip(b, dtype);
    const char *text = ptx_builder_finish(b);
    if (text)
        fputs(text, stdout);
    else
        fprintf(stderr, "original: %s\n", b ? ptx_builder_error(b) : "out of memory");
    ptx_builder_destroy(&b);
    return text ? 0 : 1;
}
