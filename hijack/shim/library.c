/* Libraries: modules without a context. */
#include "answers.h"
#include "module.h"
#include "session.h"

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
			   void **values, unsigned int count, CUlibraryOption *library_options,
			   void **library_values, unsigned int library_count)
{
	struct phos_jit jit = {count, options, values, 0};
	(void)library_options;
	(void)library_values;
	(void)library_count;
	return library == NULL ? CUDA_ERROR_INVALID_VALUE : phos_load(code, &jit, true, library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options,
			       void **values, unsigned int count, CUlibraryOption *library_options,
			       void **library_values, unsigned int library_count)
{
	struct phos_jit jit = {count, options, values, 0};
	(void)library_options;
	(void)library_values;
	(void)library_count;
	return library == NULL ? CUDA_ERROR_INVALID_VALUE
			       : phos_load_file(path, &jit, true, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	CUresult result = phos_call_cuLibraryUnload(library);
	phos_answers_forget();
	return result;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	return phos_call_cuLibraryGetKernel(kernel, library, name);
}

/* Returns a variable of either kind to the program, and notes it. */
static CUresult return_variable(CUlibrary library, CUdeviceptr found, size_t found_bytes,
				CUdeviceptr *address, size_t *bytes)
{
	phos_note_variable(library, found, found_bytes);
	if (address != NULL)
		*address = found;
	if (bytes != NULL)
		*bytes = found_bytes;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
			    const char *name)
{
	CUdeviceptr found = 0;
	size_t found_bytes = 0;
	CUresult result = phos_call_cuLibraryGetGlobal(&found, &found_bytes, library, name);
	return result == CUDA_SUCCESS ? return_variable(library, found, found_bytes, address, bytes)
				      : result;
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
			     const char *name)
{
	CUdeviceptr found = 0;
	size_t found_bytes = 0;
	CUresult result = phos_call_cuLibraryGetManaged(&found, &found_bytes, library, name);
	return result == CUDA_SUCCESS ? return_variable(library, found, found_bytes, address, bytes)
				      : result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary library)
{
	uint64_t count;
	if (kernels == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return phos_call_listFunctions(library, (uintptr_t)kernels, room, &count);
}
