/* lastblock: the last memory of a GPU without a context is released while a stream of another GPU
 * waits for a word that a later call writes. Needs two GPUs. */
#include "mapping.h"

// expect: ok lastblock

enum { BYTES = 2 << 20 };

int main(void)
{
	CUstream waits, other;
	CUdeviceptr word;
	use_gpu();
	CU(D(cuStreamCreate)(&waits, CU_STREAM_NON_BLOCKING));
	CU(D(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
	CU(D(cuMemAlloc)(&word, 4));
	CU(D(cuMemsetD32)(word, 0, 1));
	CU(D(cuStreamWaitValue32)(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	where.location.id = 1;
	CU(D(cuMemRelease)(memory(BYTES)));
	CU(D(cuMemRelease)(memory(BYTES))); /* the GPU is there again */
	CHECK(D(cuStreamQuery)(waits) == CUDA_ERROR_NOT_READY);
	CU(D(cuStreamWriteValue32)(other, word, 1, 0));
	CU(D(cuStreamSynchronize)(waits));
	CU(D(cuMemFree)(word));
	puts("ok lastblock");
	return 0;
}
