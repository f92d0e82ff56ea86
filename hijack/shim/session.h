/*
 * The session of this process: two mappings that it shares with its worker (layout: package wire),
 * and the private state of the posting side. There is one session, created by the first cuInit.
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
	PHOS_LIVE,   /* connected to a worker */
	PHOS_LOST,   /* the worker has exited: every call fails from now on */
	PHOS_FORKED, /* a child forked after cuInit: CUDA is not available in it */
};

struct phos_session {
	_Atomic uint32_t state;
	uint32_t device_count;
	unsigned char *file; /* the session file */
	uint64_t arena;      /* address of the pinned arena, the same in the worker */
	uint64_t arena_bytes;
	struct {
		uint64_t base, bytes;
	} windows[PHOS_DEVICE_MAX]; /* address range of each device's memory */
	_Atomic uint64_t number;    /* changes with a restore */
	/* Guarded by the ring's lock. */
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

/* Creates the session, once; later calls return the same result while it lives. */
CUresult phos_start(void);

/* The checks of an entry that needs no frame: not initialised, worker gone, sticky fault. */
CUresult phos_enter(void);

/* As phos_enter, for an entry that also needs a current context. */
CUresult phos_enter_context(void);

/* Marks the session as lost and reports it once. Returns the result of all later calls. */
CUresult phos_lose(const char *why);

/* Adapts to a restored session: reads its number and allows its worker to access our memory.
 * Thread-safe. */
void phos_notice_restore(void);

/* A wait's state of the worker's heartbeat. Must be zeroed first. */
struct phos_pulse {
	uint64_t beat;
	long silent_milliseconds;
};

/* Called after each sleep of a wait. Whether the worker is alive; if not, the session is lost. */
bool phos_worker_alive(struct phos_pulse *pulse, long slept_milliseconds);

/* Sleeps. Keeps errno. */
void phos_nap(long milliseconds);

/* The monotonic clock. */
int64_t phos_nanoseconds(void);

/* Does the copy that the worker requests in a slot; asked is the slot's state. */
void phos_serve_copy(unsigned char *slot, uint32_t asked);

/* Publishes a frame and unlocks the ring; the first step of phos_post and phos_wait. */
void phos_publish(struct phos_call *c);

/* Returns and clears the first error of an asynchronous call. A sticky fault stays. */
CUresult phos_take_error(void);

/* Returns a result. If it is the error of memory that the image has lost, it also tells the user
 * why, once. */
CUresult phos_with_damage(CUresult result);

/* Writes the output of device printf to stdout. Keeps errno. */
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
