/*
 * The driver's interface for Go, without the driver's headers: entry points by number, and the
 * current context.
 */
#ifndef PHOS_CUDADRV_H
#define PHOS_CUDADRV_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The result of a call that this driver lacks. */
#define PHOS_NO_SUCH_CALL 801

enum { PHOS_DRIVER_CALLS = 128 };

/* The entry points, in the order of names in Go; NULL if the driver lacks an optional one. */
extern void *phos_driver[PHOS_DRIVER_CALLS];

/* Opens a library. Returns NULL, or an error text that the caller frees. */
char *phos_open(const char *path, void **library);
void *phos_find(void *library, const char *name);

/* Flushes stdout. */
void phos_flush(void);

/* Makes a context current on this thread, if it is not. */
int32_t phos_enter(uint64_t context);

/*
 * Invalidates the known current context of all threads: a context was destroyed, and its handle may
 * be reused.
 */
void phos_forget(void);

int32_t phos_context_create(uint64_t *context, uint32_t flags, int32_t device);

/* Virtual memory. */
int32_t phos_reserve(uint64_t *address, uint64_t bytes, uint64_t wanted);
int32_t phos_unreserve(uint64_t address, uint64_t bytes);
int32_t phos_granularity(uint64_t *bytes, int32_t device, int32_t handle_types);
int32_t phos_create(uint64_t *allocation, uint64_t bytes, int32_t device, int32_t handle_types);
int32_t phos_export(int *descriptor, uint64_t allocation);
int32_t phos_import(uint64_t *allocation, int descriptor);
int32_t phos_release(uint64_t allocation);
int32_t phos_map(uint64_t address, uint64_t bytes, uint64_t allocation);
int32_t phos_unmap(uint64_t address, uint64_t bytes);
/* At most PHOS_MOST_DEVICES at a time. */
enum { PHOS_MOST_DEVICES = 32 };
int32_t phos_allow(uint64_t address, uint64_t bytes, const int32_t *devices, int32_t count);
int32_t phos_grant(uint64_t address, uint64_t bytes, int32_t device, int32_t access);

struct phos_box {
	uint64_t dst, src;
	uint64_t extent[3];
	uint64_t dst_pitch, src_pitch, dst_height, src_height;
};

int32_t phos_copy_box(uint64_t context, const struct phos_box *box, uint64_t stream);

/* The same between devices; the contexts determine the devices. */
int32_t phos_copy_peers(uint64_t context, const struct phos_box *box, uint64_t dst_context, uint64_t src_context,
			uint64_t stream);

/* Code. Logs are truncated to the buffer and end with NUL. */
int32_t phos_load(uint64_t context, const void *image, char *log, size_t log_bytes, uint64_t *module);
int32_t phos_link(uint64_t context, const char *const *texts, const size_t *bytes, uint32_t count, char *log,
		  size_t log_bytes, uint64_t *module);
int32_t phos_list_functions(uint64_t context, uint64_t module, uint64_t *functions, uint32_t count);

struct phos_shape {
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
};

int32_t phos_launch(uint64_t context, uint64_t function, const struct phos_shape *shape, uint64_t stream,
		    const void *block, size_t bytes);
/* The same with attributes, laid out as CUlaunchAttribute. */
int32_t phos_launch_with(uint64_t context, uint64_t function, const struct phos_shape *shape, uint64_t stream,
			 const void *block, size_t bytes, const void *attributes, uint32_t count);

enum { PHOS_ACTIVE_CLUSTERS, PHOS_LARGEST_CLUSTER };
int32_t phos_clusters(uint64_t context, int what, uint64_t function, const struct phos_shape *shape,
		      const void *attributes, uint32_t count, int32_t *clusters);

/* abi.TensorMap. */
struct phos_tensor {
	uint64_t kind, type, rank, address;
	uint64_t sizes[5], strides[4], box[5], steps[5];
	int64_t lower[3], upper[3];
	uint64_t channels, pixels, mode;
	uint64_t interleave, swizzle, promotion, fill;
};

/* encoded is 128 bytes, with any alignment. */
int32_t phos_tensor_map(uint64_t context, const struct phos_tensor *tensor, void *encoded);
int32_t phos_tensor_replace(uint64_t context, void *encoded, uint64_t address);

/* Sets a kernel node's attributes, except those that nodes do not support. */
int32_t phos_node_attributes(uint64_t context, uint64_t node, const void *attributes, uint32_t count);

/* Nodes of graphs. exec is 0 for a new node, or the executable graph whose node is updated. */
int32_t phos_kernel_node(uint64_t context, uint64_t graph, uint64_t exec, uint64_t *node, const uint64_t *after,
			 size_t after_count, uint64_t function, const struct phos_shape *shape, const void *block,
			 size_t bytes);
int32_t phos_copy_node(uint64_t context, uint64_t graph, uint64_t exec, uint64_t *node, const uint64_t *after,
		       size_t after_count, const struct phos_box *box);

struct phos_fill {
	uint64_t address, pitch, width, height;
	uint32_t value, element_bytes;
};

int32_t phos_fill_node(uint64_t context, uint64_t graph, uint64_t exec, uint64_t *node, const uint64_t *after,
		       size_t after_count, const struct phos_fill *fill);

#endif
