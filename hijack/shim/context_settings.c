/* Queries and settings of contexts that do not affect the session. */
#include "objects.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

#define LEAST_PRIORITY    0
#define GREATEST_PRIORITY (-5)
#define FLAGS_SETTABLE    0xffu

CUresult cuCtxGetFlags(unsigned int *flags)
{
	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_context *context = phos_context_find(phos_self.current);
	/* The flags of a primary context can be set before it exists here. */
	int active;
	if (context == NULL || (uint32_t)context->handle <= PHOS_DEVICE_MAX)
		return cuDevicePrimaryCtxGetState((CUdevice)((uint32_t)phos_self.current - 1),
						  flags, &active);
	*flags = atomic_load(&context->flags);
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	if ((flags & ~FLAGS_SETTABLE) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if ((uint32_t)phos_self.current <= PHOS_DEVICE_MAX)
		return cuDevicePrimaryCtxSetFlags_v2((CUdevice)((uint32_t)phos_self.current - 1),
						     flags);
	struct phos_context *context = phos_context_find(phos_self.current);
	if (context != NULL)
		atomic_store(&context->flags, flags);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
	if (id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = context == 0 ? phos_enter_context() : phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t handle = context == 0 ? phos_self.current : context;
	if (phos_context_find(handle) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = (uint32_t)handle;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	if (version == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = context == 0 ? phos_enter_context() : phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_context *found = phos_context_find(context == 0 ? phos_self.current : context);
	if (found == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = found->version;
	return CUDA_SUCCESS;
}

/* Preferences for caches and banks: the devices here ignore them, so the answer is always "none".
 */

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
	if (config == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*config = (CUfunc_cache)0;
	return phos_enter_context();
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	return (unsigned)config > 3 ? CUDA_ERROR_INVALID_VALUE : phos_enter_context();
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	if (config == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*config = (CUsharedconfig)1; /* four-byte banks */
	return phos_enter_context();
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	return (unsigned)config > 2 ? CUDA_ERROR_INVALID_VALUE : phos_enter_context();
}

/* CIG contexts, which share the GPU with a graphics API, do not exist here, so their limits are 0.
 * cuBLASLt of CUDA 13 asks for CIG_ENABLED at every matmul. */
enum limit { SHARED_MEMORY_SIZE = 7, CIG_ENABLED = 8, CIG_SHARED_MEMORY_FALLBACK = 9 };

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	if (value == NULL || (int)limit < 0 || (int)limit > CIG_SHARED_MEMORY_FALLBACK)
		return CUDA_ERROR_INVALID_VALUE;
	if ((int)limit < SHARED_MEMORY_SIZE)
		return phos_call_cuCtxGetLimit(value, limit);
	CUresult result = phos_enter_context();
	if (result == CUDA_SUCCESS)
		*value = 0;
	return result;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	return phos_enter_context();
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (least != NULL)
		*least = LEAST_PRIORITY;
	if (greatest != NULL)
		*greatest = GREATEST_PRIORITY;
	return CUDA_SUCCESS;
}
