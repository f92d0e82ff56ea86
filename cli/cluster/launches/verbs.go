package launches

import (
	"context"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// naming explains what every verb takes.
const naming = `
A launch is named by its id, its number, or its name, which means the newest launch that is called
so.`

// Verbs returns the verbs.
func Verbs() []*verb.Verb {
	return []*verb.Verb{
		{
			Name: "logs", Word: true, Arguments: "[-f] ID[/job[.replica[.process]]]",
			Summary: "print what a launch has printed", About: aboutLogs, Setup: logsVerb,
		},
		{
			Name: "why", Word: true, Arguments: "ID", Summary: "say why a launch waits",
			About: `Says why a launch waits, the most important reason first, and when it probably starts. Of a launch
that does not wait, it says what became of it.

    phos why train
    phos why 42 --json` + "\n" + naming,
			Setup: whyVerb,
		},
		{
			Name: "events", Word: true, Arguments: "[ID]", Summary: "list what has happened to launches and nodes",
			About: `Lists what has happened, in the order of time: to one launch, to one node (--node), or to all that
the caller may see.

    phos events train
    phos events -f --json | jq 'select(.kind == "failed")'
    phos events --node gpu-7

With --as-trace, it is the log of what the scheduler was told and decided since this controller
leads, for administrators and viewers. pos_cli sim check checks it, and a trace of its jobs can be
played under other policies:

    phos events --as-trace > here.jsonl
    pos_cli sim trace --events here.jsonl --out here.csv
    pos_cli sim run --jobs here.csv --gpu-types H100:4x8 --order las` + "\n" + naming,
			Setup: eventsVerb,
		},
		{
			Name: "wait", Word: true, Arguments: "ID...", Summary: "wait until launches have ended",
			About: `Waits until all launches have ended. The exit status is that of the first named launch that did not
complete: the status of the first process that failed, 128 and the number of the signal that ended
it, or 130 for a launch that was stopped. Ctrl-C ends the wait and not the launch.

    phos wait train && phos launch evaluate.toml
    phos wait --json a b c | jq -r 'select(.result != "completed") | .reason'` + "\n" + naming,
			Setup: waitVerb,
		},
		{
			Name: "show", Word: true, Arguments: "ID", Summary: "show one launch and its replicas",
			About: `Shows a launch with its replicas: where they are, and how their processes have ended. --spec prints
the description, as JSON; phos launch reads it again.

Below them are the last images: where, which generation, when, and how long the program was paused.

    phos show train
    phos show 42 --json | jq '.replicas[].node'` + "\n" + naming,
			Setup: showVerb,
		},
		{
			Name: "checkpoints", Word: true, Arguments: "[ID...]", Summary: "list the images of launches",
			About: `Lists the images from which launches go on, and older ones that are still there: of the named
launches, or of all that have not ended and that the caller may see.

NODES are those that have an image on their disks; the first one has taken it. An image at risk is
on no node that can be counted on: if that node is lost, the launch goes back to an older image, or
to its beginning. [images] in the controller's configuration says how many copies there are.

    phos checkpoints
    phos checkpoints train --json | jq '.[].images[] | select(.current) | .copies'` + "\n" + naming,
			Setup: checkpointsVerb,
		},
		checkpointVerb(), migrateVerb(), stopVerb(), suspendVerb(), resumeVerb(), rerunVerb(), execVerb(), topVerb(),
	}
}

// stopVerb is the verb stop.
func stopVerb() *verb.Verb {
	return actVerb("stop", "end a launch", `Ends a launch: its processes get SIGTERM, and after a grace time SIGKILL. A launch that waits leaves
the queue.

    phos stop train`, api.LaunchesClient.Stop)
}

// suspendVerb is the verb suspend.
func suspendVerb() *verb.Verb {
	return actVerb("suspend", "save a launch, and give its GPUs back", `Saves the processes of a launch and stops them. Its GPUs become free for others. phos resume queues
it again, and it goes on from what was saved. The command returns when the save is ordered; phos show
and phos events say when it is done, where the image is, and how long the program was paused.

    phos suspend train && phos events train
    phos resume train

The image is in the directory that the description names for it, which all nodes share:

    [checkpoint]
    dir = "/shared/images"    # the owner must be able to write there, on each node
    every = "10m"             # it is also saved while it runs
    keep = 2                  # generations

Without checkpoint.dir it is on the disk of the node, from which other nodes fetch it.

This version saves launches of one replica, with all its processes. Others are refused, unless their
description says that they are restartable: they are stopped then, and start from the beginning. If
a save fails, the launch runs on, and phos events says why.`, api.LaunchesClient.Suspend)
}

// resumeVerb is the verb resume.
func resumeVerb() *verb.Verb {
	return actVerb("resume", "queue a suspended launch again", `Queues a suspended launch. It goes on from its image: on the node that has it, if there is room, or
on another one, which fetches it. It takes any GPUs that suit it. phos why says what it waits for.

    phos resume train
    phos why train`, api.LaunchesClient.Resume)
}

// use connects to the cluster for one verb.
func use(act func(*api.Client) error) error {
	client, err := reach.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	return act(client)
}

// one returns the only argument of a verb.
func one(arguments []string, name string) (string, error) {
	switch {
	case len(arguments) == 0 || arguments[0] == "":
		return "", &verb.UsageError{Text: fmt.Sprintf("name the launch: phos %s ID; phos ps -a lists them", name)}
	case len(arguments) > 1:
		return "", &verb.UsageError{Text: fmt.Sprintf("name one launch; %q is one too many", arguments[1])}
	}
	return arguments[0], nil
}

// run is what Setup of a verb returns.
type run = func(context.Context, verb.Streams, []string) error

// onOne returns what runs a verb that takes one launch.
func onOne(name string, act func(context.Context, *api.Client, verb.Streams, string) error) run {
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		id, err := one(arguments, name)
		if err != nil {
			return err
		}
		return use(func(c *api.Client) error { return act(ctx, c, to, id) })
	}
}

// followFlag defines -f and --follow.
func followFlag(flags *flag.FlagSet, usage string) *bool {
	follow := flags.Bool("follow", false, usage)
	flags.BoolVar(follow, "f", false, "the same as --follow")
	return follow
}
