/* Which calls return before the work that they start or wait for is done, and which do not, as the
 * driver API's documentation says: "API synchronization behavior" for copies and fills, and the
 * descriptions of the single calls. In each row the stream is held by a wait for a word in
 * page-locked memory. A call that must wait may not return before another thread has released the
 * word, and its result must then be visible. A call that must not wait is made before the word is
 * released. Where the documentation allows both, there is no row. Without an argument all rows run;
 * with one, the rows whose name begins with it. */
#define _GNU_SOURCE
#include "driver.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDTH = 1024, ROWS = 256, PITCH = 2048, BYTES = WIDTH * ROWS, AREA = PITCH * ROWS };
enum { FILL = 0x5a, OLD = 0x11, NEW = 0x77 };
/* Long enough for a thread to be inside of a call, and a bound for a call that must not wait. */
enum { INSIDE_US = 10000, STUCK_SECONDS = 60 };

/* The memory that calls work on. The program can read all but DEVICE and OTHER. */
enum place { DEVICE, OTHER, PAGEABLE, PAGEABLE2, PINNED, PINNED2, MANAGED, SHARED, PLACES };

static const char *const place_names[PLACES] = {
	"device", "other device memory", "pageable", "other pageable",
	"pinned", "other pinned",        "managed",  "registered"};

static unsigned char *places[PLACES];
static _Atomic unsigned *word; /* page-locked: 1 releases the stream */
static atomic_int released, late;
static CUstream own;
static CUfunction kernel;
static CUgraphExec graph;
static const char *only = "";
static int rows, failures;

static const char *const text = ".version 7.0\n.target sm_70\n.address_size 64\n"
				".visible .entry k() { ret; }\n";

static CUdeviceptr at(enum place place)
{
	return (CUdeviceptr)(uintptr_t)places[place];
}

static CUdeviceptr word_address(void)
{
	return (CUdeviceptr)(uintptr_t)word;
}

/* Names that cuda.h has no declaration for. */
#define TWIN(name, twin) ((__typeof__(&name))twin_symbol(#twin))

static void *twin_symbol(const char *name)
{
	void *function = NULL;
	CU(D(cuGetProcAddress)(name, &function, 12000,
			       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
	CHECK(function != NULL);
	return function;
}

static void *release(void *unused)
{
	usleep(INSIDE_US);
	atomic_store(&released, 1);
	atomic_store(word, 1);
	return unused;
}

static void *rescue(void *unused)
{
	for (int i = 0; i < STUCK_SECONDS * 100; i++) {
		if (atomic_load(&released))
			return unused;
		usleep(10000);
	}
	atomic_store(&late, 1);
	atomic_store(word, 1);
	return unused;
}

struct row {
	const char *name;
	CUresult (*call)(const struct row *row);
	CUstream stream; /* that is held */
	enum place to, from;
	int waits;
};

static void prepare(void)
{
	CU(D(cuCtxSynchronize)());
	CU(D(cuMemsetD8)(at(DEVICE), NEW, AREA));
	CU(D(cuMemsetD8)(at(OTHER), NEW, AREA));
	CU(D(cuCtxSynchronize)());
	for (int i = PAGEABLE; i < PLACES; i++)
		memset(places[i], NEW, AREA);
	atomic_store(word, 0);
	atomic_store(&released, 0);
}

/* Checks that memory that the program can read has been written. */
static int is_written(enum place to, unsigned char value)
{
	return to < PAGEABLE || (places[to][0] == value && places[to][WIDTH - 1] == value);
}

static void run(const struct row *row, unsigned char value, const char *kind)
{
	pthread_t thread;
	char name[200];
	snprintf(name, sizeof name, "%s%s%s%s%s", row->name, kind, place_names[row->from],
		 row->to == row->from ? "" : " to ",
		 row->to == row->from ? "" : place_names[row->to]);
	if (strncmp(name, only, strlen(only)) != 0)
		return;
	rows++;
	prepare();
	if (row->to >= PAGEABLE)
		memset(places[row->to], OLD, AREA);
	CU(D(cuStreamWaitValue32)(row->stream, word_address(), 1, CU_STREAM_WAIT_VALUE_EQ));
	CHECK(pthread_create(&thread, NULL, row->waits ? release : rescue, NULL) == 0);
	CUresult result = row->call(row);
	int early = !atomic_load(&released);
	if (row->waits && early)
		fprintf(stderr, "%s returned before it was done\n", name);
	else if (row->waits && !is_written(row->to, value))
		fprintf(stderr, "%s: the result is not visible\n", name);
	else if (!row->waits && atomic_load(&late))
		fprintf(stderr, "%s waited\n", name);
	else
		early = -1;
	if (!row->waits) {
		atomic_store(&released, 1);
		atomic_store(word, 1);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	if (result != CUDA_SUCCESS)
		fprintf(stderr, "%s: error %d\n", name, result);
	failures += result != CUDA_SUCCESS || early != -1;
	CU(D(cuCtxSynchronize)());
	CHECK(is_written(row->to, value));
}

/* Fills. */

#define FILL_CALL(name, call)                     \
	static CUresult name(const struct row *r) \
	{                                         \
		return call;                      \
	}

FILL_CALL(fill8, D(cuMemsetD8)(at(r->to), FILL, BYTES))
FILL_CALL(fill16, D(cuMemsetD16)(at(r->to), FILL * 0x101, BYTES / 2))
FILL_CALL(fill32, D(cuMemsetD32)(at(r->to), FILL * 0x1010101u, BYTES / 4))
FILL_CALL(fill2d8, D(cuMemsetD2D8)(at(r->to), PITCH, FILL, WIDTH, ROWS))
FILL_CALL(fill2d16, D(cuMemsetD2D16)(at(r->to), PITCH, FILL * 0x101, WIDTH / 2, ROWS))
FILL_CALL(fill2d32, D(cuMemsetD2D32)(at(r->to), PITCH, FILL * 0x1010101u, WIDTH / 4, ROWS))
FILL_CALL(fill8_twin, TWIN(cuMemsetD8, cuMemsetD8)(at(r->to), FILL, BYTES))
FILL_CALL(fill16_twin, TWIN(cuMemsetD16, cuMemsetD16)(at(r->to), FILL * 0x101, BYTES / 2))
FILL_CALL(fill32_twin, TWIN(cuMemsetD32, cuMemsetD32)(at(r->to), FILL * 0x1010101u, BYTES / 4))
FILL_CALL(fill2d8_twin, TWIN(cuMemsetD2D8, cuMemsetD2D8)(at(r->to), PITCH, FILL, WIDTH, ROWS))
FILL_CALL(fill2d16_twin,
	  TWIN(cuMemsetD2D16, cuMemsetD2D16)(at(r->to), PITCH, FILL * 0x101, WIDTH / 2, ROWS))
FILL_CALL(fill2d32_twin,
	  TWIN(cuMemsetD2D32, cuMemsetD2D32)(at(r->to), PITCH, FILL * 0x1010101u, WIDTH / 4, ROWS))
FILL_CALL(fill8_async, D(cuMemsetD8Async)(at(r->to), FILL, BYTES, r->stream))
FILL_CALL(fill16_async, D(cuMemsetD16Async)(at(r->to), FILL * 0x101, BYTES / 2, r->stream))
FILL_CALL(fill32_async, D(cuMemsetD32Async)(at(r->to), FILL * 0x1010101u, BYTES / 4, r->stream))
FILL_CALL(fill2d8_async, D(cuMemsetD2D8Async)(at(r->to), PITCH, FILL, WIDTH, ROWS, r->stream))
FILL_CALL(fill2d16_async,
	  D(cuMemsetD2D16Async)(at(r->to), PITCH, FILL * 0x101, WIDTH / 2, ROWS, r->stream))
FILL_CALL(fill2d32_async,
	  D(cuMemsetD2D32Async)(at(r->to), PITCH, FILL * 0x1010101u, WIDTH / 4, ROWS, r->stream))

struct named {
	const char *name;
	CUresult (*call)(const struct row *row);
};

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

/* Copies of a line, a plane and a box; of few bytes, and of more than the driver stages at once. */

static CUDA_MEMCPY2D plane(const struct row *r)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = at(r->from),
		.srcPitch = PITCH,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = at(r->to),
		.dstPitch = PITCH,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
	};
}

static CUDA_MEMCPY3D box(const struct row *r)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = at(r->from),
		.srcPitch = PITCH,
		.srcHeight = ROWS / 2,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = at(r->to),
		.dstPitch = PITCH,
		.dstHeight = ROWS / 2,
		.WidthInBytes = WIDTH,
		.Height = ROWS / 2,
		.Depth = 2,
	};
}

static CUDA_MEMCPY3D_PEER peer_box(const struct row *r)
{
	CUDA_MEMCPY3D from = box(r);
	CUDA_MEMCPY3D_PEER peer = {0};
	memcpy(&peer, &from, sizeof peer < sizeof from ? sizeof peer : sizeof from);
	CU(D(cuCtxGetCurrent)(&peer.srcContext));
	peer.dstContext = peer.srcContext;
	return peer;
}

static CUcontext here(void)
{
	CUcontext context;
	CU(D(cuCtxGetCurrent)(&context));
	return context;
}

FILL_CALL(copy, D(cuMemcpy)(at(r->to), at(r->from), BYTES))
FILL_CALL(copy_small, D(cuMemcpy)(at(r->to), at(r->from), WIDTH))
FILL_CALL(copy_twin, TWIN(cuMemcpy, cuMemcpy)(at(r->to), at(r->from), BYTES))
FILL_CALL(copy_async, D(cuMemcpyAsync)(at(r->to), at(r->from), BYTES, r->stream))
FILL_CALL(copy_small_async, D(cuMemcpyAsync)(at(r->to), at(r->from), WIDTH, r->stream))
FILL_CALL(h2d, D(cuMemcpyHtoD)(at(r->to), places[r->from], BYTES))
FILL_CALL(h2d_twin, TWIN(cuMemcpyHtoD, cuMemcpyHtoD)(at(r->to), places[r->from], BYTES))
FILL_CALL(h2d_async, D(cuMemcpyHtoDAsync)(at(r->to), places[r->from], BYTES, r->stream))
FILL_CALL(d2h, D(cuMemcpyDtoH)(places[r->to], at(r->from), BYTES))
FILL_CALL(d2h_twin, TWIN(cuMemcpyDtoH, cuMemcpyDtoH)(places[r->to], at(r->from), BYTES))
FILL_CALL(d2h_async, D(cuMemcpyDtoHAsync)(places[r->to], at(r->from), BYTES, r->stream))
FILL_CALL(d2d, D(cuMemcpyDtoD)(at(r->to), at(r->from), BYTES))
FILL_CALL(d2d_twin, TWIN(cuMemcpyDtoD, cuMemcpyDtoD)(at(r->to), at(r->from), BYTES))
FILL_CALL(d2d_async, D(cuMemcpyDtoDAsync)(at(r->to), at(r->from), BYTES, r->stream))
FILL_CALL(peer, D(cuMemcpyPeer)(at(r->to), here(), at(r->from), here(), BYTES))
FILL_CALL(peer_async,
	  D(cuMemcpyPeerAsync)(at(r->to), here(), at(r->from), here(), BYTES, r->stream))

#define BOX_CALL(name, type, shape, call)         \
	static CUresult name(const struct row *r) \
	{                                         \
		type b = shape(r);                \
		return call;                      \
	}

BOX_CALL(copy2d, CUDA_MEMCPY2D, plane, D(cuMemcpy2D)(&b))
BOX_CALL(copy2d_unaligned, CUDA_MEMCPY2D, plane, D(cuMemcpy2DUnaligned)(&b))
BOX_CALL(copy2d_twin, CUDA_MEMCPY2D, plane, TWIN(cuMemcpy2D, cuMemcpy2D)(&b))
BOX_CALL(copy2d_async, CUDA_MEMCPY2D, plane, D(cuMemcpy2DAsync)(&b, r->stream))
BOX_CALL(copy3d, CUDA_MEMCPY3D, box, D(cuMemcpy3D)(&b))
BOX_CALL(copy3d_twin, CUDA_MEMCPY3D, box, TWIN(cuMemcpy3D, cuMemcpy3D)(&b))
BOX_CALL(copy3d_async, CUDA_MEMCPY3D, box, D(cuMemcpy3DAsync)(&b, r->stream))
BOX_CALL(copy3d_peer, CUDA_MEMCPY3D_PEER, peer_box, D(cuMemcpy3DPeer)(&b))
BOX_CALL(copy3d_peer_async, CUDA_MEMCPY3D_PEER, peer_box, D(cuMemcpy3DPeerAsync)(&b, r->stream))

static int is_host(enum place place)
{
	return place >= PAGEABLE && place != MANAGED;
}

static int is_pageable(enum place place)
{
	return place == PAGEABLE || place == PAGEABLE2;
}

/* What a synchronous copy does: 1 waits, 0 does not. A copy from pageable memory synchronizes with
 * the stream before it begins. */
static int sync_waits(enum place to, enum place from)
{
	return to >= PAGEABLE || from >= PAGEABLE;
}

/* The same for an asynchronous one; -1 where both are allowed. */
static int async_waits(enum place to, enum place from)
{
	if (is_host(to) && is_host(from))
		return 1;
	if (is_pageable(to) || is_pageable(from))
		return -1;
	return 0;
}

/* One form of a copy between all places that it accepts. */
static void copies_of(const char *name, CUresult (*call)(const struct row *), CUstream stream,
		      const enum place *to, const enum place *from, int async)
{
	for (const enum place *t = to; *t != PLACES; t++)
		for (const enum place *f = from; *f != PLACES; f++) {
			int waits = async ? async_waits(*t, *f) : sync_waits(*t, *f);
			if (*t == *f || waits < 0)
				continue;
			run(&(struct row){name, call, stream, *t, *f, waits}, NEW, ": ");
		}
}

static void copies(void)
{
	static const enum place all[] = {DEVICE, PAGEABLE, PINNED, MANAGED, SHARED, PLACES};
	static const enum place sources[] = {OTHER, PAGEABLE2, PINNED2, MANAGED, SHARED, PLACES};
	static const enum place device[] = {DEVICE, MANAGED, PLACES};
	static const enum place other[] = {OTHER, MANAGED, PLACES};
	static const enum place host[] = {PAGEABLE, PINNED, SHARED, PLACES};
	static const enum place addressed[] = {DEVICE, PINNED, MANAGED, SHARED, PLACES};
	static const enum place readable[] = {OTHER, PINNED2, MANAGED, SHARED, PLACES};
	static const enum place locked[] = {PAGEABLE, PINNED, SHARED, PLACES};
	static const enum place locked_sources[] = {PAGEABLE2, PINNED2, SHARED, PLACES};
	CUstream legacy = CU_STREAM_LEGACY, mine = CU_STREAM_PER_THREAD;
	copies_of("cuMemcpy", copy, legacy, all, sources, 0);
	copies_of("cuMemcpy of few bytes", copy_small, legacy, locked, locked_sources, 0);
	copies_of("cuMemcpy_ptds", copy_twin, mine, all, sources, 0);
	copies_of("cuMemcpyAsync", copy_async, own, all, sources, 1);
	copies_of("cuMemcpyAsync of few bytes", copy_small_async, own, all, sources, 1);
	copies_of("cuMemcpyHtoD", h2d, legacy, device, host, 0);
	copies_of("cuMemcpyHtoD_ptds", h2d_twin, mine, device, host, 0);
	copies_of("cuMemcpyHtoDAsync", h2d_async, own, device, host, 1);
	copies_of("cuMemcpyDtoH", d2h, legacy, host, other, 0);
	copies_of("cuMemcpyDtoH_ptds", d2h_twin, mine, host, other, 0);
	copies_of("cuMemcpyDtoHAsync", d2h_async, own, host, other, 1);
	copies_of("cuMemcpyDtoD", d2d, legacy, addressed, readable, 0);
	copies_of("cuMemcpyDtoD_ptds", d2d_twin, mine, addressed, readable, 0);
	copies_of("cuMemcpyDtoDAsync", d2d_async, own, addressed, readable, 1);
	copies_of("cuMemcpyPeer", peer, legacy, addressed, readable, 0);
	copies_of("cuMemcpyPeerAsync", peer_async, own, addressed, readable, 1);
	copies_of("cuMemcpy2D", copy2d, legacy, all, sources, 0);
	copies_of("cuMemcpy2DUnaligned", copy2d_unaligned, legacy, all, sources, 0);
	copies_of("cuMemcpy2D_ptds", copy2d_twin, mine, all, sources, 0);
	copies_of("cuMemcpy2DAsync", copy2d_async, own, all, sources, 1);
	copies_of("cuMemcpy3D", copy3d, legacy, all, sources, 0);
	copies_of("cuMemcpy3D_ptds", copy3d_twin, mine, all, sources, 0);
	copies_of("cuMemcpy3DAsync", copy3d_async, own, all, sources, 1);
	copies_of("cuMemcpy3DPeer", copy3d_peer, legacy, all, sources, 0);
	copies_of("cuMemcpy3DPeerAsync", copy3d_peer_async, own, all, sources, 1);
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

FILL_CALL(launch, D(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, r->stream, NULL, NULL))
FILL_CALL(launch_together,
	  D(cuLaunchCooperativeKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, r->stream, NULL))
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

FILL_CALL(launch_host, D(cuLaunchHostFunc)(r->stream, nothing, NULL))
FILL_CALL(add_callback, D(cuStreamAddCallback)(r->stream, later, NULL, 0))
FILL_CALL(launch_graph, D(cuGraphLaunch)(graph, r->stream))
FILL_CALL(upload_graph, D(cuGraphUpload)(graph, r->stream))
FILL_CALL(prefetch, D(cuMemPrefetchAsync)(at(MANAGED), BYTES, 0, r->stream))
FILL_CALL(attach, D(cuStreamAttachMemAsync)(r->stream, at(MANAGED), 0, CU_MEM_ATTACH_GLOBAL))
FILL_CALL(wait_stream, D(cuStreamSynchronize)(r->stream))

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

static void set_up(void)
{
	CUdeviceptr memory;
	CUgraph empty;
	use_gpu();
	CU(D(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
	for (int i = DEVICE; i <= OTHER; i++) {
		CU(D(cuMemAlloc)(&memory, AREA));
		places[i] = (unsigned char *)(uintptr_t)memory;
	}
	places[PAGEABLE] = malloc(AREA);
	places[PAGEABLE2] = malloc(AREA);
	CU(D(cuMemHostAlloc)((void **)&places[PINNED], AREA, 0));
	CU(D(cuMemHostAlloc)((void **)&places[PINNED2], AREA, 0));
	CU(D(cuMemAllocManaged)(&memory, AREA, CU_MEM_ATTACH_GLOBAL));
	places[MANAGED] = (unsigned char *)(uintptr_t)memory;
	places[SHARED] =
		mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(places[SHARED] != MAP_FAILED);
	CU(D(cuMemHostRegister)(places[SHARED], AREA, CU_MEMHOSTREGISTER_DEVICEMAP));
	CU(D(cuMemHostAlloc)((void **)&word, sizeof *word, 0));
	kernel = kernel_of(text, "k");
	CU(D(cuGraphCreate)(&empty, 0));
	CU(D(cuGraphInstantiateWithFlags)(&graph, empty, 0));
	/* The first use of a stream may take anything that it needs later. */
	CU(D(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, own, NULL, NULL));
}

int main(int count, char **arguments)
{
	if (count > 1)
		only = arguments[1];
	set_up();
	fills();
	copies();
	calls();
	CHECK(rows > 0 && failures == 0);
	puts("ok synchrony");
	return 0;
}
