#include "visible.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "log.h"
#include "zz_layout.h"

#define UUID_PREFIX "GPU-"

const char *phos_visible(void)
{
	return getenv("CUDA_VISIBLE_DEVICES");
}

bool phos_visible_none(const char *value)
{
	int saved = errno;
	char *end;
	if (value == NULL || strncmp(value, UUID_PREFIX, strlen(UUID_PREFIX)) == 0)
		return false;
	long first = strtol(value, &end, 10);
	errno = saved;
	return end == value || first < 0;
}

CUresult phos_visible_agree(int fd, const char *path, const char *value)
{
	unsigned char message[4 + PHOS_MAX_VISIBLE_BYTES];
	uint32_t seen = 0, bytes = (uint32_t)strnlen(value, PHOS_MAX_VISIBLE_BYTES);
	memcpy(message, &bytes, 4);
	memcpy(message + 4, value, bytes);
	if (!phos_send_all(fd, message, 4 + bytes) || !phos_receive_all(fd, &seen, sizeof seen))
		return phos_no_daemon("no answer comes from the daemon at", path, PHOS_HINT_LOG);
	if (seen != 0)
		phos_log(PHOS_WARN, "CUDA_VISIBLE_DEVICES=%s names no GPU of this machine", value);
	return (CUresult)seen;
}
