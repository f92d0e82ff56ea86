// A kernel takes memory by malloc and keeps the pointer in a variable. The argument says how it is
// launched: not at all, by itself, or in a graph.
#include <cstdio>
#include <cstring>

#include "hold.h"

__device__ int *kept;

__global__ void take(int count)
{
	if (threadIdx.x == 0)
		kept = new int[count];
	__syncthreads();
	kept[threadIdx.x] = threadIdx.x;
}

__global__ void sum(int count, int *result)
{
	for (int i = 0; i < count; i++)
		*result += kept[i];
}

#define OK(call)                                                                \
	do {                                                                    \
		cudaError_t failed_ = call;                                     \
		if (failed_ != cudaSuccess) {                                   \
			printf("%s: %s\n", #call, cudaGetErrorString(failed_)); \
			return 1;                                               \
		}                                                               \
	} while (0)

int main(int argc, char **argv)
{
	const int count = 64;
	const char *how = argc > 1 ? argv[1] : "launched";
	cudaFuncAttributes attributes;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t executable;
	int *result, got = 0;
	OK(cudaMallocManaged(&result, sizeof *result));
	*result = 0;
	OK(cudaFuncGetAttributes(&attributes, take));
	OK(cudaStreamCreate(&stream));
	if (strcmp(how, "graph") == 0) {
		OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		take<<<1, count, 0, stream>>>(count);
		OK(cudaStreamEndCapture(stream, &graph));
		OK(cudaGraphInstantiate(&executable, graph, 0));
		OK(cudaGraphLaunch(executable, stream));
	} else if (strcmp(how, "launched") == 0) {
		take<<<1, count, 0, stream>>>(count);
	}
	OK(cudaStreamSynchronize(stream));
	puts("0");
	fflush(stdout);
	hold();
	if (strcmp(how, "loaded") == 0)
		take<<<1, count, 0, stream>>>(count);
	sum<<<1, 1, 0, stream>>>(count, result);
	OK(cudaStreamSynchronize(stream));
	got = *result;
	printf("sum %d\n", got);
	return got == count * (count - 1) / 2 ? 7 : 1;
}
