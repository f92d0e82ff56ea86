/* The answer that NVIDIA's runtime asks of a driver before it goes on; see RATIONALE.md for why it
 * is given. */
#ifndef PHOS_INTEGRITY_H
#define PHOS_INTEGRITY_H

#include <stdint.h>

/* What the answer depends on besides the request. */
struct phos_integrity {
	uint32_t driver_version;
	uint32_t pid;
	uint32_t thread; /* low half of pthread_self() */
	uint64_t runtime_table, integrity_table, function;
};

/* Answers a request of the given version and time with two words. */
void phos_integrity_answer(const struct phos_integrity *about, uint32_t version,
			   uint64_t unix_seconds, uint64_t answer[2]);

#endif
