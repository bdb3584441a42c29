/* seeded.h - random numbers whose seed is printed, and pools of one to three threads, for tests of kernels. Define
 * FIRST_SEED before; behind cmocka.h. WEFT_TEST_SEED gives another seed. */
#ifndef WEFT_TEST_SEEDED_H
#define WEFT_TEST_SEEDED_H
#include <stdlib.h>
#include "base/mem.h"
#include "base/pool.h"

static uint64_t seed = FIRST_SEED;
static uint32_t rnd(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static wfi_mem mem;
static wfi_pool *pool[4]; /* [threads] */

static int start(void **state)
{
    (void)state;
    const char *s = getenv("WEFT_TEST_SEED");
    if (s)
        seed = strtoull(s, NULL, 0);
    print_message("seed %llu\n", (unsigned long long)seed);
    wfi_mem_init(&mem, NULL, NULL, 0);
    for (int i = 1; i <= 3; i++)
        pool[i] = wfi_pool_new(&mem, i);
    return !(pool[1] && pool[2] && pool[3]);
}
static int stop(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++)
        wfi_pool_free(pool[i]);
    return 0;
}

#endif
