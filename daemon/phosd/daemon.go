package phosd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints"
	"github.com/phos-gpu/phos/daemon/phosd/devices"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/metrics"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/phosd/sockmux"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/scrape"
)

// What a user may hand off at a time: an image directory, and the endpoints of a process tree.
const (
	maxFiles  = 256
	maxTokens = 4
)

// What gRPC may hold in memory for one user's connections: messages are small, because files and
// images travel beside gRPC.
const (
	maxMessageBytes = 64 << 10
	maxStreams      = 32
	// maxHeaderBytes is for the headers of one request, which stay in memory as long as it lasts.
	maxHeaderBytes = 8 << 10
)

// Options are what a Daemon is made of.
type Options struct {
	Config config.Config
	// Inventory lists the GPUs of a backend.
	Inventory func(gpus string) ([]gpu.DeviceInfo, error)
	// Driver connects to NVIDIA's driver and reports its events. Nil, or a nil result: the backend has
	// no real GPUs.
	Driver func(gpus string, report func(inventory.Event)) devices.Driver
	// Environment is what workers have besides a PATH.
	Environment []string
	// Worker is the command that becomes a worker; nil: this program with the argument "worker".
	Worker []string
	Log    *slog.Logger
	// WorkerLog is the standard error of workers.
	WorkerLog *os.File
	// Guard keeps other processes from opening GPUs; nil: every process may.
	Guard *guard.Guard
	// CPU saves and restores processes; nil: checkpoints are refused.
	CPU ckpt.CPU
	// Failpoints make steps of checkpoints and restores fail, for tests.
	Failpoints ckpt.Failpoints
	// UnusedGPUs is why software GPUs serve on a machine with an NVIDIA GPU or driver; nil: they do
	// not.
	UnusedGPUs error
	// Ready, if not nil, is called with the GPUs once phosd serves its socket.
	Ready func([]gpu.DeviceInfo)
}

// Daemon is one running phosd.
type Daemon struct {
	options     Options
	log         *slog.Logger
	started     time.Time
	metrics     *metrics.Metrics
	tokens      *fdtoken.Store // files that callers have handed off
	allowed     atomic.Pointer[config.Allowed]
	quota       *quota.Quota
	dir         *rundir.Dir
	state       *statedir.Dir
	devices     *devices.Devices
	sessions    *sessions.Sessions
	checkpoints *checkpoints.Checkpoints
	reloading   sync.Mutex // guards settings and serving
	// settings are those of the options, with the latest [access] and [users].
	settings config.Config
	serving  bool // the socket is ours
	adopted  bool // all sessions of the phosd before are known

	stop context.CancelFunc // ends life
	life context.Context    //nolint:containedctx // the daemon's own life, not a request's
	// watchers are the goroutines that outlive a request.
	watchers sync.WaitGroup
}

// New opens everything but the socket, and adopts the workers of the phosd before.
func New(options Options) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: phosd must run as root", api.ErrNotPermitted)
	}
	if options.Worker == nil {
		options.Worker = []string{proc.OwnExecutable, "worker"}
	}
	d := &Daemon{options: options, settings: options.Config, log: options.Log, started: time.Now()}
	d.tokens = fdtoken.NewStore(fdtoken.Limits{Files: maxFiles, Tokens: maxTokens, UserFiles: minFiles, ExceptRoot: true})
	source := metrics.Source{Status: func() *api.StatusReply { return d.status(context.Background(), api.Caller{}) }}
	if options.Guard != nil {
		source.Denied = options.Guard.Denied
	}
	d.metrics = metrics.New(source)
	d.life, d.stop = context.WithCancel(context.Background())
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// open opens the parts from the bottom up, and then adopts what the phosd before has left.
func (d *Daemon) open() (err error) {
	settings := d.options.Config
	allowed, err := settings.Access.Resolve()
	if err != nil {
		return err
	}
	d.allowed.Store(&allowed)
	if d.devices, err = devices.Open(devices.Options{
		Offer: settings.Gpus.Offer, Inventory: d.options.Inventory, Driver: d.options.Driver,
		Metrics: d.metrics, Log: d.log,
	}); err != nil {
		return err
	}
	if err := d.openDirectories(); err != nil {
		return err
	}
	d.sessions = sessions.New(sessions.Options{
		Config: settings, Dir: d.dir, Devices: d.devices, Metrics: d.metrics, Log: d.log, Life: d.life,
		Worker: d.options.Worker, Environment: d.options.Environment, WorkerLog: d.options.WorkerLog,
		Guard: d.options.Guard, Quota: d.quota, Watchers: &d.watchers, MayUse: d.mayUse,
		Starting: d.forgetTracked, Renumbered: d.renumbered,
	})
	d.devices.Attach(d.sessions)
	d.checkpoints = checkpoints.New(checkpoints.Options{
		Config: settings.Checkpoint, Sessions: d.sessions, Devices: d.devices, Dir: d.dir, State: d.state,
		Metrics: d.metrics, Log: d.log, Life: d.life, CPU: d.options.CPU, Failpoints: d.options.Failpoints,
		Output: d.options.WorkerLog, Quota: d.quota, Users: settings.Users,
		Socket: settings.Socket, MayUse: d.mayUse,
	})
	if err := d.checkpoints.Sweep(); err != nil {
		return err
	}
	if err := d.sessions.Adopt(); err != nil {
		return err
	}
	d.adopted = true
	if d.options.Guard != nil {
		if err := d.options.Guard.Begin(); err != nil {
			return err
		}
	}
	d.sessions.StartStandby()
	return nil
}

// openDirectories opens the runtime directory and the state directory.
func (d *Daemon) openDirectories() (err error) {
	settings := d.options.Config
	if d.dir, err = rundir.Open(settings.RuntimeDir, sessions.TmpfsLimits(settings)); err != nil {
		return err
	}
	for _, warning := range d.dir.Warnings {
		d.log.Warn(warning)
	}
	if d.dir.NoQuota != nil {
		d.log.Info("no kernel quota for session memory; phosd watches it instead", "why", d.dir.NoQuota)
	}
	d.state, err = statedir.Open(statedir.Options{
		Path: settings.StateDir, MemoryPath: d.dir.Work(), MemoryBytes: uint64(settings.Checkpoint.MemoryBudget),
	})
	if err == nil {
		d.quota = quota.New(d.limits(settings))
	}
	return err
}

// Serve serves the socket until the context ends or a Stop request comes. Workers stay: unless that
// request ended them, running programs go on and the next phosd adopts them.
func (d *Daemon) Serve(ctx context.Context) error {
	socket := d.options.Config.Socket
	listener, err := d.listen()
	if err != nil {
		return err
	}
	mux, err := sockmux.New(listener, sockmux.Options{
		Program: d.sessions.Start,
		Inquiry: func(conn *net.UnixConn, caller api.Caller) { d.devices.AnswerInquiry(d.life, conn, caller) },
		Files:   d.tokens.Accept,
		MayUse:  d.mayUse,
		Log:     d.log,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := grpc.NewServer(
		grpc.Creds(api.PeerCredentials{}),
		grpc.ChainUnaryInterceptor(api.ServerErrors, d.watchUnary),
		grpc.ChainStreamInterceptor(api.ServerStreamErrors, d.watchStream),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.InitialWindowSize(maxMessageBytes),
		grpc.InitialConnWindowSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes))
	api.RegisterDaemonServer(server, &service{daemon: d})
	closeMetrics, err := scrape.Serve(d.options.Config.Metrics.Listen, d.metrics.Registry())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var running sync.WaitGroup
	running.Go(mux.Run)
	d.watchers.Go(d.sessions.WatchMemory)
	d.watchers.Go(d.checkpoints.RunSchedule)
	d.watchers.Go(d.checkpoints.RunRetention)
	d.watchers.Go(d.checkpoints.RestoreAfterBoot)
	d.watchers.Go(func() { d.devices.Watch(d.life) })
	running.Go(func() { _ = server.Serve(mux) }) // it returns an error when the listener closes
	d.log.Info(
		"phosd ready",
		"version", api.Version, "socket", socket, "gpus", d.options.Config.Gpus.Offer, "adopted", d.sessions.Count(),
	)
	if d.options.Ready != nil {
		d.options.Ready(d.devices.GPUs())
	}
	select {
	case <-ctx.Done():
		d.checkpoints.SaveAtExit()
	case <-d.life.Done():
	}
	d.stop()
	err = listener.Close()
	stopServer(server)
	running.Wait()
	if !waitAtMost(endTime, mux.Wait) {
		d.log.Warn("connections are still being served or closed; phosd ends without them")
	}
	d.log.Info("phosd stopped", "programs left running", d.sessions.Count())
	return errors.Join(err, closeMetrics())
}

// endTime is how long phosd waits, when it ends, for connections. To close one may block for as
// long as its user wants, because a user sends files with it.
const endTime = 10 * time.Second

// waitAtMost calls a function that waits, and reports whether it has returned in time.
func waitAtMost(limit time.Duration, wait func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); wait() }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// stopServer waits a moment for requests in flight. The request that stops phosd is one of them.
func stopServer(server *grpc.Server) {
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

// Close closes everything. Running workers go on.
func (d *Daemon) Close() error {
	var failures []error
	d.stop()
	left := 0
	if d.sessions != nil {
		d.checkpoints.DropPrepared()
		left = d.sessions.Count()
		failures = append(failures, d.sessions.Close())
		d.checkpoints.Wait()
	}
	failures = append(failures, d.tokens.Close())
	if d.devices != nil {
		failures = append(failures, d.devices.Close())
	}
	if d.state != nil {
		failures = append(failures, d.state.Close())
	}
	if d.dir != nil {
		if left == 0 && d.adopted { // if adoption failed, there may be sessions that are not known here
			failures = append(failures, d.dir.RemoveAll())
		}
		if d.endServing() {
			failures = append(failures, os.Remove(d.options.Config.Socket))
		}
		failures = append(failures, d.dir.Close())
	}
	return errors.Join(failures...)
}

// renumbered returns the GPUs whose numbers a program knows otherwise.
func (d *Daemon) renumbered(process proc.Identity) map[int]int {
	return d.checkpoints.Renumbered(process)
}

// forgetTracked lets go of what tracks a restored program that begins to use a GPU: its worker has
// to see what is tracked.
func (d *Daemon) forgetTracked(ctx context.Context, process proc.Identity) error {
	if tracker, ok := d.options.CPU.(ckpt.RestoredTracker); ok {
		return tracker.ForgetTracked(ctx, process)
	}
	return nil
}
