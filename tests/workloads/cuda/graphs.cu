// Graphs: built node by node, and captured from two streams; launched repeatedly, and with changed
// parameters.
#include "check.h"
#include <vector>

__global__ void add(int *p, int n, int by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] += by;
}

static const int n = 1000, blocks = (n + 127) / 128;

static void expect(const int *device, int want)
{
	std::vector<int> got(n);
	CUDA(cudaMemcpy(got.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost));
	for (int x : got)
		CHECK(x == want);
}

static void by_nodes(int *p)
{
	cudaGraph_t graph;
	CUDA(cudaGraphCreate(&graph, 0));
	cudaMemsetParams clear{};
	clear.dst = p, clear.value = 0, clear.elementSize = 4, clear.width = n, clear.height = 1;
	cudaGraphNode_t first, second, third;
	CUDA(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &clear));
	int count = n, by = 5;
	void *arguments[] = {&p, &count, &by};
	cudaKernelNodeParams kernel{};
	kernel.func = (void *)add, kernel.gridDim = blocks, kernel.blockDim = 128;
	kernel.kernelParams = arguments;
	CUDA(cudaGraphAddKernelNode(&second, graph, &first, 1, &kernel));
	by = 7;
	CUDA(cudaGraphAddKernelNode(&third, graph, &second, 1, &kernel));
	size_t nodes = 0;
	CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
	CHECK(nodes == 3);
	cudaGraphExec_t ready;
	CUDA(cudaGraphInstantiate(&ready, graph, 0));
	for (int i = 0; i < 3; i++)
		CUDA(cudaGraphLaunch(ready, 0));
	CUDA(cudaDeviceSynchronize());
	expect(p, 12);
	by = 100;
	CUDA(cudaGraphExecKernelNodeSetParams(ready, third, &kernel));
	CUDA(cudaGraphLaunch(ready, 0));
	expect(p, 105);
	CUDA(cudaGraphExecDestroy(ready));
	CUDA(cudaGraphDestroy(graph));
}

static void by_capture(int *p, int *q)
{
	cudaStream_t one, two;
	cudaEvent_t fork, join;
	CUDA(cudaStreamCreate(&one));
	CUDA(cudaStreamCreate(&two));
	CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	cudaGraph_t graph;
	CUDA(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	CUDA(cudaMemsetAsync(p, 0, n * sizeof(int), one));
	CUDA(cudaEventRecord(fork, one));
	CUDA(cudaStreamWaitEvent(two, fork, 0));
	add<<<blocks, 128, 0, one>>>(p, n, 1);
	CUDA(cudaMemsetAsync(q, 0, n * sizeof(int), two));
	add<<<blocks, 128, 0, two>>>(q, n, 2);
	CUDA(cudaEventRecord(join, two));
	CUDA(cudaStreamWaitEvent(one, join, 0));
	add<<<blocks, 128, 0, one>>>(p, n, 10);
	cudaStreamCaptureStatus status;
	CUDA(cudaStreamIsCapturing(one, &status));
	CHECK(status == cudaStreamCaptureStatusActive);
	CUDA(cudaStreamEndCapture(one, &graph));
	cudaGraphExec_t ready;
	CUDA(cudaGraphInstantiate(&ready, graph, 0));
	for (int i = 0; i < 4; i++)
		CUDA(cudaGraphLaunch(ready, one));
	CUDA(cudaStreamSynchronize(one));
	expect(p, 11);
	expect(q, 2);
	CUDA(cudaGraphExecDestroy(ready));
	CUDA(cudaGraphDestroy(graph));
	CUDA(cudaStreamDestroy(one));
	CUDA(cudaStreamDestroy(two));
}

int main()
{
	int *p, *q;
	CUDA(cudaMalloc(&p, n * sizeof(int)));
	CUDA(cudaMalloc(&q, n * sizeof(int)));
	by_nodes(p);
	by_capture(p, q);
	std::puts("ok graphs");
}
