/* NVML with a fake phosd: valid answers, invalid ones, and invalid arguments. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../nvml/answer.h"
#include "../../nvml/calls.h"
#include "expect.h"

enum manner { GOOD, LOST, OTHER_VERSION, STRANGER, TOO_MANY, TOO_LONG, CUT, SILENT };

static _Atomic enum manner manner;
static int listener;

static void put32(unsigned char *at, uint32_t v)
{
	memcpy(at, &v, sizeof v);
}

static void put64(unsigned char *at, uint64_t v)
{
	memcpy(at, &v, sizeof v);
}

/* Two GPUs, the second with two holdings, of pids 10 and 11. */
static size_t compose(enum manner how, unsigned char *to)
{
	unsigned char *gpu = to + PHOS_ANSWER_HEAD_BYTES;
	put32(to + PHOS_ANSWER_MAGIC, how == STRANGER ? 7 : PHOS_INQUIRY_MAGIC);
	put32(to + PHOS_ANSWER_VERSION, how == OTHER_VERSION ? PHOS_VERSION + 1 : PHOS_VERSION);
	put32(to + PHOS_ANSWER_DEVICES, how == TOO_MANY ? PHOS_DEVICE_MAX + 1 : 2);
	put32(to + PHOS_ANSWER_HOLDINGS, how == TOO_LONG ? UINT32_MAX : 2);
	put32(to + PHOS_ANSWER_SERVES, 12040);
	/* No NUL: the reader must stop at the end of the field. */
	memset(to + PHOS_ANSWER_DRIVER, '5', PHOS_ANSWER_TEXT);
	for (int i = 0; i < 2; i++, gpu += PHOS_ANSWER_DEVICE_BYTES) {
		memset(gpu, 'n', 256);
		memset(gpu + 256, 0x10 + i, 16);
		put64(gpu + 272, 1000);
		put64(gpu + PHOS_ANSWER_USED, 600);
		put64(gpu + PHOS_ANSWER_FREE, 300);
		put32(gpu + PHOS_ANSWER_KNOWN,
		      how == LOST ? PHOS_ANSWER_KNOWS_LOST : PHOS_ANSWER_KNOWS_TEMPERATURE);
		put32(gpu + PHOS_ANSWER_TEMPERATURE, 40 + (uint32_t)i);
		put32(gpu + PHOS_ANSWER_POWER, 7);
		put32(gpu + 280 + 4 * 33, 0x40 + (uint32_t)i);
		put32(gpu + 280 + 4 * 299, i == 0 ? 2 : 0); /* peer access */
	}
	for (uint32_t i = 0; i < 2; i++, gpu += PHOS_ANSWER_HOLDING_BYTES) {
		put32(gpu + PHOS_ANSWER_HOLDING_DEVICE, 1);
		put32(gpu + PHOS_ANSWER_HOLDER, 10 + i);
		put64(gpu + PHOS_ANSWER_HELD, 200);
	}
	return how == CUT ? (size_t)(gpu - to) - 1 : (size_t)(gpu - to);
}

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		unsigned char inquiry[PHOS_INQUIRY_BYTES], answer[8192] = {0};
		int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			return NULL;
		if (recv(fd, inquiry, sizeof inquiry, MSG_WAITALL) == (ssize_t)sizeof inquiry &&
		    manner != SILENT)
			send(fd, answer, compose(manner, answer), MSG_NOSIGNAL);
		close(fd);
	}
}

static void test_start(void)
{
	nvmlDevice_t device;
	char text[100];
	unsigned count;
	EXPECT(nvmlDeviceGetCount_v2(&count) == NVML_UNINITIALIZED);
	EXPECT(nvmlShutdown() == NVML_UNINITIALIZED);
	EXPECT(nvmlSystemGetNVMLVersion(text, sizeof text) == NVML_SUCCESS);
	static const struct {
		enum manner how;
		nvmlReturn_t result;
	} cases[] = {
		{OTHER_VERSION, NVML_VERSION_MISMATCH},
		{STRANGER, NVML_DRIVER_NOT_LOADED},
		{SILENT, NVML_DRIVER_NOT_LOADED},
		{TOO_MANY, NVML_UNKNOWN},
		{TOO_LONG, NVML_UNKNOWN},
		{CUT, NVML_DRIVER_NOT_LOADED},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		manner = cases[i].how;
		EXPECT(nvmlInit_v2() == cases[i].result);
		EXPECT(nvmlShutdown() == NVML_UNINITIALIZED);
	}
	manner = GOOD;
	errno = 4711;
	EXPECT(nvmlInitWithFlags(4) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlInitWithFlags(3) == NVML_SUCCESS && nvmlInit() == NVML_SUCCESS);
	EXPECT(nvmlShutdown() == NVML_SUCCESS);
	EXPECT(nvmlDeviceGetHandleByIndex_v2(0, &device) == NVML_SUCCESS && errno == 4711);
}

static void test_texts(void)
{
	nvmlDevice_t device = phos_handle(1);
	char text[300];
	EXPECT(nvmlDeviceGetUUID(device, text, 40) == NVML_INSUFFICIENT_SIZE);
	EXPECT(nvmlDeviceGetUUID(device, text, 41) == NVML_SUCCESS);
	EXPECT(strcmp(text, "GPU-11111111-1111-1111-1111-111111111111") == 0);
	EXPECT(nvmlDeviceGetName(device, text, sizeof text) == NVML_SUCCESS && strlen(text) == 255);
	EXPECT(nvmlDeviceGetName(device, NULL, 96) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlSystemGetDriverVersion(text, sizeof text) == NVML_SUCCESS);
	EXPECT(strlen(text) == PHOS_ANSWER_TEXT - 1);
	EXPECT(strcmp(nvmlErrorString(NVML_NOT_SUPPORTED), "Not Supported") == 0);
}

static void test_peers(void)
{
	nvmlDevice_t first = phos_handle(0), second = phos_handle(1), none = phos_handle(2);
	int status = 9;
	EXPECT(nvmlDeviceGetP2PStatus(first, first, 0, &status) == NVML_SUCCESS && status == 0);
	EXPECT(nvmlDeviceGetP2PStatus(first, first, 2, &status) == NVML_SUCCESS && status == 5);
	EXPECT(nvmlDeviceGetP2PStatus(first, second, 1, &status) == NVML_SUCCESS && status == 0);
	EXPECT(nvmlDeviceGetP2PStatus(second, first, 1, &status) == NVML_SUCCESS && status == 5);
	EXPECT(nvmlDeviceGetP2PStatus(first, none, 0, &status) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetP2PStatus(first, second, 6, &status) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetP2PStatus(first, second, 0, NULL) == NVML_INVALID_ARGUMENT);
}

static void test_handles(void)
{
	nvmlDevice_t device = NULL;
	unsigned index;
	EXPECT(nvmlDeviceGetHandleByIndex_v2(2, &device) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetIndex(NULL, &index) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetIndex(phos_handle(2), &index) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetIndex((nvmlDevice_t)&index, &index) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetHandleByPciBusId_v2("41:00.0", &device) == NVML_SUCCESS);
	EXPECT(nvmlDeviceGetIndex(device, &index) == NVML_SUCCESS && index == 1);
	EXPECT(nvmlDeviceGetHandleByPciBusId_v2("00000000:42:00.0", &device) == NVML_NOT_FOUND);
	EXPECT(nvmlDeviceGetHandleByPciBusId_v2("nonsense", &device) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetHandleByUUID(NULL, &device) == NVML_INVALID_ARGUMENT);
	/* Programs for NVML's first version have smaller structures. */
	nvmlPciInfo_t info;
	memset(&info, 0x55, sizeof info);
	EXPECT(nvmlDeviceGetPciInfo(phos_handle(0), &info) == NVML_SUCCESS);
	EXPECT(strcmp(info.legacy_id, "0000:40:00.0") == 0 && info.subsystem_ids == 0x55555555);
	EXPECT(nvmlDeviceGetPciInfo_v3(phos_handle(0), &info) == NVML_SUCCESS);
	EXPECT(strcmp(info.id, "00000000:40:00.0") == 0 && info.bus == 0x40);
}

static void test_state(void)
{
	nvmlDevice_t device = phos_handle(1);
	nvmlMemory_v2_t memory = {.version = 1};
	nvmlTemperature_t temperature = {.version = NVML_VERSIONED(nvmlTemperature_t, 1)};
	unsigned number = 0;
	EXPECT(nvmlDeviceGetMemoryInfo_v2(device, &memory) == NVML_ARGUMENT_VERSION);
	memory.version = NVML_VERSIONED(nvmlMemory_v2_t, 2);
	EXPECT(memory.version == 0x02000028);
	EXPECT(nvmlDeviceGetMemoryInfo_v2(device, &memory) == NVML_SUCCESS);
	EXPECT(memory.total == 1000 && memory.used == 600 && memory.free == 300 &&
	       memory.reserved == 100);
	EXPECT(nvmlDeviceGetTemperature(device, 0, &number) == NVML_SUCCESS && number == 41);
	EXPECT(nvmlDeviceGetTemperature(device, 1, &number) == NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetTemperatureV(device, &temperature) == NVML_SUCCESS);
	EXPECT(temperature.celsius == 41);
	EXPECT(nvmlDeviceGetPowerUsage(device, &number) == NVML_NOT_SUPPORTED && number == 41);
	manner = LOST;
	EXPECT(nvmlDeviceGetTemperature(device, 0, &number) == NVML_GPU_IS_LOST);
	EXPECT(nvmlDeviceGetMemoryInfo_v2(device, &memory) == NVML_GPU_IS_LOST);
	EXPECT(nvmlDeviceGetIndex(device, &number) == NVML_SUCCESS);
	manner = GOOD;
}

static void test_processes(void)
{
	nvmlProcessInfo_v2_t found[3] = {{0}};
	nvmlProcessInfo_v1_t old[2] = {{0}};
	unsigned count = 0;
	EXPECT(nvmlDeviceGetComputeRunningProcesses_v3(phos_handle(1), &count, NULL) ==
		       NVML_INSUFFICIENT_SIZE &&
	       count == 2);
	count = 1;
	EXPECT(nvmlDeviceGetComputeRunningProcesses_v3(phos_handle(1), &count, found) ==
		       NVML_INSUFFICIENT_SIZE &&
	       count == 2 && found[0].pid == 10 && found[1].pid == 0);
	count = 3;
	EXPECT(nvmlDeviceGetComputeRunningProcesses_v2(phos_handle(1), &count, found) ==
		       NVML_SUCCESS &&
	       count == 2 && found[1].pid == 11 && found[1].used == 200 &&
	       found[1].gpu_instance == UINT32_MAX);
	EXPECT(nvmlDeviceGetComputeRunningProcesses(phos_handle(1), &count, old) == NVML_SUCCESS &&
	       old[1].pid == 11 && old[1].used == 200);
	count = 2;
	EXPECT(nvmlDeviceGetComputeRunningProcesses_v3(phos_handle(0), &count, found) ==
		       NVML_SUCCESS &&
	       count == 0);
	EXPECT(nvmlDeviceGetComputeRunningProcesses_v3(phos_handle(2), &count, found) ==
	       NVML_INVALID_ARGUMENT);
	EXPECT(nvmlDeviceGetGraphicsRunningProcesses_v3(phos_handle(1), &count, found) ==
		       NVML_SUCCESS &&
	       count == 0);
	char name[8];
	EXPECT(nvmlSystemGetProcessName((unsigned)getpid(), name, sizeof name) == NVML_SUCCESS);
	EXPECT(nvmlSystemGetProcessName(UINT32_MAX, name, sizeof name) == NVML_NOT_FOUND);
}

int main(void)
{
	char directory[] = "/tmp/phos-nvml-XXXXXX";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (mkdtemp(directory) == NULL || chdir(directory) != 0)
		abort();
	snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
	    listen(listener, 8) != 0)
		abort();
	setenv("PHOS_SOCKET", address.sun_path, 1);
	pthread_t server;
	pthread_create(&server, NULL, serve, NULL);
	test_start();
	test_texts();
	test_handles();
	test_peers();
	test_state();
	test_processes();
	shutdown(listener, SHUT_RDWR);
	pthread_join(server, NULL);
	close(listener);
	unlink(address.sun_path);
	rmdir(directory);
	return expect_result("nvml_test");
}
