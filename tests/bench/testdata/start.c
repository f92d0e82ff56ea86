/* Measures cuInit and the first context of a program, in milliseconds. */
#include "clock.h"
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	CUcontext context;
	double start = now();
	if (cuInit(0) || cuCtxCreate(&context, 0, 0))
		return 1;
	printf("%f\n", (now() - start) / 1e6);
	return 0;
}
