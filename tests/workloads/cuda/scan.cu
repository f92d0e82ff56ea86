// Inclusive prefix sum of a long array in three kernels: warps by shuffles, blocks by shared
// memory, then across blocks.
#include "check.h"
#include <vector>

constexpr int BLOCK = 256;

__device__ int scan_warp(int value)
{
	for (int step = 1; step < 32; step *= 2) {
		int left = __shfl_up_sync(~0u, value, step);
		if ((threadIdx.x & 31) >= step)
			value += left;
	}
	return value;
}

__global__ void scan_blocks(const int *in, int *out, int *sums, int n)
{
	__shared__ int warps[BLOCK / 32];
	int i = blockIdx.x * BLOCK + threadIdx.x, warp = threadIdx.x / 32;
	int value = scan_warp(i < n ? in[i] : 0);
	if ((threadIdx.x & 31) == 31)
		warps[warp] = value;
	__syncthreads();
	if (warp == 0) {
		int total = threadIdx.x < BLOCK / 32 ? warps[threadIdx.x] : 0;
		total = scan_warp(total);
		if (threadIdx.x < BLOCK / 32)
			warps[threadIdx.x] = total;
	}
	__syncthreads();
	if (warp > 0)
		value += warps[warp - 1];
	if (i < n)
		out[i] = value;
	if (sums && threadIdx.x == BLOCK - 1)
		sums[blockIdx.x] = value;
}

__global__ void add_offsets(int *out, const int *sums, int n)
{
	int i = blockIdx.x * BLOCK + threadIdx.x;
	if (blockIdx.x > 0 && i < n)
		out[i] += sums[blockIdx.x - 1];
}

int main()
{
	const int n = 60000, blocks = (n + BLOCK - 1) / BLOCK;
	static_assert(n <= BLOCK * BLOCK, "one block scans the blocks' sums");
	Random random;
	std::vector<int> in(n), out(n);
	for (auto &x : in)
		x = int(random.next() >> 20) - 2048;
	int *din, *dout, *dsums;
	CUDA(cudaMalloc(&din, n * sizeof(int)));
	CUDA(cudaMalloc(&dout, n * sizeof(int)));
	CUDA(cudaMalloc(&dsums, blocks * sizeof(int)));
	CUDA(cudaMemcpy(din, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
	scan_blocks<<<blocks, BLOCK>>>(din, dout, dsums, n);
	scan_blocks<<<1, BLOCK>>>(dsums, dsums, nullptr, blocks);
	add_offsets<<<blocks, BLOCK>>>(dout, dsums, n);
	CUDA(cudaMemcpy(out.data(), dout, n * sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0, sum = 0; i < n; i++) {
		sum += in[i];
		CHECK(out[i] == sum);
	}
	CUDA(cudaDeviceReset());
	std::puts("ok scan");
}
