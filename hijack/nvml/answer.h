/*
 * What phosd says of its GPUs without a session (package wire, inquiry.go). Each question of NVML's
 * asks anew: nothing is kept, so there is nothing to lock, to lose in a fork or to have wrong after
 * a restore.
 */
#ifndef PHOS_ANSWER_H
#define PHOS_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "../shim/zz_layout.h"
#include "nvml.h"

struct phos_answer {
	unsigned char *bytes; /* from malloc; NULL: there is none */
	uint32_t devices, holdings, cuda;
	const char *driver;
};

/* Asks. UNINITIALIZED: nobody called nvmlInit. Where phosd does not answer, it may be that it is
 * started anew, which takes a moment: phos_ask has patience with that. Who gets SUCCESS gives the
 * answer back by phos_forget. */
nvmlReturn_t phos_ask_now(struct phos_answer *answer, int patience_milliseconds);
nvmlReturn_t phos_ask(struct phos_answer *answer);

/* The driver's version, which may be asked for before anything is started; 0 where phosd does not
 * say. */
uint32_t phos_ask_version(void);

void phos_forget(struct phos_answer *answer);

/* The entry of a GPU, and a number in it. */
const unsigned char *phos_entry(const struct phos_answer *answer, uint32_t index);
uint32_t phos_u32(const unsigned char *entry, size_t place);
uint64_t phos_u64(const unsigned char *entry, size_t place);
int32_t phos_attribute(const unsigned char *entry, unsigned number);

/* One GPU's entry, copied out of an answer for a handle that a program gave. */
struct phos_gpu {
	unsigned char entry[PHOS_ANSWER_DEVICE_BYTES];
	uint32_t index;
};
nvmlReturn_t phos_gpu_of(nvmlDevice_t handle, struct phos_gpu *gpu);

/* The handle of a GPU, and back: false for what is none. */
nvmlDevice_t phos_handle(uint32_t index);
bool phos_index(nvmlDevice_t handle, uint32_t *index);

/* Copies a text where a program wants it. */
nvmlReturn_t phos_text(const char *text, char *to, unsigned bytes);

/* Whether nvmlInit holds, and what counts its calls. */
bool phos_started(void);

#endif
