/* The handshake with phosd and the worker that it starts (hijack/wire/handshake.go). */
#ifndef PHOS_HANDSHAKE_H
#define PHOS_HANDSHAKE_H

#include <stdint.h>

#include "post.h"

/* The result of a successful handshake. */
struct phos_shared {
	unsigned char *file;
	uint64_t file_bytes;
	uint64_t arena;
	uint64_t arena_bytes;
	uint64_t session;
	bool inherited; /* a forked child has the mappings too: MADV_DONTFORK failed
			 */
};

/* Connects, maps the session and the arena, and closes all file descriptors. On failure nothing is
 * mapped, and one line on stderr says what is wrong and what to do. */
CUresult phos_shake_hands(struct phos_shared *shared);

/* Allows the worker to access this process's memory, in case Yama restricts that. pid 0: the worker
 * has no pid in this namespace. */
void phos_allow_worker(uint32_t pid);

/* Drops the mappings. */
void phos_unmap(const struct phos_shared *shared);

#endif
