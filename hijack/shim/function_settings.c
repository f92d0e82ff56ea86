/* Attributes of functions and kernels; settings without effect are checked and accepted. */
#include <pthread.h>

#include "answers.h"
#include "function.h"
#include "objects.h"
#include "session.h"
#include "thread.h"

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

/* cuBLAS asks before each launch. */
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUresult result = function == NULL ? CUDA_ERROR_INVALID_VALUE : phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_question question =
		phos_question(PHOS_CALL_cuKernelGetFunction, kernel, phos_self.current, 0, 0);
	if (phos_answer_find(&question, function))
		return CUDA_SUCCESS;
	result = phos_call_cuKernelGetFunction(function, kernel);
	if (result == CUDA_SUCCESS)
		phos_answer_enter(&question, *function);
	return result;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
	struct phos_function *f;
	if (value == NULL || attribute < 0 || attribute >= PHOS_FUNCTION_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_function_find(function, &f);
	if (result == CUDA_SUCCESS)
		*value = atomic_load(&f->attributes[attribute]);
	return result;
}

/* Whether an attribute can have a value. What only the device knows, the session checks. */
static bool valid(const struct phos_function *f, CUfunction_attribute attribute, int value)
{
	enum { MAX_SHARED_OPTIN = 97 };
	switch (attribute) {
	case PHOS_FUNCTION_MAX_DYNAMIC_SHARED:
		return value >= 0 &&
		       (f->device == NULL || f->device[MAX_SHARED_OPTIN] <= 0 ||
			value <= f->device[MAX_SHARED_OPTIN] -
					 atomic_load(&f->attributes[PHOS_FUNCTION_STATIC_SHARED]));
	case PHOS_FUNCTION_CARVEOUT:
		return value >= -1 && value <= 100;
	default:
		return true;
	}
}

/* A kernel and its function in the current context have the same attributes. */
struct pair {
	struct phos_function *function;
	struct phos_function
		*kernel; /* NULL: a module's function, or one whose kernel is not used */
};

static CUresult find_pair(uint64_t handle, struct pair *pair)
{
	CUfunction function;
	pair->kernel = NULL;
	CUresult result = phos_function_find(handle, &pair->function);
	if (result != CUDA_SUCCESS)
		return result;
	if (phos_kind_of(pair->function->handle) != PHOS_KIND_KERNEL) {
		pair->kernel = phos_object_find(pair->function->kernel);
		return CUDA_SUCCESS;
	}
	pair->kernel = pair->function;
	result = cuKernelGetFunction(&function, handle);
	return result == CUDA_SUCCESS ? phos_function_find(function, &pair->function) : result;
}

/* Sets an attribute. Only a new value can change what was answered: libraries set the same one
 * before each launch. */
static CUresult set(const struct pair *pair, CUfunction_attribute attribute, int value)
{
	static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER; /* of values here and there */
	pthread_mutex_lock(&order);
	CUresult result = phos_call_cuFuncSetAttribute(pair->function->handle, attribute, value);
	if (result == CUDA_SUCCESS) {
		if (atomic_exchange(&pair->function->attributes[attribute], value) != value)
			phos_answers_forget();
		if (pair->kernel != NULL)
			atomic_store(&pair->kernel->attributes[attribute], value);
	}
	pthread_mutex_unlock(&order);
	return result;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
	struct pair pair;
	if (attribute < PHOS_FUNCTION_MAX_DYNAMIC_SHARED || attribute >= PHOS_FUNCTION_ATTRIBUTES ||
	    attribute == PHOS_FUNCTION_CLUSTER_MUST_BE_SET)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find_pair(function, &pair);
	if (result != CUDA_SUCCESS)
		return result;
	return valid(pair.function, attribute, value) ? set(&pair, attribute, value)
						      : CUDA_ERROR_INVALID_VALUE;
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
