/* A driver with one GPU, and its management library, with the calls that phosd makes at its start.
 * The macros define its faults. All other entry points come from another file, and are not
 * supported. */
#include <stdint.h>
#include <string.h>

#ifndef CUDA_INIT
#define CUDA_INIT 0
#endif
#ifndef CUDA_COUNT
#define CUDA_COUNT 1
#endif
#ifndef COMPUTE_MODE /* 2: prohibited, 3: exclusive */
#define COMPUTE_MODE 0
#endif
#ifndef UNIFIED
#define UNIFIED 1
#endif
#ifndef VIRTUAL_MEMORY
#define VIRTUAL_MEMORY 1
#endif

int cuInit(unsigned flags)
{
	return flags == 0 ? CUDA_INIT : 1;
}

int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = CUDA_COUNT;
	return 0;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
	strncpy(name, "Made Up", (size_t)bytes);
	return device;
}

int cuDeviceGetUuid_v2(char *uuid, int device)
{
	memset(uuid, 7, 16);
	return device;
}

int cuDeviceTotalMem_v2(uint64_t *bytes, int device)
{
	*bytes = UINT64_C(1) << 30;
	return device;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = 1;
	if (attribute == 20)
		*value = COMPUTE_MODE;
	if (attribute == 41)
		*value = UNIFIED;
	if (attribute == 102)
		*value = VIRTUAL_MEMORY;
	return device;
}

#ifdef NVML
#ifndef NVML_INIT
#define NVML_INIT 0
#endif
#ifndef NVML_COUNT
#define NVML_COUNT 1
#endif
#ifndef NVML_HANDLE /* 15: the GPU is lost */
#define NVML_HANDLE 0
#endif
#ifndef NVML_MODE /* 1 and 3: exclusive, 2: prohibited */
#define NVML_MODE 0
#endif
#ifndef NVML_MIG
#define NVML_MIG 0
#endif
#ifndef NVML_VERSION
#define NVML_VERSION "550.54.15"
#define NVML_CUDA    12040
#endif

int nvmlInit_v2(void)
{
	return NVML_INIT;
}

const char *nvmlErrorString(int code)
{
	return code == 15 ? "GPU is lost" : "something else";
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
	strncpy(text, NVML_VERSION, bytes);
	return 0;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
	*version = NVML_CUDA;
	return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = NVML_CUDA;
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = NVML_COUNT;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	static int only;
	*device = &only;
	return index == 0 ? NVML_HANDLE : 2;
}

int nvmlDeviceGetName(void *device, char *name, unsigned bytes)
{
	strncpy(name, "Made Up", bytes);
	return device == 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes)
{
	strncpy(uuid, "GPU-07070707-0707-0707-0707-070707070707", bytes);
	return device == 0;
}

int nvmlDeviceGetComputeMode(void *device, int *mode)
{
	*mode = NVML_MODE;
	return device == 0;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *next)
{
	*now = *next = NVML_MIG;
	return device == 0;
}
#endif
