/* The clock of programs that measure. */
#pragma once
#include <time.h>

/* In nanoseconds, from an arbitrary start. */
static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
