// Forks and execs. A child that forks before the first call can use the GPU. A child that forks
// later is refused and does not disturb its parent. A program started by exec has a new session.
#include "check.h"
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

__global__ void square(int *p)
{
	p[threadIdx.x] = threadIdx.x * threadIdx.x;
}

static void compute()
{
	int *device, host[64];
	CUDA(cudaMalloc(&device, sizeof host));
	square<<<1, 64>>>(device);
	CUDA(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++)
		CHECK(host[i] == i * i);
	CUDA(cudaFree(device));
}

static void wait_for(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && std::strcmp(argv[1], "again") == 0) {
		compute();
		return 0;
	}
	pid_t child = fork();
	if (child == 0) {
		compute();
		return 0;
	}
	wait_for(child);

	compute();
	child = fork();
	if (child == 0) {
		void *p;
		_exit(cudaMalloc(&p, 16) != cudaSuccess ? 0 : 1);
	}
	wait_for(child);

	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", argv[0], "again", nullptr);
		_exit(127);
	}
	wait_for(child);
	compute();
	std::puts("ok family");
}
