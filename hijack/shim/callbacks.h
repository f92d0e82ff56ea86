/* Functions of the program that run when a stream reaches them. */
#ifndef PHOS_CALLBACKS_H
#define PHOS_CALLBACKS_H

#include "zz_calls.h"

/* Starts the thread that runs them, once; before anything is posted that can lead to one. */
CUresult phos_callbacks_start(void);

#endif
