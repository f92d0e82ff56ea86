/* The known memory ranges of this process, so that pointer queries need no round trip. */
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
	uint64_t context; /* handle of the context of the allocation */
	uint64_t pool;    /* handle of the memory pool, 0: none */
	uint64_t module;  /* handle of the module or library of a variable */
	uint32_t kind;    /* one phos_range_kind */
	uint32_t flags;   /* of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged; or the handle
			     types of a mapping */
	uint64_t access;  /* of a mapping: two bits for each device, as in cuMemSetAccess
			   */
	int32_t device;
	bool sync_memops; /* as set by the program; only stored */
	bool shown;       /* registered, and kernels can access it */
	bool placed;      /* a variable at an address that the GPU's driver chose */
};

/* Adds a range. Memory of the session replaces all known ranges there, a variable replaces those of
 * other modules, and the program's own pages replace nothing. Returns false if the range overlaps
 * another one or there is no memory. */
bool phos_range_add(const struct phos_range *range);

/* Finds the range that contains an address. */
bool phos_range_find(uint64_t address, struct phos_range *range);

/* Whether any range has a byte of [base, base+bytes). */
bool phos_range_overlaps(uint64_t base, uint64_t bytes);

/* Removes the range that begins at base, if its kind is in kinds. */
bool phos_range_remove(uint64_t base, uint32_t kinds);

/* Removes the device memory and variables of a destroyed context. */
void phos_range_drop_context(uint64_t context);

/* Stores CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of the range that contains address. */
bool phos_range_set_sync_memops(uint64_t address, bool on);

/* Notes that kernels can access the registered memory that contains address. */
void phos_range_set_shown(uint64_t address);

/* Whether an address is in registered memory that kernels can access. */
bool phos_range_shown(uint64_t address);

/* Whether an address is in a variable outside of all windows. */
bool phos_range_placed(uint64_t address);

/* Removes the mappings within [base, base+bytes). */
void phos_range_remove_mapped(uint64_t base, uint64_t bytes);

/* Stores a device's access to the mappings within [base, base+bytes). */
void phos_range_set_access(uint64_t base, uint64_t bytes, int device, unsigned access);

static inline unsigned phos_range_access(const struct phos_range *range, int device)
{
	return range->access >> (2 * (unsigned)device) & 3;
}

#endif
