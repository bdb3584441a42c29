#include "base/cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/env.h"
#include "base/text.h"

enum { ENTRY_MAX = 64 << 20 };
enum { HOUR = 3600, DAY = 24 * HOUR, UNUSED = 60 * DAY }; /* seconds */

/* The end of an entry. */
typedef struct seal {
    uint8_t key[WFI_SHA256_BYTES];
    uint8_t sum[WFI_SHA256_BYTES]; /* of all before the seal, and the key */
    char mark[8];
} seal;
static const char mark[8] = "weft-1\n";

static bool fails(wfi_cache *c, const char *what)
{
    char text[96];
    (void)wfi_str_print(c->why, sizeof c->why, "%.40s: %s", what, strerror_r(errno, text, sizeof text));
    return false;
}

static bool says(wfi_cache *c, const char *what)
{
    (void)wfi_str_copy(c->why, sizeof c->why, what);
    return false;
}

/* ---- the folder ---- */

/* Nobody but us and root can change what is in it. sticky: others may add names, but not touch ours. */
static bool safe(const struct stat *st, bool sticky)
{
    return S_ISDIR(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0) &&
           ((st->st_mode & (S_IWGRP | S_IWOTH)) == 0 || (sticky && st->st_mode & S_ISVTX));
}

/* From the root down, one name after the other, each looked at once it is open; missing ones are made, 0700, if they
 * may be. Links are followed. path is cut into its names and put together again. */
static int walk(wfi_cache *c, char *path, bool make)
{
    struct stat st;
    int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (char *name = path; at >= 0 && *name;) {
        name += strspn(name, "/");
        size_t n = strcspn(name, "/");
        char end = name[n];
        if (n == 0)
            break;
        name[n] = 0;
        bool last = strspn(end ? name + n + 1 : "", "/") == strlen(end ? name + n + 1 : "");
        if (make && mkdirat(at, name, 0700) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            fails(c, "cannot make the folder");
        int next = openat(at, name, (last ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC);
        if (next < 0)
            fails(c, "cannot open the folder");
        (void)close(at);
        at = next;
        if (at >= 0 && (fstat(at, &st) < 0 || !safe(&st, !last) || (last && st.st_uid != geteuid()))) {
            says(c, "somebody else may change the folder or one above it");
            (void)close(at);
            at = -1;
        }
        name[n] = end;
        name += n;
    }
    return at;
}

/* The folder at c->path, made if it is not there; afterwards c->path has no links in it, so that its names lead to the
 * same folder for as long as nobody but us and root changes them. */
static bool open_path(wfi_cache *c, bool make)
{
    char link[32];
    if ((c->dir = walk(c, c->path, make)) < 0)
        return false;
    (void)wfi_str_print(link, sizeof link, "/proc/self/fd/%d", c->dir);
    ssize_t n = readlink(link, c->path, sizeof c->path - 1);
    (void)close(c->dir);
    c->dir = -1;
    if (n <= 0 || c->path[0] != '/')
        return says(c, "the folder has no path");
    c->path[n] = 0;
    return (c->dir = walk(c, c->path, false)) >= 0;
}

static bool open_shared(wfi_cache *c, const char *name, bool make)
{
    const char *root = wfi_env_get("XDG_CACHE_HOME"), *home = wfi_env_get("HOME");
    bool xdg = root && *root == '/'; /* a relative one is to be ignored, says the specification */
    if (!xdg && !(home && *home == '/'))
        return says(c, "neither XDG_CACHE_HOME nor HOME is an absolute path");
    if (!wfi_str_print(c->path, sizeof c->path, "%s%s/weft/%s", xdg ? root : home, xdg ? "" : "/.cache", name))
        return says(c, "the path is too long");
    return open_path(c, make);
}

static void random_name(char *out, size_t cap, const char *prefix)
{
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        r = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
    (void)wfi_str_print(out, cap, "%s%016llx", prefix, (unsigned long long)r);
}

static bool open_temporary(wfi_cache *c)
{
    const char *root = wfi_env_get("TMPDIR");
    char name[32];
    random_name(name, sizeof name, "weft-");
    if (!wfi_str_print(c->path, sizeof c->path, "%s/%s", root && *root == '/' ? root : "/tmp", name))
        return says(c, "the path is too long");
    return c->temporary = open_path(c, true);
}

/* Empties a folder that holds files only. */
static void empty(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        (void)close(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' || (e->d_name[1] && e->d_name[1] != '.'))
            (void)unlinkat(dir, e->d_name, 0);
    if (d)
        (void)closedir(d);
}

/* Seconds since a name in the folder was last written, or an entry last used; -1: not a plain file or folder of ours.
 */
static int64_t age_of(int dir, const char *name, bool *folder)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid())
        return -1;
    *folder = S_ISDIR(st.st_mode);
    return *folder || S_ISREG(st.st_mode) ? (int64_t)time(NULL) - (int64_t)st.st_mtime : -1;
}

/* Takes away what processes that were killed left behind, and entries that nobody has used for long. */
static void sweep(const wfi_cache *c)
{
    int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        (void)close(fd);
    for (struct dirent *e; d && (e = readdir(d));) {
        bool folder = false;
        const int64_t age = age_of(c->dir, e->d_name, &folder);
        const size_t n = strlen(e->d_name);
        if (folder && wfi_str_starts(e->d_name, "work-") && age > HOUR) {
            int old = openat(c->dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (old >= 0) {
                empty(old);
                (void)close(old);
            }
            (void)unlinkat(c->dir, e->d_name, AT_REMOVEDIR);
        } else if (!folder && n > 3 && !strcmp(e->d_name + n - 3, ".so") && age > UNUSED)
            (void)unlinkat(c->dir, e->d_name, 0);
    }
    if (d)
        (void)closedir(d);
}

bool wfi_cache_open(wfi_cache *c, const char *name)
{
    *c = (wfi_cache){ .dir = -1, .work = -1, .lock = -1 };
    if (open_shared(c, name, true)) {
        sweep(c);
        return true;
    }
    char why[sizeof c->why];
    memcpy(why, c->why, sizeof why);
    if (!open_temporary(c))
        return false;
    memcpy(c->why, why, sizeof why);
    return true;
}

bool wfi_cache_open_old(wfi_cache *c, const char *name)
{
    *c = (wfi_cache){ .dir = -1, .work = -1, .lock = -1 };
    return open_shared(c, name, false);
}

static void end_work(wfi_cache *c)
{
    if (c->work >= 0) {
        empty(c->work);
        (void)close(c->work);
        (void)unlinkat(c->dir, c->work_name, AT_REMOVEDIR);
    }
    if (c->lock >= 0)
        (void)close(c->lock); /* the lock goes with it */
    c->work = c->lock = -1;
}

void wfi_cache_close(wfi_cache *c)
{
    if (c->dir < 0)
        return;
    end_work(c);
    if (c->temporary) {
        empty(c->dir);
        (void)rmdir(c->path);
    }
    (void)close(c->dir);
    c->dir = -1;
}

/* ---- entries ---- */

static void entry_name(const wfi_cache_key key, char out[80], const char *end)
{
    char hex[2 * WFI_SHA256_BYTES + 1];
    wfi_sha256_hex(key, hex);
    (void)wfi_str_print(out, 80, "%s%s", hex, end);
}

/* Of the first `bytes` of the file, and the key. In pieces, and not mapped: who cuts the file short meanwhile gets it
 * refused and not us killed. */
static bool sum_of(int fd, size_t bytes, const uint8_t *key, uint8_t *sum)
{
    char piece[4096];
    wfi_sha256 s = wfi_sha256_start();
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        ssize_t got = pread(fd, piece, n, (off_t)at);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        if (got > 0)
            wfi_sha256_add(&s, piece, (size_t)got), at += (size_t)got;
    }
    wfi_sha256_add(&s, key, WFI_SHA256_BYTES);
    wfi_sha256_end(&s, sum);
    return true;
}

/* An entry ends in its seal; new: what is to become one has none yet, and gets it. */
static bool examine(wfi_cache *c, int fd, const wfi_cache_key key, bool new)
{
    struct stat st;
    seal right, is;
    if (fstat(fd, &st) < 0)
        return fails(c, "cannot look at the entry");
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 || st.st_mode & (S_IWGRP | S_IWOTH))
        return says(c, "the entry is not a plain file of ours");
    if (st.st_size > ENTRY_MAX || st.st_size <= (new ? 0 : (off_t)sizeof(seal)))
        return says(c, "the entry has no such size");
    const size_t content = (size_t)st.st_size - (new ? 0 : sizeof(seal));
    memcpy(right.key, key, sizeof right.key);
    memcpy(right.mark, mark, sizeof mark);
    if (!sum_of(fd, content, key, right.sum))
        return fails(c, "cannot read the entry");
    if (new)
        return pwrite(fd, &right, sizeof right, st.st_size) == (ssize_t)sizeof right ||
               fails(c, "cannot seal the entry");
    return (pread(fd, &is, sizeof is, (off_t)content) == (ssize_t)sizeof is && !memcmp(&is, &right, sizeof is)) ||
           says(c, "the entry is damaged");
}

bool wfi_cache_find(wfi_cache *c, const wfi_cache_key key)
{
    char name[80];
    entry_name(key, name, ".so");
    int fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return says(c, "no such entry");
    bool good = examine(c, fd, key, false), folder;
    if (good && age_of(c->dir, name, &folder) > DAY)
        (void)futimens(fd, NULL); /* it is in use */
    (void)close(fd);
    if (!good)
        (void)unlinkat(c->dir, name, 0);
    return good;
}

bool wfi_cache_read(wfi_cache *c, const wfi_cache_key key, wfi_mem *mem, void **data, size_t *bytes)
{
    char name[80], *p = NULL;
    struct stat st;
    entry_name(key, name, ".so");
    int fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return says(c, "no such entry");
    if (examine(c, fd, key, false) && fstat(fd, &st) == 0) {
        *bytes = (size_t)st.st_size - sizeof(seal);
        p = wfi_mem_alloc(mem, *bytes);
        if (p && pread(fd, p, *bytes, 0) != (ssize_t)*bytes) {
            wfi_mem_free(mem, p);
            p = NULL;
        }
    }
    (void)close(fd);
    *data = p;
    return p != NULL;
}

void wfi_cache_path(const wfi_cache *c, const wfi_cache_key key, char out[WFI_CACHE_PATH])
{
    char name[80];
    entry_name(key, name, ".so");
    (void)wfi_str_print(out, WFI_CACHE_PATH, "%s/%s", c->path, name);
}

/* ---- making one ---- */

/* One of 16, by the key. The file stays behind, empty: taking it away would let two processes hold locks on two files
 * of one name. */
static bool lock(wfi_cache *c, const wfi_cache_key key, const _Atomic bool *stop)
{
    char name[16];
    (void)wfi_str_print(name, sizeof name, "lock-%x", key[0] >> 4);
    if ((c->lock = openat(c->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
        return fails(c, "cannot write into the folder");
    while (flock(c->lock, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fails(c, "cannot lock the folder");
        if (atomic_load_explicit(stop, memory_order_relaxed))
            return says(c, "stopped");
        (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    return true;
}

static bool begin(wfi_cache *c, const wfi_cache_key key, const _Atomic bool *stop)
{
    if (!c->temporary && !lock(c, key, stop))
        return false;
    random_name(c->work_name, sizeof c->work_name, "work-");
    if (mkdirat(c->dir, c->work_name, 0700) < 0 ||
        (c->work = openat(c->dir, c->work_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return fails(c, "cannot write into the folder");
    return true;
}

bool wfi_cache_begin(wfi_cache *c, const wfi_cache_key key, const _Atomic bool *stop)
{
    if (begin(c, key, stop))
        return true;
    end_work(c);
    return false;
}

bool wfi_cache_leave(wfi_cache *c)
{
    wfi_cache t = { .dir = -1, .work = -1, .lock = -1 };
    if (c->temporary || !open_temporary(&t))
        return false;
    memcpy(t.why, c->why, sizeof t.why);
    wfi_cache_close(c);
    *c = t;
    return true;
}

bool wfi_cache_put(wfi_cache *c, const void *data, size_t bytes)
{
    int fd = openat(c->work, "new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (size_t at = 0; good && at < bytes;) {
        ssize_t n = write(fd, (const char *)data + at, bytes - at);
        good = n > 0 || (n < 0 && errno == EINTR);
        at += n > 0 ? (size_t)n : 0;
    }
    if (!good)
        fails(c, "cannot write the entry");
    if (fd >= 0)
        (void)close(fd);
    return good;
}

bool wfi_cache_end(wfi_cache *c, const wfi_cache_key key, bool keep)
{
    char name[80];
    entry_name(key, name, ".so");
    bool good = keep;
    if (keep) {
        int fd = openat(c->work, "new", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        good = (fd >= 0 || fails(c, "nothing was made")) &&
               (fchmod(fd, 0600) == 0 || fails(c, "cannot seal the entry")) && examine(c, fd, key, true) &&
               (renameat(c->work, "new", c->dir, name) == 0 || fails(c, "cannot name the entry"));
        if (fd >= 0)
            (void)close(fd);
    }
    end_work(c);
    return good;
}
