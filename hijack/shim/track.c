#include "track.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* UFFD_USER_MODE_ONLY (Linux 5.11): users need no permission for it. */
#define USER_MODE_ONLY 1

static bool send_file(int socket, int fd)
{
	char text = 0;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} beside;
	memset(&beside, 0, sizeof beside);
	struct iovec part = {.iov_base = &text, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		message.msg_control = beside.bytes;
		message.msg_controllen = sizeof beside.bytes;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof fd);
	}
	ssize_t sent;
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == 1;
}

bool phos_track(int socket)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
	bool sent = send_file(socket, fd);
	if (fd >= 0)
		close(fd);
	return sent;
}
