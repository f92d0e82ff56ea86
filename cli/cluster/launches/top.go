package launches

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/ticks"
)

const aboutTop = `Shows what the processes of launches use, on all nodes: CPU, memory, memory of GPUs, and how busy
these are. The table is shown again every 2 seconds, until Ctrl-C. Without a terminal, and with
--once, one table is printed.

    phos top
    phos top train --every 10s
    phos top --once train/main.0
    phos top --json | jq '.[] | select(.cpu_percent < 10) | .node'

CPU is in percent of one CPU. A process counts with its children. Of a replica of one process all
counts that has run in it, as its limits see it; of several, each one's processes that run now.
GPU MEM is what phosd counts. GPU is not known of software GPUs. A dash stands for what is not known.
RESTARTS counts how often the replica was started again.
` + naming

// topEvery is the time between two tables, topLeast the least, and topFirst that between the two
// looks of which a single table is made.
const (
	topEvery = 2 * time.Second
	topLeast = time.Second
	topFirst = time.Second
)

// topVerb returns the verb that shows what processes use.
func topVerb() *verb.Verb {
	return &verb.Verb{
		Name: "top", Word: true, Arguments: "[ID[/job[.replica[.process]]]]", Summary: "show what processes of launches use",
		About: aboutTop, Setup: setupTop,
	}
}

// setupTop defines the flags of top.
func setupTop(flags *flag.FlagSet) run {
	once := flags.Bool("once", false, "print one table")
	asJSON := flags.Bool("json", false, "print one array of JSON")
	every := flags.Duration("every", topEvery, "show the table again after `TIME`, at least 1s")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		request := &api.UsageRequest{}
		switch {
		case *every < topLeast:
			return &verb.UsageError{Text: "--every takes a time of at least 1s"}
		case len(arguments) > 1:
			_, err := one(arguments, "top")
			return err
		case len(arguments) == 1:
			request.What = arguments[0]
		}
		file, isFile := to.Out.(*os.File)
		return use(func(c *api.Client) error {
			t := &top{to: to, client: c, request: request}
			if *once || *asJSON || !isFile || !terminal.IsTerminal(file) {
				return t.once(ctx, *asJSON)
			}
			return t.watch(ctx, *every, file)
		})
	}
}

// top shows what processes use.
type top struct {
	to      verb.Streams
	client  *api.Client
	request *api.UsageRequest
	last    []*api.ProcessUsage
}

// look asks the cluster, and returns what was used since the look before.
func (t *top) look(ctx context.Context) ([]view.Used, []string, error) {
	reply, err := t.client.Launches.Usage(ctx, t.request)
	if err != nil {
		return nil, nil, err
	}
	used := view.UsedSince(t.last, reply.GetProcesses())
	t.last = reply.GetProcesses()
	return used, reply.GetNotices(), nil
}

// once prints one table. It takes two looks, because usage of CPUs is a difference.
func (t *top) once(ctx context.Context, asJSON bool) error {
	if _, _, err := t.look(ctx); err != nil {
		return err
	}
	if err := ticks.Pause(ctx, topFirst); err != nil {
		return err
	}
	used, notices, err := t.look(ctx)
	if err != nil {
		return err
	}
	for _, notice := range notices {
		fmt.Fprintf(t.to.Err, "phos: %s\n", humanize.Printable(notice))
	}
	if asJSON {
		return view.JSON(t.to.Out, used)
	}
	return view.Usage(t.to.Out, used)
}

// watch shows tables on a terminal until the context ends. While no controller answers, it says so
// and goes on.
func (t *top) watch(ctx context.Context, every time.Duration, screen *os.File) error {
	for wait := topFirst; ; wait = every {
		used, notices, err := t.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, api.ErrUnavailable):
			return err
		case err != nil:
			notices = []string{err.Error()}
		}
		var text bytes.Buffer
		if err := view.Usage(&text, used); err != nil {
			return err
		}
		for _, notice := range notices {
			fmt.Fprintf(&text, "phos: %s\n", humanize.Printable(notice))
		}
		if err := show(screen, text.String()); err != nil {
			return err
		}
		if ticks.Pause(ctx, wait) != nil {
			return nil
		}
	}
}

// show replaces what a terminal shows by as much of a text as it has room for.
func show(screen *os.File, text string) error {
	rows, columns := 0, 0
	if size := terminal.Size(screen); size != nil {
		rows, columns = int(size.Row), int(size.Col)
	}
	_, err := fmt.Fprint(screen, "\x1b[H\x1b[2J", view.Fit(text, rows, columns))
	return err
}
