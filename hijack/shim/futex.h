/* Futexes. They keep errno. */
#ifndef PHOS_FUTEX_H
#define PHOS_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is expected, at most the given time; may return early. Shared with other
 * processes. */
static inline void phos_futex_wait(_Atomic uint32_t *word, uint32_t expected, long milliseconds)
{
	int saved = errno;
	struct timespec limit = {.tv_sec = milliseconds / 1000,
				 .tv_nsec = milliseconds % 1000 * 1000000};
	syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, NULL, 0);
	errno = saved;
}

static inline void phos_futex_wake(_Atomic uint32_t *word, int threads)
{
	int saved = errno;
	syscall(SYS_futex, word, FUTEX_WAKE, threads, NULL, NULL, 0);
	errno = saved;
}

/* One iteration of a spin loop. */
static inline void phos_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
