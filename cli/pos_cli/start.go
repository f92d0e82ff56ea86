package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/phos-gpu/phos/cli/background"
	"github.com/phos-gpu/phos/cli/cluster/daemons"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

// daemonLog receives the standard error of a phosd in the background.
const daemonLog = "/var/log/phosd.log"

// phosdProgram is phosd, which can be asked by its socket whether it runs.
var phosdProgram = background.Program{Name: "phosd", Log: daemonLog}

var startVerb = verb.Verb{
	Name:      "start",
	Arguments: "[--target cluster|agent]",
	Summary:   "start phosd, a cluster, or a node of one",
	About: `Starts phosd in the background, as root, waits until it answers, and prints where its log is.
Programs of an earlier phosd that still run are adopted.

    pos_cli --start
    pos_cli --start --gpus soft:2,memory=4GiB
    pos_cli --start --foreground --log-level debug

With --target cluster this machine becomes a cluster of its own: phosd is started unless it runs, a
controller, and an agent that makes the machine the first node. It prints how others join. With
--target agent the machine becomes a node of another cluster, by a token that "phos node token"
prints there; later starts need no token.

    pos_cli --start --target cluster
    pos_cli --start --target agent --join TOKEN@HOST:PORT

Settings come from /etc/phos/phosd.toml; flags override them. --print-config prints the resulting
settings and starts nothing:

    pos_cli --start --gpus soft:2 --print-config > /etc/phos/phosd.toml

--gpus selects the GPUs:

    auto      real GPUs if the machine has any, else one software GPU
    cuda      real GPUs
    soft:N    N software GPUs; options follow, separated by commas: deterministic, memory=SIZE, name=TEXT,
              cc=MAJOR.MINOR, cuda=MAJOR.MINOR, cores=N, blank

A software GPU executes PTX. A blank one also takes machine code, as PyTorch's libraries have it,
and computes nothing of it: it shows what a program asks of the driver, and its results are
worthless.

If real GPUs cannot be used, the error says why and what to do: no driver, a driver older than CUDA
12, MIG mode, a compute mode other than Default, a lost GPU.`,
	Values: map[string][]string{
		"target": daemons.Targets, "gpus": {"auto", "cuda", "soft:1"}, "log-format": {"text", "json"},
		"log-level": {"debug", "info", "warn", "error"},
	},
	Setup: prepareStart,
}

type startOptions struct {
	target                  string
	foreground, printConfig bool
	member                  daemons.Options
	// settings are flags for phosd, which parses them.
	settings []string
}

// prepareStart defines the flags of start and returns what runs it. Most are passed on to phosd.
func prepareStart(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	var options startOptions
	flags.StringVar(&options.target, "target", "daemon", "`WHAT` to start: daemon, cluster or agent")
	options.member.Define(flags)
	flags.BoolVar(&options.foreground, "foreground", false, "stay in the foreground, log to standard error")
	flags.BoolVar(&options.printConfig, "print-config", false, "print the resulting configuration, and start nothing")
	for _, passed := range []struct{ name, usage string }{
		{"gpus", "`GPUS` to serve: auto, soft:N[,deterministic][,memory=8GiB], cuda"},
		{"config", "configuration `FILE`, instead of /etc/phos/phosd.toml"},
		{"socket", "`PATH` of the socket"},
		{"runtime-dir", "`DIR` for sessions and records"},
		{"log-file", "`FILE` for the log, instead of " + daemonLog},
		{"log-level", "lowest `LEVEL` to log: debug, info, warn or error"},
		{"log-format", "`FORMAT` of the log: text or json"},
		{"metrics-listen", "`ADDRESS` for Prometheus: unix:/path or loopback host:port"},
		{"set", "set any `KEY=VALUE` of phosd.toml: --set sessions.programs_per_user=8"},
	} {
		flags.Func(passed.name, passed.usage, func(value string) error {
			if passed.name == "config" { // phosd runs in another directory
				absolute, err := filepath.Abs(value)
				if err != nil {
					return err
				}
				value = absolute
			}
			options.settings = append(options.settings, "--"+passed.name+"="+value)
			return nil
		})
	}
	return func(ctx context.Context, to verb.Streams, _ []string) error { return start(ctx, to, options) }
}

func start(ctx context.Context, to verb.Streams, options startOptions) error {
	if err := options.member.Check(options.target); err != nil {
		return err
	}
	if options.target != daemons.Daemon && (options.printConfig || options.foreground) {
		return &verb.UsageError{Text: "--foreground and --print-config are about phosd alone"}
	}
	phosd, err := phosdProgram.Find()
	if err != nil {
		return err
	}
	arguments := options.settings
	if socket := os.Getenv(api.SocketVariable); socket != "" {
		// First, so that --socket wins over the environment.
		arguments = append([]string{"--socket=" + socket}, arguments...)
	}
	switch {
	case options.printConfig:
		return runPhosd(ctx, to, phosd, append(arguments, "--print-config"))
	case options.foreground:
		return syscall.Exec(phosd, append([]string{phosd}, arguments...), os.Environ())
	}
	if options.target == daemons.Daemon || silentOrNone(ctx) {
		if err := startInBackground(ctx, to, phosd, arguments, options.settings); err != nil {
			return err
		}
	}
	return options.member.Start(ctx, to, options.target)
}

// silentOrNone reports whether no phosd answers.
func silentOrNone(ctx context.Context) bool {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return true
	}
	client.Close()
	return silent(ctx, api.Socket(), probeTimeout)
}

// runPhosd runs phosd in the foreground and passes its output on.
func runPhosd(ctx context.Context, to verb.Streams, phosd string, arguments []string) error {
	command := exec.CommandContext(ctx, phosd, arguments...)
	command.Stdout, command.Stderr = to.Out, to.Err
	return hideExitStatus(command.Run())
}

// startInBackground starts phosd and waits until it is ready or has exited. The settings are those
// among the arguments that the user gave.
func startInBackground(ctx context.Context, to verb.Streams, phosd string, arguments, settings []string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: phosd must be started as root", api.ErrNotPermitted)
	}
	line, err := phosdProgram.Start(ctx, phosd, append([]string{background.ReadyFD}, arguments...))
	if err != nil {
		return err
	}
	if strings.HasPrefix(line, "running\t") {
		warnIgnored(to, settings)
	}
	return reportReady(to, line)
}

// warnIgnored names the settings that do not reach a phosd that runs already. Those that say which
// phosd is meant do.
func warnIgnored(to verb.Streams, settings []string) {
	settings = slices.DeleteFunc(slices.Clone(settings), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return slices.Contains([]string{"--config", "--runtime-dir", "--socket"}, name)
	})
	if len(settings) > 0 {
		fmt.Fprintf(
			to.Err,
			"warning: phosd keeps its settings, so this has no effect: %s; stop it first, with pos_cli --stop\n",
			strings.Join(settings, " "),
		)
	}
}

// reportReady prints phosd's line from its ready pipe: its socket, its log file if it has one, and
// what it serves.
func reportReady(to verb.Streams, line string) error {
	fields := strings.Split(line, "\t")
	switch {
	case fields[0] == "running" && len(fields) == 2:
		fmt.Fprintf(to.Out, "phosd already runs at %s\n", fields[1])
	case fields[0] == "ready" && len(fields) == 4:
		log := fields[2]
		if log == "" {
			log = daemonLog
		}
		fmt.Fprintf(to.Out, "phosd is ready at %s, serves %s; its log is %s\n", fields[1], fields[3], log)
		if fields[1] != api.Socket() {
			fmt.Fprintf(
				to.Out,
				"programs look elsewhere by default; before starting them: export %s=%s\n",
				api.SocketVariable,
				fields[1],
			)
		}
	default:
		return errors.New(line)
	}
	return nil
}

// hideExitStatus replaces an *exec.ExitError: phosd has already printed the reason.
func hideExitStatus(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New("phosd refused")
	}
	return err
}
