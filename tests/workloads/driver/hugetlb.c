/* Memory in huge pages, registered for copies, and for kernels where the driver takes it: kernels
 * reach it, or the refusal has a name and changes nothing. */
#define _GNU_SOURCE
#include "add.h"
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 2 << 20, WORDS = PAGE / 4 };

static unsigned *map(int flags)
{
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_HUGETLB,
			    -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void fill(unsigned *memory, unsigned from)
{
	for (unsigned i = 0; i < WORDS; i++)
		memory[i] = from + i;
}

static void check(const unsigned *memory, unsigned from)
{
	for (unsigned i = 0; i < WORDS; i++)
		CHECK(memory[i] == from + i);
}

/* Copies through a registered range of so many words. */
static void copies(unsigned *memory, unsigned words)
{
	CUdeviceptr device;
	fill(memory, 1);
	CU(D(cuMemHostRegister)(memory, words * 4UL, 0));
	CU(D(cuMemAlloc)(&device, PAGE));
	CU(D(cuMemcpyHtoDAsync)(device, memory, words * 4UL, NULL));
	CU(D(cuCtxSynchronize)());
	run_add(device, 10, words);
	CU(D(cuMemcpyDtoHAsync)(memory, device, words * 4UL, NULL));
	CU(D(cuCtxSynchronize)());
	for (unsigned i = 0; i < WORDS; i++)
		CHECK(memory[i] == i + (i < words ? 11 : 1));
	CU(D(cuMemHostUnregister)(memory));
	CU(D(cuMemFree)(device));
}

/* Kernels reach a registered range of so many words, or it is refused. Returns whether they do. */
static bool reach(unsigned *memory, unsigned words)
{
	CUdeviceptr device = 0;
	fill(memory, 5);
	CUresult result = D(cuMemHostRegister)(memory, words * 4UL, CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result != CUDA_SUCCESS) {
		CHECK(result == CUDA_ERROR_NOT_SUPPORTED);
		check(memory, 5);
		CHECK(D(cuMemHostUnregister)(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
		return false;
	}
	CU(D(cuMemHostGetDevicePointer)(&device, memory, 0));
	run_add(device, 100, words);
	CU(D(cuCtxSynchronize)());
	for (unsigned i = 0; i < WORDS; i++)
		CHECK(memory[i] == i + (i < words ? 105 : 5));
	CU(D(cuMemHostUnregister)(memory));
	return true;
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ADD_PTX));
	CU(D(cuModuleGetFunction)(&add, module, "add"));
	for (int i = 0; i < 2; i++) {
		int flags = i == 0 ? MAP_PRIVATE : MAP_SHARED;
		const char *name = i == 0 ? "private" : "shared";
		unsigned *memory = map(flags);
		copies(memory, WORDS);
		copies(memory, 5000);
		bool whole = reach(memory, WORDS), part = reach(memory, 5000);
		CHECK(whole == part);
		printf("%s: %s\n", name, whole ? "reached" : "refused");
		CHECK(munmap(memory, PAGE) == 0);
	}
	puts("ok hugetlb");
	return 0;
}
