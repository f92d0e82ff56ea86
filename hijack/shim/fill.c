/* Fills. Those of memory that the worker can address are posted without waiting. */
#include <string.h>

#include "copy.h"
#include "ranges.h"
#include "session.h"
#include "thread.h"

/* A box of patterns. */
struct fill {
	uint64_t address, pitch, columns, rows;
	unsigned int pattern, bytes;
};

/* Whether a fill lies inside of a registered range. */
static bool is_inside(const struct fill *f, const struct phos_range *range)
{
	uint64_t width, above, end;
	return !__builtin_mul_overflow(f->columns, f->bytes, &width) &&
	       !__builtin_mul_overflow(f->pitch, f->rows - 1, &above) &&
	       !__builtin_add_overflow(width, above, &end) &&
	       end <= range->bytes - (f->address - range->base) &&
	       (f->rows == 1 || f->pitch >= width) && f->address % f->bytes == 0;
}

/* Registered pages of the program that the worker cannot address: waits for the stream and fills
 * them here. */
static CUresult fill_here(const struct fill *f, const struct phos_range *range, CUstream stream)
{
	CUstreamCaptureStatus capture = 0;
	if (f->columns == 0 || f->rows == 0)
		return CUDA_SUCCESS;
	if (!is_inside(f, range))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = cuStreamIsCapturing(stream, &capture);
	if (result == CUDA_SUCCESS && capture != 0)
		return phos_refuse("a captured memset of registered private memory");
	if (result == CUDA_SUCCESS)
		result = cuStreamSynchronize(stream);
	for (uint64_t y = 0; y < f->rows && result == CUDA_SUCCESS; y++) {
		unsigned char *row = (unsigned char *)(uintptr_t)(f->address + y * f->pitch);
		for (uint64_t x = 0; x < f->columns; x++)
			memcpy(row + x * f->bytes, &f->pattern, f->bytes);
	}
	return result;
}

/* Posts a fill and does not wait. */
static CUresult start(const struct fill *f, CUstream stream)
{
	struct phos_range range;
	if (!phos_for_worker(f->address) && phos_range_find(f->address, &range) &&
	    range.kind == PHOS_RANGE_REGISTERED)
		return fill_here(f, &range, stream);
	return phos_call_memset(f->address, f->pitch, f->pattern, f->bytes, f->columns, f->rows,
				stream);
}

/* The driver documents memset as asynchronous except for page-locked host memory and managed
 * memory, which the program can read without a further call. */
static CUresult finish(const struct fill *f)
{
	CUstreamCaptureStatus capture = 0;
	CUstream stream = phos_default_stream;
	CUresult result = start(f, stream);
	if (result != CUDA_SUCCESS || !phos_host_visible(f->address))
		return result;
	result = cuStreamIsCapturing(stream, &capture);
	return result != CUDA_SUCCESS || capture != 0 ? result : cuStreamSynchronize(stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count)
{
	return finish(&(struct fill){address, 0, count, 1, value, 1});
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream)
{
	return start(&(struct fill){address, 0, count, 1, value, 1}, stream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
			 size_t height)
{
	return finish(&(struct fill){address, pitch, width, height, value, 1});
}

CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
			   size_t height, CUstream stream)
{
	return start(&(struct fill){address, pitch, width, height, value, 1}, stream);
}

CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count)
{
	return finish(&(struct fill){address, 0, count, 1, value, 2});
}

CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count, CUstream stream)
{
	return start(&(struct fill){address, 0, count, 1, value, 2}, stream);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
			  size_t height)
{
	return finish(&(struct fill){address, pitch, width, height, value, 2});
}

CUresult cuMemsetD2D16Async(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
			    size_t height, CUstream stream)
{
	return start(&(struct fill){address, pitch, width, height, value, 2}, stream);
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t count)
{
	return finish(&(struct fill){address, 0, count, 1, value, 4});
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count, CUstream stream)
{
	return start(&(struct fill){address, 0, count, 1, value, 4}, stream);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr address, size_t pitch, unsigned int value, size_t width,
			  size_t height)
{
	return finish(&(struct fill){address, pitch, width, height, value, 4});
}

CUresult cuMemsetD2D32Async(CUdeviceptr address, size_t pitch, unsigned int value, size_t width,
			    size_t height, CUstream stream)
{
	return start(&(struct fill){address, pitch, width, height, value, 4}, stream);
}
