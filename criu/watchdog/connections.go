package watchdog

import (
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/tcpport"
)

// unplug lets the TCP connections of processes that are saved, and about to be killed, leave
// nothing behind: their other ends are saved, too, and their ports are free for a restore. A
// connection that cannot be handled ends like any other.
func unplug(pids []int) {
	for _, pid := range pids {
		descriptors, err := proc.Descriptors(pid)
		if err != nil {
			continue // it has ended
		}
		for i := range descriptors {
			if descriptors[i].Format() == unix.S_IFSOCK {
				unplugOne(pid, descriptors[i].Number)
			}
		}
	}
}

// unplugOne unplugs one descriptor of a process.
func unplugOne(pid, number int) {
	socket, err := proc.Borrow(pid, number)
	if err != nil {
		return
	}
	defer socket.Close()
	_ = tcpport.Unplug(socket)
}
