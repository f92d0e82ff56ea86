package daemons

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/background"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	cluster "github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/daemon/api"
)

// What --target can name.
const (
	Daemon  = "daemon"
	Cluster = "cluster"
	Agent   = "agent"
)

// Targets are all of them.
var Targets = []string{Daemon, Cluster, Agent}

// The daemons of a cluster.
var (
	controllerProgram = background.Program{
		Name: "phos-controller", Log: "/var/log/phos-controller.log", Record: "/run/phos/phos-controller.json",
	}
	agentProgram = background.Program{
		Name: "phos-agent", Log: "/var/log/phos-agent.log", Record: "/run/phos/phos-agent.json",
	}
)

// membership is the file by which the agent of this machine knows its cluster.
const membership = "/var/lib/phos-agent/membership.json"

// Options are the flags of --start that are about clusters.
type Options struct{ join, node, address, listen, config string }

// Define defines the flags.
func (o *Options) Define(flags *flag.FlagSet) {
	flags.StringVar(&o.join, "join", "", "`TOKEN@HOST:PORT` of the cluster to join; with --target agent")
	flags.StringVar(&o.node, "node", "", "`NAME` of this node when it joins; the host's name if it is empty")
	flags.StringVar(&o.address, "address", "", "`ADDRESS` by which other nodes reach this one")
	flags.StringVar(&o.listen, "listen", "", "`ADDRESS` where the controller listens; with --target cluster")
	flags.StringVar(&o.config, "controller-config", "", "configuration `FILE` of the controller; with --target cluster")
}

// CheckTarget returns an error for a target that is not known.
func CheckTarget(target string) error { return (&Options{}).Check(target) }

// Check returns an error for a target that is not known, or that the flags do not fit.
func (o *Options) Check(target string) error {
	switch {
	case !slices.Contains(Targets, target):
		return &verb.UsageError{Text: fmt.Sprintf("target %q is not known; there are: %s", target, strings.Join(Targets, ", "))}
	case o.join != "" && target != Agent:
		return &verb.UsageError{Text: "--join needs --target agent"}
	case o.listen+o.config != "" && target != Cluster:
		return &verb.UsageError{Text: "--listen and --controller-config need --target cluster"}
	case o.node+o.address != "" && target == Daemon:
		return &verb.UsageError{Text: "--node and --address need --target cluster or --target agent"}
	}
	return nil
}

// Start starts what the target has beside phosd.
func (o *Options) Start(ctx context.Context, to verb.Streams, target string) error {
	switch target {
	case Cluster:
		return o.startCluster(ctx, to)
	case Agent:
		return o.startAgent(ctx, to, func() (string, error) {
			if o.join == "" {
				return "", &verb.UsageError{Text: "this machine is no node yet: name the cluster by --join TOKEN@HOST:PORT, " +
					"which phos node token prints on a controller"}
			}
			return o.join, nil
		})
	}
	return nil
}

// startCluster starts controller and agent, and prints how others join.
func (o *Options) startCluster(ctx context.Context, to verb.Streams) error {
	var arguments []string
	for name, value := range map[string]string{"listen": o.listen, "config": o.config} {
		if value != "" {
			arguments = append(arguments, "--"+name+"="+value)
		}
	}
	line, err := startMember(ctx, to, controllerProgram, arguments)
	if err != nil {
		return err
	}
	socket := cluster.ControllerSocket
	if fields := strings.Split(line, "\t"); len(fields) > 1 && filepath.IsAbs(fields[1]) {
		socket = fields[1]
	}
	client := cluster.Connect(cluster.Endpoints{Addresses: []string{socket}})
	defer client.Close()
	err = o.startAgent(ctx, to, func() (string, error) { return joinToken(ctx, client, 1) })
	if err != nil {
		return err
	}
	token, err := joinToken(ctx, client, machines)
	if err != nil {
		return err
	}
	fmt.Fprintf(to.Out, "\nother machines join within an hour by:\n\n  pos_cli --start --target agent --join %s\n\n"+
		"people use the cluster from their machines with a token, which this makes; it prints how they log in:\n\n"+
		"  phos user add NAME\n\n"+
		"launch something:\n\n  phos launch -- hostname\n", token)
	return showPages(ctx, to, client)
}

// showPages prints where browsers find the cluster.
func showPages(ctx context.Context, to verb.Streams, client *cluster.Client) error {
	reply, err := client.Cluster.Status(ctx, &cluster.StatusRequest{})
	for _, each := range reply.GetControllers() {
		if each.GetPage() != "" {
			fmt.Fprintf(to.Out, "\nsee it in a browser:\n\n  %s\n", humanize.Printable(each.GetPage()))
		}
	}
	return err
}

// machines is how many may join by the token that is printed.
const machines = 1000

// joinToken returns a token by which some nodes join.
func joinToken(ctx context.Context, client *cluster.Client, uses uint32) (string, error) {
	request := &cluster.NewJoinTokenRequest{ValidSeconds: uint64(time.Hour / time.Second), Uses: uses}
	reply, err := client.Cluster.NewJoinToken(ctx, request)
	return reply.GetToken(), err
}

// startAgent makes this machine a node, unless it is one, and starts the agent.
func (o *Options) startAgent(ctx context.Context, to verb.Streams, token func() (string, error)) error {
	_, err := os.Lstat(membership)
	if err == nil && o.join != "" {
		return errors.New("this machine is a node already; phos node remove, and removing " + membership + ", end that")
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := o.joinCluster(ctx, token); err != nil {
			return err
		}
	}
	arguments := []string{"run"}
	if o.address != "" {
		arguments = append(arguments, "--address="+o.address)
	}
	if socket := os.Getenv(api.SocketVariable); socket != "" {
		arguments = append(arguments, "--phosd="+socket)
	}
	_, err = startMember(ctx, to, agentProgram, arguments)
	return err
}

// joinCluster runs phos-agent join.
func (o *Options) joinCluster(ctx context.Context, token func() (string, error)) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: a node joins as root", api.ErrNotPermitted)
	}
	text, err := token()
	if err != nil {
		return err
	}
	path, err := agentProgram.Find()
	if err != nil {
		return err
	}
	arguments := []string{"join", text}
	if o.node != "" {
		arguments = append(arguments, "--name="+o.node)
	}
	if said, err := exec.CommandContext(ctx, path, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("join the cluster: %s", strings.TrimPrefix(strings.TrimSpace(string(said)), "phos-agent: "))
	}
	return nil
}

// startMember starts a daemon of a cluster unless it runs, and prints that. It returns what the
// daemon has said; nothing if it ran.
func startMember(ctx context.Context, to verb.Streams, p background.Program, arguments []string) (string, error) {
	handle, id, err := p.Running()
	if err == nil {
		_ = handle.Close()
		_, err = fmt.Fprintf(to.Out, "%s already runs, pid %d\n", p.Name, id.PID)
		return "", err
	}
	if !errors.Is(err, background.ErrNotRunning) {
		return "", err
	}
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: %s must be started as root", api.ErrNotPermitted, p.Name)
	}
	path, err := p.Find()
	if err != nil {
		return "", err
	}
	line, err := p.Start(ctx, path, append(arguments, background.ReadyFD))
	if err != nil {
		return "", err
	}
	said, ready := strings.CutPrefix(line, "ready\t")
	if !ready {
		return "", fmt.Errorf("%s: %s (its log is %s)", p.Name, humanize.Printable(line), p.Log)
	}
	fmt.Fprintf(to.Out, "%s is ready: %s; its log is %s\n", p.Name, humanize.Printable(strings.ReplaceAll(said, "\t", ", ")), p.Log)
	return line, nil
}

// stopGrace is how long a daemon of a cluster may take to end.
const stopGrace = 30 * time.Second

// Stop stops the agent, and with the target cluster the controller too. Processes of launches
// go on, and so does phosd.
func Stop(ctx context.Context, to verb.Streams, target string) error {
	stopped := []background.Program{agentProgram}
	if target == Cluster {
		stopped = append(stopped, controllerProgram)
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	for _, p := range stopped {
		err := p.Stop(ctx)
		switch {
		case errors.Is(err, background.ErrNotRunning):
			fmt.Fprintf(to.Out, "%s was not started by pos_cli; if systemd runs it: systemctl stop %s\n", p.Name, p.Name)
		case err != nil:
			return err
		default:
			fmt.Fprintf(to.Out, "%s has stopped; what it has started goes on\n", p.Name)
		}
	}
	return nil
}
