/* The handshake with phosd and the worker it starts (package wire, handshake.go). */
#ifndef PHOS_HANDSHAKE_H
#define PHOS_HANDSHAKE_H

#include <stdint.h>

#include "post.h"

/* What a handshake that succeeded has made. */
struct phos_shared {
	unsigned char *file;
	uint64_t file_bytes;
	uint64_t arena;
	uint64_t arena_bytes;
	uint64_t session;
	bool inherited; /* a forked child has the mappings too: the kernel would not leave them out
			 */
};

/* Connects, maps the session and the arena, and closes every descriptor again. On failure nothing
 * is mapped, and one line on stderr says what is wrong and what to do. */
CUresult phos_shake_hands(struct phos_shared *shared);

/* Where Yama restricts who may read a process's memory, lets the worker do it. 0: it cannot be
 * named here. */
void phos_name_worker(uint32_t pid);

/* Drops the mappings. */
void phos_unmap(const struct phos_shared *shared);

#endif
