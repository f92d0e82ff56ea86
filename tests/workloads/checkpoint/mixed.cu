// mixed STEPS MICROSECONDS: objects that programs of the runtime API keep between steps: graphs,
// streams, events and their times, pinned, mapped, managed and pooled memory, globals, host
// functions. The CPU checks every step. Ends with status 7.
#include "../cuda/check.h"
#include "hold.h"
#include <cstring>
#include <unistd.h>
#include <vector>

static const int n = 5000, blocks = (n + 127) / 128;

__device__ unsigned launches;
__constant__ unsigned factor;

__global__ void grow(unsigned *p, unsigned by)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] = p[i] * factor + by + i;
	if (i == 0)
		atomicAdd(&launches, 1u);
}

__global__ void mix(unsigned *p, const unsigned *q)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] ^= q[(i + 1) % n] >> 3;
}

struct Work {
	cudaStream_t one, two;
	cudaEvent_t fork, join, early, late;
	float between; // early and late, kept as long as the program runs
	unsigned *p, *q, *mapped, *managed, *back;
	cudaGraphExec_t fixed, changing;
	cudaGraphNode_t changed;
	unsigned calls = 0; // written by the host function
	std::vector<unsigned> a, b;
};

static void count_call(void *data)
{
	++*static_cast<unsigned *>(data);
}

// A graph that forks and joins two streams.
static void capture(Work &w)
{
	cudaGraph_t graph;
	CUDA(cudaStreamBeginCapture(w.one, cudaStreamCaptureModeThreadLocal));
	CUDA(cudaEventRecord(w.fork, w.one));
	CUDA(cudaStreamWaitEvent(w.two, w.fork, 0));
	grow<<<blocks, 128, 0, w.one>>>(w.p, 17);
	grow<<<blocks, 128, 0, w.two>>>(w.q, 19);
	CUDA(cudaEventRecord(w.join, w.two));
	CUDA(cudaStreamWaitEvent(w.one, w.join, 0));
	mix<<<blocks, 128, 0, w.one>>>(w.p, w.q);
	CUDA(cudaLaunchHostFunc(w.one, count_call, &w.calls));
	CUDA(cudaStreamEndCapture(w.one, &graph));
	CUDA(cudaGraphInstantiate(&w.fixed, graph, 0));
	CUDA(cudaGraphDestroy(graph));
}

static cudaKernelNodeParams growing(void **arguments)
{
	cudaKernelNodeParams kernel{};
	kernel.func = (void *)grow, kernel.gridDim = blocks, kernel.blockDim = 128;
	kernel.kernelParams = arguments;
	return kernel;
}

// A graph whose parameter changes at every step.
static void build(Work &w)
{
	cudaGraph_t graph;
	unsigned by = 0;
	void *arguments[] = {&w.q, &by};
	cudaKernelNodeParams kernel = growing(arguments);
	CUDA(cudaGraphCreate(&graph, 0));
	CUDA(cudaGraphAddKernelNode(&w.changed, graph, nullptr, 0, &kernel));
	// The node keeps its name in the executable graph, so the source graph must stay.
	CUDA(cudaGraphInstantiate(&w.changing, graph, 0));
}

static void begin(Work &w)
{
	unsigned five = 5;
	CUDA(cudaStreamCreate(&w.one));
	CUDA(cudaStreamCreateWithFlags(&w.two, cudaStreamNonBlocking));
	CUDA(cudaEventCreateWithFlags(&w.fork, cudaEventDisableTiming));
	CUDA(cudaEventCreateWithFlags(&w.join, cudaEventDisableTiming));
	CUDA(cudaEventCreate(&w.early));
	CUDA(cudaEventCreate(&w.late));
	CUDA(cudaMalloc(&w.p, n * 4));
	CUDA(cudaMallocAsync(&w.q, n * 4, w.two));
	CUDA(cudaHostAlloc(&w.mapped, n * 4, cudaHostAllocMapped));
	CUDA(cudaMallocManaged(&w.managed, n * 4));
	CUDA(cudaMallocHost(&w.back, n * 4));
	CUDA(cudaMemcpyToSymbol(factor, &five, 4));
	CUDA(cudaEventRecord(w.early, w.two));
	CUDA(cudaMemsetAsync(w.p, 0, n * 4, w.two));
	CUDA(cudaMemsetAsync(w.q, 0, n * 4, w.two));
	CUDA(cudaEventRecord(w.late, w.two));
	std::memset(w.mapped, 0, n * 4);
	std::memset(w.managed, 0, n * 4);
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaEventElapsedTime(&w.between, w.early, w.late));
	w.a.resize(n), w.b.resize(n);
	capture(w);
	build(w);
}

static void expect(Work &w, unsigned step)
{
	for (unsigned i = 0; i < n; i++)
		w.a[i] = w.a[i] * 5 + 17 + i, w.b[i] = w.b[i] * 5 + 19 + i;
	for (unsigned i = 0; i < n; i++)
		w.a[i] ^= w.b[(i + 1) % n] >> 3;
	for (unsigned i = 0; i < n; i++)
		w.b[i] = w.b[i] * 5 + step + i;
}

static void look(Work &w, unsigned step)
{
	unsigned count;
	float between;
	CUDA(cudaMemcpyAsync(w.back, w.p, n * 4, cudaMemcpyDeviceToHost, w.one));
	CUDA(cudaStreamSynchronize(w.one));
	CHECK(std::memcmp(w.back, w.a.data(), n * 4) == 0);
	CUDA(cudaMemcpy(w.back, w.q, n * 4, cudaMemcpyDeviceToHost));
	CHECK(std::memcmp(w.back, w.b.data(), n * 4) == 0);
	for (unsigned i = 0; i < n; i++)
		CHECK(w.mapped[i] == w.managed[i]);
	CUDA(cudaMemcpyFromSymbol(&count, launches, 4));
	CHECK(count == (step + 1) * 5 && w.calls == step + 1);
	CUDA(cudaEventElapsedTime(&between, w.early, w.late));
	CHECK(between == w.between);
}

static void step(Work &w, unsigned number)
{
	CUDA(cudaGraphLaunch(w.fixed, w.one));
	void *arguments[] = {&w.q, &number};
	cudaKernelNodeParams kernel = growing(arguments);
	CUDA(cudaGraphExecKernelNodeSetParams(w.changing, w.changed, &kernel));
	CUDA(cudaGraphLaunch(w.changing, w.one));
	unsigned *seen, *short_lived;
	CUDA(cudaHostGetDevicePointer(&seen, w.mapped, 0));
	grow<<<blocks, 128, 0, w.one>>>(seen, number);
	grow<<<blocks, 128, 0, w.one>>>(w.managed, number);
	CUDA(cudaMallocAsync(&short_lived, (1 + number % 7) * 100000, w.two));
	CUDA(cudaMemsetAsync(short_lived, number, 100000, w.two));
	CUDA(cudaFreeAsync(short_lived, w.two));
	expect(w, number);
	CUDA(cudaDeviceSynchronize());
	look(w, number);
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	Work w;
	begin(w);
	for (int i = 0; i < std::atoi(arguments[1]); i++) {
		step(w, i);
		std::printf("step %d %08x %08x %08x\n", i, w.a[n - 1], w.b[n - 1], w.mapped[n - 1]);
		std::fflush(stdout);
		usleep(std::atoi(arguments[2]));
	}
	hold();
	std::puts("ok mixed");
	return 7;
}
