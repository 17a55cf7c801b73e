// SPDX-License-Identifier: MIT
#include "isa.h"

#include <string.h>

#define BIT(name) EMU_TYPE_BIT(EMU_##name)
#define S32_64    (BIT(S32) | BIT(S64))
#define S16_64    (BIT(S16) | S32_64)
#define U16_64    (BIT(U16) | BIT(U32) | BIT(U64))
#define I16_64    (S16_64 | U16_64)
#define I32       (BIT(S32) | BIT(U32))
#define I64       (BIT(S64) | BIT(U64))
#define I16_32    (BIT(S16) | BIT(U16) | I32)
#define B32_64    (BIT(B32) | BIT(B64))
#define B16_64    (BIT(B16) | B32_64)
#define F16S      (BIT(F16) | BIT(F16X2))
#define BF16S     (BIT(BF16) | BIT(BF16X2))
#define F32_64    (BIT(F32) | BIT(F64))
#define ANY8      (BIT(U8) | BIT(S8) | BIT(B8))
#define MEMORY    (ANY8 | I16_64 | B16_64 | F32_64)
#define CONVERT   (BIT(U8) | BIT(S8) | I16_64 | F32_64 | BIT(F16) | BIT(BF16))

#define G(name) EMU_G(name)
#define ROUND   (G(RN) | G(DIRECTED))
#define DIVIDE  (ROUND | G(APPROX) | G(FULL))
#define STORE                                                                                      \
    (G(SPACE) | G(CACHE) | G(LEVEL1) | G(EVICT) | G(HINT) | G(ORDER) | G(SCOPE) | G(VECTOR))
#define LOAD     (STORE | G(LEVEL2) | G(NC))
#define ATOMIC   (G(SPACE) | G(ORDER) | G(SCOPE) | G(HINT))
#define COPY     (G(ASYNC) | G(SPACE) | G(FROM) | G(CACHE))
#define CONVERTS (G(RN) | G(DIRECTED) | G(INTEGRAL) | G(FTZ) | G(SAT) | G(RELU))
#define COMPARES (G(FTZ) | G(LOGIC))

#define FORM(least_isa, least_sm, ...)                                                             \
    { .isa = least_isa, .sm = least_sm, .operands = __VA_ARGS__ },
#define LACKS(least_isa, least_sm, modifiers)                                                      \
    { .isa = least_isa, .sm = least_sm, .lacks = modifiers },
#define LACKS_OWN(least_isa, least_sm, modifiers)                                                  \
    { .isa = least_isa, .sm = least_sm, .lacks = modifiers, .own = true },
#define LACKS_FORM(least_isa, least_sm, ...)                                                       \
    { .isa = least_isa, .sm = least_sm, .lacks = "", .operands = __VA_ARGS__ },

#define INSTRUCTION(opcode, mnemonic, handler, lanes, defined, rule, ...)                          \
    static const struct emu_form forms_##opcode[] = { __VA_ARGS__ };
#define ALSO(name, opcode, mnemonic, ...)                                                          \
    static const struct emu_form forms_##name[] = { __VA_ARGS__ };
#define UNSUPPORTED(name, mnemonic, ...)                                                           \
    static const struct emu_form forms_##name[] = { __VA_ARGS__ };
#include "isa.def"

#define SPELLED(name, opcode, mnemonic)                                                            \
    { mnemonic, EMU_OP_##opcode, sizeof forms_##name / sizeof *forms_##name, forms_##name },

static const struct emu_spelling spellings[] = {
#define INSTRUCTION(opcode, mnemonic, ...) SPELLED(opcode, opcode, mnemonic)
#define ALSO(name, opcode, mnemonic, ...)  SPELLED(name, opcode, mnemonic)
#define UNSUPPORTED(name, mnemonic, ...)   SPELLED(name, COUNT, mnemonic)
#include "isa.def"
};

static int order(const char *name, const char *at, size_t length)
{
    const int difference = strncmp(name, at, length);
    return difference ? difference : name[length] != '\0';
}

const struct emu_spelling *emu_spellings_find(const char *at, size_t length, unsigned *count)
{
    const size_t all = sizeof spellings / sizeof *spellings;
    size_t low = 0, high = all, end;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (order(spellings[middle].mnemonic, at, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < all && !order(spellings[end].mnemonic, at, length);)
        end++;
    *count = (unsigned)(end - low);
    return *count ? &spellings[low] : NULL;
}

const struct emu_spelling *emu_spellings_all(unsigned *count)
{
    *count = sizeof spellings / sizeof *spellings;
    return spellings;
}
