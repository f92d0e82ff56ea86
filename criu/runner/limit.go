package runner

import "golang.org/x/sys/unix"

// RaiseLimits raises the limit of open files to its maximum, for this process and the CRIU that it
// starts. CRIU keeps its own descriptors above those of the programs. A restored program gets its
// own limit from its image.
func RaiseLimits() {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		files.Cur = files.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files) // if it fails, CRIU reports what it lacks
	}
}
