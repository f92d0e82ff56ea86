/* Copy, fill and host nodes: their structs are converted to plain frames and back. */
#include "callbacks.h"
#include "copy.h"

/* The ends and the size of a copy, as the wire calls take them. */
#define COPY_WORDS(c)                                                                 \
	(c).to.program, (c).to.address, (c).to.pitch, (c).to.slice, (c).from.program, \
		(c).from.address, (c).from.pitch, (c).from.slice, (c).width, (c).height, (c).depth

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_MEMCPY3D *description, CUcontext context)
{
	struct phos_copy copy;
	CUresult result = phos_copy_of_3d(description, &copy);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphAddMemcpyNode(node, graph, dependencies, count, context,
					    COPY_WORDS(copy));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *description)
{
	struct phos_copy c;
	if (description == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_graphMemcpyNodeGet(
		node, &c.to.program, &c.to.address, &c.to.pitch, &c.to.slice, &c.from.program,
		&c.from.address, &c.from.pitch, &c.from.slice, &c.width, &c.height, &c.depth);
	if (result == CUDA_SUCCESS)
		phos_3d_of_copy(&c, description);
	return result;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *description)
{
	struct phos_copy copy;
	CUresult result = phos_copy_of_3d(description, &copy);
	return result == CUDA_SUCCESS ? phos_call_graphMemcpyNodeSet(node, COPY_WORDS(copy))
				      : result;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMCPY3D *description, CUcontext context)
{
	struct phos_copy copy;
	CUresult result = phos_copy_of_3d(description, &copy);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphExecMemcpyNodeSet(exec, node, context, COPY_WORDS(copy));
}

static CUresult check_fill(const CUDA_MEMSET_NODE_PARAMS *p)
{
	if (p == NULL || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	return phos_for_worker(p->dst) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
	CUresult result = check_fill(p);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphAddMemsetNode(node, graph, dependencies, count, context, p->dst,
					    p->pitch, p->value, p->elementSize, p->width,
					    p->height);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return phos_call_graphMemsetNodeGet(node, &p->dst, &p->pitch, &p->value, &p->elementSize,
					    &p->width, &p->height);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p)
{
	CUresult result = check_fill(p);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphMemsetNodeSet(node, p->dst, p->pitch, p->value, p->elementSize,
					    p->width, p->height);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
	CUresult result = check_fill(p);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphExecMemsetNodeSet(exec, node, context, p->dst, p->pitch, p->value,
						p->elementSize, p->width, p->height);
}

/* Host nodes run on the callback thread, which must exist before the first launch. */

static CUresult check_host(const CUDA_HOST_NODE_PARAMS *p)
{
	return p == NULL || p->fn == NULL ? CUDA_ERROR_INVALID_VALUE : phos_callbacks_start();
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			    size_t count, const CUDA_HOST_NODE_PARAMS *p)
{
	CUresult result = check_host(p);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphAddHostNode(node, graph, dependencies, count, (uintptr_t)p->fn,
					  (uintptr_t)p->userData);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p)
{
	uint64_t function = 0, user_data = 0;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_graphHostNodeGet(node, &function, &user_data);
	if (result == CUDA_SUCCESS) {
		p->fn = (CUhostFn)(uintptr_t)function;
		p->userData = (void *)(uintptr_t)user_data;
	}
	return result;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p)
{
	CUresult result = check_host(p);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphHostNodeSet(node, (uintptr_t)p->fn, (uintptr_t)p->userData);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
				      const CUDA_HOST_NODE_PARAMS *p)
{
	CUresult result = check_host(p);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_graphExecHostNodeSet(exec, node, (uintptr_t)p->fn, (uintptr_t)p->userData);
}
