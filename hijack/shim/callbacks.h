/* Host functions of the program, which run when a stream reaches them. */
#ifndef PHOS_CALLBACKS_H
#define PHOS_CALLBACKS_H

#include "zz_calls.h"

/* Starts the callback thread once. Called before the first post that can cause a callback. */
CUresult phos_callbacks_start(void);

#endif
