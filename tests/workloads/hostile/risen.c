/*
 * A setuid program of root: becomes root and holds a secret in its memory until it is killed. The
 * text is put together at run time, so that the file does not contain it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char secret[64];

int main(int count, char **arguments)
{
	if (count != 2 || setgid(0) || setuid(0))
		return 1;
	for (int i = 0; i < 20; i++)
		secret[i] = (char)("SFDSFU;PG;SPPU;6g3e9"[i] - 1);
	int done = open(arguments[1], O_CREAT | O_WRONLY, 0644);
	if (done < 0)
		return 2;
	close(done);
	for (;;)
		pause();
}
