/* Lets phosd see which memory this process writes: Linux tracks that for a userfaultfd, which only
 * the process itself can make. */
#ifndef PHOS_TRACK_H
#define PHOS_TRACK_H

#include <stdbool.h>

/* Makes a userfaultfd and gives it to the worker; nothing, if the kernel or a container's filter
 * does not allow one. A program with an open one could not be saved, so it is closed at once.
 * Returns false if the connection is broken. */
bool phos_track(int socket);

#endif
