// SPDX-License-Identifier: MIT
// What is known of each byte of memory: whether it was written, and which of its bits are defined.
//
// Every byte has a shadow byte beside it. Most say all there is to say; a byte of which only some
// bits are defined has an entry in a table. Thread-safe, as memory is: what two threads write at
// once without an order is one of the two.
#ifndef PTXGEN_EMULATOR_EXEC_SHADOW_H
#define PTXGEN_EMULATOR_EXEC_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMU_SHADOW_NEVER,   // never written
    EMU_SHADOW_DEFINED, // written, all of it defined
    EMU_SHADOW_LISTED,  // in the table
    // No bit defined, and computed or only copied: so much plus the origin.
    EMU_SHADOW_COMPUTED,
    EMU_SHADOW_COPIED = 129,
    EMU_SHADOW_ORIGINS = EMU_SHADOW_COPIED - EMU_SHADOW_COMPUTED, // others are in the table
};

// Bits that are undefined, those of them that are more than copies of bits never written, and where
// they came from. Of a byte of memory the low 8 bits count.
struct emu_undefined {
    uint64_t bits, computed;
    uint32_t origin; // 0: none is known
};

struct emu_shadows;

struct emu_shadows *emu_shadows_create(void); // NULL if host memory is out
void emu_shadows_destroy(struct emu_shadows **shadows);

// Of the byte whose shadow byte this is.
struct emu_undefined emu_shadow_get(struct emu_shadows *shadows, const unsigned char *shadow);
void emu_shadow_put(struct emu_shadows *shadows, unsigned char *shadow, struct emu_undefined byte);
// As memmove() of the memory itself.
void emu_shadow_move(struct emu_shadows *shadows, unsigned char *to, const unsigned char *from,
                     size_t bytes);
// The shadow is about to be freed.
void emu_shadow_forget(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes);
// The first byte with a bit computed from undefined ones; `bytes` if there is none.
size_t emu_shadow_computed(struct emu_shadows *shadows, const unsigned char *shadow, size_t bytes);

// A place that undefined values came from, in words. The same text has the same number, which is
// good as long as the shadows are. 0 if there are too many or host memory is out.
uint32_t emu_origin_add(struct emu_shadows *shadows, const char *text);
const char *emu_origin_text(struct emu_shadows *shadows, uint32_t origin);
// True once for each origin.
bool emu_origin_report(struct emu_shadows *shadows, uint32_t origin);

#endif
