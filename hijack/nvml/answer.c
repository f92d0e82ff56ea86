#include "answer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../shim/connection.h"

/* Offsets in an entry of the device table, as in the session file. */
enum { DEVICE_ATTRIBUTES = 280, ATTRIBUTE_COUNT = 300 };

uint32_t phos_u32(const unsigned char *entry, size_t place)
{
	uint32_t v;
	memcpy(&v, entry + place, sizeof v);
	return v;
}

uint64_t phos_u64(const unsigned char *entry, size_t place)
{
	uint64_t v;
	memcpy(&v, entry + place, sizeof v);
	return v;
}

int32_t phos_attribute(const unsigned char *entry, unsigned number)
{
	if (number >= ATTRIBUTE_COUNT)
		return 0;
	return (int32_t)phos_u32(entry, DEVICE_ATTRIBUTES + 4 * (size_t)number);
}

const unsigned char *phos_entry(const struct phos_answer *answer, uint32_t index)
{
	return answer->bytes + PHOS_ANSWER_HEAD_BYTES + (size_t)index * PHOS_ANSWER_DEVICE_BYTES;
}

/* Reads and checks the head, then reads the rest. */
static nvmlReturn_t receive(int fd, struct phos_answer *answer)
{
	unsigned char head[PHOS_ANSWER_HEAD_BYTES];
	if (!phos_receive_all(fd, head, sizeof head) ||
	    phos_u32(head, PHOS_ANSWER_MAGIC) != PHOS_INQUIRY_MAGIC)
		return NVML_DRIVER_NOT_LOADED; /* no phosd, or one that does not know inquiries
						*/
	if (phos_u32(head, PHOS_ANSWER_VERSION) != PHOS_VERSION)
		return NVML_VERSION_MISMATCH;
	uint64_t devices = phos_u32(head, PHOS_ANSWER_DEVICES);
	uint64_t holdings = phos_u32(head, PHOS_ANSWER_HOLDINGS);
	uint64_t rest = devices * PHOS_ANSWER_DEVICE_BYTES + holdings * PHOS_ANSWER_HOLDING_BYTES;
	if (devices > PHOS_DEVICE_MAX || rest > PHOS_ANSWER_MOST)
		return NVML_UNKNOWN;
	unsigned char *bytes = malloc(sizeof head + rest);
	if (bytes == NULL)
		return NVML_MEMORY;
	memcpy(bytes, head, sizeof head);
	if (!phos_receive_all(fd, bytes + sizeof head, rest)) {
		free(bytes);
		return NVML_DRIVER_NOT_LOADED;
	}
	bytes[PHOS_ANSWER_DRIVER + PHOS_ANSWER_TEXT - 1] = '\0';
	*answer = (struct phos_answer){
		.bytes = bytes,
		.devices = (uint32_t)devices,
		.holdings = (uint32_t)holdings,
		.cuda = phos_u32(head, PHOS_ANSWER_SERVES),
		.driver = (const char *)bytes + PHOS_ANSWER_DRIVER,
	};
	return NVML_SUCCESS;
}

static nvmlReturn_t ask_once(struct phos_answer *answer, bool quiet)
{
	struct phos_connection to;
	if (phos_connect(&to, quiet) != 0)
		return NVML_DRIVER_NOT_LOADED;
	const uint32_t inquiry[PHOS_INQUIRY_BYTES / 4] = {PHOS_INQUIRY_MAGIC, PHOS_VERSION};
	nvmlReturn_t result = NVML_DRIVER_NOT_LOADED;
	if (phos_send_all(to.fd, inquiry, sizeof inquiry))
		result = receive(to.fd, answer);
	close(to.fd);
	return result;
}

static nvmlReturn_t ask(struct phos_answer *answer, int patience_milliseconds)
{
	enum { PAUSE_MILLISECONDS = 20 };
	int saved = errno, cancelling;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	nvmlReturn_t result = ask_once(answer, patience_milliseconds > 0);
	while (result == NVML_DRIVER_NOT_LOADED && patience_milliseconds > 0) {
		usleep(PAUSE_MILLISECONDS * 1000);
		patience_milliseconds -= PAUSE_MILLISECONDS;
		result = ask_once(answer, patience_milliseconds > 0);
	}
	pthread_setcancelstate(cancelling, NULL);
	errno = saved;
	return result;
}

nvmlReturn_t phos_ask_now(struct phos_answer *answer, int patience_milliseconds)
{
	*answer = (struct phos_answer){0};
	return phos_started() ? ask(answer, patience_milliseconds) : NVML_UNINITIALIZED;
}

uint32_t phos_ask_version(void)
{
	enum { RESTART_MILLISECONDS = 1000 };
	struct phos_answer answer = {0};
	uint32_t version = ask(&answer, RESTART_MILLISECONDS) == NVML_SUCCESS ? answer.cuda : 0;
	phos_release_answer(&answer);
	return version;
}

nvmlReturn_t phos_ask(struct phos_answer *answer)
{
	enum { RESTART_MILLISECONDS = 5000 };
	return phos_ask_now(answer, RESTART_MILLISECONDS);
}

void phos_release_answer(struct phos_answer *answer)
{
	free(answer->bytes);
	*answer = (struct phos_answer){0};
}

nvmlDevice_t phos_handle(uint32_t index)
{
	return (nvmlDevice_t)((uintptr_t)index + 1);
}

bool phos_index(nvmlDevice_t handle, uint32_t *index)
{
	uintptr_t number = (uintptr_t)handle;
	*index = (uint32_t)number - 1;
	return number >= 1 && number <= PHOS_DEVICE_MAX;
}

nvmlReturn_t phos_gpu_of(nvmlDevice_t handle, struct phos_gpu *gpu)
{
	struct phos_answer answer;
	bool valid = phos_index(handle, &gpu->index);
	nvmlReturn_t result = phos_ask(&answer);
	if (result != NVML_SUCCESS)
		return result;
	if (!valid || gpu->index >= answer.devices)
		result = NVML_INVALID_ARGUMENT;
	else
		memcpy(gpu->entry, phos_entry(&answer, gpu->index), sizeof gpu->entry);
	phos_release_answer(&answer);
	return result;
}

nvmlReturn_t phos_text(const char *text, char *to, unsigned bytes)
{
	size_t length = strlen(text);
	if (to == NULL)
		return NVML_INVALID_ARGUMENT;
	if (length >= bytes)
		return NVML_INSUFFICIENT_SIZE;
	memcpy(to, text, length + 1);
	return NVML_SUCCESS;
}
