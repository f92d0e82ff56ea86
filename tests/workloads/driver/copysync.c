/* Which copies return before they are done, and which do not, as the driver API's documentation
 * says in "API synchronization behavior". */
#include "synchrony.h"

/* Copies of a line, a plane and a box; of few bytes, and of more than the driver stages at once. */

static CUDA_MEMCPY2D plane(const struct row *r)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = at(r->from),
		.srcPitch = PITCH,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = at(r->to),
		.dstPitch = PITCH,
		.WidthInBytes = WIDTH,
		.Height = ROWS,
	};
}

static CUDA_MEMCPY3D box(const struct row *r)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = at(r->from),
		.srcPitch = PITCH,
		.srcHeight = ROWS / 2,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = at(r->to),
		.dstPitch = PITCH,
		.dstHeight = ROWS / 2,
		.WidthInBytes = WIDTH,
		.Height = ROWS / 2,
		.Depth = 2,
	};
}

static CUDA_MEMCPY3D_PEER peer_box(const struct row *r)
{
	CUDA_MEMCPY3D from = box(r);
	CUDA_MEMCPY3D_PEER peer = {0};
	memcpy(&peer, &from, sizeof peer < sizeof from ? sizeof peer : sizeof from);
	CU(D(cuCtxGetCurrent)(&peer.srcContext));
	peer.dstContext = peer.srcContext;
	return peer;
}

static CUcontext here(void)
{
	CUcontext context;
	CU(D(cuCtxGetCurrent)(&context));
	return context;
}

CALL(copy, D(cuMemcpy)(at(r->to), at(r->from), BYTES))
CALL(copy_small, D(cuMemcpy)(at(r->to), at(r->from), WIDTH))
CALL(copy_twin, TWIN(cuMemcpy, cuMemcpy)(at(r->to), at(r->from), BYTES))
CALL(copy_async, D(cuMemcpyAsync)(at(r->to), at(r->from), BYTES, r->stream))
CALL(copy_small_async, D(cuMemcpyAsync)(at(r->to), at(r->from), WIDTH, r->stream))
CALL(h2d, D(cuMemcpyHtoD)(at(r->to), places[r->from], BYTES))
CALL(h2d_twin, TWIN(cuMemcpyHtoD, cuMemcpyHtoD)(at(r->to), places[r->from], BYTES))
CALL(h2d_async, D(cuMemcpyHtoDAsync)(at(r->to), places[r->from], BYTES, r->stream))
CALL(d2h, D(cuMemcpyDtoH)(places[r->to], at(r->from), BYTES))
CALL(d2h_twin, TWIN(cuMemcpyDtoH, cuMemcpyDtoH)(places[r->to], at(r->from), BYTES))
CALL(d2h_async, D(cuMemcpyDtoHAsync)(places[r->to], at(r->from), BYTES, r->stream))
CALL(d2d, D(cuMemcpyDtoD)(at(r->to), at(r->from), BYTES))
CALL(d2d_twin, TWIN(cuMemcpyDtoD, cuMemcpyDtoD)(at(r->to), at(r->from), BYTES))
CALL(d2d_async, D(cuMemcpyDtoDAsync)(at(r->to), at(r->from), BYTES, r->stream))
CALL(peer, D(cuMemcpyPeer)(at(r->to), here(), at(r->from), here(), BYTES))
CALL(peer_async, D(cuMemcpyPeerAsync)(at(r->to), here(), at(r->from), here(), BYTES, r->stream))

#define BOX_CALL(name, type, shape, call)         \
	static CUresult name(const struct row *r) \
	{                                         \
		type b = shape(r);                \
		return call;                      \
	}

BOX_CALL(copy2d, CUDA_MEMCPY2D, plane, D(cuMemcpy2D)(&b))
BOX_CALL(copy2d_unaligned, CUDA_MEMCPY2D, plane, D(cuMemcpy2DUnaligned)(&b))
BOX_CALL(copy2d_twin, CUDA_MEMCPY2D, plane, TWIN(cuMemcpy2D, cuMemcpy2D)(&b))
BOX_CALL(copy2d_async, CUDA_MEMCPY2D, plane, D(cuMemcpy2DAsync)(&b, r->stream))
BOX_CALL(copy3d, CUDA_MEMCPY3D, box, D(cuMemcpy3D)(&b))
BOX_CALL(copy3d_twin, CUDA_MEMCPY3D, box, TWIN(cuMemcpy3D, cuMemcpy3D)(&b))
BOX_CALL(copy3d_async, CUDA_MEMCPY3D, box, D(cuMemcpy3DAsync)(&b, r->stream))
BOX_CALL(copy3d_peer, CUDA_MEMCPY3D_PEER, peer_box, D(cuMemcpy3DPeer)(&b))
BOX_CALL(copy3d_peer_async, CUDA_MEMCPY3D_PEER, peer_box, D(cuMemcpy3DPeerAsync)(&b, r->stream))

static int is_host(enum place place)
{
	return place >= PAGEABLE && place != MANAGED;
}

static int is_pageable(enum place place)
{
	return place == PAGEABLE || place == PAGEABLE2;
}

/* What a synchronous copy does: 1 waits, 0 does not. A copy from pageable memory synchronizes with
 * the stream before it begins. */
static int sync_waits(enum place to, enum place from)
{
	return to >= PAGEABLE || from >= PAGEABLE;
}

/* The same for an asynchronous one; -1 where both are allowed. */
static int async_waits(enum place to, enum place from)
{
	if (is_host(to) && is_host(from))
		return 1;
	if (is_pageable(to) || is_pageable(from))
		return -1;
	return 0;
}

/* One form of a copy between all places that it accepts. */
static void copies_of(const char *name, CUresult (*call)(const struct row *), CUstream stream,
		      const enum place *to, const enum place *from, int async)
{
	for (const enum place *t = to; *t != PLACES; t++)
		for (const enum place *f = from; *f != PLACES; f++) {
			int waits = async ? async_waits(*t, *f) : sync_waits(*t, *f);
			if (*t == *f || waits < 0)
				continue;
			run(&(struct row){name, call, stream, *t, *f, waits}, NEW, ": ");
		}
}

static void copies(void)
{
	static const enum place all[] = {DEVICE, PAGEABLE, PINNED, MANAGED, SHARED, PLACES};
	static const enum place sources[] = {OTHER, PAGEABLE2, PINNED2, MANAGED, SHARED, PLACES};
	static const enum place device[] = {DEVICE, MANAGED, PLACES};
	static const enum place other[] = {OTHER, MANAGED, PLACES};
	static const enum place host[] = {PAGEABLE, PINNED, SHARED, PLACES};
	static const enum place addressed[] = {DEVICE, PINNED, MANAGED, SHARED, PLACES};
	static const enum place readable[] = {OTHER, PINNED2, MANAGED, SHARED, PLACES};
	static const enum place locked[] = {PAGEABLE, PINNED, SHARED, PLACES};
	static const enum place locked_sources[] = {PAGEABLE2, PINNED2, SHARED, PLACES};
	CUstream legacy = CU_STREAM_LEGACY, mine = CU_STREAM_PER_THREAD;
	copies_of("cuMemcpy", copy, legacy, all, sources, 0);
	copies_of("cuMemcpy of few bytes", copy_small, legacy, locked, locked_sources, 0);
	copies_of("cuMemcpy_ptds", copy_twin, mine, all, sources, 0);
	copies_of("cuMemcpyAsync", copy_async, own, all, sources, 1);
	copies_of("cuMemcpyAsync of few bytes", copy_small_async, own, all, sources, 1);
	copies_of("cuMemcpyHtoD", h2d, legacy, device, host, 0);
	copies_of("cuMemcpyHtoD_ptds", h2d_twin, mine, device, host, 0);
	copies_of("cuMemcpyHtoDAsync", h2d_async, own, device, host, 1);
	copies_of("cuMemcpyDtoH", d2h, legacy, host, other, 0);
	copies_of("cuMemcpyDtoH_ptds", d2h_twin, mine, host, other, 0);
	copies_of("cuMemcpyDtoHAsync", d2h_async, own, host, other, 1);
	copies_of("cuMemcpyDtoD", d2d, legacy, addressed, readable, 0);
	copies_of("cuMemcpyDtoD_ptds", d2d_twin, mine, addressed, readable, 0);
	copies_of("cuMemcpyDtoDAsync", d2d_async, own, addressed, readable, 1);
	copies_of("cuMemcpyPeer", peer, legacy, addressed, readable, 0);
	copies_of("cuMemcpyPeerAsync", peer_async, own, addressed, readable, 1);
	copies_of("cuMemcpy2D", copy2d, legacy, all, sources, 0);
	copies_of("cuMemcpy2DUnaligned", copy2d_unaligned, legacy, all, sources, 0);
	copies_of("cuMemcpy2D_ptds", copy2d_twin, mine, all, sources, 0);
	copies_of("cuMemcpy2DAsync", copy2d_async, own, all, sources, 1);
	copies_of("cuMemcpy3D", copy3d, legacy, all, sources, 0);
	copies_of("cuMemcpy3D_ptds", copy3d_twin, mine, all, sources, 0);
	copies_of("cuMemcpy3DAsync", copy3d_async, own, all, sources, 1);
	copies_of("cuMemcpy3DPeer", copy3d_peer, legacy, all, sources, 0);
	copies_of("cuMemcpy3DPeerAsync", copy3d_peer_async, own, all, sources, 1);
}

int main(int count, char **arguments)
{
	set_up(count, arguments);
	copies();
	CHECK(rows > 0 && failures == 0);
	puts("ok copysync");
	return 0;
}
