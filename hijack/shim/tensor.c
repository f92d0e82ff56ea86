/* Tensor maps. Their descriptions are packed into words; the driver behind the session encodes the
 * 128 bytes. */
#include <stdint.h>
#include <string.h>

#include "session.h"
#include "zz_calls.h"

enum { TILED, IM2COL, IM2COL_WIDE };
enum { MOST_DIMENSIONS = 5, MAP_ALIGNMENT = 64 };

/* abi.TensorMap. */
struct description {
	uint64_t kind, type, rank, address;
	uint64_t sizes[5], strides[4], box[5], steps[5];
	int64_t lower[3], upper[3];
	uint64_t channels, pixels, mode;
	uint64_t interleave, swizzle, promotion, fill;
};

_Static_assert(sizeof(struct description) == 288, "abi.TensorMapBytes");

static bool is_placed(const CUtensorMap *map)
{
	return map != NULL && (uintptr_t)map % MAP_ALIGNMENT == 0;
}

/* The arguments that all kinds have under the same names: the beginning of a description. */
#define DESCRIBED_AS(kind_)                                                                   \
	.kind = (kind_), .type = (uint32_t)type, .rank = rank, .address = (uintptr_t)address, \
	.interleave = (uint32_t)interleave, .swizzle = (uint32_t)swizzle,                     \
	.promotion = (uint32_t)promotion, .fill = (uint32_t)fill

/* Fills in the lists that all kinds have. */
static CUresult describe(struct description *d, const CUtensorMap *map, const uint64_t *sizes,
			 const uint64_t *strides, const uint32_t *steps)
{
	if (!is_placed(map) || d->rank == 0 || d->rank > MOST_DIMENSIONS || sizes == NULL ||
	    steps == NULL || (strides == NULL && d->rank > 1))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < d->rank; i++) {
		d->sizes[i] = sizes[i];
		d->steps[i] = steps[i];
		if (i + 1 < d->rank)
			d->strides[i] = strides[i];
	}
	return CUDA_SUCCESS;
}

static CUresult encode(const struct description *d, CUtensorMap *map)
{
	CUtensorMap made;
	CUresult result =
		phos_call_tensorMap((const unsigned char *)d, sizeof *d, (uintptr_t)&made);
	if (result == CUDA_SUCCESS)
		*map = made;
	return result;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, unsigned int rank,
				void *address, const uint64_t *sizes, const uint64_t *strides,
				const uint32_t *box, const uint32_t *steps,
				CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
				CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	struct description d = {DESCRIBED_AS(TILED)};
	CUresult result = describe(&d, map, sizes, strides, steps);
	if (result != CUDA_SUCCESS)
		return result;
	if (box == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < rank; i++)
		d.box[i] = box[i];
	return encode(&d, map);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, unsigned int rank,
				 void *address, const uint64_t *sizes, const uint64_t *strides,
				 const int *lower, const int *upper, unsigned int channels,
				 unsigned int pixels, const uint32_t *steps,
				 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
				 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	struct description d = {
		DESCRIBED_AS(IM2COL),
		.channels = channels,
		.pixels = pixels,
	};
	CUresult result = describe(&d, map, sizes, strides, steps);
	if (result != CUDA_SUCCESS)
		return result;
	if (rank < 3 || lower == NULL || upper == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < rank - 2; i++) {
		d.lower[i] = lower[i];
		d.upper[i] = upper[i];
	}
	return encode(&d, map);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, unsigned int rank,
				     void *address, const uint64_t *sizes, const uint64_t *strides,
				     int lower, int upper, unsigned int channels,
				     unsigned int pixels, const uint32_t *steps,
				     CUtensorMapInterleave interleave,
				     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
				     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	struct description d = {
		DESCRIBED_AS(IM2COL_WIDE), .lower[0] = lower, .upper[0] = upper,
		.channels = channels,      .pixels = pixels,  .mode = (uint32_t)mode,
	};
	CUresult result = describe(&d, map, sizes, strides, steps);
	return result == CUDA_SUCCESS ? encode(&d, map) : result;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
	CUtensorMap made;
	if (!is_placed(map))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_tensorMapReplace((const unsigned char *)map, sizeof *map,
						     (uintptr_t)address, (uintptr_t)&made);
	if (result == CUDA_SUCCESS)
		*map = made;
	return result;
}
