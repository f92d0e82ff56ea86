/* How many blocks of a function a multiprocessor holds. */
#include "answers.h"
#include "function.h"
#include "session.h"
#include "thread.h"

enum device_attribute {
	MAX_THREADS_PER_BLOCK = 1,
	WARP_SIZE = 10,
	MULTIPROCESSORS = 16,
};

/* cuBLAS asks before each product of matrices. The answer depends on the current context where the
 * function is a kernel, and on the function's attributes; a change of these forgets it. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
							      int threads, size_t shared_bytes,
							      unsigned int flags)
{
	CUresult result = blocks == NULL ? CUDA_ERROR_INVALID_VALUE : phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t handle = phos_function_handle(function), known;
	struct phos_question question = phos_question(
		PHOS_CALL_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, handle,
		phos_self.current, (uint64_t)flags << 32 | (uint32_t)threads, shared_bytes);
	if (phos_answer_find(&question, &known)) {
		*blocks = (int)known;
		return CUDA_SUCCESS;
	}
	result = phos_call_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		blocks, handle, threads, shared_bytes, flags);
	if (result == CUDA_SUCCESS)
		phos_answer_enter(&question, (uint32_t)*blocks);
	return result;
}

/* Returns the block size with the most threads on a multiprocessor, the largest among equals. */
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
						   CUoccupancyB2DSize shared_of_block,
						   size_t shared_bytes, int limit,
						   unsigned int flags)
{
	struct phos_function *f;
	if (grid == NULL || block == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_function_find(function, &f);
	if (result != CUDA_SUCCESS)
		return result;
	if (f->device == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	int warp = f->device[WARP_SIZE] > 0 ? f->device[WARP_SIZE] : 32;
	int most = atomic_load(&f->attributes[PHOS_FUNCTION_MAX_THREADS]);
	if (most <= 0 || most > f->device[MAX_THREADS_PER_BLOCK])
		most = f->device[MAX_THREADS_PER_BLOCK];
	if (limit > 0 && limit < most)
		most = limit;
	int best_threads = 0, first = (most + warp - 1) / warp * warp;
	*grid = *block = 0;
	for (int rounded = first; rounded > 0; rounded -= warp) {
		int threads = rounded < most ? rounded : most, blocks = 0;
		size_t bytes = shared_of_block != NULL ? shared_of_block(threads) : shared_bytes;
		result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&blocks, function, threads, bytes, flags);
		if (result != CUDA_SUCCESS)
			return result;
		if (blocks * threads > best_threads) {
			best_threads = blocks * threads;
			*block = threads;
			*grid = blocks * f->device[MULTIPROCESSORS];
		}
	}
	return CUDA_SUCCESS;
}
