/* cache.h - a folder of files that are named by what they are made from, shared by all processes of a user.
 *
 *     wfi_cache c;
 *     wfi_cache_open(&c, "kernels");                $XDG_CACHE_HOME/weft/kernels, else $HOME/.cache/weft/kernels
 *     if (wfi_cache_find(&c, key)) ...              <key> is there, whole, ours, and was made from this key
 *     else if (wfi_cache_begin(&c, key, stop)) {    one process at a time makes an entry
 *         ... a program writes "new" in the folder c.work ...
 *         wfi_cache_end(&c, key, true);             sealed, renamed into place
 *     }
 *
 * Who may write a cached library runs code in every program that loads it. So the folder and all folders above it must
 * belong to us or to root and be writable by nobody else (a sticky folder like /tmp is let pass above folders of ours);
 * an entry must be a regular file of ours with one name and no right to write for others; and its last bytes hold the
 * key and a SHA-256 of everything before, which is computed again whenever it is opened. What is not so is not used.
 * Entries that nobody used for 60 days go when the folder is opened, and so does what killed processes left.
 * Where no such folder can be had a private one in TMPDIR or /tmp serves until it is closed. */
#ifndef WFI_BASE_CACHE_H
#define WFI_BASE_CACHE_H
#include <stdatomic.h>
#include <stdbool.h>
#include "base/mem.h"
#include "base/sha256.h"

#define WFI_CACHE_PATH 3072 /* bytes of a path, at most */

/* Used by one thread at a time. */
typedef struct wfi_cache {
    int dir;        /* the folder; -1: closed */
    int work;       /* a folder in it that is ours alone, while an entry is made; else -1 */
    int lock;       /* -1: none */
    bool temporary; /* dies with us */
    char why[160];  /* why it is temporary, or why the last call failed */
    char path[WFI_CACHE_PATH];
    char work_name[32];
} wfi_cache;

typedef uint8_t wfi_cache_key[WFI_SHA256_BYTES];

/* False: not even a temporary folder; why says it. */
bool wfi_cache_open(wfi_cache *c, const char *name);
/* Only if the folder is there; nothing is made, nothing swept. */
bool wfi_cache_open_old(wfi_cache *c, const char *name);
void wfi_cache_close(wfi_cache *c);

/* Is there a sound entry? One that is not is taken away if it is ours. */
bool wfi_cache_find(wfi_cache *c, const wfi_cache_key key);
void wfi_cache_path(const wfi_cache *c, const wfi_cache_key key, char out[WFI_CACHE_PATH]);

/* The content of a sound entry, to be freed by the caller. False: there is none, or no memory. */
bool wfi_cache_read(wfi_cache *c, const wfi_cache_key key, wfi_mem *mem, void **data, size_t *bytes);

/* Waits while another process makes this entry (until *stop); it may be there afterwards. False: *stop, or the folder
 * cannot be written. */
bool wfi_cache_begin(wfi_cache *c, const wfi_cache_key key, const _Atomic bool *stop);
/* Writes the file "new" in the work folder. */
bool wfi_cache_put(wfi_cache *c, const void *data, size_t bytes);
/* keep: the file "new" in the work folder becomes the entry. The work folder is removed either way. */
bool wfi_cache_end(wfi_cache *c, const wfi_cache_key key, bool keep);
/* The folder is of no use (full, read-only): goes on in a temporary one; why keeps the reason. False: there is none, or
 * it is temporary already. */
bool wfi_cache_leave(wfi_cache *c);

#endif
