/* A driver that is the one it is linked with, except that it loads no code and does not say why. */
#include <stdint.h>

uint32_t cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *kinds,
			    void **values)
{
	(void)module, (void)image, (void)options, (void)kinds, (void)values;
	return 209; /* no binary for GPU */
}
