/* A session inside one process: the shim's end is the real one, the worker's end is a thread of the
 * test. */
#ifndef PHOS_LAB_H
#define PHOS_LAB_H

#include <stdint.h>

#include "../session.h"
#include "../thread.h"
#include "../zz_calls.h"

/* The address of the one device's memory. */
#define LAB_WINDOW UINT64_C(0x410000000000)

struct lab_frame {
	uint16_t call, flags;
	uint32_t slot, context;
	uint64_t sequence;
	const unsigned char *payload;
	size_t bytes;
};

/* Called by the worker thread for each frame, in order. */
typedef void (*lab_handler)(const struct lab_frame *frame);

/* Creates a session with one device, and makes its primary context current in the calling thread.
 */
void lab_begin(lab_handler handler);

/* Stops the worker. The session stays. */
void lab_end(void);

/* Frames consumed so far. */
uint64_t lab_consumed(void);

/* Pads seen so far. */
uint64_t lab_pads(void);

/* Answers a frame with some words. */
void lab_reply(const struct lab_frame *frame, CUresult result, const uint64_t *words, size_t count);

/* Requests a copy from the waiting thread, waits until it is done, and returns the slot's state. */
uint32_t lab_copy(const struct lab_frame *frame, uint64_t direction, void *program, uint64_t bytes,
		  uint64_t offset);

/* The same in pieces, with the worker's half: far is the worker's end of the copy. */
uint32_t lab_copy_pieces(const struct lab_frame *frame, uint64_t direction, void *program,
			 unsigned char *far, uint64_t bytes);

/* Word i of a frame's payload. */
uint64_t lab_word(const struct lab_frame *frame, size_t i);

/* Adds a function with count parameters of 8 bytes, as if the session had described it. */
void lab_function(CUfunction function, uint32_t count);

/* While true, the worker consumes nothing. */
extern _Atomic bool lab_paused;

#endif
