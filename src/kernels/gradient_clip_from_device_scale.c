// SPDX-License-Identifier: MIT
#include "common.h"

enum { BLOCK = 256 };
enum { OPTION_NONFINITE };
enum { NONFINITE_PROPAGATE, NONFINITE_SKIP, NONFINITE_ZERO };

struct clip {
    ptx_type dtype;
    ptx_val scale; // in the compute type
    ptx_val found; // store zeros; poisoned where the policy is another
};

static ptx_val clip_one(ptx_builder *b, const struct clip *clip, ptx_val g)
{
    ptx_val wide = ptx_cvt(b, (ptx_type)clip->scale.type, g);
    ptx_val scaled = ptx_mul(b, wide, clip->scale);
    if (clip->found.kind != PTX_POISON)
        scaled = ptx_select(b, clip->found, ptx_zero((ptx_type)scaled.type), scaled);
    return ptx_cvt(b, clip->dtype, scaled);
}

static void build(ptx_builder *b, const struct ptx_spec *spec)
{
    const bool zero = spec->option[OPTION_NONFINITE] == NONFINITE_ZERO;
    struct clip clip = { .dtype = spec->dtype };

    ptx_ptr gradient =
        ptx_param_ptr(b, spec->dtype, "gradient", .meaning = "scaled in place", .length = "n");
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of the gradient");
    ptx_ptr record = ptx_param_ptr(b, PTX_F32, "record", .meaning = "scale, norm, found_inf",
                                   .length = zero ? "3" : "1", .readonly = true);

    ptx_val scale = ptx_load(b, record, ptx_u32(0));
    ptx_val unchanged = ptx_eq(b, scale, ptx_f32(1.0f));
    if (zero) {
        clip.found = ptx_neu(b, ptx_load(b, record, ptx_u32(2)), ptx_f32(0.0f));
        unchanged = ptx_and(b, unchanged, ptx_not(b, clip.found));
    }
    ptx_comment(b, "nothing to clip: nothing is written");
    ptx_return_if(b, unchanged);
    clip.scale = ptx_cvt(b, compute_type(spec->dtype), scale);

    struct span span = thread_span(b, n, &gradient, 1);
    ptx_if (b, span.whole) {
        ptx_ptr p = ptx_at(b, gradient, span.lo);
        ptx_vec g = ptx_load_vec(b, p, ptx_u32(0), span.lanes, .cache = PTX_STREAM);
        for (unsigned k = 0; k < span.lanes; k++)
            g.lane[k] = clip_one(b, &clip, g.lane[k]);
        ptx_store_vec(b, p, ptx_u32(0), g, .cache = PTX_STREAM);
    }
    ptx_else (b) {
        ptx_for (b, i, span.lo, span.hi, ptx_u64(1)) {
            ptx_ptr p = ptx_at(b, gradient, i);
            ptx_val g = ptx_load(b, p, ptx_u32(0));
            ptx_store(b, p, ptx_u32(0), clip_one(b, &clip, g));
        }
    }
}

const ptx_kernel ptx_kernel_gradient_clip_from_device_scale = {
    .name = "gradient_clip_from_device_scale",
    .summary = "a gradient multiplied by a scale that lies on the device",
    .formula = "gradient[i] = gradient[i] * scale; nothing is written if scale is exactly 1",
    .dtypes = PTX_SET(F32) | PTX_SET(F64) | PTX_SET(F16) | PTX_SET(BF16),
    .options = { [OPTION_NONFINITE] = { "nonfinite",
                                        { "propagate", "skip", "zero" },
                                        "propagate and skip multiply by the scale that "
                                        "clip_scale_reduce chose; zero stores 0 if found_inf" } },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; one rounding an element; bit-stable at any alignment",
    .build = build,
};
