/* Which fills and other calls return before the work that they start or wait for is done, and which
 * do not, as the driver API's documentation says: "API synchronization behavior" for fills, and the
 * descriptions of the single calls. */
#include "synchrony.h"

static CUfunction kernel;
static CUgraphExec graph;

static const char *const text = ".version 7.0\n.target sm_70\n.address_size 64\n"
				".visible .entry k() { ret; }\n";

/* Fills. */

CALL(fill8, D(cuMemsetD8)(at(r->to), FILL, BYTES))
CALL(fill16, D(cuMemsetD16)(at(r->to), FILL * 0x101, BYTES / 2))
CALL(fill32, D(cuMemsetD32)(at(r->to), FILL * 0x1010101u, BYTES / 4))
CALL(fill2d8, D(cuMemsetD2D8)(at(r->to), PITCH, FILL, WIDTH, ROWS))
CALL(fill2d16, D(cuMemsetD2D16)(at(r->to), PITCH, FILL * 0x101, WIDTH / 2, ROWS))
CALL(fill2d32, D(cuMemsetD2D32)(at(r->to), PITCH, FILL * 0x1010101u, WIDTH / 4, ROWS))
CALL(fill8_twin, TWIN(cuMemsetD8, cuMemsetD8)(at(r->to), FILL, BYTES))
CALL(fill16_twin, TWIN(cuMemsetD16, cuMemsetD16)(at(r->to), FILL * 0x101, BYTES / 2))
CALL(fill32_twin, TWIN(cuMemsetD32, cuMemsetD32)(at(r->to), FILL * 0x1010101u, BYTES / 4))
CALL(fill2d8_twin, TWIN(cuMemsetD2D8, cuMemsetD2D8)(at(r->to), PITCH, FILL, WIDTH, ROWS))
CALL(fill2d16_twin,
     TWIN(cuMemsetD2D16, cuMemsetD2D16)(at(r->to), PITCH, FILL * 0x101, WIDTH / 2, ROWS))
CALL(fill2d32_twin,
     TWIN(cuMemsetD2D32, cuMemsetD2D32)(at(r->to), PITCH, FILL * 0x1010101u, WIDTH / 4, ROWS))
CALL(fill8_async, D(cuMemsetD8Async)(at(r->to), FILL, BYTES, r->stream))
CALL(fill16_async, D(cuMemsetD16Async)(at(r->to), FILL * 0x101, BYTES / 2, r->stream))
CALL(fill32_async, D(cuMemsetD32Async)(at(r->to), FILL * 0x1010101u, BYTES / 4, r->stream))
CALL(fill2d8_async, D(cuMemsetD2D8Async)(at(r->to), PITCH, FILL, WIDTH, ROWS, r->stream))
CALL(fill2d16_async,
     D(cuMemsetD2D16Async)(at(r->to), PITCH, FILL * 0x101, WIDTH / 2, ROWS, r->stream))
CALL(fill2d32_async,
     D(cuMemsetD2D32Async)(at(r->to), PITCH, FILL * 0x1010101u, WIDTH / 4, ROWS, r->stream))

static void fills(void)
{
	static const struct named sync[] = {
		{"cuMemsetD8", fill8},       {"cuMemsetD16", fill16},
		{"cuMemsetD32", fill32},     {"cuMemsetD2D8", fill2d8},
		{"cuMemsetD2D16", fill2d16}, {"cuMemsetD2D32", fill2d32}};
	static const struct named twins[] = {
		{"cuMemsetD8_ptds", fill8_twin},       {"cuMemsetD16_ptds", fill16_twin},
		{"cuMemsetD32_ptds", fill32_twin},     {"cuMemsetD2D8_ptds", fill2d8_twin},
		{"cuMemsetD2D16_ptds", fill2d16_twin}, {"cuMemsetD2D32_ptds", fill2d32_twin}};
	static const struct named async[] = {
		{"cuMemsetD8Async", fill8_async},       {"cuMemsetD16Async", fill16_async},
		{"cuMemsetD32Async", fill32_async},     {"cuMemsetD2D8Async", fill2d8_async},
		{"cuMemsetD2D16Async", fill2d16_async}, {"cuMemsetD2D32Async", fill2d32_async}};
	static const enum place targets[] = {DEVICE, PINNED, MANAGED, SHARED};
	for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
		enum place to = targets[t];
		for (int i = 0; i < 6; i++) {
			run(&(struct row){sync[i].name, sync[i].call, CU_STREAM_LEGACY, to, to,
					  to != DEVICE},
			    FILL, " of ");
			run(&(struct row){twins[i].name, twins[i].call, CU_STREAM_PER_THREAD, to,
					  to, to != DEVICE},
			    FILL, " of ");
			run(&(struct row){async[i].name, async[i].call, own, to, to, 0}, FILL,
			    " of ");
		}
	}
}

/* Calls whose description says whether they wait. */

static void nothing(void *unused)
{
	(void)unused;
}

static void later(CUstream stream, CUresult status, void *unused)
{
	(void)stream;
	(void)status;
	(void)unused;
}

static CUevent event_in(CUstream stream)
{
	CUevent event;
	CU(D(cuEventCreate)(&event, CU_EVENT_DEFAULT));
	CU(D(cuEventRecord)(event, stream));
	return event;
}

static CUresult wait_event(const struct row *r)
{
	CUevent event = event_in(r->stream);
	CUresult result = D(cuEventSynchronize)(event);
	CU(D(cuEventDestroy)(event));
	return result;
}

static CUresult record_event(const struct row *r)
{
	CUevent event = event_in(r->stream);
	CHECK(D(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
	CHECK(D(cuStreamQuery)(r->stream) == CUDA_ERROR_NOT_READY);
	CU(D(cuStreamWaitEvent)(r->stream, event, 0));
	return D(cuEventDestroy)(event); /* "the call does not block" */
}

static CUresult destroy_stream(const struct row *r)
{
	CUevent event = event_in(r->stream);
	CUstream stream;
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuStreamWaitEvent)(stream, event, 0));
	CU(D(cuMemsetD8Async)(at(DEVICE), 1, BYTES, stream));
	CU(D(cuEventDestroy)(event));
	return D(cuStreamDestroy)(stream); /* "the function will return immediately" */
}

static CUresult destroy_graph(const struct row *r)
{
	CUgraph empty;
	CUgraphExec exec;
	CU(D(cuGraphCreate)(&empty, 0));
	CU(D(cuGraphInstantiateWithFlags)(&exec, empty, 0));
	CU(D(cuGraphDestroy)(empty));
	CU(D(cuGraphLaunch)(exec, r->stream));
	return D(cuGraphExecDestroy)(exec); /* "freed asynchronously on completion" */
}

static CUresult allocate(const struct row *r)
{
	CUdeviceptr memory;
	CU(D(cuMemAllocAsync)(&memory, BYTES, r->stream));
	return D(cuMemFreeAsync)(memory, r->stream);
}

static CUresult operate(const struct row *r)
{
	CUstreamBatchMemOpParams write = {
		.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
			       .address = at(PINNED),
			       .value = 1}};
	CU(D(cuStreamWriteValue32)(r->stream, at(PINNED), 1, 0));
	CU(D(cuStreamWriteValue64)(r->stream, at(PINNED), 1, 0));
	CU(D(cuStreamWaitValue32)(r->stream, at(PINNED), 1, CU_STREAM_WAIT_VALUE_GEQ));
	return D(cuStreamBatchMemOp)(r->stream, 1, &write, 0);
}

CALL(launch, D(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, r->stream, NULL, NULL))
CALL(launch_together, D(cuLaunchCooperativeKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, r->stream, NULL))
static CUresult launch_with(const struct row *r)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = r->stream};
	return D(cuLaunchKernelEx)(&config, kernel, NULL, NULL);
}

static CUresult record_flags(const struct row *r)
{
	CUevent event;
	CU(D(cuEventCreate)(&event, CU_EVENT_DEFAULT));
	CU(D(cuEventRecordWithFlags)(event, r->stream, 0));
	return D(cuEventDestroy)(event);
}

CALL(launch_host, D(cuLaunchHostFunc)(r->stream, nothing, NULL))
CALL(add_callback, D(cuStreamAddCallback)(r->stream, later, NULL, 0))
CALL(launch_graph, D(cuGraphLaunch)(graph, r->stream))
CALL(upload_graph, D(cuGraphUpload)(graph, r->stream))
CALL(prefetch, D(cuMemPrefetchAsync)(at(MANAGED), BYTES, 0, r->stream))
CALL(attach, D(cuStreamAttachMemAsync)(r->stream, at(MANAGED), 0, CU_MEM_ATTACH_GLOBAL))
CALL(wait_stream, D(cuStreamSynchronize)(r->stream))

/* "This API will not perform any implicit synchronization when the pointer was allocated with
 * cuMemAllocAsync". For other pointers it may, and of cuCtxDestroy nothing is said: no rows. */
static CUresult free_ordered(const struct row *r)
{
	CUdeviceptr memory;
	CUstream other;
	(void)r;
	CU(D(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
	CU(D(cuMemAllocAsync)(&memory, BYTES, other));
	CU(D(cuStreamSynchronize)(other));
	CU(D(cuMemFree)(memory));
	return D(cuStreamDestroy)(other);
}

/* Calls that the headers of CUDA 12.4 lack. */

struct location {
	int type, id;
};
struct attributes {
	int order; /* of the accesses to the source: 1 is the order of the stream, 2 during the call
		    */
	struct location from, to;
	unsigned flags;
};
typedef CUresult copy_batch(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, struct attributes *,
			    size_t *, size_t, CUstream);
typedef CUresult prefetch_batch(CUdeviceptr *, size_t *, size_t, struct location *, size_t *,
				size_t, unsigned long long, CUstream);
typedef CUresult discard_batch(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);

static void *newer(const char *name, int flags)
{
	void *function = NULL;
	CU(D(cuGetProcAddress)(name, &function, 13000, flags, NULL));
	CHECK(function != NULL);
	return function;
}

static CUresult copies_in_batch(const struct row *r, int flags, CUstream stream)
{
	CUdeviceptr to[2] = {at(r->to), at(r->to) + BYTES / 2};
	CUdeviceptr from[2] = {at(r->from), at(r->from) + BYTES / 2};
	size_t sizes[2] = {BYTES / 2, BYTES / 2}, first = 0;
	struct attributes how = {.order = 1};
	return ((copy_batch *)newer("cuMemcpyBatchAsync", flags))(to, from, sizes, 2, &how, &first,
								  1, stream);
}

static CUresult prefetch_many(const struct row *r)
{
	CUdeviceptr memory = at(MANAGED);
	size_t size = BYTES, first = 0;
	struct location device = {.type = 1};
	prefetch_batch *call = (prefetch_batch *)newer("cuMemPrefetchBatchAsync", 0);
	return call(&memory, &size, 1, &device, &first, 1, 0, r->stream);
}

static CUresult discard_many(const struct row *r)
{
	CUdeviceptr memory = at(MANAGED);
	size_t size = BYTES;
	return ((discard_batch *)newer("cuMemDiscardBatchAsync", 0))(&memory, &size, 1, 0,
								     r->stream);
}

static CUresult discard_and_prefetch(const struct row *r)
{
	CUdeviceptr memory = at(MANAGED);
	size_t size = BYTES, first = 0;
	struct location device = {.type = 1};
	prefetch_batch *call = (prefetch_batch *)newer("cuMemDiscardAndPrefetchBatchAsync", 0);
	return call(&memory, &size, 1, &device, &first, 1, 0, r->stream);
}

CALL(copy_batched, copies_in_batch(r, 0, r->stream))

/* The twins for which the stream 0 is the thread's own. */
enum { TWINS = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };
CALL(copy_batched_twin, copies_in_batch(r, TWINS, CU_STREAM_PER_THREAD))
CALL(copy_twin, TWIN(cuMemcpyAsync, cuMemcpyAsync)(at(DEVICE), at(OTHER), BYTES, 0))
CALL(fill_twin, TWIN(cuMemsetD8Async, cuMemsetD8Async)(at(DEVICE), FILL, BYTES, 0))
CALL(launch_twin, TWIN(cuLaunchKernel, cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL))
CALL(launch_host_twin, TWIN(cuLaunchHostFunc, cuLaunchHostFunc)(0, nothing, NULL))
CALL(launch_graph_twin, TWIN(cuGraphLaunch, cuGraphLaunch)(graph, 0))
CALL(prefetch_twin, TWIN(cuMemPrefetchAsync, cuMemPrefetchAsync)(at(MANAGED), BYTES, 0, 0))
CALL(attach_twin,
     TWIN(cuStreamAttachMemAsync, cuStreamAttachMemAsync)(0, at(MANAGED), 0, CU_MEM_ATTACH_GLOBAL))
CALL(wait_stream_twin, TWIN(cuStreamSynchronize, cuStreamSynchronize)(0))

static CUresult query_twin(const struct row *r)
{
	(void)r;
	CHECK(TWIN(cuStreamQuery, cuStreamQuery)(0) == CUDA_ERROR_NOT_READY);
	return CUDA_SUCCESS;
}

static CUresult record_twin(const struct row *r)
{
	CUevent event;
	(void)r;
	CU(D(cuEventCreate)(&event, CU_EVENT_DEFAULT));
	CU(TWIN(cuEventRecord, cuEventRecord)(event, 0));
	CHECK(D(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
	CU(TWIN(cuStreamWaitEvent, cuStreamWaitEvent)(0, event, 0));
	return D(cuEventDestroy)(event);
}

static CUresult allocate_twin(const struct row *r)
{
	CUdeviceptr memory;
	(void)r;
	CU(TWIN(cuMemAllocAsync, cuMemAllocAsync)(&memory, BYTES, 0));
	return TWIN(cuMemFreeAsync, cuMemFreeAsync)(memory, 0);
}

static void batches(void)
{
	static const enum place to[] = {DEVICE, PINNED, MANAGED, SHARED};
	static const enum place from[] = {OTHER, PINNED2, MANAGED, SHARED};
	for (int t = 0; t < 4; t++)
		for (int f = 0; f < 4; f++) {
			int hosts = (to[t] == PINNED || to[t] == SHARED) &&
				    (from[f] == PINNED2 || from[f] == SHARED);
			if (to[t] == from[f] || hosts)
				continue;
			run(&(struct row){"cuMemcpyBatchAsync", copy_batched, own, to[t], from[f],
					  0},
			    NEW, ": ");
			run(&(struct row){"cuMemcpyBatchAsync_ptsz", copy_batched_twin,
					  CU_STREAM_PER_THREAD, to[t], from[f], 0},
			    NEW, ": ");
		}
}

static void twins(void)
{
	static const struct named posted[] = {
		{"cuMemcpyAsync_ptsz", copy_twin},
		{"cuMemsetD8Async_ptsz", fill_twin},
		{"cuLaunchKernel_ptsz", launch_twin},
		{"cuLaunchHostFunc_ptsz", launch_host_twin},
		{"cuGraphLaunch_ptsz", launch_graph_twin},
		{"cuMemPrefetchAsync_ptsz", prefetch_twin},
		{"cuStreamAttachMemAsync_ptsz", attach_twin},
		{"cuStreamQuery_ptsz", query_twin},
		{"cuEventRecord_ptsz, cuStreamWaitEvent_ptsz", record_twin},
		{"cuMemAllocAsync_ptsz and cuMemFreeAsync_ptsz", allocate_twin}};
	CUstream mine = CU_STREAM_PER_THREAD;
	run(&(struct row){"cuStreamSynchronize_ptsz", wait_stream_twin, mine, DEVICE, DEVICE, 1}, 0,
	    ", ");
	for (size_t i = 0; i < sizeof posted / sizeof *posted; i++)
		run(&(struct row){posted[i].name, posted[i].call, mine, DEVICE, DEVICE, 0}, 0,
		    ", ");
}

static CUresult wait_context(const struct row *r)
{
	(void)r;
	return D(cuCtxSynchronize)();
}

static void calls(void)
{
	static const struct named waiting[] = {{"cuStreamSynchronize", wait_stream},
					       {"cuEventSynchronize", wait_event},
					       {"cuCtxSynchronize", wait_context}};
	static const struct named posted[] = {
		{"cuLaunchKernel", launch},
		{"cuLaunchCooperativeKernel", launch_together},
		{"cuLaunchKernelEx", launch_with},
		{"cuEventRecordWithFlags", record_flags},
		{"cuLaunchHostFunc", launch_host},
		{"cuStreamAddCallback", add_callback},
		{"cuGraphLaunch", launch_graph},
		{"cuGraphUpload", upload_graph},
		{"cuGraphExecDestroy", destroy_graph},
		{"cuMemPrefetchAsync", prefetch},
		{"cuMemPrefetchBatchAsync", prefetch_many},
		{"cuMemDiscardBatchAsync", discard_many},
		{"cuMemDiscardAndPrefetchBatchAsync", discard_and_prefetch},
		{"cuMemFree of memory from cuMemAllocAsync", free_ordered},
		{"cuStreamAttachMemAsync", attach},
		{"cuEventRecord, cuEventQuery, cuStreamQuery, cuStreamWaitEvent", record_event},
		{"cuStreamDestroy", destroy_stream},
		{"cuMemAllocAsync and cuMemFreeAsync", allocate},
		{"cuStreamWriteValue, cuStreamWaitValue, cuStreamBatchMemOp", operate}};
	for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
		run(&(struct row){waiting[i].name, waiting[i].call, own, DEVICE, DEVICE, 1}, 0,
		    ", ");
	for (size_t i = 0; i < sizeof posted / sizeof *posted; i++)
		run(&(struct row){posted[i].name, posted[i].call, own, DEVICE, DEVICE, 0}, 0, ", ");
}

static void prepare_calls(void)
{
	CUgraph empty;
	kernel = kernel_of(text, "k");
	CU(D(cuGraphCreate)(&empty, 0));
	CU(D(cuGraphInstantiateWithFlags)(&graph, empty, 0));
	/* The first use of a stream may take anything that it needs later. */
	CU(D(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, own, NULL, NULL));
}

int main(int count, char **arguments)
{
	set_up(count, arguments);
	prepare_calls();
	fills();
	calls();
	batches();
	twins();
	CHECK(rows > 0 && failures == 0);
	puts("ok synchrony");
	return 0;
}
