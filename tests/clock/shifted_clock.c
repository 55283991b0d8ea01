/*
 * Shifts the time of day of one process, as if the clock of its machine were wrong. It is loaded before the C library
 * (LD_PRELOAD), so all above it is real. The clock that never goes back is left as it is.
 *
 * The environment variable SHIFTED_CLOCK_SECONDS says by how much: -420 is seven minutes behind. A value that is no
 * number ends the process with a message, so that no test passes with the right time.
 */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift;

__attribute__((constructor)) static void read_shift(void)
{
    const char *text = getenv("SHIFTED_CLOCK_SECONDS");
    char *end = NULL;
    shift = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end) {
        fprintf(stderr, "SHIFTED_CLOCK_SECONDS: expected a number, found %s\n", text ? text : "nothing");
        _exit(70);
    }
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *found)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, found);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        found->tv_sec += shift;
    return failed;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict found, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (!found)
        return 0;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *found)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}
