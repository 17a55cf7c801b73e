// SPDX-License-Identifier: MIT
#include "json_print.h"

#include <ptxgen/types.h>

#include <stdio.h>

int json_print(const struct command *command, json_t *value)
{
    if (!value)
        return cli_fail(command, EXIT_FAILED, "out of memory");
    int failed = json_dumpf(value, stdout, JSON_INDENT(2));
    json_decref(value);
    // Errors of the stream itself are reported where it is flushed.
    if (failed && !ferror(stdout))
        return cli_fail(command, EXIT_FAILED, "out of memory");
    putchar('\n');
    return EXIT_DONE;
}

json_t *json_text(const char *text)
{
    return text ? json_string(text) : json_null();
}

json_t *json_dtypes(uint32_t dtypes)
{
    json_t *names = json_array();
    for (unsigned type = 0; type < PTX_TYPE_COUNT; type++)
        if (dtypes >> type & 1)
            json_array_append_new(names, json_string(ptx_type_name((ptx_type)type)));
    return names;
}
