/* Attributes of kernels as for functions; settings without effect are checked and accepted. */
#include "function.h"
#include "session.h"

static CUresult check(uint64_t function)
{
	struct phos_function *f;
	return phos_function_find(function, &f);
}

CUresult cuFuncLoad(CUfunction function)
{
	return check(function);
}

/* Preferences for caches and banks are ignored. */

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
	return config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
	return config < 0 || config > 2 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

/* The launch shape as programs for CUDA 3 set it. Today these too launch with an explicit shape.
 */

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	return x <= 0 || y <= 0 || z <= 0 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
	(void)bytes;
	return check(function);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	return phos_call_cuKernelGetFunction(function, kernel);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
			      CUdevice device)
{
	(void)device;
	return cuFuncGetAttribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
			      CUdevice device)
{
	(void)device;
	return cuFuncSetAttribute(kernel, attribute, value);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
	(void)device;
	return cuFuncSetCacheConfig(kernel, config);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	return cuFuncGetName(name, kernel);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
	return cuFuncGetParamInfo(kernel, index, offset, bytes);
}
