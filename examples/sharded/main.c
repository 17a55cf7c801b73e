// SPDX-License-Identifier: MIT
// Clips a gradient that is distributed over several GPUs, with one thread for each GPU. Each rank
// has tensors of its own and a copy of one shared tensor. Its plan computes the sum of squares of
// these tensors, NCCL adds the sums of all ranks, and every rank computes the same norm and factor.
// The result is compared with that of one GPU that has the whole gradient.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { TIMED = 100, EXIT_SKIPPED = 77 };

// -------------------------------------------------------------------------------- a rank's thread

// Whether all ranks are without errors; checked before they wait for each other on the GPU.
static bool agree(struct world *world, bool well)
{
    if (!well)
        atomic_store(&world->failed, true);
    pthread_barrier_wait(&world->barrier);
    const bool all = !atomic_load(&world->failed);
    pthread_barrier_wait(&world->barrier);
    return all;
}

static bool run_round(struct task *t, enum round round)
{
    struct rank *r = &t->rank;
    ptx_graph *graph = NULL;
    bool well = rank_reset(r);
    if (round == INFINITE && t->ordinal == t->world->ranks - 1) {
        static const float infinite = INFINITY;
        well = well && ptx_buffer_upload(r->buffers[0], 3 * sizeof infinite, &infinite,
                                         sizeof infinite, r->stream) == PTX_OK;
    }
    if (round == CAPTURED)
        well = well && (graph = rank_capture(r)) != NULL;
    if (!agree(t->world, well))
        return false;
    if (graph)
        well = ptx_graph_launch(graph, r->stream) == PTX_OK;
    else
        well = rank_clip(r);
    well = rank_read(r, &t->outcomes[round]) && well;
    ptx_graph_destroy(&graph);
    return agree(t->world, well);
}

// Chosen so that each clip rewrites the gradients but hardly changes their size.
static bool stay_as_large(struct rank *r)
{
    const struct ptx_loss_scale_state state = { .scale = 0.9999f };
    return ptx_clip_plan_set_max_norm(r->plan, PTX_CLIP_ALL_GROUPS, INFINITY, r->stream) ==
               PTX_OK &&
           ptx_clip_plan_set_loss_scale(r->plan, state, r->stream) == PTX_OK;
}

// The time on the stream of one clip, including the all-reduce.
static bool time_clips(struct task *t, const ptx_graph *graph, float *microseconds)
{
    struct rank *r = &t->rank;
    float milliseconds;
    bool well = ptx_event_record(r->device, r->start, r->stream) == PTX_OK;
    for (int k = 0; k < TIMED; k++)
        well = (graph ? ptx_graph_launch(graph, r->stream) == PTX_OK : rank_clip(r)) && well;
    well = ptx_event_record(r->device, r->end, r->stream) == PTX_OK && well;
    well = ptx_stream_synchronize(r->device, r->stream) == PTX_OK && well &&
           ptx_event_elapsed(r->device, r->start, r->end, &milliseconds) == PTX_OK;
    *microseconds = well ? milliseconds * 1e3f / TIMED : 0;
    return agree(t->world, well);
}

static bool work(struct task *t)
{
    struct rank *r = &t->rank;
    bool well = rank_open(r, t->ordinal, t->world->parts[t->ordinal], RANK_PARTS) &&
                rank_reset(r) && rank_local_sum(r, &t->local_sum);
    if (!agree(t->world, well))
        return well;
    for (enum round round = DIRECT; round < ROUNDS; round++)
        if (!run_round(t, round))
            return false;
    ptx_graph *graph = rank_reset(r) && stay_as_large(r) ? rank_capture(r) : NULL;
    well = agree(t->world, graph != NULL) && time_clips(t, NULL, &t->microseconds[0]) &&
           time_clips(t, graph, &t->microseconds[1]);
    ptx_graph_destroy(&graph);
    return well;
}

static void *thread(void *argument)
{
    struct task *t = argument;
    if (!work(t))
        snprintf(t->message, sizeof t->message, "%s", ptx_error_message());
    rank_close(&t->rank);
    return NULL;
}

static bool run_threads(struct world *world, struct task *tasks)
{
    pthread_t threads[MAX_RANKS];
    int started = 0;
    if (pthread_barrier_init(&world->barrier, NULL, (unsigned)world->ranks) != 0)
        return false;
    while (started < world->ranks &&
           pthread_create(&threads[started], NULL, thread, &tasks[started]) == 0)
        started++;
    if (started < world->ranks) {
        fprintf(stderr, "sharded_clip: no thread for each GPU\n");
        exit(1); // the running threads wait for the others
    }
    for (int k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
    pthread_barrier_destroy(&world->barrier);
    for (int k = 0; k < started; k++)
        if (tasks[k].message[0])
            fprintf(stderr, "sharded_clip: rank %d: %s\n", k, tasks[k].message);
    return !atomic_load(&world->failed);
}

// -------------------------------------------------------------------------------------------- all

static int skipped(const char *reason)
{
    fprintf(stderr, "sharded_clip: SKIPPED: %s\n", reason);
    return EXIT_SKIPPED;
}

static bool compare(const struct world *world, const struct task *tasks)
{
    bool right = sums_right(world, tasks);
    right &= ranks_agree(world, tasks);
    right &= infinity_right(world, tasks);
    right &= one_agrees(world, tasks);
    printf("time of a clip, all-reduce included: %.1f us launched, %.1f us captured\n",
           (double)tasks[0].microseconds[0], (double)tasks[0].microseconds[1]);
    return right;
}

static bool run_ranks(struct world *world, struct task *tasks)
{
    ncclComm_t comms[MAX_RANKS] = { 0 };
    int devices[MAX_RANKS];
    bool right = true;
    for (int k = 0; k < world->ranks; k++)
        devices[k] = k;
    const int result = world->nccl.CommInitAll(comms, world->ranks, devices);
    if (result != NCCL_SUCCESS) {
        fprintf(stderr, "sharded_clip: NCCL: %s\n", world->nccl.GetErrorString(result));
        return false;
    }
    for (int k = 0; right && k < world->ranks; k++) {
        tasks[k] = (struct task) { .world = world, .ordinal = k };
        tasks[k].rank = (struct rank) { .nccl = &world->nccl, .comm = comms[k] };
        for (int round = 0; round < ROUNDS; round++) {
            tasks[k].outcomes[round].gradients = malloc(rank_bytes(world->parts[k]));
            right = right && tasks[k].outcomes[round].gradients;
        }
    }
    right = right && run_threads(world, tasks) && compare(world, tasks);
    for (int k = 0; k < world->ranks; k++) {
        for (int round = 0; round < ROUNDS; round++)
            free(tasks[k].outcomes[round].gradients);
        world->nccl.CommDestroy(comms[k]);
    }
    return right;
}

static int run(struct world *world, uint64_t elements)
{
    struct task tasks[MAX_RANKS] = { 0 };
    int gpus = 0;
    if (ptx_device_count(&gpus) != PTX_OK)
        return skipped(ptx_error_message());
    if (world->ranks == 0)
        world->ranks = gpus < MAX_RANKS ? gpus : MAX_RANKS;
    if (gpus < world->ranks)
        return skipped("there are fewer GPUs than ranks");
    ptx_device *first = ptx_device_open(&(struct ptx_device_params) { .primary = true });
    if (!first)
        return skipped(ptx_error_message());
    const struct ptx_device_info *info = ptx_device_get_info(first);
    const bool emulated = strstr(info->name, "emulator") != NULL;
    printf("sharded_clip: %d ranks, %s\n", world->ranks, info->name);
    ptx_device_close(&first);
    if (emulated)
        return skipped("NCCL does not run on the emulator");
    const char *missing = nccl_open(&world->nccl);
    if (missing) {
        fprintf(stderr,
                "sharded_clip: SKIPPED: no NCCL (%s); PTXGEN_NCCL=.../libnccl.so.2 says "
                "where it is\n",
                missing);
        return EXIT_SKIPPED;
    }
    printf("NCCL %d; each rank %llu elements of its own, %llu shared\n", world->nccl.version,
           (unsigned long long)(elements + elements / 2), (unsigned long long)(elements / 8 + 3));
    const bool right = make_parts(world, elements) && run_ranks(world, tasks);
    free_parts(world);
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct world world = { 0 };
    uint64_t elements = 1000003;
    bool understood = argc % 2 == 1;
    for (int k = 1; understood && k < argc; k += 2) {
        char *end;
        const unsigned long value = strtoul(argv[k + 1], &end, 10);
        understood = value > 0 && !*end;
        if (strcmp(argv[k], "--ranks") == 0 && value <= MAX_RANKS)
            world.ranks = (int)value;
        else if (strcmp(argv[k], "--elements") == 0 && value >= 8 && value <= 1000000000)
            elements = value;
        else
            understood = false;
    }
    if (!understood) {
        fprintf(stderr, "usage: %s [--ranks N] [--elements N]\n", argv[0]);
        return 2;
    }
    return run(&world, elements);
}
