// SPDX-License-Identifier: MIT
// A program as the executor runs it: handlers, operands, decoded functions.
#ifndef PTXGEN_EMULATOR_EXEC_BASE_CODE_H
#define PTXGEN_EMULATOR_EXEC_BASE_CODE_H

#include "exec.h"
#include "exec/lanes/lanes.h"

// Registers are stored [register][lane]. A register of up to 32 bits has 32 lanes of uint32_t, with
// zeros above its type; a 64-bit register has 32 of uint64_t; a predicate is one uint32_t with one
// bit for each lane.

// Where a lane function or handler finds an operand.
enum emu_width { EMU_MASK = 0, EMU_WORD = 4, EMU_LONG = 8 };

enum emu_place {
    EMU_AT_SLOT,  // register, at this byte offset in the frame
    EMU_AT_CONST, // constant: 32 equal lanes, stored with the code
    EMU_AT_SPECIAL,
    EMU_AT_LOCAL_SYMBOL, // address of a local variable, which differs between lanes
    EMU_AT_SINK,
};

struct emu_value {
    uint8_t place;
    uint8_t width;  // of the storage
    uint8_t want;   // of the operand
    uint8_t bits;   // of the register's type
    uint8_t extend; // destinations: number of bits from which the sign is extended to the register
    bool negated;
    bool direct; // its storage can be used without a conversion
    uint32_t at;
    uint32_t reg;         // register, for EMU_AT_SLOT; symbol, for EMU_AT_LOCAL_SYMBOL
    const void *constant; // EMU_AT_CONST
    const struct emu_operand *operand;
};

// The handler of an instruction, from its row in isa.def. EMU_DO_FLOAT and EMU_DO_COMPARE_PAIR
// replace EMU_DO_LANES and EMU_DO_COMPARE for some types and modifiers.
enum emu_handler {
    EMU_DO_LANES,      // fn over all lanes
    EMU_DO_FLOAT,      // fn with ftz, sat or a rounding mode around it
    EMU_DO_FLOAT_PAIR, // the same for each half of f32x2
    EMU_DO_COMPARE,    // setp, set
    EMU_DO_CARRY,
    EMU_DO_MOVE,
    EMU_DO_COMPARE_PAIR, // comparison of packed halves
    EMU_DO_TRUTH,        // fn, and whether its result is not 0, with a predicate: lop3.and
    EMU_DO_LOAD,
    EMU_DO_STORE,
    EMU_DO_ATOMIC,
    EMU_DO_WIDE,    // an access of 128 bits
    EMU_DO_STACK,   // alloca, stacksave, stackrestore
    EMU_DO_ADDRESS, // cvta, isspacep
    EMU_DO_CLUSTER, // mapa, getctarank
    EMU_DO_COPY,    // cp.async
    EMU_DO_COPY_COMMIT,
    EMU_DO_COPY_WAIT,
    EMU_DO_COPY_ARRIVE, // cp.async.mbarrier.arrive
    EMU_DO_BULK,        // cp.async.bulk
    EMU_DO_BULK_COMMIT,
    EMU_DO_BULK_WAIT,
    EMU_DO_MBARRIER,
    EMU_DO_PHASE_WAIT, // mbarrier.test_wait, mbarrier.try_wait
    EMU_DO_PENDING_COUNT,
    EMU_DO_BRANCH,
    EMU_DO_BRANCH_LIST, // brx.idx
    EMU_DO_CALL,
    EMU_DO_RETURN,
    EMU_DO_EXIT,
    EMU_DO_BARRIER,
    EMU_DO_WARP_BARRIER, // bar.warp.sync
    EMU_DO_SHUFFLE,
    EMU_DO_VOTE,
    EMU_DO_MATCH,
    EMU_DO_REDUX,
    EMU_DO_ELECT,
    EMU_DO_MATRIX_LOAD, // ldmatrix
    EMU_DO_MATRIX_MOVE, // movmatrix
    EMU_DO_MATRIX_STORE,
    EMU_DO_TILE_LOAD, // wmma.load
    EMU_DO_TILE_STORE,
    EMU_DO_WARPGROUP, // wgmma.mma_async
    EMU_DO_MMA,
    EMU_DO_ACTIVEMASK,
    EMU_DO_FENCE,
    EMU_DO_SLEEP,
    EMU_DO_NOTHING,
    EMU_DO_DEPEND, // griddepcontrol
    EMU_DO_TRAP,
    EMU_DO_BREAKPOINT, // brkpt
};

// Which bits of a result are undefined if some sources are, from the row in isa.def.
enum emu_definedness {
    EMU_DEFINED_OWN,       // the handler decides, or there is no result
    EMU_DEFINED_ALL,       // all bits, if any bit of a source is
    EMU_DEFINED_BITWISE,   // each bit depends on the same bit of the sources
    EMU_DEFINED_MASK,      // the same, and a copy of an undefined value remains a copy
    EMU_DEFINED_SELECT,    // the same, where the third source selects the first or the second
    EMU_DEFINED_MOVES,     // bits of the first source move to where the others say
    EMU_DEFINED_MOVES_TWO, // bits of the first two sources move
    EMU_DEFINED_SUM,       // integer arithmetic, as the next three
    EMU_DEFINED_DIFFERENCE,
    EMU_DEFINED_PRODUCT,
    EMU_DEFINED_UPWARD,  // from the lowest undefined bit of a source upward
    EMU_DEFINED_CHOICE,  // slct: those of the selected source
    EMU_DEFINED_CONVERT, // MOVES between integers, else ALL
};

// In a row of EMU_DO_CARRY, the rule for the product.
extern const uint8_t emu_definedness_of[EMU_OP_COUNT];

struct emu_op;
struct emu_running;

// Runs an instruction for these lanes of the running group, and returns true if the next one may
// follow at once: see step.h.
typedef bool emu_step(struct emu_running *run, const struct emu_op *op, uint32_t mask);

enum { EMU_STEP_SOURCES = 5, EMU_STEP_RESULTS = 4 };

// An instruction as the interpreter runs it. Code is an array of them.
struct emu_op {
    emu_step *step;    // runs it for the lanes of the group
    emu_step *guarded; // what `step` runs for those whose guard holds; without a guard the same
    emu_lane_function *fn;
    const struct emu_insn *insn;
    // Operands of the steps in steps.c and access_steps.c: where a source is, in the pool of the
    // frame (0) or of the constants (1), and the register that it reads. Sources that are no
    // registers repeat one that is.
    uint32_t from[EMU_STEP_SOURCES], reads[EMU_STEP_SOURCES];
    uint32_t to[EMU_STEP_RESULTS], writes[EMU_STEP_RESULTS];
    uint8_t pool[EMU_STEP_SOURCES];
    uint32_t index;     // its pc
    bool short_address; // memory: the register of the address has 32 bits
    bool constant;      // memory: loaded by .nc
    uint8_t handler;
    uint16_t dst_count, src_count;
    uint8_t bytes;  // memory: bytes of one element
    uint8_t space;  // memory
    bool strong;    // memory: volatile, relaxed or stronger
    bool is_float;  // ftz applies
    bool float_out; // ftz and sat apply to the result
    bool guard_negated;
    uint32_t guard; // offset in the frame; EMU_NO_REGISTER: none
    uint32_t guard_register;
    uint32_t target;
    uint64_t offset; // memory: added to the register of the address
    const struct emu_value *dst, *src;
};

struct emu_code {
    const struct emu_function *function;
    struct emu_op *ops;
    struct emu_value *values;
    unsigned char *constants;
    size_t constant_bytes, constant_room;
    uint32_t value_count;
    uint32_t *slots; // offset of each register in the frame
    uint32_t count;
    uint32_t frame_at;    // this function's offset in the frames of one depth
    uint32_t init_at;     // number of its first register among all functions'
    uint32_t frame_bytes; // multiple of 64
};

// An entry and every function that it reaches. Read-only after it is made.
struct emu_program {
    struct emu_code *codes; // by function
    uint32_t count;
    uint32_t entry;
    uint32_t depth_bytes, depth_registers; // of all functions, for one depth of calls
    uint32_t dynamic_at;                   // offset in shared memory, after the static part
    uint32_t race_grain;                   // smallest access to shared memory
    bool calls;
    bool loads_nc;
    bool reads_environment; // %envreg
    bool allocates;         // alloca
    bool starts_dependents; // griddepcontrol.launch_dependents
};

// Decodes the entry of the launch and all that it calls. If it cannot be decoded: NULL, *result (a
// CUresult) and the reason.
struct emu_program *emu_program_create(const struct emu_launch *launch, int *result, char *reason,
                                       size_t reason_size);
void emu_program_destroy(struct emu_program *program); // may be NULL

#endif
