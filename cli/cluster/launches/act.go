package launches

import (
	"context"
	"flag"
	"fmt"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// acting is a request that changes a launch.
type acting = func(api.LaunchesClient, context.Context, *api.ActRequest, ...grpc.CallOption) (*api.ActReply, error)

// actVerb returns a verb that changes launches, one after the other.
func actVerb(name, summary, about string, request acting) *verb.Verb {
	v := &verb.Verb{Name: name, Word: true, Arguments: "ID...", Summary: summary, About: about + "\n" + naming}
	v.Setup = func(flags *flag.FlagSet) run {
		asJSON := flags.Bool("json", false, "print the launches as JSON")
		return func(ctx context.Context, to verb.Streams, ids []string) error {
			if len(ids) == 0 {
				_, err := one(ids, name)
				return err
			}
			return use(func(c *api.Client) error {
				var changed []*api.Launch
				for _, id := range ids {
					reply, err := request(c.Launches, ctx, &api.ActRequest{Id: id})
					if err != nil {
						return fmt.Errorf("%s %s: %w", name, id, err)
					}
					changed = append(changed, reply.GetLaunch())
					if !*asJSON {
						fmt.Fprintf(to.Out, "launch %s is %s\n", Label(reply.GetLaunch()), Phase(reply.GetLaunch()))
					}
				}
				if *asJSON {
					return view.JSON(to.Out, view.Objects(changed))
				}
				return nil
			})
		}
	}
	return v
}

// Label returns the number of a launch, and its name if it has one.
func Label(l *api.Launch) string {
	if l.GetName() == "" {
		return fmt.Sprint(l.GetNumber())
	}
	return fmt.Sprintf("%d (%s)", l.GetNumber(), humanize.Shorten(l.GetName(), 60))
}

// Phase returns the state of a launch, and why it is in it.
func Phase(l *api.Launch) string {
	if l.GetReason() == "" {
		return view.State(l)
	}
	return view.State(l) + ": " + humanize.Printable(l.GetReason())
}

// rerunVerb returns the verb that launches again.
func rerunVerb() *verb.Verb {
	return &verb.Verb{
		Name: "rerun", Word: true, Arguments: "ID", Summary: "launch again what has ended",
		About: `Creates a new launch with the description and the code of one that has ended.

    phos rerun train` + "\n" + naming,
		Setup: func(flags *flag.FlagSet) run {
			asJSON := flags.Bool("json", false, "print the new launch as JSON")
			return onOne("rerun", func(ctx context.Context, c *api.Client, to verb.Streams, id string) error {
				reply, err := c.Launches.Rerun(ctx, &api.ActRequest{Id: id})
				if err != nil {
					return fmt.Errorf("rerun %s: %w", id, err)
				}
				if *asJSON {
					return view.JSON(to.Out, view.Objects(reply.GetLaunches()))
				}
				for _, l := range reply.GetLaunches() {
					fmt.Fprintf(to.Out, "launch %s, %s, is %s\n", Label(l), l.GetId(), Phase(l))
				}
				return nil
			})
		},
	}
}
