// SPDX-License-Identifier: MIT
// libFuzzer: the signatures of any text's kernels are refused with a message, or are consistent:
// each parameter has a name, a type and a size, and lies after the one before.
#include "internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_entry(const struct ptxd_signature *entry, size_t length)
{
    size_t end = 0;

    require(entry->name && entry->body <= length && entry->param_count <= PTXD_MAX_PARAMS);
    for (size_t k = 0; k < entry->param_count; k++) {
        const struct ptx_function_param *param = &entry->params[k];
        require(param->name && param->name[0] && param->size > 0 && param->offset >= end);
        require(param->type[0] && memchr(param->type, 0, sizeof(param->type)));
        end = param->offset + param->size;
    }
    // All three numbers, or none.
    for (int k = 0; k < 3; k++)
        require(entry->required_block[k] >= 0 &&
                !entry->required_block[k] == !entry->required_block[0]);
}

static void read_text(const char *source, bool entries)
{
    struct ptxd_text text;
    const ptx_status status = ptxd_text_read(&text, source, entries);

    require(text.isa >= 0 && text.isa < 10000 && text.sm >= 0);
    require(memchr(text.target, 0, sizeof(text.target)) != NULL);
    require(!status || (text.entry_count == 0 && !text.entries));
    require(!status || (entries && ptx_error_message()[0]));
    for (size_t k = 0; k < text.entry_count; k++)
        check_entry(&text.entries[k], strlen(source));
    ptxd_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *source = malloc(size + 1);
    if (!source)
        return 0;
    memcpy(source, bytes, size);
    source[size] = '\0';
    read_text(source, false);
    read_text(source, true);
    free(source);
    return 0;
}
