// Kernels of many signatures, for what the compilers write down of them.
#include <stdint.h>

struct Small {
	char a;
	short b;
};
struct __align__(16) Wide {
	float4 v;
	double d;
};
struct Odd {
	char bytes[7];
};
struct Nested {
	Small s[3];
	Odd o;
	Wide w;
};
struct Full { // with the int behind it, all that a kernel could have before CUDA 12.1
	char bytes[4088];
};
template <typename T, int N> struct Box {
	T v[N];
};

__managed__ int managed = 3;
__device__ int out;
__constant__ float factors[4];
static __device__ int hidden[3];
__device__ __align__(128) double aligned[2];

extern "C" __global__ void none() { out = 1; }

extern "C" __global__ void scalars(char a, short b, int c, long d, float e, double f, void *g, bool h)
{
	out = a + b + c + d + e + f + h + (g != 0);
}

extern "C" __global__ void structs(Small s, Odd o, Wide w, Nested n, char last)
{
	out = s.a + o.bytes[3] + w.d + n.w.d + last;
}

extern "C" __global__ void with_shared(int n)
{
	__shared__ int own[32];
	extern __shared__ int given[];
	own[n] = given[n];
	__syncthreads();
	out = own[n + 1];
}

extern "C" __global__ void unused(double a, char b, int4 c) {}

extern "C" __global__ void full(Full b, int n) { out = b.bytes[n]; }

extern "C" __global__ void __launch_bounds__(128, 2) gaps(uint64_t a, uint8_t b, uint16_t c, uint8_t d, uint64_t e)
{
	out = a + b + c + d + e;
}

extern "C" __global__ void vectors(float3 a, char4 b, double2 c, int3 d, ulonglong4 e)
{
	out = a.x + b.y + c.x + d.z + e.w;
}

extern "C" __global__ void constant(const __grid_constant__ Nested n, const __grid_constant__ int k)
{
	out = ((const int *)&n)[k] + factors[k] + hidden[k] + aligned[k & 1] + managed;
}

__device__ __noinline__ int called(int n) { return n * out; }

template <typename T, int N> __global__ void boxed(Box<T, N> b, T *to, Box<char, N> c) { to[0] = b.v[N - 1] + called(c.v[0]); }
template __global__ void boxed<float, 3>(Box<float, 3>, float *, Box<char, 3>);
template __global__ void boxed<double, 5>(Box<double, 5>, double *, Box<char, 5>);
template __global__ void boxed<char, 1>(Box<char, 1>, char *, Box<char, 1>);

static __global__ void local(Odd o, char c) { out = o.bytes[1] + c; }
void use() { local<<<1, 1>>>(Odd{}, 2); }
