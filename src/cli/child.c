#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cli/cli.h"

extern char **environ;

static size_t name_of(const char *entry)
{
    return strcspn(entry, "=");
}

static bool changed(const char *entry, const char *const *set)
{
    const size_t n = name_of(entry);
    for (; *set; set++)
        if (name_of(*set) == n && !memcmp(*set, entry, n))
            return true;
    return false;
}

/* Our environment with the changes; the strings are borrowed. NULL: out of memory. */
static const char **environment(wfi_mem *mem, const char *const *set)
{
    size_t n = 0, more = 0, k = 0;
    while (environ && environ[n])
        n++;
    while (set[more])
        more++;
    const char **env = wfi_mem_array(mem, n + more + 1, sizeof *env);
    if (!env)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!changed(environ[i], set))
            env[k++] = environ[i];
    for (size_t i = 0; i < more; i++)
        if (set[i][name_of(set[i])])
            env[k++] = set[i];
    env[k] = NULL;
    return env;
}

static int start(const cli_child *c, const char **env, pid_t *pid)
{
    posix_spawn_file_actions_t act;
    union {
        const char **in;
        char *const *out;
    } e = { env };
    int rc = posix_spawn_file_actions_init(&act);
    if (rc)
        return rc;
    rc = posix_spawn_file_actions_addopen(&act, 0, "/dev/null", O_RDONLY, 0);
    if (c->out >= 0)
        rc = rc ? rc : posix_spawn_file_actions_adddup2(&act, c->out, 1);
    else
        rc = rc ? rc : posix_spawn_file_actions_addopen(&act, 1, "/dev/null", O_WRONLY, 0);
    if (c->quiet)
        rc = rc ? rc : posix_spawn_file_actions_addopen(&act, 2, "/dev/null", O_WRONLY, 0);
    rc = rc ? rc : posix_spawnp(pid, c->argv[0], &act, NULL, c->argv, e.out);
    (void)posix_spawn_file_actions_destroy(&act);
    return rc;
}

bool cli_child_run(wfi_mem *mem, cli_child *c, const char **why)
{
    static char text[128];
    const char **env = environment(mem, c->set);
    pid_t pid = 0;
    int status = 0, rc = env ? start(c, env, &pid) : ENOMEM;
    wfi_mem_free(mem, env);
    if (rc) {
        *why = strerror_r(rc, text, sizeof text);
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

int cli_child_file(void)
{
    return memfd_create("weft-output", MFD_CLOEXEC);
}

bool cli_child_same(int a, int b)
{
    char x[8192], y[8192];
    struct stat sa, sb;
    if (fstat(a, &sa) < 0 || fstat(b, &sb) < 0 || sa.st_size != sb.st_size)
        return false;
    for (off_t at = 0; at < sa.st_size;) {
        ssize_t n = pread(a, x, sizeof x, at), m = pread(b, y, sizeof y, at);
        if (n <= 0 || n != m || memcmp(x, y, (size_t)n) != 0)
            return false;
        at += n;
    }
    return true;
}
