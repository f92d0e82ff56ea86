#include "connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "log.h"

#define ANSWER_SECONDS 30

bool phos_send_all(int fd, const void *data, size_t bytes)
{
	const unsigned char *at = data;
	while (bytes > 0) {
		ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		at += sent;
		bytes -= (size_t)sent;
	}
	return true;
}

bool phos_receive_all(int fd, void *data, size_t bytes)
{
	unsigned char *at = data;
	while (bytes > 0) {
		ssize_t got = recv(fd, at, bytes, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		bytes -= (size_t)got;
	}
	return true;
}

#define HINT_START "start it with: pos_cli --start"
#define HINT_MODE  "ask the administrator"

CUresult phos_no_daemon(const char *what, const char *path, const char *hint)
{
	if (phos_first_time(what))
		phos_log(PHOS_ERROR, "%s %s; %s", what, path, hint);
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult connect_socket(const char *path, bool quiet, int *connected)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, path, strlen(path) + 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		phos_log(PHOS_ERROR, "no socket for reaching phosd: %s", strerror(errno));
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	int got;
	do
		got = connect(fd, (struct sockaddr *)&address, sizeof address);
	while (got != 0 && errno == EINTR);
	if (got != 0) {
		int why = errno;
		close(fd);
		if (quiet)
			return CUDA_ERROR_NO_DEVICE;
		if (why == EACCES || why == EPERM)
			return phos_no_daemon("no permission to use the daemon's socket", path,
					      HINT_MODE);
		return phos_no_daemon("no daemon listens at", path, HINT_START);
	}
	*connected = fd;
	return CUDA_SUCCESS;
}

CUresult phos_connect(struct phos_connection *to, bool quiet)
{
	char problem[512];
	if (!phos_find_socket(to->path, sizeof to->path, problem, sizeof problem)) {
		phos_log(PHOS_ERROR, "%s", problem);
		return CUDA_ERROR_NO_DEVICE;
	}
	return connect_socket(to->path, quiet, &to->fd);
}
