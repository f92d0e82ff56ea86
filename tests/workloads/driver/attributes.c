/* Launches with attributes, in a stream and in a graph, tensor maps, and queries about the whole
 * device. Halfway it waits for the file that HOLD names. */
#include "../checkpoint/hold.h"
#include "driver.h"
#include <string.h>

static const char *const text =
	".version 7.8\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 where, .param .u32 what) {\n"
	".reg .u64 %a; .reg .u32 %t, %v, %w; .reg .u64 %o;\n"
	"ld.param.u64 %a, [where]; ld.param.u32 %w, [what];\n"
	"mov.u32 %t, %ctaid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;\n"
	"ld.global.u32 %v, [%a]; add.u32 %v, %v, %w; st.global.u32 [%a], %v; ret; }\n";

enum { BLOCKS = 8, UNKNOWN = 15 };

static CUdevice device;
static CUfunction add;
static CUdeviceptr words;
static CUstream stream;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode node;
static unsigned expected;
static CUtensorMap kept;

static CUresult launch(CUlaunchAttribute *attributes, unsigned count)
{
	unsigned what = 3;
	void *parameters[] = {&words, &what};
	CUlaunchConfig config = {
		.gridDimX = BLOCKS,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
		.attrs = attributes,
		.numAttrs = count,
	};
	CUresult result = D(cuLaunchKernelEx)(&config, add, parameters, NULL);
	if (result == CUDA_SUCCESS)
		result = D(cuStreamSynchronize)(stream);
	return result;
}

static void as_expected(void)
{
	unsigned found[BLOCKS];
	CU(D(cuMemcpyDtoH)(found, words, sizeof found));
	for (int i = 0; i < BLOCKS; i++)
		CHECK(found[i] == expected);
}

static void launches(void)
{
	CUlaunchAttribute all[5] = {{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION},
				    {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
				    {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
				    {.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN},
				    {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE}};
	int clusters = 0, fit = -1, largest = -1;
	all[0].value.programmaticStreamSerializationAllowed = 1;
	all[2].value.clusterDim.x = all[2].value.clusterDim.y = all[2].value.clusterDim.z = 1;
	CU(launch(all, 4));
	expected += 3;
	all[4].value.cooperative = 1;
	CU(launch(all + 1, 4));
	expected += 3;
	CU(launch(NULL, 0));
	expected += 3;
	as_expected();
	CU(D(cuDeviceGetAttribute)(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device));
	all[2].value.clusterDim.x = 2;
	CUlaunchConfig config = {BLOCKS, 1, 1, 1, 1, 1, 0, stream, all + 2, 1};
	CUresult could = D(cuOccupancyMaxActiveClusters)(&fit, add, &config);
	CU(D(cuOccupancyMaxPotentialClusterSize)(&largest, add, &config));
	CHECK(clusters ? could == CUDA_SUCCESS && fit > 0 && largest > 1
		       : fit == 0 && largest == 1);
	CUresult result = launch(all, 3);
	CHECK(result == (clusters ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
	expected += clusters ? 3 : 0;
	all[0].id = (CUlaunchAttributeID)UNKNOWN;
	CHECK(launch(all, 1) == CUDA_ERROR_NOT_SUPPORTED);
	all[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
	CHECK(launch(all, 1) == CUDA_ERROR_NOT_SUPPORTED);
	as_expected();
}

/* One node that was captured with a priority, as a cooperative launch. */
static void build_graph(void)
{
	CUlaunchAttribute all[2] = {{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
				    {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE}};
	unsigned what = 3;
	size_t count = 1;
	void *parameters[] = {&words, &what};
	CUlaunchConfig config = {BLOCKS, 1, 1, 1, 1, 1, 0, stream, all, 2};
	all[0].value.priority = -2;
	all[1].value.cooperative = 1;
	CU(D(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(D(cuLaunchKernelEx)(&config, add, parameters, NULL));
	CU(D(cuStreamEndCapture)(stream, &graph));
	CU(D(cuGraphGetNodes)(graph, &node, &count));
	CHECK(count == 1);
	CU(D(cuGraphInstantiateWithFlags)(&exec, graph, 0));
}

static void run_graph(int half)
{
	CUlaunchAttributeValue value;
	CUgraphNode other;
	CUDA_KERNEL_NODE_PARAMS params;
	memset(&value, 1, sizeof value);
	CU(D(cuGraphKernelNodeGetAttribute)(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	CHECK(value.priority == -2);
	CU(D(cuGraphKernelNodeGetAttribute)(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
	CHECK(value.cooperative == 1);
	CU(D(cuGraphKernelNodeGetAttribute)(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
	CHECK((int)value.memSyncDomain == (half == 0 ? 0 : 1));
	value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
	CU(D(cuGraphKernelNodeSetAttribute)(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
	CU(D(cuGraphKernelNodeGetParams)(node, &params));
	CU(D(cuGraphKernelNodeSetParams)(node, &params));
	CU(D(cuGraphAddKernelNode)(&other, graph, NULL, 0, &params));
	CU(D(cuGraphKernelNodeCopyAttributes)(other, node));
	CU(D(cuGraphKernelNodeGetAttribute)(other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	CHECK(value.priority == -2);
	CU(D(cuGraphDestroyNode)(other));
	CU(D(cuGraphLaunch)(exec, stream));
	CU(D(cuStreamSynchronize)(stream));
	expected += 3;
	as_expected();
}

static CUresult encode(CUtensorMap *map, CUdeviceptr address, unsigned rank)
{
	cuuint64_t sizes[] = {64, 128, 2}, strides[] = {256, 32768};
	cuuint32_t box[] = {16, 64, 1}, steps[] = {1, 1, 1};
	return D(cuTensorMapEncodeTiled)(
		map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, (void *)(uintptr_t)address, sizes,
		strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* The encoding must be the same before and after a restore. */
static void tensors(int half)
{
	CUtensorMap map[2], moved;
	_Alignas(64) char odd[192];
	CU(encode(&map[0], words, 3));
	CU(encode(&map[1], words + 1024, 3));
	CHECK(memcmp(&map[0], &map[1], sizeof moved) != 0);
	moved = map[0];
	CU(D(cuTensorMapReplaceAddress)(&moved, (void *)(uintptr_t)(words + 1024)));
	CHECK(memcmp(&moved, &map[1], sizeof moved) == 0);
	if (half == 0)
		kept = map[0];
	CHECK(memcmp(&kept, &map[0], sizeof kept) == 0);
	CHECK(encode((CUtensorMap *)(odd + 16), words, 3) == CUDA_ERROR_INVALID_VALUE);
	CHECK(encode(&moved, words + 1, 3) == CUDA_ERROR_INVALID_VALUE);
	CHECK(encode(&moved, words, 6) == CUDA_ERROR_INVALID_VALUE);
	int lower[] = {-1}, upper[] = {1};
	cuuint64_t sizes[] = {64, 128, 2}, strides[] = {256, 32768};
	cuuint32_t steps[] = {1, 1, 1};
	CU(D(cuTensorMapEncodeIm2col)(&moved, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3,
				      (void *)(uintptr_t)words, sizes, strides, lower, upper, 16, 8,
				      steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
				      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
				      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
	CHECK(memcmp(&moved, &map[0], sizeof moved) != 0);
}

static void questions(int version)
{
	CUdevResource whole;
	CUcontext context, current;
	CUgreenCtx green = (CUgreenCtx)&whole;
	int now = 0, multiprocessors = 0;
	CU(D(cuDriverGetVersion)(&now));
	CHECK(now == version && now >= 12000);
	CU(D(cuDeviceGetAttribute)(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
				   device));
	CU(D(cuCtxGetDevResource)(NULL, &whole, CU_DEV_RESOURCE_TYPE_SM));
	CHECK((int)whole.sm.smCount == multiprocessors);
	CU(D(cuCtxGetCurrent)(&current));
	CUresult (*of_stream)(CUstream, CUcontext *, CUgreenCtx *);
	CU(D(cuGetProcAddress)("cuStreamGetCtx", (void **)&of_stream, 12050, 0, NULL));
	CU(of_stream(stream, &context, &green));
	CHECK(context == current && green == NULL);
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	int version = 0;
	CU(D(cuDriverGetVersion)(&version));
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuDevicePrimaryCtxRetain)(&context, device));
	CU(D(cuCtxSetCurrent)(context));
	CU(D(cuModuleLoadData)(&module, text));
	CU(D(cuModuleGetFunction)(&add, module, "add"));
	CU(D(cuMemAlloc)(&words, 4096));
	CU(D(cuMemsetD32)(words, 0, 1024));
	CU(D(cuCtxSynchronize)()); /* the stream does not wait for it */
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	build_graph();
	for (int half = 0; half < 2; half++) {
		launches();
		run_graph(half);
		tensors(half);
		questions(version);
		if (half == 0) {
			CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
			hold();
		}
	}
	puts("ok attributes");
	return 0;
}
