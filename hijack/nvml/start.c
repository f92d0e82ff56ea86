/* Initialisation and shutdown, error texts, and system-wide queries. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../shim/log.h"
#include "answer.h"
#include "calls.h"

/* The result of nvmlSystemGetNVMLVersion: the newest version whose structures are supported. */
#define NVML_VERSION "12.550"

enum { KNOWN_FLAGS = 1 | 2 }; /* NO_GPUS, NO_ATTACH: no effect here */

static _Atomic uint32_t users;

bool phos_started(void)
{
	return atomic_load(&users) > 0;
}

nvmlReturn_t phos_nvml_refuse(const char *name)
{
	if (!phos_started())
		return NVML_UNINITIALIZED;
	if (phos_first_time(name))
		phos_log(PHOS_DEBUG, "%s is not supported", name);
	return NVML_NOT_SUPPORTED;
}

/* Succeeds if phosd answers. */
nvmlReturn_t nvmlInit_v2(void)
{
	struct phos_answer answer;
	atomic_fetch_add(&users, 1);
	nvmlReturn_t result = phos_ask_now(&answer, 0);
	phos_release_answer(&answer);
	if (result != NVML_SUCCESS)
		atomic_fetch_sub(&users, 1);
	return result;
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInit_v2();
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	return (flags & ~(unsigned)KNOWN_FLAGS) != 0 ? NVML_INVALID_ARGUMENT : nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void)
{
	uint32_t now = atomic_load(&users);
	while (now > 0)
		if (atomic_compare_exchange_weak(&users, &now, now - 1))
			return NVML_SUCCESS;
	return NVML_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_UNINITIALIZED:
		return "Uninitialized";
	case NVML_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_NOT_FOUND:
		return "Not Found";
	case NVML_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_GPU_IS_LOST:
		return "GPU is lost";
	case NVML_VERSION_MISMATCH:
		return "Driver/library version mismatch";
	case NVML_MEMORY:
		return "Insufficient Memory";
	case NVML_ARGUMENT_VERSION:
		return "Argument version mismatch";
	default:
		return "Unknown Error";
	}
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	struct phos_answer answer;
	nvmlReturn_t result = phos_ask(&answer);
	if (result == NVML_SUCCESS)
		result = phos_text(answer.driver, version, length);
	phos_release_answer(&answer);
	return result;
}

/* As with the real library, nvmlInit is not needed. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	return phos_text(NVML_VERSION, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	struct phos_answer answer;
	if (version == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_ask(&answer);
	if (result == NVML_SUCCESS)
		*version = (int)answer.cuda;
	phos_release_answer(&answer);
	return result;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return nvmlSystemGetCudaDriverVersion(version);
}

/* Returns the first word of the process's command line. As in the real library, it is truncated to
 * fit. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
	char path[32];
	if (!phos_started())
		return NVML_UNINITIALIZED;
	if (name == NULL || length == 0)
		return NVML_INVALID_ARGUMENT;
	snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
	FILE *line = fopen(path, "re");
	if (line == NULL)
		return NVML_NOT_FOUND;
	size_t got = fread(name, 1, length - 1, line);
	fclose(line);
	name[got] = '\0';
	return got > 0 ? NVML_SUCCESS : NVML_NOT_FOUND;
}
