// Arithmetic wider than a register: products, quotients, remainders and shifts of 128 bits,
// compared with the host's compiler.
#include "check.h"

typedef unsigned __int128 wide;

struct Answers {
	wide product, quotient, remainder, shifted, difference;
};

__host__ __device__ void compute(wide a, wide b, Answers *out)
{
	out->product = a * b;
	out->quotient = a / b;
	out->remainder = (__int128)a % (__int128)b;
	out->shifted = (a << (int)(b & 127)) ^ ((__int128)a >> (int)(a & 127));
	out->difference = a - b - (a < b);
}

__global__ void kernel(const wide *in, Answers *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		compute(in[2 * i], in[2 * i + 1], out + i);
}

int main()
{
	const int n = 1000;
	wide *in;
	Answers *out;
	CUDA(cudaMallocManaged(&in, 2 * n * sizeof(wide)));
	CUDA(cudaMallocManaged(&out, n * sizeof(Answers)));
	Random random;
	for (int i = 0; i < 2 * n; i++) {
		for (int part = 0; part < 4; part++)
			in[i] = in[i] << 32 | random.next();
		in[i] = in[i] >> (random.next() >> 25) | 1;
	}
	kernel<<<(n + 127) / 128, 128>>>(in, out, n);
	CUDA(cudaGetLastError());
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++) {
		Answers want;
		compute(in[2 * i], in[2 * i + 1], &want);
		CHECK(out[i].product == want.product);
		CHECK(out[i].quotient == want.quotient);
		CHECK(out[i].remainder == want.remainder);
		CHECK(out[i].shifted == want.shifted);
		CHECK(out[i].difference == want.difference);
	}
	std::puts("ok wide");
}
// expect: ok wide
