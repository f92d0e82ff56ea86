/* The shim's table of contexts, and the local storage that runtimes keep in them. */
#include <pthread.h>
#include <stdlib.h>

#include "answers.h"
#include "objects.h"
#include "ranges.h"
#include "session.h"
#include "thread.h"

#define API_VERSION 3020

static pthread_mutex_t locals_lock = PTHREAD_MUTEX_INITIALIZER;

struct phos_context *phos_context_enter(uint64_t handle, int device, uint32_t flags,
					uint32_t version)
{
	struct phos_context *context = calloc(1, sizeof *context);
	if (context == NULL)
		return NULL;
	context->handle = handle;
	context->device = device;
	context->version = version;
	atomic_store(&context->flags, flags);
	struct phos_context *entered = phos_object_enter(handle, context);
	if (entered != context)
		free(context);
	return entered;
}

struct phos_context *phos_context_find(uint64_t handle)
{
	if (phos_kind_of(handle) != PHOS_KIND_CONTEXT)
		return NULL;
	struct phos_context *context = phos_object_find(handle);
	if (context != NULL)
		return context;
	/* The handle of a primary context is valid, and used, before it is retained. */
	uint32_t index = (uint32_t)handle;
	if (index < 1 || index > phos.device_count)
		return NULL;
	return phos_context_enter(handle, (int)index - 1, 0, API_VERSION);
}

/* Clears the context's local storage and calls the destructors. */
static void end_locals(struct phos_context *context)
{
	struct phos_local *local = atomic_load(&context->locals);
	for (; local != NULL; local = local->next) {
		void *key = atomic_exchange(&local->key, NULL);
		if (key != NULL && local->destructor != NULL)
			local->destructor(context->handle, key, atomic_load(&local->value));
	}
}

void phos_context_end(uint64_t handle)
{
	struct phos_context *context = phos_context_find(handle);
	if (context == NULL)
		return;
	atomic_store(&context->ended, true);
	end_locals(context);
	phos_range_drop_context(handle);
	phos_answers_forget();
}

static struct phos_context *context_or_current(CUcontext context)
{
	uint64_t handle = context;
	if (handle == 0 || handle == UINT64_MAX)
		handle = phos_self.current;
	return handle == 0 ? NULL : phos_context_find(handle);
}

static struct phos_local *find_local(struct phos_context *context, void *key)
{
	struct phos_local *local = atomic_load_explicit(&context->locals, memory_order_acquire);
	while (local != NULL && atomic_load_explicit(&local->key, memory_order_acquire) != key)
		local = local->next;
	return local;
}

CUresult phos_local_get(void **value, CUcontext handle, void *key)
{
	struct phos_context *context = context_or_current(handle);
	struct phos_local *local = context == NULL || key == NULL ? NULL : find_local(context, key);
	if (local == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (value != NULL)
		*value = atomic_load_explicit(&local->value, memory_order_acquire);
	return CUDA_SUCCESS;
}

/* Finds the entry of key or a free one, or creates one. The caller holds the lock. */
static struct phos_local *place_local(struct phos_context *context, void *key)
{
	struct phos_local *local = find_local(context, key);
	if (local == NULL)
		local = find_local(context, NULL);
	if (local != NULL)
		return local;
	local = calloc(1, sizeof *local);
	if (local != NULL) {
		local->next = atomic_load(&context->locals);
		atomic_store_explicit(&context->locals, local, memory_order_release);
	}
	return local;
}

CUresult phos_local_put(CUcontext handle, void *key, void *value,
			void (*destructor)(CUcontext, void *, void *))
{
	struct phos_context *context = context_or_current(handle);
	if (context == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (key == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&locals_lock);
	struct phos_local *local = place_local(context, key);
	if (local != NULL) {
		local->destructor = destructor;
		atomic_store(&local->value, value);
		atomic_store_explicit(&local->key, key, memory_order_release);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&locals_lock);
	return result;
}

CUresult phos_local_delete(CUcontext handle, void *key)
{
	struct phos_context *context = context_or_current(handle);
	if (context == NULL || key == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&locals_lock);
	struct phos_local *local = find_local(context, key);
	if (local != NULL)
		atomic_store(&local->key, NULL);
	pthread_mutex_unlock(&locals_lock);
	return local == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
