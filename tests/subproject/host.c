// SPDX-License-Identifier: MIT
// Uses every layer of the library as a host does: its headers and its exported functions.
#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    const struct ptx_spec spec = { .dtype = PTX_BF16 };
    ptx_builder *b = ptx_builder_create(NULL);
    int devices;

    ptx_kernel_emit(b, &ptx_kernel_squared_sum, &spec);
    const char *text = ptx_builder_finish(b);
    const bool written = text && strstr(text, ".entry squared_sum_bf16(");
    ptx_builder_destroy(&b);
    const ptx_status status = ptx_device_count(&devices);
    printf("ptxgen %s: kernel %s, %s\n", ptxgen_version(), written ? "written" : "not written",
           ptx_status_name(status));
    return written ? 0 : 1;
}
