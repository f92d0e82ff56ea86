/* hold waits for the file that the environment variable HOLD names, if it names one: so a program
 * does not end too early for a test. */
#include <stdlib.h>
#include <unistd.h>

static void hold(void)
{
	const char *file = getenv("HOLD");
	while (file && access(file, F_OK) != 0)
		usleep(5000);
}
