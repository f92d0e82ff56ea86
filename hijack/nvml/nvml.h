/*
 * The part of NVIDIA's management library (NVML) that phos implements: its numbers and structures,
 * compatible with NVIDIA's header. libphos.so is also installed as libnvidia-ml.so.1 and exports
 * all of its names. The others (zz_refuse.c) return NOT_SUPPORTED, which callers handle, because no
 * GPU supports everything.
 */
#ifndef PHOS_NVML_H
#define PHOS_NVML_H

#include <stdint.h>

typedef enum {
	NVML_SUCCESS = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_GPU_IS_LOST = 15,
	NVML_VERSION_MISMATCH = 18,
	NVML_MEMORY = 20,
	NVML_ARGUMENT_VERSION = 25,
	NVML_UNKNOWN = 999,
} nvmlReturn_t;

/* A handle is the GPU's index plus 1. */
typedef struct phos_nvml_handle *nvmlDevice_t;

#define NVML_NOT_AVAILABLE UINT64_MAX
#define NVML_NO_INSTANCE   UINT32_MAX

/* The first word of a structure: its size and version. */
#define NVML_VERSIONED(type, version) ((uint32_t)sizeof(type) | (uint32_t)(version) << 24)

typedef struct {
	char legacy_id[16];
	uint32_t domain, bus, device, ids, subsystem_ids;
	char id[32];
} nvmlPciInfo_t;

typedef struct {
	uint32_t version, domain, bus, device, ids, subsystem_ids, class, subclass;
	char id[32];
} nvmlPciInfoExt_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	uint32_t version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	uint32_t gpu, memory;
} nvmlUtilization_t;

typedef struct {
	uint32_t pid;
	unsigned long long used;
} nvmlProcessInfo_v1_t;

typedef struct {
	uint32_t pid;
	unsigned long long used;
	uint32_t gpu_instance, compute_instance;
} nvmlProcessInfo_v2_t;

typedef struct {
	uint32_t version;
	int32_t sensor, celsius;
} nvmlTemperature_t;

/* Logs at debug level that a call is not implemented, and returns NOT_SUPPORTED. */
nvmlReturn_t phos_nvml_refuse(const char *name);

#endif
