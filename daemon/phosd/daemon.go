package phosd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/restored"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/metrics"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/standby"
	"github.com/phos-gpu/phos/daemon/phosd/sockmux"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
	"github.com/phos-gpu/phos/internal/linux/exitwatch"
)

// What a user may hand over at a time: an image directory, and all that leads out of a process
// tree.
const (
	handedFiles  = 256
	handedTokens = 4
)

// Options are what a Daemon is made of.
type Options struct {
	Config config.Config
	// Inventory lists the GPUs that a backend's name stands for.
	Inventory func(gpus string) ([]gpu.DeviceInfo, error)
	// Driver asks NVIDIA's driver about the real GPUs that a backend's name stands for, and tells of
	// what goes wrong with them. Nil, or a nil result: there are none.
	Driver func(gpus string, tell func(inventory.Event)) Driver
	// Environment is what workers have besides a PATH.
	Environment []string
	// Worker is the command that becomes a worker; nil: this program with the argument "worker".
	Worker []string
	Log    *slog.Logger
	// WorkerLog is the standard error of workers.
	WorkerLog *os.File
	// Guard keeps other processes from opening GPUs; nil: none does.
	Guard *guard.Guard
	// CPU saves and restores processes; nil: checkpoints are refused.
	CPU ckpt.CPU
	// Failpoints make steps of checkpoints and restores fail, for tests.
	Failpoints ckpt.Failpoints
	// Ready, if not nil, is called once phosd answers.
	Ready func()
}

// Daemon is one running phosd.
type Daemon struct {
	options Options
	log     *slog.Logger
	dir     *rundir.Dir
	state   *statedir.Dir
	archive *archive.Archive
	gpus    []gpu.DeviceInfo
	ledger  *ledger.Ledger
	table   *table
	started time.Time
	metrics *metrics.Metrics
	retired retired
	desk    *fdtoken.Desk
	served  bool // the socket is ours
	adopted bool // what a former phosd has left is known
	warm    warmth
	pool    *standby.Pool
	exits   *exitwatch.Watch // nil where the kernel tells no earlier than pidfds do
	trees   *restored.Trees
	machine *preflight.Machine
	// records is held while a session's record is written again, or removed.
	records  sync.Mutex
	policies policies
	// driver is nil where there are no real GPUs.
	driver Driver
	health inventory.Health
	// untracked says, once, that this kernel does not track written pages.
	untracked func()

	stop     context.CancelFunc // ends Serve
	stopping context.Context    //nolint:containedctx // the daemon's own life, not a request's
	// watchers are the goroutines that outlive a request: one per session.
	watchers sync.WaitGroup
}

// New makes the runtime directory ready and adopts the workers of a former phosd. It serves nobody
// yet.
func New(options Options) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: phosd must run as root", api.ErrNotPermitted)
	}
	if options.Worker == nil {
		options.Worker = []string{"/proc/self/exe", "worker"}
	}
	d := &Daemon{options: options, log: options.Log, started: time.Now(), table: newTable(options.Config.Sessions)}
	d.desk = fdtoken.NewDesk(fdtoken.Limits{Files: handedFiles, Tokens: handedTokens})
	numbers := metrics.Source{Status: func() *api.StatusReply { return d.status(context.Background(), api.Actor{}) }}
	if options.Guard != nil {
		numbers.Denied = options.Guard.Denied
	}
	d.metrics = metrics.New(numbers)
	d.untracked = sync.OnceFunc(func() {
		d.log.Info(
			"this kernel does not track written pages: the memory of processes is copied while they stand still",
			"missing",
			"CONFIG_MEM_SOFT_DIRTY",
		)
	})
	if options.Driver != nil {
		d.driver = options.Driver(options.Config.Gpus.Offer, d.heard)
	}
	d.stopping, d.stop = context.WithCancel(context.Background())
	d.trees = restored.New(
		restored.Options{
			Life:    d.stopping,
			Keepers: options.CPU,
			Path:    func(name string) string { return d.dir.Keeper(name) },
		},
	)
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Daemon) open() (err error) {
	settings := d.options.Config
	if d.gpus, err = d.options.Inventory(settings.Gpus.Offer); err != nil {
		return fmt.Errorf("gpus %s: %w", settings.Gpus.Offer, err)
	}
	if len(d.gpus) == 0 || len(d.gpus) > ledger.MaxGPUs {
		return fmt.Errorf("gpus %s: %d GPUs; 1 to %d can be served", settings.Gpus.Offer, len(d.gpus), ledger.MaxGPUs)
	}
	d.machine = &preflight.Machine{Arch: thisHost().Arch, GPUs: d.gpus, CPU: d.options.CPU, Room: d.room}
	if d.dir, err = rundir.Open(settings.RuntimeDir, tmpfsLimits(settings.Sessions)); err != nil {
		return err
	}
	for _, warning := range d.dir.Warnings {
		d.log.Warn(warning)
	}
	if d.dir.NoQuota != nil {
		d.log.Info(
			"the kernel limits no user in the memory for sessions; phosd watches what each session holds",
			"why",
			d.dir.NoQuota,
		)
	}
	if err := d.openState(); err != nil {
		return err
	}
	if err := d.sweep(); err != nil {
		return err
	}
	if d.exits, err = exitwatch.Open(); err != nil {
		d.log.Debug("ends of programs are told by pidfds alone", "why", err)
		d.exits = nil
	}
	if err := d.adopt(); err != nil {
		return err
	}
	d.adopted = true
	if d.options.Guard != nil {
		if err := d.options.Guard.Begin(); err != nil {
			return err
		}
	}
	d.openPool()
	return nil
}

// Serve answers at the socket until the context is done or a Stop request came. Workers stay:
// unless that request ended them, running programs go on and the next phosd adopts them.
func (d *Daemon) Serve(ctx context.Context) error {
	socket := d.options.Config.Socket
	listener, err := sockmux.Listen(socket)
	if err != nil {
		return err
	}
	d.served = true
	entrance, err := sockmux.New(
		listener,
		sockmux.Options{Program: d.welcome, Inquiry: d.answer, Files: d.desk.Accept, Log: d.log},
	)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := grpc.NewServer(
		grpc.Creds(api.PeerCredentials{}),
		grpc.ChainUnaryInterceptor(api.ServerErrors, d.noteOneGone),
		grpc.ChainStreamInterceptor(api.ServerStreamErrors, d.noteGone),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.MaxConcurrentStreams(64))
	api.RegisterDaemonServer(server, &service{daemon: d})
	closeMetrics, err := d.metrics.Serve(d.options.Config.Metrics)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var running sync.WaitGroup
	running.Go(entrance.Open)
	d.watchers.Go(d.watchHoldings)
	d.watchers.Go(d.followPolicies)
	d.watchers.Go(d.watchDriver)
	running.Go(func() { _ = server.Serve(entrance) }) // it ends with an error whenever its listener closes
	d.log.Info(
		"phosd is ready",
		"version",
		api.Version,
		"socket",
		socket,
		"gpus",
		d.options.Config.Gpus.Offer,
		"adopted",
		d.table.count(),
	)
	if d.options.Ready != nil {
		d.options.Ready()
	}
	select {
	case <-ctx.Done():
		d.saveAtExit()
	case <-d.stopping.Done():
	}
	d.stop()
	err = listener.Close()
	stopGently(server)
	running.Wait()
	entrance.Wait()
	d.log.Info("phosd ends", "programs left running", d.table.count())
	return errors.Join(err, closeMetrics())
}

// stopGently lets requests finish, the one that asked for the stop among them.
func stopGently(server *grpc.Server) {
	done := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		server.Stop()
	}
}

// Close gives everything back except running workers.
func (d *Daemon) Close() error {
	var failures []error
	d.stop()
	d.warm.drop()
	if d.pool != nil {
		failures = append(failures, d.pool.Close())
	}
	left := d.table.count()
	d.table.abandon()
	d.watchers.Wait()
	d.trees.Wait()
	if d.exits != nil {
		failures = append(failures, d.exits.Close())
	}
	d.retired.close()
	failures = append(failures, d.desk.Close())
	if d.driver != nil {
		failures = append(failures, d.driver.Close())
	}
	if d.ledger != nil {
		failures = append(failures, d.ledger.Close())
	}
	if d.state != nil {
		failures = append(failures, d.state.Close())
	}
	if d.dir != nil {
		if left == 0 && d.adopted { // programs that it never looked for may be there
			failures = append(failures, d.dir.Clear())
		}
		if d.served {
			failures = append(failures, os.Remove(d.options.Config.Socket))
		}
		failures = append(failures, d.dir.Close())
	}
	return errors.Join(failures...)
}
