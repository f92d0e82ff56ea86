/* The state of a GPU: memory, utilization, temperature, power. Unknown values are NOT_SUPPORTED. */
#include "answer.h"
#include "calls.h"

/* Offset in an entry of the device table. */
enum { DEVICE_MEMORY = 272 };

/* Gets the entry, if the requested value is known. */
static nvmlReturn_t look(nvmlDevice_t device, uint32_t known, struct phos_gpu *gpu)
{
	nvmlReturn_t result = phos_gpu_of(device, gpu);
	if (result != NVML_SUCCESS)
		return result;
	uint32_t bits = phos_u32(gpu->entry, PHOS_ANSWER_KNOWN);
	if ((bits & PHOS_ANSWER_KNOWS_LOST) != 0)
		return NVML_GPU_IS_LOST;
	return (bits & known) == known ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct phos_gpu gpu;
	if (memory == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = look(device, 0, &gpu);
	if (result == NVML_SUCCESS)
		*memory = (nvmlMemory_t){
			.total = phos_u64(gpu.entry, DEVICE_MEMORY),
			.free = phos_u64(gpu.entry, PHOS_ANSWER_FREE),
			.used = phos_u64(gpu.entry, PHOS_ANSWER_USED),
		};
	return result;
}

/* Memory that is neither used by programs nor free is reserved by the driver. */
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_t plain;
	if (memory == NULL)
		return NVML_INVALID_ARGUMENT;
	if (memory->version != NVML_VERSIONED(nvmlMemory_v2_t, 2))
		return NVML_ARGUMENT_VERSION;
	nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &plain);
	if (result != NVML_SUCCESS)
		return result;
	unsigned long long held = plain.free + plain.used;
	memory->total = plain.total;
	memory->free = plain.free;
	memory->used = plain.used;
	memory->reserved = plain.total > held ? plain.total - held : 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *use)
{
	struct phos_gpu gpu;
	if (use == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = look(device, PHOS_ANSWER_KNOWS_BUSY, &gpu);
	if (result == NVML_SUCCESS)
		*use = (nvmlUtilization_t){
			.gpu = phos_u32(gpu.entry, PHOS_ANSWER_BUSY),
			.memory = phos_u32(gpu.entry, PHOS_ANSWER_MEMORY_BUSY),
		};
	return result;
}

/* Returns the number at an offset of the entry. */
static nvmlReturn_t number(nvmlDevice_t device, uint32_t known, size_t place, unsigned *to)
{
	struct phos_gpu gpu;
	if (to == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = look(device, known, &gpu);
	if (result == NVML_SUCCESS)
		*to = phos_u32(gpu.entry, place);
	return result;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius)
{
	if (sensor != 0)
		return NVML_INVALID_ARGUMENT;
	return number(device, PHOS_ANSWER_KNOWS_TEMPERATURE, PHOS_ANSWER_TEMPERATURE, celsius);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
	unsigned celsius;
	if (temperature == NULL)
		return NVML_INVALID_ARGUMENT;
	if (temperature->version != NVML_VERSIONED(nvmlTemperature_t, 1))
		return NVML_ARGUMENT_VERSION;
	nvmlReturn_t result = nvmlDeviceGetTemperature(device, temperature->sensor, &celsius);
	if (result == NVML_SUCCESS)
		temperature->celsius = (int32_t)celsius;
	return result;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts)
{
	return number(device, PHOS_ANSWER_KNOWS_POWER, PHOS_ANSWER_POWER, milliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts)
{
	return number(device, PHOS_ANSWER_KNOWS_POWER_LIMIT, PHOS_ANSWER_POWER_LIMIT, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *milliwatts)
{
	return nvmlDeviceGetEnforcedPowerLimit(device, milliwatts);
}
