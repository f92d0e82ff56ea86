/* memory.c without a GPU: it runs steps, and checks its memory in the end. It only writes memory,
 * so that a checkpoint tool has no other work.
 *
 * usage: steps PAGE MIB */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The words of memory.c's page that it uses. */
enum { QUIT = 3, STEPS = 8, REWRITTEN_BYTES = 9, VERIFIED = 12 };

int main(int argc, char **argv)
{
	int file = argc == 3 ? open(argv[1], O_RDWR) : -1;
	_Atomic uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		return 1;
	close(file);
	uint64_t words = strtoull(argv[2], NULL, 10) * (1 << 20) / 8, step = 0;
	uint64_t *memory = malloc(words * 8);
	for (uint64_t i = 0; i < words; i++)
		memory[i] = i;
	for (; !page[QUIT]; usleep(500)) {
		memory[step % words] += words;
		page[REWRITTEN_BYTES] += 8;
		page[STEPS] = ++step;
	}
	for (uint64_t i = 0; i < words; i++)
		if (memory[i] != i + words * (step / words + (i < step % words)))
			return 1;
	page[VERIFIED] = 1;
	puts("ok memory");
	return 0;
}
