/* Launches: the most frequent call, so its frame is written by hand, directly into the ring.
 */
#include "copy.h"
#include "function.h"
#include "log.h"
#include "objects.h"
#include "session.h"
#include "thread.h"

enum { LAUNCH_COOPERATIVE = 1 };

enum device_attribute {
	MAX_THREADS_PER_BLOCK = 1,
	MAX_BLOCK_DIM = 2, /* x, followed by y and z */
	MAX_GRID_DIM = 5,
	MAX_REGISTERS_PER_BLOCK = 12,
};

/* Attributes of cuLaunchKernelEx. */
enum launch_attribute {
	ATTRIBUTE_IGNORE = 0,
	ATTRIBUTE_ACCESS_POLICY = 1,
	ATTRIBUTE_COOPERATIVE = 2,
	ATTRIBUTE_SYNCHRONIZATION = 3,
	ATTRIBUTE_EVENT = 7,
	ATTRIBUTE_COMPLETION_EVENT = 12,
	ATTRIBUTE_UPDATABLE = 13,
	ATTRIBUTE_KNOWN = 16,
};

/* The parameters of a launch besides the function. */
struct shape {
	uint32_t grid[3], block[3];
	uint32_t shared_bytes, flags;
	const struct attributes *attributes; /* NULL: none */
};

/* The attributes that are sent to the session. */
struct attributes {
	uint32_t count;
	CUlaunchAttribute each[16];
};

#define ATTRIBUTE_BYTES(a) ((size_t)(a)->count * sizeof(a)->each[0])

static bool within(const uint32_t size[3], const int32_t *limits)
{
	return size[0] <= (uint32_t)limits[0] && size[1] <= (uint32_t)limits[1] &&
	       size[2] <= (uint32_t)limits[2];
}

/* Whether the registers of a block do not suffice. Else a limit on threads comes from the kernel's
 * own bounds (.maxntid), for which the driver has another error. */
static bool lacks_registers(const struct phos_function *f, uint64_t threads)
{
	int32_t each =
		atomic_load_explicit(&f->attributes[PHOS_FUNCTION_REGISTERS], memory_order_relaxed);
	return f->device != NULL && each > 0 &&
	       threads * (uint32_t)each > (uint32_t)f->device[MAX_REGISTERS_PER_BLOCK];
}

/* Finds errors that the driver reports at once. The session would find them too, but only later. */
static CUresult check_shape(const struct phos_function *f, const struct shape *s)
{
	if (s->grid[0] == 0 || s->grid[1] == 0 || s->grid[2] == 0 || s->block[0] == 0 ||
	    s->block[1] == 0 || s->block[2] == 0)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];
	if (f->device != NULL && (threads > (uint32_t)f->device[MAX_THREADS_PER_BLOCK] ||
				  !within(s->block, f->device + MAX_BLOCK_DIM) ||
				  !within(s->grid, f->device + MAX_GRID_DIM)))
		return CUDA_ERROR_INVALID_VALUE;
	int32_t most = atomic_load_explicit(&f->attributes[PHOS_FUNCTION_MAX_THREADS],
					    memory_order_relaxed);
	if (most > 0 && threads > (uint32_t)most)
		return lacks_registers(f, threads) ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
						   : CUDA_ERROR_INVALID_VALUE;
	int32_t dynamic = atomic_load_explicit(&f->attributes[PHOS_FUNCTION_MAX_DYNAMIC_SHARED],
					       memory_order_relaxed);
	if (s->shared_bytes > 0 && dynamic > 0 && s->shared_bytes > (uint32_t)dynamic)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Posts the frame of "launch" or "launchWith" (hijack/spec): ten scalars and the parameter block.
 */
static CUresult post_launch(const struct phos_function *f, const struct shape *s, CUstream stream,
			    const struct phos_arguments *arguments)
{
	enum { SMALL_BLOCK = 512 };
	struct phos_call c;
	uint64_t packed[SMALL_BLOCK / 8];
	uint32_t bytes = f->parameter_bytes;
	const unsigned char *block = arguments->block;
	/* Read the program's memory before the ring is locked; see phos_touch. */
	if (block != NULL) {
		phos_touch(block, arguments->block_bytes);
	} else if (__builtin_expect(bytes <= sizeof packed, 1)) {
		block = (const unsigned char *)packed;
		phos_function_pack(f, arguments->each, (unsigned char *)packed);
	} else {
		for (uint32_t i = 0; i < f->parameter_count; i++)
			phos_touch(arguments->each[i], f->parameters[i].bytes);
	}
	const struct attributes *more = s->attributes;
	bool begun = __builtin_expect(more == NULL, 1)
			     ? phos_begin(&c, PHOS_CALL_launch, PHOS_CONTEXT,
					  PHOS_WORDS(10) + PHOS_ARRAY(bytes))
			     : phos_begin(&c, PHOS_CALL_launchWith, PHOS_CONTEXT,
					  PHOS_WORDS(10) + PHOS_ARRAY(ATTRIBUTE_BYTES(more)) +
						  PHOS_ARRAY(bytes));
	if (!begun)
		return c.result;
	phos_put_u64(&c, f->handle);
	for (int i = 0; i < 3; i++)
		phos_put_u64(&c, s->grid[i]);
	for (int i = 0; i < 3; i++)
		phos_put_u64(&c, s->block[i]);
	phos_put_u64(&c, s->shared_bytes);
	phos_put_u64(&c, stream);
	phos_put_u64(&c, s->flags);
	if (more != NULL)
		phos_put_bytes(&c, more->each, ATTRIBUTE_BYTES(more));
	if (arguments->block != NULL) {
		phos_put_u64(&c, bytes);
		memcpy(c.at, block, arguments->block_bytes);
		memset(c.at + arguments->block_bytes, 0, bytes - arguments->block_bytes);
	} else if (block != NULL) {
		phos_put_bytes(&c, block, bytes);
	} else {
		phos_put_u64(&c, bytes);
		phos_function_pack(f, arguments->each, c.at);
	}
	return phos_post(&c);
}

static CUresult launch(CUfunction function, const struct shape *shape, CUstream stream,
		       void **kernel_parameters, void **extra)
{
	struct phos_function *f;
	struct phos_arguments arguments;
	CUresult result = phos_function_find(function, &f);
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		return result;
	result = check_shape(f, shape);
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		return result;
	result = phos_arguments_of(f, kernel_parameters, extra, &arguments);
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		return result;
	return post_launch(f, shape, stream, &arguments);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes, CUstream stream,
			void **kernel_parameters, void **extra)
{
	struct shape shape = {
		{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0, NULL};
	return launch(function, &shape, stream, kernel_parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
				   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
				   void **kernel_parameters)
{
	struct shape shape = {{grid_x, grid_y, grid_z},
			      {block_x, block_y, block_z},
			      shared_bytes,
			      LAUNCH_COOPERATIVE,
			      NULL};
	return launch(function, &shape, stream, kernel_parameters, NULL);
}

/* Converts the attributes of a launch. The omitted ones are hints, or have no effect here: a wait
 * policy, or a window of a cache that no device reports. */
static CUresult take_attributes(const CUlaunchConfig *config, struct shape *shape,
				struct attributes *more)
{
	more->count = 0;
	for (unsigned int i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *a = &config->attrs[i];
		switch (a->id) {
		case ATTRIBUTE_IGNORE:
		case ATTRIBUTE_ACCESS_POLICY:
		case ATTRIBUTE_SYNCHRONIZATION:
			break;
		case ATTRIBUTE_COOPERATIVE:
			shape->flags |= a->value.cooperative != 0 ? LAUNCH_COOPERATIVE : 0;
			break;
		case ATTRIBUTE_EVENT:
		case ATTRIBUTE_COMPLETION_EVENT:
			return phos_refuse("cuLaunchKernelEx with an event");
		case ATTRIBUTE_UPDATABLE:
			return phos_refuse("cuLaunchKernelEx with a node that the device updates");
		default:
			if (a->id < 0 || a->id > ATTRIBUTE_KNOWN)
				return phos_refuse(
					"cuLaunchKernelEx with an attribute unknown to CUDA 13.0");
			if (more->count == sizeof more->each / sizeof more->each[0])
				return CUDA_ERROR_INVALID_VALUE;
			more->each[more->count++] = *a;
		}
	}
	shape->attributes = more->count > 0 ? more : NULL;
	return CUDA_SUCCESS;
}

static CUresult take_config(const CUlaunchConfig *config, struct shape *shape,
			    struct attributes *more)
{
	if (config == NULL || (config->numAttrs > 0 && config->attrs == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	*shape = (struct shape){
		{config->gridDimX, config->gridDimY, config->gridDimZ},
		{config->blockDimX, config->blockDimY, config->blockDimZ},
		config->sharedMemBytes,
		0,
		NULL,
	};
	return take_attributes(config, shape, more);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
			  void **kernel_parameters, void **extra)
{
	struct attributes more;
	struct shape shape;
	CUresult result = take_config(config, &shape, &more);
	return result == CUDA_SUCCESS
		       ? launch(function, &shape, config->hStream, kernel_parameters, extra)
		       : result;
}

enum { CLUSTERS_THAT_FIT, LARGEST_CLUSTER };

static CUresult clusters(int *count, unsigned what, CUfunction function,
			 const CUlaunchConfig *config)
{
	struct attributes more;
	struct shape s;
	if (count == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = take_config(config, &s, &more);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_occupancyClusters(what, phos_function_handle(function), s.grid[0],
					   s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2],
					   s.shared_bytes, (const unsigned char *)more.each,
					   ATTRIBUTE_BYTES(&more), count);
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config)
{
	return clusters(count, CLUSTERS_THAT_FIT, function, config);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
					    const CUlaunchConfig *config)
{
	return clusters(size, LARGEST_CLUSTER, function, config);
}
