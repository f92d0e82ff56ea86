// Kernels with more parameters than 4 KiB, which sm_70 and later have since CUDA 12.1.
struct Huge {
	int v[8000];
};
__device__ int out;
extern "C" __global__ void huge(Huge h, char a, int n) { out = h.v[n] + a; }
extern "C" __global__ void alone(Huge h) { out = h.v[3]; }
