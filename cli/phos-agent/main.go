package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/phos-gpu/phos/cli/readiness"
	"github.com/phos-gpu/phos/cluster/agent"
	"github.com/phos-gpu/phos/cluster/agent/images"
	"github.com/phos-gpu/phos/cluster/agent/localapi"
	"github.com/phos-gpu/phos/cluster/agent/overlay"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/internal/scrape/endpoint"
)

func main() { os.Exit(run(os.Args[1:])) }

// about is what --help prints first.
const about = `usage: phos-agent join TOKEN@HOST:PORT [FLAGS]
       phos-agent run [FLAGS]

Join makes this machine a node of a cluster. A controller makes the token: phos node token. While no
controller answers, it asks again for 30 s.
Run follows the cluster, as root, until SIGTERM; what it has started goes on then.

Flags:
`

// options are the flags.
type options struct {
	stateDir, node, address, phosd string
	metrics, socket, images        string
	allowRoot                      bool
	readyFD                        int
	logLevel                       slog.Level
}

// parse reads the flags, which may stand before and behind other arguments.
func parse(arguments []string) (o options, rest []string, err error) {
	flags := flag.NewFlagSet("phos-agent", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.stateDir, "state-dir", "/var/lib/phos-agent", "`DIR` for what the agent keeps")
	flags.StringVar(&o.node, "name", "", "`NAME` of the node when it joins; the host's name if it is empty")
	flags.StringVar(&o.address, "address", "", "`ADDRESS` by which other nodes reach this one")
	flags.StringVar(&o.phosd, "phosd", "", "`PATH` of phosd's socket")
	flags.StringVar(&o.metrics, "metrics", "127.0.0.1:9412",
		"loopback `ADDRESS` or unix:/PATH that serves numbers to Prometheus; empty: none")
	flags.StringVar(&o.images, "images", ":9413",
		"`ADDRESS` where agents of other nodes fetch images of launches, by TLS; empty: none")
	flags.StringVar(&o.socket, "socket", localapi.Socket,
		"`PATH` where programs of launches ask for the members of their launch; empty: nowhere")
	flags.BoolVar(&o.allowRoot, "allow-root", false, "let launches run as root, if the cluster allows it too")
	flags.IntVar(&o.readyFD, "ready-fd", 0, "`DESCRIPTOR` that gets a line when the agent runs")
	flags.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "lowest `LEVEL` to log: debug, info, warn or error")
	for {
		if err := flags.Parse(arguments); err != nil {
			return o, nil, err
		}
		if flags.NArg() == 0 {
			return o, rest, nil
		}
		rest = append(rest, flags.Arg(0))
		arguments = flags.Args()[1:]
	}
}

// run is main with an exit status.
func run(arguments []string) int {
	if len(arguments) > 0 {
		switch arguments[0] {
		case supervisor.Role:
			return supervisor.Main(arguments[1:])
		case trunk.Role:
			return trunk.Main()
		case agent.UnpackRole:
			return agent.UnpackMain()
		case images.SendRole:
			return images.SendMain(arguments[1:])
		case images.ReceiveRole:
			return images.ReceiveMain(arguments[1:])
		case overlay.Role:
			return overlay.Main()
		case saver.SaveRole:
			return saver.SaveMain()
		case saver.RestoreRole:
			return saver.RestoreMain(arguments[1:])
		}
	}
	o, rest, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && len(rest) == 0 {
		err = errors.New("say what to do: join or run (phos-agent --help)")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phos-agent:", err)
		return 2
	}
	return readiness.Run("phos-agent", o.readyFD, func(ctx context.Context, ready *readiness.Pipe) error {
		return o.do(ctx, rest, ready)
	})
}

// do runs a verb.
func (o *options) do(ctx context.Context, rest []string, ready *readiness.Pipe) error {
	switch {
	case os.Geteuid() != 0:
		return errors.New("the agent runs as root: it starts processes as their owners")
	case rest[0] == "join" && len(rest) == 2:
		return o.join(ctx, rest[1])
	case rest[0] == "run" && len(rest) == 1:
		if err := endpoint.Check(o.metrics); err != nil {
			return fmt.Errorf("--metrics %q: %w", o.metrics, err)
		}
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: o.logLevel}))
		return o.follow(ctx, ready, log)
	}
	return fmt.Errorf("%q is not understood; see phos-agent --help", rest)
}
