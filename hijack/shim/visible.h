/* CUDA_VISIBLE_DEVICES: which GPUs the program wants to see. */
#ifndef PHOS_VISIBLE_H
#define PHOS_VISIBLE_H

#include <stdbool.h>

#include "zz_abi.h"

/* Returns the value of the variable, or NULL if it is not set: all GPUs are visible. */
const char *phos_visible(void);

/* Whether a value shows no GPU on any machine. Then a program needs no session. */
bool phos_visible_none(const char *value);

/* Sends the value to the worker, and receives its answer: the worker knows the GPUs. */
CUresult phos_visible_agree(int fd, const char *path, const char *value);

#endif
