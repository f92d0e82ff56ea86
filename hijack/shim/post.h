/*
 * The basis of every forwarded call. The generated stubs (zz_stubs.c) and the hand-written calls
 * use it to post a frame, wait for its reply and read it. The encoding is that of package wire:
 * scalars are 8-byte little-endian words; arrays and strings are a u64 byte count, the bytes, and
 * padding to 8.
 *
 *     struct phos_call c;
 *     if (!phos_begin(&c, PHOS_CALL_cuMemAlloc_v2, PHOS_WAIT, PHOS_WORDS(1)))
 *         return c.result;
 *     phos_put_u64(&c, bytesize);
 *     CUresult result = phos_wait(&c);
 *     if (result == 0)
 *         *dptr = phos_take_u64(&c);
 *     return result;
 *
 * Between phos_begin and phos_post or phos_wait the ring is locked: only phos_put_* may be called,
 * and exactly payload_bytes must be put. Before phos_begin call phos_touch on all memory of the
 * program that is put. errno is kept.
 *
 * Lock order: the lock of the shared reply slot, then the ring's lock. All other locks of the shim
 * are leaves, and none of them is taken while the ring is locked.
 */
#ifndef PHOS_POST_H
#define PHOS_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zz_abi.h"

/* phos_begin's flags. */
enum {
	PHOS_WAIT = 1, /* the program waits for a reply: end with phos_wait, not phos_post */
	PHOS_CONTEXT =
		1 << 16, /* refuse with INVALID_CONTEXT when the thread has no current context */
	PHOS_BLOCKS =
		1 << 17, /* class wait: also returns the first error of asynchronous calls so far */
	PHOS_INTERNAL =
		1 << 18, /* the shim's own call: passes the gate and ignores earlier errors */
};

/* Payload bytes of n scalars, and of one array of n bytes. */
#define PHOS_WORDS(n) ((size_t)8 * (n))
#define PHOS_ARRAY(n) ((size_t)8 + (((size_t)(n) + 7) & ~(size_t)7))

struct phos_thread;

struct phos_call {
	unsigned char
		*at; /* next payload byte: of the frame while putting, of the reply while taking */
	unsigned char *end;         /* one past the last */
	struct phos_thread *thread; /* the caller */
	uint64_t head;              /* ring position after this frame */
	uint64_t sequence;          /* of this frame */
	unsigned flags;             /* as given to phos_begin */
	CUresult result;            /* why phos_begin failed */
};

/* Reads a byte of every page of the program's memory that will be copied into a frame. If a page is
 * not mapped, the signal is raised here and not while the ring is locked: a program may catch it
 * and jump out of the call. */
static inline void phos_touch(const void *p, size_t n)
{
	enum { LEAST_PAGE = 4096 };
	const volatile unsigned char *at = p;
	if (n == 0)
		return;
	(void)at[n - 1];
	for (size_t i = 0; i < n; i += LEAST_PAGE)
		(void)at[i];
}

/* Reserves a frame and locks the ring. Returns false if the call must return c->result; then
 * nothing is locked. */
bool phos_begin(struct phos_call *c, uint16_t op, unsigned flags, size_t payload_bytes);

/* Publishes the frame and returns at once. */
CUresult phos_post(struct phos_call *c);

/* Publishes the frame, waits for its reply and returns the call's result. Read the reply by
 * phos_take_* before the thread makes another call. */
CUresult phos_wait(struct phos_call *c);

/* Call hold_begin before the thread opens something that CRIU cannot save, and hold_end after it
 * has closed it. A checkpoint waits for the end; the beginning waits for a checkpoint. In between,
 * the thread makes no call. */
CUresult phos_hold_begin(void);
void phos_hold_end(void);

/* Refuses a call that is exported but not implemented: reports that once per name and returns
 * NOT_SUPPORTED. */
CUresult phos_refuse(const char *name);

/* Appends one scalar. */
static inline void phos_put_u64(struct phos_call *c, uint64_t v)
{
	memcpy(c->at, &v, 8);
	c->at += 8;
}

/* Appends an array: count, bytes, padding. A NULL p is an empty array. */
static inline void phos_put_bytes(struct phos_call *c, const void *p, size_t n)
{
	phos_put_u64(c, p == NULL ? 0 : n);
	if (p == NULL || n == 0)
		return;
	memcpy(c->at, p, n);
	c->at += (n + 7) & ~(size_t)7;
}

/* Reads one scalar of the reply; 0 if the reply is shorter than expected. */
static inline uint64_t phos_take_u64(struct phos_call *c)
{
	uint64_t v;
	if (c->end - c->at < 8)
		return 0;
	memcpy(&v, c->at, 8);
	c->at += 8;
	return v;
}

/* Reads an array of the reply into dst, at most cap bytes of it, and returns the number of bytes
 * copied. */
size_t phos_take_bytes(struct phos_call *c, void *dst, size_t cap);

#endif
