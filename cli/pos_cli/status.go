package main

import (
	"context"
	"encoding/json"
	"flag"
	"time"

	"github.com/phos-gpu/phos/daemon/rpc"
)

var statusVerb = verb{
	name:    "status",
	summary: "show phosd, its GPUs, and the programs that run",
	about: `Shows phosd, its GPUs with the memory that all users' programs hold, and the caller's programs (root: everybody's).

With --json it prints one object: daemon, gpus, programs. Times are RFC 3339, null where there is none; sizes
are bytes. A program's state is running, starting (its handshake is not over) or unresponsive (its worker does not answer).`,
	prepare: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to streams, _ []string) error { return status(ctx, to, *asJSON) }
	},
}

func status(ctx context.Context, to streams, asJSON bool) error {
	client, err := rpc.Dial(rpc.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	reply, err := client.Daemon.Status(ctx, &rpc.StatusRequest{})
	if err != nil {
		return err
	}
	view := viewOf(reply, time.Now())
	if asJSON {
		encoder := json.NewEncoder(to.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(view)
	}
	return view.table(to.out)
}
