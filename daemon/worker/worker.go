package worker

import (
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
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// BackendOptions say which backend a worker needs, and how it accounts memory.
type BackendOptions struct {
	Gpus   string
	Ledger *ledger.Ledger
	Slot   int
	Logger *slog.Logger
}

// Open makes a backend. The main program hands it in, so that this package knows none.
type Open func(options BackendOptions) (gpu.Backend, error)

// Worker serves one program.
type Worker struct {
	config  boot.Config
	files   handed
	log     *slog.Logger
	program *proc.Handle
	job     atomic.Pointer[job] // nil as long as the program is not known
	backend gpu.Backend
	// early is the log of a backend that was opened before its session was known.
	early    joblog.Late
	accounts *ledger.Ledger
	// session is nil until the handshake is over.
	session atomic.Pointer[session.Session]
	// joined is nil until the program uses the session.
	joined atomic.Pointer[joined]
	// revival is nil in the worker of a program that has just started.
	revival *revival
	server  *grpc.Server
	// checkpointing is held by the one checkpoint that there may be at a time.
	checkpointing sync.Mutex
	tracing       tracing
	// last is the progress that the session told last.
	last atomic.Pointer[session.Progress]

	// desk keeps what phosd hands over.
	desk *fdtoken.Desk
	// borrower asks phosd for what this process may not open.
	borrower *borrower.Borrower
	// over is closed when the session is to end; why says why.
	over chan struct{}
	once sync.Once
	why  string
}

// Run is the whole life of a worker process. It returns when the session has ended; the program may
// still run.
func Run(open Open) error {
	if err := renounce(); err != nil {
		return err
	}
	config, err := boot.ReadConfig(os.NewFile(boot.ConfigFD, "config"))
	if errors.Is(err, io.EOF) {
		return nil // phosd gave up before there was a session
	}
	if err != nil {
		return err
	}
	w := newWorker(config)
	w.files = inherited(config)
	return w.live(open)
}

// live is the life of a worker from the moment in which it knows what for.
func (w *Worker) live(open Open) (err error) {
	defer w.flushTrace()
	config := w.config
	if err := become(config); err != nil {
		return err
	}
	if config.Restore != nil {
		return w.revive(open)
	}
	w.log = w.phosdLog(config.Program.PID)
	if w.program, err = proc.Take(config.Program, w.files.pidfd); err != nil {
		return err
	}
	go w.followProgram(w.log)
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

// Standby is the whole life of a worker that is there before its program: it waits with GPUs that
// are open.
func Standby(open Open) error {
	if err := renounce(); err != nil {
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
	ready, err := w.warmUp(open, order)
	if err != nil {
		return errors.Join(err, phosd.Send(boot.Ready{Error: err.Error()}))
	}
	if err := phosd.Send(ready); err != nil {
		return err
	}
	go w.makeRoom(order.LedgerSlot, ready.MemoryBytes)
	return w.await(phosd, open)
}

// makeRoom ends a worker that waits when a program needs its memory.
func (w *Worker) makeRoom(slot int, held []uint64) {
	if !w.accounts.AwaitWanted(slot) {
		return
	}
	err := w.backend.Close()
	for ordinal, bytes := range held {
		w.accounts.Release(ordinal, slot, bytes)
	}
	slog.New(w.early).Info("a worker that waited makes room for a program", "bytes", held, "error", err)
	os.Exit(0)
}

// warmUp opens the GPUs and does what takes long, with few rights: it is nobody's yet.
func (w *Worker) warmUp(open Open, order boot.Standby) (ready boot.Ready, err error) {
	if err := stepAside(); err != nil {
		return ready, err
	}
	w.early = joblog.NewLate(order.Log.Handler(os.Stderr))
	if err := w.openAs(open, slog.New(w.early)); err != nil {
		return ready, err
	}
	w.accounts.Stand(order.LedgerSlot)
	warmer, warms := w.backend.(gpu.Warmer)
	for ordinal := range w.backend.Devices() {
		bytes := uint64(0)
		if warms {
			if bytes, err = warmer.Warm(ordinal); err != nil {
				return ready, fmt.Errorf("warm up GPU %d: %w", ordinal, err)
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

// await waits for a session. When phosd ends, nobody needs this worker any more.
func (w *Worker) await(phosd *fdpass.Conn, open Open) error {
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
	w.accounts.Wake() // the slot is not spare any more
	w.config = config
	if w.files, err = sent(config, files); err != nil {
		return err
	}
	if err := stepForward(); err != nil {
		return err
	}
	return w.live(open)
}

func newWorker(config boot.Config) *Worker {
	return &Worker{
		config: config, over: make(chan struct{}),
		desk:     fdtoken.NewDesk(fdtoken.Limits{Files: handedFiles, Tokens: handedTokens}),
		borrower: borrower.New(),
	}
}

// phosdLog is phosd's log, for what concerns the session.
func (w *Worker) phosdLog(pid int) *slog.Logger {
	log := slog.New(w.config.Log.Handler(os.Stderr)).With("session", w.config.Session)
	if pid != 0 {
		log = log.With("pid", pid)
	}
	return log
}

// openBackend does nothing in a worker that has waited with it.
func (w *Worker) openBackend(open Open) error {
	if w.backend != nil {
		w.early.Set(w.log.Handler())
		return nil
	}
	return w.openAs(open, w.log)
}

func (w *Worker) openAs(open Open, log *slog.Logger) error {
	accounts, err := ledger.Open(w.files.ledger)
	if err != nil {
		return err
	}
	w.accounts = accounts
	w.backend, err = open(BackendOptions{Gpus: w.config.Gpus, Ledger: accounts, Slot: w.config.LedgerSlot, Logger: log})
	if err != nil {
		return fmt.Errorf("open GPUs %s: %w", w.config.Gpus, err)
	}
	return nil
}

// followProgram ends the process with its program, at once and whatever it is doing: the kernel
// takes back what it had.
func (w *Worker) followProgram(log *slog.Logger) {
	if err := w.program.Wait(); err != nil {
		log.Error("watch program", "error", err)
		return
	}
	log.Debug("the program has ended")
	w.flushTrace()
	os.Exit(0)
}

// end makes the session end while the program runs on.
func (w *Worker) end(why string) {
	w.once.Do(func() {
		w.why = why
		close(w.over)
	})
}

// job is what a program's surroundings say about it.
type job struct {
	name string
	// named: by its pos.yaml.
	named   bool
	logPath string
	// policy is what pos.yaml says about checkpoints, nil for nothing.
	policy *config.Policy
	// wrong is what is wrong with pos.yaml.
	wrong  error
	log    *os.File
	getenv func(string) string
}

// currentJob is what is known of the program's surroundings.
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

// complaint is what is wrong with pos.yaml, on one line; empty for nothing.
func (j job) complaint() string {
	if j.wrong == nil {
		return ""
	}
	return strings.ReplaceAll(j.wrong.Error(), "\n", "; ")
}

// readJob reads with the program's rights, because the worker has no others. Nothing in it can
// fail: a program with a wrong file still starts.
func readJob(program proc.Identity) job {
	at := fmt.Sprintf("/proc/%d/cwd", program.PID)
	file, err := jobfile.Load(at + "/" + jobfile.Name)
	if _, closed := os.Readlink(at); errors.Is(closed, fs.ErrPermission) {
		err = fmt.Errorf(
			"no %s is read: the program is not dumpable, so nobody but root may see its directory",
			jobfile.Name,
		)
	}
	j := job{
		name:    file.JobName,
		named:   file.JobName != "",
		logPath: file.LogPath,
		wrong:   err,
		getenv:  func(string) string { return "" },
	}
	if j.name == "" {
		j.name = program.Name()
	}
	if file.Checkpoint != nil {
		policy, _ := file.Checkpoint.Policy() // what is wrong with it is in err
		j.policy = &policy
	}
	if environment, err := program.Environment(); err == nil {
		j.getenv = func(name string) string { return environment[name] }
	}
	var logError error
	if j.log, logError = joblog.Open(program, j.logPath); logError != nil {
		j.wrong = errors.Join(j.wrong, logError)
	}
	return j
}
