// SPDX-License-Identifier: MIT
// How instructions are kept: as records, one behind the other, in 8 bytes and 8 more an operand.
// Most lines are longer than the records that they are written from, so that the text can be
// written over what it comes from; see ptxb_text_over_code().
#ifndef PTXGEN_BUILDER_INSN_H
#define PTXGEN_BUILDER_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Registers, blocks, opcodes and all else in lists have numbers of so many bits; ptxb_grow()
// refuses a list with more.
enum { INDEX_BITS = 22, MOST_INDEX = (1 << INDEX_BITS) - 1 };
#define NO_INDEX UINT32_MAX

enum register_file { FILE_P, FILE_RS, FILE_R, FILE_RD, FILE_F, FILE_FD, FILE_COUNT };

struct reg {
    uint32_t where : INDEX_BITS; // the block that it is defined in; once placed, its number
    uint32_t file : 3;
    uint32_t used : 1, used_again : 1;
    uint32_t variable : 1;
    uint32_t placed : 1;
    uint32_t assumed : 1; // the same in all lanes of a warp, as the caller says
};

enum operand_kind {
    OPERAND_REGISTER,
    OPERAND_ADDRESS,   // [register + offset]
    OPERAND_SYMBOL,    // [symbol + offset]
    OPERAND_IMMEDIATE, // of up to 32 bits
    OPERAND_WIDE,      // an immediate among the extras
    OPERAND_PARAM,     // [text]
    OPERAND_TEXT,
    OPERAND_LABEL,
};

struct operand {
    uint32_t id : INDEX_BITS; // register or symbol
    uint32_t type : 5;        // of an immediate
    uint32_t kind : 3;
    uint32_t open : 1;  // '{' before it
    uint32_t close : 1; // '}' after it
    union {
        uint32_t value; // an immediate's bits, or the number of a label or an extra
        int32_t offset;
    };
};

// What has no room in an operand.
union extra {
    uint64_t bits;
    const char *text;
};

enum insn_kind {
    INSN_PLAIN,
    INSN_LABEL,
    INSN_BRANCH,
    INSN_RETURN,
    INSN_BARRIER, // every thread of the block must come by
    INSN_COMMENT,
    INSN_DROPPED, // writes nothing
    INSN_WARP,    // every lane of the warp must come by
};

struct insn {
    uint32_t opcode : INDEX_BITS;
    uint32_t kind : 3;
    uint32_t guarded : 1, negated : 1; // under a predicate, its first operand
    uint32_t varying : 1;              // its results differ between threads whatever its operands
    uint32_t reducible : 1;            // an atomic that becomes `red` when its result is not used
    uint32_t moves : 1;                // a value to a register, as it is
    uint32_t named : 1;                // some operand is written by name, of any length
    uint32_t floats : 1;               // some source is a float immediate
    uint8_t depth : 7;
    uint8_t positive : 1; // a difference that is above zero
    uint8_t dst_count;
    uint8_t operand_count; // destinations first
    struct operand operands[];
};

// The instructions of an entry, by where they are in the code.
struct stretch {
    uint32_t first, end, count;
};

// Records in whole words of 64 bits; places are counted in words.
struct code {
    uint64_t *at;
    uint32_t count, capacity;
    uint32_t last;  // the newest record
    uint32_t first; // of the entry that is open
    uint32_t insns; // in it
};

// A spelled opcode.
struct opcode {
    uint64_t key;     // all that the spelling depends on; 0: not to be found again
    const char *text; // on its own, for messages
    uint32_t next;    // another whose key has the same place in the builder's table; 0: no more
    // The types that it was spelled for; count 0: it is no instruction of ops.h.
    uint8_t count, operand[4], result;
    bool any_immediate; // none of the operands must be an immediate of some range
    uint8_t length;
    // How a line has it: with blanks up to the operands. Not used if it takes more room.
    uint8_t padded;
    char line[32];
};

static inline uint32_t ptxb_insn_words(const struct insn *insn)
{
    return 1u + insn->operand_count;
}

static inline struct insn *ptxb_next(const struct insn *insn)
{
    return (struct insn *)((uint64_t *)insn + ptxb_insn_words(insn));
}

static inline struct insn *ptxb_insn(const struct code *code, uint32_t place)
{
    return (struct insn *)(code->at + place);
}

// The first of a stretch; NULL if it has none.
static inline struct insn *ptxb_first(const struct code *code, const struct stretch *stretch)
{
    return stretch->count ? ptxb_insn(code, stretch->first) : NULL;
}

static inline uint32_t ptxb_place_of(const struct code *code, const struct insn *insn)
{
    return (uint32_t)((const uint64_t *)insn - code->at);
}

// The register that the operand reads or writes; 0: none.
static inline uint32_t ptxb_operand_reg(const struct operand *operand)
{
    return operand->kind <= OPERAND_ADDRESS ? operand->id : 0;
}

#endif
