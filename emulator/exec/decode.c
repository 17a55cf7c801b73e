// SPDX-License-Identifier: MIT
// Makes a program: the entry and every function that it reaches, their frames, the shared memory of
// the block.
#include "decode.h"

#include <stdlib.h>

enum { MOST_FRAMES = 16 << 20 }; // bytes of registers of a warp, for one depth of calls

static bool lay_out_frame(struct emu_decoder *d)
{
    const struct emu_function *f = d->code->function;
    uint64_t at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->register_count; i++) {
            uint8_t width = emu_storage(f->registers[i].type);
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

static bool decode_function(struct emu_decoder *d, uint32_t index)
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
        return emu_decode_fail(d, EMU_OUT_OF_MEMORY, "out of memory");
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
    return true;
}

// Finds every function that a chain of calls reaches, by repeated passes, because chains are short.
static bool decode_reached(struct emu_decoder *d)
{
    bool more = true;
    if (!decode_function(d, d->program->entry))
        return false;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < d->program->count; i++) {
            const struct emu_code *code = &d->program->codes[i];
            for (uint32_t k = 0; k < code->count; k++) {
                const struct emu_op *op = &code->ops[k];
                if (op->handler != EMU_DO_CALL || d->program->codes[op->insn->target].function)
                    continue;
                if (!decode_function(d, op->insn->target))
                    return false;
                more = true;
            }
        }
    }
    return true;
}

static void program_free(struct emu_program *program)
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

static bool lay_out_frames(struct emu_decoder *d)
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

static struct emu_program *program_build(const struct emu_launch *launch, int *result, char *reason,
                                         size_t reason_size)
{
    struct emu_program *program = calloc(1, sizeof(*program));
    struct emu_decoder d = { program, launch, launch->module, NULL, NULL, reason, reason_size, 0 };
    *result = EMU_OUT_OF_MEMORY;
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
    program_free(program);
    return NULL;
}

// ---- once a module ------------------------------------------------------------------------------

struct emu_programs {
    struct emu_warnings *warnings;
    pthread_mutex_t lock; // guards the decoded programs
    uint32_t count;
    struct emu_program *by_entry[];
};

struct emu_programs *emu_programs_create(const struct emu_module *module)
{
    uint32_t count = module->function_count;
    struct emu_programs *programs =
        calloc(1, sizeof(*programs) + count * sizeof(programs->by_entry[0]));
    if (!programs)
        return NULL;
    programs->warnings = emu_warnings_create();
    if (!programs->warnings) {
        free(programs);
        return NULL;
    }
    pthread_mutex_init(&programs->lock, NULL);
    programs->count = count;
    return programs;
}

void emu_programs_destroy(struct emu_programs **programs)
{
    if (!programs || !*programs)
        return;
    for (uint32_t i = 0; i < (*programs)->count; i++)
        program_free((*programs)->by_entry[i]);
    pthread_mutex_destroy(&(*programs)->lock);
    emu_warnings_destroy(&(*programs)->warnings);
    free(*programs);
    *programs = NULL;
}

struct emu_warnings *emu_programs_warnings(struct emu_programs *programs)
{
    return programs->warnings;
}

const struct emu_program *emu_program_of(const struct emu_launch *launch, int *result, char *reason,
                                         size_t reason_size)
{
    struct emu_programs *programs = launch->programs;
    if (!programs)
        return program_build(launch, result, reason, reason_size);
    struct emu_program **at = &programs->by_entry[launch->entry - launch->module->functions];
    pthread_mutex_lock(&programs->lock);
    if (!*at)
        *at = program_build(launch, result, reason, reason_size);
    const struct emu_program *program = *at;
    pthread_mutex_unlock(&programs->lock);
    return program;
}

void emu_program_drop(const struct emu_launch *launch, const struct emu_program *program)
{
    if (!launch->programs)
        program_free((struct emu_program *)(uintptr_t)program);
}
