/* Batches of copies, and of hints for managed memory. */
#include <stdbool.h>

#include "copy.h"
#include "ranges.h"
#include "session.h"
#include "zz_calls.h"

enum access_order { ORDER_STREAM = 1, ORDER_DURING_CALL = 2, ORDER_ANY = 3 };
enum { OVERLAP_WITH_COMPUTE = 1, OPERAND_POINTER = 1, OPERAND_ARRAY = 2 };
enum { LEGACY_STREAM = 1, TYPE_UNIFIED = 4 };

static bool is_order(CUmemcpySrcAccessOrder order)
{
	return order == ORDER_STREAM || order == ORDER_DURING_CALL || order == ORDER_ANY;
}

/* Checks what every batch needs: a context, and a stream other than the legacy one. */
static CUresult enter(CUstream stream)
{
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	return stream == 0 || stream == LEGACY_STREAM ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Attributes apply to runs of copies: each index is the beginning of a run. */
static CUresult check_attributes(const CUmemcpyAttributes *all, const size_t *from, size_t runs,
				 size_t count)
{
	if (all == NULL || from == NULL || runs == 0 || runs > count || from[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < runs; i++)
		if (!is_order(all[i].srcAccessOrder) ||
		    (all[i].flags & ~(unsigned)OVERLAP_WITH_COMPUTE) != 0 || from[i] >= count ||
		    (i > 0 && from[i] <= from[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attributes, size_t *indices, size_t runs,
			    size_t *failed, CUstream stream)
{
	if (failed != NULL)
		*failed = SIZE_MAX;
	CUresult result = enter(stream);
	if (result == CUDA_SUCCESS && (to == NULL || from == NULL || sizes == NULL || count == 0))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = check_attributes(attributes, indices, runs, count);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = sizes[i] == 0 ? CUDA_ERROR_INVALID_VALUE
				       : cuMemcpyAsync(to[i], from[i], sizes[i], stream);
		if (result != CUDA_SUCCESS && failed != NULL)
			*failed = i;
	}
	return result;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attributes, size_t *indices, size_t runs,
			       CUstream stream)
{
	return cuMemcpyBatchAsync(to, from, sizes, count, attributes, indices, runs, NULL, stream);
}

static CUresult copy_box(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream)
{
	if (op->src.type == OPERAND_ARRAY || op->dst.type == OPERAND_ARRAY)
		return phos_refuse("a copy with a CUDA array");
	if (op->src.type != OPERAND_POINTER || op->dst.type != OPERAND_POINTER ||
	    !is_order(op->srcAccessOrder) || (op->flags & ~(unsigned)OVERLAP_WITH_COMPUTE) != 0 ||
	    op->extent[0] == 0 || op->extent[1] == 0 || op->extent[2] == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D box = {
		.srcMemoryType = TYPE_UNIFIED,
		.srcDevice = op->src.ptr.ptr,
		.srcPitch = op->src.ptr.rowLength,
		.srcHeight = op->src.ptr.layerHeight,
		.dstMemoryType = TYPE_UNIFIED,
		.dstDevice = op->dst.ptr.ptr,
		.dstPitch = op->dst.ptr.rowLength,
		.dstHeight = op->dst.ptr.layerHeight,
		.WidthInBytes = op->extent[0],
		.Height = op->extent[1],
		.Depth = op->extent[2],
	};
	return cuMemcpy3DAsync_v2(&box, stream);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *all, size_t *failed,
			      unsigned long long flags, CUstream stream)
{
	if (failed != NULL)
		*failed = SIZE_MAX;
	CUresult result = enter(stream);
	if (result == CUDA_SUCCESS && (all == NULL || count == 0 || flags != 0))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = copy_box(&all[i], stream);
		if (result != CUDA_SUCCESS && failed != NULL)
			*failed = i;
	}
	return result;
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *all,
				 unsigned long long flags, CUstream stream)
{
	return cuMemcpy3DBatchAsync(count, all, NULL, flags, stream);
}

/* Checks ranges of managed memory. It lies in host memory and need not move. */
static CUresult check_ranges(const CUdeviceptr *all, const size_t *sizes, size_t count,
			     unsigned long long flags, CUstream stream)
{
	CUresult result = enter(stream);
	if (result == CUDA_SUCCESS && (all == NULL || sizes == NULL || count == 0 || flags != 0))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = cuMemPrefetchAsync(all[i], sizes[i], -1, stream);
	return result;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *all, size_t *sizes, size_t count,
				 CUmemLocation *places, size_t *from, size_t runs,
				 unsigned long long flags, CUstream stream)
{
	if (places == NULL || from == NULL || runs == 0 || runs > count || from[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return check_ranges(all, sizes, count, flags, stream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *all, size_t *sizes, size_t count,
				unsigned long long flags, CUstream stream)
{
	return check_ranges(all, sizes, count, flags, stream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *all, size_t *sizes, size_t count,
					   CUmemLocation *places, size_t *from, size_t runs,
					   unsigned long long flags, CUstream stream)
{
	return cuMemPrefetchBatchAsync(all, sizes, count, places, from, runs, flags, stream);
}
