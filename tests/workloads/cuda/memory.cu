// Pinned, mapped and managed memory, copies of every kind, pitched memory, symbols, and pointer
// attributes.
#include "check.h"
#include <cstring>
#include <vector>

__constant__ int table[16];
__device__ int counter = 7;

__global__ void twice(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] *= 2;
}

__global__ void symbols(int *out)
{
	out[threadIdx.x] = table[threadIdx.x] + counter;
}

__global__ void rows(char *base, size_t pitch, int width)
{
	for (int x = threadIdx.x; x < width; x += blockDim.x)
		base[blockIdx.x * pitch + x] += 1;
}

static void pinned(int n)
{
	int *host, *mapped, *device;
	CUDA(cudaMallocHost(&host, n * sizeof(int)));
	CUDA(cudaMalloc(&device, n * sizeof(int)));
	for (int i = 0; i < n; i++)
		host[i] = i;
	CUDA(cudaMemcpyAsync(device, host, n * sizeof(int), cudaMemcpyHostToDevice));
	twice<<<(n + 127) / 128, 128>>>(device, n);
	CUDA(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost));
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		CHECK(host[i] == 2 * i);
	CUDA(cudaHostGetDevicePointer(&mapped, host, 0));
	twice<<<(n + 127) / 128, 128>>>(mapped, n);
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		CHECK(host[i] == 4 * i);
	cudaPointerAttributes what;
	CUDA(cudaPointerGetAttributes(&what, host));
	CHECK(what.type == cudaMemoryTypeHost);
	CUDA(cudaPointerGetAttributes(&what, device));
	CHECK(what.type == cudaMemoryTypeDevice && what.device == 0);
	CUDA(cudaFree(device));
	CUDA(cudaFreeHost(host));
}

static void managed(int n)
{
	int *both;
	CUDA(cudaMallocManaged(&both, n * sizeof(int)));
	for (int i = 0; i < n; i++)
		both[i] = 3 * i;
	twice<<<(n + 127) / 128, 128>>>(both, n);
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		CHECK(both[i] == 6 * i);
	CUDA(cudaFree(both));
}

static void pitched()
{
	const int width = 100, height = 7;
	char host[height][width], back[height][width + 20];
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			host[y][x] = char(x ^ y);
	char *device;
	size_t pitch;
	CUDA(cudaMallocPitch(&device, &pitch, width, height));
	CHECK(pitch >= width);
	CUDA(cudaMemcpy2D(device, pitch, host, width, width, height, cudaMemcpyHostToDevice));
	rows<<<height, 32>>>(device, pitch, width);
	CUDA(cudaMemcpy2D(back, width + 20, device, pitch, width, height, cudaMemcpyDeviceToHost));
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			CHECK(back[y][x] == char((x ^ y) + 1));
	CUDA(cudaFree(device));
}

static void large()
{
	const size_t bytes = 24 << 20;
	std::vector<unsigned char> out(bytes), back(bytes);
	for (size_t i = 0; i < bytes; i += 997)
		out[i] = (unsigned char)(i / 997);
	unsigned char *one, *two;
	CUDA(cudaMalloc(&one, bytes));
	CUDA(cudaMalloc(&two, bytes));
	CUDA(cudaMemcpy(one, out.data(), bytes, cudaMemcpyHostToDevice));
	CUDA(cudaMemcpy(two, one, bytes, cudaMemcpyDeviceToDevice));
	CUDA(cudaMemcpy(back.data(), two, bytes, cudaMemcpyDefault));
	CHECK(std::memcmp(out.data(), back.data(), bytes) == 0);
	CUDA(cudaMemset(two, 0x5a, bytes));
	CUDA(cudaMemcpy(back.data(), two, bytes, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < bytes; i += 4099)
		CHECK(back[i] == 0x5a);
	CUDA(cudaFree(one));
	CUDA(cudaFree(two));
}

int main()
{
	pinned(3000);
	managed(3000);
	pitched();
	large();

	int values[16], more = 100, *out, got[16];
	for (int i = 0; i < 16; i++)
		values[i] = i * i;
	CUDA(cudaMemcpyToSymbol(table, values, sizeof values));
	CUDA(cudaMemcpyToSymbol(counter, &more, sizeof more));
	CUDA(cudaMalloc(&out, sizeof got));
	symbols<<<1, 16>>>(out);
	CUDA(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 16; i++)
		CHECK(got[i] == i * i + 100);

	size_t free_bytes, total_bytes;
	CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
	CHECK(free_bytes > 0 && free_bytes <= total_bytes);
	CHECK(cudaMalloc(&out, total_bytes + (1 << 20)) == cudaErrorMemoryAllocation);
	CHECK(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
	std::puts("ok memory");
}
