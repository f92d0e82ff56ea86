// Cooperative groups: tiles smaller than a warp, groups of arbitrary lanes, and a barrier across
// the grid. The headers use traits of libcu++, which some systems have in a separate package.
#define __QNX__
#include <cooperative_groups.h>
#undef __QNX__
#include "check.h"
#include <vector>

namespace cg = cooperative_groups;

__global__ void tiles(int *sums, int *votes)
{
	auto eight = cg::tiled_partition<8>(cg::this_thread_block());
	auto four = cg::tiled_partition<4>(eight);
	int sum = threadIdx.x;
	for (int step = eight.size() / 2; step > 0; step /= 2)
		sum += eight.shfl_xor(sum, step);
	sums[threadIdx.x] = sum;
	votes[threadIdx.x] = four.ballot(threadIdx.x % 5 == 0) + 100 * four.all(threadIdx.x < 44);
}

// Packs the multiples of 3: the lanes of a warp that have one get their places together.
__global__ void pack(const int *in, int n, int *out, int *count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n || in[i] % 3 != 0)
		return;
	auto found = cg::coalesced_threads();
	int place = 0;
	if (found.thread_rank() == 0)
		place = atomicAdd(count, found.size());
	out[found.shfl(place, 0) + found.thread_rank()] = in[i];
}

// Repeatedly adds every element and its right neighbour: no block may run ahead of another.
__global__ void relax(unsigned *data, int n, int rounds)
{
	auto grid = cg::this_grid();
	for (int round = 0; round < rounds; round++) {
		unsigned *from = data + n * (round & 1), *to = data + n * (~round & 1);
		for (int i = grid.thread_rank(); i < n; i += grid.size())
			to[i] = from[i] + from[(i + 1) % n];
		grid.sync();
	}
}

static void check_tiles()
{
	const int n = 64;
	int *sums, *votes;
	CUDA(cudaMallocManaged(&sums, n * sizeof(int)));
	CUDA(cudaMallocManaged(&votes, n * sizeof(int)));
	tiles<<<1, n>>>(sums, votes);
	CUDA(cudaGetLastError());
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++) {
		int vote = i / 4 * 4 + 3 < 44 ? 100 : 0;
		for (int lane = 0; lane < 4; lane++)
			vote += ((i & ~3) + lane) % 5 == 0 ? 1 << lane : 0;
		CHECK(sums[i] == 8 * (i & ~7) + 28);
		CHECK(votes[i] == vote);
	}
}

static void check_pack()
{
	const int n = 20000;
	int *in, *out, *count, want = 0;
	long long sum = 0;
	CUDA(cudaMallocManaged(&in, n * sizeof(int)));
	CUDA(cudaMallocManaged(&out, n * sizeof(int)));
	CUDA(cudaMallocManaged(&count, sizeof(int)));
	Random random;
	for (int i = 0; i < n; i++) {
		in[i] = random.next() >> 8;
		if (in[i] % 3 == 0) {
			want++;
			sum += in[i];
		}
	}
	*count = 0;
	pack<<<(n + 255) / 256, 256>>>(in, n, out, count);
	CUDA(cudaGetLastError());
	CUDA(cudaDeviceSynchronize());
	CHECK(*count == want);
	for (int i = 0; i < want; i++)
		sum -= out[i];
	CHECK(sum == 0);
}

static void check_grid()
{
	int n = 3000, rounds = 30;
	unsigned *data;
	CUDA(cudaMallocManaged(&data, 2 * n * sizeof(unsigned)));
	std::vector<unsigned> want(n), next(n);
	for (int i = 0; i < n; i++)
		want[i] = data[i] = i % 7;
	void *arguments[] = {&data, &n, &rounds};
	CUDA(cudaLaunchCooperativeKernel((void *)relax, dim3(12), dim3(64), arguments));
	CUDA(cudaDeviceSynchronize());
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < n; i++)
			next[i] = want[i] + want[(i + 1) % n];
		want.swap(next);
	}
	for (int i = 0; i < n; i++)
		CHECK(data[n * (rounds & 1) + i] == want[i]);
}

int main()
{
	check_tiles();
	check_pack();
	check_grid();
	std::puts("ok cooperative");
}
// expect: ok cooperative
