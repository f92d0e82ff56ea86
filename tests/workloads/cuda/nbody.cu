// A few steps of the gravitational n-body problem in float, against the same steps in double on the
// CPU; vector loads, rsqrt.
#include "check.h"
#include <vector>

constexpr int N = 256, STEPS = 4;
constexpr float DT = 0.01f, SOFT = 0.05f;

__global__ void step(const float4 *in, float4 *out, float4 *speed)
{
	__shared__ float4 tile[64];
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float4 me = in[i];
	float3 pull = {0, 0, 0};
	for (int base = 0; base < N; base += 64) {
		tile[threadIdx.x] = in[base + threadIdx.x];
		__syncthreads();
#pragma unroll 4
		for (int j = 0; j < 64; j++) {
			float x = tile[j].x - me.x, y = tile[j].y - me.y, z = tile[j].z - me.z;
			float inverse = rsqrtf(x * x + y * y + z * z + SOFT);
			float force = tile[j].w * inverse * inverse * inverse;
			pull.x += x * force, pull.y += y * force, pull.z += z * force;
		}
		__syncthreads();
	}
	float4 v = speed[i];
	v.x += pull.x * DT, v.y += pull.y * DT, v.z += pull.z * DT;
	speed[i] = v;
	out[i] = make_float4(me.x + v.x * DT, me.y + v.y * DT, me.z + v.z * DT, me.w);
}

struct Body {
	double x[3], v[3], mass;
};

static void step_on_cpu(std::vector<Body> &bodies)
{
	auto before = bodies;
	for (auto &b : bodies) {
		for (const auto &o : before) {
			double d[3], square = SOFT;
			for (int k = 0; k < 3; k++)
				d[k] = o.x[k] - b.x[k], square += d[k] * d[k];
			for (int k = 0; k < 3; k++)
				b.v[k] += d[k] * o.mass / (square * std::sqrt(square)) * DT;
		}
	}
	for (auto &b : bodies)
		for (int k = 0; k < 3; k++)
			b.x[k] += b.v[k] * DT;
}

int main()
{
	Random random;
	std::vector<float4> places(N), speeds(N, make_float4(0, 0, 0, 0));
	std::vector<Body> bodies(N);
	for (int i = 0; i < N; i++) {
		places[i] = make_float4(random.unit(), random.unit(), random.unit(), random.unit());
		bodies[i] = {{places[i].x, places[i].y, places[i].z}, {0, 0, 0}, places[i].w};
	}
	float4 *dplaces[2], *dspeeds;
	size_t bytes = N * sizeof(float4);
	CUDA(cudaMalloc(&dplaces[0], bytes));
	CUDA(cudaMalloc(&dplaces[1], bytes));
	CUDA(cudaMalloc(&dspeeds, bytes));
	CUDA(cudaMemcpy(dplaces[0], places.data(), bytes, cudaMemcpyHostToDevice));
	CUDA(cudaMemcpy(dspeeds, speeds.data(), bytes, cudaMemcpyHostToDevice));
	for (int s = 0; s < STEPS; s++) {
		step<<<N / 64, 64>>>(dplaces[s % 2], dplaces[1 - s % 2], dspeeds);
		step_on_cpu(bodies);
	}
	CUDA(cudaMemcpy(places.data(), dplaces[STEPS % 2], bytes, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++) {
		CHECK(std::fabs(places[i].x - bodies[i].x[0]) < 1e-3);
		CHECK(std::fabs(places[i].y - bodies[i].x[1]) < 1e-3);
		CHECK(std::fabs(places[i].z - bodies[i].x[2]) < 1e-3);
	}
	std::puts("ok nbody");
}
