// SPDX-License-Identifier: MIT
#include "signals.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU };

enum { ENDING_COUNT = sizeof(ending) / sizeof(ending[0]), STATUS_FAILED = 1 };

static struct {
    const char *volatile path;
    volatile pid_t owner; ///< a child process must leave the file to its parent
    bool caught[ENDING_COUNT];
} unfinished;

static struct {
    const char *volatile begin;
    volatile size_t size;
    const char *volatile path;
    bool caught;
} mapped;

void signals_set_up(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

void signals_of_child(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGXFSZ);
}

// Handlers may only call async-signal-safe functions.

static void remove_and_end(int number)
{
    if (unfinished.path && unfinished.owner == getpid())
        unlink(unfinished.path);
    signal(number, SIG_DFL);
    raise(number);
}

static void say(const char *text)
{
    // If even this fails, nothing can be done.
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

static void report_truncated(int number, siginfo_t *info, void *context)
{
    (void)context;
    const uintptr_t at = (uintptr_t)info->si_addr, begin = (uintptr_t)mapped.begin;
    if (!mapped.path || at < begin || at - begin >= mapped.size) {
        signal(number, SIG_DFL); // the access is repeated with the default action
        return;
    }
    say("ptxgen: ");
    say(mapped.path);
    say(": the file became shorter while it was read\n");
    if (unfinished.path && unfinished.owner == getpid())
        unlink(unfinished.path);
    _exit(STATUS_FAILED);
}

void signals_remove(const char *path)
{
    struct sigaction action = { .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
    if (path) {
        unfinished.owner = getpid();
        unfinished.path = path;
    }
    for (size_t k = 0; k < ENDING_COUNT; k++) {
        struct sigaction before;
        if (sigaction(ending[k], NULL, &before) != 0)
            continue;
        if (path && !unfinished.caught[k] && before.sa_handler == SIG_DFL) {
            action.sa_handler = remove_and_end;
            unfinished.caught[k] = sigaction(ending[k], &action, NULL) == 0;
        } else if (!path && unfinished.caught[k]) {
            action.sa_handler = SIG_DFL;
            unfinished.caught[k] = sigaction(ending[k], &action, NULL) != 0;
        }
    }
    unfinished.path = path;
}

void signals_mapped(const void *begin, size_t size, const char *path)
{
    mapped.path = NULL;
    mapped.begin = begin;
    mapped.size = size;
    mapped.path = path;
    if (path && !mapped.caught) {
        struct sigaction action = { .sa_flags = SA_SIGINFO };
        action.sa_sigaction = report_truncated;
        mapped.caught = sigaction(SIGBUS, &action, NULL) == 0;
    }
}
