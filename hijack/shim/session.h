/*
 * The session of this process: two mappings that it shares with its worker (layout: package wire),
 * and what the posting side keeps to itself. There is one, made by the first cuInit.
 */
#ifndef PHOS_SESSION_H
#define PHOS_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "post.h"
#include "zz_layout.h"

enum phos_state {
	PHOS_FRESH,  /* cuInit has not succeeded yet */
	PHOS_LIVE,   /* connected */
	PHOS_LOST,   /* the worker is gone: every call fails from now on */
	PHOS_FORKED, /* a child made by fork after cuInit: CUDA is not available in it */
};

struct phos_session {
	_Atomic uint32_t state;
	uint32_t device_count;
	unsigned char *file; /* the session file */
	uint64_t arena;      /* address of the pinned arena, the same in the worker */
	uint64_t arena_bytes;
	struct {
		uint64_t base, bytes;
	} windows[PHOS_DEVICE_MAX]; /* where each device's memory lies */
	_Atomic uint64_t number;    /* another one after a restore */
	/* Under the ring's lock. */
	uint64_t head;     /* bytes posted */
	uint64_t tail;     /* bytes consumed, as last seen */
	uint64_t sequence; /* of the last frame */
};

extern struct phos_session phos;

static inline _Atomic uint32_t *phos_word(size_t offset)
{
	return (_Atomic uint32_t *)(void *)(phos.file + offset);
}

static inline _Atomic uint64_t *phos_word64(size_t offset)
{
	return (_Atomic uint64_t *)(void *)(phos.file + offset);
}

static inline bool phos_live(void)
{
	return atomic_load_explicit(&phos.state, memory_order_acquire) == PHOS_LIVE;
}

/* Makes the session, once; later calls return the same answer while it lives. */
CUresult phos_start(void);

/* What an entry that needs no frame returns before it does anything: not initialised, worker gone,
 * sticky fault. */
CUresult phos_enter(void);

/* As phos_enter, when the entry also needs a current context. */
CUresult phos_enter_context(void);

/* Declares the worker gone and says so once. Returns what calls return from now on. */
CUresult phos_lose(const char *why);

/* Takes over what a restore has changed: the session's number and its worker. Threads may do it at
 * the same time. */
void phos_rejoin(void);

/* A wait's view of the worker's heartbeat. Begins zeroed. */
struct phos_pulse {
	uint64_t beat;
	long silent_milliseconds;
};

/* Called after each sleep of a wait: whether the worker still lives. Loses the session when it does
 * not. */
bool phos_still_there(struct phos_pulse *pulse, long slept_milliseconds);

/* Sleeps. Keeps errno. */
void phos_nap(long milliseconds);

/* The monotonic clock. */
int64_t phos_nanoseconds(void);

/* Does the copy that the worker asks for in a slot, by its state. */
void phos_serve_copy(unsigned char *slot, uint32_t asked);

/* Publishes a frame and unlocks the ring: what phos_post and phos_wait begin with. */
void phos_publish(struct phos_call *c);

/* Takes the first error of an asynchronous call, if there is one. A sticky fault stays. */
CUresult phos_take_error(void);

/* Writes to stdout what kernels have printed. Keeps errno. */
void phos_drain_output(void);

/* Registers the fork handlers; called once by phos_start. */
void phos_watch_fork(void);

/* Whether an address is in the pinned arena, or in the window of a device's memory. */
static inline bool phos_in_arena(uint64_t address)
{
	return address - phos.arena < phos.arena_bytes;
}

static inline bool phos_in_window(uint64_t address)
{
	for (uint32_t i = 0; i < phos.device_count; i++)
		if (address - phos.windows[i].base < phos.windows[i].bytes)
			return true;
	return false;
}

#endif
