#include "lab.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../function.h"
#include "../futex.h"
#include "../objects.h"

#define ARENA_BYTES (1u << 20)
#define SPINS       2000

_Atomic bool lab_paused;

static lab_handler handle;
static pthread_t worker;
static _Atomic bool stop;
static _Atomic uint64_t consumed, pads;

uint64_t lab_consumed(void)
{
	return atomic_load(&consumed);
}

uint64_t lab_pads(void)
{
	return atomic_load(&pads);
}

uint64_t lab_word(const struct lab_frame *frame, size_t i)
{
	uint64_t word;
	memcpy(&word, frame->payload + 8 * i, 8);
	return word;
}

static unsigned char *slot_of(const struct lab_frame *frame)
{
	return phos.file + PHOS_SLOTS_OFFSET + PHOS_SLOT_BYTES * (size_t)frame->slot;
}

static void set_state(const struct lab_frame *frame, uint32_t state)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)(void *)slot_of(frame);
	if (atomic_exchange(word, state) != PHOS_SLOT_IDLE)
		phos_futex_wake(word, 1000);
}

void lab_reply(const struct lab_frame *frame, CUresult result, const uint64_t *words, size_t count)
{
	unsigned char *slot = slot_of(frame);
	if (count > 0)
		memcpy(slot + PHOS_SLOT_HEADER, words, 8 * count);
	memcpy(slot + 4, &result, 4);
	memcpy(slot + 8, &frame->sequence, 8);
	set_state(frame, PHOS_SLOT_DONE);
}

uint32_t lab_copy_pieces(const struct lab_frame *frame, uint64_t direction, void *program,
			 unsigned char *far, uint64_t bytes)
{
	uint64_t words[4] = {direction, (uintptr_t)program, bytes, 0};
	unsigned char *slot = slot_of(frame), *bounce = phos.file + PHOS_BOUNCE_OFFSET;
	_Atomic uint32_t *here = (_Atomic uint32_t *)(void *)(slot + PHOS_SLOT_WORKER_PIECES);
	_Atomic uint32_t *there = (_Atomic uint32_t *)(void *)(slot + PHOS_SLOT_PROGRAM_PIECES);
	_Atomic uint32_t *state = (_Atomic uint32_t *)(void *)slot;
	memcpy(slot + PHOS_SLOT_HEADER, words, sizeof words);
	atomic_store(here, 0);
	atomic_store(there, 0);
	set_state(frame, PHOS_SLOT_PIECES);
	for (uint32_t n = 0; (uint64_t)n * PHOS_BOUNCE_PIECE < bytes; n++) {
		uint64_t at = (uint64_t)n * PHOS_BOUNCE_PIECE, left = bytes - at;
		unsigned char *area = bounce + n % PHOS_BOUNCE_PIECES * PHOS_BOUNCE_PIECE;
		while (atomic_load(there) + (direction == 0 ? 0 : PHOS_BOUNCE_PIECES) <= n) {
			if (atomic_load(state) != PHOS_SLOT_PIECES)
				return atomic_load(state);
			sched_yield();
		}
		if (left > PHOS_BOUNCE_PIECE)
			left = PHOS_BOUNCE_PIECE;
		if (direction == 0)
			memcpy(far + at, area, left);
		else
			memcpy(area, far + at, left);
		atomic_store(here, n + 1);
	}
	while (atomic_load(state) == PHOS_SLOT_PIECES)
		sched_yield();
	return atomic_load(state);
}

uint32_t lab_copy(const struct lab_frame *frame, uint64_t direction, void *program, uint64_t bytes,
		  uint64_t offset)
{
	uint64_t words[4] = {direction, (uintptr_t)program, bytes, offset};
	unsigned char *slot = slot_of(frame);
	memcpy(slot + PHOS_SLOT_HEADER, words, sizeof words);
	set_state(frame, PHOS_SLOT_SERVICE);
	_Atomic uint32_t *state = (_Atomic uint32_t *)(void *)slot;
	while (atomic_load(state) == PHOS_SLOT_SERVICE)
		sched_yield();
	return atomic_load(state);
}

/* Decodes one frame; aborts on errors for which a real worker would end the session. */
static uint64_t consume(uint64_t tail, uint64_t head)
{
	unsigned char *at = phos.file + PHOS_RING_OFFSET + tail % PHOS_RING_BYTES;
	struct lab_frame frame;
	uint32_t length;
	memcpy(&length, at, 4);
	memcpy(&frame.call, at + 4, 2);
	memcpy(&frame.flags, at + 6, 2);
	memcpy(&frame.slot, at + 8, 4);
	memcpy(&frame.context, at + 12, 4);
	memcpy(&frame.sequence, at + 16, 8);
	uint64_t rounded = (length + PHOS_FRAME_ALIGN - 1) & ~(uint64_t)(PHOS_FRAME_ALIGN - 1);
	if (length < PHOS_FRAME_HEADER || rounded > head - tail ||
	    (frame.call != 0 && length > PHOS_FRAME_MAX) ||
	    tail % PHOS_RING_BYTES + rounded > PHOS_RING_BYTES) {
		fprintf(stderr, "lab: frame of %u bytes at %llu\n", length,
			(unsigned long long)tail);
		abort();
	}
	frame.payload = at + PHOS_FRAME_HEADER;
	frame.bytes = length - PHOS_FRAME_HEADER;
	if (frame.call == 0) {
		atomic_fetch_add(&pads, 1);
		return tail + rounded;
	}
	if (frame.sequence != atomic_load(&consumed) + 1) {
		fprintf(stderr, "lab: frame %llu follows %llu\n",
			(unsigned long long)frame.sequence,
			(unsigned long long)atomic_load(&consumed));
		abort();
	}
	/* Before the reply: afterwards a test may read it. */
	atomic_store_explicit(&consumed, frame.sequence, memory_order_release);
	handle(&frame);
	return tail + rounded;
}

static void sleep_on_doorbell(uint64_t tail)
{
	_Atomic uint32_t *doorbell = phos_word(PHOS_WORD_DOORBELL);
	atomic_store(doorbell, 1);
	if (atomic_load(phos_word64(PHOS_WORD_HEAD)) == tail && !atomic_load(&stop))
		phos_futex_wait(doorbell, 1, 1000);
	atomic_store(doorbell, 0);
}

static void *serve(void *unused)
{
	(void)unused;
	uint64_t tail = 0;
	for (int idle = 0; !atomic_load(&stop);) {
		uint64_t head =
			atomic_load_explicit(phos_word64(PHOS_WORD_HEAD), memory_order_acquire);
		if (head == tail || atomic_load(&lab_paused)) {
			phos_relax();
			if (++idle > SPINS && !atomic_load(&lab_paused)) {
				sleep_on_doorbell(tail);
				idle = 0;
			}
			continue;
		}
		idle = 0;
		while (tail != head)
			tail = consume(tail, head);
		atomic_store_explicit(phos_word64(PHOS_WORD_TAIL), tail, memory_order_release);
	}
	return NULL;
}

static void describe_device(void)
{
	struct phos_device *device = (struct phos_device *)(void *)(phos.file + PHOS_DEVICE_TABLE);
	strcpy(device->name, "Lab GPU");
	memcpy(device->uuid, "0123456789abcdef", 16);
	device->memory_bytes = 1u << 30;
	for (int i = 2; i <= 7; i++)
		device->attributes[i] = i <= 4 ? 1024 : 65535;
	device->attributes[1] = 1024;
	device->attributes[10] = 32;
	device->attributes[33] = 0xab;
	device->attributes[34] = 3;
	device->attributes[75] = 9;
}

void lab_begin(lab_handler handler)
{
	phos.file = mmap(NULL, PHOS_SESSION_BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (phos.file == MAP_FAILED || arena == MAP_FAILED)
		abort();
	phos.arena = (uintptr_t)arena;
	phos.arena_bytes = ARENA_BYTES;
	phos.device_count = 1;
	phos.windows[0].base = LAB_WINDOW;
	phos.windows[0].bytes = UINT64_C(1) << 40;
	describe_device();
	handle = handler;
	atomic_store(&phos.state, PHOS_LIVE);
	if (pthread_create(&worker, NULL, serve, NULL) != 0)
		abort();
	cuCtxSetCurrent(phos_primary_context(0));
}

void lab_end(void)
{
	atomic_store(&stop, true);
	phos_futex_wake(phos_word(PHOS_WORD_DOORBELL), 1);
	pthread_join(worker, NULL);
}

void lab_function(CUfunction function, uint32_t count)
{
	struct phos_function *f = calloc(1, sizeof *f + count * sizeof f->parameters[0]);
	if (f == NULL)
		abort();
	f->handle = function;
	f->parameter_count = count;
	f->parameter_bytes = 8 * count;
	f->dense = true;
	f->name = "kernel";
	f->device = phos_device_find(0)->attributes;
	for (uint32_t i = 0; i < count; i++)
		f->parameters[i] = (struct phos_parameter){8 * i, 8};
	phos_object_enter(function, f);
}
