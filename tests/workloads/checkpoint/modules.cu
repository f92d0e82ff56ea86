// modules STEPS MICROSECONDS: initialised and other variables, in modules that are loaded and
// unloaded all the time, with pointers to them in host and device memory. The CPU checks every
// step. Ends with status 7.
#include "../cuda/check.h"
#include "hold.h"
#include <cuda.h>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

__device__ unsigned counter = 7;
static __device__ unsigned table[1000] = {1, 2, 3};
__constant__ unsigned factors[4] = {3, 5, 7, 11};
__device__ unsigned *where[2] = {&counter, table};

// touch increments through the pointers in device memory.
__global__ void touch(unsigned **list, unsigned n, unsigned step)
{
	for (unsigned i = 0; i < n; i++)
		*list[i] += factors[i % 4] * (step + 1);
	*where[0] += 1;
	where[1][step % 1000] += factors[step % 4];
}

// Driver calls, looked up through the runtime.
static decltype(&cuModuleLoadData) load;
static decltype(&cuModuleUnload) unload;
static decltype(&cuModuleGetGlobal_v2) find_variable;

template <class F> static void find_call(F &call, const char *name)
{
	CUDA(cudaGetDriverEntryPoint(name, reinterpret_cast<void **>(&call), cudaEnableDefault));
}

// Code with an initialised variable, and one of the given size.
static std::string code(unsigned value, unsigned bytes)
{
	return ".version 7.0\n.target sm_70\n.address_size 64\n"
	       ".visible .global .align 4 .u32 value = " +
	       std::to_string(value) +
	       ";\n"
	       ".visible .global .align 256 .b8 room[" +
	       std::to_string(bytes) +
	       "];\n"
	       ".visible .entry fill() { .reg .b32 %r; mov.u32 %r, 1; st.global.u32 [room], %r; "
	       "ret; }\n";
}

struct Extra {
	CUmodule module;
	CUdeviceptr address; // of its variable
	unsigned value;
};

struct Work {
	std::vector<Extra> extras;
	unsigned **list, counter = 7, table[1000] = {1, 2, 3};
};

static void come(Work &w, unsigned step)
{
	static const unsigned sizes[] = {4, 3000, 70000, 1500000, 512, 5000000, 200};
	size_t bytes;
	Extra e{};
	e.value = 1000 * step;
	CHECK(load(&e.module, code(e.value, sizes[step % 7] + step).c_str()) == CUDA_SUCCESS);
	CHECK(find_variable(&e.address, &bytes, e.module, "value") == CUDA_SUCCESS && bytes == 4);
	w.extras.push_back(e);
}

static void go(Work &w, unsigned at)
{
	CHECK(unload(w.extras[at].module) == CUDA_SUCCESS);
	w.extras.erase(w.extras.begin() + at);
}

static void step(Work &w, unsigned number)
{
	come(w, number);
	if (number % 3 == 2)
		come(w, number + 1);
	if (w.extras.size() > 4)
		go(w, number * 5 % 4); // an old one, which leaves a gap
	unsigned n = w.extras.size();
	std::vector<CUdeviceptr> list;
	for (unsigned i = 0; i < n; i++) {
		list.push_back(w.extras[i].address);
		w.extras[i].value += (i % 4 == 0   ? 3
				      : i % 4 == 1 ? 5
				      : i % 4 == 2 ? 7
						   : 11) *
				     (number + 1);
	}
	CUDA(cudaMemcpy(w.list, list.data(), n * 8, cudaMemcpyHostToDevice));
	touch<<<1, 1>>>(w.list, n, number);
	w.counter++;
	static const unsigned factor[] = {3, 5, 7, 11};
	w.table[number % 1000] += factor[number % 4];
	unsigned got[1000], sum = 0;
	for (unsigned i = 0; i < n; i++) {
		CUDA(cudaMemcpy(got, reinterpret_cast<void *>(w.extras[i].address), 4,
				cudaMemcpyDeviceToHost));
		CHECK(got[0] == w.extras[i].value);
		sum = sum * 31 + got[0];
	}
	CUDA(cudaMemcpyFromSymbol(got, counter, 4));
	CHECK(got[0] == w.counter);
	CUDA(cudaMemcpyFromSymbol(got, table, 4000));
	CHECK(std::memcmp(got, w.table, 4000) == 0);
	std::printf("step %u %08x\n", number, sum);
	std::fflush(stdout);
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	Work w;
	CUDA(cudaMalloc(&w.list, 800));
	find_call(load, "cuModuleLoadData");
	find_call(unload, "cuModuleUnload");
	find_call(find_variable, "cuModuleGetGlobal");
	for (int i = 0; i < std::atoi(arguments[1]); i++) {
		step(w, i);
		usleep(std::atoi(arguments[2]));
	}
	hold();
	std::puts("ok modules");
	return 7;
}
