package watchdog

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/tcpport"
)

// end kills the tree, which is saved. Its TCP connections leave nothing behind: their other ends
// are saved, too, and their ports are free for a restore. A connection that cannot be handled ends
// like any other.
func (w *watchdog) end() error {
	if w.group == nil {
		return w.kill()
	}
	pids, err := w.group.Processes()
	if err != nil {
		return err
	}
	eachSocket(pids, tcpport.Unplug)
	if err := w.kill(); err != nil {
		eachSocket(pids, tcpport.Plug) // those that are left run on
		return err
	}
	return nil
}

// eachSocket does something with the sockets of processes.
func eachSocket(pids []int, do func(*os.File) error) {
	for _, pid := range pids {
		descriptors, err := proc.Descriptors(pid)
		if err != nil {
			continue // it has ended
		}
		for i := range descriptors {
			if descriptors[i].Format() != unix.S_IFSOCK {
				continue
			}
			if socket, err := proc.Borrow(pid, descriptors[i].Number); err == nil {
				_ = do(socket)
				_ = socket.Close()
			}
		}
	}
}
