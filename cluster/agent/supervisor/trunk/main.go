package trunk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/process"
	"github.com/phos-gpu/phos/internal/linux/inherit"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// trunk is the process that Main is.
type trunk struct {
	processes []process.Process
	report    Report
	// running has the index of each process by its pid.
	running map[int]int
}

// Main is the main function of a trunk. It returns the exit status.
func Main() int {
	// The kernel kills the processes at the end of the thread that has started them.
	runtime.LockOSThread()
	t := &trunk{running: map[int]int{}}
	err := t.read()
	if err == nil {
		err = t.settle()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phos: supervisors start trunks, with an order as a file:", err)
		return 2
	}
	t.start()
	t.reap()
	return 0
}

// read reads the order.
func (t *trunk) read() error {
	file := os.NewFile(OrderFD, "order")
	err := json.NewDecoder(file).Decode(&t.processes)
	t.report.Processes = make([]Process, len(t.processes))
	return errors.Join(err, file.Close())
}

// settle changes what this process is to the kernel.
func (t *trunk) settle() error {
	if err := inherit.CloseFiles(Kept(len(t.processes))...); err != nil {
		return err
	}
	_ = proc.SetName("phos-trunk") // cosmetic
	// Caught and not ignored, because children would inherit that.
	signal.Notify(make(chan os.Signal, 1),
		unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// start starts the processes in their order, until one cannot be started.
func (t *trunk) start() {
	for i := range t.processes {
		out, complaints := Streams(i)
		pid, err := t.processes[i].Execute(process.How{Files: []uintptr{0, uintptr(out), uintptr(complaints)}})
		if err != nil {
			t.report.Processes[i].Problem = err.Error()
			break
		}
		t.report.Processes[i].PID, t.running[pid] = pid, i
		t.tell()
	}
	t.report.Started = true
	t.tell()
}

// reap waits until the processes have ended.
func (t *trunk) reap() {
	for len(t.running) > 0 {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return // never: there are children
		}
		if i, known := t.running[pid]; known {
			delete(t.running, pid)
			ended := uint32(status)
			t.report.Processes[i].Status = &ended
			t.tell()
		}
	}
}

// tell writes the report. Without a supervisor there is none to read it, and soon no trunk.
func (t *trunk) tell() {
	text, err := json.Marshal(t.report)
	if err == nil {
		_, err = unix.Write(ReportFD, append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phos: report of a trunk:", err)
	}
}
