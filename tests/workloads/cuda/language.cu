// Features of C++ on a device besides arithmetic: virtual functions, new and delete, function
// pointers, recursion, jump tables, constant variables, parameters of kilobytes, more shared memory
// than the default of a kernel.
#include "check.h"

struct Shape {
	__device__ virtual ~Shape()
	{
	}
	__device__ virtual int area() const = 0;
};

struct Square : Shape {
	int side;
	__device__ explicit Square(int side) : side(side)
	{
	}
	__device__ int area() const override
	{
		return side * side;
	}
};

struct Bar : Shape {
	int length;
	__device__ explicit Bar(int length) : length(length)
	{
	}
	__device__ int area() const override
	{
		return 3 * length;
	}
};

typedef int (*Function)(int);
__device__ int twice(int x)
{
	return 2 * x;
}
__device__ int minus(int x)
{
	return -x;
}
__device__ Function functions[] = {twice, minus};
__device__ Function first = twice;

__device__ __noinline__ int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__host__ __device__ int choose(int x)
{
	switch (x % 9) {
	case 0:
		return 3;
	case 1:
		return x * 5;
	case 2:
		return 27;
	case 3:
		return x - 4;
	case 4:
		return x * x;
	case 5:
		return 11;
	case 6:
		return ~x;
	case 7:
		return 1;
	}
	return x << 3;
}

constexpr int N = 64;

__global__ void objects(int *out, Function given)
{
	int t = threadIdx.x;
	Shape *shape;
	if (t & 1)
		shape = new Square(t);
	else
		shape = new Bar(t);
	out[t] = shape->area();
	delete shape;
	out[N + t] = functions[t & 1](t) + given(100);
	out[2 * N + t] = fibonacci(t % 12);
	out[3 * N + t] = choose(t);
}

__constant__ int weights[N];
struct Large {
	int v[1000];
};

__global__ void variables(Large large, long long *sum)
{
	for (int i = threadIdx.x; i < 1000; i += N)
		atomicAdd((unsigned long long *)sum,
			  (unsigned long long)large.v[i] * weights[i % N]);
}

extern __shared__ int dynamic[];
__global__ void reverse(int *out, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		dynamic[i] = i;
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		out[i] = dynamic[n - 1 - i];
}

int main()
{
	int *out;
	Function given;
	CUDA(cudaMallocManaged(&out, 4 * N * sizeof(int)));
	CUDA(cudaMemcpyFromSymbol(&given, first, sizeof given));
	objects<<<1, N>>>(out, given);
	CUDA(cudaDeviceSynchronize());
	const int fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
	for (int t = 0; t < N; t++) {
		CHECK(out[t] == (t & 1 ? t * t : 3 * t));
		CHECK(out[N + t] == (t & 1 ? -t : 2 * t) + 200);
		CHECK(out[2 * N + t] == fib[t % 12]);
		CHECK(out[3 * N + t] == choose(t));
	}
	Large large;
	int host[N];
	long long *sum, want = 0;
	for (int i = 0; i < N; i++)
		host[i] = i - 20;
	for (int i = 0; i < 1000; i++)
		want += (long long)(large.v[i] = i * i) * host[i % N];
	CUDA(cudaMallocManaged(&sum, sizeof *sum));
	*sum = 0;
	CUDA(cudaMemcpyToSymbol(weights, host, sizeof host));
	variables<<<1, N>>>(large, sum);
	CUDA(cudaDeviceSynchronize());
	CHECK(*sum == want);
	const int n = 90 * 1024 / sizeof(int);
	int *back;
	CUDA(cudaMallocManaged(&back, n * sizeof(int)));
	reverse<<<1, 256, n * sizeof(int)>>>(back, n);
	CHECK(cudaGetLastError() == cudaErrorInvalidValue);
	CUDA(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize,
				  n * sizeof(int)));
	reverse<<<1, 256, n * sizeof(int)>>>(back, n);
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		CHECK(back[i] == n - 1 - i);
	std::puts("ok language");
}
// expect: ok language
