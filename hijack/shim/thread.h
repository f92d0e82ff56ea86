/* The state of each thread of the program: its reply slot, its stack of contexts, its capture mode.
 */
#ifndef PHOS_THREAD_H
#define PHOS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "post.h"

struct phos_thread {
	uint64_t current;     /* handle of the current context, 0: none */
	uint32_t slot;        /* reply slot */
	bool ready;           /* slot is valid */
	bool shares;          /* slot is the shared one: there are more threads than slots */
	bool callback;        /* the callback thread: may not call CUDA */
	uint8_t capture_mode; /* cuThreadExchangeStreamCaptureMode */
	uint32_t depth;       /* contexts below the current one */
	uint32_t room;
	uint64_t *below;         /* the stack without its top */
	uint64_t *capture_nodes; /* the last result of cuStreamGetCaptureInfo */
	uint64_t capture_room;
	uint64_t copied_bytes;  /* size of the last copy with the program's memory */
	unsigned char *private; /* copy of a reply, if the slot is shared */
};

extern __thread struct phos_thread phos_self __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a reply slot. */
void phos_thread_join(struct phos_thread *t);

/* The shared slot is used by one call at a time. */
void phos_shared_slot_lock(void);
void phos_shared_slot_unlock(void);

#endif
