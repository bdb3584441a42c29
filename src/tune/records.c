#include "tune/records.h"
#include <pthread.h>
#include <string.h>
#include "base/cache.h"
#include "base/env.h"
#include "base/text.h"

enum { MOST = 1 << 16 };
static const char head[8] = "tuned-1\n";

typedef struct list {
    wfi_record *at; /* by problem, ascending */
    uint32_t n;
} list;

struct wfi_records {
    wfi_mem *mem;
    wfi_records_machine *machine;
    const void *user;
    pthread_mutex_t lock;
    _Atomic bool read; /* afterwards `list` does not change */
    list list;
    char why[160];
};

wfi_records *wfi_records_new(wfi_mem *mem, wfi_records_machine *machine, const void *user)
{
    wfi_records *r = wfi_mem_zalloc(mem, sizeof *r);
    if (!r)
        return NULL;
    r->mem = mem, r->machine = machine, r->user = user;
    (void)pthread_mutex_init(&r->lock, NULL);
    return r;
}

void wfi_records_free(wfi_records *r)
{
    if (!r)
        return;
    wfi_mem_free(r->mem, r->list.at);
    (void)pthread_mutex_destroy(&r->lock);
    wfi_mem_free(r->mem, r);
}

void wfi_records_name(const char *problem, uint8_t name[16])
{
    uint8_t sum[WFI_SHA256_BYTES];
    wfi_sha256 s = wfi_sha256_start();
    wfi_sha256_add(&s, problem, strlen(problem));
    wfi_sha256_end(&s, sum);
    memcpy(name, sum, 16);
}

/* ---- the file ---- */

/* The first record that is not below `name`. */
static uint32_t place_of(const list *l, const uint8_t *name)
{
    uint32_t from = 0, to = l->n;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (memcmp(l->at[mid].problem, name, 16) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static bool in_order(const list *l)
{
    for (uint32_t i = 1; i < l->n; i++)
        if (memcmp(l->at[i - 1].problem, l->at[i].problem, 16) >= 0)
            return false;
    return true;
}

static void key_of(const wfi_records *r, wfi_cache_key key)
{
    const int32_t form[] = { WFI_RECORDS_VERSION, (int32_t)sizeof(wfi_record) };
    char machine[256] = "";
    wfi_sha256 s = wfi_sha256_start();
    r->machine(r->user, machine, sizeof machine);
    wfi_sha256_add(&s, form, sizeof form);
    wfi_sha256_add(&s, machine, strlen(machine));
    wfi_sha256_end(&s, key);
}

/* What the file of this machine holds; empty if there is none that is sound. */
static list read_file(wfi_records *r, wfi_cache *c, const wfi_cache_key key)
{
    list l = { NULL, 0 };
    void *data;
    size_t bytes;
    if (!wfi_cache_read(c, key, r->mem, &data, &bytes))
        return l;
    const size_t n = bytes < sizeof head ? 0 : (bytes - sizeof head) / sizeof(wfi_record);
    if (n && n <= MOST && bytes == sizeof head + n * sizeof(wfi_record) && !memcmp(data, head, sizeof head) &&
        (l.at = wfi_mem_array(r->mem, n, sizeof *l.at))) {
        memcpy(l.at, (const char *)data + sizeof head, n * sizeof *l.at);
        l.n = (uint32_t)n;
    }
    wfi_mem_free(r->mem, data);
    if (!in_order(&l))
        l.n = 0;
    return l;
}

static void read_once(wfi_records *r)
{
    wfi_cache c;
    wfi_cache_key key;
    const char *how = wfi_env_get("WEFT_TUNE");
    if (atomic_load_explicit(&r->read, memory_order_acquire))
        return;
    (void)pthread_mutex_lock(&r->lock);
    if (!atomic_load_explicit(&r->read, memory_order_relaxed) && !(how && wfi_str_eq(how, "off")) &&
        wfi_cache_open_old(&c, "tuning")) {
        key_of(r, key);
        r->list = read_file(r, &c, key);
        wfi_cache_close(&c);
    }
    atomic_store_explicit(&r->read, true, memory_order_release);
    (void)pthread_mutex_unlock(&r->lock);
}

bool wfi_records_any(wfi_records *r)
{
    read_once(r);
    return r->list.n > 0;
}

bool wfi_records_find(wfi_records *r, const char *problem, wfi_choice *c)
{
    uint8_t name[16];
    read_once(r);
    if (!r->list.n)
        return false;
    wfi_records_name(problem, name);
    const uint32_t i = place_of(&r->list, name);
    if (i == r->list.n || memcmp(r->list.at[i].problem, name, sizeof name) != 0)
        return false;
    *c = r->list.at[i].choice;
    return true;
}

/* ---- writing ---- */

/* Room for n more; at: the head, then the records. */
static bool merge(wfi_mem *mem, const list *old, const wfi_record *new, uint32_t n, wfi_text *t)
{
    list l = { wfi_mem_array(mem, (size_t)old->n + n, sizeof *l.at), old->n };
    if (!l.at)
        return false;
    if (old->n)
        memcpy(l.at, old->at, old->n * sizeof *l.at);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = place_of(&l, new[k].problem);
        if (i == l.n || memcmp(l.at[i].problem, new[k].problem, 16) != 0) {
            memmove(l.at + i + 1, l.at + i, (l.n - i) * sizeof *l.at);
            l.n++;
        }
        l.at[i] = new[k];
    }
    wfi_text_addn(t, head, sizeof head);
    wfi_text_addn(t, (const char *)l.at, (l.n < MOST ? l.n : MOST) * sizeof *l.at);
    wfi_mem_free(mem, l.at);
    return !t->oom;
}

static bool write_file(wfi_records *r, wfi_cache *c, const wfi_record *new, uint32_t n)
{
    static const _Atomic bool never = false;
    wfi_text t = { .mem = r->mem };
    wfi_cache_key key;
    key_of(r, key);
    if (!wfi_cache_begin(c, key, &never))
        return false;
    list old = read_file(r, c, key);
    bool good = merge(r->mem, &old, new, n, &t) && wfi_cache_put(c, t.p, t.n);
    good = wfi_cache_end(c, key, good) && good;
    wfi_mem_free(r->mem, old.at);
    wfi_text_free(&t);
    return good;
}

bool wfi_records_keep(wfi_records *r, const wfi_record *new, uint32_t n, const char **why)
{
    wfi_cache c;
    bool good = wfi_cache_open(&c, "tuning");
    if (good && c.temporary)
        good = false; /* what nobody would find again */
    else if (good)
        good = write_file(r, &c, new, n);
    (void)wfi_str_copy(r->why, sizeof r->why, c.why);
    *why = r->why;
    wfi_cache_close(&c);
    return good;
}
