// Tiled matrix multiplication in shared memory, against the plain loop in double precision.
#include "check.h"
#include <vector>

constexpr int N = 160, TILE = 16;

__global__ void matmul(const float *a, const float *b, float *c, int n)
{
	__shared__ float left[TILE][TILE], right[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;
	for (int k = 0; k < n; k += TILE) {
		left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += left[threadIdx.y][i] * right[i][threadIdx.x];
		__syncthreads();
	}
	c[row * n + column] = sum;
}

int main()
{
	Random random;
	std::vector<float> a(N * N), b(N * N), c(N * N);
	for (auto &x : a)
		x = random.unit() - 0.5f;
	for (auto &x : b)
		x = random.unit() - 0.5f;
	float *da, *db, *dc;
	size_t bytes = N * N * sizeof(float);
	CUDA(cudaMalloc(&da, bytes));
	CUDA(cudaMalloc(&db, bytes));
	CUDA(cudaMalloc(&dc, bytes));
	CUDA(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
	CUDA(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
	matmul<<<dim3(N / TILE, N / TILE), dim3(TILE, TILE)>>>(da, db, dc, N);
	CUDA(cudaGetLastError());
	CUDA(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
	for (int row = 0; row < N; row++)
		for (int column = 0; column < N; column++) {
			double want = 0;
			for (int k = 0; k < N; k++)
				want += double(a[row * N + k]) * b[k * N + column];
			CHECK(std::fabs(want - c[row * N + column]) < 1e-4);
		}
	CUDA(cudaFree(da));
	CUDA(cudaFree(db));
	CUDA(cudaFree(dc));
	std::puts("ok matmul");
}
