package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/cli/readiness"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/daemon/worker/boot"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// options are the flags that are not settings.
type options struct {
	settings             config.Flags
	printConfig, version bool
	readyFD              int
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "worker" {
		return runWorker(args[1:], stderr)
	}
	if status, ok := runRole(args, stderr); ok {
		return status
	}
	var chosen options
	flags := flag.NewFlagSet("phosd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	chosen.settings.Register(flags)
	flags.BoolVar(&chosen.printConfig, "print-config", false, "show the configuration in effect, and exit")
	flags.BoolVar(&chosen.version, "version", false, "show the version, and exit")
	flags.IntVar(&chosen.readyFD, "ready-fd", 0, "file `descriptor` to report readiness to; for pos_cli")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		if help(stdout, flags) != nil {
			return exitFailed
		}
		return exitDone
	} else if err != nil {
		fmt.Fprintf(stderr, "phosd: %v; see: phosd --help\n", err)
		// pos_cli passes --ready-fd first, so that it gets this error too.
		readiness.OpenPipe(chosen.readyFD).Say("%v", err)
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "phosd: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	return chosen.run(stdout, stderr)
}

func (o *options) run(stdout, stderr io.Writer) int {
	ready := readiness.OpenPipe(o.readyFD)
	defer ready.Close()
	err := o.serve(stdout, ready)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "phosd: %v\n", err)
	ready.Say("%v", err)
	return exitFailed
}

// serve runs phosd until a signal stops it; --version and --print-config only print.
func (o *options) serve(stdout io.Writer, ready *readiness.Pipe) (err error) {
	if o.version {
		fmt.Fprintf(stdout, "phosd %s\n", api.Version)
		return nil
	}
	settings, err := o.settings.Resolve()
	if err != nil {
		return err
	}
	if o.printConfig {
		_, err := io.WriteString(stdout, settings.Text())
		return err
	}
	hangups := watchHangup()
	log, err := openLog(settings.Log)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(settings.Log.Threshold())
	logger := slog.New(settings.Log.HandlerAt(log, level))
	chosen, err := choose(settings.Gpus, logger)
	if err != nil {
		return err
	}
	settings.Gpus.Offer = chosen.offer
	failpoints, err := ckpt.ParseFailpoints(os.Getenv(ckpt.FailpointsVariable))
	if err != nil {
		return err
	}
	supervisor := readiness.FindSupervisor(logger)
	defer provideCgroups(settings, logger)()
	guard, endGuard, err := openGuard(settings, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endGuard()) }()
	cpu := openCPU(settings)
	server, err := phosd.New(phosd.Options{
		CPU: cpu, Guard: guard, Failpoints: failpoints, Config: settings, Inventory: inventory, Driver: openDriver(guard),
		Environment: driverEnvironment(settings.Gpus.Offer), Log: logger, WorkerLog: log, UnusedGPUs: chosen.unused,
		Ready: func(devices []gpu.DeviceInfo) {
			ready.Say("ready\t%s\t%s\t%s", settings.Socket, settings.Log.File, chosen.serves(devices))
			supervisor.Ready("serving programs at " + settings.Socket)
		},
	})
	if errors.Is(err, rundir.ErrBusy) && ready.Open() && alreadyServes(settings.Socket) {
		ready.Say("running\t%s", settings.Socket)
	}
	if err != nil {
		return err
	}
	go (&reloader{
		flags: o.settings, loaded: settings, file: log, level: level, log: logger, apply: server.Reload,
		reopened: server.UseLog,
	}).run(hangups)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	// Programs may be saved at the end, which takes a while. A second signal ends phosd at once;
	// programs go on.
	context.AfterFunc(ctx, func() {
		cancel()
		supervisor.Stopping("stopping; programs go on")
	})
	if err := cpu.CacheKernelFeatures(ctx); err != nil {
		logger.Debug("kernel features for CRIU not cached", "error", err)
	}
	go func() {
		cpu.Learn(ctx)
		logger.Debug("CRIU's features are known")
		for _, warning := range cpu.Warnings(ctx) {
			logger.Warn(warning)
		}
	}()
	return errors.Join(server.Serve(ctx), cpu.Close(), server.Close())
}

// alreadyServes reports whether the phosd that holds the directory serves this socket. It may still
// be starting.
func alreadyServes(socket string) bool {
	for range 60 {
		if client, err := api.Dial(socket); err == nil {
			return client.Close() == nil
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the starting phosd notifies only its own parent
	}
	return false
}

func runWorker(args []string, stderr io.Writer) int {
	fixAddresses()
	nameProcess("worker")
	life := worker.Run
	if len(args) > 0 && args[0] == boot.StandbyArgument {
		life = worker.Standby
	}
	if err := life(openBackend); err != nil {
		fmt.Fprintf(stderr, "phosd worker: %v\n", err)
		return exitFailed
	}
	return exitDone
}

func openLog(settings config.Log) (*os.File, error) {
	if settings.File == "" {
		return os.Stderr, nil
	}
	file, err := os.OpenFile(settings.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return file, nil
}
