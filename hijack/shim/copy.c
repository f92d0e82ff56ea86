/*
 * Copies between memory that the worker can address (device windows, the pinned arena) are posted
 * without waiting. The program's own pages are different: small sources are sent in the frame. For
 * the rest the worker copies from or to this process while the call waits.
 */
#include "copy.h"

#include <string.h>

#include "ranges.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

enum memory_type { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_ARRAY = 3, TYPE_UNIFIED = 4 };

bool phos_for_worker(uint64_t address)
{
	return phos_in_window(address) || phos_in_arena(address) || phos_range_shown(address) ||
	       phos_range_placed(address);
}

static uint32_t is_program(uint64_t address)
{
	return phos_for_worker(address) ? 0 : 1;
}

bool phos_host_visible(uint64_t address)
{
	return phos_in_arena(address) || phos_range_shown(address);
}

/* Page-locked host memory that the worker can address: unlike phos_host_visible, not managed
 * memory. */
static bool is_page_locked(uint64_t address)
{
	struct phos_range range;
	return phos_host_visible(address) && phos_range_find(address, &range) &&
	       (range.kind & (PHOS_RANGE_HOST | PHOS_RANGE_REGISTERED)) != 0;
}

/* Whether the call returns when the copy is complete, if both ends are for the worker or one is
 * pageable. The driver documents this for copies from host to host in all forms of the call, and
 * for all copies with page-locked memory in the synchronous ones; copies within device memory
 * return early even there. Managed memory counts as host memory in the synchronous calls, because
 * the program can read it without a further call. */
static bool is_synchronous(const struct phos_copy *c, bool async)
{
	uint64_t to = c->to.address, from = c->from.address;
	if (!async)
		return phos_host_visible(to) || phos_host_visible(from);
	return (c->to.program || is_page_locked(to)) && (c->from.program || is_page_locked(from));
}

static struct phos_end end_at(uint64_t address)
{
	return (struct phos_end){.program = is_program(address), .address = address};
}

/* Device pointers are checked: a wrong one would make the shim or the worker access the program's
 * pages. */
static bool is_device_pointer(uint64_t address)
{
	struct phos_range range;
	return is_program(address) == 0 ||
	       (phos_range_find(address, &range) && range.kind == PHOS_RANGE_REGISTERED);
}

static CUresult post_waiting(const struct phos_copy *c, CUstream stream)
{
	phos_self.copied_bytes = c->width * c->height * c->depth;
	return phos_call_memcpyWait(c->to.program, c->to.address, c->to.pitch, c->to.slice,
				    c->from.program, c->from.address, c->from.pitch, c->from.slice,
				    c->width, c->height, c->depth, stream);
}

/* Both ends are the program's own memory: waits for the stream and copies here. */
static CUresult copy_here(const struct phos_copy *c, CUstream stream)
{
	CUresult result = cuStreamSynchronize(stream);
	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t z = 0; z < c->depth; z++)
		for (uint64_t y = 0; y < c->height; y++)
			memmove((void *)(uintptr_t)(c->to.address + z * c->to.slice +
						    y * c->to.pitch),
				(const void *)(uintptr_t)(c->from.address + z * c->from.slice +
							  y * c->from.pitch),
				c->width);
	return CUDA_SUCCESS;
}

/* Unregistered pages of the program are read before the call returns, as the driver does.
 * Registered pages are read when the stream reaches the copy: earlier work, such as a host
 * function, may fill them. */
static CUresult await_source(const struct phos_copy *c, CUstream stream)
{
	struct phos_range range;
	CUstreamCaptureStatus capture = 0;
	if (!c->from.program || !phos_range_find(c->from.address, &range))
		return CUDA_SUCCESS;
	CUresult result = cuStreamIsCapturing(stream, &capture);
	return result != CUDA_SUCCESS || capture != 0 ? result : cuStreamSynchronize(stream);
}

CUresult phos_copy_run(const struct phos_copy *c, CUstream stream, bool async)
{
	if (c->width == 0 || c->height == 0 || c->depth == 0)
		return phos_enter_context();
	if (c->to.program && c->from.program)
		return copy_here(c, stream);
	if (c->to.program || c->from.program) {
		CUresult result = await_source(c, stream);
		if (result != CUDA_SUCCESS)
			return result;
		/* During a stream capture the session needs the source's address, not its bytes. */
		bool small = !c->to.program && c->height == 1 && c->depth == 1 &&
			     c->width <= PHOS_INLINE_MAX && !is_synchronous(c, async);
		if (small && (!phos_live() || atomic_load(phos_word(PHOS_WORD_CAPTURING)) == 0))
			return phos_call_memcpyInline(
				c->to.address, stream,
				(const unsigned char *)(uintptr_t)c->from.address, c->width);
		return post_waiting(c, stream);
	}
	if (is_synchronous(c, async))
		return post_waiting(c, stream);
	return phos_call_memcpy(c->to.address, c->to.pitch, c->to.slice, c->from.address,
				c->from.pitch, c->from.slice, c->width, c->height, c->depth,
				stream);
}

static CUresult copy_line(uint64_t to, uint64_t from, size_t bytes, CUstream stream, bool async)
{
	if (bytes != 0 && (to == 0 || from == 0))
		return CUDA_ERROR_INVALID_VALUE;
	struct phos_copy copy = {
		.to = end_at(to),
		.from = end_at(from),
		.width = bytes,
		.height = 1,
		.depth = 1,
	};
	return phos_copy_run(&copy, stream, async);
}

/* Finds the start address of one end of a box. */
static CUresult place_end(struct phos_end *end, CUmemorytype type, uint64_t host, uint64_t device)
{
	switch ((enum memory_type)type) {
	case TYPE_HOST:
		*end = end_at(host);
		return host == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case TYPE_DEVICE:
		*end = end_at(device);
		return device == 0 || !is_device_pointer(device) ? CUDA_ERROR_INVALID_VALUE
								 : CUDA_SUCCESS;
	case TYPE_UNIFIED:
		*end = end_at(device);
		return device == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case TYPE_ARRAY:
		return phos_refuse("a copy with a CUDA array");
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Applies offsets, pitch and height; 0 has the driver's meaning. */
static CUresult shape_end(struct phos_end *end, const struct phos_copy *copy, size_t x, size_t y,
			  size_t z, size_t pitch, size_t height)
{
	if (pitch == 0)
		pitch = copy->width;
	if (height == 0)
		height = copy->height;
	if (pitch < copy->width && copy->height > 1)
		return CUDA_ERROR_INVALID_VALUE;
	end->pitch = pitch;
	end->slice = pitch * height;
	end->address += z * end->slice + y * end->pitch + x;
	return CUDA_SUCCESS;
}

CUresult phos_copy_of_3d(const CUDA_MEMCPY3D *d, struct phos_copy *copy)
{
	if (d == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	copy->width = d->WidthInBytes;
	copy->height = d->Height;
	copy->depth = d->Depth;
	CUresult result =
		place_end(&copy->to, d->dstMemoryType, (uintptr_t)d->dstHost, d->dstDevice);
	if (result == CUDA_SUCCESS)
		result = place_end(&copy->from, d->srcMemoryType, (uintptr_t)d->srcHost,
				   d->srcDevice);
	if (result == CUDA_SUCCESS)
		result = shape_end(&copy->to, copy, d->dstXInBytes, d->dstY, d->dstZ, d->dstPitch,
				   d->dstHeight);
	if (result == CUDA_SUCCESS)
		result = shape_end(&copy->from, copy, d->srcXInBytes, d->srcY, d->srcZ, d->srcPitch,
				   d->srcHeight);
	return result;
}

void phos_3d_of_copy(const struct phos_copy *copy, CUDA_MEMCPY3D *d)
{
	memset(d, 0, sizeof *d);
	d->WidthInBytes = copy->width;
	d->Height = copy->height;
	d->Depth = copy->depth;
	d->dstMemoryType = copy->to.program ? TYPE_HOST : TYPE_DEVICE;
	d->dstHost = (void *)(uintptr_t)(copy->to.program ? copy->to.address : 0);
	d->dstDevice = copy->to.program ? 0 : copy->to.address;
	d->dstPitch = copy->to.pitch;
	d->dstHeight = copy->to.pitch == 0 ? copy->height : copy->to.slice / copy->to.pitch;
	d->srcMemoryType = copy->from.program ? TYPE_HOST : TYPE_DEVICE;
	d->srcHost = (void *)(uintptr_t)(copy->from.program ? copy->from.address : 0);
	d->srcDevice = copy->from.program ? 0 : copy->from.address;
	d->srcPitch = copy->from.pitch;
	d->srcHeight = copy->from.pitch == 0 ? copy->height : copy->from.slice / copy->from.pitch;
}

static CUresult run_3d(const CUDA_MEMCPY3D *description, CUstream stream, bool async)
{
	struct phos_copy copy;
	CUresult result = phos_copy_of_3d(description, &copy);
	return result == CUDA_SUCCESS ? phos_copy_run(&copy, stream, async) : result;
}

static CUresult run_2d(const CUDA_MEMCPY2D *d, CUstream stream, bool async)
{
	if (d == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D box = {
		.srcXInBytes = d->srcXInBytes,
		.srcY = d->srcY,
		.srcMemoryType = d->srcMemoryType,
		.srcHost = d->srcHost,
		.srcDevice = d->srcDevice,
		.srcPitch = d->srcPitch,
		.dstXInBytes = d->dstXInBytes,
		.dstY = d->dstY,
		.dstMemoryType = d->dstMemoryType,
		.dstHost = d->dstHost,
		.dstDevice = d->dstDevice,
		.dstPitch = d->dstPitch,
		.WidthInBytes = d->WidthInBytes,
		.Height = d->Height,
		.Depth = 1,
	};
	return run_3d(&box, stream, async);
}

/* The contexts are ignored: the addresses determine the devices. */
static CUresult run_3d_peer(const CUDA_MEMCPY3D_PEER *description, CUstream stream, bool async)
{
	CUDA_MEMCPY3D box;
	if (description == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	_Static_assert(sizeof box == sizeof *description, "the two differ in reserved fields only");
	memcpy(&box, description, sizeof box);
	return run_3d(&box, stream, async);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy_line(to, from, bytes, phos_default_stream, false);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_line(to, from, bytes, stream, true);
}

/* A copy with one side declared as device memory. */
static CUresult copy_checked(CUdeviceptr device, uint64_t to, uint64_t from, size_t bytes,
			     CUstream stream, bool async)
{
	if (bytes != 0 && !is_device_pointer(device))
		return phos_live() ? CUDA_ERROR_INVALID_VALUE : phos_enter();
	return copy_line(to, from, bytes, stream, async);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return copy_checked(to, to, (uintptr_t)from, bytes, phos_default_stream, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy_checked(to, to, (uintptr_t)from, bytes, stream, true);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return copy_checked(from, (uintptr_t)to, from, bytes, phos_default_stream, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_checked(from, (uintptr_t)to, from, bytes, stream, true);
}

/* A copy with both sides declared as device memory. */
static CUresult copy_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
			    bool async)
{
	if (bytes != 0 && !is_device_pointer(to))
		return phos_live() ? CUDA_ERROR_INVALID_VALUE : phos_enter();
	return copy_checked(from, to, from, bytes, stream, async);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy_device(to, from, bytes, phos_default_stream, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_device(to, from, bytes, stream, true);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *description)
{
	return run_2d(description, phos_default_stream, false);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *description)
{
	return run_2d(description, phos_default_stream, false);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *description, CUstream stream)
{
	return run_2d(description, stream, true);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *description)
{
	return run_3d(description, phos_default_stream, false);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *description, CUstream stream)
{
	return run_3d(description, stream, true);
}

/* "Serialized with respect to all pending and future asynchronous work into the current context and
 * both others": half of that, before or after the copy. */
static CUresult order_contexts(CUcontext to, CUcontext from, bool after)
{
	CUcontext current = 0;
	CUresult result = cuCtxGetCurrent(&current);
	CUcontext all[3] = {current, to, from};
	for (int i = 0; i < 3 && result == CUDA_SUCCESS; i++) {
		if (all[i] == 0 || (i > 0 && all[i] == current) || (i == 2 && all[i] == to))
			continue;
		result = phos_call_peerOrder(all[i], after, phos_default_stream);
	}
	return result;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
		      CUcontext from_context, size_t bytes)
{
	CUresult result = order_contexts(to_context, from_context, false);
	if (result == CUDA_SUCCESS)
		result = copy_device(to, from, bytes, phos_default_stream, false);
	if (result == CUDA_SUCCESS)
		result = order_contexts(to_context, from_context, true);
	return result;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
			   CUcontext from_context, size_t bytes, CUstream stream)
{
	(void)to_context;
	(void)from_context;
	return copy_device(to, from, bytes, stream, true);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *description)
{
	return run_3d_peer(description, phos_default_stream, false);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *description, CUstream stream)
{
	return run_3d_peer(description, stream, true);
}
