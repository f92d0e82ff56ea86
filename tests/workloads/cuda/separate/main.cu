// A kernel that calls a function and uses a variable of another file: nvcc -rdc=true leaves the
// linking to the driver.
#include "../check.h"

extern __device__ int scale;
extern __device__ int twist(int x);

__global__ void run(int *p)
{
	p[threadIdx.x] = twist(threadIdx.x);
}

int main()
{
	int *p, result[32];
	CUDA(cudaMalloc(&p, sizeof result));
	for (int factor : {3, 5}) {
		if (factor != 3)
			CUDA(cudaMemcpyToSymbol(scale, &factor, sizeof factor));
		run<<<1, 32>>>(p);
		CUDA(cudaGetLastError());
		CUDA(cudaMemcpy(result, p, sizeof result, cudaMemcpyDeviceToHost));
		for (int i = 0; i < 32; i++)
			CHECK(result[i] == i * factor + 1);
	}
	puts("ok separate");
}
