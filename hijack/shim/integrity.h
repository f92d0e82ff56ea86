/* The integrity check that NVIDIA's runtime makes of a driver. docs/rationale/interception.md says
 * why it is answered. */
#ifndef PHOS_INTEGRITY_H
#define PHOS_INTEGRITY_H

#include <stdint.h>

/* The inputs of the answer besides the request. */
struct phos_integrity {
	uint32_t driver_version;
	uint32_t pid;
	uint32_t thread; /* low half of pthread_self() */
	uint64_t runtime_table, integrity_table, function;
};

/* Computes the two-word answer to a request of the given version and time. */
void phos_integrity_answer(const struct phos_integrity *about, uint32_t version,
			   uint64_t unix_seconds, uint64_t answer[2]);

#endif
