/* Launches with attributes, and tensor maps. */
#include "table.h"

#include <string.h>

struct launch_attribute {
	int32_t id, padding;
	unsigned char value[64];
};

struct launch_config {
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	uint64_t stream;
	const struct launch_attribute *attributes;
	uint32_t count;
};

_Static_assert(sizeof(struct launch_attribute) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(struct launch_config) == 56, "CUlaunchConfig");

static struct launch_config configure(const struct phos_shape *s, uint64_t stream,
				      const void *attributes, uint32_t count)
{
	struct launch_config c;
	memset(&c, 0, sizeof c);
	memcpy(c.grid, s->grid, sizeof c.grid);
	memcpy(c.block, s->block, sizeof c.block);
	c.shared_bytes = s->shared_bytes;
	c.stream = stream;
	c.attributes = attributes;
	c.count = count;
	return c;
}

int32_t phos_launch_with(uint64_t context, uint64_t function, const struct phos_shape *s,
			 uint64_t stream, const void *block, size_t bytes, const void *attributes,
			 uint32_t count)
{
	struct launch_config c = configure(s, stream, attributes, count);
	void *extra[] = {(void *)1, (void *)block, (void *)2, (void *)&bytes, NULL};
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	return CALL(PHOS_LAUNCH_EX, const void *, uint64_t, void **,
		    void **)(&c, function, NULL, bytes > 0 ? extra : NULL);
}

int32_t phos_clusters(uint64_t context, int what, uint64_t function, const struct phos_shape *s,
		      const void *attributes, uint32_t count, int32_t *clusters)
{
	struct launch_config c = configure(s, 0, attributes, count);
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	if (what == PHOS_LARGEST_CLUSTER)
		return CALL(PHOS_CLUSTER_SIZE, int32_t *, uint64_t, const void *)(clusters,
										  function, &c);
	return CALL(PHOS_CLUSTERS, int32_t *, uint64_t, const void *)(clusters, function, &c);
}

int32_t phos_node_attributes(uint64_t context, uint64_t node, const void *attributes,
			     uint32_t count)
{
	enum { PROGRAMMATIC = 6 }; /* allowed for launches into streams only */
	const struct launch_attribute *a = attributes;
	int32_t result = phos_enter(context);
	for (uint32_t i = 0; i < count && result == 0; i++)
		if (a[i].id != PROGRAMMATIC)
			result = CALL(PHOS_NODE_ATTRIBUTE, uint64_t, int32_t,
				      const void *)(node, a[i].id, a[i].value);
	return result;
}

typedef struct {
	_Alignas(64) unsigned char opaque[128];
} tensor_map;

static int32_t encode_tiled(tensor_map *map, const struct phos_tensor *t, const uint32_t *box,
			    const uint32_t *steps)
{
	return CALL(PHOS_TENSOR_TILED, void *, int32_t, uint32_t, uint64_t, const uint64_t *,
		    const uint64_t *, const uint32_t *, const uint32_t *, int32_t, int32_t, int32_t,
		    int32_t)(map, (int32_t)t->type, (uint32_t)t->rank, t->address, t->sizes,
			     t->strides, box, steps, (int32_t)t->interleave, (int32_t)t->swizzle,
			     (int32_t)t->promotion, (int32_t)t->fill);
}

static int32_t encode_im2col(tensor_map *map, const struct phos_tensor *t, const uint32_t *steps)
{
	int32_t lower[3], upper[3];
	for (int i = 0; i < 3; i++) {
		lower[i] = (int32_t)t->lower[i];
		upper[i] = (int32_t)t->upper[i];
	}
	return CALL(PHOS_TENSOR_IM2COL, void *, int32_t, uint32_t, uint64_t, const uint64_t *,
		    const uint64_t *, const int32_t *, const int32_t *, uint32_t, uint32_t,
		    const uint32_t *, int32_t, int32_t, int32_t, int32_t)(
		map, (int32_t)t->type, (uint32_t)t->rank, t->address, t->sizes, t->strides, lower,
		upper, (uint32_t)t->channels, (uint32_t)t->pixels, steps, (int32_t)t->interleave,
		(int32_t)t->swizzle, (int32_t)t->promotion, (int32_t)t->fill);
}

static int32_t encode_wide(tensor_map *map, const struct phos_tensor *t, const uint32_t *steps)
{
	if (phos_special[PHOS_TENSOR_WIDE] == NULL)
		return PHOS_NO_SUCH_CALL;
	return CALL(PHOS_TENSOR_WIDE, void *, int32_t, uint32_t, uint64_t, const uint64_t *,
		    const uint64_t *, int32_t, int32_t, uint32_t, uint32_t, const uint32_t *,
		    int32_t, int32_t, int32_t, int32_t, int32_t)(
		map, (int32_t)t->type, (uint32_t)t->rank, t->address, t->sizes, t->strides,
		(int32_t)t->lower[0], (int32_t)t->upper[0], (uint32_t)t->channels,
		(uint32_t)t->pixels, steps, (int32_t)t->interleave, (int32_t)t->mode,
		(int32_t)t->swizzle, (int32_t)t->promotion, (int32_t)t->fill);
}

int32_t phos_tensor_map(uint64_t context, const struct phos_tensor *t, void *encoded)
{
	enum { TILED, IM2COL };
	tensor_map map;
	uint32_t box[5], steps[5];
	for (int i = 0; i < 5; i++) {
		box[i] = (uint32_t)t->box[i];
		steps[i] = (uint32_t)t->steps[i];
	}
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	if (t->kind == TILED)
		result = encode_tiled(&map, t, box, steps);
	else if (t->kind == IM2COL)
		result = encode_im2col(&map, t, steps);
	else
		result = encode_wide(&map, t, steps);
	if (result == 0)
		memcpy(encoded, &map, sizeof map);
	return result;
}

int32_t phos_tensor_replace(uint64_t context, void *encoded, uint64_t address)
{
	tensor_map map;
	memcpy(&map, encoded, sizeof map);
	int32_t result = phos_enter(context);
	if (result == 0)
		result = CALL(PHOS_TENSOR_REPLACE, void *, uint64_t)(&map, address);
	if (result == 0)
		memcpy(encoded, &map, sizeof map);
	return result;
}
