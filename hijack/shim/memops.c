/* Waits for and writes of words in memory, in stream order and in graphs. */
#include <stdlib.h>

#include "copy.h"
#include "objects.h"
#include "session.h"
#include "zz_calls.h"

enum op { WAIT_32 = 1, WRITE_32 = 2, FLUSH = 3, WAIT_64 = 4, WRITE_64 = 5, BARRIER = 6 };
enum { MOST = 256, WORDS = 3 };

#define WAIT_FLUSHES  (1u << 30)
#define WAIT_COMPARES 3u
#define NO_BARRIER    1u
#define BARRIER_KNOWN 1u

/* Operations in the format of the wire. */
struct packed {
	size_t words;
	uint64_t each[MOST * WORDS];
};

/* Checks one operation. Barriers and flushes do nothing: a stream's operations execute in order and
 * are visible everywhere. */
static CUresult check(const CUstreamBatchMemOpParams *p)
{
	uint64_t bytes = p->operation == WAIT_64 || p->operation == WRITE_64 ? 8 : 4;
	switch ((enum op)p->operation) {
	case WAIT_32:
	case WAIT_64:
		if ((p->value.flags & WAIT_FLUSHES) != 0)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (p->value.flags > WAIT_COMPARES)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case WRITE_32:
	case WRITE_64:
		if (p->value.flags > NO_BARRIER)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case BARRIER:
		return p->barrier[1] <= BARRIER_KNOWN ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case FLUSH:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (p->value.address % bytes != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return phos_for_worker(p->value.address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pack(const CUstreamBatchMemOpParams *all, unsigned int count, struct packed *out)
{
	out->words = 0;
	if (count > MOST || (count > 0 && all == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		const CUstreamBatchMemOpParams *p = &all[i];
		CUresult result = check(p);
		if (result != CUDA_SUCCESS)
			return result;
		if (p->operation == BARRIER)
			continue;
		out->each[out->words++] = (uint64_t)p->value.flags << 32 | p->operation;
		out->each[out->words++] = p->value.address;
		out->each[out->words++] = p->value.value;
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *all,
			       unsigned int flags)
{
	struct packed packed;
	CUresult result = phos_enter_context();
	if (result == CUDA_SUCCESS)
		result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : pack(all, count, &packed);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_streamMemOps(stream, packed.each, packed.words);
}

static CUresult one(CUstream stream, enum op op, CUdeviceptr address, uint64_t value,
		    unsigned int flags)
{
	CUstreamBatchMemOpParams p = {
		.value = {.operation = op, .address = address, .value = value, .flags = flags}};
	return cuStreamBatchMemOp_v2(stream, 1, &p, 0);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
				unsigned int flags)
{
	return one(stream, WAIT_32, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
				unsigned int flags)
{
	return one(stream, WAIT_64, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
				 unsigned int flags)
{
	return one(stream, WRITE_32, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
				 unsigned int flags)
{
	return one(stream, WRITE_64, address, value, flags);
}

static CUresult pack_node(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct packed *out)
{
	if (p == NULL || p->flags != 0 || p->count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return pack(p->paramArray, p->count, out);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
				  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct packed packed;
	CUresult result = pack_node(p, &packed);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphAddMemOpsNode(node, graph, dependencies, count, packed.each,
					    packed.words);
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct packed packed;
	CUresult result = pack_node(p, &packed);
	return result == CUDA_SUCCESS
		       ? phos_call_graphMemOpsNodeSet(node, packed.each, packed.words)
		       : result;
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
					    const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct packed packed;
	CUresult result = pack_node(p, &packed);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphExecMemOpsNodeSet(exec, node, packed.each, packed.words);
}

/* The returned array belongs to the node: it is valid until the node is destroyed or queried again.
 */
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
	struct packed packed;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memset(p, 0, sizeof *p);
	CUresult result = phos_call_graphMemOpsNodeGet(node, (uintptr_t)packed.each,
						       sizeof packed.each, &packed.words);
	if (result != CUDA_SUCCESS)
		return result;
	size_t count = packed.words / WORDS;
	CUstreamBatchMemOpParams *all = calloc(count + 1, sizeof *all);
	if (all == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++) {
		const uint64_t *from = &packed.each[i * WORDS];
		all[i].value = (CUstreamBatchMemOpValue){.operation = (uint32_t)from[0],
							 .flags = (uint32_t)(from[0] >> 32),
							 .address = from[1],
							 .value = from[2]};
	}
	free(phos_object_remove(node));
	if (phos_object_enter(node, all) != all) {
		free(all);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->count = (unsigned int)count;
	p->paramArray = all;
	return CUDA_SUCCESS;
}
