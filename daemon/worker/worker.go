package worker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/worker/boot"
	"github.com/phos-gpu/phos/daemon/worker/borrower"
	"github.com/phos-gpu/phos/daemon/worker/jobfile"
	"github.com/phos-gpu/phos/daemon/worker/joblog"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/daemon/worker/tracker"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// BackendOptions say which backend a worker needs and where it accounts memory.
type BackendOptions struct {
	Gpus   string
	Ledger *ledger.Ledger
	Slot   int
	Logger *slog.Logger
}

// Open opens a backend. The main program passes it in, so that this package imports no backend.
type Open func(options BackendOptions) (gpu.Backend, error)

// Worker serves one program.
type Worker struct {
	config  boot.Config
	files   sessionFiles
	log     *slog.Logger
	program *proc.Handle
	job     atomic.Pointer[job] // nil until the program is known
	backend gpu.Backend
	// visible are the backend's ordinals of the GPUs that the program sees, in its order; nil: all.
	visible []int
	// earlyLog is the log of a backend that a standby worker opened before its session was known.
	earlyLog joblog.Late
	accounts *ledger.Ledger
	refusals refusals
	// session is nil until the handshake is over.
	session atomic.Pointer[session.Session]
	// tracker is nil if the program has offered none.
	tracker atomic.Pointer[tracker.Tracker]
	// active is nil until the program uses the session.
	active atomic.Pointer[activeSession]
	// restoring is nil unless the worker restores a session.
	restoring *workerRestore
	server    *grpc.Server
	// checkpointing is held by the checkpoint in progress; there is at most one.
	checkpointing sync.Mutex
	tracing       tracing
	// lastProgress is the last known progress of the session.
	lastProgress atomic.Pointer[session.Progress]

	// tokens holds the files that phosd handed off.
	tokens *fdtoken.Store
	// borrower asks phosd to open files that this process may not open.
	borrower *borrower.Borrower
	// over is closed when the session shall end; why is the reason.
	over chan struct{}
	once sync.Once
	why  string
}

// Run is the main function of a worker process. It returns when the session has ended; the program
// may still run.
func Run(open Open) error {
	if err := harden(); err != nil {
		return err
	}
	config, err := boot.ReadConfig(os.NewFile(boot.ConfigFD, "config"))
	if errors.Is(err, io.EOF) {
		return nil // phosd gave up before the session began
	}
	if err != nil {
		return err
	}
	w := newWorker(config)
	w.files = inheritedFiles(config)
	return w.start(open)
}

// start runs the worker once its configuration is known.
func (w *Worker) start(open Open) (err error) {
	defer w.flushTrace()
	config := w.config
	if err := becomeUser(config); err != nil {
		return err
	}
	if config.Restore != nil {
		return w.restore(open)
	}
	w.log = w.phosdLog(config.Program.PID)
	if w.program, err = proc.Take(config.Program, w.files.pidfd); err != nil {
		return err
	}
	go w.watchProgram(w.log)
	found := readJob(w.program.Identity)
	w.job.Store(&found)
	w.log = found.logger(w.log, config.Log)
	if err := w.serveControl(); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := w.openBackend(open); err != nil {
		return errors.Join(err, w.refuse(err))
	}
	return w.serve()
}

// Standby is the main function of a standby worker. It opens the GPUs, then waits for a session.
func Standby(open Open) error {
	if err := harden(); err != nil {
		return err
	}
	phosd, err := fdpass.Inherited(boot.StandbyFD)
	if err != nil {
		return err
	}
	var order boot.Standby
	files, err := phosd.Receive(&order)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil || len(files) != 1 {
		return errors.Join(err, errConfig)
	}
	w := newWorker(boot.Config{Gpus: order.Gpus, LedgerSlot: order.LedgerSlot, Log: order.Log})
	w.files.ledger = files[0]
	ready, err := w.prepareGPUs(open, order)
	if err != nil {
		return errors.Join(err, phosd.Send(boot.Ready{Error: err.Error()}))
	}
	if err := phosd.Send(ready); err != nil {
		return err
	}
	go w.yieldMemory(order.LedgerSlot, ready.MemoryBytes)
	return w.awaitSession(phosd, open)
}

// yieldMemory waits until a program needs the memory of this standby worker, then gives the memory
// back and exits.
func (w *Worker) yieldMemory(slot int, held []uint64) {
	if !w.accounts.AwaitStandbyRequest(slot) {
		return
	}
	err := w.backend.Close()
	for ordinal, bytes := range held {
		w.accounts.Release(ordinal, slot, bytes)
	}
	slog.New(w.earlyLog).Info("standby worker makes room for a program", "bytes", held, "error", err)
	os.Exit(0)
}

// prepareGPUs opens the GPUs and does the slow parts of initialization, as an unprivileged user
// that owns no program.
func (w *Worker) prepareGPUs(open Open, order boot.Standby) (ready boot.Ready, err error) {
	if err := assumeStandbyUser(); err != nil {
		return ready, err
	}
	w.earlyLog = joblog.NewLate(order.Log.Handler(os.Stderr))
	if err := w.openLedgerAndBackend(open, slog.New(w.earlyLog)); err != nil {
		return ready, err
	}
	w.accounts.SetStandby(order.LedgerSlot)
	preparer, ok := w.backend.(gpu.ContextPreparer)
	for ordinal := range w.backend.Devices() {
		bytes := uint64(0)
		if ok {
			if bytes, err = preparer.PrepareContext(ordinal); err != nil {
				return ready, fmt.Errorf("prepare context on GPU %d: %w", ordinal, err)
			}
		}
		if order.MemoryBytes > 0 {
			bytes = order.MemoryBytes
		}
		if err := w.accounts.Reserve(ordinal, order.LedgerSlot, bytes); err != nil {
			return ready, err
		}
		ready.MemoryBytes = append(ready.MemoryBytes, bytes)
	}
	return ready, nil
}

// awaitSession waits for a session and serves it. It returns nil if phosd exits first.
func (w *Worker) awaitSession(phosd *fdpass.Conn, open Open) error {
	var config boot.Config
	files, err := phosd.Receive(&config)
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := phosd.Close(); err != nil {
		return err
	}
	w.accounts.WakeStandby() // the slot is no longer that of a standby worker
	w.config = config
	if w.files, err = receivedFiles(config, files); err != nil {
		return err
	}
	if err := regainRoot(); err != nil {
		return err
	}
	return w.start(open)
}

func newWorker(config boot.Config) *Worker {
	return &Worker{
		config: config, over: make(chan struct{}),
		tokens:   fdtoken.NewStore(fdtoken.Limits{Files: maxTokenFiles, Tokens: maxTokens}),
		borrower: borrower.New(),
	}
}

// phosdLog returns a logger to phosd's log, with the session's attributes.
func (w *Worker) phosdLog(pid int) *slog.Logger {
	log := slog.New(w.config.Log.Handler(os.Stderr)).With("session", w.config.Session)
	if pid != 0 {
		log = log.With("pid", pid)
	}
	return log
}

// openBackend opens the backend. A standby worker has already done so.
func (w *Worker) openBackend(open Open) error {
	if w.backend != nil {
		w.earlyLog.Set(w.log.Handler())
		return nil
	}
	return w.openLedgerAndBackend(open, w.log)
}

// openLedgerAndBackend opens the ledger and the backend, which logs to log.
func (w *Worker) openLedgerAndBackend(open Open, log *slog.Logger) error {
	accounts, err := ledger.Open(w.files.ledger)
	if err != nil {
		return err
	}
	w.accounts = accounts
	accounts.Refused = func(err error) { w.logRefusal(log, err) }
	w.backend, err = open(BackendOptions{Gpus: w.config.Gpus, Ledger: accounts, Slot: w.config.LedgerSlot, Logger: log})
	if err != nil {
		return fmt.Errorf("open GPUs %s: %w", w.config.Gpus, err)
	}
	return nil
}

// watchProgram exits the process at once when the program exits. The kernel frees everything it
// held.
func (w *Worker) watchProgram(log *slog.Logger) {
	if err := w.program.Wait(); err != nil {
		log.Error("cannot watch program", "error", err)
		return
	}
	log.Debug("program exited")
	w.flushTrace()
	os.Exit(0)
}

// end ends the session. The program may still run.
func (w *Worker) end(why string) {
	w.once.Do(func() {
		w.why = why
		close(w.over)
	})
}

// job is what is known about a program from its pos.yaml and its environment.
type job struct {
	name string
	// named is set if name comes from pos.yaml or PHOS_JOB.
	named   bool
	logPath string
	// policy is the checkpoint policy in pos.yaml or PHOS_JOB; nil if there is none.
	policy *config.Policy
	// err is the error in pos.yaml or PHOS_JOB, or nil.
	err    error
	log    *os.File
	getenv func(string) string
}

// currentJob returns the program's job, or an empty one while it is not known.
func (w *Worker) currentJob() job {
	if known := w.job.Load(); known != nil {
		return *known
	}
	return job{}
}

// getenv reads the program's environment.
func (w *Worker) getenv(name string) string {
	if known := w.job.Load(); known != nil {
		return known.getenv(name)
	}
	return ""
}

// errorText returns the error in pos.yaml on one line; empty if there is none.
func (j job) errorText() string {
	if j.err == nil {
		return ""
	}
	return strings.ReplaceAll(j.err.Error(), "\n", "; ")
}

// readJob reads pos.yaml and the environment with the program's rights; the worker has no others.
// PHOS_JOB goes before pos.yaml; without a name in either, the job has that of the script or the
// program. It never fails: a program with an invalid file still starts.
func readJob(program proc.Identity) job {
	at := proc.Path(program.PID, "cwd")
	file, err := jobfile.Load(at + "/" + jobfile.Name)
	if _, closed := os.Readlink(at); errors.Is(closed, fs.ErrPermission) {
		err = fmt.Errorf(
			"%s was not read: the program is not dumpable, so only root may see its directory",
			jobfile.Name,
		)
	}
	j := job{getenv: func(string) string { return "" }}
	if environment, err := program.Environment(); err == nil {
		j.getenv = func(name string) string { return environment[name] }
	}
	over, overError := jobfile.ParseVariable(j.getenv(jobfile.Variable))
	file = file.With(over)
	j.name, j.named, j.logPath, j.err = file.JobName, file.JobName != "", file.LogPath, errors.Join(err, overError)
	if j.name == "" {
		j.name = cmp.Or(jobfile.ScriptName(program.Arguments()), program.Name())
	}
	if file.Checkpoint != nil {
		policy, _ := file.Checkpoint.Policy() // an invalid policy is already in err
		j.policy = &policy
	}
	var logError error
	if j.log, logError = joblog.Open(program, j.logPath); logError != nil {
		j.err = errors.Join(j.err, logError)
	}
	return j
}
