/* Private pages of the program that are replaced by shared ones, so that the worker can map them
 * for kernels. Their address and content stay. */
#ifndef PHOS_PAGES_H
#define PHOS_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "zz_abi.h"

/* Replaces the pages of a range that are private. *fd keeps their file open until it is closed, so
 * that the worker finds it; -1 if there is none. Refuses by name what cannot be replaced. */
CUresult phos_pages_share(uint64_t base, size_t bytes, int *fd);

/* Makes the pages of a range private again, but for those in which another known range has bytes.
 * Other pages are left alone. */
void phos_pages_return(uint64_t base, size_t bytes);

/* A forked child gets copies, as of other private memory. */
void phos_pages_before_fork(void);
void phos_pages_after_fork_in_parent(void);
void phos_pages_after_fork_in_child(void);

#endif
