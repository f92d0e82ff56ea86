/* Processes with memory on a GPU. phosd lists the programs that the caller may see; all are compute
 * processes, none uses graphics. */
#include "answer.h"
#include "calls.h"

/* Writes process i to a program's array, in one of the structure's versions. */
typedef void (*writer)(void *infos, unsigned i, uint32_t pid, uint64_t used);

static void write_v1(void *infos, unsigned i, uint32_t pid, uint64_t used)
{
	((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){.pid = pid, .used = used};
}

static void write_v2(void *infos, unsigned i, uint32_t pid, uint64_t used)
{
	((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){
		.pid = pid,
		.used = used,
		.gpu_instance = NVML_NO_INSTANCE,
		.compute_instance = NVML_NO_INSTANCE,
	};
}

/* *count is the capacity, and then the number of processes, even if that is larger. */
static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, void *infos, writer write)
{
	struct phos_answer answer;
	uint32_t index;
	if (count == NULL || (*count > 0 && infos == NULL))
		return NVML_INVALID_ARGUMENT;
	bool valid = phos_index(device, &index);
	nvmlReturn_t result = phos_ask(&answer);
	if (result != NVML_SUCCESS)
		return result;
	unsigned found = 0;
	const unsigned char *at = phos_entry(&answer, answer.devices);
	for (uint32_t i = 0; i < answer.holdings; i++, at += PHOS_ANSWER_HOLDING_BYTES) {
		if (phos_u32(at, PHOS_ANSWER_HOLDING_DEVICE) != index)
			continue;
		if (found < *count)
			write(infos, found, phos_u32(at, PHOS_ANSWER_HOLDER),
			      phos_u64(at, PHOS_ANSWER_HELD));
		found++;
	}
	if (!valid || index >= answer.devices)
		result = NVML_INVALID_ARGUMENT;
	else if (found > *count)
		result = NVML_INSUFFICIENT_SIZE;
	phos_release_answer(&answer);
	if (result != NVML_INVALID_ARGUMENT)
		*count = found;
	return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
						  nvmlProcessInfo_v1_t *infos)
{
	return list(device, count, infos, write_v1);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
						     nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, write_v2);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
						     nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, write_v2);
}

/* Answers that no process uses the device, for graphics and MPS. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
	struct phos_gpu gpu;
	if (count == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result == NVML_SUCCESS)
		*count = 0;
	return result;
}

#define NO_PROCESSES(name, type)                                             \
	nvmlReturn_t name(nvmlDevice_t device, unsigned *count, type *infos) \
	{                                                                    \
		(void)infos;                                                 \
		return no_processes(device, count);                          \
	}

NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t)
