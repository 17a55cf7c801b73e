// SPDX-License-Identifier: MIT
// What the parser knows, its errors and its tokens.
//
// A function that returns bool has reported the error if it returns false. After a fatal error (out
// of memory, wrong version or target, too many errors) the lexer returns only EMU_TOKEN_END, so
// every loop ends.
#ifndef PTXGEN_EMULATOR_PTX_PARSER_H
#define PTXGEN_EMULATOR_PTX_PARSER_H

#include "abi/cuda.h"
#include "arena.h"
#include "lexer.h"
#include "program.h"

enum emu_name_kind {
    EMU_NAME_REGISTER,  // index: register
    EMU_NAME_RANGE,     // %r<10>: registers, each made at its first use
    EMU_NAME_VECTOR,    // elements: its registers
    EMU_NAME_SYMBOL,    // index: symbol
    EMU_NAME_FUNCTION,  // index: function
    EMU_NAME_PARAM,     // index: parameter of a .func or a call, kept in registers
    EMU_NAME_LABEL,     // index: instruction
    EMU_NAME_TARGETS,   // index: the first of `count` targets of the function
    EMU_NAME_PROTOTYPE, // index: the function that has the parameters of a call
};

// How other texts see a name of a text's outermost scope; what is further down prevails.
enum emu_linkage {
    EMU_LINKAGE_STATIC, // they do not
    EMU_LINKAGE_EXTERN,
    EMU_LINKAGE_COMMON,
    EMU_LINKAGE_WEAK,
    EMU_LINKAGE_VISIBLE,
};

struct emu_name {
    const char *at;
    uint32_t length;
    uint64_t hash;
    struct emu_name *next;  // in the bucket
    struct emu_name *below; // in the scope
    uint32_t index;
    uint32_t count; // number of registers of a range, of targets
    uint16_t depth;
    uint8_t kind;
    uint8_t type;  // of a range, and of a vector; EMU_B128: a register of 128 bits
    uint8_t lanes; // of a vector, or of each vector of a range
    struct emu_name *elements;
    uint8_t linkage;   // of the definition, or of the declaration if there is none
    uint32_t declared; // the latest text that declares it, from 0
    uint32_t defined;  // 1 + the text that defines it; 0: none yet
};

enum { EMU_MOST_SCOPES = 256 };

// Names by scope. A label may have the name of something else.
struct emu_names {
    struct emu_name **buckets;
    uint32_t bucket_count, count;
    struct emu_name *scopes[EMU_MOST_SCOPES]; // newest name of each
    unsigned depth;                           // 0: the module
};

enum emu_param_role { EMU_PARAM_OF_CALL, EMU_PARAM_INPUT, EMU_PARAM_RESULT };

// A .param variable of a .func or of a call.
struct emu_param_registers {
    uint32_t first; // first register; the others follow
    uint32_t bytes;
    uint32_t unit;    // bytes of a register: of a scalar, 1 of an array
    uint32_t element; // bytes of an array's element; 0: it is no array
    uint8_t type;     // of each register
    uint8_t role;     // enum emu_param_role
    uint32_t
        symbol; // its copy in local memory, because its address is taken; EMU_NO_REGISTER: none
};

static inline uint32_t emu_param_count(const struct emu_param_registers *param)
{
    return param->bytes / param->unit;
}

struct emu_label_use {
    const char *at;
    uint32_t length;
    uint32_t insn; // the instruction that jumps; with `listed`, the target of the function
    bool listed;
    uint32_t line, column;
};

// The function whose body is being read.
struct emu_body {
    uint32_t function;
    uint32_t insn_capacity, operand_capacity, register_capacity, target_capacity;
    struct emu_param_registers *params;
    uint32_t param_count, param_capacity;
    struct emu_label_use *uses;
    uint32_t use_count, use_capacity;
    uint32_t scope_uses[EMU_MOST_SCOPES]; // use_count where each scope began
    struct emu_name *name;                // of the function
    bool again;                           // another text has defined it
};

// .alias one, other;
struct emu_alias {
    struct emu_token at;
    uint32_t alias, function;
};

// What the module's functions name, for the layout of shared memory.
struct emu_reference {
    uint32_t function; // the function that names it
    uint32_t index;    // function called, or shared variable
    bool is_call;
    struct emu_token at;
};

struct emu_parser {
    struct emu_lexer lexer;
    struct emu_token token;
    struct emu_arena *arena;
    struct emu_module *module;
    const struct emu_parse_limits *limits;
    char *log;
    size_t log_size, log_used;
    unsigned errors;
    int result; // the CUresult after an error
    struct emu_names names;
    uint32_t function_capacity, symbol_capacity, relocation_capacity;
    uint32_t file_capacity, location_capacity;
    struct emu_reference *references;
    uint32_t reference_count, reference_capacity;
    struct emu_alias *aliases;
    uint32_t alias_count, alias_capacity;
    uint32_t unit;            // the text that is parsed, from 0
    enum emu_linkage linkage; // of the definition that is parsed
    struct emu_body *body;    // NULL outside functions
};

// ---- errors and tokens
// ----------------------------------------------------------------------------

enum {
    EMU_OUT_OF_HOST_MEMORY = CUDA_ERROR_OUT_OF_MEMORY,
    EMU_NO_BINARY_FOR_GPU = CUDA_ERROR_NO_BINARY_FOR_GPU,
    EMU_INVALID_PTX = CUDA_ERROR_INVALID_PTX,
    EMU_UNSUPPORTED_PTX_VERSION = CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
};

// Reports an error at a token. Always returns false.
bool emu_error(struct emu_parser *p, const struct emu_token *at, const char *format, ...)
    EMU_PRINTF(3, 4);
// The same, and ends the parse with that CUresult.
bool emu_fatal(struct emu_parser *p, const struct emu_token *at, int result, const char *format,
               ...) EMU_PRINTF(4, 5);
bool emu_out_of_memory(struct emu_parser *p);
// A token's text for a message, cut to the length that a message allows.
#define EMU_TEXT(token) (int)((token)->length < 64 ? (token)->length : 64), (token)->at

void emu_next(struct emu_parser *p);
bool emu_ended(const struct emu_parser *p);
// Consumes the punctuation if it is next.
bool emu_take(struct emu_parser *p, char punct);
bool emu_take_dot(struct emu_parser *p, const char *name);
bool emu_expect(struct emu_parser *p, char punct);
bool emu_syntax_error(struct emu_parser *p);
bool emu_parse_name(struct emu_parser *p, struct emu_token *name);
// The token after the next.
struct emu_token emu_peek(const struct emu_parser *p);
// After an error: skips past the next ';', or to the '}' of the scope.
void emu_skip_statement(struct emu_parser *p);
// After an error outside functions: skips past the next ';' or past a whole body.
void emu_skip_definition(struct emu_parser *p);
// An array element in the arena; NULL after out of memory is reported.
void *emu_push(struct emu_parser *p, void *array, uint32_t *count, uint32_t *capacity,
               size_t element);

#endif
