// Kernels with all layouts of parameters: none, bytes between words, structures with padding, and
// more parameters than the first format of machine code can describe. Each kernel writes its
// parameters.
#include "check.h"
#include <cstring>
#include <cuda.h>

struct Holes {
	char first;
	double second;
	short third;
};
struct Large {
	int values[1500];
};

enum { WORDS = 16 };
__device__ long long seen[WORDS];
__constant__ int scale = 3;

__global__ void nothing()
{
	seen[0] = 7 * scale;
}

__global__ void mixed(char a, long long b, short c, char d, float e, char f)
{
	seen[0] = a;
	seen[1] = b;
	seen[2] = c;
	seen[3] = d;
	seen[4] = (long long)e;
	seen[5] = f;
}

__global__ void structures(char before, Holes holes, char between, Large large, long long after)
{
	seen[0] = before;
	seen[1] = holes.first;
	seen[2] = (long long)holes.second;
	seen[3] = holes.third;
	seen[4] = between;
	seen[5] = after;
	seen[6] = 0;
	for (int value : large.values)
		seen[6] += value;
}

template <typename Call> static Call driver(const char *name)
{
	void *call;
	CUDA(cudaGetDriverEntryPoint(name, &call, cudaEnableDefault));
	return (Call)call;
}

// Asks for the kernels' names, and the offsets of one kernel's parameters.
static void questions()
{
	enum { KERNELS = 3, PARAMETERS = 5 };
	cudaFunction_t function;
	CUmodule module;
	CUfunction all[KERNELS];
	unsigned count = 0, found = 0;
	CUDA(cudaGetFuncBySymbol(&function, (const void *)structures));
	CHECK(driver<CUresult (*)(CUmodule *, CUfunction)>("cuFuncGetModule")(&module, function) ==
	      CUDA_SUCCESS);
	CHECK(driver<CUresult (*)(unsigned *, CUmodule)>("cuModuleGetFunctionCount")(
		      &count, module) == CUDA_SUCCESS);
	CHECK(count == KERNELS);
	CHECK(driver<CUresult (*)(CUfunction *, unsigned, CUmodule)>("cuModuleEnumerateFunctions")(
		      all, KERNELS, module) == CUDA_SUCCESS);
	for (CUfunction each : all) {
		const char *name;
		CHECK(driver<CUresult (*)(const char **, CUfunction)>("cuFuncGetName")(
			      &name, each) == CUDA_SUCCESS);
		found |= (std::strstr(name, "nothing") != nullptr) |
			 (std::strstr(name, "mixed") != nullptr) << 1 |
			 (std::strstr(name, "structures") != nullptr) << 2;
	}
	CHECK(found == 7);
	auto info =
		driver<CUresult (*)(CUfunction, size_t, size_t *, size_t *)>("cuFuncGetParamInfo");
	const size_t places[PARAMETERS] = {0, 8, 32, 36, 6040},
		     sizes[PARAMETERS] = {1, sizeof(Holes), 1, sizeof(Large), 8};
	size_t offset, size;
	for (int i = 0; i < PARAMETERS; i++)
		CHECK(info(function, i, &offset, &size) == CUDA_SUCCESS && offset == places[i] &&
		      size == sizes[i]);
	CHECK(info(function, PARAMETERS, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
}

template <int N> static void saw(const long long (&want)[N])
{
	long long got[WORDS];
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaMemcpyFromSymbol(got, seen, sizeof got));
	CHECK(std::memcmp(got, want, sizeof want) == 0);
}

int main()
{
	nothing<<<1, 1>>>();
	saw({21});
	mixed<<<1, 1>>>(-1, 1ll << 40, -300, 4, 5, -6);
	saw({-1, 1ll << 40, -300, 4, 5, -6});
	Large large;
	long long sum = 0;
	for (int i = 0; i < 1500; i++)
		sum += large.values[i] = i * i;
	structures<<<1, 1>>>(1, {2, 3, 4}, 5, large, -1ll << 50);
	saw({1, 2, 3, 4, 5, -1ll << 50, sum});
	questions();
	CUDA(cudaDeviceReset());
	std::puts("ok layouts");
}
