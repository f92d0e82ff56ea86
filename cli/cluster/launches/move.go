package launches

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// checkpointVerb is the verb checkpoint.
func checkpointVerb() *verb.Verb {
	return &verb.Verb{
		Name: "checkpoint", Word: true, Arguments: "ID", Summary: "save a launch that runs on",
		About: `Saves a launch now, beside what its description says of checkpoints. It runs on after a short pause.
The command waits until that is done; Ctrl-C ends the wait and not the save. phos checkpoints shows
where the image is.

    phos checkpoint train
    phos checkpoint train --json | jq .generation` + "\n" + naming,
		Setup: func(flags *flag.FlagSet) run {
			asJSON := flags.Bool("json", false, "print the image as JSON")
			return onOne("checkpoint", func(ctx context.Context, c *api.Client, to verb.Streams, id string) error {
				f, err := begin(ctx, c, id, func(id string) error {
					_, err := c.Launches.Checkpoint(ctx, &api.ActRequest{Id: id})
					return err
				})
				if err != nil {
					return fmt.Errorf("checkpoint %s: %w", id, err)
				}
				event, err := f.await([]string{"saved"}, []string{"not saved"}, io.Discard)
				if err != nil {
					return fmt.Errorf("checkpoint %s: %w", id, err)
				}
				if *asJSON {
					return printNewest(ctx, c, to, id)
				}
				fmt.Fprintf(to.Out, "saved %s\n", humanize.Printable(event.GetText()))
				return nil
			})
		},
	}
}

// printNewest prints the newest image of a launch as JSON.
func printNewest(ctx context.Context, c *api.Client, to verb.Streams, id string) error {
	reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: id})
	if err != nil {
		return err
	}
	all := reply.GetLaunch().GetImages()
	if len(all) == 0 {
		return fmt.Errorf("launch %s has no image any longer", id)
	}
	return view.JSON(to.Out, view.Object(all[len(all)-1]))
}

// migrateVerb is the verb migrate.
func migrateVerb() *verb.Verb {
	return &verb.Verb{
		Name: "migrate", Word: true, Arguments: "ID --to NODE|any", Summary: "move a launch to another node while it runs",
		About: `Moves a launch of one replica to another node. It is saved while it runs, and its image is copied to
that node, again and again until little has changed between two saves. Then it stands still while
the rest is saved and copied, and goes on there, with the same memory, files and output.

    phos migrate train --to gpu-7
    phos migrate train --to any       # any node that has room for it

A node without room is refused before anything is copied. If the move fails before the launch is
stopped, it runs on where it is; after that it goes on wherever there is room, from its image. The
command shows the steps, and waits for the end; Ctrl-C ends the wait and not the move. The last line
says for how long the launch stood still.` + "\n" + naming,
		Setup: func(flags *flag.FlagSet) run {
			node := flags.String("to", "", "the `NODE` to which it moves, or any")
			asJSON := flags.Bool("json", false, "print the launch as JSON in the end, and no steps")
			move := onOne("migrate", func(ctx context.Context, c *api.Client, to verb.Streams, id string) error {
				f, err := begin(ctx, c, id, func(id string) error {
					_, err := c.Launches.Migrate(ctx, &api.MigrateRequest{Id: id, To: *node})
					return err
				})
				if err != nil {
					return fmt.Errorf("migrate %s: %w", id, err)
				}
				steps := to.Out
				if *asJSON {
					steps = io.Discard
				}
				event, err := f.await([]string{"moved"}, []string{"not moved"}, steps)
				if err != nil {
					return fmt.Errorf("migrate %s: %w", id, err)
				}
				if *asJSON {
					reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: id})
					if err != nil {
						return err
					}
					return view.JSON(to.Out, view.Object(reply.GetLaunch()))
				}
				fmt.Fprintf(to.Out, "moved %s\n", humanize.Printable(event.GetText()))
				return nil
			})
			return func(ctx context.Context, to verb.Streams, ids []string) error {
				if len(ids) > 0 && *node == "" { // move says what is wrong with the names
					return &verb.UsageError{Text: "name the node to which it moves: --to NODE, or --to any"}
				}
				return move(ctx, to, ids)
			}
		},
	}
}

// following receives the events of a launch that follow a request.
type following struct {
	events api.Launches_EventsClient
	after  uint64
}

// begin makes a request about a launch, and follows what comes of it.
func begin(ctx context.Context, c *api.Client, name string, request func(id string) error) (*following, error) {
	reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: name})
	if err != nil {
		return nil, err
	}
	id := reply.GetLaunch().GetId() // a name may mean another one later
	f := &following{}
	if f.events, err = c.Launches.Events(ctx, &api.EventsRequest{Launch: id, Follow: true, Tail: 1}); err != nil {
		return nil, err
	}
	last, err := f.events.Recv()
	if err != nil {
		return nil, err
	}
	f.after = last.GetNumber()
	return f, request(id)
}

// await waits for an event of some kinds, and shows the others. Failures are kinds after which none
// of these comes.
func (f *following) await(kinds, failures []string, steps io.Writer) (*api.Event, error) {
	for {
		event, err := f.events.Recv()
		if err != nil {
			return nil, err
		}
		switch kind := event.GetKind(); {
		case event.GetNumber() <= f.after:
		case slices.Contains(kinds, kind):
			return event, nil
		case slices.Contains(failures, kind), kind == "failed", kind == "completed", kind == "stopped":
			return nil, fmt.Errorf("%s: %s", kind, humanize.Printable(event.GetText()))
		default:
			fmt.Fprintln(steps, strings.TrimSpace(kind+" "+humanize.Printable(event.GetText())))
		}
	}
}
