package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

var versionVerb = verb.Verb{
	Name:    "version",
	Summary: "print the versions of pos_cli and of the running phosd",
	About:   `Prints the version of this command and, if phosd answers, of phosd.`,
	Setup: func(*flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			fmt.Fprintf(to.Out, "pos_cli %s\n", api.Version)
			client, err := api.Dial(api.Socket())
			if err != nil {
				// No phosd runs: print only this command's version.
				return nil
			}
			defer client.Close()
			reply, err := client.Daemon.Version(ctx, &api.VersionRequest{})
			if err != nil {
				return err
			}
			fmt.Fprintf(to.Out, "phosd %s (wire %d)\n", reply.GetVersion(), reply.GetWire())
			return nil
		}
	},
}
