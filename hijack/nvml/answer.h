/*
 * phosd's answer on its GPUs without a session (hijack/wire/inquiry.go). Every NVML call sends a
 * new inquiry. Nothing is cached, so there is no lock, no problem with fork and no stale state
 * after a restore.
 */
#ifndef PHOS_ANSWER_H
#define PHOS_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "../shim/zz_layout.h"
#include "nvml.h"

struct phos_answer {
	unsigned char *bytes; /* from malloc; NULL: no answer */
	uint32_t devices, holdings, cuda;
	const char *driver;
};

/* Sends an inquiry. Returns UNINITIALIZED before nvmlInit. phosd may be restarting when it does not
 * answer, so phos_ask retries for a while. On SUCCESS release the answer by phos_release_answer. */
nvmlReturn_t phos_ask_now(struct phos_answer *answer, int patience_milliseconds);
nvmlReturn_t phos_ask(struct phos_answer *answer);

/* The driver's version, also before nvmlInit; 0 if phosd does not answer. */
uint32_t phos_ask_version(void);

void phos_release_answer(struct phos_answer *answer);

/* The entry of a GPU, and a number in an entry. */
const unsigned char *phos_entry(const struct phos_answer *answer, uint32_t index);
uint32_t phos_u32(const unsigned char *entry, size_t place);
uint64_t phos_u64(const unsigned char *entry, size_t place);
int32_t phos_attribute(const unsigned char *entry, unsigned number);

/* A copy of one GPU's entry in an answer. */
struct phos_gpu {
	unsigned char entry[PHOS_ANSWER_DEVICE_BYTES];
	uint32_t index;
};
nvmlReturn_t phos_gpu_of(nvmlDevice_t handle, struct phos_gpu *gpu);

/* Convert between GPUs and handles. Returns false for an invalid handle. */
nvmlDevice_t phos_handle(uint32_t index);
bool phos_index(nvmlDevice_t handle, uint32_t *index);

/* Copies a text into a program's buffer. */
nvmlReturn_t phos_text(const char *text, char *to, unsigned bytes);

/* Whether NVML is initialised: the count of nvmlInit calls is not 0. */
bool phos_started(void);

#endif
