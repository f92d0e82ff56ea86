// Streams in order and concurrently, events between them and their times, host functions, the
// legacy default stream.
#include "check.h"
#include <atomic>
#include <vector>

__global__ void fill(int *p, int n, int value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] = value;
}

__global__ void add(int *p, const int *q, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] += q[i];
}

__global__ void spin(int *p, int turns)
{
	int x = 1;
	for (int i = 0; i < turns; i++)
		x = x * 1103515245 + 12345;
	*p = x;
}

static std::atomic<int> calls;

static void CUDART_CB count(void *by)
{
	calls += *static_cast<int *>(by);
}

int main()
{
	const int n = 5000, blocks = (n + 255) / 256;
	int *a, *b;
	CUDA(cudaMalloc(&a, n * sizeof(int)));
	CUDA(cudaMalloc(&b, n * sizeof(int)));
	cudaStream_t one, two;
	CUDA(cudaStreamCreate(&one));
	CUDA(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
	cudaEvent_t start, filled, end;
	CUDA(cudaEventCreate(&start));
	CUDA(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
	CUDA(cudaEventCreate(&end));

	CUDA(cudaEventRecord(start, one));
	spin<<<1, 1, 0, two>>>(b, 20000);
	fill<<<blocks, 256, 0, two>>>(b, n, 40);
	CUDA(cudaEventRecord(filled, two));
	fill<<<blocks, 256, 0, one>>>(a, n, 2);
	CUDA(cudaStreamWaitEvent(one, filled, 0));
	add<<<blocks, 256, 0, one>>>(a, b, n);
	int by = 3;
	CUDA(cudaLaunchHostFunc(one, count, &by));
	CUDA(cudaEventRecord(end, one));
	std::vector<int> got(n);
	CUDA(cudaMemcpyAsync(got.data(), a, n * sizeof(int), cudaMemcpyDeviceToHost, one));
	CUDA(cudaStreamSynchronize(one));
	for (int x : got)
		CHECK(x == 42);
	CHECK(calls == 3);
	CUDA(cudaEventSynchronize(end));
	CHECK(cudaEventQuery(end) == cudaSuccess);
	float milliseconds = -1;
	CUDA(cudaEventElapsedTime(&milliseconds, start, end));
	CHECK(milliseconds > 0 && milliseconds < 60000);

	// Work on the default stream runs after earlier work of a blocking stream and before its
	// later work.
	fill<<<blocks, 256, 0, one>>>(a, n, 5);
	add<<<blocks, 256>>>(a, b, n);
	add<<<blocks, 256, 0, one>>>(a, b, n);
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaMemcpy(got.data(), a, n * sizeof(int), cudaMemcpyDeviceToHost));
	for (int x : got)
		CHECK(x == 85);

	CHECK(cudaStreamQuery(two) == cudaSuccess);
	CUDA(cudaStreamDestroy(one));
	CUDA(cudaStreamDestroy(two));
	CUDA(cudaEventDestroy(start));
	CUDA(cudaEventDestroy(filled));
	CUDA(cudaEventDestroy(end));
	std::puts("ok streams");
}
