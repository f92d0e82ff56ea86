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
	CHECK(rows > 0 && failures == 0);
	puts("ok synchrony");
	return 0;
}
