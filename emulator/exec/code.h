// SPDX-License-Identifier: MIT
// Functions decoded for lanes: what the executor runs.
//
// Registers lie [register][lane]. A register of up to 32 bits has 32 lanes of uint32_t, with zeros
// above its type; one of 64 bits has 32 of uint64_t; a predicate is one uint32_t with a bit a lane.
#ifndef PTXGEN_EMULATOR_EXEC_CODE_H
#define PTXGEN_EMULATOR_EXEC_CODE_H

#include "exec.h"
#include "lanes/lanes.h"

// What a lane function or handler is given for an operand.
enum emu_width { EMU_MASK = 0, EMU_WORD = 4, EMU_LONG = 8 };

enum emu_place {
    EMU_AT_SLOT,  // register: bytes from the frame's start
    EMU_AT_CONST, // 32 equal lanes in the code's constants
    EMU_AT_SPECIAL,
    EMU_AT_LOCAL_SYMBOL, // address of a local variable: differs by lane
    EMU_AT_SINK,
};

struct emu_value {
    uint8_t place;
    uint8_t width;  // of the storage
    uint8_t want;   // of the operand
    uint8_t bits;   // of the register's type
    uint8_t extend; // destinations: the sign lies at this bit, less one, and fills the register
    bool negated;
    bool direct; // its storage can be used as it is
    uint32_t at;
    uint32_t reg;         // register, for EMU_AT_SLOT; symbol, for EMU_AT_LOCAL_SYMBOL
    const void *constant; // EMU_AT_CONST
    const struct emu_operand *operand;
};

// What runs an instruction, as its row in isa.def says; EMU_DO_FLOAT and EMU_DO_COMPARE_PAIR are
// for some types and modifiers of EMU_DO_LANES and EMU_DO_COMPARE.
enum emu_handler {
    EMU_DO_LANES,   // fn over all lanes, nothing else
    EMU_DO_FLOAT,   // fn with ftz, sat or a rounding mode round it
    EMU_DO_COMPARE, // setp, set
    EMU_DO_CARRY,
    EMU_DO_MOVE,
    EMU_DO_COMPARE_PAIR, // of packed halves
    EMU_DO_LOAD,
    EMU_DO_STORE,
    EMU_DO_ATOMIC,
    EMU_DO_ADDRESS, // cvta, isspacep
    EMU_DO_COPY,    // cp.async
    EMU_DO_COPY_COMMIT,
    EMU_DO_COPY_WAIT,
    EMU_DO_BRANCH,
    EMU_DO_BRANCH_LIST, // brx.idx
    EMU_DO_CALL,
    EMU_DO_RETURN,
    EMU_DO_EXIT,
    EMU_DO_BARRIER,
    EMU_DO_WARP_SYNC, // shfl, vote, match, redux, bar.warp.sync
    EMU_DO_ACTIVEMASK,
    EMU_DO_FENCE,
    EMU_DO_SLEEP,
    EMU_DO_NOTHING,
    EMU_DO_TRAP,
};

// Which bits of a result are undefined where some of the sources are, as the row in isa.def says.
enum emu_definedness {
    EMU_DEFINED_OWN,       // the handler knows, or there is no result
    EMU_DEFINED_ALL,       // all, if any bit of a source is
    EMU_DEFINED_BITWISE,   // each bit comes of the same bits of the sources
    EMU_DEFINED_MOVES,     // bits of the first source, to where the others say
    EMU_DEFINED_MOVES_TWO, // and of the second
    EMU_DEFINED_SUM,       // of integers; so are the next three
    EMU_DEFINED_DIFFERENCE,
    EMU_DEFINED_PRODUCT,
    EMU_DEFINED_UPWARD,  // from the lowest undefined bit of a source upward
    EMU_DEFINED_CHOICE,  // slct: those of the source that is taken
    EMU_DEFINED_CONVERT, // between integers MOVES, else ALL
};

extern const uint8_t emu_definedness_of[EMU_OP_COUNT];

struct emu_op {
    uint8_t handler;
    uint8_t dst_count, src_count;
    uint8_t bytes;  // memory: of one element
    uint8_t space;  // memory
    bool is_float;  // ftz applies
    bool float_out; // and to the result, and so does sat
    bool in_place;  // the result's register is none of the sources'
    bool guard_negated;
    uint32_t guard; // bytes from the frame's start, EMU_NO_REGISTER: none
    uint32_t guard_register;
    uint32_t target;
    emu_lane_function *fn;
    const struct emu_value *dst, *src;
    const struct emu_insn *insn;
};

struct emu_code {
    const struct emu_function *function;
    struct emu_op *ops;
    struct emu_value *values;
    unsigned char *constants;
    size_t constant_bytes, constant_room;
    uint32_t value_count;
    uint32_t *slots; // of each register
    uint32_t count;
    uint32_t frame_at;    // bytes of the functions before it, in the frames of one depth
    uint32_t init_at;     // registers of the functions before it
    uint32_t frame_bytes; // multiple of 64
};

// An entry and every function that it reaches. Read-only once it is made.
struct emu_program {
    struct emu_code *codes; // by function
    uint32_t count;
    uint32_t entry;
    uint32_t depth_bytes, depth_registers; // frames of all functions, at one depth of calls
    uint32_t dynamic_at;                   // of shared memory: after the static part
    uint32_t race_grain;                   // smallest access to shared memory
    bool calls;
};

// The launch's entry, decoded now or before: of its `programs` where it has them, else of its own,
// which emu_program_drop() frees. NULL, *result (a CUresult) and the reason where it cannot be
// decoded.
const struct emu_program *emu_program_of(const struct emu_launch *launch, int *result, char *reason,
                                         size_t reason_size);
void emu_program_drop(const struct emu_launch *launch, const struct emu_program *program);

#endif
