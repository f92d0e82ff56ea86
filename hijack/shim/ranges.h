/* The memory this process knows by address, so that questions about pointers need no round trip. */
#ifndef PHOS_RANGES_H
#define PHOS_RANGES_H

#include <stdbool.h>
#include <stdint.h>

enum phos_range_kind {
	PHOS_RANGE_DEVICE = 1,
	PHOS_RANGE_HOST = 2,       /* cuMemHostAlloc: in the arena */
	PHOS_RANGE_MANAGED = 4,    /* cuMemAllocManaged: in the arena */
	PHOS_RANGE_REGISTERED = 8, /* cuMemHostRegister: the program's own pages */
	PHOS_RANGE_GLOBAL = 16,    /* a variable of a module: device memory that cannot be freed */
	PHOS_RANGE_MAPPED = 32,    /* cuMemMap */
	PHOS_RANGE_IMPORTED = 64,  /* cuIpcOpenMemHandle */
};

struct phos_range {
	uint64_t base, bytes;
	uint64_t id;      /* unique in this process: CU_POINTER_ATTRIBUTE_BUFFER_ID; set by
			     phos_range_add */
	uint64_t context; /* handle it was allocated in */
	uint64_t pool;    /* handle of the memory pool, 0: none */
	uint64_t module;  /* handle of the module or library that a variable was found in */
	uint32_t kind;    /* one phos_range_kind */
	uint32_t flags; /* of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged; the handle types
			   of what is mapped */
	uint64_t access; /* of what is mapped: two bits for each device, as cuMemSetAccess has them
			  */
	int32_t device;
	bool sync_memops; /* as set by the program; only remembered */
	bool shown;       /* registered, and kernels reach it */
	bool placed;      /* a variable that lies where a GPU's driver wants it */
};

/* Adds a range. Memory of the session replaces what is known there, a variable those of other
 * modules; the program's own pages replace nothing. False: it overlaps another one, or there is no
 * memory. */
bool phos_range_add(const struct phos_range *range);

/* Finds the range that holds an address. */
bool phos_range_find(uint64_t address, struct phos_range *range);

/* Whether any range has a byte of [base, base+bytes). */
bool phos_range_overlaps(uint64_t base, uint64_t bytes);

/* Removes the range that begins at base, when its kind is among kinds. */
bool phos_range_remove(uint64_t base, uint32_t kinds);

/* Removes the device memory and variables of a context that has ended. */
void phos_range_drop_context(uint64_t context);

/* Remembers CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of the range that holds address. */
bool phos_range_set_sync_memops(uint64_t address, bool on);

/* Whether an address is in registered memory that kernels reach. */
bool phos_range_shown(uint64_t address);

/* Whether an address is in a variable outside of all windows. */
bool phos_range_placed(uint64_t address);

/* Removes what is mapped within [base, base+bytes). */
void phos_range_remove_mapped(uint64_t base, uint64_t bytes);

/* Notes what a device may do with what is mapped within [base, base+bytes). */
void phos_range_set_access(uint64_t base, uint64_t bytes, int device, unsigned access);

static inline unsigned phos_range_access(const struct phos_range *range, int device)
{
	return range->access >> (2 * (unsigned)device) & 3;
}

#endif
