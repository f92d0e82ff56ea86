/*
 * A table is an array of pointers; the first one is the table's size in bytes (context local
 * storage has no size and begins with a function). Slots that no known runtime uses log and refuse
 * the call, which shows what a new runtime needs.
 */
#include "tables.h"

#include <pthread.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "integrity.h"
#include "log.h"
#include "objects.h"
#include "session.h"
#include "slots.h"
#include "zz_calls.h"

CUresult phos_unused_slot(const char *table, unsigned slot, const uint64_t argument[6])
{
	if (phos_logs(PHOS_DEBUG) || phos_first_time(table))
		phos_log(PHOS_WARN,
			 "private table %s, slot %u called (%#llx, %#llx, %#llx, %#llx, %#llx, "
			 "%#llx): refused",
			 table, slot, (unsigned long long)argument[0],
			 (unsigned long long)argument[1], (unsigned long long)argument[2],
			 (unsigned long long)argument[3], (unsigned long long)argument[4],
			 (unsigned long long)argument[5]);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* CUDART_INTERFACE */

static CUresult runtime_load(CUmodule *module, const void *wrapper)
{
	return cuModuleLoadData(module, wrapper);
}

static CUresult runtime_primary_context(CUcontext *context, int device)
{
	if (context == NULL || phos_device_find(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*context = phos_primary_context(device);
	return CUDA_SUCCESS;
}

static CUresult runtime_load_fatbin(const void *fatbin, CUmodule *module)
{
	return cuModuleLoadData(module, fatbin);
}

static CUresult succeed(void)
{
	return CUDA_SUCCESS;
}

UNUSED(runtime, 3)
UNUSED(runtime, 4)
UNUSED(runtime, 5)
UNUSED(runtime, 9)
UNUSED(runtime, 10)
UNUSED(runtime, 11)

static const phos_slot runtime_table[13] = {
	[0] = SIZED(13),
	[1] = SLOT(runtime_load),
	[2] = SLOT(runtime_primary_context),
	[3] = SLOT(runtime_3),
	[4] = SLOT(runtime_4),
	[5] = SLOT(runtime_5),
	[6] = SLOT(runtime_load), /* three more arguments, always 0 */
	[7] = SLOT(succeed),      /* (wrapper): will be unloaded */
	[8] = SLOT(runtime_load_fatbin),
	[9] = SLOT(runtime_9),
	[10] = SLOT(runtime_10),
	[11] = SLOT(runtime_11),
	[12] = SLOT(succeed), /* load the compilers */
};

/* TOOLS_RUNTIME_CALLBACK_HOOKS: two buffers of flags that say whether a profiler is attached. None
 * is. */

static uint64_t hooks_buffer[1024], hooks_second_buffer[14];

static CUresult hooks_first(void **buffer, size_t *words)
{
	*buffer = hooks_buffer;
	*words = sizeof hooks_buffer / sizeof hooks_buffer[0];
	return CUDA_SUCCESS;
}

static CUresult hooks_second(void **buffer, size_t *words)
{
	*buffer = hooks_second_buffer;
	*words = sizeof hooks_second_buffer / sizeof hooks_second_buffer[0];
	return CUDA_SUCCESS;
}

UNUSED(hooks, 1)
UNUSED(hooks, 3)
UNUSED(hooks, 4)
UNUSED(hooks, 5)

static const phos_slot hooks_table[7] = {
	SIZED(7),      SLOT(hooks_1), SLOT(hooks_first),  SLOT(hooks_3),
	SLOT(hooks_4), SLOT(hooks_5), SLOT(hooks_second),
};

/* TOOLS_TLS */

static CUresult tools_local(void **value)
{
	if (value != NULL)
		*value = NULL;
	return CUDA_SUCCESS;
}

UNUSED(tools_tls, 1)
UNUSED(tools_tls, 3)

static const phos_slot tools_tls_table[4] = {SIZED(4), SLOT(tools_tls_1), SLOT(tools_local),
					     SLOT(tools_tls_3)};

/* CONTEXT_LOCAL_STORAGE, the table without a size */

UNUSED(context_storage, 3)

static const phos_slot context_storage_table[4] = {
	SLOT(phos_local_put),
	SLOT(phos_local_delete),
	SLOT(phos_local_get),
	SLOT(context_storage_3),
};

/* CONTEXT_CHECKS */

static CUresult check_context(CUcontext context, uint32_t *answer)
{
	(void)context;
	if (answer != NULL)
		*answer = 0;
	return CUDA_SUCCESS;
}

UNUSED(context_checks, 1)

static const phos_slot context_checks_table[4] = {
	SIZED(4),
	SLOT(context_checks_1),
	SLOT(check_context),
	SLOT(succeed),
};

/* INTEGRITY_CHECK */

UNUSED(integrity, 2)

static CUresult check_integrity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2]);

static const phos_slot integrity_table[3] = {SIZED(3), SLOT(check_integrity), SLOT(integrity_2)};

static CUresult check_integrity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2])
{
	int driver_version = 0;
	cuDriverGetVersion(&driver_version);
	struct phos_integrity about = {
		.driver_version = (uint32_t)driver_version,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)(uintptr_t)pthread_self(),
		.runtime_table = (uint64_t)(uintptr_t)runtime_table,
		.integrity_table = (uint64_t)(uintptr_t)integrity_table,
		.function = (uint64_t)(uintptr_t)check_integrity,
	};
	phos_integrity_answer(&about, version, unix_seconds, answer);
	return CUDA_SUCCESS;
}

/* The UUIDs, in byte order. */
static const struct {
	uint8_t uuid[16];
	const phos_slot *table;
} known[] = {
	{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
	  0xf9},
	 runtime_table},
	{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
	  0x66},
	 hooks_table},
	{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
	  0xdc},
	 tools_tls_table},
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
	  0x93},
	 context_storage_table},
	{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
	  0xf2},
	 integrity_table},
	{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
	  0x7e},
	 context_checks_table},
	{{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
	  0xf2},
	 phos_tools_table},
	{{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
	  0x1e},
	 phos_module_tools_table},
	{{0x0c, 0xa5, 0x0b, 0x8c, 0x10, 0x04, 0x92, 0x9a, 0x89, 0xa7, 0xd0, 0xdf, 0x10, 0xe7, 0x72,
	  0x86},
	 phos_context_bypass_table},
	{{0x19, 0x5b, 0xcb, 0xf4, 0xd6, 0x7d, 0x02, 0x4a, 0xac, 0xc5, 0x1d, 0x29, 0xce, 0xa6, 0x31,
	  0xae},
	 phos_heap_access_table},
	{{0xb1, 0x05, 0x41, 0xe1, 0xf7, 0xc7, 0xc7, 0x4a, 0x9f, 0x64, 0xf2, 0x23, 0xbe, 0x99, 0xf1,
	  0xe2},
	 phos_device_extended_table},
	{{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
	  0xca},
	 phos_partition_table},
};

const void *phos_table_find(const uint8_t uuid[16])
{
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (memcmp(known[i].uuid, uuid, 16) == 0)
			return known[i].table;
	return NULL;
}
