#include "base/process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/env.h"
#include "base/text.h"

static bool fails(wfi_process *p, const char *what, int err)
{
    char text[128];
    (void)wfi_str_print(p->why, sizeof p->why, "%.100s: cannot %s: %s", p->path, what,
                        strerror_r(err, text, sizeof text));
    return false;
}

static bool write_text(int fd, const char *text)
{
    for (size_t n = text ? strlen(text) : 0; n > 0;) {
        ssize_t k = write(fd, text, n);
        if (k <= 0 && errno != EINTR)
            return false;
        if (k > 0)
            text += k, n -= (size_t)k;
    }
    return true;
}

/* A file in memory, at its start; -1: none. Its number is above those of the standard streams, which the program that
 * we are part of may have closed. */
static int memory_file(const char *name, const char *const *text, int n)
{
    int low = memfd_create(name, MFD_CLOEXEC), fd = low;
    if (low >= 0 && low <= 2) {
        fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
        (void)close(low);
    }
    for (int i = 0; fd >= 0 && i < n; i++)
        if (!write_text(fd, text[i])) {
            (void)close(fd);
            fd = -1;
        }
    if (fd >= 0)
        (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

static int start(const wfi_process *p, int in, int err, pid_t *pid)
{
    posix_spawn_file_actions_t act;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&act);
    if (rc)
        return rc;
    if ((rc = posix_spawnattr_init(&attr)) == 0) {
        rc = posix_spawn_file_actions_adddup2(&act, in, 0);
        rc = rc ? rc : posix_spawn_file_actions_addopen(&act, 1, "/dev/null", O_WRONLY, 0);
        rc = rc ? rc : posix_spawn_file_actions_adddup2(&act, err, 2);
        if (p->dir >= 0)
            rc = rc ? rc : posix_spawn_file_actions_addfchdir_np(&act, p->dir);
        rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(&act, 3);
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setsigdefault(&attr, &all);
        (void)posix_spawnattr_setpgroup(&attr, 0);
        (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        rc = rc ? rc : posix_spawn(pid, p->path, &act, &attr, p->argv, p->env);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&act);
    return rc;
}

/* Waits, in short sleeps: a wait of its own would take a signal or a thread more. True: it ended, with this status. A
 * program that collects all its children takes ours as well; its status is then unknown and counts as 0: whoever runs a
 * compiler looks at what came out. */
static bool finish(wfi_process *p, pid_t pid, int *status)
{
    const uint64_t end = wfi_clock_ns() + (uint64_t)p->seconds * 1000000000u;
    for (long ns = 500000;; ns = ns < 8000000 ? ns * 2 : ns) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return true;
        if (got < 0 && errno != EINTR)
            return *status = 0, true;
        bool stop = p->stop && atomic_load_explicit(p->stop, memory_order_relaxed);
        if (stop || wfi_clock_ns() > end) {
            (void)kill(-pid, SIGKILL);
            while (waitpid(pid, status, 0) < 0 && errno == EINTR)
                ;
            (void)wfi_str_print(p->why, sizeof p->why, "%.100s: %s", p->path,
                                stop ? "stopped" : "killed: it took too long");
            return false;
        }
        (void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
    }
}

/* The line of what it said that tells most: the first with "error", else the first. */
static void quote(wfi_process *p, int err, int status)
{
    char text[2048];
    ssize_t n = pread(err, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    char *line = strstr(text, "error");
    while (line && line > text && line[-1] != '\n')
        line--;
    line = line ? line : text;
    line[strcspn(line, "\n")] = 0;
    for (char *c = line; *c; c++)
        *c = (unsigned char)*c < 32 ? '?' : *c;
    if (WIFSIGNALED(status))
        (void)wfi_str_print(p->why, sizeof p->why, "%.80s: killed by signal %d", p->path, WTERMSIG(status));
    else
        (void)wfi_str_print(p->why, sizeof p->why, "%.80s: exit status %d%s%.120s", p->path, WEXITSTATUS(status),
                            *line ? ": " : "", line);
}

bool wfi_process_run(wfi_process *p)
{
    pid_t pid = 0;
    int status = 0, in = memory_file("weft-input", p->input, 2), err = memory_file("weft-errors", NULL, 0);
    bool good = in >= 0 && err >= 0;
    p->why[0] = 0;
    if (!good)
        fails(p, "make its input", errno);
    else {
        int rc = start(p, in, err, &pid);
        good = rc == 0 || fails(p, "start", rc);
    }
    if (good && (good = finish(p, pid, &status)) && status != 0) {
        quote(p, err, status);
        good = false;
    }
    if (in >= 0)
        (void)close(in);
    if (err >= 0)
        (void)close(err);
    return good;
}

static bool executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool wfi_process_find(const char *const *names, char *out, size_t cap)
{
    for (; *names; names++) {
        if ((*names)[0] == '/') {
            if (wfi_str_copy(out, cap, *names) && executable(out))
                return true;
            continue;
        }
        for (const char *at = strchr(*names, '/') ? NULL : wfi_env_get("PATH"); at && *at; at += *at == ':') {
            size_t n = strcspn(at, ":");
            if (*at == '/' && n < cap && wfi_str_print(out, cap, "%.*s/%s", (int)n, at, *names) && executable(out))
                return true;
            at += n;
        }
    }
    return false;
}
