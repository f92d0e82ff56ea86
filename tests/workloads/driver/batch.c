/* Batches of copies, as in CUDA 12.8 and 13.0, and queries with simple answers. Halfway it waits
 * for the file that HOLD names. */
#include "../checkpoint/hold.h"
#include "driver.h"
#include <string.h>

/* Missing in the headers of CUDA 12.4. */
struct location {
	int type, id;
};
struct attributes {
	int order;
	struct location from, to;
	unsigned flags;
};
struct operand {
	int type;
	CUdeviceptr address;
	size_t row, layer;
	struct location hint;
};
struct box {
	struct operand from, to;
	size_t extent[3];
	int order;
	unsigned flags;
};
typedef CUresult batch_12(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, struct attributes *,
			  size_t *, size_t, size_t *, CUstream);
typedef CUresult batch_13(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, struct attributes *,
			  size_t *, size_t, CUstream);
typedef CUresult boxes_13(size_t, struct box *, unsigned long long, CUstream);
typedef CUresult prefetch_13(CUdeviceptr *, size_t *, size_t, struct location *, size_t *, size_t,
			     unsigned long long, CUstream);
typedef CUresult pool_13(CUmemoryPool *, struct location *, int);

enum { N = 4096, STREAM_ORDER = 1, DURING_CALL = 2 };

static CUdeviceptr device, more;
static CUstream stream;

static void *newer(const char *name, int version)
{
	void *function = NULL;
	CU(D(cuGetProcAddress)(name, &function, version, 0, NULL));
	CHECK(function);
	return function;
}

static void lines(void)
{
	batch_12 *old = (batch_12 *)newer("cuMemcpyBatchAsync", 12080);
	batch_13 *new = (batch_13 *)newer("cuMemcpyBatchAsync", 13000);
	static unsigned char from[N], back[2 * N];
	struct attributes how[2] = {{.order = STREAM_ORDER}, {.order = DURING_CALL}};
	size_t runs[2] = {0, 1}, sizes[2] = {N, N}, failed = 7;
	CUdeviceptr sources[2] = {(CUdeviceptr)(uintptr_t)from, device};
	CUdeviceptr targets[2] = {device + N, more};
	memset(from, 9, sizeof from);
	CU(D(cuMemsetD8)(device, 3, N));
	CU(D(cuCtxSynchronize)());
	CU(old(targets, sources, sizes, 2, how, runs, 2, &failed, stream));
	CHECK(failed == SIZE_MAX);
	CU(D(cuStreamSynchronize)(stream));
	CU(D(cuMemcpyDtoH)(back, device + N, N));
	CU(D(cuMemcpyDtoH)(back + N, more, N));
	for (int i = 0; i < N; i++)
		CHECK(back[i] == 9 && back[N + i] == 3);
	CU(new (targets, sources, sizes, 2, how, runs, 1, stream));
	CU(D(cuStreamSynchronize)(stream));

	CHECK(old(targets, sources, sizes, 2, how, runs, 2, &failed, NULL) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(old(targets, sources, sizes, 0, how, runs, 1, &failed, stream) ==
	      CUDA_ERROR_INVALID_VALUE);
	runs[0] = 1;
	CHECK(old(targets, sources, sizes, 2, how, runs, 1, &failed, stream) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(failed == SIZE_MAX);
	runs[0] = 0;
	targets[1] = 0;
	CHECK(old(targets, sources, sizes, 2, how, runs, 1, &failed, stream) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(failed == 1);
	how[0].order = 0;
	CHECK(new (targets, sources, sizes, 1, how, runs, 1, stream) == CUDA_ERROR_INVALID_VALUE);
}

/* A box of 3 by 5 by 2 bytes, from rows of 8 and layers of 6 rows to a packed one. */
static void boxes(void)
{
	boxes_13 *copy = (boxes_13 *)newer("cuMemcpy3DBatchAsync", 13000);
	unsigned char from[96], back[30];
	struct box box = {
		.from = {.type = 1, .address = (CUdeviceptr)(uintptr_t)from, .row = 8, .layer = 6},
		.to = {.type = 1, .address = device},
		.extent = {3, 5, 2},
		.order = STREAM_ORDER,
	};
	for (unsigned i = 0; i < sizeof from; i++)
		from[i] = (unsigned char)i;
	CU(copy(1, &box, 0, stream));
	CU(D(cuStreamSynchronize)(stream));
	CU(D(cuMemcpyDtoH)(back, device, sizeof back));
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < 5; y++)
			for (int x = 0; x < 3; x++)
				CHECK(back[z * 15 + y * 3 + x] == z * 48 + y * 8 + x);
	box.from.type = 2;
	CHECK(copy(1, &box, 0, stream) == CUDA_ERROR_NOT_SUPPORTED);
	box.from.type = 1;
	box.extent[1] = 0;
	CHECK(copy(1, &box, 0, stream) == CUDA_ERROR_INVALID_VALUE);
}

static void managed(void)
{
	prefetch_13 *prefetch = (prefetch_13 *)newer("cuMemPrefetchBatchAsync", 13000);
	struct location places[1] = {{1, 0}};
	size_t runs[1] = {0}, size = 4096;
	CUdeviceptr memory;
	int mostly = 7, where = 7, both[2] = {7, 7};
	CU(D(cuMemAllocManaged)(&memory, size, CU_MEM_ATTACH_GLOBAL));
	CU(prefetch(&memory, &size, 1, places, runs, 1, 0, stream));
	CHECK(prefetch(&device, &size, 1, places, runs, 1, 0, stream) == CUDA_ERROR_INVALID_VALUE);
	CU(D(cuMemRangeGetAttribute)(&mostly, sizeof mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
				     memory, size));
	CU(D(cuMemRangeGetAttribute)(&where, sizeof where,
				     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, size));
	CU(D(cuMemRangeGetAttribute)(both, sizeof both, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory,
				     size));
	CHECK(mostly == 0 && where == CU_DEVICE_INVALID && both[0] == CU_DEVICE_INVALID &&
	      both[1] == CU_DEVICE_INVALID);
	CHECK(D(cuMemRangeGetAttribute)(&mostly, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory,
					size) == CUDA_ERROR_INVALID_VALUE);
	CU(D(cuMemFree)(memory));
}

static void settings(void)
{
	pool_13 *of = (pool_13 *)newer("cuMemGetMemPool", 13000);
	struct location here = {1, 0};
	CUmemoryPool pool, same;
	CUstreamAttrValue value;
	cuuint64_t used = 7;
	int low = 0, high = 0;
	CU(of(&pool, &here, 1));
	CU(D(cuDeviceGetMemPool)(&same, 0));
	CHECK(pool == same);
	CU(D(cuCtxGetStreamPriorityRange)(&low, &high));
	CU(D(cuStreamGetAttribute)(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
	CHECK(value.priority == 0);
	CU(D(cuStreamSetAttribute)(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	CHECK(D(cuStreamGetAttribute)(stream, (CUstreamAttrID)99, &value) ==
	      CUDA_ERROR_INVALID_VALUE);
	CU(D(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used == 0);
	CU(D(cuDeviceGraphMemTrim)(0));
	CHECK(D(cuDeviceGraphMemTrim)(9) == CUDA_ERROR_INVALID_DEVICE);
}

int main(void)
{
	use_gpu();
	CU(D(cuMemAlloc)(&device, 2 * N));
	CU(D(cuMemAlloc)(&more, N));
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	for (int half = 0; half < 2; half++) {
		lines();
		boxes();
		managed();
		settings();
		if (half == 0) {
			CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
			hold();
		}
	}
	puts("ok batch");
	return 0;
}
