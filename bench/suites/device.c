// SPDX-License-Identifier: MIT
// The device of a benchmark: opens it and creates random data.
#include "bench.h"

#include <inttypes.h>

enum { BLOCK = 256 };

static const uint64_t random_first = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t random_second = UINT64_C(0xd6e8feb86659fd93);

// ---- kernels of its own -------------------------------------------------------------------------

/// What bench_random_word() computes.
static void write_random(ptx_builder *b)
{
    ptx_entry (b, "random", .block = { BLOCK }) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out", .length = "n", .writeonly = true);
        ptx_val n = ptx_param(b, PTX_U64, "n");
        ptx_val mask = ptx_param(b, PTX_U32, "mask");
        ptx_val ones = ptx_param(b, PTX_U32, "ones");
        ptx_val tid = ptx_cvt(b, PTX_U64, ptx_tid(b, PTX_X));
        ptx_val block = ptx_ctaid(b, PTX_X);
        ptx_val i = ptx_mad_wide(b, block, ptx_u32(BLOCK), tid);
        ptx_return_if(b, ptx_ge(b, i, n));
        ptx_comment(b, "the place in the period, stirred: multiply, fold, multiply");
        ptx_val place = ptx_and(b, i, ptx_u64(BENCH_PERIOD - 1));
        ptx_val hash = ptx_mul(b, place, ptx_u64(random_first));
        hash = ptx_xor(b, hash, ptx_shr(b, hash, ptx_u32(32)));
        hash = ptx_mul(b, hash, ptx_u64(random_second));
        ptx_val word = ptx_cvt(b, PTX_U32, ptx_shr(b, hash, ptx_u32(32)));
        ptx_store(b, out, i, ptx_or(b, ptx_and(b, word, mask), ones));
    }
}

/// Keeps the device busy for a number of iterations without changing the caches.
static void write_hold(ptx_builder *b)
{
    ptx_entry (b, "hold", .block = { 1 }) {
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out", .length = "1", .writeonly = true);
        ptx_val turns = ptx_param(b, PTX_U32, "turns");
        ptx_val sum = ptx_var(b, turns);
        ptx_for (b, i, ptx_u32(0), turns, ptx_u32(1)) {
            ptx_val next = ptx_mul(b, sum, ptx_u32(0x9e3779b9));
            ptx_set(b, sum, ptx_xor(b, next, i));
        }
        ptx_store(b, out, ptx_u32(0), sum);
    }
}

struct bench_random bench_random_of(ptx_type dtype)
{
    switch (dtype) {
    case PTX_BF16:
        return (struct bench_random) { 0x807f807f, 0x3f803f80 };
    case PTX_F16:
        return (struct bench_random) { 0x83ff83ff, 0x3c003c00 };
    case PTX_F64:
        // Both halves have the same pattern: an exponent in one, fraction bits in the other.
        return (struct bench_random) { 0x800fffff, 0x3ff00000 };
    default:
        return (struct bench_random) { 0x807fffff, 0x3f800000 };
    }
}

uint32_t bench_random_word(struct bench_random random, uint64_t i)
{
    uint64_t hash = i % BENCH_PERIOD * random_first;
    hash = (hash ^ hash >> 32) * random_second;
    return ((uint32_t)(hash >> 32) & random.mask) | random.ones;
}

bool bench_randomize(struct bench *b, CUdeviceptr at, uint64_t bytes, ptx_type dtype)
{
    const struct bench_random random = bench_random_of(dtype);
    const uint64_t n = bytes / 4;
    const struct ptx_arg args[] = { PTX_ARG(at), PTX_ARG(n), PTX_ARG(random.mask),
                                    PTX_ARG(random.ones) };
    const struct ptx_launch_params launch = {
        .grid = { (unsigned)((n + BLOCK - 1) / BLOCK) },
        .stream = b->stream,
        .args = args,
        .arg_count = sizeof(args) / sizeof(args[0]),
    };
    return bench_ok(b, ptx_launch(b->random, &launch), "random data");
}

// ---- opening and closing ------------------------------------------------------------------------

bool bench_ok(struct bench *b, ptx_status status, const char *what)
{
    return status == PTX_OK || message_set(&b->error, "%s: %s", what, ptx_error_message());
}

bool bench_wait(struct bench *b)
{
    return bench_ok(b, ptx_stream_synchronize(b->gpu.device, b->stream), "the device");
}

ptx_buffer *bench_buffer(struct bench *b, uint64_t bytes)
{
    ptx_buffer *buffer = ptx_buffer_create(b->gpu.device, (size_t)bytes);
    if (!buffer)
        message_set(&b->error, "%" PRIu64 " bytes of device memory: %s", bytes,
                    ptx_error_message());
    return buffer;
}

void bench_free(struct bench *b, ptx_buffer **buffer)
{
    b->freed += ptx_buffer_size(*buffer);
    ptx_buffer_destroy(buffer);
}

bool bench_has_room(struct bench *b, uint64_t bytes)
{
    size_t available = 0;
    // Leaves a margin for tables and for the driver.
    return ptx_device_memory(b->gpu.device, &available, NULL) == PTX_OK &&
           available / 16 * 15 > bytes;
}

ptx_builder *bench_builder(struct bench *b)
{
    struct ptx_target target = { 0 };
    const struct ptx_device_info *info = ptx_device_get_info(b->gpu.device);
    ptx_target_newest(info->sm, info->isa, &target);
    return ptx_builder_create(&(struct ptx_builder_params) { .target = target });
}

ptx_module *bench_load_module(struct bench *b, ptx_builder *builder)
{
    ptx_module *module = NULL;
    const char *text = ptx_builder_finish(builder);
    if (text)
        module = ptx_module_load(b->gpu.device, text, NULL);
    if (!module)
        message_set(&b->error, "%s", text ? ptx_error_message() : ptx_builder_error(builder));
    return module;
}

bool bench_open(struct bench *b)
{
    if (b->gpu.device)
        return true;
    if (place_open(&b->place, &b->gpu, &b->error) != EXIT_DONE)
        return false;
    ptx_builder *builder = bench_builder(b);
    write_random(builder);
    write_hold(builder);
    b->module = bench_load_module(b, builder);
    ptx_builder_destroy(&builder);
    if (!b->module)
        return false;
    b->random = ptx_module_function(b->module, "random");
    b->hold = ptx_module_function(b->module, "hold");
    b->stream = ptx_stream_create(b->gpu.device);
    b->start = ptx_event_create(b->gpu.device);
    b->stop = ptx_event_create(b->gpu.device);
    if (!b->stream || !b->start || !b->stop)
        return bench_ok(b, ptx_error_status(), "stream and events");
    b->held = bench_buffer(b, sizeof(uint32_t));
    return b->held != NULL;
}

void bench_close(struct bench *b)
{
    if (!b->gpu.device)
        return;
    // After a failure, work on the stream may still use what is destroyed here.
    if (b->stream)
        ptx_stream_synchronize(b->gpu.device, b->stream);
    ptx_buffer_destroy(&b->held);
    ptx_buffer_destroy(&b->flushed);
    ptx_module_unload(&b->module);
    ptx_event_destroy(b->gpu.device, &b->start);
    ptx_event_destroy(b->gpu.device, &b->stop);
    ptx_stream_destroy(b->gpu.device, &b->stream);
    ptx_device_close(&b->gpu.device);
}
