/*
 * What the shim itself knows of objects that the session made: contexts, events, functions. Found
 * by handle, without a lock, in tables that only grow.
 */
#ifndef PHOS_OBJECTS_H
#define PHOS_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "post.h"
#include "zz_layout.h"

#define PHOS_KINDS (PHOS_LAST_KIND + 1)

/* The kind of a handle, as package abi defines them; PHOS_KIND_NONE where it is none of ours. */
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

/* The object of a handle, NULL where there is none. */
void *phos_object_find(uint64_t handle);

/* Enters an object; when another thread was first, its object is returned and ours not entered.
 * NULL: no memory. */
void *phos_object_enter(uint64_t handle, void *object);

/* Takes an object out and returns it. A thread that still uses the handle is a bug of the program.
 */
void *phos_object_remove(uint64_t handle);

/* A context. Lives for ever once known; ended says that it was destroyed. */
struct phos_context {
	uint64_t handle;
	int device;
	_Atomic uint32_t flags;
	uint32_t version;   /* cuCtxGetApiVersion */
	_Atomic bool ended; /* a primary context can come back */
	_Atomic(struct phos_local *) locals;
};

/* An entry of context local storage. Never freed; without an owner it is free. */
struct phos_local {
	_Atomic(void *) key;
	_Atomic(void *) value;
	void (*destructor)(CUcontext, void *, void *);
	struct phos_local *next;
};

/* The context of a handle; a primary context exists from the beginning. NULL: no such context. */
struct phos_context *phos_context_find(uint64_t handle);

/* Makes a context known. */
struct phos_context *phos_context_enter(uint64_t handle, int device, uint32_t flags,
					uint32_t version);

/* Marks a context as destroyed: runs the destructors of its local storage, forgets its memory, and
 * takes it from the top of the caller's stack. */
void phos_context_end(uint64_t handle);

/* Context local storage, as the runtime's private table wants it. Context 0 and -1 are the current
 * one. */
CUresult phos_local_put(CUcontext context, void *key, void *value,
			void (*destructor)(CUcontext, void *, void *));
CUresult phos_local_get(void **value, CUcontext context, void *key);
CUresult phos_local_delete(CUcontext context, void *key);

/* Makes an event of another process known. */
CUresult phos_event_enter(CUevent handle);

/* A device as the session's header describes it. */
struct phos_device {
	char name[256];
	uint8_t uuid[16];
	uint64_t memory_bytes;
	int32_t attributes[300];
	uint64_t window, window_bytes;
};

/* NULL: not initialised, or no such device. */
const struct phos_device *phos_device_find(int ordinal);

#endif
