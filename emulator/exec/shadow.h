// SPDX-License-Identifier: MIT
// Records for each byte of memory whether it was written and which of its bits are defined.
//
// Every byte has a shadow byte. Most shadow bytes are complete; a byte of which only some bits are
// defined has an entry in a table. Thread-safe in the same way as memory: if two threads write at
// once without an order, one of the two values remains.
#ifndef PTXGEN_EMULATOR_EXEC_SHADOW_H
#define PTXGEN_EMULATOR_EXEC_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMU_SHADOW_NEVER,   // never written
    EMU_SHADOW_DEFINED, // written, all of it defined
    EMU_SHADOW_LISTED,  // in the table
    // No bit defined. The value is one of these plus the origin: computed, or only copied.
    EMU_SHADOW_COMPUTED,
    EMU_SHADOW_COPIED = 129,
    EMU_SHADOW_ORIGINS = EMU_SHADOW_COPIED - EMU_SHADOW_COMPUTED, // others are in the table
};

// The undefined bits, those of them that were computed and not only copied, and their origin. For a
// byte of memory the low 8 bits count.
struct emu_undefined {
    uint64_t bits, computed;
    uint32_t origin; // 0: unknown
};

struct emu_shadows;

struct emu_shadows *emu_shadows_create(void); // NULL if host memory is out
void emu_shadows_destroy(struct emu_shadows **shadows);

// The state of the byte that has this shadow byte.
struct emu_undefined emu_shadow_get(struct emu_shadows *shadows, const unsigned char *shadow);
void emu_shadow_put(struct emu_shadows *shadows, unsigned char *shadow, struct emu_undefined byte);
// Copies the state, like memmove() of the memory.
void emu_shadow_move(struct emu_shadows *shadows, unsigned char *to, const unsigned char *from,
                     size_t bytes);
// Forgets the entries of a shadow that is about to be freed.
void emu_shadow_forget(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes);
// The index of the first byte with a computed undefined bit; `bytes` if there is none.
size_t emu_shadow_computed(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes);

// Registers an origin of undefined values, in words, and returns its number. The same text has the
// same number. Numbers are valid as long as the shadows. 0 if there are too many or host memory is
// out.
uint32_t emu_origin_add(struct emu_shadows *shadows, const char *text);
const char *emu_origin_text(struct emu_shadows *shadows, uint32_t origin);
// True the first time for each origin.
bool emu_origin_report(struct emu_shadows *shadows, uint32_t origin);

#endif
