/* A graph that copies memory of a program that is not dumpable: no thread of the program waits for
 * the copies and could make them. Prints the result; later work must succeed. */
#include "../driver/driver.h"
#include <sys/prctl.h>

enum { WORDS = 1000 };

int main(void)
{
	static unsigned from[WORDS], to[WORDS];
	CUdeviceptr memory;
	CUstream stream;
	CUgraph graph;
	CUgraphExec executable;
	use_gpu();
	CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	CU(cuMemAlloc(&memory, sizeof from));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < WORDS; i++)
		from[i] = i + 1;
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuMemcpyHtoDAsync(memory, from, sizeof from, stream));
	CU(cuMemcpyDtoHAsync(to, memory, sizeof to, stream));
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuGraphInstantiateWithFlags(&executable, graph, 0));
	CU(cuGraphLaunch(executable, stream));
	CUresult result = cuStreamSynchronize(stream);
	CHECK((result == CUDA_SUCCESS) == (to[WORDS - 1] == WORDS));
	memset(to, 0, sizeof to);
	CU(cuMemcpyHtoDAsync(memory, from, sizeof from, stream));
	CU(cuMemcpyDtoHAsync(to, memory, sizeof to, stream));
	CU(cuStreamSynchronize(stream));
	CHECK(memcmp(from, to, sizeof to) == 0);
	printf("ok closed %d\n", result);
	return 0;
}
