/* A short-lived connection to phosd, for one request. */
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

/* Connects to the phosd that serves this program. The first failure is reported in one line on
 * stderr, with what to do. If quiet is set, a socket without a listener is not reported. The caller
 * closes fd. */
CUresult phos_connect(struct phos_connection *to, bool quiet);

/* Send and receive whole messages. Return false if the peer has closed the connection or does not
 * answer in time. */
bool phos_send_all(int fd, const void *data, size_t bytes);
bool phos_receive_all(int fd, void *data, size_t bytes);

/* Reports why phosd cannot be reached, only the first time: programs retry often. */
CUresult phos_no_daemon(const char *what, const char *path, const char *hint);

#endif
