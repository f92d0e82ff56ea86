/* Listing and finding GPUs, and their names. */
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "calls.h"

/* Numbers of the driver's attributes. */
enum {
	PCI_BUS_ID = 33,
	PCI_DEVICE_ID = 34,
	PCI_DOMAIN_ID = 50,
	COMPUTE_CAPABILITY_MAJOR = 75,
	COMPUTE_CAPABILITY_MINOR = 76,
	COMPUTE_MODE = 20,
};

/* Offsets in an entry of the device table. */
enum { DEVICE_NAME = 0, DEVICE_NAME_BYTES = 256, DEVICE_UUID = 256, UUID_BYTES = 16 };

enum { BRAND_NVIDIA = 14, ARCHITECTURE_UNKNOWN = -1 };

#define UUID_TEXT 41 /* "GPU-", 32 digits, 4 dashes, NUL */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	struct phos_answer answer;
	if (count == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_ask(&answer);
	if (result == NVML_SUCCESS)
		*count = answer.devices;
	phos_release_answer(&answer);
	return result;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

/* Finds the first GPU for which is() returns true. */
static nvmlReturn_t find(bool (*is)(const unsigned char *entry, uint32_t index, const void *wanted),
			 const void *wanted, nvmlReturn_t otherwise, nvmlDevice_t *device)
{
	struct phos_answer answer;
	if (device == NULL || wanted == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_ask(&answer);
	if (result == NVML_SUCCESS) {
		result = otherwise;
		for (uint32_t i = 0; i < answer.devices && result != NVML_SUCCESS; i++)
			if (is(phos_entry(&answer, i), i, wanted)) {
				*device = phos_handle(i);
				result = NVML_SUCCESS;
			}
	}
	phos_release_answer(&answer);
	return result;
}

static bool has_index(const unsigned char *entry, uint32_t index, const void *wanted)
{
	(void)entry;
	return index == *(const unsigned *)wanted;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	return find(has_index, &index, NVML_INVALID_ARGUMENT, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

static void write_uuid(const unsigned char *entry, char text[UUID_TEXT])
{
	char *at = text + sprintf(text, "GPU");
	for (int i = 0; i < UUID_BYTES; i++)
		at += sprintf(at, i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-%02x" : "%02x",
			      entry[DEVICE_UUID + i]);
}

static bool has_uuid(const unsigned char *entry, uint32_t index, const void *wanted)
{
	char text[UUID_TEXT];
	(void)index;
	write_uuid(entry, text);
	return strcmp(text, wanted) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	return find(has_uuid, uuid, NVML_NOT_FOUND, device);
}

struct place {
	unsigned domain, bus, device;
};

static struct place place_of(const unsigned char *entry)
{
	return (struct place){
		.domain = (unsigned)phos_attribute(entry, PCI_DOMAIN_ID),
		.bus = (unsigned)phos_attribute(entry, PCI_BUS_ID),
		.device = (unsigned)phos_attribute(entry, PCI_DEVICE_ID),
	};
}

static bool has_place(const unsigned char *entry, uint32_t index, const void *wanted)
{
	const struct place *place = wanted;
	struct place here = place_of(entry);
	(void)index;
	return here.domain == place->domain && here.bus == place->bus &&
	       here.device == place->device;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
	struct place place = {0};
	unsigned function = 0;
	if (id == NULL)
		return NVML_INVALID_ARGUMENT;
	if (sscanf(id, "%x:%x:%x.%x", &place.domain, &place.bus, &place.device, &function) < 3) {
		place.domain = 0;
		if (sscanf(id, "%x:%x.%x", &place.bus, &place.device, &function) < 2)
			return NVML_INVALID_ARGUMENT;
	}
	return find(has_place, &place, NVML_NOT_FOUND, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	struct phos_gpu gpu;
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result != NVML_SUCCESS)
		return result;
	gpu.entry[DEVICE_NAME + DEVICE_NAME_BYTES - 1] = '\0';
	return phos_text((const char *)gpu.entry + DEVICE_NAME, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
	struct phos_gpu gpu;
	char text[UUID_TEXT];
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result != NVML_SUCCESS)
		return result;
	write_uuid(gpu.entry, text);
	return phos_text(text, uuid, length);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
	struct phos_gpu gpu;
	if (index == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result == NVML_SUCCESS)
		*index = gpu.index;
	return result;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
	struct phos_gpu gpu;
	if (info == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result != NVML_SUCCESS)
		return result;
	struct place place = place_of(gpu.entry);
	*info = (nvmlPciInfo_t){.domain = place.domain, .bus = place.bus, .device = place.device};
	snprintf(info->legacy_id, sizeof info->legacy_id, "%04X:%02X:%02X.0", place.domain & 0xffff,
		 place.bus & 0xff, place.device & 0xff);
	snprintf(info->id, sizeof info->id, "%08X:%02X:%02X.0", place.domain, place.bus & 0xff,
		 place.device & 0xff);
	return NVML_SUCCESS;
}

/* Older forms of the structure are shorter. */
static nvmlReturn_t pci_info(nvmlDevice_t device, nvmlPciInfo_t *info, size_t bytes)
{
	nvmlPciInfo_t whole;
	if (info == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &whole);
	if (result == NVML_SUCCESS)
		memcpy(info, &whole, bytes);
	return result;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *info)
{
	return pci_info(device, info, offsetof(nvmlPciInfo_t, id));
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *info)
{
	return pci_info(device, info, offsetof(nvmlPciInfo_t, subsystem_ids));
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *info)
{
	nvmlPciInfo_t plain;
	if (info == NULL)
		return NVML_INVALID_ARGUMENT;
	if (info->version != NVML_VERSIONED(nvmlPciInfoExt_t, 1))
		return NVML_ARGUMENT_VERSION;
	nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &plain);
	if (result != NVML_SUCCESS)
		return result;
	enum { DISPLAY = 3, CLASS_3D = 2 };
	*info = (nvmlPciInfoExt_t){.version = info->version,
				   .domain = plain.domain,
				   .bus = plain.bus,
				   .device = plain.device,
				   .class = DISPLAY,
				   .subclass = CLASS_3D};
	memcpy(info->id, plain.id, sizeof info->id);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	struct phos_gpu gpu;
	if (major == NULL || minor == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result == NVML_SUCCESS) {
		*major = phos_attribute(gpu.entry, COMPUTE_CAPABILITY_MAJOR);
		*minor = phos_attribute(gpu.entry, COMPUTE_CAPABILITY_MINOR);
	}
	return result;
}

/* Returns NVML's number of an architecture, by compute capability. */
static int architecture(int major, int minor)
{
	enum { PASCAL = 4, VOLTA, TURING, AMPERE, ADA, HOPPER, BLACKWELL };
	switch (10 * major + minor) {
	case 60:
	case 61:
	case 62:
		return PASCAL;
	case 70:
	case 72:
		return VOLTA;
	case 75:
		return TURING;
	case 80:
	case 86:
	case 87:
		return AMPERE;
	case 89:
		return ADA;
	case 90:
		return HOPPER;
	default:
		return major == 10 || major == 12 ? BLACKWELL : ARCHITECTURE_UNKNOWN;
	}
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *found)
{
	int major, minor;
	if (found == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);
	if (result == NVML_SUCCESS)
		*found = (unsigned)architecture(major, minor);
	return result;
}

/* Writes one number of an entry to *value. */
static nvmlReturn_t put_number(nvmlDevice_t device, int attribute, int value, int *to)
{
	struct phos_gpu gpu;
	if (to == NULL)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_gpu_of(device, &gpu);
	if (result == NVML_SUCCESS)
		*to = attribute != 0 ? phos_attribute(gpu.entry, (unsigned)attribute) : value;
	return result;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, int *brand)
{
	return put_number(device, 0, BRAND_NVIDIA, brand);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode)
{
	return put_number(device, COMPUTE_MODE, 0, mode);
}

/* The access of a GPU to the memory of another, or its own. NCCL does not start without an answer.
 */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, int capability,
				    int *status)
{
	enum { READ = 0, WRITE = 1, UNKNOWN = 5 };
	enum { STATUS_OK = 0, STATUS_NOT_SUPPORTED = 5 };
	enum { PEERS = 299 }; /* abi.AttrPeers */
	struct phos_gpu from, to;
	if (status == NULL || capability < READ || capability > UNKNOWN)
		return NVML_INVALID_ARGUMENT;
	nvmlReturn_t result = phos_gpu_of(device, &from);
	if (result == NVML_SUCCESS)
		result = phos_gpu_of(peer, &to);
	if (result != NVML_SUCCESS)
		return result;
	bool reaches = from.index == to.index ||
		       ((uint32_t)phos_attribute(from.entry, PEERS) >> to.index & 1) != 0;
	*status = reaches && (capability == READ || capability == WRITE) ? STATUS_OK
									 : STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}
