/* clock.h - time that only goes forward. */
#ifndef WFI_BASE_CLOCK_H
#define WFI_BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment before the program began. */
static inline uint64_t wfi_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
