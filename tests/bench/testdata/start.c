/* What cuInit and the first context take a program, in milliseconds. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(void)
{
	CUcontext context;
	double start = now();
	if (cuInit(0) || cuCtxCreate(&context, 0, 0))
		return 1;
	printf("%f\n", now() - start);
	return 0;
}
