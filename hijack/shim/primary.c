/* Primary contexts, and their state. PyTorch asks for the state three times per kernel, so it is
 * cached: it changes only by calls of this process. */
#include "objects.h"
#include "session.h"
#include "zz_calls.h"

/* A device's state: the flags, two bits, and a count of changes. */
#define ACTIVE (UINT64_C(1) << 32)
#define KNOWN  (UINT64_C(1) << 33)
#define CHANGE (UINT64_C(1) << 34)

static _Atomic uint64_t states[PHOS_DEVICE_MAX];

/* Makes the state unknown. Called before and after each change, so that a query at the same time
 * cannot store what it found: the count differs. */
static void forget(CUdevice device)
{
	if (device < 0 || device >= PHOS_DEVICE_MAX)
		return;
	uint64_t old = atomic_load(&states[device]);
	while (!atomic_compare_exchange_weak(&states[device], &old, (old & ~(CHANGE - 1)) + CHANGE))
		;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	if (flags == NULL || active == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (phos_device_find(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	uint64_t old = atomic_load_explicit(&states[device], memory_order_acquire);
	if ((old & KNOWN) != 0) {
		*flags = (uint32_t)old;
		*active = (old & ACTIVE) != 0;
		return CUDA_SUCCESS;
	}
	result = phos_call_cuDevicePrimaryCtxGetState(device, flags, active);
	if (result == CUDA_SUCCESS)
		atomic_compare_exchange_strong(&states[device], &old,
					       (old & ~(CHANGE - 1)) | KNOWN |
						       (*active != 0 ? ACTIVE : 0) | *flags);
	return result;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	forget(device);
	CUresult result = phos_call_cuDevicePrimaryCtxSetFlags_v2(device, flags);
	forget(device);
	return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	forget(device);
	CUresult result = phos_call_cuDevicePrimaryCtxRetain(context, device);
	forget(device);
	if (result == CUDA_SUCCESS) {
		struct phos_context *known = phos_context_find(*context);
		if (known != NULL)
			atomic_store(&known->ended, false);
	}
	return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	forget(device);
	CUresult result = phos_call_cuDevicePrimaryCtxRelease_v2(device);
	forget(device);
	unsigned flags;
	int active = 1;
	if (result == CUDA_SUCCESS &&
	    cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active)
		phos_context_end(phos_primary_context(device));
	return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	forget(device);
	CUresult result = phos_call_cuDevicePrimaryCtxReset_v2(device);
	forget(device);
	if (result == CUDA_SUCCESS)
		phos_context_end(phos_primary_context(device));
	return result;
}
