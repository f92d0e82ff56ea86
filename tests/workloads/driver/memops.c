/* Waits for words and writes of words: between streams, from the host and from a kernel, in a
 * captured graph and in one that was built, and what is refused. Between the two halves it waits
 * for the file that HOLD names. */
#include "../checkpoint/hold.h"
#include "driver.h"
#include <string.h>

static CUdeviceptr words, copies; /* two words that streams wait for, and the observed values */
static uint64_t *pinned;
static CUstream first, second;

static uint64_t word_at(CUdeviceptr at)
{
	uint64_t value = 0;
	CU(D(cuMemcpyDtoH)(&value, at, sizeof value));
	return value;
}

/* The stream second writes what first waits for; the order is visible in what first does next. */
static void between_streams(void)
{
	CU(D(cuMemsetD8)(words, 0, 64));
	CU(D(cuCtxSynchronize)());
	CU(D(cuStreamWaitValue32)(first, words, 5, CU_STREAM_WAIT_VALUE_GEQ));
	CU(D(cuMemcpyDtoDAsync)(copies, words + 8, 8, first));
	CHECK(D(cuStreamQuery)(first) == CUDA_ERROR_NOT_READY);
	CU(D(cuStreamWriteValue64)(second, words + 8, 0x123456789abcdef0, 0));
	CU(D(cuStreamWriteValue32)(second, words, 4, 0));
	CU(D(cuStreamSynchronize)(second));
	CHECK(D(cuStreamQuery)(first) == CUDA_ERROR_NOT_READY);
	CU(D(cuStreamWriteValue32)(second, words, 6, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	CU(D(cuStreamSynchronize)(first));
	CHECK(word_at(copies) == 0x123456789abcdef0);
	CHECK(word_at(words) == 6);
}

/* The processor writes to pinned memory that a stream waits for. */
static void from_host(void)
{
	CUdeviceptr there;
	CU(D(cuMemHostGetDevicePointer)(&there, pinned, 0));
	pinned[0] = 0;
	CU(D(cuStreamWaitValue64)(first, there, UINT64_C(1) << 40, CU_STREAM_WAIT_VALUE_AND));
	CU(D(cuStreamWriteValue64)(first, there + 8, 99, 0));
	CHECK(D(cuStreamQuery)(first) == CUDA_ERROR_NOT_READY);
	__atomic_store_n(&pinned[0], UINT64_C(3) << 40, __ATOMIC_SEQ_CST);
	CU(D(cuStreamSynchronize)(first));
	CHECK(pinned[1] == 99);
}

/* Every comparison, with a word that satisfies it; a wait that does not end is a failure. */
static void comparisons(void)
{
	static const struct {
		cuuint32_t word, value;
		unsigned flags;
	} met[] = {
		{5, 5, CU_STREAM_WAIT_VALUE_GEQ},
		{2, 0xfffffffe, CU_STREAM_WAIT_VALUE_GEQ}, /* counters wrap around */
		{7, 7, CU_STREAM_WAIT_VALUE_EQ},
		{6, 3, CU_STREAM_WAIT_VALUE_AND},
		{0xfffffff0, 0x7, CU_STREAM_WAIT_VALUE_NOR},
	};
	static const struct {
		cuuint32_t word, value;
		unsigned flags;
		cuuint32_t then; /* the value that ends the wait */
	} not_met[] = {
		{4, 5, CU_STREAM_WAIT_VALUE_GEQ, 5},
		{0xfffffffe, 2, CU_STREAM_WAIT_VALUE_GEQ, 3},
		{8, 7, CU_STREAM_WAIT_VALUE_EQ, 7},
		{4, 3, CU_STREAM_WAIT_VALUE_AND, 6},
		{0xfffffff0, 0xf, CU_STREAM_WAIT_VALUE_NOR, 0xfffffff},
	};
	for (size_t i = 0; i < sizeof met / sizeof met[0]; i++) {
		CU(D(cuStreamWriteValue32)(first, words, met[i].word, 0));
		CU(D(cuStreamWaitValue32)(first, words, met[i].value, met[i].flags));
		CU(D(cuStreamSynchronize)(first));
	}
	for (size_t i = 0; i < sizeof not_met / sizeof not_met[0]; i++) {
		CU(D(cuStreamWriteValue32)(first, words, not_met[i].word, 0));
		CU(D(cuStreamWaitValue32)(first, words, not_met[i].value, not_met[i].flags));
		CU(D(cuStreamWriteValue32)(first, words + 4, (cuuint32_t)i + 1, 0));
		for (int looks = 0; looks < 20; looks++)
			CHECK(D(cuStreamQuery)(first) == CUDA_ERROR_NOT_READY);
		/* Otherwise the first write could come after the value that ends the wait. */
		while ((uint32_t)word_at(words) != not_met[i].word)
			;
		CU(D(cuStreamWriteValue32)(second, words, not_met[i].then, 0));
		CU(D(cuStreamSynchronize)(first));
		CHECK((uint32_t)(word_at(words) >> 32) == i + 1);
	}
}

static void batch_of(CUstreamBatchMemOpParams *all, CUdeviceptr at, uint64_t value)
{
	memset(all, 0, 3 * sizeof *all);
	all[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	all[0].writeValue.address = at;
	all[0].writeValue.value64 = value;
	all[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	all[1].waitValue.address = at;
	all[1].waitValue.value = (cuuint32_t)value;
	all[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	all[2].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
	all[2].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
}

static CUgraph graph, captured;
static CUgraphNode node;
static CUgraphExec exec, captured_exec;

static void build_graphs(void)
{
	CUstreamBatchMemOpParams all[3];
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.count = 3, .paramArray = all}, got;
	CUgraphNodeType type;
	batch_of(all, words, 0x1100000022);
	CU(D(cuGraphCreate)(&graph, 0));
	CU(D(cuGraphAddBatchMemOpNode)(&node, graph, NULL, 0, &p));
	CU(D(cuGraphNodeGetType)(node, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
	CU(D(cuGraphBatchMemOpNodeGetParams)(node, &got));
	CHECK(got.count == 2 && got.paramArray[0].writeValue.value64 == 0x1100000022);
	CHECK(got.paramArray[1].waitValue.flags == CU_STREAM_WAIT_VALUE_EQ);
	CU(D(cuGraphInstantiateWithFlags)(&exec, graph, 0));

	CU(D(cuStreamBeginCapture)(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	batch_of(all, words + 16, 77);
	CU(D(cuStreamBatchMemOp)(first, 3, all, 0));
	CU(D(cuStreamWriteValue32)(first, words + 24, 78, 0));
	CU(D(cuStreamEndCapture)(first, &captured));
	CU(D(cuGraphInstantiateWithFlags)(&captured_exec, captured, 0));
}

static void run_graphs(void)
{
	CUstreamBatchMemOpParams all[3];
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.count = 3, .paramArray = all};
	CU(D(cuMemsetD8)(words, 0, 64));
	CU(D(cuCtxSynchronize)());
	CU(D(cuGraphLaunch)(exec, first));
	CU(D(cuGraphLaunch)(captured_exec, first));
	CU(D(cuStreamSynchronize)(first));
	CHECK(word_at(words) == 0x1100000022 && word_at(words + 16) == 77 &&
	      word_at(words + 24) == 78);
	batch_of(all, words, 5);
	CU(D(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &p));
	CU(D(cuGraphLaunch)(exec, first));
	CU(D(cuStreamSynchronize)(first));
	CHECK(word_at(words) == 5);
	batch_of(all, words, 0x1100000022);
	CU(D(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &p));
}

static void refusals(void)
{
	CUstreamBatchMemOpParams all[3];
	batch_of(all, words, 1);
	CHECK(D(cuStreamWaitValue32)(first, words + 2, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamWaitValue64)(first, words + 4, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamWaitValue32)(first, words, 1, 4) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamWaitValue32)(first, words, 1, CU_STREAM_WAIT_VALUE_FLUSH) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(D(cuStreamWriteValue32)(first, words, 1, 2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamWriteValue32)(first, (CUdeviceptr)(uintptr_t)all & ~(CUdeviceptr)7, 1, 0) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamBatchMemOp)(first, 3, all, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamBatchMemOp)(first, 3, NULL, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuStreamBatchMemOp)(first, 257, all, 0) == CUDA_ERROR_INVALID_VALUE);
	all[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
	CHECK(D(cuStreamBatchMemOp)(first, 1, all, 0) == CUDA_ERROR_NOT_SUPPORTED);
	CU(D(cuStreamSynchronize)(first));
}

int main(void)
{
	CUdevice device = use_gpu();
	int can = 0;
	CU(D(cuDeviceGetAttribute)(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
				   device));
	CHECK(can);
	CU(D(cuMemAlloc)(&words, 64));
	CU(D(cuMemAlloc)(&copies, 64));
	CU(D(cuMemHostAlloc)((void **)&pinned, 64, 0));
	CU(D(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
	CU(D(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
	build_graphs();
	for (int half = 0; half < 2; half++) {
		between_streams();
		from_host();
		comparisons();
		run_graphs();
		refusals();
		if (half == 0) {
			CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
			hold();
		}
	}
	puts("ok memops");
	return 0;
}
