/* Contexts that programs create: the session creates and destroys them; each thread keeps its own
 * stack of current ones. */
#include <stdlib.h>

#include "objects.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

#define API_VERSION      3020
#define API_VERSION_11_4 11040
#define FLAGS_KNOWN      0xffu

static CUresult push(uint64_t handle)
{
	struct phos_thread *t = &phos_self;
	if (t->depth == t->room) {
		uint32_t room = t->room == 0 ? 8 : 2 * t->room;
		uint64_t *below = realloc(t->below, room * sizeof *below);
		if (below == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		t->below = below;
		t->room = room;
		/* So that the stack is freed when the thread ends. */
		if (!t->ready)
			phos_thread_join(t);
	}
	t->below[t->depth++] = t->current;
	t->current = handle;
	return CUDA_SUCCESS;
}

static uint64_t pop(void)
{
	struct phos_thread *t = &phos_self;
	uint64_t top = t->current;
	t->current = t->depth == 0 ? 0 : t->below[--t->depth];
	return top;
}

/* Checks that a context can be made current. 0, no context, is valid. */
static CUresult usable(CUcontext context)
{
	struct phos_context *found = phos_context_find(context);
	if (found == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* A destroyed primary context exists again once it is retained; until then it may be
	 * current. */
	if (atomic_load(&found->ended) && (uint32_t)found->handle > PHOS_DEVICE_MAX)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

static struct phos_context *current(void)
{
	return phos_self.current == 0 ? NULL : phos_context_find(phos_self.current);
}

static CUresult create(CUcontext *context, unsigned flags, CUdevice device, uint32_t version)
{
	if (context == NULL || (flags & ~FLAGS_KNOWN) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuCtxCreate_v2(context, flags, device);
	if (result != CUDA_SUCCESS)
		return result;
	if (phos_context_enter(*context, device, flags, version) == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return push(*context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	return create(context, flags, device, API_VERSION);
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *parameters, int count,
			unsigned int flags, CUdevice device)
{
	(void)parameters;
	if (count != 0)
		return phos_refuse("cuCtxCreate_v3 with an execution affinity");
	return create(context, flags, device, API_VERSION_11_4);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags,
			CUdevice device)
{
	if (parameters != NULL)
		return phos_refuse("cuCtxCreate_v4 with parameters");
	return create(context, flags, device, API_VERSION_11_4);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	uint64_t handle = context;
	if (usable(context) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if ((uint32_t)handle <= PHOS_DEVICE_MAX)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* Destructors of the context's local storage may still use the context. */
	phos_context_end(handle);
	CUresult result = phos_call_cuCtxDestroy_v2(context);
	if (phos_self.current == handle)
		pop();
	return result;
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	if (context == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result == CUDA_SUCCESS)
		*context = phos_self.current;
	return result;
}

CUresult cuCtxDetach(CUcontext context)
{
	/* Deprecated: the only attachment left is that of its creation. */
	return cuCtxDestroy_v2(context);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS)
		result = usable(context);
	return result == CUDA_SUCCESS ? push(context) : result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t top = pop();
	if (context != NULL)
		*context = top;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (context == 0) {
		pop();
		return CUDA_SUCCESS;
	}
	result = usable(context);
	if (result == CUDA_SUCCESS)
		phos_self.current = context;
	return result;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	if (context == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS)
		*context = phos_self.current;
	return result;
}

/* numba calls the newest suffix that a driver exports. It passes no context to these two, although
 * the newest suffix (CUDA 13) takes one, so the register holds an arbitrary value. Every value that
 * is not a context means the current context. */
static CUcontext named_or_current(CUcontext context)
{
	return phos_kind_of(context) == PHOS_KIND_CONTEXT ? context : 0;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	context = named_or_current(context);
	CUresult result = context == 0 ? phos_enter_context() : phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_context *found = context == 0 ? current() : phos_context_find(context);
	if (found == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = found->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
	return phos_call_cuCtxSynchronize_v2(named_or_current(context));
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, 0);
}
