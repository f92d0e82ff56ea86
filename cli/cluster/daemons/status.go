package daemons

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cli/background"
	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	cluster "github.com/phos-gpu/phos/cluster/api"
)

// StatusVerb is the verb status: the cluster at a glance, from any machine.
func StatusVerb() *verb.Verb {
	return &verb.Verb{
		Name: "status", Word: true, Summary: "show the cluster at a glance",
		About: `Shows which cluster the verbs of phos use, its controllers, what it takes the caller for, how many
launches there are in each state, and the nodes with their GPUs. With two dashes, --status, it is
phosd of this machine.

    phos status
    phos status --json | jq '.launches.queued'`,
		Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
			asJSON := flags.Bool("json", false, "print JSON")
			return func(ctx context.Context, to verb.Streams, _ []string) error {
				return ShowCluster(ctx, to, *asJSON)
			}
		},
	}
}

// ShowCluster prints the cluster at a glance.
func ShowCluster(ctx context.Context, to verb.Streams, asJSON bool) error {
	client, err := reach.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	reply, err := client.Cluster.Status(ctx, &cluster.StatusRequest{})
	if err != nil {
		return err
	}
	if asJSON {
		return view.JSON(to.Out, view.Object(reply))
	}
	fmt.Fprintf(to.Out, "cluster %s, epoch %d, scheduler: %s\n", humanize.Printable(reply.GetClusterId()), reply.GetEpoch(),
		humanize.Printable(reply.GetScheduler()))
	for _, each := range reply.GetControllers() {
		state := "waits"
		if each.GetLeads() {
			state = "leads"
		}
		fmt.Fprintf(to.Out, "controller at %s %s, version %s\n", humanize.Printable(each.GetAddress()), state,
			humanize.Printable(each.GetVersion()))
		if page := each.GetPage(); page != "" {
			fmt.Fprintf(to.Out, "its page for browsers: %s\n", humanize.Printable(page))
		}
	}
	if ca := reply.GetCa(); ca != "" {
		fmt.Fprintf(to.Out, "the fingerprint of its CA, for phos login --ca: %s\n", humanize.Printable(ca))
	}
	you := reply.GetCaller()
	fmt.Fprintf(to.Out, "you are %s, as %s on the nodes, with the role %s\n", humanize.Shorten(you.GetName(), 60),
		humanize.Shorten(you.GetAccount(), 60), humanize.Shorten(you.GetRole(), 60))
	for _, warning := range reply.GetWarnings() {
		fmt.Fprintf(to.Out, "warning: %s\n", humanize.Printable(warning))
	}
	for _, phase := range slices.Sorted(maps.Keys(reply.GetLaunches())) {
		fmt.Fprintf(to.Out, "%s: %s\n", humanize.Count(int(reply.GetLaunches()[phase]), "launch", "launches"), humanize.Printable(phase))
	}
	fmt.Fprintln(to.Out)
	return view.NodeTable(to.Out, reply.GetNodes(), time.Now())
}

// agentStatus is the agent of this machine as JSON.
type agentStatus struct {
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
}

// ShowAgent prints whether the agent of this machine runs.
func ShowAgent(to verb.Streams, asJSON bool) error {
	handle, id, err := agentProgram.Running()
	switch {
	case err == nil:
		defer handle.Close()
	case !errors.Is(err, background.ErrNotRunning):
		return err
	}
	running := err == nil
	if asJSON {
		return view.Line(to.Out, agentStatusOf(running, id.PID))
	}
	if !running {
		_, err = fmt.Fprintln(to.Out, "no agent runs that pos_cli has started; systemctl status phos-agent shows one of systemd's")
		return err
	}
	_, err = fmt.Fprintf(to.Out, "the agent runs, pid %d; its log is %s\n", id.PID, agentProgram.Log)
	return err
}

// agentStatusOf returns the status; a process that has ended has no pid.
func agentStatusOf(running bool, pid int) agentStatus {
	if !running {
		return agentStatus{}
	}
	return agentStatus{running, pid}
}
