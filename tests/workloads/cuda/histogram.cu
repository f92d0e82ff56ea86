// Histograms with atomics on shared and on global memory, plus the other atomic operations on one
// word each.
#include "check.h"
#include <vector>

constexpr int BINS = 64;

__global__ void histogram(const unsigned char *data, int n, unsigned *bins)
{
	__shared__ unsigned local[BINS];
	for (int i = threadIdx.x; i < BINS; i += blockDim.x)
		local[i] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&local[data[i] % BINS], 1u);
	__syncthreads();
	for (int i = threadIdx.x; i < BINS; i += blockDim.x)
		atomicAdd(&bins[i], local[i]);
}

struct Words {
	int least, most;
	unsigned together, either, odd, ring;
	unsigned long long sum;
	float real;
	double wide;
	unsigned swapped;
};

__global__ void atomics(Words *w)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	atomicMin(&w->least, -i);
	atomicMax(&w->most, i);
	atomicAnd(&w->together, ~(1u << (i % 7)));
	atomicOr(&w->either, 1u << (i % 5));
	atomicXor(&w->odd, unsigned(i));
	atomicInc(&w->ring, 9);
	atomicAdd(&w->sum, (unsigned long long)i << 32);
	atomicAdd(&w->real, 1.0f);
	// Double addition by compare and swap, as programs did before the hardware could.
	auto *bits = reinterpret_cast<unsigned long long *>(&w->wide);
	for (unsigned long long seen = *bits, want;; seen = want) {
		want = atomicCAS(bits, seen,
				 __double_as_longlong(__longlong_as_double(seen) + 0.5));
		if (want == seen)
			break;
	}
	atomicExch(&w->swapped, 77u);
}

int main()
{
	const int n = 100000, threads = 1024;
	Random random;
	std::vector<unsigned char> data(n);
	std::vector<unsigned> want(BINS), got(BINS);
	for (auto &x : data)
		want[(x = random.next() >> 24) % BINS]++;
	unsigned char *ddata;
	unsigned *dbins;
	CUDA(cudaMalloc(&ddata, n));
	CUDA(cudaMalloc(&dbins, BINS * sizeof(unsigned)));
	CUDA(cudaMemset(dbins, 0, BINS * sizeof(unsigned)));
	CUDA(cudaMemcpy(ddata, data.data(), n, cudaMemcpyHostToDevice));
	histogram<<<12, 128>>>(ddata, n, dbins);
	CUDA(cudaMemcpy(got.data(), dbins, BINS * sizeof(unsigned), cudaMemcpyDeviceToHost));
	for (int i = 0; i < BINS; i++)
		CHECK(got[i] == want[i]);

	Words w{}, *dw;
	w.together = ~0u;
	CUDA(cudaMalloc(&dw, sizeof w));
	CUDA(cudaMemcpy(dw, &w, sizeof w, cudaMemcpyHostToDevice));
	atomics<<<threads / 128, 128>>>(dw);
	CUDA(cudaMemcpy(&w, dw, sizeof w, cudaMemcpyDeviceToHost));
	CHECK(w.least == 1 - threads && w.most == threads - 1);
	CHECK(w.together == ~0x7fu && w.either == 0x1f && w.odd == 0);
	CHECK(w.ring == threads % 10);
	CHECK(w.sum == (unsigned long long)threads * (threads - 1) / 2 << 32);
	CHECK(w.real == threads && w.wide == threads * 0.5 && w.swapped == 77);
	std::puts("ok histogram");
}
