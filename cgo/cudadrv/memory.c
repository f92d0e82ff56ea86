/* Virtual memory, and copies of boxes. */
#include "table.h"

#include <string.h>

enum { PINNED = 1, ON_DEVICE = 1, READ_WRITE = 3, DEVICE_MEMORY = 2, UNIFIED_MEMORY = 4 };
enum { DESCRIPTOR = 1 };

struct location {
	int32_t type, id;
};

struct allocation_properties {
	int32_t type, handle_types;
	struct location location;
	void *windows;
	uint8_t compression, rdma;
	uint16_t usage;
	uint8_t reserved[4];
};

struct access {
	struct location location;
	int32_t flags;
};

/* The contexts are for copies between devices; other copies have reserved fields there. */
struct copy_3d {
	size_t src_x, src_y, src_z, src_lod;
	int32_t src_type;
	const void *src_host;
	uint64_t src_device;
	void *src_array;
	uint64_t src_context;
	size_t src_pitch, src_height;
	size_t dst_x, dst_y, dst_z, dst_lod;
	int32_t dst_type;
	void *dst_host;
	uint64_t dst_device;
	void *dst_array;
	uint64_t dst_context;
	size_t dst_pitch, dst_height;
	size_t width, height, depth;
};

_Static_assert(sizeof(struct allocation_properties) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(struct access) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(struct copy_3d) == 200, "CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER");

static struct allocation_properties on(int32_t device, int32_t handle_types)
{
	struct allocation_properties p;
	memset(&p, 0, sizeof p);
	p.type = PINNED;
	p.handle_types = handle_types;
	p.location.type = ON_DEVICE;
	p.location.id = device;
	return p;
}

int32_t phos_reserve(uint64_t *address, uint64_t bytes, uint64_t wanted)
{
	return CALL(PHOS_RESERVE, uint64_t *, size_t, size_t, uint64_t, unsigned long long)(address, bytes, 0, wanted, 0);
}

int32_t phos_unreserve(uint64_t address, uint64_t bytes)
{
	return CALL(PHOS_UNRESERVE, uint64_t, size_t)(address, bytes);
}

int32_t phos_granularity(uint64_t *bytes, int32_t device, int32_t handle_types)
{
	struct allocation_properties p = on(device, handle_types);
	size_t least = 0;
	int32_t result = CALL(PHOS_GRANULARITY, size_t *, const void *, int32_t)(&least, &p, 0);
	*bytes = least;
	return result;
}

int32_t phos_create(uint64_t *allocation, uint64_t bytes, int32_t device, int32_t handle_types)
{
	struct allocation_properties p = on(device, handle_types);
	return CALL(PHOS_CREATE, uint64_t *, size_t, const void *, unsigned long long)(allocation, bytes, &p, 0);
}

int32_t phos_release(uint64_t allocation)
{
	return CALL(PHOS_RELEASE, uint64_t)(allocation);
}

int32_t phos_export(int *descriptor, uint64_t allocation)
{
	*descriptor = -1;
	return CALL(PHOS_EXPORT, void *, uint64_t, int32_t, unsigned long long)(descriptor, allocation, DESCRIPTOR, 0);
}

int32_t phos_import(uint64_t *allocation, int descriptor)
{
	return CALL(PHOS_IMPORT, uint64_t *, void *, int32_t)(allocation, (void *)(intptr_t)descriptor, DESCRIPTOR);
}

int32_t phos_map(uint64_t address, uint64_t bytes, uint64_t allocation)
{
	return CALL(PHOS_MAP, uint64_t, size_t, size_t, uint64_t, unsigned long long)(address, bytes, 0, allocation, 0);
}

int32_t phos_unmap(uint64_t address, uint64_t bytes)
{
	return CALL(PHOS_UNMAP, uint64_t, size_t)(address, bytes);
}

int32_t phos_allow(uint64_t address, uint64_t bytes, const int32_t *devices, int32_t count)
{
	struct access list[PHOS_MOST_DEVICES];
	for (int32_t i = 0; i < count; i++)
		list[i] = (struct access){{ON_DEVICE, devices[i]}, READ_WRITE};
	return CALL(PHOS_SET_ACCESS, uint64_t, size_t, const void *, size_t)(address, bytes, list, (size_t)count);
}

int32_t phos_grant(uint64_t address, uint64_t bytes, int32_t device, int32_t access)
{
	struct access one = {{ON_DEVICE, device}, access};
	return CALL(PHOS_SET_ACCESS, uint64_t, size_t, const void *, size_t)(address, bytes, &one, 1);
}

/* Memory type unified: the driver derives device or host memory from the address. */
static struct copy_3d box_copy(const struct phos_box *box)
{
	struct copy_3d c;
	memset(&c, 0, sizeof c);
	c.src_type = c.dst_type = UNIFIED_MEMORY;
	c.src_device = box->src;
	c.dst_device = box->dst;
	c.src_pitch = box->src_pitch;
	c.dst_pitch = box->dst_pitch;
	c.src_height = box->src_height;
	c.dst_height = box->dst_height;
	c.width = box->extent[0];
	c.height = box->extent[1];
	c.depth = box->extent[2];
	return c;
}

int32_t phos_copy_box(uint64_t context, const struct phos_box *box, uint64_t stream)
{
	struct copy_3d c = box_copy(box);
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	return CALL(PHOS_COPY_3D, const void *, uint64_t)(&c, stream);
}

int32_t phos_copy_peers(uint64_t context, const struct phos_box *box, uint64_t dst_context, uint64_t src_context,
			uint64_t stream)
{
	struct copy_3d c = box_copy(box);
	c.src_type = c.dst_type = DEVICE_MEMORY;
	c.src_context = src_context;
	c.dst_context = dst_context;
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	return CALL(PHOS_COPY_3D_PEER, const void *, uint64_t)(&c, stream);
}

int32_t phos_copy_node(uint64_t context, uint64_t graph, uint64_t exec, uint64_t *node, const uint64_t *after,
		       size_t after_count, const struct phos_box *box)
{
	struct copy_3d c = box_copy(box);
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	if (exec != 0)
		return CALL(PHOS_SET_COPY, uint64_t, uint64_t, const void *, uint64_t)(exec, *node, &c, context);
	return CALL(PHOS_ADD_COPY, uint64_t *, uint64_t, const uint64_t *, size_t, const void *,
		    uint64_t)(node, graph, after, after_count, &c, context);
}
