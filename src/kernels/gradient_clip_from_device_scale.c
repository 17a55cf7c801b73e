// SPDX-License-Identifier: MIT
#include <ptxgen/records.h>

#include "common/elementwise.h"
#include "kernel_code.h"

// Up to this many elements are read before it is known whether they change: one latency instead of
// two. For more elements no unnecessary reads are made.
enum { BLOCK = 256, MOST_EARLY = 1 << 18 };
enum { OPTION_NONFINITE };

struct clip {
    ptx_type dtype;
    ptx_val scale; // in the compute type
    ptx_val found; // store zeros; poisoned with other policies
};

static void clip(ptx_builder *b, const void *user, const ptx_vec *gradient, ptx_vec *clipped)
{
    const struct clip *c = user;
    const ptx_type compute = (ptx_type)c->scale.type;

    for (unsigned k = 0; k < gradient->lanes; k++) {
        ptxk_comment_lanes(b, "scaled", k, ptxk_comment_each(b), gradient->lanes);
        ptx_val wide = ptx_cvt(b, compute, gradient->lane[k]);
        ptx_val scaled = ptx_mul(b, wide, c->scale);
        if (c->found.kind != PTX_KIND_POISON)
            scaled = ptx_select(b, c->found, 0, scaled);
        clipped->lane[k] = ptx_cvt(b, c->dtype, scaled);
    }
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const bool zero = spec->option[OPTION_NONFINITE] == PTX_NONFINITE_ZERO;
    struct clip c = { .dtype = spec->dtype };

    ptx_ptr gradient =
        ptx_param_ptr(b, spec->dtype, "gradient", .meaning = "scaled in place", .length = "n");
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of the gradient");
    ptx_ptr record = ptx_param_ptr(b, PTX_F32, "record", .meaning = "scale, norm, found_inf",
                                   .length = zero ? "3" : "1", .readonly = true);

    ptx_comment(b, "few elements are read before it is known whether they are to be scaled");
    ptx_val few = ptx_le(b, n, MOST_EARLY);
    const struct tensors tensors = { .in = { gradient },
                                     .out = { gradient },
                                     .inputs = 1,
                                     .outputs = 1,
                                     .block = BLOCK,
                                     .early = few };
    struct elements elements = ptxk_read_elements(b, n, &tensors);
    ptx_comment(b, "nothing is to be done if the scale is 1");
    ptx_val scale = ptx_load(b, record, 0);
    ptx_val unchanged = ptx_eq(b, scale, 1);
    if (zero) {
        c.found = ptx_neu(b, ptx_load(b, record, 2), 0);
        unchanged = ptx_and(b, unchanged, ptx_not(b, c.found));
    }
    ptx_return_if(b, unchanged);
    c.scale = ptx_cvt(b, ptxk_compute_type(spec->dtype), scale);
    ptxk_write_elements(b, &elements, clip, &c);
}

const ptx_kernel ptx_kernel_gradient_clip_from_device_scale = {
    .name = "gradient_clip_from_device_scale",
    .summary = "a gradient multiplied by a scale that lies on the device",
    .formula = "gradient[i] = gradient[i] * scale; nothing is written if scale is exactly 1",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { [OPTION_NONFINITE] = { "nonfinite",
                                        { [PTX_NONFINITE_PROPAGATE] = "propagate",
                                          [PTX_NONFINITE_SKIP] = "skip",
                                          [PTX_NONFINITE_ZERO] = "zero" },
                                        "propagate and skip multiply by the scale that "
                                        "clip_scale_reduce chose; zero stores 0 if found_inf" } },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; a product is rounded to f32 (f64 in f64), then to the type; "
                  "bit-stable at any alignment",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
