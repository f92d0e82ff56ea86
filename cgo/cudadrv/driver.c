/* Opens the library, and tracks the current context. */
#include "table.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

void *phos_driver[PHOS_DRIVER_CALLS];
void *phos_special[PHOS_SPECIAL_CALLS];

/* Counts destroyed contexts. A thread's cached current context is valid only for one count. */
static _Atomic uint64_t ends = 1;

static _Thread_local uint64_t current, believed_at;

char *phos_open(const char *path, void **library)
{
	*library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (*library != NULL)
		return NULL;
	return strdup(dlerror());
}

void *phos_find(void *library, const char *name)
{
	return dlsym(library, name);
}

const char *phos_special_name(int index)
{
	static const char *const names[] = {
#define PHOS_NAME(number, name) [number] = name,
		PHOS_SPECIALS(PHOS_NAME)
#undef PHOS_NAME
	};
	return names[index];
}

void phos_flush(void)
{
	fflush(stdout);
}

int32_t phos_enter(uint64_t context)
{
	uint64_t now = atomic_load_explicit(&ends, memory_order_acquire);
	if (current == context && believed_at == now)
		return 0;
	int32_t result = CALL(PHOS_CTX_SET_CURRENT, uint64_t)(context);
	current = result == 0 ? context : 0;
	believed_at = result == 0 ? now : 0;
	return result;
}

void phos_forget(void)
{
	atomic_fetch_add_explicit(&ends, 1, memory_order_acq_rel);
}

int32_t phos_context_create(uint64_t *context, uint32_t flags, int32_t device)
{
	int32_t result = CALL(PHOS_CTX_CREATE, uint64_t *, uint32_t, int32_t)(context, flags, device);
	/* The driver has made the new context current, so the cached one is stale. */
	believed_at = 0;
	return result;
}
