/* The driver as a whole: start, version, tables, profiler. */
#include <stdatomic.h>

#include "../nvml/answer.h"
#include "log.h"
#include "session.h"
#include "tables.h"
#include "zz_calls.h"

/* The default. Runtimes query the version before they initialise. */
#define DRIVER_VERSION 12040
#define LOADING_LAZY   2

CUresult cuInit(unsigned int flags)
{
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_start();
	if (result == CUDA_SUCCESS && phos.device_count == 0)
		result = CUDA_ERROR_NO_DEVICE;
	return result;
}

/* Returns phosd's answer, queried once. It does not start a session, because a fork after that is
 * an error. */
static int version_of_phosd(void)
{
	static _Atomic int known;
	int version = atomic_load(&known);
	if (version == 0) {
		version = (int)phos_ask_version();
		atomic_store(&known, version);
	}
	return version;
}

CUresult cuDriverGetVersion(int *version)
{
	if (version == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*version = phos_live() ? (int)atomic_load(phos_word(PHOS_WORD_DRIVER_VERSION))
			       : version_of_phosd();
	if (*version == 0)
		*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	if (table == NULL || id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	const uint8_t *uuid = (const uint8_t *)id->bytes;
	*table = phos_table_find(uuid);
	if (*table != NULL)
		return CUDA_SUCCESS;
	phos_log(PHOS_DEBUG,
		 "no private table "
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 uuid[0], uuid[1], uuid[2], uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8],
		 uuid[9], uuid[10], uuid[11], uuid[12], uuid[13], uuid[14], uuid[15]);
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (mode == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = (CUmoduleLoadingMode)LOADING_LAZY;
	return CUDA_SUCCESS;
}

/* No profiler is supported; programs tolerate that. */

CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
	(void)config;
	(void)output;
	(void)mode;
	return phos_enter();
}

CUresult cuProfilerStart(void)
{
	return phos_enter_context();
}

CUresult cuProfilerStop(void)
{
	return phos_enter_context();
}
