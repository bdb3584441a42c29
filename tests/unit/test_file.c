/* Files: what is read is whole, what is written is there or not; every call to the system fails once. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

#define OLD "the old content"

static char folder[64];
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/weft-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

/* Names in the folder; a temporary file that was left behind would count. */
static int entries(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void put_old(void)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(OLD, f);
    fclose(f);
}

static bool holds(const char *want, size_t n)
{
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_file f = { .mem = &m };
    void *p;
    size_t bytes;
    if (wfi_file_read(&f, path, 1 << 20, &p, &bytes) != WF_OK)
        return false;
    bool same = bytes == n && memcmp(p, want, n) == 0 && ((char *)p)[n] == 0;
    wfi_mem_free(&m, p);
    return same && atomic_load(&m.live) == 0;
}

static void reading(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_file f = { .mem = &m };
    void *p;
    size_t n;
    put_old();
    assert_true(holds(OLD, strlen(OLD)));
    assert_int_equal(wfi_file_read(&f, path, strlen(OLD), &p, &n), WF_OK);
    wfi_mem_free(&m, p);
    assert_int_equal(wfi_file_read(&f, path, strlen(OLD) - 1, &p, &n), WF_ERR_FORMAT);
    assert_non_null(strstr(f.why, "15 bytes, more than the limit of 14"));
    assert_null(p);
    assert_int_equal(wfi_file_read(&f, folder, 100, &p, &n), WF_ERR_IO);
    assert_non_null(strstr(f.why, "not a regular file"));
    assert_int_equal(wfi_file_read(&f, "/nowhere/at/all", 100, &p, &n), WF_ERR_IO);
    assert_string_equal(f.why, "/nowhere/at/all: cannot open: No such file or directory");
    assert_int_equal(wfi_file_read(&f, "/dev/null", 100, &p, &n), WF_ERR_IO);
    atomic_store(&m.fail_at, 0);
    assert_int_equal(wfi_file_read(&f, path, 100, &p, &n), WF_ERR_MEMORY);
    char pipe_name[160];
    (void)snprintf(pipe_name, sizeof pipe_name, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_name, 0600), 0);
    assert_int_equal(wfi_file_read(&f, pipe_name, 100, &p, &n), WF_ERR_IO); /* at once */
    unlink(pipe_name);
    unlink(path);
    assert_int_equal(wfi_file_write(&f, path, NULL, 0), WF_OK);
    assert_true(holds("", 0));
    assert_int_equal(atomic_load(&m.live), 0);
}

static void reading_with_faults(void **state)
{
    (void)state;
    static const int errors[] = { EIO, ENOMEM, EINTR, WFI_FILE_SHORT };
    put_old();
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        int at = 1;
        for (bool more = true; more; at++) {
            wfi_mem m;
            wfi_mem_init(&m, NULL, NULL, 0);
            wfi_file f = { .mem = &m, .fail_at = at, .fail_with = errors[e] };
            void *p;
            size_t n;
            wf_status s = wfi_file_read(&f, path, 100, &p, &n);
            bool harmless = errors[e] == EINTR || errors[e] == WFI_FILE_SHORT;
            more = f.calls >= at;
            assert_int_equal(s == WF_OK, harmless || !more);
            if (s == WF_OK)
                assert_true(n == strlen(OLD) && memcmp(p, OLD, n) == 0);
            else
                assert_non_null(strstr(f.why, path));
            wfi_mem_free(&m, p);
            assert_int_equal(atomic_load(&m.live), 0);
        }
        assert_true(at > 4);
    }
}

/* Every call to the system fails in every way: the old file stays, or the new one is whole; nothing else is left. */
static void writing_with_faults(void **state)
{
    (void)state;
    static const int errors[] = { EIO, ENOSPC, EDQUOT, EINTR, WFI_FILE_SHORT };
    char text[5000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 + i / 256);
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        int at = 1, news = 0;
        for (bool more = true; more; at++) {
            put_old();
            wfi_mem m;
            wfi_mem_init(&m, NULL, NULL, 0);
            wfi_file f = { .mem = &m, .fail_at = at, .fail_with = errors[e] };
            wf_status s = wfi_file_begin(&f, path, sizeof text);
            for (size_t i = 0; s == WF_OK && i < sizeof text; i += 1000)
                s = wfi_file_put(&f, text + i, 1000);
            if (s == WF_OK)
                s = wfi_file_commit(&f);
            else
                wfi_file_abandon(&f);
            more = f.calls >= at;
            bool fresh = holds(text, sizeof text);
            if (s == WF_OK) {
                assert_true(fresh);
                assert_string_equal(f.why, "");
            } else {
                assert_true(errors[e] != EINTR && errors[e] != WFI_FILE_SHORT && more);
                assert_true(fresh || holds(OLD, strlen(OLD)));
                assert_non_null(strstr(f.why, path));
                news += fresh;
            }
            assert_int_equal(entries(), 1);
            assert_int_equal(atomic_load(&m.live), 0);
        }
        assert_true(news <= 1); /* flushing the folder */
        assert_true(at > 10);
    }
}

static unsigned mode_of(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void permissions(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_file f = { .mem = &m };
    unlink(path);
    mode_t old = umask(027);
    assert_int_equal(wfi_file_write(&f, path, "a", 1), WF_OK);
    umask(old);
    assert_int_equal(mode_of(), 0640);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(wfi_file_write(&f, path, "b", 1), WF_OK);
    assert_int_equal(mode_of(), 0604);
    assert_true(holds("b", 1));
}

static void what_is_refused(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_file f = { .mem = &m };
    assert_int_equal(wfi_file_write(&f, "/dev/null", "x", 1), WF_ERR_IO);
    assert_string_equal(f.why, "/dev/null: exists and is not a regular file");
    assert_int_equal(wfi_file_write(&f, folder, "x", 1), WF_ERR_IO);
    assert_int_equal(wfi_file_write(&f, "/nowhere/at/all", "x", 1), WF_ERR_IO);
    assert_string_equal(f.why, "/nowhere/at/all: cannot open the folder: No such file or directory");
    assert_int_equal(wfi_file_write(&f, "/", "x", 1), WF_ERR_IO);
    assert_int_equal(wfi_file_write(&f, "", "x", 1), WF_ERR_IO);
    char name[400];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    assert_int_equal(wfi_file_write(&f, name, "x", 1), WF_ERR_IO);
    atomic_store(&m.fail_at, 0);
    assert_int_equal(wfi_file_write(&f, path, "x", 1), WF_ERR_MEMORY);
    put_old();
    assert_int_equal(wfi_file_begin(&f, path, 0), WF_OK);
    assert_int_equal(wfi_file_put(&f, "half", 4), WF_OK);
    assert_int_equal(entries(), 2);
    wfi_file_abandon(&f);
    wfi_file_abandon(&f);
    assert_int_equal(entries(), 1);
    assert_true(holds(OLD, strlen(OLD)));
    assert_int_equal(atomic_load(&m.live), 0);
}

static void added_at_the_end(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    unlink(path);
    wfi_file f = { .mem = &m };
    assert_int_equal(wfi_file_append(&f, path, "one\n", 4), WF_OK);
    assert_int_equal(wfi_file_append(&f, path, "two\n", 4), WF_OK);
    assert_true(holds("one\ntwo\n", 8));
    wfi_file full = { .mem = &m, .fail_at = 2, .fail_with = ENOSPC };
    assert_int_equal(wfi_file_append(&full, path, "three\n", 6), WF_ERR_IO);
    assert_non_null(strstr(full.why, "cannot write: No space left on device"));
    wfi_file slow = { .mem = &m, .fail_at = 2, .fail_with = WFI_FILE_SHORT };
    assert_int_equal(wfi_file_append(&slow, path, "three\n", 6), WF_OK);
    assert_true(holds("one\ntwo\nthree\n", 14));
    assert_int_equal(wfi_file_append(&f, folder, "x", 1), WF_ERR_IO);
}

/* A name without a folder is a file here. */
static void relative_names(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_file f = { .mem = &m };
    char *here = getcwd(NULL, 0);
    assert_non_null(here);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(wfi_file_write(&f, "file", "here", 4), WF_OK);
    assert_int_equal(chdir(here), 0);
    free(here);
    assert_true(holds("here", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),        cmocka_unit_test(reading_with_faults), cmocka_unit_test(writing_with_faults),
        cmocka_unit_test(permissions),    cmocka_unit_test(what_is_refused),     cmocka_unit_test(added_at_the_end),
        cmocka_unit_test(relative_names),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
