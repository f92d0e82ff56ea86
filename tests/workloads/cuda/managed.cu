// Variables that the host and kernels share by name.
#include "check.h"

enum { N = 64 };

__managed__ int shared_count = 5;
__managed__ struct {
	int before;
	double values[N];
} table = {7, {0.5}};

__global__ void change()
{
	atomicAdd(&shared_count, 1);
	table.values[threadIdx.x] += threadIdx.x + table.before;
}

int main()
{
	CHECK(shared_count == 5 && table.values[0] == 0.5 && table.values[1] == 0);
	shared_count = 1000;
	table.before = 2;
	change<<<1, N>>>();
	CUDA(cudaDeviceSynchronize());
	CHECK(shared_count == 1000 + N);
	for (int i = 0; i < N; i++)
		CHECK(table.values[i] == i + 2 + (i == 0 ? 0.5 : 0));
	std::puts("ok managed");
}
