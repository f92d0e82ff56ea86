/* Calls of CUDA 12 that add or change a node of any type. */
#include "session.h"
#include "zz_calls.h"

enum node_type {
	KERNEL,
	MEMCPY,
	MEMSET,
	HOST,
	GRAPH,
	EMPTY,
	WAIT_EVENT,
	EVENT_RECORD,
	MEMORY_OPS = 12
};

static CUDA_MEMSET_NODE_PARAMS fill_of(const CUgraphNodeParams *p)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = p->memset.dst,
		.pitch = p->memset.pitch,
		.value = p->memset.value,
		.elementSize = p->memset.elementSize,
		.width = p->memset.width,
		.height = p->memset.height,
	};
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			size_t count, CUgraphNodeParams *p)
{
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMSET_NODE_PARAMS fill = fill_of(p);
	switch ((enum node_type)p->type) {
	case KERNEL:
		return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &p->kernel);
	case MEMCPY:
		return cuGraphAddMemcpyNode(node, graph, dependencies, count, &p->memcpy.copyParams,
					    p->memcpy.copyCtx);
	case MEMSET:
		return cuGraphAddMemsetNode(node, graph, dependencies, count, &fill, p->memset.ctx);
	case HOST:
		return cuGraphAddHostNode(node, graph, dependencies, count, &p->host);
	case GRAPH:
		return cuGraphAddChildGraphNode(node, graph, dependencies, count, p->graph.graph);
	case EMPTY:
		return cuGraphAddEmptyNode(node, graph, dependencies, count);
	case WAIT_EVENT:
		return cuGraphAddEventWaitNode(node, graph, dependencies, count, p->event.event);
	case EVENT_RECORD:
		return cuGraphAddEventRecordNode(node, graph, dependencies, count, p->event.event);
	case MEMORY_OPS:
		return cuGraphAddBatchMemOpNode(node, graph, dependencies, count, &p->memOp);
	}
	return phos_refuse("cuGraphAddNode of a type beyond kernel, memcpy, memset, host, graph, "
			   "empty, event and batch memory operation");
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t count,
			   CUgraphNodeParams *parameters)
{
	for (size_t i = 0; edges != NULL && i < count; i++)
		if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0)
			return phos_refuse("cuGraphAddNode with data on edges");
	return cuGraphAddNode(node, graph, dependencies, count, parameters);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMSET_NODE_PARAMS fill = fill_of(p);
	switch ((enum node_type)p->type) {
	case KERNEL:
		return cuGraphKernelNodeSetParams_v2(node, &p->kernel);
	case MEMCPY:
		return cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
	case MEMSET:
		return cuGraphMemsetNodeSetParams(node, &fill);
	case HOST:
		return cuGraphHostNodeSetParams(node, &p->host);
	case WAIT_EVENT:
		return cuGraphEventWaitNodeSetEvent(node, p->event.event);
	case EVENT_RECORD:
		return cuGraphEventRecordNodeSetEvent(node, p->event.event);
	case MEMORY_OPS:
		return cuGraphBatchMemOpNodeSetParams(node, &p->memOp);
	case GRAPH:
	case EMPTY:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return phos_refuse("cuGraphNodeSetParams of this type of node");
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMSET_NODE_PARAMS fill = fill_of(p);
	switch ((enum node_type)p->type) {
	case KERNEL:
		return cuGraphExecKernelNodeSetParams_v2(exec, node, &p->kernel);
	case MEMCPY:
		return cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams,
						      p->memcpy.copyCtx);
	case MEMSET:
		return cuGraphExecMemsetNodeSetParams(exec, node, &fill, p->memset.ctx);
	case HOST:
		return cuGraphExecHostNodeSetParams(exec, node, &p->host);
	case GRAPH:
		return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
	case WAIT_EVENT:
		return cuGraphExecEventWaitNodeSetEvent(exec, node, p->event.event);
	case EVENT_RECORD:
		return cuGraphExecEventRecordNodeSetEvent(exec, node, p->event.event);
	case MEMORY_OPS:
		return cuGraphExecBatchMemOpNodeSetParams(exec, node, &p->memOp);
	case EMPTY:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return phos_refuse("cuGraphExecNodeSetParams of this type of node");
}
