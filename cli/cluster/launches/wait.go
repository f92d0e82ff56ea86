package launches

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// EndedError is returned for a launch that has ended and did not complete.
type EndedError struct {
	Launch *api.Launch
}

// Error says how the launch has ended.
func (e *EndedError) Error() string {
	return fmt.Sprintf("launch %s: %s", Label(e.Launch), Phase(e.Launch))
}

// Status returns the exit status for the launch.
func (e *EndedError) Status() int {
	if status := int(e.Launch.GetStatus()); status > 0 && status < 256 {
		return status
	}
	return 1
}

// waitVerb waits for the end of launches.
func waitVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print a line of JSON for each launch when it has ended")
	return func(ctx context.Context, to verb.Streams, ids []string) error {
		if len(ids) == 0 {
			_, err := one(ids, "wait")
			return err
		}
		say := SayEnd(to)
		if *asJSON {
			say = func(l *api.Launch) error { return view.Line(to.Out, view.Object(l)) }
		}
		return use(func(c *api.Client) error { return Wait(ctx, c, ids, say) })
	}
}

// SayEnd returns what prints in words how a launch has ended.
func SayEnd(to verb.Streams) func(*api.Launch) error {
	return func(l *api.Launch) error {
		_, err := fmt.Fprintf(to.Out, "launch %s: %s\n", Label(l), Phase(l))
		return err
	}
}

// Wait waits until launches have ended, and calls say for each when it has. The error is an
// *EndedError for the first in the order of ids that did not complete.
func Wait(ctx context.Context, c *api.Client, ids []string, say func(*api.Launch) error) error {
	// Ids, so that a newer launch with the same name does not take the place of one.
	wanted := make([]string, 0, len(ids))
	for _, id := range ids {
		reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: id})
		if err != nil {
			return fmt.Errorf("wait %s: %w", id, err)
		}
		wanted = append(wanted, reply.GetLaunch().GetId())
	}
	ended := map[string]*api.Launch{}
	for len(ended) < len(unique(wanted)) {
		before := len(ended)
		err := watch(ctx, c, wanted, ended, say)
		if ctx.Err() != nil {
			return fmt.Errorf("the wait was ended, and the launch was not: %w", ctx.Err())
		}
		if err != nil && (!errors.Is(err, api.ErrUnavailable) || len(ended) == before && !errors.Is(err, errBroken)) {
			return err
		}
	}
	for _, id := range wanted {
		if l := ended[id]; l.GetResult() != "completed" {
			return &EndedError{l}
		}
	}
	return nil
}

// unique returns the different ids.
func unique(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// errBroken means that a stream broke after it had answered.
var errBroken = errors.New("the stream broke")

// watch follows launches until all have ended or the stream breaks.
func watch(
	ctx context.Context, c *api.Client, ids []string, ended map[string]*api.Launch, say func(*api.Launch) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Launches.Watch(ctx, &api.ListRequest{Ids: ids})
	for answered := false; err == nil && len(ended) < len(unique(ids)); answered = true {
		reply, failed := stream.Recv()
		if failed != nil {
			if answered {
				failed = errors.Join(failed, errBroken)
			}
			return failed
		}
		for _, l := range reply.GetLaunches() {
			if l.GetPhase() != "ended" || ended[l.GetId()] != nil || !slices.Contains(ids, l.GetId()) {
				continue
			}
			ended[l.GetId()] = l
			if err := say(l); err != nil {
				return err
			}
		}
	}
	return err
}
