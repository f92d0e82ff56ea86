/* Code, launches, and the nodes of graphs that launch and fill. */
#include "table.h"

#include <string.h>

enum { LOG_INFO = 3, LOG_INFO_BYTES = 4, LOG_ERROR = 5, LOG_ERROR_BYTES = 6, INPUT_PTX = 1 };

/* Options that request the compiler's error log. */
struct log_options {
	int32_t names[2];
	void *values[2];
};

static struct log_options errors_to(char *log, size_t bytes)
{
	struct log_options o = {{LOG_ERROR, LOG_ERROR_BYTES}, {log, (void *)bytes}};
	if (bytes > 0)
		log[0] = '\0';
	return o;
}

int32_t phos_load(uint64_t context, const void *image, char *log, size_t log_bytes, uint64_t *module)
{
	struct log_options o = errors_to(log, log_bytes);
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	return CALL(PHOS_LOAD, uint64_t *, const void *, uint32_t, int32_t *, void **)(module, image, 2, o.names, o.values);
}

int32_t phos_link(uint64_t context, const char *const *texts, const size_t *bytes, uint32_t count, char *log,
		  size_t log_bytes, uint64_t *module)
{
	struct log_options o = errors_to(log, log_bytes);
	uint64_t state = 0;
	void *linked = NULL;
	size_t linked_bytes = 0;
	int32_t result = phos_enter(context);
	if (result == 0)
		result = CALL(PHOS_LINK_CREATE, uint32_t, int32_t *, void **, uint64_t *)(2, o.names, o.values, &state);
	if (result != 0)
		return result;
	for (uint32_t i = 0; i < count && result == 0; i++)
		result = CALL(PHOS_LINK_ADD, uint64_t, int32_t, void *, size_t, const char *, uint32_t, int32_t *,
			      void **)(state, INPUT_PTX, (void *)texts[i], bytes[i], "text", 0, NULL, NULL);
	if (result == 0)
		result = CALL(PHOS_LINK_COMPLETE, uint64_t, void **, size_t *)(state, &linked, &linked_bytes);
	if (result == 0)
		result = phos_load(context, linked, log, log_bytes, module);
	CALL(PHOS_LINK_DESTROY, uint64_t)(state);
	return result;
}

int32_t phos_list_functions(uint64_t context, uint64_t module, uint64_t *functions, uint32_t count)
{
	if (phos_special[PHOS_ENUMERATE] == NULL)
		return PHOS_NO_SUCH_CALL;
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	return CALL(PHOS_ENUMERATE, uint64_t *, uint32_t, uint64_t)(functions, count, module);
}

/* Passes one packed parameter block through the extra argument. */
#define EXTRA(block, bytes)                                                                        \
	{                                                                                          \
		(void *)1, (void *)(block), (void *)2, (void *)(bytes), NULL                       \
	}

int32_t phos_launch(uint64_t context, uint64_t function, const struct phos_shape *s, uint64_t stream, const void *block,
		    size_t bytes)
{
	void *extra[] = EXTRA(block, &bytes);
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	return CALL(PHOS_LAUNCH, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
		    uint64_t, void **, void **)(function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1],
						s->block[2], s->shared_bytes, stream, NULL, bytes > 0 ? extra : NULL);
}

struct kernel_node {
	uint64_t function;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	void **each, **extra;
	uint64_t kernel, context;
};

struct fill_node {
	uint64_t address;
	size_t pitch;
	uint32_t value, element_bytes;
	size_t width, height;
};

_Static_assert(sizeof(struct kernel_node) == 72, "CUDA_KERNEL_NODE_PARAMS");
_Static_assert(sizeof(struct fill_node) == 40, "CUDA_MEMSET_NODE_PARAMS");

int32_t phos_kernel_node(uint64_t context, uint64_t graph, uint64_t exec, uint64_t *node, const uint64_t *after,
			 size_t after_count, uint64_t function, const struct phos_shape *s, const void *block,
			 size_t bytes)
{
	void *extra[] = EXTRA(block, &bytes);
	struct kernel_node n;
	memset(&n, 0, sizeof n);
	n.function = function;
	memcpy(n.grid, s->grid, sizeof n.grid);
	memcpy(n.block, s->block, sizeof n.block);
	n.shared_bytes = s->shared_bytes;
	n.extra = bytes > 0 ? extra : NULL;
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	if (exec != 0)
		return CALL(PHOS_SET_KERNEL, uint64_t, uint64_t, const void *)(exec, *node, &n);
	return CALL(PHOS_ADD_KERNEL, uint64_t *, uint64_t, const uint64_t *, size_t,
		    const void *)(node, graph, after, after_count, &n);
}

int32_t phos_fill_node(uint64_t context, uint64_t graph, uint64_t exec, uint64_t *node, const uint64_t *after,
		       size_t after_count, const struct phos_fill *f)
{
	struct fill_node n = {f->address, f->pitch, f->value, f->element_bytes, f->width, f->height};
	int32_t result = phos_enter(context);
	if (result != 0)
		return result;
	if (exec != 0)
		return CALL(PHOS_SET_FILL, uint64_t, uint64_t, const void *, uint64_t)(exec, *node, &n, context);
	return CALL(PHOS_ADD_FILL, uint64_t *, uint64_t, const uint64_t *, size_t, const void *,
		    uint64_t)(node, graph, after, after_count, &n, context);
}
