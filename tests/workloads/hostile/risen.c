/*
 * A setuid program of root: becomes root, makes the file of its argument, and waits until it is
 * killed.
 */
#include <fcntl.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	if (count != 2 || setgid(0) || setuid(0))
		return 1;
	int done = open(arguments[1], O_CREAT | O_WRONLY, 0644);
	if (done < 0)
		return 2;
	close(done);
	for (;;)
		pause();
}
