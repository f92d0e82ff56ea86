/* A kernel of a library and its function in the context have the same attributes, whichever of the
 * two they were set by; what was asked before is asked again. */
#include "driver.h"

enum { DEFAULT_SHARED = 48 << 10, MORE_SHARED = 64 << 10 };

static const char *const text =
	".version 7.8\n.target sm_70\n.address_size 64\n"
	".extern .shared .align 16 .b8 pad[];\n"
	".visible .entry first(.param .u64 p) { .reg .b64 %a; .reg .b32 %v;\n"
	"ld.param.u64 %a, [p]; mov.u32 %v, pad; st.global.u32 [%a], %v; ret; }\n"
	".visible .entry second(.param .u64 p) { .reg .b64 %a; .reg .b32 %v;\n"
	"ld.param.u64 %a, [p]; mov.u32 %v, pad; st.global.u32 [%a], %v; ret; }\n";

static CUdeviceptr word;

static CUresult launch(CUfunction f, unsigned shared)
{
	void *parameters[] = {&word};
	CUresult result = D(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, shared, 0, parameters, NULL);
	CU(D(cuCtxSynchronize)());
	return result;
}

static int shared_limit(CUfunction f)
{
	int value = -1;
	CU(D(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
	return value;
}

static int blocks(CUfunction f, size_t shared)
{
	int value = -1;
	CU(D(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&value, f, 32, shared));
	return value;
}

/* Both know what was set by either, and both launch with as much. */
static void expect(CUkernel kernel, CUfunction function, int limit)
{
	CHECK(shared_limit((CUfunction)kernel) == limit && shared_limit(function) == limit);
	for (int i = 0; i < 2; i++) {
		CUfunction f = i == 0 ? function : (CUfunction)kernel;
		CU(launch(f, DEFAULT_SHARED));
		CHECK(launch(f, MORE_SHARED) ==
		      (limit < MORE_SHARED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));
		CHECK(blocks(f, DEFAULT_SHARED) == blocks(function, DEFAULT_SHARED));
	}
}

static void set(CUfunction f, int limit)
{
	CU(D(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit));
}

int main(void)
{
	CUlibrary library;
	CUkernel first, second;
	CUfunction of_first, of_second, again;
	CUdevice device = use_gpu();
	CU(D(cuMemAlloc)(&word, sizeof(unsigned)));
	CU(D(cuLibraryLoadData)(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	CU(D(cuLibraryGetKernel)(&first, library, "first"));
	CU(D(cuLibraryGetKernel)(&second, library, "second"));
	CU(D(cuKernelGetFunction)(&of_first, first));
	CU(D(cuKernelGetFunction)(&of_second, second));
	CHECK(of_first != of_second);
	expect(first, of_first, DEFAULT_SHARED);
	set(of_first, MORE_SHARED);
	expect(first, of_first, MORE_SHARED);
	expect(second, of_second, DEFAULT_SHARED);
	CU(D(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MORE_SHARED,
				   second, device));
	expect(second, of_second, MORE_SHARED);
	set(of_second, DEFAULT_SHARED);
	expect(second, of_second, DEFAULT_SHARED);
	expect(first, of_first, MORE_SHARED);
	CU(D(cuLibraryUnload)(library));
	CHECK(D(cuKernelGetFunction)(&again, first) == CUDA_ERROR_INVALID_HANDLE);
	CU(D(cuMemFree)(word));
	printf("ok settings\n");
	return 0;
}
