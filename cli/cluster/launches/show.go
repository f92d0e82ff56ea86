package launches

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
)

// showVerb prints one launch.
func showVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	spec := flags.Bool("spec", false, "print the description")
	return onOne("show", func(ctx context.Context, c *api.Client, to verb.Streams, id string) error {
		reply, err := c.Launches.Get(ctx, &api.GetRequest{Id: id})
		switch {
		case err != nil:
			return fmt.Errorf("show %s: %w", id, err)
		case *spec:
			_, err = fmt.Fprintf(to.Out, "%s\n", reply.GetSpec())
			return err
		case *asJSON:
			return view.JSON(to.Out, view.Object(reply.GetLaunch()))
		}
		return view.Launch(to.Out, reply.GetLaunch(), time.Now())
	})
}

// whyVerb prints why a launch waits.
func whyVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	return onOne("why", func(ctx context.Context, c *api.Client, to verb.Streams, id string) error {
		reply, err := c.Launches.Why(ctx, &api.GetRequest{Id: id})
		if err != nil {
			return fmt.Errorf("why %s: %w", id, err)
		}
		if *asJSON {
			return view.JSON(to.Out, view.Object(reply))
		}
		fmt.Fprintf(to.Out, "launch %s is %s\n", Label(reply.GetLaunch()), Phase(reply.GetLaunch()))
		for _, reason := range reply.GetReasons() {
			fmt.Fprintf(to.Out, "  %s\n", humanize.Printable(reason))
		}
		if at := reply.GetEstimateUnixMs(); at != 0 {
			start := time.UnixMilli(at)
			fmt.Fprintf(to.Out, "  it probably starts at %s, in %s\n", start.Format(time.DateTime), humanize.Age(time.Until(start)))
		}
		return nil
	})
}
