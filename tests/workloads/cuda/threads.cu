// Two host threads on one device, each with a stream, memory and errors of its own.
#include "check.h"
#include <thread>
#include <vector>

__global__ void power(float *p, int n, int times)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		for (int t = 0; t < times; t++)
			p[i] = p[i] * 1.5f + 1.0f;
}

static void work(int seed)
{
	const int n = 2000;
	CUDA(cudaSetDevice(0));
	cudaStream_t stream;
	CUDA(cudaStreamCreate(&stream));
	std::vector<float> host(n), got(n);
	float *device;
	CUDA(cudaMalloc(&device, n * sizeof(float)));
	for (int round = 0; round < 30; round++) {
		for (int i = 0; i < n; i++)
			host[i] = float((i + seed + round) % 17);
		CUDA(cudaMemcpyAsync(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice,
				     stream));
		power<<<(n + 63) / 64, 64, 0, stream>>>(device, n, 3);
		CUDA(cudaMemcpyAsync(got.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost,
				     stream));
		CUDA(cudaStreamSynchronize(stream));
		for (int i = 0; i < n; i++)
			CHECK(got[i] ==
			      std::fma(std::fma(std::fma(host[i], 1.5f, 1.0f), 1.5f, 1.0f), 1.5f,
				       1.0f));
	}
	// An error stays with the thread that made it.
	CHECK(cudaMemcpy(device, nullptr, 4, cudaMemcpyKind(99)) != cudaSuccess);
	CHECK(cudaGetLastError() != cudaSuccess && cudaGetLastError() == cudaSuccess);
	CUDA(cudaFree(device));
	CUDA(cudaStreamDestroy(stream));
}

int main()
{
	std::thread first(work, 1), second(work, 5);
	first.join();
	second.join();
	CHECK(cudaGetLastError() == cudaSuccess);
	std::puts("ok threads");
}
