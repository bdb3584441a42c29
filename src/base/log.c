#include "base/log.h"
#include <string.h>
#include <unistd.h>
#include "base/file.h"

static const char *const known[] = { "plan", "passes", "fusion", "dispatch", "memory", "tune", "all" };

bool wfi_list_has(const char *list, const char *name, size_t n)
{
    while (list && *list) {
        size_t m = strcspn(list, ",");
        if (m == n && !memcmp(list, name, n))
            return true;
        list += m + (list[m] == ',');
    }
    return false;
}

const char *wfi_log_unknown(const char *topics, size_t *n)
{
    while (topics && *topics) {
        size_t m = strcspn(topics, ","), i = 0;
        while (i < sizeof known / sizeof *known && (strlen(known[i]) != m || memcmp(known[i], topics, m) != 0))
            i++;
        if (m && i == sizeof known / sizeof *known) {
            *n = m;
            return topics;
        }
        topics += m + (topics[m] == ',');
    }
    return NULL;
}

bool wfi_log_on(const wfi_log *l, const char *topic)
{
    return l->topics && (wfi_list_has(l->topics, topic, strlen(topic)) || wfi_list_has(l->topics, "all", 3));
}

static void to_stderr(const char *text)
{
    for (size_t n = strlen(text); n;) {
        ssize_t k = write(STDERR_FILENO, text, n);
        if (k <= 0)
            return;
        text += k;
        n -= (size_t)k;
    }
}

void wfi_log_text(const wfi_log *l, const char *topic, const char *text)
{
    wfi_file f = { .mem = l->mem };
    if (l->file && wfi_file_append(&f, l->file, text, strlen(text)) == WF_OK)
        return;
    if (l->fn)
        l->fn(l->user, topic, text);
    else
        to_stderr(text);
}
