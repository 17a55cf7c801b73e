// SPDX-License-Identifier: MIT
#include "ptxas.h"

#include "output.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FILE_PATH_SIZE = 96, LOG_LIMIT = 1 << 22 };

static const char *const file_names[] = { "input.ptx", "output.cubin", "log" };

static const char *file_path(const struct ptxas *ptxas, const char *name, char path[FILE_PATH_SIZE])
{
    snprintf(path, FILE_PATH_SIZE, "%s/%s", ptxas->folder, name);
    return path;
}

static bool try_folder(struct ptxas *ptxas, const char *folder, size_t length, const char *below)
{
    int used =
        snprintf(ptxas->path, sizeof(ptxas->path), "%.*s%s/ptxas", (int)length, folder, below);
    if (used < 0 || (size_t)used >= sizeof(ptxas->path))
        return false;
    struct stat status;
    return stat(ptxas->path, &status) == 0 && S_ISREG(status.st_mode) &&
           access(ptxas->path, X_OK) == 0;
}

bool ptxas_find(struct ptxas *ptxas, struct message *error)
{
    *ptxas = (struct ptxas) { 0 };
    const char *search = getenv("PATH");
    while (search && *search) {
        size_t length = strcspn(search, ":");
        if (length > 0 && length < PTXAS_PATH_SIZE && try_folder(ptxas, search, length, ""))
            return true;
        search += length + (search[length] == ':');
    }
    const char *home = getenv("CUDA_HOME");
    if (home && *home && strlen(home) < PTXAS_PATH_SIZE &&
        try_folder(ptxas, home, strlen(home), "/bin"))
        return true;
    const char *usual = "/usr/local/cuda/bin";
    if (try_folder(ptxas, usual, strlen(usual), ""))
        return true;
    return message_set(error, "no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin");
}

bool ptxas_open(struct ptxas *ptxas, struct message *error)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base || strlen(base) + 16 > sizeof(ptxas->folder))
        base = "/tmp";
    snprintf(ptxas->folder, sizeof(ptxas->folder), "%s/ptxgen-XXXXXX", base);
    if (mkdtemp(ptxas->folder))
        return true;
    message_set(error, "cannot make a folder in %s: %s", base, strerror(errno));
    ptxas->folder[0] = '\0';
    return false;
}

void ptxas_close(struct ptxas *ptxas)
{
    char path[FILE_PATH_SIZE];
    if (!ptxas->folder[0])
        return;
    for (size_t k = 0; k < sizeof(file_names) / sizeof(file_names[0]); k++)
        unlink(file_path(ptxas, file_names[k], path));
    rmdir(ptxas->folder);
    ptxas->folder[0] = '\0';
}

bool ptx_directive(const char *text, const char *directive, char *word, size_t size)
{
    size_t length = strlen(directive);
    while (text) {
        text += strspn(text, " \t\r\n");
        if (strncmp(text, directive, length) == 0 && strchr(" \t", text[length])) {
            text += length;
            text += strspn(text, " \t");
            size_t end = strcspn(text, " \t\r\n,;/");
            if (end == 0 || end >= size)
                return false;
            memcpy(word, text, end);
            word[end] = '\0';
            return true;
        }
        text = strchr(text, '\n');
    }
    return false;
}

/// Runs ptxas with both of its outputs in the log file. False if it could not be run.
static bool spawn(struct ptxas *ptxas, const char *target, int *status, struct message *error)
{
    char input[FILE_PATH_SIZE], output[FILE_PATH_SIZE], log[FILE_PATH_SIZE];
    char arch[PTX_TARGET_NAME_SIZE + 8];
    snprintf(arch, sizeof(arch), "-arch=%s", target);
    file_path(ptxas, file_names[0], input);
    file_path(ptxas, file_names[1], output);
    file_path(ptxas, file_names[2], log);
    char to[] = "-o";
    char *arguments[] = { ptxas->path, arch, to, output, input, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    signals_of_child(&defaults);
    int failed = posix_spawnattr_init(&attributes);
    if (!failed)
        failed = posix_spawnattr_setsigdefault(&attributes, &defaults);
    if (!failed)
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (!failed)
        failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log,
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (!failed)
            failed = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
        pid_t child = 0;
        if (!failed)
            failed = posix_spawn(&child, ptxas->path, &actions, &attributes, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        while (!failed && waitpid(child, status, 0) < 0)
            failed = errno == EINTR ? 0 : errno;
    }
    return !failed || message_set(error, "cannot run %s: %s", ptxas->path, strerror(failed));
}

static bool write_input(struct ptxas *ptxas, const char *text, struct message *error)
{
    char path[FILE_PATH_SIZE];
    FILE *stream = fopen(file_path(ptxas, file_names[0], path), "wb");
    bool written = stream && fputs(text, stream) >= 0;
    if (stream && fclose(stream) != 0)
        written = false;
    return written || message_set(error, "cannot write %s: %s", path, strerror(errno));
}

bool ptxas_accepts(struct ptxas *ptxas, const char *text, const char *target, char **log,
                   struct message *error)
{
    char path[FILE_PATH_SIZE];
    int status = 0;
    *log = NULL;
    if (!write_input(ptxas, text, error) || !spawn(ptxas, target, &status, error))
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    *log = read_text(file_path(ptxas, file_names[2], path), LOG_LIMIT, error);
    return false;
}

bool ptxas_knows(struct ptxas *ptxas, const char *text, const char *target, struct message *error)
{
    char version[16];
    if (!ptx_directive(text, ".version", version, sizeof(version)))
        return true;
    for (size_t k = 0; k < ptxas->known_count; k++)
        if (strcmp(ptxas->known[k].version, version) == 0 &&
            strcmp(ptxas->known[k].target, target) == 0)
            return ptxas->known[k].accepted;
    char probe[128];
    snprintf(probe, sizeof(probe), ".version %s\n.target %s\n.address_size 64\n", version, target);
    char *log;
    bool accepted = ptxas_accepts(ptxas, probe, target, &log, error);
    if (!accepted && !log)
        return true;
    free(log);
    if (ptxas->known_count < PTXAS_KNOWN_LIMIT) {
        size_t k = ptxas->known_count++;
        strcpy(ptxas->known[k].version, version);
        snprintf(ptxas->known[k].target, PTX_TARGET_NAME_SIZE, "%s", target);
        ptxas->known[k].accepted = accepted;
    }
    return accepted;
}
