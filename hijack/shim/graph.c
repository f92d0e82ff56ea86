/* Graphs: listing their nodes and edges, and other calls that are more than one frame. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "session.h"
#include "zz_calls.h"

enum listing { ALL_NODES, ROOTS, EDGES, DEPENDENCIES, DEPENDENTS };
enum { INSTANTIATE_SUCCESS = 0, INSTANTIATE_ERROR = 1, INSTANTIATE_UPLOAD = 2 };
enum { UPDATE_SUCCESS = 0 };

#define MOST_EDGES (1u << 24)

/* Lists nodes as the driver does. Without an array it only returns their number. With one, *count
 * is its capacity, and then the number of nodes. The rest of the array is set to 0. */
static CUresult list(CUgraph graph, CUgraphNode node, enum listing what, CUgraphNode *first,
		     CUgraphNode *second, size_t *count)
{
	uint64_t there = 0, room = first == NULL ? 0 : *count;
	if (room > MOST_EDGES)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_graphNodes(graph, node, what, (uintptr_t)first,
					       (uintptr_t)second, room, &there);
	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t i = there; i < room; i++) {
		first[i] = 0;
		if (second != NULL)
			second[i] = 0;
	}
	*count = first == NULL || there < room ? there : room;
	return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return count == NULL ? CUDA_ERROR_INVALID_VALUE
			     : list(graph, 0, ALL_NODES, nodes, NULL, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return count == NULL ? CUDA_ERROR_INVALID_VALUE : list(graph, 0, ROOTS, nodes, NULL, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	if (count == NULL || (from == NULL) != (to == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	return list(graph, 0, EDGES, from, to, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return count == NULL ? CUDA_ERROR_INVALID_VALUE
			     : list(0, node, DEPENDENCIES, nodes, NULL, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return count == NULL ? CUDA_ERROR_INVALID_VALUE
			     : list(0, node, DEPENDENTS, nodes, NULL, count);
}

/* Edges have no data here: the driver would return that of plain dependencies. */

static void plain_edges(CUgraphEdgeData *edges, const CUgraphNode *nodes, const size_t *count)
{
	if (edges != NULL && nodes != NULL)
		memset(edges, 0, *count * sizeof *edges);
}

/* Whether all edges are plain dependencies. */
static bool are_plain(const CUgraphEdgeData *edges, size_t count)
{
	for (size_t i = 0; edges != NULL && i < count; i++)
		if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0)
			return false;
	return true;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
			    CUgraphEdgeData *edges, size_t *count)
{
	CUresult result = cuGraphGetEdges(graph, from, to, count);
	if (result == CUDA_SUCCESS)
		plain_edges(edges, from, count);
	return result;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
				       size_t *count)
{
	CUresult result = cuGraphNodeGetDependencies(node, nodes, count);
	if (result == CUDA_SUCCESS)
		plain_edges(edges, nodes, count);
	return result;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
					 CUgraphEdgeData *edges, size_t *count)
{
	CUresult result = cuGraphNodeGetDependentNodes(node, nodes, count);
	if (result == CUDA_SUCCESS)
		plain_edges(edges, nodes, count);
	return result;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edges, size_t count)
{
	if (!are_plain(edges, count))
		return phos_refuse("cuGraphAddDependencies with data on edges");
	return cuGraphAddDependencies(graph, from, to, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				      const CUgraphEdgeData *edges, size_t count)
{
	if (!are_plain(edges, count))
		return phos_refuse("cuGraphRemoveDependencies with data on edges");
	return cuGraphRemoveDependencies(graph, from, to, count);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	if (parameters == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	parameters->hErrNode_out = 0;
	CUresult result = cuGraphInstantiateWithFlags(exec, graph, parameters->flags);
	if (result == CUDA_SUCCESS && (parameters->flags & INSTANTIATE_UPLOAD) != 0)
		result = cuGraphUpload(*exec, parameters->hUploadStream);
	parameters->result_out = result == CUDA_SUCCESS ? INSTANTIATE_SUCCESS : INSTANTIATE_ERROR;
	return result;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	unsigned int update = UPDATE_SUCCESS;
	if (info == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memset(info, 0, sizeof *info);
	CUresult result = phos_call_graphExecUpdate(exec, graph, &update, &info->errorNode);
	info->result = (CUgraphExecUpdateResult)update;
	return result;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
			   CUgraphExecUpdateResult *update)
{
	CUgraphExecUpdateResultInfo info;
	CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
	if (error_node != NULL)
		*error_node = info.errorNode;
	if (update != NULL)
		*update = info.result;
	return result;
}

static CUresult write_file(const char *path, const char *text, size_t bytes)
{
	int saved = errno;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	ssize_t put = 0;
	while (fd >= 0 && bytes > 0 && (put = write(fd, text, bytes)) > 0) {
		text += put;
		bytes -= (size_t)put;
	}
	if (fd >= 0)
		close(fd);
	errno = saved;
	return fd < 0 || bytes > 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
	uint64_t bytes = 0, room;
	char *text = NULL;
	if (path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_graphDot(graph, flags, 0, 0, &bytes);
	/* Retry if the graph has grown in between. */
	do {
		room = bytes;
		char *grown = result == CUDA_SUCCESS ? realloc(text, room + 1) : NULL;
		if (grown == NULL)
			break;
		text = grown;
		result = phos_call_graphDot(graph, flags, (uintptr_t)text, room, &bytes);
	} while (result == CUDA_SUCCESS && bytes > room);
	if (result == CUDA_SUCCESS)
		result = text == NULL ? CUDA_ERROR_OUT_OF_MEMORY : write_file(path, text, bytes);
	free(text);
	return result;
}
