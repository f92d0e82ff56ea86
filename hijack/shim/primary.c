/* Primary contexts, and their state. PyTorch asks for the state three times per kernel, so it is
 * remembered: it changes only by calls of this process. */
#include "answers.h"
#include "objects.h"
#include "session.h"
#include "zz_calls.h"

#define ACTIVE (UINT64_C(1) << 32) /* in the answer, beside the flags */

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	if (flags == NULL || active == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (phos_device_find(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	struct phos_question question =
		phos_question(PHOS_CALL_cuDevicePrimaryCtxGetState, (uint64_t)device, 0, 0, 0);
	uint64_t state;
	if (phos_answer_find(&question, &state)) {
		*flags = (uint32_t)state;
		*active = (state & ACTIVE) != 0;
		return CUDA_SUCCESS;
	}
	result = phos_call_cuDevicePrimaryCtxGetState(device, flags, active);
	if (result == CUDA_SUCCESS)
		phos_answer_enter(&question, (*active != 0 ? ACTIVE : 0) | *flags);
	return result;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	CUresult result = phos_call_cuDevicePrimaryCtxSetFlags_v2(device, flags);
	phos_answers_forget();
	return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult result = phos_call_cuDevicePrimaryCtxRetain(context, device);
	phos_answers_forget();
	if (result == CUDA_SUCCESS) {
		struct phos_context *known = phos_context_find(*context);
		if (known != NULL)
			atomic_store(&known->ended, false);
	}
	return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult result = phos_call_cuDevicePrimaryCtxRelease_v2(device);
	phos_answers_forget();
	unsigned flags;
	int active = 1;
	if (result == CUDA_SUCCESS &&
	    cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active)
		phos_context_end(phos_primary_context(device));
	return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult result = phos_call_cuDevicePrimaryCtxReset_v2(device);
	phos_answers_forget();
	if (result == CUDA_SUCCESS)
		phos_context_end(phos_primary_context(device));
	return result;
}
