// cub without thrust: device-wide algorithms on a stream, in workspaces of the program, and
// block-wide ones inside a kernel.
#include "check.h"
#include <algorithm>
#include <cub/cub.cuh>
#include <functional>
#include <numeric>
#include <vector>

constexpr int COUNT = 20011, SEGMENTS = 37, BLOCK = 128, ITEMS = 5;

// run asks an algorithm for the size of its workspace, and then runs it.
template <class Algorithm> static void run(Algorithm algorithm)
{
	size_t bytes = 0;
	CUDA(algorithm(nullptr, bytes));
	void *workspace;
	CUDA(cudaMalloc(&workspace, bytes));
	CUDA(algorithm(workspace, bytes));
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaFree(workspace));
}

template <class T> struct Device {
	T *data;
	size_t count;
	explicit Device(size_t count) : count(count)
	{
		CUDA(cudaMalloc(&data, count * sizeof(T)));
	}
	explicit Device(const std::vector<T> &host) : Device(host.size())
	{
		CUDA(cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
	}
	~Device()
	{
		CUDA(cudaFree(data));
	}
	std::vector<T> host() const
	{
		std::vector<T> all(count);
		CUDA(cudaMemcpy(all.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
		return all;
	}
};

static std::vector<float> floats()
{
	Random random;
	std::vector<float> all(COUNT);
	for (float &number : all)
		number = random.unit() * 2000 - 1000;
	return all;
}

// Floats in descending order: their bits do not sort directly.
static void sort(cudaStream_t stream)
{
	std::vector<float> keys = floats();
	Device<float> in(keys), out(COUNT);
	run([&](void *workspace, size_t &bytes) {
		return cub::DeviceRadixSort::SortKeysDescending(workspace, bytes, in.data, out.data,
								COUNT, 0, 32, stream);
	});
	std::sort(keys.begin(), keys.end(), std::greater<float>());
	CHECK(out.host() == keys);
}

static void scan(cudaStream_t stream)
{
	std::vector<unsigned long long> all(COUNT), expected(COUNT);
	std::iota(all.begin(), all.end(), 1ull << 40);
	Device<unsigned long long> in(all), out(COUNT);
	run([&](void *workspace, size_t &bytes) {
		return cub::DeviceScan::ExclusiveSum(workspace, bytes, in.data, out.data, COUNT,
						     stream);
	});
	std::exclusive_scan(all.begin(), all.end(), expected.begin(), 0ull);
	CHECK(out.host() == expected);
}

static void reduce(cudaStream_t stream)
{
	std::vector<float> all = floats();
	std::vector<int> begins(SEGMENTS + 1);
	for (int i = 0; i <= SEGMENTS; i++)
		begins[i] = COUNT / SEGMENTS * i + (i % 3) * 17; // segments of several lengths
	Device<float> in(all), out(SEGMENTS);
	Device<int> offsets(begins);
	run([&](void *workspace, size_t &bytes) {
		return cub::DeviceSegmentedReduce::Min(workspace, bytes, in.data, out.data,
						       SEGMENTS, offsets.data, offsets.data + 1,
						       stream);
	});
	std::vector<float> least = out.host();
	for (int i = 0; i < SEGMENTS; i++)
		CHECK(least[i] == *std::min_element(&all[begins[i]], &all[begins[i + 1]]));
}

struct positive {
	__host__ __device__ bool operator()(float x) const
	{
		return x > 0;
	}
};

static void select(cudaStream_t stream)
{
	std::vector<float> all = floats();
	Device<float> in(all), out(COUNT);
	Device<int> count(1);
	run([&](void *workspace, size_t &bytes) {
		return cub::DeviceSelect::If(workspace, bytes, in.data, out.data, count.data, COUNT,
					     positive(), stream);
	});
	all.erase(std::remove_if(all.begin(), all.end(), std::not_fn(positive())), all.end());
	std::vector<float> got = out.host();
	got.resize(count.host()[0]);
	CHECK(got == all);
}

__global__ void sort_tiles(int *data, int *totals)
{
	using Sort = cub::BlockRadixSort<int, BLOCK, ITEMS>;
	using Reduce = cub::BlockReduce<int, BLOCK>;
	__shared__ union {
		typename Sort::TempStorage sort;
		typename Reduce::TempStorage reduce;
	} shared;
	int items[ITEMS], *tile = data + blockIdx.x * BLOCK * ITEMS;
	cub::LoadDirectBlocked(threadIdx.x, tile, items);
	Sort(shared.sort).Sort(items);
	__syncthreads();
	int total = Reduce(shared.reduce).Sum(items);
	if (threadIdx.x == 0)
		totals[blockIdx.x] = total;
	cub::StoreDirectBlocked(threadIdx.x, tile, items);
}

static void blocks()
{
	constexpr int tiles = 7, tile = BLOCK * ITEMS;
	Random random;
	std::vector<int> all(tiles * tile), sums(tiles);
	for (int &number : all)
		number = int(random.next()) / 1000;
	Device<int> data(all), totals(tiles);
	sort_tiles<<<tiles, BLOCK>>>(data.data, totals.data);
	CUDA(cudaGetLastError());
	for (int i = 0; i < tiles; i++) {
		sums[i] = std::accumulate(&all[i * tile], &all[i * tile] + tile, 0u);
		std::sort(&all[i * tile], &all[i * tile] + tile);
	}
	CHECK(data.host() == all);
	CHECK(totals.host() == sums);
}

int main()
{
	cudaStream_t stream;
	CUDA(cudaStreamCreate(&stream));
	sort(stream);
	scan(stream);
	reduce(stream);
	select(stream);
	blocks();
	CUDA(cudaStreamDestroy(stream));
	std::printf("ok cub\n");
}
