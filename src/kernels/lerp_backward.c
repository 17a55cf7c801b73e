// SPDX-License-Identifier: MIT
#include "common/elementwise.h"
#include "kernel_code.h"

enum { BLOCK = 256 };
enum { OPTION_OUTPUTS, OPTION_WEIGHT };
enum { OUTPUTS_BOTH, OUTPUTS_DA, OUTPUTS_DB };

struct factors {
    ptx_val of[MAX_OUTPUTS]; // the factor of d_output for each output
    unsigned count;
};

static void multiply(ptx_builder *b, const void *user, const ptx_vec *dy, ptx_vec *gradients)
{
    const struct factors *factors = user;
    const ptx_type dtype = (ptx_type)dy->lane[0].type;

    for (unsigned o = 0; o < factors->count; o++) {
        for (unsigned k = 0; k < dy->lanes; k++) {
            ptxk_comment_lanes(b, "a gradient", k, ptxk_comment_each(b),
                               dy->lanes > 1 ? dy->lanes : 0);
            ptx_val wide = ptx_cvt(b, (ptx_type)factors->of[o].type, dy->lane[k]);
            ptx_val product = ptx_mul(b, factors->of[o], wide);
            gradients[o].lane[k] = ptx_cvt(b, dtype, product);
        }
    }
}

static ptx_ptr output(ptx_builder *b, const struct ptx_kernel_spec *spec, const char *name)
{
    return ptx_param_ptr(b, spec->dtype, name, .meaning = "a gradient; may be d_output",
                         .length = "n", .writeonly = true);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const bool want_da = spec->option[OPTION_OUTPUTS] != OUTPUTS_DB;
    const bool want_db = spec->option[OPTION_OUTPUTS] != OUTPUTS_DA;
    const ptx_type compute = ptxk_compute_type(spec->dtype);
    struct factors factors = { .count = 0 };
    struct tensors tensors = { .inputs = 1, .block = BLOCK };

    tensors.in[0] = ptx_param_ptr(b, spec->dtype, "d_output", .meaning = "gradient of the output",
                                  .length = "n", .readonly = true);
    if (want_da)
        tensors.out[tensors.outputs++] = output(b, spec, "d_a");
    if (want_db)
        tensors.out[tensors.outputs++] = output(b, spec, "d_b");
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    struct elements elements = ptxk_read_elements(b, n, &tensors);
    ptx_val weight = ptxk_scalar_param(b, PTX_F64, spec->option[OPTION_WEIGHT],
                                       (struct ptx_param_info) { .name = "weight",
                                                                 .meaning = "share of b",
                                                                 .range = PTX_RANGE_NOT_NAN });

    ptx_comment(b, "the factors; 1 - weight is formed in f64 and rounded once");
    if (want_da)
        factors.of[factors.count++] = ptx_cvt(b, compute, ptx_sub(b, 1, weight));
    if (want_db)
        factors.of[factors.count++] = ptx_cvt(b, compute, weight);
    ptxk_write_elements(b, &elements, multiply, &factors);
}

const ptx_kernel ptx_kernel_lerp_backward = {
    .name = "lerp_backward",
    .summary = "gradients of a + weight * (b - a)",
    .formula = "d_a = (1 - weight) * d_output; d_b = weight * d_output",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = {
        [OPTION_OUTPUTS] = { "outputs", { "both", "da", "db" }, "which gradients are written" },
        [OPTION_WEIGHT] = { "weight",
                            { "value", "device" },
                            "weight passed by value, or by the address of one f64" },
    },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; a product is rounded to f32 (f64 in f64), then to the type; "
                  "bit-stable at any alignment",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
