package runner

import "golang.org/x/sys/unix"

// Unbind gives this process, and the CRIU that it starts, as many descriptors as it may have at
// all. CRIU keeps its own above those of the programs, and needs room there, also where phosd has
// few; a program gets its own limit back from its image.
func Unbind() {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		files.Cur = files.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files) // where it fails, CRIU says what it lacks
	}
}
