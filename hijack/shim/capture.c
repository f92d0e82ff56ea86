/* Stream capture. While the session's count of active captures is 0, all queries are answered here.
 */
#include <stdlib.h>

#include "session.h"
#include "thread.h"
#include "zz_calls.h"

enum { STATUS_NONE = 0 };
enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };

#define MOST_DEPENDENCIES (1u << 20)

static bool nothing_captures(void)
{
	return atomic_load_explicit(phos_word(PHOS_WORD_CAPTURING), memory_order_acquire) == 0;
}

/* The state of a stream's capture. */
struct capture {
	CUstreamCaptureStatus status;
	uint64_t id;
	CUgraph graph;
	uint64_t count;
};

/* Asks the session, with space for the nodes if the program wants them. The returned pointer is
 * valid until the thread's next query. */
static CUresult ask(CUstream stream, bool nodes, struct capture *capture)
{
	struct phos_thread *t = &phos_self;
	for (;;) {
		uint64_t room = nodes ? t->capture_room : 0;
		CUresult result = phos_call_streamCaptureInfo(
			stream, room == 0 ? 0 : (uintptr_t)t->capture_nodes, room, &capture->status,
			&capture->id, &capture->graph, &capture->count);
		if (result != CUDA_SUCCESS || !nodes || capture->count <= room)
			return result;
		if (capture->count > MOST_DEPENDENCIES)
			return CUDA_ERROR_UNKNOWN;
		CUgraphNode *grown = realloc(t->capture_nodes, capture->count * sizeof *grown);
		if (grown == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		t->capture_nodes = grown;
		t->capture_room = capture->count;
	}
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	struct capture capture = {0};
	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result == CUDA_SUCCESS && !nothing_captures())
		result = ask(stream, false, &capture);
	if (result == CUDA_SUCCESS)
		*status = capture.status;
	return result;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id)
{
	return cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id,
				   CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
	struct capture capture = {0};
	if (status == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result == CUDA_SUCCESS && !nothing_captures())
		result = ask(stream, nodes != NULL, &capture);
	if (result != CUDA_SUCCESS)
		return result;
	*status = capture.status;
	if (capture.status == STATUS_NONE)
		return CUDA_SUCCESS;
	if (id != NULL)
		*id = capture.id;
	if (graph != NULL)
		*graph = capture.graph;
	if (nodes != NULL)
		*nodes = phos_self.capture_nodes;
	if (count != NULL)
		*count = capture.count;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id,
				   CUgraph *graph, const CUgraphNode **nodes,
				   const CUgraphEdgeData **edges, size_t *count)
{
	/* Edges have no data here. */
	if (edges != NULL)
		*edges = NULL;
	return cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
				     const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
				     size_t count, CUstreamCaptureMode mode)
{
	(void)edges;
	return phos_call_streamBeginCaptureToGraph(stream, graph, dependencies, count, mode);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *edges, size_t count,
					      unsigned int flags)
{
	(void)edges;
	return cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags);
}

/* The mode belongs to the thread and is sent in the flags of its frames. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	if (mode == NULL || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	CUstreamCaptureMode before = phos_self.capture_mode;
	phos_self.capture_mode = (uint8_t)*mode;
	*mode = before;
	return CUDA_SUCCESS;
}
