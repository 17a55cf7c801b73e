// SPDX-License-Identifier: MIT
#include "common/elementwise.h"
#include "common/fake_quantizer.h"
#include "kernel_code.h"

enum { BLOCK = 256 };
enum { OPTION_SCALARS = FAKE_OPTIONS };

struct of_tensor {
    const struct ptx_kernel_spec *spec;
    struct quantizer quantizer;
};

static void quantize(ptx_builder *b, const void *user, const ptx_vec *in, ptx_vec *y)
{
    const struct of_tensor *t = user;
    const struct quantizers same = ptxk_quantizers_same(&t->quantizer, NULL);

    *y = ptxk_fake_quantize(b, t->spec, &same, in);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const bool device = spec->option[OPTION_SCALARS];
    struct of_tensor t = { .spec = spec };
    struct tensors tensors = { .inputs = 1, .outputs = 1, .block = BLOCK };

    tensors.in[0] = ptx_param_ptr(b, spec->dtype, "x", .meaning = "to be quantized", .length = "n",
                                  .readonly = true);
    tensors.out[0] =
        ptx_param_ptr(b, spec->dtype, "y", .meaning = "the quantized x, scaled back; may be x",
                      .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    struct elements elements = ptxk_read_elements(b, n, &tensors);
    ptx_val scale = ptxk_scalar_param(
        b, ptxk_compute_type(spec->dtype), device,
        (struct ptx_param_info) { .name = "scale",
                                  .meaning = "step of the quantizer",
                                  .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE });
    ptx_val zero_point =
        ptxk_scalar_param(b, ptxk_fake_zero_point_type(spec), device, ptxk_fake_zero_point_info());
    struct levels levels = ptxk_any_levels(b);
    t.quantizer = ptxk_fake_quantizer_of(b, spec, scale, zero_point, levels);
    ptxk_write_elements(b, &elements, quantize, &t);
}

const ptx_kernel ptx_kernel_fake_quantize = {
    .name = "fake_quantize",
    .summary = "quantizes and scales back, with a scale for the tensor",
    .formula = "y = (clamp(rint(x / scale) + zero_point, q_min, q_max) - zero_point) * scale",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { FAKE_OPTION_ROWS,
                 [OPTION_SCALARS] = { "scalars",
                                      { "value", "device" },
                                      "scale and zero_point by value, or by their addresses" } },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN x has the least level",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
