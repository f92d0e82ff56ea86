package supervisor

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/inherit"
)

// processName is what ps and top show.
const processName = "phos-supervisor"

// urgent is the priority of a supervisor: it must run at once when it has to kill, however many
// processes want a CPU. Those that it starts have ordinary priority.
const urgent, ordinary = -20, 0

// becomeSupervisor changes what a process inherits from its agent: files, signals, priority.
func becomeSupervisor(log *slog.Logger) {
	_ = os.WriteFile("/proc/self/comm", []byte(processName), 0) // cosmetic
	if err := inherit.CloseFiles(lockFD, readyFD); err != nil {
		log.Warn("inherited files stay open", "error", err)
	}
	inherit.ResetSignals()
	// Caught and not ignored, because children would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE)
	unix.Umask(0o022)
	// What is orphaned inside becomes a child of the supervisor, which reaps it: a container's first
	// process may not.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Warn("orphans are not reaped", "error", err)
	}
	if err := setPriority(urgent); err != nil {
		log.Warn("priority not raised", "error", err)
	}
	// Children inherit it. It is lowered when all are started.
	if err := setOOMScore(0); err != nil {
		log.Warn("OOM score not set", "error", err)
	}
}

// setPriority sets the priority of all threads, and of those that they will start.
func setPriority(nice int) error {
	// In a session of its own the kernel may count a process only among those of the session.
	_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(nice)), 0) // not on every kernel
	entries, err := os.ReadDir("/proc/self/task")
	for _, entry := range entries {
		thread, _ := strconv.Atoi(entry.Name())
		if set := unix.Setpriority(unix.PRIO_PROCESS, thread, nice); set != nil && !errors.Is(set, unix.ESRCH) {
			err = errors.Join(err, set)
		}
	}
	return err
}

// neverKilled is the score of a process that the kernel does not kill.
const neverKilled = -1000

// setOOMScore sets how likely the kernel kills this process when the machine has no memory left.
func setOOMScore(score int) error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0)
}

// protect keeps a supervisor alive and in memory: it must be able to kill when the machine has no
// memory left and a disk does not answer. Only pages that it has used stay; a rehearsal of the
// fence has used those that a kill needs.
func protect(log *slog.Logger) {
	if err := setOOMScore(neverKilled); err != nil {
		log.Warn("OOM score not lowered", "error", err)
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		log.Warn("memory not locked", "error", err)
	}
}

// patientLines is how many lines of a supervisor's own log may wait for a disk. More are dropped.
const patientLines = 64

// newLog returns a log to standard error, which is in the run directory. Its callers do not wait
// for the disk: they have to kill.
func newLog() *slog.Logger {
	lines := make(chan []byte, patientLines)
	go func() {
		for line := range lines {
			_, _ = os.Stderr.Write(line) // there is no other place to say so
		}
	}()
	return slog.New(slog.NewTextHandler(lineSender(lines), nil))
}

// lineSender sends lines to a goroutine that writes them.
type lineSender chan<- []byte

// Write drops the line if too many wait.
func (s lineSender) Write(line []byte) (int, error) {
	select {
	case s <- slices.Clone(line):
	default:
	}
	return len(line), nil
}
