// SPDX-License-Identifier: MIT
#include "run_report.h"

#include <inttypes.h>

void print_tensor(FILE *stream, const struct tensor *tensor)
{
    fprintf(stream, "  %s %s [", tensor->name, tensor->dtype->name);
    for (size_t k = 0; k < tensor->rank; k++)
        fprintf(stream, "%s%" PRIu64, k ? ", " : "", tensor->shape[k]);
    fputs("]\n", stream);
}

json_t *tensor_json(const struct tensor *tensor)
{
    json_t *shape = json_array();
    for (size_t k = 0; k < tensor->rank; k++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[k]));
    return json_pack("{s:s, s:s, s:o}", "name", tensor->name, "dtype", tensor->dtype->name, "shape",
                     shape);
}
