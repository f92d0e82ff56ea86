package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/daemon/rpc"
)

var versionVerb = verb{
	name:    "version",
	summary: "print the versions of pos_cli and of the phosd that runs",
	about:   `Prints this command's version and, where a phosd answers, its version.`,
	prepare: func(*flag.FlagSet) func(context.Context, streams, []string) error {
		return func(ctx context.Context, to streams, _ []string) error {
			fmt.Fprintf(to.out, "pos_cli %s\n", rpc.Version)
			client, err := rpc.Dial(rpc.Socket())
			if err != nil {
				// A version can be asked for where no phosd runs.
				return nil
			}
			defer client.Close()
			reply, err := client.Daemon.Version(ctx, &rpc.VersionRequest{})
			if err != nil {
				return err
			}
			fmt.Fprintf(to.out, "phosd %s (wire %d)\n", reply.GetVersion(), reply.GetWire())
			return nil
		}
	},
}
