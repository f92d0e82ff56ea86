/* Functions and kernels: their cached descriptions, and queries that these answer. */
#include "function.h"

#include <stdlib.h>
#include <string.h>

#include "objects.h"
#include "session.h"
#include "thread.h"

#define FIRST_TRY_BYTES   4096
#define INFO_HEADER_BYTES 80 /* counts, attributes, length of the name, kernel */

enum extra_key { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_BUFFER_BYTES = 2 };

static uint32_t word_at(const unsigned char *info, size_t offset)
{
	uint32_t word;
	memcpy(&word, info + offset, 4);
	return word;
}

static const int32_t *current_device(void)
{
	struct phos_context *context = phos_context_find(phos_self.current);
	const struct phos_device *device = phos_device_find(context == NULL ? 0 : context->device);
	return device == NULL ? NULL : device->attributes;
}

/* Whether there are no gaps between the parameters. Then a block need not be zeroed. */
static bool is_dense(const struct phos_function *f)
{
	uint32_t end = 0;
	for (uint32_t i = 0; i < f->parameter_count; i++) {
		if (f->parameters[i].offset != end)
			return false;
		end += f->parameters[i].bytes;
	}
	return end == f->parameter_bytes;
}

/* Builds a description from the session's. Returns NULL if it is invalid or there is no memory. */
static struct phos_function *describe(uint64_t handle, const unsigned char *info, size_t bytes)
{
	if (bytes < INFO_HEADER_BYTES)
		return NULL;
	uint64_t count = word_at(info, 0), name_bytes = word_at(info, 72);
	if (bytes < INFO_HEADER_BYTES + 8 * count + name_bytes)
		return NULL;
	struct phos_function *f =
		calloc(1, sizeof *f + count * sizeof f->parameters[0] + name_bytes + 1);
	if (f == NULL)
		return NULL;
	f->parameter_count = (uint32_t)count;
	f->parameter_bytes = word_at(info, 4);
	for (size_t i = 0; i < PHOS_FUNCTION_ATTRIBUTES; i++)
		atomic_store(&f->attributes[i], (int32_t)word_at(info, 8 + 4 * i));
	memcpy(f->parameters, info + INFO_HEADER_BYTES, 8 * count);
	char *name = (char *)&f->parameters[count];
	memcpy(name, info + INFO_HEADER_BYTES + 8 * count, name_bytes);
	f->name = name;
	for (uint32_t i = 0; i < count; i++) {
		if ((uint64_t)f->parameters[i].offset + f->parameters[i].bytes >
		    f->parameter_bytes) {
			free(f);
			return NULL;
		}
	}
	f->dense = is_dense(f);
	f->handle = handle;
	if (phos_kind_of(handle) != PHOS_KIND_KERNEL && word_at(info, 76) != 0)
		f->kernel = PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_KERNEL << 32 | word_at(info, 76);
	f->device = current_device();
	return f;
}

/* Asks the session about a function, and retries with a larger buffer if needed. */
static CUresult fetch(uint64_t handle, struct phos_function **function)
{
	unsigned char first[FIRST_TRY_BYTES], *info = first;
	uint64_t bytes = 0;
	CUresult result = phos_call_functionInfo(handle, (uintptr_t)first, sizeof first, &bytes);
	if (result == CUDA_SUCCESS && bytes > sizeof first) {
		uint64_t room = bytes;
		info = malloc(room);
		if (info == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = phos_call_functionInfo(handle, (uintptr_t)info, room, &bytes);
		if (result == CUDA_SUCCESS && bytes > room)
			result = CUDA_ERROR_UNKNOWN;
	}
	*function = NULL;
	if (result == CUDA_SUCCESS) {
		*function = describe(handle, info, bytes);
		if (*function == NULL)
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (info != first)
		free(info);
	return result;
}

static bool is_function(uint64_t handle)
{
	unsigned kind = phos_kind_of(handle);
	return kind == PHOS_KIND_FUNCTION || kind == PHOS_KIND_KERNEL;
}

static CUresult fetch_and_enter(uint64_t handle, struct phos_function **function)
{
	if (!is_function(handle)) {
		handle = phos_function_of_node(handle);
		if (handle == 0)
			return phos_live() ? CUDA_ERROR_INVALID_HANDLE : phos_enter();
		*function = phos_object_find(handle);
		if (*function != NULL)
			return CUDA_SUCCESS;
	}
	struct phos_function *fetched;
	CUresult result = fetch(handle, &fetched);
	if (result != CUDA_SUCCESS)
		return result;
	*function = phos_object_enter(handle, fetched);
	if (*function != fetched)
		free(fetched);
	return *function == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult phos_function_find(uint64_t handle, struct phos_function **function)
{
	if (is_function(handle)) {
		*function = phos_object_find(handle);
		if (__builtin_expect(*function != NULL, 1))
			return CUDA_SUCCESS;
	}
	return fetch_and_enter(handle, function);
}

void phos_function_pack(const struct phos_function *f, void *const *arguments, unsigned char *block)
{
	if (!f->dense)
		memset(block, 0, f->parameter_bytes);
	for (uint32_t i = 0; i < f->parameter_count; i++) {
		const struct phos_parameter *p = &f->parameters[i];
		if (p->bytes == 8)
			memcpy(block + p->offset, arguments[i], 8);
		else if (p->bytes == 4)
			memcpy(block + p->offset, arguments[i], 4);
		else
			memcpy(block + p->offset, arguments[i], p->bytes);
	}
}

CUresult phos_arguments_of(const struct phos_function *f, void **kernel_parameters, void **extra,
			   struct phos_arguments *arguments)
{
	arguments->each = kernel_parameters;
	arguments->block = NULL;
	arguments->block_bytes = 0;
	if (extra == NULL)
		return kernel_parameters == NULL && f->parameter_count > 0
			       ? CUDA_ERROR_INVALID_VALUE
			       : CUDA_SUCCESS;
	if (kernel_parameters != NULL)
		return CUDA_ERROR_INVALID_VALUE;
	size_t bytes = 0;
	for (; extra[0] != (void *)EXTRA_END; extra += 2) {
		switch ((uintptr_t)extra[0]) {
		case EXTRA_BUFFER:
			arguments->block = extra[1];
			break;
		case EXTRA_BUFFER_BYTES:
			memcpy(&bytes, extra[1], sizeof bytes);
			break;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	if (f->parameter_bytes > 0 && arguments->block == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* NCCL's kernels declare 4 KiB, and it gives as much as it uses. */
	arguments->block_bytes = bytes < f->parameter_bytes ? (uint32_t)bytes : f->parameter_bytes;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
	struct phos_function *f;
	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_function_find(function, &f);
	if (result == CUDA_SUCCESS)
		*name = f->name;
	return result;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
	struct phos_function *f;
	if (offset == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_function_find(function, &f);
	if (result != CUDA_SUCCESS)
		return result;
	if (index >= f->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = f->parameters[index].offset;
	if (bytes != NULL)
		*bytes = f->parameters[index].bytes;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
	return phos_call_cuFuncGetModule(module, phos_function_handle(function));
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct phos_function *f;
	if (state == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*state = (CUfunctionLoadingState)1;
	return phos_function_find(function, &f);
}
