package launches

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/ticks"
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
				event, err := f.await(ctx, "saved", []string{"not saved", "queued", "node gone"}, io.Discard)
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
				event, err := f.await(ctx, "moved", []string{"not moved"}, steps)
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
	client *api.Client
	id     string
	events api.Launches_EventsClient
	after  uint64 // the number of the last event that was seen
}

// begin makes a request about a launch, and follows what comes of it.
func begin(ctx context.Context, c *api.Client, name string, request func(id string) error) (*following, error) {
	reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: name})
	if err != nil {
		return nil, err
	}
	f := &following{client: c, id: reply.GetLaunch().GetId()} // a name may mean another one later
	if f.events, err = c.Launches.Events(ctx, &api.EventsRequest{Launch: f.id, Follow: true, Tail: 1}); err != nil {
		return nil, err
	}
	last, err := f.events.Recv()
	if err != nil {
		return nil, err
	}
	f.after = last.GetNumber()
	return f, request(f.id)
}

// Times of following.
const (
	// lostTime is how long no controller may answer, retryTime the time between two attempts.
	lostTime  = time.Minute
	retryTime = time.Second
)

// next returns the next event. When the controller goes away, it comes from the next one.
func (f *following) next(ctx context.Context) (*api.Event, error) {
	var lost time.Time
	for {
		event, err := f.events.Recv()
		switch {
		case err == nil && event.GetNumber() > f.after:
			f.after = event.GetNumber()
			return event, nil
		case err == nil:
			continue
		case lost.IsZero():
			lost = time.Now()
		case time.Since(lost) > lostTime || !errors.Is(api.FromStatus(err), api.ErrUnavailable):
			return nil, api.FromStatus(err)
		}
		if err := ticks.Pause(ctx, retryTime); err != nil {
			return nil, err
		}
		if f.events, err = f.client.Launches.Events(ctx, &api.EventsRequest{Launch: f.id, Follow: true}); err != nil {
			return nil, api.FromStatus(err)
		}
	}
}

// await waits for an event of a kind, and shows the others. Failures are kinds after which it does
// not come; nor does it once the launch has ended.
func (f *following) await(ctx context.Context, kind string, failures []string, steps io.Writer) (*api.Event, error) {
	for {
		event, err := f.next(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case event.GetKind() == kind:
			return event, nil
		case slices.Contains(failures, event.GetKind()):
			return nil, fmt.Errorf("%s: %s", event.GetKind(), humanize.Printable(event.GetText()))
		}
		fmt.Fprintln(steps, strings.TrimSpace(event.GetKind()+" "+humanize.Printable(event.GetText())))
		if event.GetKind() != "ended" {
			continue // of a replica, or of the launch
		}
		reply, err := f.client.Launches.Get(ctx, &api.GetRequest{Id: f.id})
		if err == nil && reply.GetLaunch().GetPhase() == "ended" {
			return nil, fmt.Errorf("the launch has ended: %s", Phase(reply.GetLaunch()))
		}
	}
}
