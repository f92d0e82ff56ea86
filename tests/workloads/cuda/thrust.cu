// thrust: sort, scan, reduce and algorithms built from them, compared with the standard library.
#include "check.h"
#include <algorithm>
#include <numeric>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>
#include <vector>

constexpr int COUNT = 30011; // not a multiple of any tile

static std::vector<int> numbers(int below)
{
	Random random;
	std::vector<int> all(COUNT);
	for (int &number : all)
		number = int((random.next() >> 8) % (2 * below)) - below;
	return all;
}

static void same(const thrust::device_vector<int> &got, const std::vector<int> &expected)
{
	std::vector<int> host(got.size());
	thrust::copy(got.begin(), got.end(), host.begin());
	CHECK(host == expected);
}

static void sort()
{
	std::vector<int> keys = numbers(1 << 20), values(COUNT), order(COUNT);
	std::iota(order.begin(), order.end(), 0);
	values = order;
	std::stable_sort(order.begin(), order.end(),
			 [&](int a, int b) { return keys[a] < keys[b]; });
	thrust::device_vector<int> device_keys = keys, device_values = values;
	thrust::stable_sort_by_key(device_keys.begin(), device_keys.end(), device_values.begin());
	same(device_values, order);
	std::sort(keys.begin(), keys.end());
	same(device_keys, keys);
}

struct by_last_digit {
	__host__ __device__ bool operator()(int a, int b) const
	{
		return a % 10 != b % 10 ? a % 10 < b % 10 : a < b;
	}
};

// A custom order uses the merge sort, not the radix sort.
static void sort_by_order()
{
	std::vector<int> all = numbers(5000);
	thrust::device_vector<int> device = all;
	cudaStream_t stream;
	CUDA(cudaStreamCreate(&stream));
	thrust::sort(thrust::cuda::par.on(stream), device.begin(), device.end(), by_last_digit());
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaStreamDestroy(stream));
	std::sort(all.begin(), all.end(), by_last_digit());
	same(device, all);
}

static void scan()
{
	std::vector<int> all = numbers(1000), expected(COUNT);
	thrust::device_vector<int> device = all, result(COUNT);
	thrust::inclusive_scan(device.begin(), device.end(), result.begin());
	std::partial_sum(all.begin(), all.end(), expected.begin());
	same(result, expected);
}

struct square {
	__host__ __device__ double operator()(int x) const
	{
		return double(x) * x;
	}
};

static void reduce()
{
	std::vector<int> all = numbers(1000);
	thrust::device_vector<int> device = all;
	double expected = 0; // whole numbers below 2^53 are exact in any order
	for (int number : all)
		expected += double(number) * number;
	CHECK(thrust::transform_reduce(device.begin(), device.end(), square(), 0.0,
				       thrust::plus<double>()) == expected);
	CHECK(thrust::reduce(device.begin(), device.end(), -5000, thrust::maximum<int>()) ==
	      *std::max_element(all.begin(), all.end()));
}

static void unique()
{
	std::vector<int> all = numbers(300);
	std::sort(all.begin(), all.end());
	thrust::device_vector<int> device = all;
	device.erase(thrust::unique(device.begin(), device.end()), device.end());
	all.erase(std::unique(all.begin(), all.end()), all.end());
	same(device, all);
}

int main()
{
	sort();
	sort_by_order();
	scan();
	reduce();
	unique();
	std::printf("ok thrust\n");
}
