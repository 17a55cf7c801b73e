// SPDX-License-Identifier: MIT
// Declarations shared by the files of the parser.
//
// A function that returns bool has reported the error if it returns false. After a fatal error (out
// of memory, wrong version or target, too many errors) the lexer returns only EMU_TOKEN_END, so
// every loop ends.
#ifndef PTXGEN_EMULATOR_PTX_PARSE_H
#define PTXGEN_EMULATOR_PTX_PARSE_H

#include "abi/cuda.h"
#include "program.h"

// ---- isa.c: the rows of isa.def, and every modifier ---------------------------------------------

// The group of a modifier. A form says for each group whether it is required, optional or
// forbidden. Columns: name, and its name in messages.
#define EMU_GROUPS(X)                                                                              \
    X(TYPE, "Type")                                                                                \
    X(RN, "Rounding")                                                                              \
    X(DIRECTED, "Rounding") /* .rz .rm .rp */                                                      \
    X(AWAY, "Rounding")     /* .rna */                                                             \
    X(INTEGRAL, "Rounding") /* .rni ... */                                                         \
    X(FTZ, "'.ftz'")                                                                               \
    X(SAT, "'.sat'")                                                                               \
    X(SATFINITE, "'.satfinite'")                                                                   \
    X(APPROX, "'.approx'")                                                                         \
    X(FULL, "'.full'")                                                                             \
    X(NAN, "'.NaN'")                                                                               \
    X(ABS, "'.abs'")                                                                               \
    X(XORSIGN, "'.xorsign'")                                                                       \
    X(RELU, "'.relu'")                                                                             \
    X(NOFTZ, "'.noftz'")                                                                           \
    X(COMPARE, "Comparison")                                                                       \
    X(LOGIC, "Boolean operation") /* .and .or .xor */                                              \
    X(TEST, "Test")                                                                                \
    X(PLUS, "'.add'")                                                                              \
    X(EXTREME, "'.min/.max'")                                                                      \
    X(COUNTER, "'.inc/.dec'")                                                                      \
    X(EXCHANGE, "'.exch'")                                                                         \
    X(CAS, "'.cas'")                                                                               \
    X(SPACE, "State space")                                                                        \
    X(FROM, "'.global'") /* after .shared, of cp.async */                                          \
    X(ASYNC, "'.async'")                                                                           \
    X(COMMIT, "'.commit_group'")                                                                   \
    X(WAIT, "'.wait_group'")                                                                       \
    X(WAIT_ALL, "'.wait_all'")                                                                     \
    X(POLICY, "'.fractional/.range/.cvt'") /* .fractional .cvt */                                  \
    X(RANGE, "'.range'")                                                                           \
    X(CACHE, "Cache")                                                                              \
    X(LEVEL1, "Eviction")                                                                          \
    X(EVICT, "Eviction") /* of the second level */                                                 \
    X(EVICT2, "Secondary eviction")                                                                \
    X(HINT, "'.L2::cache_hint'")                                                                   \
    X(LEVEL2, "Prefetch size")                                                                     \
    X(NC, "'.nc'")                                                                                 \
    X(ORDER, "Memory order")                                                                       \
    X(SCOPE, "Scope")                                                                              \
    X(VECTOR, "Vector")                                                                            \
    X(SYNC, "'.sync'")                                                                             \
    X(ALIGNED, "'.aligned'")                                                                       \
    X(UNI, "'.uni'")                                                                               \
    X(LO, "'.lo'")                                                                                 \
    X(HI, "'.hi'")                                                                                 \
    X(WIDE, "'.wide'")                                                                             \
    X(CC, "'.cc'")                                                                                 \
    X(SHUFFLE, "'.up/.down/.bfly'")                                                                \
    X(IDX, "'.idx'")                                                                               \
    X(ALL, "'.all'")                                                                               \
    X(ANY, "'.any'")                                                                               \
    X(BALLOT, "'.ballot'")                                                                         \
    X(ARRIVE, "'.arrive'")                                                                         \
    X(RED, "'.red'")                                                                               \
    X(POPC, "'.popc'")                                                                             \
    X(WARP, "'.warp'")                                                                             \
    X(LEFT, "'.l'")                                                                                \
    X(RIGHT, "'.r'")                                                                               \
    X(CLAMP, "Clamp") /* .wrap .clamp */                                                           \
    X(SHIFTAMT, "'.shiftamt'")                                                                     \
    X(TO, "'.to'")                                                                                 \
    X(PERMUTE, "Permute") /* of prmt */                                                            \
    X(DEPEND, "'.wait/.launch_dependents'")                                                        \
    X(MEMBAR, "'.cta/.gl/.sys'") /* .gl */                                                         \
    X(PREFETCH, "Cache level")                                                                     \
    X(CLUSTER_SHARED, "'.shared::cluster'")                                                        \
    X(FROM_SHARED, "'.shared::cta'") /* after .global, of cp.async.bulk */                         \
    X(INIT, "'.init'")                                                                             \
    X(INVAL, "'.inval'")                                                                           \
    X(EXPECT_TX, "'.expect_tx'")                                                                   \
    X(COMPLETE_TX, "'.complete_tx'")                                                               \
    X(ARRIVE_DROP, "'.arrive_drop'")                                                               \
    X(NO_COMPLETE, "'.noComplete'")                                                                \
    X(TEST_WAIT, "'.test_wait'")                                                                   \
    X(TRY_WAIT, "'.try_wait'")                                                                     \
    X(PARITY, "'.parity'")                                                                         \
    X(PENDING, "'.pending_count'")                                                                 \
    X(MBARRIER, "'.mbarrier'")                                                                     \
    X(NOINC, "'.noinc'")                                                                           \
    X(BULK, "'.bulk'")                                                                             \
    X(BYTES, "'.mbarrier::complete_tx::bytes'")                                                    \
    X(BULK_GROUP, "'.bulk_group'")                                                                 \
    X(READ, "'.read'")                                                                             \
    X(PROXY, "'.proxy'")                                                                           \
    X(MBARRIER_INIT, "'.mbarrier_init'")                                                           \
    X(REGISTERS, "'.inc/.dec'")                                                                    \
    X(TILE, "Shape") /* .m8n8 */                                                                   \
    X(TILES, "'.x1/.x2/.x4'")                                                                      \
    X(TRANSPOSED, "'.trans'")                                                                      \
    X(M16N8K4, "Shape")                                                                            \
    X(M16N8K8, "Shape")                                                                            \
    X(M16N8K16, "Shape")                                                                           \
    X(M16N8K32, "Shape")                                                                           \
    X(ROW, "'.row'")                                                                               \
    X(COL, "'.col'")                                                                               \
    X(ROW_B, "'.row'") /* the second one, of wmma.mma */                                           \
    X(COL_B, "'.col'")                                                                             \
    X(WMMA_SHAPE, "Shape")                                                                         \
    X(M16N16K8, "Shape")                                                                           \
    X(MOVE_IN, "'.load'")                                                                          \
    X(MOVE_OUT, "'.store'")                                                                        \
    X(MULTIPLY, "'.mma'")                                                                          \
    X(OF_A, "'.a'")                                                                                \
    X(OF_B, "'.b'")                                                                                \
    X(OF_C, "'.c'")                                                                                \
    X(OF_D, "'.d'")

enum emu_group_index {
#define EMU_GROUP_INDEX(name, text) EMU_GROUP_INDEX_##name,
    EMU_GROUPS(EMU_GROUP_INDEX)
#undef EMU_GROUP_INDEX
        EMU_GROUP_COUNT
};

// A set of groups, a bit each.
__extension__ typedef unsigned __int128 emu_groups;

#define EMU_GROUP_BIT(index) ((emu_groups)1 << (index))
#define EMU_G(name)          EMU_GROUP_BIT(EMU_GROUP_INDEX_##name)

_Static_assert(EMU_GROUP_COUNT <= 8 * sizeof(emu_groups), "a bit for each group");

struct emu_modifier {
    const char *name;
    uint8_t group; // emu_group_index
    uint8_t value; // value of the field that it sets
    uint8_t isa;   // least version; 0: any
    uint8_t sm;
};

// The modifier with this spelling, without its dot, or NULL.
const struct emu_modifier *emu_modifier_find(const char *at, size_t length);
const char *emu_group_name(unsigned index);

#define EMU_TYPE_BIT(type) (UINT32_C(1) << (type))

// Operands, one letter each: "destinations=sources".
//   t s  of the first type, of the second    T S  the same, and a wider register will do
//   w    of twice the type's width           u    of 32 bits, an integer
//   p    predicate                           q    predicate after '|', may be missing
//   a    address                             v    vector of the type, as .v2, .v4 says
//   m    register or variable's address      i    integer of 32 or 64 bits
//   k    constant                            l    label
//   j    list of branch targets              g    address in global memory
//   z    u, or a predicate                   h    policy of .L2::cache_hint, if that is there
//   b    a, or a parameter of a function     M    m, or a vector of parts: mov
//   x    skipped                             c    results, function and arguments of a call
//   A-D  registers of the fragments of mma  F    registers of ldmatrix and stmatrix
//   e    u, or parts of it: .b0, .h10
//   _    after a destination: it may be '_'
struct emu_form {
    const char *operands; // NULL: any
    // For PTX that the emulator does not run: the modifiers that identify it, separated by spaces,
    // "" for none. Otherwise NULL.
    const char *lacks;
    uint32_t types, second; // bits of emu_type; 0: the form has no such type
    uint32_t third, fourth;
    uint8_t factors;   // mma: the type of A and B, where it is not written; the second is that of C
    emu_groups must;   // required groups
    emu_groups one_of; // exactly one of these groups is required, if not 0
    emu_groups may;    // optional groups
    uint8_t mode;      // enum emu_mode; 0: that of the modifiers
    uint8_t isa, sm;   // least
    bool own;          // only on sm_NNa
};

// The forms of an instruction with one mnemonic.
struct emu_spelling {
    const char *mnemonic;
    uint16_t opcode; // EMU_OP_COUNT: PTX that the emulator does not run
    uint16_t form_count;
    const struct emu_form *forms;
};

// The first of *count rows of the mnemonic; NULL if there are none.
const struct emu_spelling *emu_spellings_find(const char *at, size_t length, unsigned *count);
// All rows, for tests.
const struct emu_spelling *emu_spellings_all(unsigned *count);

struct emu_special_row {
    const char *name; // without the axis
    uint8_t special;  // emu_special
    bool has_axis;
    uint8_t bits;
    uint8_t isa, sm; // least
};

// The special register of that name, for example "%tid", or NULL.
const struct emu_special_row *emu_special_find(const char *at, size_t length);
// The number of an %envreg; EMU_ENVREGS for any other name.
enum { EMU_ENVREGS = 32 };
unsigned emu_envreg_number(const char *at, size_t length);
// Whether PTX has this special register and the emulator does not.
bool emu_special_is_unsupported(const char *at, size_t length);

// ---- memory of one module, up to a limit --------------------------------------------------------

struct emu_arena;

struct emu_arena *emu_arena_create(size_t limit);
void emu_arena_destroy(struct emu_arena *arena);
// Zeroed memory, aligned for any type. NULL past the limit or if memory is out.
void *emu_arena_alloc(struct emu_arena *arena, size_t bytes);
// A NUL-terminated copy.
char *emu_arena_copy(struct emu_arena *arena, const char *text, size_t length);
// Makes room for one more element of an array in the arena; *at may move. False as above.
bool emu_arena_grow(struct emu_arena *arena, void **at, uint32_t count, uint32_t *capacity,
                    size_t element);

// ---- lexer.c: text as tokens --------------------------------------------------------------------

enum emu_token_kind {
    EMU_TOKEN_END,
    EMU_TOKEN_NAME,      // add, $L_1, %r5
    EMU_TOKEN_DOT,       // .rn, .L1::no_allocate, .reg: the text without the dot
    EMU_TOKEN_INTEGER,   // bits; is_unsigned if written so or beyond int64_t
    EMU_TOKEN_FLOAT32,   // 0f3f800000: bits
    EMU_TOKEN_FLOAT64,   // 0d...: bits
    EMU_TOKEN_DECIMAL,   // 1.5e3: bits of the double
    EMU_TOKEN_STRING,    // with its quotes
    EMU_TOKEN_PUNCT,     // one character
    EMU_TOKEN_OPERATOR2, // <<, >>, <=, >=, ==, !=, &&, ||
    EMU_TOKEN_ERROR,     // `error` says what is wrong
};

struct emu_token {
    enum emu_token_kind kind;
    const char *at;
    uint32_t length;
    uint32_t line, column; // from 1
    uint64_t bits;
    bool is_unsigned;
    const char *error;
};

// A position in the text. Use a copy of it to look ahead.
struct emu_lexer {
    const char *at, *end, *line_start;
    uint32_t line;
};

void emu_lexer_init(struct emu_lexer *lexer, const char *text, size_t length);
struct emu_token emu_lexer_next(struct emu_lexer *lexer);
// Skips to the end of the line, for directives without a terminator.
void emu_lexer_skip_line(struct emu_lexer *lexer);

bool emu_token_is(const struct emu_token *token, char punct);
bool emu_token_is_name(const struct emu_token *token, const char *name);
bool emu_token_is_dot(const struct emu_token *token, const char *name);

// ---- what the parser knows ----------------------------------------------------------------------

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
    uint8_t type;  // of a range
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

// A .param variable of a .func or of a call.
struct emu_param_registers {
    uint32_t first; // first register; the others follow
    uint32_t bytes;
    uint8_t type; // type of a scalar; with `array`, EMU_B8: one register for each byte
    bool array;
    bool readonly; // input of a .func
};

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
    struct emu_reference *references;
    uint32_t reference_count, reference_capacity;
    struct emu_alias *aliases;
    uint32_t alias_count, alias_capacity;
    uint32_t unit;            // the text that is parsed, from 0
    enum emu_linkage linkage; // of the definition that is parsed
    struct emu_body *body;    // NULL outside functions
};

// ---- parse.c ------------------------------------------------------------------------------------

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

// ---- names.c ------------------------------------------------------------------------------------

bool emu_scope_open(struct emu_parser *p);
void emu_scope_close(struct emu_parser *p);
// The innermost name, or NULL. Makes the register of a range at its first use.
struct emu_name *emu_find(struct emu_parser *p, const struct emu_token *name);
struct emu_name *emu_find_label(struct emu_parser *p, const char *at, uint32_t length);
struct emu_name *emu_declare(struct emu_parser *p, const struct emu_token *name,
                             enum emu_name_kind kind, uint32_t index);
// The function or variable of the module that a declaration of that name declares again, or NULL.
struct emu_name *emu_find_linked(struct emu_parser *p, const struct emu_token *name,
                                 enum emu_name_kind kind);
// Whether the definition that is parsed takes the place of that of another text.
bool emu_overrides(const struct emu_parser *p, const struct emu_name *name);
// The end of a text: forgets the names that others do not see.
void emu_forget_static(struct emu_parser *p);
// A new register of the body, without a name. EMU_NO_REGISTER: reported.
uint32_t emu_new_register(struct emu_parser *p, const char *name, uint32_t length, uint8_t type);
// The same for each element of a vector register.
bool emu_new_vector(struct emu_parser *p, struct emu_name *name, uint8_t type);

// ---- expression.c -------------------------------------------------------------------------------

struct emu_constant {
    enum emu_token_kind kind; // EMU_TOKEN_INTEGER, FLOAT32, FLOAT64 or DECIMAL (a double)
    uint64_t bits;
    bool is_unsigned;
};

bool emu_parse_constant(struct emu_parser *p, struct emu_constant *constant);
// An integer from `least` to `most`.
bool emu_parse_count(struct emu_parser *p, uint64_t least, uint64_t most, uint64_t *count);
// Converts the constant to the type, as an instruction or an initialiser does. False, without a
// report, if it does not fit.
bool emu_constant_in(const struct emu_constant *constant, enum emu_type type, uint64_t *bits);

// ---- module.c, function.c, variable.c -----------------------------------------------------------

// Parses one text of the module.
bool emu_parse_unit(struct emu_parser *p);
bool emu_parse_function(struct emu_parser *p, bool is_entry);
// Skips .pragma, .loc, .file and .section. *found says whether it was one of them.
bool emu_parse_ignored(struct emu_parser *p, bool *found);
// Parses .reg, .shared, .const ... from the state space up to the ';', which is left.
bool emu_parse_variables(struct emu_parser *p, bool is_extern);

enum { EMU_MOST_DIMENSIONS = 8 };

// A variable or parameter as it is declared.
struct emu_declaration {
    struct emu_token name;
    uint8_t space;
    bool is_reg;
    uint8_t type;
    uint64_t align;
    uint64_t lanes;                        // .v2, .v4
    uint64_t extents[EMU_MOST_DIMENSIONS]; // 0 for []
    unsigned dimensions;
    uint64_t bytes;
    bool is_extern;
};
// Alignment and type; then, once or more often, a name with its extents.
bool emu_parse_declaration(struct emu_parser *p, struct emu_declaration *d);
bool emu_parse_declarator(struct emu_parser *p, struct emu_declaration *d);
// Adds a symbol at the end of its state space. EMU_NO_REGISTER: reported.
uint32_t emu_new_symbol(struct emu_parser *p, const struct emu_declaration *d);
// After '=': bytes and relocations.
bool emu_parse_init(struct emu_parser *p, const struct emu_declaration *d, uint32_t symbol);

// ---- link.c -------------------------------------------------------------------------------------

bool emu_refer(struct emu_parser *p, uint32_t index, bool is_call, const struct emu_token *at);
// Checks that called functions are defined, and lays out shared memory.
bool emu_link(struct emu_parser *p);

// ---- operand.c, typing.c ------------------------------------------------------------------------

enum { EMU_MOST_OPERANDS = 12, EMU_MOST_LANES = 8, EMU_MOST_MODIFIERS = 24 };

enum emu_syntax {
    EMU_SYNTAX_NAME, // register, symbol, label ...
    EMU_SYNTAX_CONSTANT,
    EMU_SYNTAX_ADDRESS,
    EMU_SYNTAX_VECTOR,
    EMU_SYNTAX_SINK,
    EMU_SYNTAX_SPECIAL,
};

// An operand as written, before the instruction gives it a type.
struct emu_written {
    enum emu_syntax syntax;
    struct emu_token at;
    bool negated; // !p
    bool minus;   // -r
    uint32_t select;
    bool pair; // a|b: this one is a, and the next in the list b
    bool offset_given;
    bool is_whole; // a special register that is a vector, without an axis
    uint8_t lanes; // of a vector: the elements follow in emu_written_list.elements
    uint8_t first;
    const struct emu_name *name; // NULL: not known yet
    int64_t offset;
    struct emu_constant constant;
    uint8_t special, axis, special_bits;
};

struct emu_written_list {
    struct emu_written at[EMU_MOST_OPERANDS];
    unsigned count;
    struct emu_written elements[4 * EMU_MOST_LANES];
    unsigned element_count;
};

bool emu_parse_operands(struct emu_parser *p, struct emu_written_list *list);

// ---- instruction.c, rules.c, call.c -------------------------------------------------------------

struct emu_spelled {
    struct emu_token name;
    struct emu_token modifiers[EMU_MOST_MODIFIERS];
    const struct emu_modifier
        *known[EMU_MOST_MODIFIERS]; // looked up from the first on; the rest is NULL
    unsigned count;
    emu_groups groups;
    uint8_t types[4];
    unsigned type_count;
    struct emu_insn insn;        // the fields that modifiers set
    const struct emu_form *form; // once it is found
    struct emu_token guard;
};

enum { EMU_MOST_INSN_OPERANDS = 40 };

// Appended to the message about an instruction that matches no row.
#define EMU_NOT_PTX ": not PTX, or not supported by the emulator"

bool emu_parse_instruction(struct emu_parser *p);
// Converts the written operands to the types that the form has for them, and counts them.
bool emu_type_operands(struct emu_parser *p, struct emu_spelled *spelled,
                       const struct emu_written_list *list, struct emu_operand *operands);
// Adds a use of a label: an instruction jumps to it, or it is the function's next branch target
// (`listed`).
bool emu_use_label(struct emu_parser *p, const struct emu_token *label, bool listed);
// Adds an instruction and its operands to the body.
bool emu_append(struct emu_parser *p, const struct emu_insn *insn,
                const struct emu_operand *operands);
const struct emu_modifier *emu_spelled_in(const struct emu_spelled *spelled, emu_groups group);
// Rules that the table cannot express.
bool emu_check(struct emu_parser *p, struct emu_spelled *spelled, struct emu_operand *operands);
bool emu_fits(enum emu_type declared, enum emu_type wanted, bool relaxed);
bool emu_is_integer(enum emu_type type);
bool emu_is_float(enum emu_type type);
bool emu_is_bits(enum emu_type type);

bool emu_parse_call(struct emu_parser *p, struct emu_spelled *spelled);
// ld.param and st.param of parameters that are kept in registers.
bool emu_param_access(struct emu_parser *p, struct emu_spelled *spelled,
                      const struct emu_written_list *list, bool *handled);
// A parameter of a .func or of a call, in new registers.
bool emu_declare_param(struct emu_parser *p, const struct emu_declaration *d, bool readonly,
                       struct emu_param_registers *param);

#endif
