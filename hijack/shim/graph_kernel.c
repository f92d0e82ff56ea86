/* Kernel nodes. Their parameters are sent as one block, like those of a launch. */
#include <stdlib.h>

#include "function.h"
#include "objects.h"
#include "session.h"

/* The parameters that cuGraphKernelNodeGetParams returns a pointer to. They are valid until the
 * node is destroyed or queried again. */
struct node_parameters {
	unsigned char *block;
	void **each;
};

static CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = old->func,
		.gridDimX = old->gridDimX,
		.gridDimY = old->gridDimY,
		.gridDimZ = old->gridDimZ,
		.blockDimX = old->blockDimX,
		.blockDimY = old->blockDimY,
		.blockDimZ = old->blockDimZ,
		.sharedMemBytes = old->sharedMemBytes,
		.kernelParams = old->kernelParams,
		.extra = old->extra,
	};
}

static CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	return phos_function_handle(parameters->func != 0 ? parameters->func : parameters->kern);
}

/* Packs a node's parameters. The caller frees *block. */
static CUresult pack(const CUDA_KERNEL_NODE_PARAMS *parameters, unsigned char **block,
		     size_t *bytes)
{
	struct phos_function *f;
	struct phos_arguments arguments;
	if (parameters->gridDimX == 0 || parameters->gridDimY == 0 || parameters->gridDimZ == 0 ||
	    parameters->blockDimX == 0 || parameters->blockDimY == 0 || parameters->blockDimZ == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_function_find(function_of(parameters), &f);
	if (result == CUDA_SUCCESS)
		result = phos_arguments_of(f, parameters->kernelParams, parameters->extra,
					   &arguments);
	if (result != CUDA_SUCCESS)
		return result;
	*bytes = f->parameter_bytes;
	*block = malloc(*bytes + 1);
	if (*block == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (arguments.block != NULL) {
		memcpy(*block, arguments.block, arguments.block_bytes);
		memset(*block + arguments.block_bytes, 0, *bytes - arguments.block_bytes);
	} else
		phos_function_pack(f, arguments.each, *block);
	return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
				 size_t count, const CUDA_KERNEL_NODE_PARAMS *p)
{
	unsigned char *block;
	size_t bytes;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = pack(p, &block, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = phos_call_graphAddKernelNode(node, graph, dependencies, count, function_of(p),
					      p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
					      p->blockDimY, p->blockDimZ, p->sharedMemBytes, block,
					      bytes);
	free(block);
	return result;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
	unsigned char *block;
	size_t bytes;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = pack(p, &block, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = phos_call_graphKernelNodeSet(node, function_of(p), p->gridDimX, p->gridDimY,
					      p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ,
					      p->sharedMemBytes, block, bytes);
	free(block);
	return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS *p)
{
	unsigned char *block;
	size_t bytes;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = pack(p, &block, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = phos_call_graphExecKernelNodeSet(
		exec, node, function_of(p), p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
		p->blockDimY, p->blockDimZ, p->sharedMemBytes, block, bytes);
	free(block);
	return result;
}

/* Allocates the parameters of a node, in the form that programs expect. */
static struct node_parameters *place(CUgraphNode node, const struct phos_function *f)
{
	struct node_parameters *fresh = malloc(
		sizeof *fresh + f->parameter_count * sizeof fresh->each[0] + f->parameter_bytes);
	if (fresh == NULL)
		return NULL;
	fresh->each = (void **)(fresh + 1);
	fresh->block = (unsigned char *)(fresh->each + f->parameter_count);
	for (uint32_t i = 0; i < f->parameter_count; i++)
		fresh->each[i] = fresh->block + f->parameters[i].offset;
	/* The node's function, and with it the layout, may have changed. */
	free(phos_object_remove(node));
	if (phos_object_enter(node, fresh) == fresh)
		return fresh;
	free(fresh);
	return NULL;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
	uint64_t function = 0, bytes = 0;
	struct phos_function *f;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memset(p, 0, sizeof *p);
	CUresult result = phos_call_graphKernelNodeGet(
		node, 0, 0, &function, &p->gridDimX, &p->gridDimY, &p->gridDimZ, &p->blockDimX,
		&p->blockDimY, &p->blockDimZ, &p->sharedMemBytes, &bytes);
	if (result == CUDA_SUCCESS)
		result = phos_function_find(function, &f);
	if (result != CUDA_SUCCESS)
		return result;
	struct node_parameters *shown = place(node, f);
	if (shown == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (f->parameter_bytes > 0)
		result = phos_call_graphKernelNodeGet(
			node, (uintptr_t)shown->block, f->parameter_bytes, &function, &p->gridDimX,
			&p->gridDimY, &p->gridDimZ, &p->blockDimX, &p->blockDimY, &p->blockDimZ,
			&p->sharedMemBytes, &bytes);
	if (phos_kind_of(function) == PHOS_KIND_KERNEL)
		p->kern = function;
	else
		p->func = function;
	p->kernelParams = shown->each;
	return result;
}

/* The forms of CUDA 11 and earlier. */

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
	if (old == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_KERNEL_NODE_PARAMS parameters = widen(old);
	return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &parameters);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
	if (old == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_KERNEL_NODE_PARAMS parameters = widen(old);
	return cuGraphKernelNodeSetParams_v2(node, &parameters);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
	if (old == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_KERNEL_NODE_PARAMS parameters = widen(old);
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &parameters);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
	CUDA_KERNEL_NODE_PARAMS p;
	if (old == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = cuGraphKernelNodeGetParams_v2(node, &p);
	if (result == CUDA_SUCCESS)
		*old = (CUDA_KERNEL_NODE_PARAMS_v1){
			.func = function_of(&p),
			.gridDimX = p.gridDimX,
			.gridDimY = p.gridDimY,
			.gridDimZ = p.gridDimZ,
			.blockDimX = p.blockDimX,
			.blockDimY = p.blockDimY,
			.blockDimZ = p.blockDimZ,
			.sharedMemBytes = p.sharedMemBytes,
			.kernelParams = p.kernelParams,
			.extra = p.extra,
		};
	return result;
}
