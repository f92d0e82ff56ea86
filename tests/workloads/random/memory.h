/* Memory of all kinds: allocation, release, and content. */
#pragma once
#include "issue.h"
#include <sys/mman.h>

enum { GRANULE = 2 << 20, MOST_BYTES = 40 << 20 };

static CUdevice device_of(int context)
{
	CUdevice device;
	enter(context);
	CU(cuCtxGetDevice(&device));
	return device;
}

static void map_at(struct buffer *b, int view)
{
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_of(b->context)},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CU(cuMemAddressReserve(&b->at[view], b->bytes, 0, 0, 0));
	CU(cuMemMap(b->at[view], b->bytes, 0, b->handle, 0));
	CU(cuMemSetAccess(b->at[view], b->bytes, &access, 1));
}

static void unmap_at(struct buffer *b, int view)
{
	enter(b->context);
	CU(cuMemUnmap(b->at[view], b->bytes));
	CU(cuMemAddressFree(b->at[view], b->bytes));
}

static void make_mapped(struct buffer *b)
{
	CUmemAllocationProp where = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_of(b->context)}};
	b->bytes = (b->bytes + GRANULE - 1) / GRANULE * GRANULE;
	CU(cuMemCreate(&b->handle, b->bytes, &where, 0));
	b->ats = 1 + (int)pick(2);
	for (int i = 0; i < b->ats; i++)
		map_at(b, i);
}

static void make_pooled(struct buffer *b)
{
	int s = some_stream(b->context);
	enter(b->context);
	implicit(s);
	CU(cuMemAllocAsync(&b->at[0], b->bytes, w.streams[s].native));
	trace("allocated in stream %d", s);
	worked(s);
	touched(s, b, true);
}

static void make_by_host(struct buffer *b)
{
	void *host = NULL;
	size_t pages = (b->bytes + 4095) / 4096 * 4096;
	enter(b->context);
	switch (b->kind) {
	case PINNED:
		CU(cuMemHostAlloc(&host, b->bytes,
				  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
		break;
	case MANAGED:
		CU(cuMemAllocManaged(&b->at[0], b->bytes, CU_MEM_ATTACH_GLOBAL));
		b->host = (void *)(uintptr_t)b->at[0];
		return;
	case SHARED:
		b->file = memfd_create("shared", 0);
		CHECK(b->file >= 0 && ftruncate(b->file, (off_t)pages) == 0);
		host = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, b->file, 0);
		CHECK(host != MAP_FAILED);
		CU(cuMemHostRegister(host, pages,
				     CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
		break;
	default:
		host = aligned_alloc(4096, pages);
		memset(host, 0, pages);
		CU(cuMemHostRegister(host, pages, CU_MEMHOSTREGISTER_PORTABLE));
		b->host = host;
		return;
	}
	b->host = host;
	b->at[0] = device_view(host);
}

/* The processor, or a stream, writes the initial content. */
static void first_content(struct buffer *b)
{
	noise(b->want, b->bytes);
	if (by_host(b)) {
		memcpy(b->host, b->want, b->bytes);
		return;
	}
	int s = some_stream(b->context);
	implicit(s);
	touch(s, b, true);
	blocking();
	unsigned char *copy = malloc(b->bytes);
	memcpy(copy, b->want, b->bytes);
	enter(b->context);
	trace("first content of buffer %td in stream %d", b - w.buffers, s);
	CU(cuMemcpyHtoDAsync(b->at[0], copy, b->bytes, w.streams[s].native));
	memset(copy, 0x55, b->bytes); /* it was imported, or copied */
	free(copy);
	worked(s);
	touched(s, b, true);
}

static void make_buffer(void)
{
	int slot = free_buffer_slot(), context = some_context();
	if (slot < 0)
		return;
	struct buffer *b = &w.buffers[slot];
	*b = (struct buffer){.kind = (enum kind)pick(KINDS), .context = context, .ats = 1};
	b->bytes = some_bytes(5 << 20, 8) + 256;
	if (b->kind == VARIABLE || (b->kind == MAPPED && chance(2)))
		b->kind = DEVICE;
	if (w.bytes + b->bytes > MOST_BYTES)
		return;
	/* Any context may use it, so it must outlive other contexts. */
	if (b->kind >= PINNED)
		b->context = context = 0;
	blocking();
	enter(context);
	trace("buffer %d: %zu bytes, %s, in context %d", slot, b->bytes, kind_names[b->kind],
	      context);
	if (b->kind == DEVICE)
		CU(cuMemAlloc(&b->at[0], b->bytes));
	else if (b->kind == MAPPED)
		make_mapped(b);
	else if (b->kind == POOLED)
		make_pooled(b);
	else
		make_by_host(b);
	b->used = true;
	b->want = malloc(b->bytes);
	w.bytes += b->bytes;
	first_content(b);
}

static void settle_buffer(struct buffer *b)
{
	settle(&b->written);
	settle(&b->read);
	blocking();
}

static void free_pooled(struct buffer *b)
{
	int s = some_stream(b->context);
	enter(b->context);
	implicit(s);
	touch(s, b, true);
	enter(b->context);
	trace("freed in stream %d", s);
	CU(cuMemFreeAsync(b->at[0], w.streams[s].native));
	worked(s);
}

/* Whether only the buffer's own context uses it. */
static bool only_here(const struct buffer *b)
{
	for (int s = 0; s < STREAMS; s++)
		if (w.streams[s].context != b->context &&
		    (b->written.at[s] > w.host.at[s] || b->read.at[s] > w.host.at[s]))
			return false;
	return true;
}

static void free_buffer(struct buffer *b)
{
	if (!b->used || b->held || b->kind == VARIABLE)
		return;
	/* cuMemFree waits for work on the memory. */
	if (b->kind != POOLED && (b->kind != DEVICE || chance(2) || !only_here(b)))
		settle_buffer(b);
	trace("free buffer %td", b - w.buffers);
	if (b->kind != POOLED)
		blocking();
	enter(b->context);
	if (b->kind == POOLED)
		free_pooled(b);
	else if (b->kind == DEVICE || b->kind == MANAGED)
		CU(cuMemFree(b->at[0]));
	else if (b->kind == PINNED)
		CU(cuMemFreeHost(b->host));
	else if (b->kind == MAPPED) {
		for (int i = 0; i < b->ats; i++)
			unmap_at(b, i);
		CU(cuMemRelease(b->handle));
	} else {
		CU(cuMemHostUnregister(b->host));
		if (b->kind == SHARED) {
			munmap(b->host, (b->bytes + 4095) / 4096 * 4096);
			close(b->file);
		} else
			free(b->host);
	}
	w.bytes -= b->bytes;
	free(b->want);
	*b = (struct buffer){0};
}

/* Maps memory at another address, with its content. */
static void remap(struct buffer *b)
{
	if (!b->used || b->kind != MAPPED || b->held)
		return;
	settle_buffer(b);
	trace("remap buffer %td", b - w.buffers);
	int view = (int)pick((unsigned)b->ats);
	struct buffer was = *b;
	map_at(b, view);
	unmap_at(&was, view);
}

/* Compares all of a buffer, or some of it, with the expected content. */
static void check(struct buffer *b)
{
	if (!b->used)
		return;
	size_t bytes = some_bytes(b->bytes, 1), from = pick((unsigned)(b->bytes - bytes + 1));
	trace("check buffer %td", b - w.buffers);
	w.sum = scramble(w.sum ^ b->want[from + bytes / 2] ^ bytes << 8);
	if (by_host(b)) {
		settle(&b->written);
		same(b, from, b->host + from, bytes);
		return;
	}
	unsigned char *got = malloc(bytes);
	memset(got, 0x66, bytes);
	CUdeviceptr at = b->at[pick((unsigned)b->ats)] + from;
	bool legacy = chance(2);
	int s = legacy ? 2 * b->context : some_stream(b->context);
	enter(b->context);
	implicit(s);
	touch(s, b, false);
	blocking();
	enter(b->context);
	if (legacy)
		CU(cuMemcpyDtoH(got, at, bytes));
	else
		CU(cuMemcpyDtoHAsync(got, at, bytes, w.streams[s].native));
	worked(s);
	merge(&w.host, &w.streams[s].known);
	same(b, from, got, bytes);
	free(got);
}

/* The processor writes: through the driver, or directly. */
static void write_buffer(struct buffer *b)
{
	if (!b->used)
		return;
	size_t bytes = some_bytes(b->bytes, 1), from = pick((unsigned)(b->bytes - bytes + 1));
	trace("write %zu bytes to buffer %td +%zu", bytes, b - w.buffers, from);
	if (by_host(b) && chance(2)) {
		settle_buffer(b);
		noise(b->want + from, bytes);
		memcpy(b->host + from, b->want + from, bytes);
		return;
	}
	if (b->kind == PRIVATE)
		return;
	bool legacy = chance(4);
	int s = legacy ? 2 * b->context : some_stream(b->context);
	enter(b->context);
	implicit(s);
	touch(s, b, true);
	if (bytes > 32768 || legacy)
		blocking();
	enter(b->context);
	noise(b->want + from, bytes);
	unsigned char *copy = malloc(bytes);
	memcpy(copy, b->want + from, bytes);
	CUdeviceptr at = b->at[pick((unsigned)b->ats)] + from;
	if (legacy)
		CU(cuMemcpyHtoD(at, copy, bytes));
	else
		CU(cuMemcpyHtoDAsync(at, copy, bytes, w.streams[s].native));
	memset(copy, 0x77, bytes);
	free(copy);
	worked(s);
	touched(s, b, true);
}
