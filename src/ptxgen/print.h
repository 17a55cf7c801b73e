// SPDX-License-Identifier: MIT
// Pieces of the text, for the files that print.
#ifndef PTXGEN_BUILDER_PRINT_H
#define PTXGEN_BUILDER_PRINT_H

#include "internal.h"

// Layout of a line, and estimates of the length of a line and of what surrounds the lines of an
// entry.
enum { INDENT = 4, OPERAND_COLUMN = 20, COMMENT_COLUMN = 44, PARAM_COLUMN = 32 };
enum { MOST_COLUMN = COMMENT_COLUMN, LINE_COLUMNS = 120 };
enum { LINE_BYTES = 50, ENTRY_BYTES = 640 };

// Room for the longest integer; for a number in decimal; for an operand without its name, with its
// decimal; for a line without its operands.
enum { INTEGER_BYTES = 20, DECIMAL_BYTES = 32, OPERAND_BYTES = 48 + DECIMAL_BYTES };
enum { BARE_LINE_BYTES = MOST_DEPTH * INDENT + OPCODE_BYTES + 2 * MOST_COLUMN + 32 };

// ---- pieces of a line ---------------------------------------------------------------------------
// write_...() writes where there is room, and returns the end of what it wrote.

static inline char *write_bytes(char *at, const char *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

static inline char *write_string(char *at, const char *string)
{
    return write_bytes(at, string, strlen(string));
}

// Pads to a column of the line, with at least one space. There is room for MOST_COLUMN spaces,
// which are few instructions because they are always so many.
static inline char *write_to_column(char *at, char *line, size_t column)
{
    memset(at, ' ', MOST_COLUMN);
    return at < line + column ? line + column : at + 1;
}

static inline char *write_unsigned(char *at, uint64_t x)
{
    unsigned digits = 1;

    if (x < 100) { // most
        at[0] = (char)('0' + (x < 10 ? x : x / 10));
        at[1] = (char)('0' + x % 10);
        return at + (x < 10 ? 1 : 2);
    }
    for (uint64_t bound = 10; digits < INTEGER_BYTES && x >= bound; bound *= 10)
        digits++;
    for (unsigned k = digits; k-- > 0; x /= 10)
        at[k] = (char)('0' + x % 10);
    return at + digits;
}

// ---- the text -----------------------------------------------------------------------------------

bool ptxb_grow_text(ptx_builder *b, size_t bytes);

// The end of the text, with room for `bytes` more bytes; NULL after an error.
static inline char *text_end(ptx_builder *b, size_t bytes)
{
    if (b->text.capacity - b->text.count < bytes && !ptxb_grow_text(b, bytes))
        return NULL;
    return b->text.at + b->text.count;
}

// Ends the text at `end`, after what was written there.
static inline void set_end(ptx_builder *b, const char *end)
{
    b->text.count = (uint32_t)(end - b->text.at);
}

static inline void put_bytes(ptx_builder *b, const char *bytes, size_t count)
{
    char *at = text_end(b, count);
    if (at)
        set_end(b, write_bytes(at, bytes, count));
}

static inline void put(ptx_builder *b, const char *string)
{
    put_bytes(b, string, strlen(string));
}

// ---- print.c ------------------------------------------------------------------------------------

// What registers of a file are declared as, and what their names begin with.
struct file_words {
    char type[7], prefix[4];
    uint8_t length; // of the prefix
};
extern const struct file_words ptxb_register_files[FILE_COUNT];

void ptxb_put_number(ptx_builder *b, const char *before, uint64_t x, const char *after);
// A literal of the type; there is room for OPERAND_BYTES.
char *ptxb_write_immediate(char *at, ptx_type type, uint64_t bits);
// An operand; an address without its brackets. There is room for OPERAND_BYTES and a name.
char *ptxb_write_bare(const ptx_builder *b, char *at, const struct operand *operand);

// Prints at most so many bytes of the user's text in a comment. Characters that are not ASCII or
// could end a comment are replaced.
void ptxb_put_ascii(ptx_builder *b, const char *string, size_t most);
// The same for all of it. Where the line that began at `start` is full, the text goes on in the
// next, in `column`.
void ptxb_put_comment_text(ptx_builder *b, uint32_t start, unsigned column, const char *string);
void ptxb_put_bare(ptx_builder *b, const struct operand *operand);
// "$result", and "$result_2" of the second one.
char *ptxb_write_result(char *at, uint32_t k);
void ptxb_put_indent(ptx_builder *b, unsigned depth);
// An opcode, up to the column of the operands.
void ptxb_put_opcode(ptx_builder *b, unsigned depth, const char *opcode, const char *type);
void ptxb_put_insn(ptx_builder *b, const struct insn *insn, const struct operand *operands);

// ---- print_entry.c ------------------------------------------------------------------------------

// The code of the function that is called.
void ptxb_put_inline(ptx_builder *b, const struct insn *call, const struct operand *operands);

// ---- decimal.c ----------------------------------------------------------------------------------

// The decimal value of a float, for a comment.
char *ptxb_write_decimal(ptx_builder *b, char *at, ptx_type type, uint64_t bits);
// What was written from here on is taken back.
void ptxb_forget_decimals(ptx_builder *b, const char *from);

#endif
