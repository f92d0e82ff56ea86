/* hold waits for the file that the environment variable HOLD names, if it is set. So a program does
 * not end too early for a test. Once the file exists, programs need not sleep between steps. */
#include <stdlib.h>
#include <unistd.h>

static void hold(void)
{
	const char *file = getenv("HOLD");
	while (file && access(file, F_OK) != 0)
		usleep(5000);
}

static inline void rest_for(unsigned microseconds)
{
	const char *file = getenv("HOLD");
	if (!file || access(file, F_OK) != 0)
		usleep(microseconds);
}
