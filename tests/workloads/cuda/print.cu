// printf from kernels, and an assert that holds. The runner compares the output with the lines of
// "expect".
// expect: thread 0 says hello, 1.50, 0x2a
// expect: thread 1 says hello, 3.00, 0x2b
// expect: thread 2 says hello, 4.50, 0x2c
// expect: done 3
#include "check.h"
#include <cassert>

__global__ void greet(int turn)
{
	if (int(threadIdx.x) == turn)
		printf("thread %d says %s, %.2f, %#x\n", threadIdx.x, "hello", 1.5 * (turn + 1),
		       42 + turn);
	assert(turn < 3);
}

__global__ void done(long long count)
{
	printf("done %lld\n", count);
}

int main()
{
	for (int turn = 0; turn < 3; turn++)
		greet<<<1, 32>>>(turn);
	done<<<1, 1>>>(3);
	CUDA(cudaDeviceSynchronize());
	std::puts("ok print");
}
