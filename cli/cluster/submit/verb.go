package submit

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/cli/cluster/code"
	"github.com/phos-gpu/phos/cli/cluster/launches"
	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
)

// Verb returns the verb launch.
func Verb() *verb.Verb {
	return &verb.Verb{
		Name: "launch", Word: true, Command: true, Arguments: "[FLAGS] FILE.toml | [FLAGS] -- CMD...",
		Summary: "run a command or a launch file on the cluster",
		About:   about, Values: map[string][]string{"on-failure": {"stop", "continue"}}, Setup: setup,
	}
}

const about = `Launches a command, or what a file describes, on the cluster, from the current directory: it is
packed and sent, and each process gets a copy of its own. In a git work tree, what git does not
ignore is sent; elsewhere, what .gitignore files do not leave out; .phosignore files leave out more.

    phos launch -- python3 train.py
    phos launch --name digits --replicas 2 --gpus 1 -- python3 train.py
    phos launch --gpus 8 --gpu-model a100,h100 --time-limit 12h --retries 3 -- torchrun train.py
    phos launch --array lr=0.1,0.01 --array seed=1,2 -- python3 train.py --lr {lr}
    phos launch --git https://example.org/me/model.git --branch main -- make train
    phos launch train.toml

A launch file has the same names:

    name = "digits"
    [[jobs]]
    name = "main"
    replicas = 2
    [[jobs.processes]]
    command = ["python3", "train.py"]
    resources = { gpus = 1 }

It prints the launch's id, and where it runs or why it waits. --wait waits for its end, and --follow
prints its log until then; the exit status is then the launch's. Ctrl-C ends only the wait. --dry-run
checks the launch, and whether the cluster could run it.`

// options are the flags that do not describe the launch.
type options struct {
	description

	noCode, dryRun, wait, follow, asJSON bool
	limitMiB                             uint
}

// setup defines the flags of launch.
func setup(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	var o options
	o.define(flags)
	flags.BoolVar(&o.noCode, "no-code", false, "send no directory")
	flags.UintVar(&o.limitMiB, "code-limit", code.DefaultLimit>>20, "send at most `MIB` of packed directory")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check it, and launch nothing")
	flags.BoolVar(&o.wait, "wait", false, "wait until it has ended")
	flags.BoolVar(&o.follow, "follow", false, "print its log until it has ended")
	flags.BoolVar(&o.asJSON, "json", false, "print the launches as JSON")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		return o.launch(ctx, to, arguments)
	}
}

// launch does what the verb says.
func (o *options) launch(ctx context.Context, to verb.Streams, arguments []string) error {
	spec, script, err := o.read(arguments)
	if err != nil {
		return err
	}
	if _, err := spec.Check(); err != nil {
		return err
	}
	c, err := reach.Connect()
	if err != nil {
		return err
	}
	defer c.Close()
	request := &api.CreateRequest{Script: script, DryRun: o.dryRun, Request: rand.Text()}
	if request.Code, err = o.sendCode(ctx, c, to, &spec); err != nil {
		return err
	}
	if request.Spec, err = spec.JSON(); err != nil {
		return err
	}
	reply, err := c.Launches.Create(ctx, request)
	if err != nil {
		return err
	}
	for _, notice := range reply.GetNotices() {
		fmt.Fprintf(to.Err, "phos: %s\n", humanize.Printable(notice))
	}
	return o.report(ctx, c, to, reply.GetLaunches())
}

// sendCode packs and sends the directory, and returns its name; nil if none is sent.
func (o *options) sendCode(ctx context.Context, c *api.Client, to verb.Streams, spec *launch.Spec) (*api.CodeRef, error) {
	dir := spec.Source.Directory
	if spec.Source.Git != "" || o.noCode {
		spec.Source.Directory = ""
		return nil, nil
	}
	if dir == "" {
		dir = "."
	}
	packed, err := code.Pack(ctx, dir, int(o.limitMiB)<<20)
	if err != nil {
		return nil, err
	}
	for i, name := range packed.Skipped {
		if i == 5 {
			fmt.Fprintf(to.Err, "phos: and %d more\n", len(packed.Skipped)-i)
			break
		}
		fmt.Fprintf(to.Err, "phos: %s is no file, directory or link, and is not sent\n", humanize.Printable(name))
	}
	if o.dryRun {
		return nil, nil
	}
	sent, err := messages.SendCode(ctx, c.Launches, packed.Ref(), bytes.NewReader(packed.Bytes))
	if sent && !o.asJSON {
		fmt.Fprintf(to.Err, "phos: sent %s, %s\n", humanize.Count(packed.Files, "file", "files"),
			humanize.Bytes(uint64(len(packed.Bytes))))
	}
	return packed.Ref(), err
}

// report prints what was launched, and waits for it if that was asked for.
func (o *options) report(ctx context.Context, c *api.Client, to verb.Streams, created []*api.Launch) error {
	switch {
	case o.asJSON:
		if err := view.JSON(to.Out, view.Objects(created)); err != nil {
			return err
		}
		to.Out = to.Err
	case o.dryRun:
		_, err := fmt.Fprintln(to.Out, "the launch is well formed, and the cluster could run it")
		return err
	default:
		tell(to, created)
	}
	if o.dryRun || len(created) == 0 || !o.wait && !o.follow {
		return nil
	}
	ids := make([]string, 0, len(created))
	for _, l := range created {
		ids = append(ids, l.GetId())
	}
	if o.follow {
		if len(ids) > 1 {
			return &verb.UsageError{Text: "--follow takes one launch, and the array has more; they were launched"}
		}
		if err := launches.Logs(ctx, c, to, ids[0], launches.LogOptions{Follow: &o.follow}); err != nil {
			return err
		}
	}
	return launches.Wait(ctx, c, ids, launches.SayEnd(to))
}

// maxTold is how many launches of an array are named.
const maxTold = 10

// tell prints what was launched, and the next commands.
func tell(to verb.Streams, created []*api.Launch) {
	for i, l := range created {
		if i == maxTold {
			fmt.Fprintf(to.Out, "and %d more\n", len(created)-i)
			break
		}
		fmt.Fprintf(to.Out, "launch %s, %s, is %s\n", launches.Label(l), l.GetId(), launches.Phase(l))
		for _, r := range l.GetReplicas() {
			if r.GetNode() != "" {
				fmt.Fprintf(to.Out, "  %s.%d on %s\n", humanize.Printable(r.GetJob()), r.GetIndex(), humanize.Printable(r.GetNode()))
			}
		}
	}
	if len(created) > 0 {
		id := created[0].GetId()
		fmt.Fprintf(to.Out, "\n  phos logs -f %[1]s\n  phos why %[1]s\n  phos stop %[1]s\n", id)
	}
}
