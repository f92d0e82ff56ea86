package launches

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/reach"
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

// checkpointsVerb lists images.
func checkpointsVerb(flags *flag.FlagSet) run {
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, ids []string) error {
		client, err := reach.Connect()
		if err != nil {
			return err
		}
		defer client.Close()
		if len(ids) == 0 {
			if ids, err = saved(ctx, client); err != nil {
				return err
			}
		}
		launches := []*api.Launch{}
		for _, id := range ids {
			reply, err := client.Launches.Get(ctx, &api.GetRequest{Id: id})
			if err != nil {
				return fmt.Errorf("images of %s: %w", id, err)
			}
			launches = append(launches, reply.GetLaunch())
		}
		if *asJSON {
			return view.JSON(to.Out, view.Objects(launches))
		}
		return view.Images(to.Out, launches, time.Now())
	}
}

// saved returns the launches that have images and have not ended.
func saved(ctx context.Context, client *api.Client) (ids []string, err error) {
	reply, err := client.Launches.List(ctx, &api.ListRequest{})
	if err != nil {
		return nil, fmt.Errorf("list launches: %w", err)
	}
	for _, l := range reply.GetLaunches() {
		if l.GetCheckpointUnixMs() > 0 {
			ids = append(ids, l.GetId())
		}
	}
	return ids, nil
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
