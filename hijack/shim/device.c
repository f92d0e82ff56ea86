/* Queries of devices: all are answered from the device table in the session's header. */
#include <stdio.h>
#include <string.h>

#include "objects.h"
#include "session.h"
#include "zz_calls.h"

enum attribute {
	MAX_THREADS_PER_BLOCK = 1,
	MAX_BLOCK_DIM_X = 2,
	MAX_GRID_DIM_X = 5,
	MAX_SHARED_MEMORY_PER_BLOCK = 8,
	TOTAL_CONSTANT_MEMORY = 9,
	WARP_SIZE = 10,
	MAX_PITCH = 11,
	MAX_REGISTERS_PER_BLOCK = 12,
	CLOCK_RATE = 13,
	TEXTURE_ALIGNMENT = 14,
	PCI_BUS_ID = 33,
	PCI_DEVICE_ID = 34,
	PCI_DOMAIN_ID = 50,
	COMPUTE_CAPABILITY_MAJOR = 75,
	COMPUTE_CAPABILITY_MINOR = 76,
	/* Not the driver's: a bit for each device that supports peer atomics, or can be a peer. */
	PEER_ATOMICS = 298,
	PEERS = 299,
};

enum { P2P_ACCESS_SUPPORTED = 2, P2P_NATIVE_ATOMICS = 3 };

#define PCI_ID_BYTES 13 /* "dddd:bb:dd.f" and its end */

/* Finds a device, after an entry's usual checks. */
static CUresult find(CUdevice ordinal, const struct phos_device **device)
{
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	*device = phos_device_find(ordinal);
	return *device == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	const struct phos_device *found;
	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &found);
	if (result == CUDA_SUCCESS)
		*device = ordinal;
	return result;
}

CUresult cuDeviceGetCount(int *count)
{
	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS)
		*count = (int)phos.device_count;
	return result;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
	const struct phos_device *device;
	if (name == NULL || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		snprintf(name, (size_t)length, "%.*s", (int)sizeof device->name, device->name);
	return result;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal)
{
	const struct phos_device *device;
	if (uuid == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		memcpy(uuid->bytes, device->uuid, sizeof device->uuid);
	return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal)
{
	return cuDeviceGetUuid_v2(uuid, ordinal);
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice ordinal)
{
	/* LUIDs exist only on Windows. */
	(void)luid;
	(void)mask;
	(void)ordinal;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
	const struct phos_device *device;
	if (bytes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		*bytes = device->memory_bytes;
	return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal)
{
	const struct phos_device *device;
	unsigned index = (unsigned)attribute;
	if (value == NULL || index == 0 || index >= PEER_ATOMICS)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		*value = device->attributes[index];
	return result;
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice ordinal)
{
	const struct phos_device *device;
	if (properties == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	const int32_t *a = device->attributes;
	memset(properties, 0, sizeof *properties);
	properties->maxThreadsPerBlock = a[MAX_THREADS_PER_BLOCK];
	for (int i = 0; i < 3; i++) {
		properties->maxThreadsDim[i] = a[MAX_BLOCK_DIM_X + i];
		properties->maxGridSize[i] = a[MAX_GRID_DIM_X + i];
	}
	properties->sharedMemPerBlock = a[MAX_SHARED_MEMORY_PER_BLOCK];
	properties->totalConstantMemory = a[TOTAL_CONSTANT_MEMORY];
	properties->SIMDWidth = a[WARP_SIZE];
	properties->memPitch = a[MAX_PITCH];
	properties->regsPerBlock = a[MAX_REGISTERS_PER_BLOCK];
	properties->clockRate = a[CLOCK_RATE];
	properties->textureAlign = a[TEXTURE_ALIGNMENT];
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice ordinal)
{
	const struct phos_device *device;
	if (major == NULL || minor == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS) {
		*major = device->attributes[COMPUTE_CAPABILITY_MAJOR];
		*minor = device->attributes[COMPUTE_CAPABILITY_MINOR];
	}
	return result;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice ordinal)
{
	const struct phos_device *device;
	if (id == NULL || length < PCI_ID_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		snprintf(id, (size_t)length, "%04x:%02x:%02x.0",
			 (unsigned)device->attributes[PCI_DOMAIN_ID],
			 (unsigned)device->attributes[PCI_BUS_ID],
			 (unsigned)device->attributes[PCI_DEVICE_ID]);
	return result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *ordinal, const char *id)
{
	if (ordinal == NULL || id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	unsigned domain = 0, bus = 0, number = 0, function = 0;
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &number, &function) < 3) {
		domain = 0;
		if (sscanf(id, "%x:%x.%x", &bus, &number, &function) < 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (uint32_t i = 0; i < phos.device_count; i++) {
		const int32_t *a = phos_device_find((int)i)->attributes;
		if ((unsigned)a[PCI_DOMAIN_ID] == domain && (unsigned)a[PCI_BUS_ID] == bus &&
		    (unsigned)a[PCI_DEVICE_ID] == number) {
			*ordinal = (CUdevice)i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

/* Returns the backend's answer on kernels of one device and memory of another. Both must exist. */
static int is_peer(CUdevice ordinal, CUdevice peer, int how)
{
	return phos_device_find(ordinal)->attributes[how] >> peer & 1;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer)
{
	const struct phos_device *device;
	if (can == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		result = find(peer, &device);
	if (result == CUDA_SUCCESS)
		*can = is_peer(ordinal, peer, PEERS);
	return result;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
				 CUdevice destination)
{
	const struct phos_device *device;
	if (value == NULL || (int)attribute < 1 || source == destination)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(source, &device);
	if (result == CUDA_SUCCESS)
		result = find(destination, &device);
	if (result != CUDA_SUCCESS)
		return result;
	*value = 0;
	if (attribute == P2P_ACCESS_SUPPORTED)
		*value = is_peer(source, destination, PEERS);
	if (attribute == P2P_NATIVE_ATOMICS)
		*value = is_peer(source, destination, PEER_ATOMICS);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice ordinal)
{
	const struct phos_device *device;
	if (supported == NULL || (int)type < 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find(ordinal, &device);
	if (result == CUDA_SUCCESS)
		*supported = 0;
	return result;
}
