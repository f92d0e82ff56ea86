/* cuGetProcAddress: entry points by name, version of the caller's headers, and type of default
 * stream. */
#include <stdbool.h>
#include <string.h>

#include "log.h"
#include "zz_calls.h"

#include "zz_procs.h"

enum { FOUND = 0, NO_SYMBOL = 1, TOO_OLD = 2 };
enum { FLAG_LEGACY_STREAM = 1, FLAG_PER_THREAD_STREAM = 2 };

#define ROWS (sizeof phos_procs / sizeof phos_procs[0])

/* Returns the first row of a name. */
static const struct phos_proc *first_row(const char *name)
{
	size_t low = 0, high = ROWS;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(phos_procs[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ROWS && strcmp(phos_procs[low].name, name) == 0 ? &phos_procs[low] : NULL;
}

/* Finds the newest variant up to the caller's version. A name without a per-thread variant has one
 * variant for both. */
static const struct phos_proc *find(const char *name, int version, bool per_thread, int *status)
{
	const struct phos_proc *plain = NULL, *special = NULL, *row = first_row(name);
	*status = row == NULL ? NO_SYMBOL : TOO_OLD;
	for (; row != NULL && row < phos_procs + ROWS && strcmp(row->name, name) == 0; row++) {
		if (row->version > version)
			continue;
		if (row->per_thread)
			special = row;
		else
			plain = row;
	}
	const struct phos_proc *found = per_thread && special != NULL ? special : plain;
	if (found != NULL)
		*status = FOUND;
	return found;
}

static CUresult look_up(const char *name, void **function, int version, uint64_t flags, bool twin,
			int *status)
{
	int ignored;
	if (status == NULL)
		status = &ignored;
	if (name == NULL || function == NULL ||
	    flags > (FLAG_LEGACY_STREAM | FLAG_PER_THREAD_STREAM))
		return CUDA_ERROR_INVALID_VALUE;
	bool per_thread = (flags & FLAG_PER_THREAD_STREAM) != 0 ||
			  (twin && (flags & FLAG_LEGACY_STREAM) == 0);
	const struct phos_proc *found = find(name, version, per_thread, status);
	*function = NULL;
	if (found == NULL) {
		phos_log(PHOS_DEBUG, "no entry point %s for version %d", name, version);
		return CUDA_ERROR_NOT_FOUND;
	}
	memcpy(function, &found->function, sizeof *function);
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	return look_up(name, function, version, flags, false, NULL);
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	return look_up(name, function, version, flags, false, status);
}

CUresult cuGetProcAddress_v2_ptsz(const char *name, void **function, int version, uint64_t flags,
				  CUdriverProcAddressQueryResult *status)
{
	return look_up(name, function, version, flags, true, status);
}
