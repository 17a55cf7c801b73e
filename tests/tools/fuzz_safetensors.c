// SPDX-License-Identifier: MIT
// libFuzzer: the reader refuses any bytes with a message, or returns tensors that lie within them.
#include "safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tensor_file file;
    struct message error = { "" };
    if (!tensor_file_parse(&file, "fuzz", bytes, size, &error)) {
        if (error.text[0] == '\0')
            abort();
        return 0;
    }
    uint64_t sum = 0;
    for (size_t k = 0; k < file.count; k++) {
        const uint8_t *data = file.tensors[k].data;
        if (data < bytes || data + file.tensors[k].bytes > bytes + size)
            abort();
        for (uint64_t at = 0; at < file.tensors[k].bytes; at++)
            sum += data[at];
    }
    tensor_file_close(&file);
    return sum == UINT64_MAX;
}
