// SPDX-License-Identifier: MIT
// Decodes an entry and every function that it reaches; registers become slots in a frame.
#include "decode.h"
#include "step.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_FRAMES = 16 << 20 }; // bytes of registers of a warp, for one depth of calls

static bool lay_out_frame(struct decoder *d)
{
    const struct emu_function *f = d->code->function;
    uint64_t at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->register_count; i++) {
            uint8_t width = emu_lane_width(f->registers[i].type);
            if ((width == EMU_MASK) != (pass == 1))
                continue;
            d->code->slots[i] = (uint32_t)at;
            at += width ? (uint64_t)width * EMU_LANES : 4;
        }
    }
    at = (at + 63) / 64 * 64;
    if (at > MOST_FRAMES)
        return emu_decode_fail(d, EMU_OUT_OF_RESOURCES,
                               "the registers take more than %u bytes a warp",
                               (unsigned)MOST_FRAMES);
    d->code->frame_bytes = (uint32_t)at;
    return true;
}

// Where the operands are, for steps.
static void resolve(struct emu_op *op)
{
    uint32_t reads = 0;
    for (unsigned k = op->src_count; k-- > 0;)
        reads = op->src[k].place == EMU_AT_SLOT ? op->src[k].reg : reads;
    for (unsigned k = 0; k < EMU_STEP_SOURCES && op->src_count; k++) {
        const struct emu_value *value = &op->src[k < op->src_count ? k : 0];
        op->from[k] = value->at;
        op->pool[k] = value->place == EMU_AT_CONST;
        op->reads[k] = value->place == EMU_AT_SLOT ? value->reg : reads;
    }
    for (unsigned k = 0; k < EMU_STEP_RESULTS && k < op->dst_count; k++) {
        op->to[k] = op->dst[k].at;
        op->writes[k] = op->dst[k].reg;
    }
}

static bool decode_function(struct decoder *d, uint32_t index)
{
    const struct emu_function *f = &d->module->functions[index];
    struct emu_code *code = &d->program->codes[index];
    d->code = code;
    d->insn = NULL;
    code->function = f;
    code->count = f->insn_count;
    code->ops = calloc((size_t)f->insn_count + 1, sizeof(*code->ops));
    code->values = calloc((size_t)f->operand_count + 1, sizeof(*code->values));
    code->slots = calloc((size_t)f->register_count + 1, sizeof(*code->slots));
    if (!code->ops || !code->values || !code->slots)
        return emu_decode_fail(d, EMU_OUT_OF_MEMORY, "out of host memory for a function");
    if (!lay_out_frame(d))
        return false;
    uint64_t used = 0;
    for (uint32_t i = 0; i < f->insn_count; i++) {
        d->insn = &f->insns[i];
        // Instructions may share operands; each use has its own value.
        used += (uint64_t)d->insn->dst_count + d->insn->src_count;
        if (used > f->operand_count)
            return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "operands used twice");
        if (!emu_decode_insn(d, &code->ops[i]))
            return false;
    }
    // Reaching the end is a return.
    code->ops[f->insn_count] =
        (struct emu_op) { .handler = EMU_DO_RETURN,
                          .guard = EMU_NO_REGISTER,
                          .insn = f->insn_count ? &f->insns[f->insn_count - 1] : NULL };
    for (uint32_t i = 0; i < code->value_count; i++)
        if (code->values[i].place == EMU_AT_CONST)
            code->values[i].constant = code->constants + code->values[i].at;
    for (uint32_t i = 0; i <= code->count; i++) {
        resolve(&code->ops[i]);
        code->ops[i].index = i;
        emu_choose_step(&code->ops[i]);
    }
    return true;
}

// The functions that chains of calls reach, in the order in which they are found.
struct reached {
    uint32_t *functions;
    uint32_t count;
    bool by_address; // those that may be called by address are among them
};

static bool decode_once(struct decoder *d, struct reached *reached, uint32_t function)
{
    if (d->program->codes[function].function)
        return true;
    reached->functions[reached->count++] = function;
    return decode_function(d, function);
}

// The functions that may be called by address.
static bool decode_addressed(struct decoder *d, struct reached *reached)
{
    for (uint32_t i = 0; i < d->program->count && !reached->by_address; i++)
        if (d->module->functions[i].has_address && !d->module->functions[i].is_entry &&
            !decode_once(d, reached, i))
            return false;
    reached->by_address = true;
    return true;
}

static bool decode_called(struct decoder *d, struct reached *reached)
{
    if (!decode_once(d, reached, d->program->entry))
        return false;
    for (uint32_t i = 0; i < reached->count; i++) {
        const struct emu_code *code = &d->program->codes[reached->functions[i]];
        if (code->function->calls_by_address && !decode_addressed(d, reached))
            return false;
        for (uint32_t k = 0; k < code->count; k++) {
            const struct emu_op *op = &code->ops[k];
            if (op->handler == EMU_DO_CALL && op->insn->mode != EMU_MODE_INDIRECT &&
                !decode_once(d, reached, op->insn->target))
                return false;
        }
    }
    return true;
}

static bool decode_reached(struct decoder *d)
{
    struct reached reached = { calloc((size_t)d->program->count + 1, sizeof(uint32_t)), 0, false };
    const bool done = reached.functions
                          ? decode_called(d, &reached)
                          : emu_decode_fail(d, EMU_OUT_OF_MEMORY, "out of host memory for calls");
    free(reached.functions);
    return done;
}

void emu_program_destroy(struct emu_program *program)
{
    for (uint32_t i = 0; program && program->codes && i < program->count; i++) {
        struct emu_code *code = &program->codes[i];
        free(code->ops);
        free(code->values);
        free(code->slots);
        free(code->constants);
    }
    if (program)
        free(program->codes);
    free(program);
}

static bool lay_out_frames(struct decoder *d)
{
    struct emu_program *program = d->program;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < program->count; i++)
        bytes += program->codes[i].frame_bytes;
    d->insn = NULL;
    if (bytes > MOST_FRAMES)
        return emu_decode_fail(d, EMU_OUT_OF_RESOURCES,
                               "the registers take more than %u bytes a warp",
                               (unsigned)MOST_FRAMES);
    for (uint32_t i = 0; i < program->count; i++) {
        struct emu_code *code = &program->codes[i];
        if (!code->function)
            continue;
        code->frame_at = program->depth_bytes;
        code->init_at = program->depth_registers;
        program->depth_bytes += code->frame_bytes;
        program->depth_registers += code->function->register_count;
    }
    return true;
}

struct emu_program *emu_program_create(const struct emu_launch *launch, int *result, char *reason,
                                       size_t reason_size)
{
    struct emu_program *program = calloc(1, sizeof(*program));
    struct decoder d = { program, launch, launch->module, NULL, NULL, reason, reason_size, 0 };
    *result = EMU_OUT_OF_MEMORY;
    snprintf(reason, reason_size, "out of host memory for the decoded program");
    if (!program)
        return NULL;
    program->race_grain = 4;
    program->count = launch->module->function_count;
    program->codes = calloc((size_t)program->count + 1, sizeof(*program->codes));
    program->entry = (uint32_t)(launch->entry - launch->module->functions);
    program->dynamic_at = emu_dynamic_start(launch->module, launch->entry);
    if (program->codes && decode_reached(&d) && lay_out_frames(&d)) {
        *result = EMU_SUCCESS;
        return program;
    }
    if (d.result)
        *result = d.result;
    emu_program_destroy(program);
    return NULL;
}
