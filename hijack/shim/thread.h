/* What each thread of the program has: its reply slot, its stack of contexts, its capture mode. */
#ifndef PHOS_THREAD_H
#define PHOS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "post.h"

struct phos_thread {
	uint64_t current;     /* handle of the current context, 0: none */
	uint32_t slot;        /* reply slot */
	bool ready;           /* slot holds */
	bool shares;          /* the slot is the shared one: more threads than slots */
	bool callback;        /* runs host functions: no calls from here */
	uint8_t capture_mode; /* cuThreadExchangeStreamCaptureMode */
	uint32_t depth;       /* contexts below the current one */
	uint32_t room;
	uint64_t *below;         /* the stack, without its top */
	uint64_t *capture_nodes; /* what cuStreamGetCaptureInfo last pointed the program to */
	uint64_t capture_room;
	uint64_t copied_bytes;  /* of the last copy with the program's memory */
	unsigned char *private; /* copy of a reply, when the slot is shared */
};

extern __thread struct phos_thread phos_self __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a reply slot. */
void phos_thread_join(struct phos_thread *t);

/* The shared slot is used by one call at a time. */
void phos_shared_slot_lock(void);
void phos_shared_slot_unlock(void);

#endif
