/* Work on buffers: the request to the driver, and its expected effect. */
#pragma once
#include "code.h"

enum verb { FILL, COPY, LAUNCH, WORD, HOST_ADD, HOST_CHECK, VERBS };

/* Part of a buffer: rows of some width, in slices. */
struct part {
	struct buffer *b;
	int view; /* which of its addresses */
	size_t offset, pitch, height;
};

struct work {
	enum verb verb;
	struct part to, from;
	size_t width, rows, slices;
	unsigned size; /* of the fill pattern, or of a word */
	uint64_t value;
	struct code *code;
	enum kernel kernel;
	struct host_work *host;
};

/* A host function in a stream. */
struct host_work {
	uint32_t *at;
	uint32_t words, number;
	unsigned char *want; /* NULL: the number is added */
	unsigned thread, action;
};

static bool by_host(const struct buffer *b)
{
	return b->host != NULL;
}

static bool by_kernel(const struct buffer *b, int context)
{
	return b->kind != PRIVATE && (by_host(b) || b->context == context);
}

static CUdeviceptr start_of(const struct part *p)
{
	if (p->b->kind == PRIVATE)
		return (CUdeviceptr)(uintptr_t)p->b->host + p->offset;
	return p->b->at[p->view] + p->offset;
}

static unsigned char *row_of(const struct part *p, size_t slice, size_t row)
{
	return p->b->want + p->offset + (slice * p->height + row) * p->pitch;
}

static void apply(const struct work *x)
{
	if (x->verb == LAUNCH) {
		uint32_t shape[2] = {(uint32_t)(x->width / 4), (uint32_t)x->value};
		compute(x->code, x->kernel, (uint32_t *)row_of(&x->to, 0, 0),
			x->from.b ? (uint32_t *)row_of(&x->from, 0, 0) : NULL, shape);
		return;
	}
	for (size_t slice = 0; slice < x->slices && x->verb != HOST_CHECK; slice++)
		for (size_t row = 0; row < x->rows; row++) {
			unsigned char *to = row_of(&x->to, slice, row);
			if (x->verb == COPY)
				memcpy(to, row_of(&x->from, slice, row), x->width);
			else if (x->verb == HOST_ADD)
				for (size_t i = 0; i < x->width; i += 4)
					*(uint32_t *)(to + i) += x->host->number;
			else
				for (size_t i = 0; i < x->width; i += x->size)
					memcpy(to + i, &x->value, x->size);
		}
}

/* A part of the given bytes, at a multiple of a size. */
static struct part linear_part(struct buffer *b, size_t bytes, unsigned align)
{
	struct part p = {.b = b, .view = (int)pick((unsigned)b->ats), .height = 1};
	p.offset = pick((unsigned)((b->bytes - bytes) / align + 1)) * align;
	p.pitch = bytes;
	return p;
}

/* Up to the given bytes, a multiple of a size: often few. */
static size_t some_bytes(size_t most, unsigned align)
{
	size_t mask = ((size_t)2 << pick(23)) - 1,
	       n = chance(4) ? most : 1 + (pick(1u << 31) & mask);
	n = n > most ? most : n;
	return n < align ? align : n / align * align;
}

/* Chooses rows and slices that fit both buffers. */
static void boxed(struct work *x, unsigned align)
{
	struct part *parts[2] = {&x->to, &x->from};
	x->rows = 1 + pick(9);
	x->slices = x->verb == COPY && chance(2) ? 1 + pick(4) : 1;
	size_t least = x->to.b->bytes;
	if (x->from.b && x->from.b->bytes < least)
		least = x->from.b->bytes;
	x->width = some_bytes(least / (4 * 14 * 2), align);
	if (least < 4 * 14 * 2 * align) {
		x->rows = x->slices = 1;
		x->width = align;
	}
	for (int i = 0; i < 2; i++) {
		struct part *p = parts[i];
		if (!p->b)
			continue;
		p->pitch = x->width + pick((unsigned)(x->width / align)) * align;
		p->height = x->rows + pick(5);
		size_t bytes = x->slices * p->height * p->pitch;
		if (x->rows == 1 && x->slices == 1)
			bytes = p->pitch = x->width;
		struct part chosen = linear_part(p->b, bytes, align);
		p->offset = chosen.offset;
		p->view = chosen.view;
	}
}

static struct buffer *some_buffer(bool (*good)(const struct buffer *, int), int context)
{
	for (int turn = 0; turn < 40; turn++) {
		struct buffer *b = &w.buffers[pick(BUFFERS)];
		if (b->used && good(b, context))
			return b;
	}
	return NULL;
}

static bool host_word(const struct buffer *b, int context)
{
	(void)context;
	return by_host(b);
}

/* Memory that can be copied in a stream of a context: that of all contexts, but one side is its
 * own. */
static bool copied(const struct buffer *b, int context)
{
	(void)context;
	return b->used;
}

static bool choose_fill(struct work *x, int context)
{
	x->to.b = some_buffer(by_kernel, context);
	if (!x->to.b)
		return false;
	x->size = 1u << pick(3);
	x->value = pick(1u << 31);
	if (chance(3)) {
		boxed(x, x->size);
		return true;
	}
	x->width = some_bytes(x->to.b->bytes, x->size);
	x->to = linear_part(x->to.b, x->width, x->size);
	return true;
}

static bool choose_copy(struct work *x, int context)
{
	x->to.b = some_buffer(copied, context);
	x->from.b = some_buffer(copied, context);
	if (!x->to.b || !x->from.b || x->to.b == x->from.b)
		return false;
	bool there = by_kernel(x->to.b, context), here = by_kernel(x->from.b, context);
	if (!there && !here && x->to.b->kind != PRIVATE && x->from.b->kind != PRIVATE)
		return false; /* only of other contexts */
	if ((x->to.b->kind == PRIVATE && !here) || (x->from.b->kind == PRIVATE && !there))
		return false;
	if (chance(2)) {
		boxed(x, 1);
		return true;
	}
	size_t most = x->to.b->bytes < x->from.b->bytes ? x->to.b->bytes : x->from.b->bytes;
	x->width = some_bytes(most, 1);
	x->to = linear_part(x->to.b, x->width, 1);
	x->from = linear_part(x->from.b, x->width, 1);
	return true;
}

static bool choose_launch(struct work *x, int context)
{
	x->code = code_in(context);
	x->kernel = (enum kernel)pick(KERNELS);
	x->to.b = some_buffer(by_kernel, context);
	x->from.b = needs_source(x->kernel) ? some_buffer(by_kernel, context) : NULL;
	if (!x->code || !x->to.b || (needs_source(x->kernel) && !x->from.b) || x->to.b == x->from.b)
		return false;
	size_t most = x->to.b->bytes;
	if (x->from.b && x->from.b->bytes < most)
		most = x->from.b->bytes;
	if (x->kernel == LOOK)
		x->from.b = &w.buffers[x->code->variable];
	if (x->to.b == x->from.b)
		return false;
	x->width = some_bytes(most < 65536 ? most : 65536, 4);
	x->value = x->kernel == SLOW ? 1 + pick(100) : pick(1u << 31);
	if (x->kernel == SLOW && x->width > 1024)
		x->width = 1024;
	if (x->kernel == TURN && (x->width = x->width / 512 * 512) == 0)
		return false;
	x->to = linear_part(x->to.b, x->width, 4);
	if (x->kernel != LOOK && x->from.b)
		x->from = linear_part(x->from.b, x->width, 4);
	return true;
}

static bool choose_word(struct work *x, int context)
{
	x->to.b = some_buffer(by_kernel, context);
	x->size = chance(2) ? 8 : 4;
	if (!x->to.b || x->to.b->bytes < x->size)
		return false;
	x->width = x->size;
	x->value = (uint64_t)pick(1u << 31) << 20;
	x->to = linear_part(x->to.b, x->width, x->size);
	return true;
}

static bool choose_host(struct work *x)
{
	x->to.b = some_buffer(host_word, 0);
	if (!x->to.b)
		return false;
	x->width = some_bytes(x->to.b->bytes < 40000 ? x->to.b->bytes : 40000, 4);
	x->to = linear_part(x->to.b, x->width, 4);
	x->host = calloc(1, sizeof *x->host);
	*x->host = (struct host_work){
		.at = (uint32_t *)(x->to.b->host + x->to.offset),
		.words = (uint32_t)(x->width / 4),
		.number = pick(1u << 31),
		.thread = w.thread,
		.action = w.action,
	};
	if (x->verb == HOST_CHECK) {
		x->host->want = malloc(x->width);
		memcpy(x->host->want, row_of(&x->to, 0, 0), x->width);
	}
	return true;
}

/* Random work that a stream of a context can do. */
static bool choose(struct work *x, int context, unsigned verbs)
{
	static const enum verb often[] = {FILL,   FILL,   COPY, COPY,     COPY,      COPY,
					  LAUNCH, LAUNCH, WORD, HOST_ADD, HOST_CHECK};
	*x = (struct work){.rows = 1, .slices = 1};
	do
		x->verb = often[pick(sizeof often / sizeof often[0])];
	while (!(verbs >> x->verb & 1));
	switch (x->verb) {
	case FILL:
		return choose_fill(x, context);
	case COPY:
		return choose_copy(x, context);
	case LAUNCH:
		return choose_launch(x, context);
	case WORD:
		return choose_word(x, context);
	default:
		return choose_host(x);
	}
}
