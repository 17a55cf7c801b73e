// SPDX-License-Identifier: MIT
// Device functions and their calls. A call is printed as the function's code in braces of its own
// (print_entry.c); parameters and results are registers there.
#include "internal.h"

#include <stdio.h>

ptx_type ptxb_carrier(ptx_type type)
{
    return ptxb_bits(type) < 32 ? PTX_U32 : type;
}

// ---- functions ----------------------------------------------------------------------------------

// The types of the results, of which `result` is the only one or `results` has all.
static bool has_results(ptx_builder *b, const struct ptx_func_params *params,
                        struct entry *function)
{
    const char *name = params->name ? params->name : "";

    if (params->result && params->results[0])
        ptxb_fail(b, "func", ".result and .results of '%.64s' exclude each other", name);
    for (unsigned k = 0; k < PTX_FUNC_MAX_RESULTS; k++) {
        const ptx_type type = k || params->results[0] ? params->results[k] : params->result;
        if ((unsigned)type >= PTX_TYPE_COUNT)
            ptxb_fail(b, "func", "the result of '%.64s' needs a type; %d is not a ptx_type", name,
                      (int)type);
        else if (type && function->results < k)
            ptxb_fail(b, "func", ".results[%u] of '%.64s' has no type, and .results[%u] has one",
                      (unsigned)function->results, name, k);
        else if (type)
            function->result[function->results++] = (uint8_t)type;
    }
    return !b->failed;
}

int ptx_func_begin(ptx_builder *b, struct ptx_func_params params)
{
    struct entry function = { .decl.name = params.name, .is_function = true };

    if (b && !b->failed && !has_results(b, &params, &function)) {
        b->lost = true;
        return ptxb_not_opened(b);
    }
    const int block = ptxb_open_entry(b, "func", function);
    if (b && b->failed)
        b->lost = true;
    for (uint32_t k = 0; b && !b->failed && k < function.results; k++) {
        const ptx_val result = ptxb_register(b, ptxb_carrier((ptx_type)function.result[k]));
        if (b->failed)
            return ptxb_not_opened(b);
        struct reg *reg = &b->regs.at[result.reg];
        reg->variable = reg->placed = reg->is_result = reg->decides = 1;
        reg->same = k & MOST_INDEX;
        if (k == 0)
            ptxb_entry(b)->result_reg = result.reg;
    }
    return block;
}

int ptx_func_end(ptx_builder *b, int block)
{
    return ptxb_close_entry(b, "func", BLOCK_FUNC, block);
}

// A value as it is passed: predicates and narrow values in 32 bits.
static ptx_val widened(ptx_builder *b, ptx_val x)
{
    const unsigned bits = ptxb_bits((ptx_type)x.type);

    if (bits >= 32)
        return x;
    if (x.kind == PTX_KIND_IMMEDIATE)
        return ptx_u32((uint32_t)x.bits);
    if (x.type == PTX_PRED)
        return ptx_select(b, x, ptx_u32(1), ptx_u32(0));
    return ptxb_emit(b, PTX_U32, ptxb_opcode(b, "cvt.u32.u16"), 1, &x);
}

static ptx_val narrowed(ptx_builder *b, ptx_type type, ptx_val x)
{
    if (b->failed || ptxb_bits(type) >= 32)
        return x;
    if (type == PTX_PRED)
        return ptx_ne(b, x, ptx_u32(0));
    return ptxb_emit(b, type, ptxb_opcode(b, "cvt.u16.u32"), 1, &x);
}

static bool returns(ptx_builder *b, const char *call, size_t count)
{
    if (!ptxb_ready(b, call))
        return false;
    const struct entry *entry = ptxb_entry(b);
    if (!entry->results)
        ptxb_fail(b, call, "%s has no result; ptx_return() %s",
                  entry->is_function ? "the function" : "an entry",
                  entry->is_function ? "returns from it" : "ends the thread");
    else if (count != entry->results)
        ptxb_fail(b, call, "the function has %u result%s; got %zu value%s",
                  (unsigned)entry->results, entry->results == 1 ? "" : "s", count,
                  count == 1 ? "" : "s");
    return !b->failed;
}

// All are checked before any is set.
static void return_values(ptx_builder *b, const char *call, const ptx_val *x, size_t count)
{
    ptx_val passed[PTX_FUNC_MAX_RESULTS];
    char name[32] = "the value";

    if (!returns(b, call, count))
        return;
    if (!x) {
        ptxb_fail(b, call, "there is no array of values");
        return;
    }
    for (unsigned k = 0; k < count; k++) {
        const ptx_type type = (ptx_type)ptxb_entry(b)->result[k];
        if (count > 1)
            snprintf(name, sizeof name, "value %u", k + 1);
        passed[k] = ptxb_typed(b, call, name, x[k], type);
        if (!ptxb_usable(b, call, name, passed[k]))
            return;
        if (passed[k].type == type)
            continue;
        ptxb_fail(b, call,
                  count > 1 ? "%s is %s; that result of the function is %s"
                            : "%s is %s; the result of the function is %s",
                  name, ptx_type_name((ptx_type)passed[k].type), ptx_type_name(type));
        return;
    }
    for (unsigned k = 0; k < count; k++)
        passed[k] = widened(b, passed[k]);
    for (unsigned k = 0; k < count && !b->failed; k++) {
        const ptx_val result = {
            .reg = ptxb_entry(b)->result_reg + k,
            .kind = PTX_KIND_VARIABLE,
            .type = (uint8_t)ptxb_carrier((ptx_type)ptxb_entry(b)->result[k]),
        };
        ptxb_assign(b, result, passed[k]);
    }
    if (!b->failed)
        ptxb_return(b, 0);
}

void ptx_return_value(ptx_builder *b, ptx_val x)
{
    return_values(b, "return_value", &x, 1);
}

void ptx_return_values_emit(ptx_builder *b, const ptx_val *x, size_t count)
{
    return_values(b, "return_values", x, count);
}

// ---- calls --------------------------------------------------------------------------------------

// The functions that ended, for a message.
static void list_functions(const ptx_builder *b, char *out, size_t size)
{
    size_t length = 0;

    for (uint32_t e = 0; e + 1 < b->entries.count && length < size; e++)
        if (b->entries.at[e].is_function)
            length += (size_t)snprintf(out + length, size - length, "%s'%.64s'", length ? ", " : "",
                                       b->entries.at[e].decl.name);
    if (!length)
        snprintf(out, size, "none");
}

// The index of the function; NO_INDEX after an error.
static uint32_t find_function(ptx_builder *b, const char *call, const char *name)
{
    char known[256];

    for (uint32_t e = 0; name && e < b->entries.count; e++) {
        const struct entry *entry = &b->entries.at[e];
        if (strcmp(entry->decl.name, name) != 0)
            continue;
        if (!entry->is_function)
            ptxb_fail(b, call,
                      "'%.64s' is an entry, which the host launches; ptx_func() makes "
                      "functions",
                      name);
        else if (e + 1 == b->entries.count)
            ptxb_fail(b, call, "function '%.64s' has not ended yet: functions do not recurse",
                      name);
        return b->failed ? NO_INDEX : e;
    }
    if (b->lost && ptxb_follows(b))
        return NO_INDEX;
    list_functions(b, known, sizeof known);
    if (!name)
        ptxb_fail(b, call, "the name is missing; the functions so far: %s", known);
    else
        ptxb_fail(b, call, "there is no function '%.64s' before this; the functions so far: %s",
                  name, known);
    return NO_INDEX;
}

static bool pass(ptx_builder *b, const char *call, const struct entry *function, unsigned k,
                 ptx_val x, ptx_val *out)
{
    const struct ptx_param_info *info = &function->params.at[k].info;
    const ptx_type type = info->is_pointer ? PTX_U64 : (ptx_type)info->type;
    char name[32];

    snprintf(name, sizeof name, "argument %u", k + 1);
    x = ptxb_typed(b, call, name, x, type);
    if (!ptxb_usable(b, call, name, x))
        return false;
    if (x.type != type) {
        ptxb_fail(b, call, "argument %u is %s; parameter '%.64s' of '%.64s' is %s%s", k + 1,
                  ptx_type_name((ptx_type)x.type), info->name, function->decl.name,
                  ptx_type_name(type), info->is_pointer ? ", the address of a pointer" : "");
        return false;
    }
    // In registers, but for integers, whose literals are short.
    x = widened(b, x);
    *out = ptxb_is_integer((ptx_type)x.type) ? x : ptxb_in_register(b, x);
    return !b->failed;
}

// Adds the shared memory of what the function reaches to that of the caller, once each.
static bool reach(ptx_builder *b, const char *call, uint32_t f)
{
    struct entry *caller = ptxb_entry(b);

    for (uint32_t k = 0; k < caller->reaches.count; k++)
        if (caller->reaches.at[k] == f)
            return true;
    if (!ROOM_FOR(b, caller->reaches, 1))
        return false;
    caller->reaches.at[caller->reaches.count++] = (uint16_t)f;
    caller->shared_bytes += b->entries.at[f].own_shared;
    if (caller->shared_bytes <= SHARED_BYTES)
        return true;
    ptxb_fail(b, call,
              "with the arrays of '%.64s', %u bytes of shared memory are declared; an entry has at "
              "most %d; ptx_shared_dynamic() can have more",
              b->entries.at[f].decl.name, caller->shared_bytes, SHARED_BYTES);
    return false;
}

// The arrays in local memory of a function live while it runs, under those of its caller.
static bool has_local_memory(ptx_builder *b, const char *call, const struct entry *function)
{
    struct entry *caller = ptxb_entry(b);
    const uint32_t below = function->local_bytes + function->called_local;

    caller->called_local += below;
    if (caller->local_bytes + caller->called_local <= LOCAL_BYTES)
        return true;
    ptxb_fail(b, call,
              "with the arrays of '%.64s', %u bytes of local memory are declared; a thread has at "
              "most %d",
              function->decl.name, caller->local_bytes + caller->called_local, LOCAL_BYTES);
    return false;
}

// A call is written inline, and so are those in the function.
static bool has_room_for_code(ptx_builder *b, const char *call, const struct entry *function)
{
    enum { MOST_PIECES = 4096, MOST_NESTED = 64 };
    struct entry *caller = ptxb_entry(b);

    caller->pieces += 1 + function->pieces;
    if (caller->nested <= function->nested)
        caller->nested = function->nested + 1;
    if (caller->pieces <= MOST_PIECES && caller->nested <= MOST_NESTED)
        return true;
    ptxb_fail(b, call,
              caller->nested > MOST_NESTED
                  ? "a call is written inline; with '%.64s' more than %d are nested"
                  : "a call is written inline, and so are those in the function: with '%.64s' the "
                    "code of functions stands here more than %d times",
              function->decl.name, caller->nested > MOST_NESTED ? MOST_NESTED : MOST_PIECES);
    return false;
}

static bool may_call(ptx_builder *b, const char *call, uint32_t f)
{
    static const char *const wanted[] = { "a multiple of 32 threads in x",
                                          "a multiple of 32 threads in x, or one row of threads" };
    struct entry *function = &b->entries.at[f], *caller = ptxb_entry(b);
    const uint32_t reached = caller->reaches.count;

    if (!has_room_for_code(b, call, function) || !has_local_memory(b, call, function) ||
        !reach(b, call, f) ||
        (function->whole_warps && !ptxb_whole_warps(b, call, function->decl.name)))
        return false;
    // What a function reaches is reached by its first call.
    const bool first = caller->reaches.count > reached;
    for (uint32_t k = 0; first && k < function->reaches.count; k++)
        if (!reach(b, call, function->reaches.at[k]))
            return false;
    if (function->text_shared) {
        ptxb_fail(b, call,
                  "'%.64s' has shared memory that a text of ptx_asm() declares. A call is written "
                  "inline, so each would have its own; use ptx_shared()",
                  function->decl.name);
        return false;
    }
    if (caller->is_function && function->rows < caller->rows)
        caller->rows = function->rows;
    if (caller->is_function || ptxb_rows(caller->decl.block) <= function->rows)
        return true;
    ptxb_fail(b, call,
              "the warp operations of '%.64s' need blocks with %s; those of the entry are %u x %u "
              "x %u",
              function->decl.name, wanted[function->rows], caller->decl.block[0],
              caller->decl.block[1] ? caller->decl.block[1] : 1,
              caller->decl.block[2] ? caller->decl.block[2] : 1);
    return false;
}

// One instruction: results, function, arguments.
static bool append_call(ptx_builder *b, uint32_t f, const ptx_val *args, unsigned count,
                        ptx_val *out)
{
    const struct entry *function = &b->entries.at[f];
    const unsigned results = function->results;

    for (unsigned k = 0; k < results; k++)
        out[k] = ptxb_register(b, ptxb_carrier((ptx_type)function->result[k]));
    struct insn *insn = ptxb_append(b, INSN_PLAIN, ptxb_opcode(b, "call"), results, 1 + count);
    if (!insn)
        return false;
    insn->calls = 1;
    for (unsigned k = 0; k < results; k++)
        ptxb_result(b, insn, k, out[k]);
    ptxb_text_operand(b, insn, results, OPERAND_TEXT, function->decl.name);
    ptxb_operands(&b->code[0], insn)[results].id = f & MOST_INDEX;
    for (unsigned k = 0; k < count; k++)
        ptxb_source(b, insn, results + 1 + k, args[k]);
    if (function->meets[MEET_WARP])
        ptxb_meet(b, MEET_WARP);
    if (function->meets[MEET_BLOCK]) // of the whole block, and so of whole warps
        ptxb_meet(b, MEET_BLOCK);
    b->entries.at[f].is_called = true;
    return true;
}

// Calls a function with at most so many results; its index, and NO_INDEX after an error.
static uint32_t call_function(ptx_builder *b, const char *call, const char *name,
                              const ptx_val *args, size_t count, unsigned most, ptx_val *out)
{
    ptx_val passed[PTX_FUNC_MAX_PARAMS];

    if (!ptxb_ready(b, call))
        return NO_INDEX;
    const uint32_t f = find_function(b, call, name);
    if (f == NO_INDEX)
        return NO_INDEX;
    const struct entry *function = &b->entries.at[f];
    if (count != function->params.count) {
        ptxb_fail(b, call, "'%.64s' takes %u argument%s; got %zu", name, function->params.count,
                  function->params.count == 1 ? "" : "s", count);
        return NO_INDEX;
    }
    if (function->results > most) {
        ptxb_fail(b, call, "'%.64s' has %u results; ptx_call_many() gives them", name,
                  (unsigned)function->results);
        return NO_INDEX;
    }
    if (count && !args) {
        ptxb_fail(b, call, "there is no array of arguments for '%.64s'", name);
        return NO_INDEX;
    }
    for (unsigned k = 0; k < count; k++)
        if (!pass(b, call, function, k, args[k], &passed[k]))
            return NO_INDEX;
    if (!may_call(b, call, f) || !append_call(b, f, passed, (unsigned)count, out))
        return NO_INDEX;
    for (unsigned k = 0; k < b->entries.at[f].results; k++)
        out[k] = narrowed(b, (ptx_type)b->entries.at[f].result[k], out[k]);
    return b->failed ? NO_INDEX : f;
}

ptx_val ptx_call_emit(ptx_builder *b, const char *name, const ptx_val *args, size_t count)
{
    ptx_val result = { 0 };
    const uint32_t f = call_function(b, "call", name, args, count, 1, &result);

    if (f == NO_INDEX)
        return (ptx_val) { 0 };
    if (!b->entries.at[f].results) { // for a message that names the function: ptxb_fail_unusable()
        result.bits = b->number;
        result.reg = f + 1;
    }
    return result;
}

ptx_vec ptx_call_many_emit(ptx_builder *b, const char *name, const ptx_val *args, size_t count)
{
    ptx_vec result = { { { 0 } }, 0 };
    const uint32_t f =
        call_function(b, "call_many", name, args, count, PTX_FUNC_MAX_RESULTS, result.lane);

    if (f == NO_INDEX)
        return (ptx_vec) { { { 0 } }, 0 };
    result.lanes = b->entries.at[f].results;
    return result;
}
