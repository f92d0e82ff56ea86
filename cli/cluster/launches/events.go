package launches

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// eventsVerb prints events.
func eventsVerb(flags *flag.FlagSet) run {
	follow := followFlag(flags, "go on with what happens, until Ctrl-C")
	asJSON := flags.Bool("json", false, "print a line of JSON for each event")
	node := flags.String("node", "", "only the events of the node `NAME`")
	asTrace := flags.Bool("as-trace", false, "print the scheduler's log, for pos_cli sim check and sim trace")
	return func(ctx context.Context, to verb.Streams, ids []string) error {
		if len(ids) > 1 {
			_, err := one(ids, "events")
			return err
		}
		request := &api.EventsRequest{Follow: *follow, Node: *node, AsLog: *asTrace}
		if len(ids) == 1 {
			request.Launch = ids[0]
		}
		return use(func(c *api.Client) error {
			stream, err := c.Launches.Events(ctx, request)
			if err != nil {
				return err
			}
			return untilEnd(ctx, func() error {
				event, err := stream.Recv()
				if err != nil {
					return err
				}
				return printEvent(to.Out, event, *asJSON, *asTrace)
			})
		})
	}
}

// printEvent prints an event as a line.
func printEvent(to io.Writer, e *api.Event, asJSON, asTrace bool) error {
	var err error
	switch {
	case asTrace:
		_, err = fmt.Fprintln(to, e.GetText())
	case asJSON:
		err = view.Line(to, view.Object(e))
	default:
		_, err = fmt.Fprintf(to, "%s  %-12s  %-12s  %s  %s\n", time.UnixMilli(e.GetUnixMs()).Format(time.DateTime),
			humanize.Shorten(e.GetLaunch(), 40), humanize.Shorten(e.GetNode(), 40), humanize.Printable(e.GetKind()),
			humanize.Printable(e.GetText()))
	}
	return err
}

// untilEnd calls next until a stream ends, or the user ends it.
func untilEnd(ctx context.Context, next func() error) error {
	for {
		err := next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}
