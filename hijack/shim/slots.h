/* The form of a private table: an array of functions whose first element is the table's size in
 * bytes. */
#ifndef PHOS_SLOTS_H
#define PHOS_SLOTS_H

#include <stdint.h>

#include "post.h"

typedef void (*phos_slot)(void);

/* Logs a call of an unused slot, and refuses it. Six words cover the arguments seen so far. */
CUresult phos_unused_slot(const char *table, unsigned slot, const uint64_t argument[6]);

/* Defines TABLE_N, a function for an unused slot. */
#define UNUSED(table, n)                                                                        \
	static CUresult table##_##n(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, \
				    uint64_t f)                                                 \
	{                                                                                       \
		return phos_unused_slot(#table, n, (const uint64_t[]){a, b, c, d, e, f});       \
	}
#define SLOT(function) ((phos_slot)(function))
#define SIZED(slots)   ((phos_slot)((slots) * sizeof(phos_slot)))

extern const phos_slot phos_tools_table[], phos_module_tools_table[], phos_context_bypass_table[],
	phos_heap_access_table[], phos_device_extended_table[], phos_partition_table[];

#endif
