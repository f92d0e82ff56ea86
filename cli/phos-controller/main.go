package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/pelletier/go-toml/v2"

	"github.com/phos-gpu/phos/cli/readiness"
)

func main() { os.Exit(run(os.Args[1:])) }

// options are the flags.
type options struct {
	config      string
	printConfig bool
	backup      string
	restore     string
	replace     string
	join        bool
	readyFD     int
	logLevel    slog.Level
	change      []func(*config)
}

// about is what --help prints first.
const about = `usage: phos-controller [FLAGS]
       phos-controller peers DIR NAME=ADDRESS...

Runs one controller of a cluster, as root. pos_cli --start --target cluster starts it in the
background, with phosd and an agent for this machine. Settings come from ` + DefaultConfig + `;
flags override them, and --print-config prints the result.

A cluster that outlives a machine has three controllers. "peers" makes the certificates by which
they know each other, in a folder for each, and says where to put them.

--backup saves what the cluster must not forget: launches, nodes, users, and the keys of its CA.
--restore makes that the store of a controller which has none. Launches that were created after the
backup are unknown then, and the nodes stop them.

    phos-controller --backup phos.backup
    phos-controller --restore phos.backup

--replace and --join let one of several controllers that has lost its disk begin again with an empty
one. The first is said on a machine whose controller runs, the second on the other one.

    phos-controller --replace b
    phos-controller --join

Flags:
`

// parse reads the flags.
func parse(arguments []string) (options, error) {
	o := options{config: DefaultConfig}
	flags := flag.NewFlagSet("phos-controller", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.config, "config", o.config, "configuration `FILE`")
	flags.BoolVar(&o.printConfig, "print-config", false, "print the resulting configuration, and start nothing")
	flags.StringVar(&o.backup, "backup", "", "save the store of the controller that runs here to `FILE`, and end")
	flags.StringVar(&o.restore, "restore", "", "make the store from the backup `FILE`, and end; no controller runs here")
	flags.StringVar(&o.replace, "replace", "", "let the controller `NAME`, which has lost its disk, come back with an empty one, and end")
	flags.BoolVar(&o.join, "join", false, "make an empty store that joins the other controllers, and end; no controller runs here")
	flags.IntVar(&o.readyFD, "ready-fd", 0, "`DESCRIPTOR` that gets a line when the controller serves")
	flags.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "lowest `LEVEL` to log: debug, info, warn or error")
	for _, each := range []struct {
		name, usage string
		set         func(*config, string)
	}{
		{"state-dir", "`DIR` for what the controller keeps", func(c *config, v string) { c.Controller.StateDir = v }},
		{"listen", "`ADDRESS` where nodes and people reach it, with TLS", func(c *config, v string) { c.Controller.Listen = v }},
		{"socket", "`PATH` of the socket for people on this machine", func(c *config, v string) { c.Controller.Socket = v }},
		{"metrics", "loopback `ADDRESS` or unix:/PATH for Prometheus", func(c *config, v string) { c.Metrics.Listen = v }},
		{"order", "`ORDER` of launches, as --order of pos_cli sim run", func(c *config, v string) { c.Scheduler.Order = v }},
	} {
		flags.Func(each.name, each.usage, func(value string) error {
			o.change = append(o.change, func(c *config) { each.set(c, value) })
			return nil
		})
	}
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	said := 0
	for _, each := range []bool{o.backup != "", o.restore != "", o.replace != "", o.join} {
		if each {
			said++
		}
	}
	if said > 1 {
		return o, errors.New("--backup, --restore, --replace and --join are different things: say one of them")
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("phos-controller takes no arguments, only flags: %q", flags.Arg(0))
	}
	return o, nil
}

// run is main with an exit status.
func run(arguments []string) int {
	if len(arguments) > 0 && arguments[0] == peersVerb {
		return reportPeers(makePeers(arguments[1:], os.Stdout))
	}
	o, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phos-controller:", err)
		return 2
	}
	settings, err := readConfig(o.config)
	for _, change := range o.change {
		change(&settings)
	}
	if err == nil && o.printConfig {
		text, _ := toml.Marshal(settings) // plain data can be written
		_, _ = os.Stdout.Write(text)
		return 0
	}
	return readiness.Run("phos-controller", o.readyFD, func(ctx context.Context, ready *readiness.Pipe) error {
		switch {
		case err != nil:
			return err
		case o.backup != "":
			return backUp(ctx, settings, o.backup)
		case o.restore != "":
			return restore(settings, o.restore)
		case o.replace != "":
			return replace(ctx, settings, o.replace)
		case o.join:
			return join(settings)
		}
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: o.logLevel}))
		return serveCluster(ctx, settings, ready, log)
	})
}
