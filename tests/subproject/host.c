// SPDX-License-Identifier: MIT
// Uses every layer of the library as a host program does, with its headers and exported functions.
// Also has functions of its own with common names. Where PTXGEN_LIBCUDA names the emulator, that
// must be a device.
#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Functions of the host with names that kernels might use: the library must not define them.
int block_sum(int x);
int tree_sum(int x);
int take_step(int x);

int block_sum(int x)
{
    return x + 1;
}

int tree_sum(int x)
{
    return block_sum(x) + 1;
}

int take_step(int x)
{
    return tree_sum(x) + 1;
}

int main(void)
{
    const struct ptx_kernel_spec spec = { .dtype = PTX_BF16 };
    ptx_builder *b = ptx_builder_create(NULL);
    int devices;

    ptx_kernel_emit(b, &ptx_kernel_squared_sum, &spec);
    const char *text = ptx_builder_finish(b);
    const bool written = text && strstr(text, ".entry squared_sum_bf16(");
    ptx_builder_destroy(&b);
    const ptx_status status = ptx_device_count(&devices);
    printf("ptxgen %s: kernel %s, %s\n", ptxgen_version(), written ? "written" : "not written",
           ptx_status_name(status));
    const bool found = !getenv("PTXGEN_LIBCUDA") || (status == PTX_OK && devices == 1);
    return written && found && take_step(0) == 3 ? 0 : 1;
}
