/* How work is given to the driver: by any of the calls for it. */
#pragma once
#include "work.h"

static void CUDA_CB host_function(void *data)
{
	const struct host_work *x = data;
	if (!x->want) {
		for (uint32_t i = 0; i < x->words; i++)
			x->at[i] += x->number;
		return;
	}
	if (memcmp(x->at, x->want, x->words * 4ul) != 0) {
		fprintf(stderr,
			"seed %lu, thread %u, action %u: a host function sees other words\n", seed,
			x->thread, x->action);
		_exit(1);
	}
}

static void CUDA_CB stream_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	CHECK(status == CUDA_SUCCESS);
	host_function(data);
}

static void issue_fill(const struct work *x, CUstream native)
{
	CUdeviceptr at = start_of(&x->to);
	size_t columns = x->width / x->size;
	unsigned value = (unsigned)x->value;
	if (x->rows == 1 && x->size == 1)
		CU(cuMemsetD8Async(at, (unsigned char)value, columns, native));
	else if (x->rows == 1 && x->size == 2)
		CU(cuMemsetD16Async(at, (unsigned short)value, columns, native));
	else if (x->rows == 1)
		CU(cuMemsetD32Async(at, value, columns, native));
	else if (x->size == 1)
		CU(cuMemsetD2D8Async(at, x->to.pitch, (unsigned char)value, columns, x->rows,
				     native));
	else if (x->size == 2)
		CU(cuMemsetD2D16Async(at, x->to.pitch, (unsigned short)value, columns, x->rows,
				      native));
	else
		CU(cuMemsetD2D32Async(at, x->to.pitch, value, columns, x->rows, native));
}

static void issue_linear(const struct work *x, CUstream native)
{
	const struct buffer *d = x->to.b, *s = x->from.b;
	CUdeviceptr to = start_of(&x->to), from = start_of(&x->from);
	if (!by_host(d) && !by_host(s) && d->context != s->context)
		CU(cuMemcpyPeerAsync(to, w.contexts[d->context], from, w.contexts[s->context],
				     x->width, native));
	else if (chance(3))
		CU(cuMemcpyAsync(to, from, x->width, native));
	else if (by_host(d) && !by_host(s))
		CU(cuMemcpyDtoHAsync(d->host + x->to.offset, from, x->width, native));
	else if (by_host(s) && d->kind != PRIVATE)
		CU(cuMemcpyHtoDAsync(to, s->host + x->from.offset, x->width, native));
	else if (d->kind != PRIVATE && s->kind != PRIVATE)
		CU(cuMemcpyDtoDAsync(to, from, x->width, native));
	else
		CU(cuMemcpyAsync(to, from, x->width, native));
}

/* The memory type given for a part. */
static CUmemorytype type_of(const struct part *p)
{
	if (p->b->kind == PRIVATE || (by_host(p->b) && chance(2)))
		return CU_MEMORYTYPE_HOST;
	return chance(4) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY3D box_of(const struct work *x)
{
	CUDA_MEMCPY3D box = {
		.dstMemoryType = type_of(&x->to),
		.dstHost = x->to.b->host + x->to.offset,
		.dstDevice = start_of(&x->to),
		.dstPitch = x->to.pitch,
		.dstHeight = x->to.height,
		.srcMemoryType = type_of(&x->from),
		.srcHost = x->from.b->host + x->from.offset,
		.srcDevice = start_of(&x->from),
		.srcPitch = x->from.pitch,
		.srcHeight = x->from.height,
		.WidthInBytes = x->width,
		.Height = x->rows,
		.Depth = x->slices,
	};
	if (x->to.offset > 0 && x->to.offset <= x->to.pitch - x->width && chance(2)) {
		box.dstXInBytes = x->to.offset;
		box.dstDevice -= x->to.offset;
		box.dstHost = (char *)box.dstHost - x->to.offset;
	}
	return box;
}

static void issue_box(const struct work *x, CUstream native)
{
	const struct buffer *d = x->to.b, *s = x->from.b;
	CUDA_MEMCPY3D box = box_of(x);
	if (!by_host(d) && !by_host(s) && d->context != s->context) {
		CUDA_MEMCPY3D_PEER peer = {
			.dstMemoryType = CU_MEMORYTYPE_DEVICE,
			.dstDevice = start_of(&x->to),
			.dstContext = w.contexts[d->context],
			.dstPitch = x->to.pitch,
			.dstHeight = x->to.height,
			.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			.srcDevice = start_of(&x->from),
			.srcContext = w.contexts[s->context],
			.srcPitch = x->from.pitch,
			.srcHeight = x->from.height,
			.WidthInBytes = x->width,
			.Height = x->rows,
			.Depth = x->slices,
		};
		CU(cuMemcpy3DPeerAsync(&peer, native));
	} else if (x->slices == 1 && !chance(3)) {
		CUDA_MEMCPY2D flat = {
			.dstMemoryType = box.dstMemoryType,
			.dstHost = box.dstHost,
			.dstDevice = box.dstDevice,
			.dstPitch = box.dstPitch,
			.dstXInBytes = box.dstXInBytes,
			.srcMemoryType = box.srcMemoryType,
			.srcHost = box.srcHost,
			.srcDevice = box.srcDevice,
			.srcPitch = box.srcPitch,
			.WidthInBytes = x->width,
			.Height = x->rows,
		};
		CU(cuMemcpy2DAsync(&flat, native));
	} else
		CU(cuMemcpy3DAsync(&box, native));
}

/* The arguments of a kernel. */
struct arguments {
	CUdeviceptr x, y;
	unsigned n, a;
};

static struct arguments arguments_of(const struct work *x)
{
	return (struct arguments){.x = start_of(&x->to),
				  .y = x->from.b ? start_of(&x->from) : 0,
				  .n = (unsigned)(x->width / 4),
				  .a = (unsigned)x->value};
}

static void issue_launch(const struct work *x, CUstream native)
{
	struct arguments a = arguments_of(x);
	CUfunction kernel = x->code->kernels[x->kernel];
	void *each[] = {&a.x, &a.y, &a.n, &a.a};
	unsigned grid = (a.n + 127) / 128;
	size_t bytes = sizeof a;
	void *packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &a, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END};
	CUlaunchConfig config = {grid, 1, 1, 128, 1, 1, 0, native, NULL, 0};
	switch (pick(4)) {
	case 0:
		CU(cuLaunchKernelEx(&config, kernel, each, NULL));
		break;
	case 1:
		CU(cuLaunchKernel(kernel, grid, 1, 1, 128, 1, 1, 0, native, NULL, packed));
		break;
	default:
		CU(cuLaunchKernel(kernel, grid, 1, 1, 128, 1, 1, 0, native, each, NULL));
	}
}

static void issue_word(const struct work *x, CUstream native)
{
	CUdeviceptr at = start_of(&x->to);
	CUstreamBatchMemOpParams op = {
		.writeValue = {.operation = x->size == 8 ? CU_STREAM_MEM_OP_WRITE_VALUE_64
							 : CU_STREAM_MEM_OP_WRITE_VALUE_32,
			       .address = at,
			       .value64 = x->value}};
	if (x->size == 4)
		op.writeValue.value = (cuuint32_t)x->value;
	if (chance(3))
		CU(cuStreamBatchMemOp(native, 1, &op, 0));
	else if (x->size == 8)
		CU(cuStreamWriteValue64(native, at, x->value, 0));
	else
		CU(cuStreamWriteValue32(native, at, (cuuint32_t)x->value, 0));
}

static const char *const verbs[VERBS] = {"fill", "copy",     "launch",
					 "word", "host add", "host check"};

static void describe(const struct work *x, const char *where, int s)
{
	trace("%s %d: %s%s, buffer %td (%s) +%zu from %td (%s) +%zu, %zu x %zu x %zu, %lu", where,
	      s, verbs[x->verb], x->verb == LAUNCH ? kernel_names[x->kernel] : "",
	      x->to.b - w.buffers, kind_names[x->to.b->kind], x->to.offset,
	      x->from.b ? x->from.b - w.buffers : -1,
	      x->from.b ? kind_names[x->from.b->kind] : "nothing", x->from.offset, x->width,
	      x->rows, x->slices, x->value);
}

/* Gives work to a stream, or to the capture of one. */
static void issue(const struct work *x, CUstream native, bool captured)
{
	switch (x->verb) {
	case FILL:
		issue_fill(x, native);
		break;
	case COPY:
		if (x->rows > 1 || x->slices > 1 || chance(8))
			issue_box(x, native);
		else
			issue_linear(x, native);
		break;
	case LAUNCH:
		issue_launch(x, native);
		break;
	case WORD:
		issue_word(x, native);
		break;
	default:
		if (chance(3) && !captured)
			CU(cuStreamAddCallback(native, stream_callback, x->host, 0));
		else
			CU(cuLaunchHostFunc(native, host_function, x->host));
	}
}

static bool writes(const struct work *x)
{
	return x->verb != HOST_CHECK;
}

/* Work x waits in stream s for its dependencies, and is recorded as done. */
static void prepare(const struct work *x, int s)
{
	touch(s, x->to.b, writes(x));
	if (x->from.b)
		touch(s, x->from.b, false);
}

static void finish(const struct work *x, int s)
{
	touched(s, x->to.b, writes(x));
	if (x->from.b)
		touched(s, x->from.b, false);
	if (x->code)
		x->code->run.at[s] = w.streams[s].position;
	apply(x);
}

static bool page_locked(const struct buffer *b)
{
	return b->kind == PINNED || b->kind == SHARED;
}

/* Whether the call may wait for the stream: a copy with pageable memory, or of page-locked memory
 * to page-locked memory. */
static bool may_wait(const struct work *x)
{
	const struct buffer *d = x->to.b, *s = x->from.b;
	if (d->kind == PRIVATE || (s && s->kind == PRIVATE))
		return true;
	return x->verb == COPY && page_locked(d) && page_locked(s);
}

static void do_work(void)
{
	int s = some_stream(-1);
	struct work x;
	if (!choose(&x, w.streams[s].context, ~0u))
		return;
	enter(w.streams[s].context);
	implicit(s);
	prepare(&x, s);
	if (may_wait(&x))
		blocking();
	enter(w.streams[s].context);
	describe(&x, "stream", s);
	issue(&x, w.streams[s].native, false);
	worked(s);
	finish(&x, s);
}
