/* The driver API for the C workloads: linked, or, with DLOPEN, looked up by name the way most
 * programs do it. */
#pragma once
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

#define CU(call)                                                                            \
	do {                                                                                \
		CUresult result_ = (call);                                                  \
		if (result_ != CUDA_SUCCESS) {                                              \
			fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, \
				result_);                                                   \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

#ifdef DLOPEN
#include <dlfcn.h>

static void *driver_symbol(const char *name)
{
	static void *library;
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
	void *symbol = dlsym(library, name);
	if (!symbol) {
		fprintf(stderr, "dlsym: %s\n", dlerror());
		exit(1);
	}
	return symbol;
}

#define NAME_(symbol) #symbol
#define NAME(symbol)  NAME_(symbol)
/* cuda.h renames some calls to their later versions; NAME sees the renamed one. */
#define D(symbol) ((__typeof__(&symbol))driver_symbol(NAME(symbol)))
#else
#define D(symbol) symbol
#endif

/* The first GPU, with its primary context current. */
static inline CUdevice use_gpu(void)
{
	CUdevice device;
	CUcontext context;
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuDevicePrimaryCtxRetain)(&context, device));
	CU(D(cuCtxSetCurrent)(context));
	return device;
}

/* How far a device's free memory may be from the expected value. A real driver has tables there,
 * and keeps some freed memory; the software GPU has none. */
static inline size_t slack(CUdevice device)
{
	char name[256] = "";
	CU(D(cuDeviceGetName)(name, sizeof name, device));
	return strstr(name, "software GPU") ? 0 : (size_t)16 << 20;
}

/* The kernel of PTX that contains one. */
static inline CUfunction kernel_of(const char *ptx, const char *name)
{
	CUmodule module;
	CUfunction function;
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&function, module, name));
	return function;
}
