#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/text.h"

#define MOVE_MAX ((size_t)1 << 30) /* bytes of one read or write: Linux moves at most 2 GiB at a time */

/* "path: cannot do: reason". strerror_r is GNU's, which returns the text. */
static wf_status fault(wfi_file *f, const char *path, const char *what, int err)
{
    char text[128];
    (void)wfi_str_print(f->why, sizeof f->why, "%s: cannot %s: %s", path, what, strerror_r(err, text, sizeof text));
    return f->status = err == ENOMEM ? WF_ERR_MEMORY : WF_ERR_IO;
}

/* Counts a call to the system; true if a test wants it to fail, with errno set. */
static bool told(wfi_file *f)
{
    if (++f->calls != f->fail_at || f->fail_with == WFI_FILE_SHORT)
        return false;
    errno = f->fail_with;
    return true;
}

static size_t allowed(const wfi_file *f, size_t n)
{
    bool cut = f->calls == f->fail_at && f->fail_with == WFI_FILE_SHORT && n > 1;
    return cut ? 1 : n < MOVE_MAX ? n : MOVE_MAX;
}

/* Each call is tried again while a signal interrupts it. */
#define RETRY(f, result, call)                                                                                         \
    do {                                                                                                               \
        (result) = told(f) ? -1 : (call);                                                                              \
    } while ((result) < 0 && errno == EINTR)

/* Reads n bytes or up to the end; the number read, or -1. */
static ssize_t read_all(wfi_file *f, int fd, char *p, size_t n)
{
    size_t have = 0;
    while (have < n) {
        ssize_t k;
        RETRY(f, k, read(fd, p + have, allowed(f, n - have)));
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        have += (size_t)k;
    }
    return (ssize_t)have;
}

/* The content of fd, whose size fstat gave; one byte more is asked for, to see that it is the end. */
static wf_status read_content(wfi_file *f, const char *path, int fd, size_t size, void **data)
{
    char *p = wfi_mem_array(f->mem, size + 1, 1);
    if (!p)
        return fault(f, path, "read", ENOMEM);
    ssize_t n = read_all(f, fd, p, size + 1);
    if (n < 0 || (size_t)n != size) {
        int err = errno;
        wfi_mem_free(f->mem, p);
        if (n < 0)
            return fault(f, path, "read", err);
        (void)wfi_str_print(f->why, sizeof f->why, "%s: changed while it was read: %zu bytes, then %zd", path, size, n);
        return f->status = WF_ERR_IO;
    }
    p[size] = 0;
    *data = p;
    return WF_OK;
}

static wf_status read_open(wfi_file *f, const char *path, int fd, size_t max, void **data, size_t *bytes)
{
    struct stat st;
    int rc;
    RETRY(f, rc, fstat(fd, &st));
    if (rc < 0)
        return fault(f, path, "ask for the size", errno);
    if (!S_ISREG(st.st_mode)) {
        (void)wfi_str_print(f->why, sizeof f->why, "%s: not a regular file", path);
        return f->status = WF_ERR_IO;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size > max || (uint64_t)st.st_size >= SIZE_MAX) {
        (void)wfi_str_print(f->why, sizeof f->why, "%s: %lld bytes, more than the limit of %zu", path,
                            (long long)st.st_size, max);
        return f->status = WF_ERR_FORMAT;
    }
    wf_status s = read_content(f, path, fd, (size_t)st.st_size, data);
    if (s == WF_OK)
        *bytes = (size_t)st.st_size;
    return s;
}

wf_status wfi_file_read(wfi_file *f, const char *path, size_t max, void **data, size_t *bytes)
{
    int fd;
    f->why[0] = 0;
    f->status = WF_OK;
    *data = NULL;
    *bytes = 0;
    /* Without O_NONBLOCK the open of a named pipe would wait for a writer. */
    RETRY(f, fd, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return fault(f, path, "open", errno);
    wf_status s = read_open(f, path, fd, max, data, bytes);
    (void)close(fd); /* nothing was written: its result says nothing */
    return s;
}

/* The permissions of a new file. Only umask() itself tells the mask, by changing it for all threads, or the kernel. */
static unsigned mode_of_new(wfi_mem *m)
{
    enum { ROOM = 4096 };
    unsigned mask = 0077;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : wfi_mem_alloc(m, ROOM);
    ssize_t n = text ? read(fd, text, ROOM - 1) : -1;
    if (n > 0) {
        text[n] = 0;
        const char *at = strstr(text, "\nUmask:\t");
        for (mask = at ? 0 : mask, at = at ? at + 8 : ""; *at >= '0' && *at <= '7'; at++)
            mask = mask * 8 + (unsigned)(*at - '0');
    }
    wfi_mem_free(m, text);
    if (fd >= 0)
        (void)close(fd);
    return 0666 & ~mask;
}

/* The part of path after the last slash. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static wf_status open_folder(wfi_file *f)
{
    size_t n = (size_t)(base_of(f->path) - f->path);
    char keep = f->path[n];
    f->path[n] = 0;
    RETRY(f, f->dir, open(n ? f->path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int err = errno;
    f->path[n] = keep;
    return f->dir < 0 ? fault(f, f->path, "open the folder", err) : WF_OK;
}

/* Refuses to replace what is no regular file (a device, a folder) and takes over the permissions of what is. */
static wf_status look_at_old(wfi_file *f)
{
    struct stat st;
    int rc;
    RETRY(f, rc, fstatat(f->dir, base_of(f->path), &st, 0));
    if (rc < 0 && errno != ENOENT)
        return fault(f, f->path, "look at the old file", errno);
    f->mode = rc < 0 ? mode_of_new(f->mem) : st.st_mode & 0777;
    if (rc < 0 || S_ISREG(st.st_mode))
        return WF_OK;
    (void)wfi_str_print(f->why, sizeof f->why, "%s: exists and is not a regular file", f->path);
    return f->status = WF_ERR_IO;
}

static wf_status open_temp(wfi_file *f)
{
    for (int i = 0; i < 16; i++) {
        uint64_t r;
        if (getrandom(&r, sizeof r, GRND_NONBLOCK) != (ssize_t)sizeof r)
            r = wfi_clock_ns() * 0x9e3779b97f4a7c15u + (uint64_t)getpid(); /* unlikely and harmless: O_EXCL */
        (void)wfi_str_print(f->temp, sizeof f->temp, ".weft-%016llx", (unsigned long long)r);
        RETRY(f, f->fd, openat(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (f->fd >= 0)
            return WF_OK;
        if (errno != EEXIST)
            break;
    }
    return fault(f, f->path, "create a file beside it", errno);
}

/* Finds out now, not after half of the writing, that the disk is too full. Not every file system can. */
static wf_status reserve(wfi_file *f, uint64_t bytes)
{
    int rc;
    if (!bytes || bytes > INT64_MAX)
        return WF_OK;
    RETRY(f, rc, fallocate(f->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes));
    return rc < 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL
               ? fault(f, f->path, "reserve room", errno)
               : WF_OK;
}

wf_status wfi_file_begin(wfi_file *f, const char *path, uint64_t bytes)
{
    size_t n = strlen(path) + 1;
    f->why[0] = 0;
    f->status = WF_OK;
    f->dir = f->fd = -1;
    f->path = wfi_mem_alloc(f->mem, n);
    if (!f->path)
        return fault(f, path, "write", ENOMEM);
    memcpy(f->path, path, n);
    wf_status s = *base_of(path) ? WF_OK : fault(f, path, "write", EISDIR);
    if (s != WF_OK || (s = open_folder(f)) != WF_OK || (s = look_at_old(f)) != WF_OK || (s = open_temp(f)) != WF_OK ||
        (s = reserve(f, bytes)) != WF_OK)
        wfi_file_abandon(f);
    return s;
}

wf_status wfi_file_put(wfi_file *f, const void *data, size_t bytes)
{
    const char *p = data;
    while (f->status == WF_OK && bytes) {
        ssize_t k;
        RETRY(f, k, write(f->fd, p, allowed(f, bytes)));
        if (k <= 0)
            return fault(f, f->path, "write", k < 0 ? errno : ENOSPC);
        p += k;
        bytes -= (size_t)k;
    }
    return f->status;
}

/* Flushes and closes the temporary file. A failed fsync is final: the kernel may have dropped the pages. */
static wf_status finish_temp(wfi_file *f)
{
    int rc;
    RETRY(f, rc, fchmod(f->fd, f->mode));
    if (rc < 0)
        return fault(f, f->path, "set the permissions", errno);
    RETRY(f, rc, fsync(f->fd));
    if (rc < 0)
        return fault(f, f->path, "flush to the disk", errno);
    int fd = f->fd;
    f->fd = -1;
    rc = told(f) ? (close(fd), errno = f->fail_with, -1) : close(fd);
    /* After EINTR the descriptor is gone on Linux, and the data was flushed. */
    return rc < 0 && errno != EINTR ? fault(f, f->path, "close", errno) : WF_OK;
}

static wf_status rename_temp(wfi_file *f)
{
    int rc;
    RETRY(f, rc, renameat(f->dir, f->temp, f->dir, base_of(f->path)));
    if (rc < 0)
        return fault(f, f->path, "move the new file into place", errno);
    f->temp[0] = 0;
    RETRY(f, rc, fsync(f->dir));
    return rc < 0 && errno != EINVAL && errno != ENOTSUP ? fault(f, f->path, "flush the folder", errno) : WF_OK;
}

wf_status wfi_file_commit(wfi_file *f)
{
    wf_status s = f->status;
    if (s == WF_OK && (s = finish_temp(f)) == WF_OK)
        s = rename_temp(f);
    wfi_file_abandon(f);
    return s;
}

void wfi_file_abandon(wfi_file *f)
{
    if (!f->path)
        return;
    if (f->fd >= 0)
        (void)close(f->fd);
    if (f->dir >= 0) {
        if (f->temp[0])
            (void)unlinkat(f->dir, f->temp, 0);
        (void)close(f->dir);
    }
    wfi_mem_free(f->mem, f->path);
    f->path = NULL;
    f->temp[0] = 0;
    f->dir = f->fd = -1;
}

wf_status wfi_file_write(wfi_file *f, const char *path, const void *data, size_t bytes)
{
    wf_status s = wfi_file_begin(f, path, bytes);
    if (s != WF_OK)
        return s;
    s = wfi_file_put(f, data, bytes);
    if (s == WF_OK)
        return wfi_file_commit(f);
    wfi_file_abandon(f);
    return s;
}

wf_status wfi_file_append(wfi_file *f, const char *path, const void *data, size_t bytes)
{
    int fd;
    f->why[0] = 0;
    f->status = WF_OK;
    RETRY(f, fd, open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    if (fd < 0)
        return fault(f, path, "open", errno);
    for (const char *p = data; bytes && f->status == WF_OK;) {
        ssize_t k;
        RETRY(f, k, write(fd, p, allowed(f, bytes)));
        if (k <= 0)
            (void)fault(f, path, "write", k ? errno : EIO);
        else
            p += k, bytes -= (size_t)k;
    }
    if (close(fd) < 0 && f->status == WF_OK)
        (void)fault(f, path, "write", errno);
    return f->status;
}

bool wfi_file_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT;
}
