/* Graphs: captured, or built node by node; launched, changed and destroyed while they run. */
#pragma once
#include "memory.h"

struct graph {
	CUgraph native;
	CUgraphExec exec;
	int context, works;
	struct work work[NODES];
	CUgraphNode nodes[NODES]; /* of graphs that are built */
	bool captured;
	positions run;
};

static _Thread_local struct graph graphs[GRAPHS];

enum { GRAPH_VERBS = 1 << FILL | 1 << COPY | 1 << LAUNCH | 1 << WORD | 1 << HOST_ADD };

static bool depends(const struct work *later, const struct work *earlier)
{
	return later->to.b == earlier->to.b || later->to.b == earlier->from.b ||
	       later->from.b == earlier->to.b;
}

/* Work for a graph: in its own context, and only with memory that the driver knows. */
static bool for_graph(const struct work *x, int context)
{
	const struct buffer *b[2] = {x->to.b, x->from.b};
	for (int i = 0; i < 2; i++)
		if (b[i] && (b[i]->kind == PRIVATE || b[i]->kind == POOLED ||
			     (!by_host(b[i]) && b[i]->context != context)))
			return false;
	return x->verb != FILL || x->rows == 1 || x->to.pitch % 4 == 0;
}

static void hold_buffers(const struct graph *g, int by)
{
	for (int i = 0; i < g->works; i++) {
		g->work[i].to.b->held += by;
		if (g->work[i].from.b)
			g->work[i].from.b->held += by;
		if (g->work[i].code)
			g->work[i].code->held += by;
	}
}

/* Captures the work in two streams that fork and join. */
static CUgraph capture(const struct graph *g)
{
	CUstream lines[2];
	CUevent event;
	CUgraph graph;
	int last[2] = {-1, -1}, joined[2] = {-1, -1}, line_of[NODES];
	enter(g->context);
	for (int l = 0; l < 2; l++)
		CU(cuStreamCreate(&lines[l], CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	blocking();
	CHECK(pthread_mutex_lock(&capturing) == 0);
	CU(cuStreamBeginCapture(lines[0], chance(2) ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
						    : CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cuEventRecord(event, lines[0]));
	CU(cuStreamWaitEvent(lines[1], event, 0));
	for (int i = 0; i < g->works; i++) {
		/* Returns the same for the same work, so that an update finds the same shape. */
		int l = line_of[i] = (int)(g->work[i].width >> 3 & 1), other = !l, needs = -1;
		for (int j = 0; j < i; j++)
			if (line_of[j] == other && depends(&g->work[i], &g->work[j]))
				needs = j;
		if (needs > joined[l]) {
			CU(cuEventRecord(event, lines[other]));
			CU(cuStreamWaitEvent(lines[l], event, 0));
			joined[l] = last[other];
		}
		issue(&g->work[i], lines[l], true);
		last[l] = i;
	}
	CU(cuEventRecord(event, lines[1]));
	CU(cuStreamWaitEvent(lines[0], event, 0));
	CU(cuStreamEndCapture(lines[0], &graph));
	CHECK(pthread_mutex_unlock(&capturing) == 0);
	CU(cuEventDestroy(event));
	for (int l = 0; l < 2; l++)
		CU(cuStreamDestroy(lines[l]));
	return graph;
}

static CUDA_KERNEL_NODE_PARAMS kernel_node(const struct work *x, struct arguments *a, void **each)
{
	*a = arguments_of(x);
	each[0] = &a->x;
	each[1] = &a->y;
	each[2] = &a->n;
	each[3] = &a->a;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = x->code->kernels[x->kernel],
		.gridDimX = (a->n + 127) / 128,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 128,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = each,
	};
}

static CUDA_MEMSET_NODE_PARAMS fill_node(const struct work *x)
{
	unsigned bits = x->size == 4 ? 32 : 8 * x->size;
	unsigned value = bits == 32 ? (unsigned)x->value : (unsigned)x->value & ((1u << bits) - 1);
	return (CUDA_MEMSET_NODE_PARAMS){.dst = start_of(&x->to),
					 .pitch = x->rows > 1 ? x->to.pitch : 0,
					 .value = value,
					 .elementSize = x->size,
					 .width = x->width / x->size,
					 .height = x->rows};
}

static CUstreamBatchMemOpParams word_op(const struct work *x)
{
	CUstreamBatchMemOpParams op = {
		.writeValue = {.operation = x->size == 8 ? CU_STREAM_MEM_OP_WRITE_VALUE_64
							 : CU_STREAM_MEM_OP_WRITE_VALUE_32,
			       .address = start_of(&x->to),
			       .value64 = x->value}};
	if (x->size == 4)
		op.writeValue.value = (cuuint32_t)x->value;
	return op;
}

/* Adds a node that does work after others. */
static CUgraphNode add_node(struct graph *g, const struct work *x, const CUgraphNode *after,
			    size_t count)
{
	CUcontext context = w.contexts[g->context];
	CUgraphNode node;
	struct arguments a;
	void *each[4];
	if (x->verb == LAUNCH) {
		CUDA_KERNEL_NODE_PARAMS params = kernel_node(x, &a, each);
		CU(cuGraphAddKernelNode(&node, g->native, after, count, &params));
	} else if (x->verb == FILL) {
		CUDA_MEMSET_NODE_PARAMS params = fill_node(x);
		CU(cuGraphAddMemsetNode(&node, g->native, after, count, &params, context));
	} else if (x->verb == COPY) {
		CUDA_MEMCPY3D box = box_of(x);
		CU(cuGraphAddMemcpyNode(&node, g->native, after, count, &box, context));
	} else if (x->verb == WORD) {
		CUstreamBatchMemOpParams op = word_op(x);
		CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 1, &op, 0};
		CU(cuGraphAddBatchMemOpNode(&node, g->native, after, count, &params));
	} else {
		CUDA_HOST_NODE_PARAMS params = {host_function, x->host};
		CU(cuGraphAddHostNode(&node, g->native, after, count, &params));
	}
	return node;
}

static void build(struct graph *g)
{
	enter(g->context);
	CU(cuGraphCreate(&g->native, 0));
	for (int i = 0; i < g->works; i++) {
		CUgraphNode after[NODES + 1];
		size_t count = 0;
		for (int j = 0; j < i; j++)
			if (depends(&g->work[i], &g->work[j]) || chance(6))
				after[count++] = g->nodes[j];
		if (chance(6)) {
			CUgraphNode empty;
			CU(cuGraphAddEmptyNode(&empty, g->native, after, count));
			after[0] = empty;
			count = 1;
		}
		g->nodes[i] = add_node(g, &g->work[i], after, count);
	}
}

/* Replaces the graph with a copy. */
static void take_copy(struct graph *g)
{
	CUgraph copy;
	CU(cuGraphClone(&copy, g->native));
	for (int i = 0; i < g->works && !g->captured; i++)
		CU(cuGraphNodeFindInClone(&g->nodes[i], g->nodes[i], copy));
	CU(cuGraphDestroy(g->native));
	g->native = copy;
}

static void make_graph(void)
{
	struct graph *g = &graphs[pick(GRAPHS)];
	if (g->native)
		return;
	*g = (struct graph){.context = some_context(), .captured = chance(2)};
	int most = 1 + (int)pick(NODES);
	for (int turn = 0; turn < 30 && g->works < most; turn++)
		if (choose(&g->work[g->works], g->context, GRAPH_VERBS)) {
			if (for_graph(&g->work[g->works], g->context))
				g->works++;
			else
				free(g->work[g->works].host);
		}
	if (g->works == 0)
		return;
	blocking();
	trace("graph %td of %d nodes in context %d, captured: %d", g - graphs, g->works, g->context,
	      g->captured);
	for (int i = 0; i < g->works; i++)
		describe(&g->work[i], "node", i);
	if (g->captured)
		g->native = capture(g);
	else
		build(g);
	hold_buffers(g, 1);
	enter(g->context);
	if (chance(4))
		take_copy(g);
	CU(cuGraphInstantiateWithFlags(&g->exec, g->native, 0));
}

static void launch_graph(struct graph *g)
{
	if (!g->native)
		return;
	int s = some_stream(g->context);
	enter(g->context);
	implicit(s);
	for (int i = 0; i < g->works; i++)
		prepare(&g->work[i], s);
	after(s, &g->run);
	enter(g->context);
	trace("launch graph %td in stream %d", g - graphs, s);
	if (chance(8))
		CU(cuGraphUpload(g->exec, w.streams[s].native));
	CU(cuGraphLaunch(g->exec, w.streams[s].native));
	worked(s);
	g->run.at[s] = w.streams[s].position;
	for (int i = 0; i < g->works; i++)
		finish(&g->work[i], s);
}

/* Gives one node other numbers, and another place in the same buffers. */
static bool change(struct work *x)
{
	switch (x->verb) {
	case FILL:
		if (x->rows > 1)
			return false;
		break;
	case COPY:
		if (x->rows > 1 || x->slices > 1)
			return false;
		x->from = linear_part(x->from.b, x->width, 1);
		x->to = linear_part(x->to.b, x->width, 1);
		return true;
	case LAUNCH:
		if (x->kernel == SLOW)
			return false;
		break;
	case WORD:
		break;
	default: {
		struct host_work *host = malloc(sizeof *host);
		*host = *x->host;
		host->number = x->host->number + 77;
		x->host = host; /* the previous one may still be in use */
		return true;
	}
	}
	x->value = pick(1u << 31);
	x->to = linear_part(x->to.b, x->width, x->verb == LAUNCH ? 4 : x->size);
	return true;
}

static void change_node(struct graph *g, int i)
{
	const struct work *x = &g->work[i];
	CUcontext context = w.contexts[g->context];
	struct arguments a;
	void *each[4];
	enter(g->context);
	if (x->verb == LAUNCH) {
		CUDA_KERNEL_NODE_PARAMS params = kernel_node(x, &a, each);
		CU(cuGraphExecKernelNodeSetParams(g->exec, g->nodes[i], &params));
	} else if (x->verb == FILL) {
		CUDA_MEMSET_NODE_PARAMS params = fill_node(x);
		CU(cuGraphExecMemsetNodeSetParams(g->exec, g->nodes[i], &params, context));
	} else if (x->verb == COPY) {
		CUDA_MEMCPY3D box = box_of(x);
		CU(cuGraphExecMemcpyNodeSetParams(g->exec, g->nodes[i], &box, context));
	} else if (x->verb == WORD) {
		CUstreamBatchMemOpParams op = word_op(x);
		CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 1, &op, 0};
		CU(cuGraphExecBatchMemOpNodeSetParams(g->exec, g->nodes[i], &params));
	} else {
		CUDA_HOST_NODE_PARAMS params = {host_function, x->host};
		CU(cuGraphExecHostNodeSetParams(g->exec, g->nodes[i], &params));
	}
}

static void update_graph(struct graph *g)
{
	if (!g->native)
		return;
	int i = (int)pick((unsigned)g->works);
	if (!change(&g->work[i]))
		return;
	trace("graph %td changes node %d", g - graphs, i);
	describe(&g->work[i], "node", i);
	if (!g->captured) {
		change_node(g, i);
		return;
	}
	CUgraph other = capture(g);
	CUgraphExecUpdateResultInfo info;
	CUresult result = cuGraphExecUpdate(g->exec, other, &info);
	if (result != CUDA_SUCCESS) {
		/* The calls that capture the same work may differ. */
		CHECK(result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
		CU(cuGraphExecDestroy(g->exec));
		CU(cuGraphInstantiateWithFlags(&g->exec, other, 0));
	}
	CU(cuGraphDestroy(g->native));
	g->native = other;
}

static void end_graph(struct graph *g)
{
	if (!g->native)
		return;
	trace("destroy graph %td", g - graphs);
	enter(g->context);
	CU(cuGraphDestroy(g->native));
	CU(cuGraphExecDestroy(g->exec));
	hold_buffers(g, -1);
	g->native = NULL;
}
