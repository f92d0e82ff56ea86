/* A driver that records its home directory in the file that CUDA_TEST_HOME names. Otherwise it
 * behaves as the driver that it is linked with. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void write_down(void)
{
	const char *path = getenv("CUDA_TEST_HOME"), *home = getenv("HOME");
	int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
	if (file >= 0) {
		dprintf(file, "%s\n", home ? home : "");
		close(file);
	}
}
