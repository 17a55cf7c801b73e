// SPDX-License-Identifier: MIT
#include "loss_scale.h"

#include <math.h>

#include "driver/error.h"

static ptx_status refuse(const char *of, const char *name, double value, const char *wanted)
{
    return ptxd_fail(PTX_ERROR_INVALID, "%s%s is %g; it must be %s", of, name, value, wanted);
}

ptx_status ptxp_loss_scale_check(const char *of, const struct ptx_loss_scale_params *params,
                                 struct ptx_loss_scale_params *filled)
{
    struct ptx_loss_scale_params p = params ? *params : (struct ptx_loss_scale_params) { 0 };

    p.growth = p.growth != 0 ? p.growth : 2;
    p.backoff = p.backoff != 0 ? p.backoff : 0.5f;
    p.interval = p.interval != 0 ? p.interval : 2000;
    p.max_scale = p.max_scale != 0 ? p.max_scale : INFINITY;
    p.hysteresis = p.hysteresis != 0 ? p.hysteresis : 1;
    if (!(p.growth > 1 && isfinite(p.growth)))
        return refuse(of, "growth", (double)p.growth, "finite and above 1 (0: 2)");
    if (!(p.backoff > 0 && p.backoff < 1))
        return refuse(of, "backoff", (double)p.backoff, "between 0 and 1 (0: 0.5)");
    if (p.interval < 1)
        return refuse(of, "interval", p.interval, "1 step or more (0: 2000)");
    if (!(p.min_scale >= 0 && isfinite(p.min_scale)))
        return refuse(of, "min_scale", (double)p.min_scale,
                      "finite and above 0 (0: no lower bound)");
    if (!(p.max_scale >= p.min_scale && p.max_scale > 0))
        return refuse(of, "max_scale", (double)p.max_scale,
                      "above 0 and not below min_scale (0: no upper bound)");
    if (p.hysteresis < 1)
        return refuse(of, "hysteresis", p.hysteresis, "1 step or more (0: 1)");
    *filled = p;
    return PTX_OK;
}
