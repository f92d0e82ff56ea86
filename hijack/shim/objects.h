/*
 * The shim's own state of the session's objects: contexts, events, functions. They are found by
 * handle, without a lock, in tables that only grow.
 */
#ifndef PHOS_OBJECTS_H
#define PHOS_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "post.h"
#include "zz_layout.h"

#define PHOS_KINDS (PHOS_LAST_KIND + 1)

/* The kind of a handle, as package abi defines them; PHOS_KIND_NONE if it is not a handle of phos.
 */
static inline unsigned phos_kind_of(uint64_t handle)
{
	unsigned kind = handle >> 32 & 0xff;
	if (handle >> 40 != PHOS_HANDLE_BASE >> 40 || kind >= PHOS_KINDS)
		return PHOS_KIND_NONE;
	return kind;
}

static inline uint64_t phos_primary_context(int device)
{
	return PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_CONTEXT << 32 | (uint64_t)(device + 1);
}

/* Returns the object of a handle, or NULL. */
void *phos_object_find(uint64_t handle);

/* Adds an object. If another thread was first, returns its object instead. NULL: no memory. */
void *phos_object_enter(uint64_t handle, void *object);

/* Removes and returns an object. The program must not use the handle concurrently.
 */
void *phos_object_remove(uint64_t handle);

/* A context. The struct is never freed; ended is set when the context is destroyed. */
struct phos_context {
	uint64_t handle;
	int device;
	_Atomic uint32_t flags;
	uint32_t version;   /* cuCtxGetApiVersion */
	_Atomic bool ended; /* a primary context can be retained again */
	_Atomic(struct phos_local *) locals;
};

/* An entry of context local storage. It is never freed, but reused. */
struct phos_local {
	_Atomic(void *) key;
	_Atomic(void *) value;
	void (*destructor)(CUcontext, void *, void *);
	struct phos_local *next;
};

/* Returns the context of a handle, or NULL. A primary context always exists. */
struct phos_context *phos_context_find(uint64_t handle);

/* Adds a context. */
struct phos_context *phos_context_enter(uint64_t handle, int device, uint32_t flags,
					uint32_t version);

/* Marks a context as destroyed: runs the destructors of its local storage, removes its memory
 * ranges, and pops it if it is the caller's current one. */
void phos_context_end(uint64_t handle);

/* Context local storage, for the runtime's private table. Contexts 0 and -1 mean the current one.
 */
CUresult phos_local_put(CUcontext context, void *key, void *value,
			void (*destructor)(CUcontext, void *, void *));
CUresult phos_local_get(void **value, CUcontext context, void *key);
CUresult phos_local_delete(CUcontext context, void *key);

/* Adds an event of another process. */
CUresult phos_event_enter(CUevent handle);

/* A device as the session's header describes it. */
struct phos_device {
	char name[256];
	uint8_t uuid[16];
	uint64_t memory_bytes;
	int32_t attributes[300];
	uint64_t window, window_bytes;
};

/* Returns NULL if not initialised or there is no such device. */
const struct phos_device *phos_device_find(int ordinal);

#endif
