// SPDX-License-Identifier: MIT
/// For tests of texts that compilers wrote: loads one of the folder PTX_DIR.
#ifndef PTXGEN_TESTS_EMULATOR_SAMPLE_H
#define PTXGEN_TESTS_EMULATOR_SAMPLE_H

#include "fixture.h"

/// The sample's text, until the next call.
static inline const char *sample_text(const char *name)
{
    static char text[1 << 18];
    char path[512];
    snprintf(path, sizeof path, PTX_DIR "/%s.ptx", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[count] = '\0';
    return text;
}

static inline void load_sample(struct emulator *e, const char *name)
{
    emulator_load(e, sample_text(name));
}

/// Initial values, as the driver writes them to device memory.
static inline void initialise(struct emulator *e)
{
    const struct emu_module *module = e->module;
    for (uint32_t k = 0; k < module->symbol_count; k++) {
        const struct emu_symbol *symbol = &module->symbols[k];
        if (symbol->space == EMU_GLOBAL && symbol->init)
            memcpy(emulator_at(e, e->global_base + symbol->offset, symbol->bytes), symbol->init,
                   (size_t)symbol->bytes);
    }
    for (uint32_t k = 0; k < module->relocation_count; k++) {
        const struct emu_relocation *r = &module->relocations[k];
        const uint64_t address = emu_relocated(module, r, e->global_base, 0);
        assert_int_equal(r->bytes, 8);
        memcpy(emulator_at(e, e->global_base + module->symbols[r->symbol].offset + r->offset, 8),
               &address, 8);
    }
}

#endif
