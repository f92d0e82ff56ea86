package arrive

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// hold opens a directory and locks it for as long as this process lives.
func hold(dir string) (*os.File, error) {
	opened, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(opened.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = opened.Close() // it was only read
		return nil, err
	}
	return opened, nil
}

// sweep removes the images of the user's processes that were killed: nobody holds their
// directories. What cannot be removed stays for the next one.
func sweep(below string) {
	found, _ := filepath.Glob(filepath.Join(below, prefix+"*"))
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
			continue
		}
		left, err := hold(dir)
		if err != nil {
			continue
		}
		// Another process may have made it and not hold it yet. It is empty then.
		if _, err := left.Readdirnames(1); err == nil {
			_ = os.RemoveAll(dir)
		}
		_ = left.Close()
	}
}
