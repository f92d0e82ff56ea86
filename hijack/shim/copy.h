/* Copies in a common form, to which the entry points convert their arguments. Graphs use it too. */
#ifndef PHOS_COPY_H
#define PHOS_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "zz_calls.h"

/* One end of a copy. */
struct phos_end {
	uint32_t program; /* 1: the program's own pages; 0: device or arena memory */
	uint64_t address;
	uint64_t pitch; /* bytes from row to row */
	uint64_t slice; /* bytes from plane to plane */
};

/* A box of bytes to copy. */
struct phos_copy {
	struct phos_end to, from;
	uint64_t width, height, depth;
};

/* Whether the worker can use an address: device memory, the arena, registered memory that kernels
 * can access, and variables outside of all windows. */
bool phos_for_worker(uint64_t address);

/* Whether the program can access the memory at an address that the worker can use: page-locked,
 * registered or managed memory. */
bool phos_host_visible(uint64_t address);

/* Converts the driver's description. */
CUresult phos_copy_of_3d(const CUDA_MEMCPY3D *description, struct phos_copy *copy);

/* Converts back, as far as possible. */
void phos_3d_of_copy(const struct phos_copy *copy, CUDA_MEMCPY3D *description);

/* Posts a copy. If async is false, the copy is complete or its source is reusable on return.
 */
CUresult phos_copy_run(const struct phos_copy *copy, CUstream stream, bool async);

#endif
