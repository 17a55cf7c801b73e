// SPDX-License-Identifier: MIT
/// Children of a process that uses the emulator, also of one with a thread in a call.
#define _POSIX_C_SOURCE 200809L
#include "api.h"

#include "child.h"

#include <pthread.h>
#include <stdatomic.h>

static void forks(void)
{
    CUdeviceptr address = 0;
    open_context();
    pid_t child = fork();
    if (child == 0) {
        WANT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_NOT_INITIALIZED);
        WANT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    WANT(status, 0);
    WANT(cuMemAlloc_v2(&address, 4), 0);
}

static atomic_bool stops;
static atomic_uint rounds; // of the thread

/// Is in the driver nearly all the time; after cuInit() also in a kernel's launch and copies.
static void *keeps_calling(void *context)
{
    CUdeviceptr address = 0;
    int version = 0;
    if (context)
        WANT(cuCtxSetCurrent(context), 0);
    while (!atomic_load(&stops)) {
        WANT(cuDriverGetVersion(&version), 0);
        if (context) {
            WANT(cuMemAlloc_v2(&address, 1 << 20), 0);
            WANT(cuMemsetD8_v2(address, 1, 1 << 20), 0);
            WANT(cuMemFree_v2(address), 0);
        }
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

enum { FORKS = 200, LONGEST = 200 }; // seconds of a child, which would wait for ever

/// Children of a process whose other thread is in a call: what cuInit() and all others return
/// there.
static void forks_during_calls(CUcontext context, CUresult result)
{
    pthread_t thread;
    atomic_store(&stops, false);
    atomic_store(&rounds, 0);
    WANT(pthread_create(&thread, NULL, keeps_calling, context), 0);
    while (atomic_load(&rounds) == 0)
        continue;
    for (int k = 0; k < FORKS; k++) {
        const pid_t child = fork();
        TRUE(child >= 0);
        if (child == 0) {
            CUdeviceptr address = 0;
            const char *text = NULL;
            int count = 0;
            alarm(LONGEST);
            WANT(cuInit(0), result);
            WANT(cuDeviceGetCount(&count), result);
            WANT(cuMemAlloc_v2(&address, 4), result ? result : CUDA_ERROR_INVALID_CONTEXT);
            WANT(cuGetErrorString(CUDA_ERROR_NOT_INITIALIZED, &text), 0);
            _exit(0);
        }
        int status = 1;
        WANT(waitpid(child, &status, 0), child);
        WANT(status, 0);
    }
    atomic_store(&stops, true);
    pthread_join(thread, NULL);
}

static void forks_in_calls(void)
{
    CUcontext context = NULL;
    forks_during_calls(NULL, CUDA_SUCCESS); // the parent has not called cuInit()
    open_context();
    WANT(cuCtxGetCurrent(&context), 0);
    forks_during_calls(context, CUDA_ERROR_NOT_INITIALIZED);
}

TEST(calls_after_a_fork)
{
    in_child(forks, NULL);
}

TEST(forks_while_another_thread_calls)
{
    in_child(forks_in_calls, NULL);
}

int main(void)
{
    snprintf(log_path, sizeof(log_path), "/tmp/ptxgen-fork-%ld.log", (long)getpid());
    int failed = tests_run(NULL, NULL);
    remove(log_path);
    return failed;
}
