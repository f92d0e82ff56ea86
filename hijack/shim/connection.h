/* A connection with phosd, for the moment that a question takes. */
#ifndef PHOS_CONNECTION_H
#define PHOS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#include "zz_abi.h"

struct phos_connection {
	int fd;
	char path[sizeof((struct sockaddr_un *)0)->sun_path];
};

#define PHOS_HINT_LOG "see its log"

/* Connects with the daemon that serves this program. On failure one line on stderr, the first time,
 * says what is wrong and what to do; quiet: not that nobody listens. The caller closes fd. */
CUresult phos_connect(struct phos_connection *to, bool quiet);

/* Whole messages; false: the other end is gone, or silent for too long. */
bool phos_send_all(int fd, const void *data, size_t bytes);
bool phos_receive_all(int fd, void *data, size_t bytes);

/* Says what keeps us from a daemon, the first time: programs ask again and again. */
CUresult phos_no_daemon(const char *what, const char *path, const char *hint);

#endif
