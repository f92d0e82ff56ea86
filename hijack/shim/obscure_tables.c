/*
 * Private tables of which few slots are understood. A program gives up if a whole table is missing,
 * but usually continues if a single call is refused.
 */
#include "function.h"
#include "slots.h"

/* A table without a public name, which cuBLASLt needs. */

static CUresult tools_flag(void *tools, uint32_t *answer)
{
	(void)tools;
	if (answer != NULL)
		*answer = 0;
	return CUDA_SUCCESS;
}

/* cuBLASLt of CUDA 13 asks for an object of a stream, and for a value of that object. */
static CUresult tools_object(uint64_t context, uint64_t stream, const void **object)
{
	static const uint64_t empty[64];
	(void)context;
	if (object == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream == UINT64_MAX)
		return CUDA_ERROR_INVALID_HANDLE;
	*object = empty;
	return CUDA_SUCCESS;
}

static CUresult tools_value(uint64_t context, const void *object, uint64_t *value)
{
	(void)context;
	if (object == NULL || value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0;
	return CUDA_SUCCESS;
}

UNUSED(tools, 1)
UNUSED(tools, 2)
UNUSED(tools, 3)
UNUSED(tools, 5)
UNUSED(tools, 6)
UNUSED(tools, 7)
UNUSED(tools, 8)
UNUSED(tools, 9)
UNUSED(tools, 10)
UNUSED(tools, 11)
UNUSED(tools, 12)
UNUSED(tools, 13)
UNUSED(tools, 14)
UNUSED(tools, 15)
UNUSED(tools, 16)
UNUSED(tools, 17)
UNUSED(tools, 18)
UNUSED(tools, 19)
UNUSED(tools, 20)
UNUSED(tools, 21)
UNUSED(tools, 22)
UNUSED(tools, 23)
UNUSED(tools, 24)
UNUSED(tools, 25)
UNUSED(tools, 26)
UNUSED(tools, 27)
UNUSED(tools, 28)
UNUSED(tools, 29)
UNUSED(tools, 30)
UNUSED(tools, 31)
UNUSED(tools, 32)
UNUSED(tools, 33)
UNUSED(tools, 34)
UNUSED(tools, 35)
UNUSED(tools, 36)
UNUSED(tools, 37)
UNUSED(tools, 38)
UNUSED(tools, 40)
UNUSED(tools, 41)
UNUSED(tools, 42)
UNUSED(tools, 43)
UNUSED(tools, 44)
UNUSED(tools, 45)
UNUSED(tools, 46)
UNUSED(tools, 47)
UNUSED(tools, 48)
UNUSED(tools, 49)
UNUSED(tools, 50)
UNUSED(tools, 52)
UNUSED(tools, 53)
UNUSED(tools, 54)
UNUSED(tools, 55)

const phos_slot phos_tools_table[56] = {
	SIZED(56),      SLOT(tools_1),      SLOT(tools_2),  SLOT(tools_3),  SLOT(tools_flag),
	SLOT(tools_5),  SLOT(tools_6),      SLOT(tools_7),  SLOT(tools_8),  SLOT(tools_9),
	SLOT(tools_10), SLOT(tools_11),     SLOT(tools_12), SLOT(tools_13), SLOT(tools_14),
	SLOT(tools_15), SLOT(tools_16),     SLOT(tools_17), SLOT(tools_18), SLOT(tools_19),
	SLOT(tools_20), SLOT(tools_21),     SLOT(tools_22), SLOT(tools_23), SLOT(tools_24),
	SLOT(tools_25), SLOT(tools_26),     SLOT(tools_27), SLOT(tools_28), SLOT(tools_29),
	SLOT(tools_30), SLOT(tools_31),     SLOT(tools_32), SLOT(tools_33), SLOT(tools_34),
	SLOT(tools_35), SLOT(tools_36),     SLOT(tools_37), SLOT(tools_38), SLOT(tools_value),
	SLOT(tools_40), SLOT(tools_41),     SLOT(tools_42), SLOT(tools_43), SLOT(tools_44),
	SLOT(tools_45), SLOT(tools_46),     SLOT(tools_47), SLOT(tools_48), SLOT(tools_49),
	SLOT(tools_50), SLOT(tools_object), SLOT(tools_52), SLOT(tools_53), SLOT(tools_54),
	SLOT(tools_55),
};

/* A table about the module's tools, of which cuFFT calls one slot. */

UNUSED(module_tools, 1)
UNUSED(module_tools, 2)
UNUSED(module_tools, 3)
UNUSED(module_tools, 4)
UNUSED(module_tools, 5)
UNUSED(module_tools, 6)
UNUSED(module_tools, 8)
UNUSED(module_tools, 9)
UNUSED(module_tools, 10)
UNUSED(module_tools, 11)
UNUSED(module_tools, 12)
UNUSED(module_tools, 13)
UNUSED(module_tools, 14)
UNUSED(module_tools, 15)

const phos_slot phos_module_tools_table[16] = {
	SIZED(16),
	SLOT(module_tools_1),
	SLOT(module_tools_2),
	SLOT(module_tools_3),
	SLOT(module_tools_4),
	SLOT(module_tools_5),
	SLOT(module_tools_6),
	SLOT(phos_function_each),
	SLOT(module_tools_8),
	SLOT(module_tools_9),
	SLOT(module_tools_10),
	SLOT(module_tools_11),
	SLOT(module_tools_12),
	SLOT(module_tools_13),
	SLOT(module_tools_14),
	SLOT(module_tools_15),
};

/* A table without a public name: which multiprocessors belong together. cuBLASLt of CUDA 13 calls
 * slot 4 for sm_90 without looking whether the table exists, and takes any error for "not known".
 */

static CUresult partition_bytes(const uint8_t **bytes, size_t *count)
{
	(void)bytes;
	(void)count;
	return CUDA_ERROR_NOT_SUPPORTED;
}

UNUSED(partition, 1)
UNUSED(partition, 2)
UNUSED(partition, 3)
UNUSED(partition, 5)
UNUSED(partition, 6)
UNUSED(partition, 7)

const phos_slot phos_partition_table[8] = {
	SIZED(8),          SLOT(partition_1),     SLOT(partition_2),
	SLOT(partition_3), SLOT(partition_bytes), SLOT(partition_5),
	SLOT(partition_6), SLOT(partition_7),
};

/* CTX_CREATE_BYPASS and HEAP_ACCESS */

UNUSED(context_bypass, 1)

const phos_slot phos_context_bypass_table[2] = {
	SIZED(2),
	SLOT(context_bypass_1),
};

UNUSED(heap_access, 1)
UNUSED(heap_access, 2)

const phos_slot phos_heap_access_table[3] = {
	SIZED(3),
	SLOT(heap_access_1),
	SLOT(heap_access_2),
};

/* DEVICE_EXTENDED_RT, of old runtimes. */

static CUresult extended_flag(uint8_t *answer)
{
	if (answer != NULL)
		*answer = 0;
	return CUDA_SUCCESS;
}

UNUSED(device_extended, 1)
UNUSED(device_extended, 2)
UNUSED(device_extended, 3)
UNUSED(device_extended, 4)
UNUSED(device_extended, 5)
UNUSED(device_extended, 6)
UNUSED(device_extended, 7)
UNUSED(device_extended, 8)
UNUSED(device_extended, 9)
UNUSED(device_extended, 10)
UNUSED(device_extended, 11)
UNUSED(device_extended, 12)
UNUSED(device_extended, 14)
UNUSED(device_extended, 15)
UNUSED(device_extended, 16)
UNUSED(device_extended, 17)
UNUSED(device_extended, 18)
UNUSED(device_extended, 19)
UNUSED(device_extended, 20)
UNUSED(device_extended, 21)
UNUSED(device_extended, 22)
UNUSED(device_extended, 23)
UNUSED(device_extended, 24)
UNUSED(device_extended, 25)

const phos_slot phos_device_extended_table[26] = {
	SIZED(26),
	SLOT(device_extended_1),
	SLOT(device_extended_2),
	SLOT(device_extended_3),
	SLOT(device_extended_4),
	SLOT(device_extended_5),
	SLOT(device_extended_6),
	SLOT(device_extended_7),
	SLOT(device_extended_8),
	SLOT(device_extended_9),
	SLOT(device_extended_10),
	SLOT(device_extended_11),
	SLOT(device_extended_12),
	SLOT(extended_flag),
	SLOT(device_extended_14),
	SLOT(device_extended_15),
	SLOT(device_extended_16),
	SLOT(device_extended_17),
	SLOT(device_extended_18),
	SLOT(device_extended_19),
	SLOT(device_extended_20),
	SLOT(device_extended_21),
	SLOT(device_extended_22),
	SLOT(device_extended_23),
	SLOT(device_extended_24),
	SLOT(device_extended_25),
};
