// SPDX-License-Identifier: MIT
#include "common/elementwise.h"
#include "common/quantizer.h"
#include "kernel_code.h"

enum { BLOCK = 256 };
enum { OPTION_SCALARS = QUANTIZER_OPTIONS };

struct of_tensor {
    const struct ptx_kernel_spec *spec;
    struct quantizer quantizer;
};

static void pass_through(ptx_builder *b, const void *user, const ptx_vec *in, ptx_vec *dx)
{
    const struct of_tensor *t = user;
    const struct quantizers same = ptxk_quantizers_same(&t->quantizer, NULL);

    *dx = ptxk_straight_through(b, t->spec, &same, in);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const bool device = spec->option[OPTION_SCALARS];
    const ptx_type compute = ptxk_compute_type(spec->dtype);
    struct of_tensor t = { .spec = spec };
    struct tensors tensors = { .inputs = 2, .outputs = 1, .block = BLOCK };

    ptxk_backward_params(b, spec->dtype, tensors.in, &tensors.out[0]);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    struct elements elements = ptxk_read_elements(b, n, &tensors);
    ptx_val scale = ptxk_scalar_param(
        b, compute, device,
        (struct ptx_param_info) { .name = "scale",
                                  .meaning = "step of the quantizer",
                                  .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE });
    ptx_val zero_point = ptxk_scalar_param(b, PTX_S32, device, ptxk_zero_point_info(spec));
    zero_point = ptx_cvt(b, PTX_S64, zero_point);
    struct levels levels = ptxk_target_levels(b, spec);
    t.quantizer = ptxk_quantizer_of_block(b, spec, scale, zero_point, levels);
    ptxk_write_elements(b, &elements, pass_through, &t);
}

const ptx_kernel ptx_kernel_quantize_ste_backward = {
    .name = "quantize_ste_backward",
    .summary = "straight-through gradient of a per-tensor quantizer",
    .formula = "d_input = q_min <= rint(x / scale) + zero_point <= q_max ? d_output / scale : 0",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = {
        QUANTIZER_OPTION_ROWS,
        [OPTION_SCALARS] = { "scalars",
                             { "value", "device" },
                             "scale and zero_point by value, or by their addresses" },
    },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
