package main

import (
	"context"
	"encoding/json"
	"flag"
	"time"

	"github.com/phos-gpu/phos/cli/status"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

var statusVerb = verb.Verb{
	Name:    "status",
	Summary: "show phosd, its GPUs, and the programs that run",
	About: `Shows phosd, its GPUs with the memory that all users' programs hold, and the caller's programs (root: everybody's).

A program's state is running, starting (its handshake is not over), failed (a kernel faulted; the line below the table says
which, where and at what address, and every later call of the program fails) or unresponsive (its worker does not answer).
What a program has waited for longer than 10 seconds stands behind its state. CHECKPOINT is how long ago it was saved; below the
table stands where to, what went wrong when it was tried last, and what the policy in its pos.yaml or phosd.toml asks for.

Of real GPUs it shows what nvidia-smi does: memory that anybody holds, and of it what phos's programs do (OURS), use, temperature,
power, and processes that are not phos's. A GPU's state is ok, lost (it needs a reset, and programs that held its memory have failed), MIG,
a compute mode that keeps programs out, or the last error (Xid) that its driver has reported.

With --json it prints one object with daemon, gpus and programs. Times are RFC 3339, sizes are bytes, and null stands where
there is nothing. What a program is doing is told by:

    calls_made, calls_completed   calls that arrived; those answered or submitted
    pending                       the oldest call, or work of a stream, that is not over: call, stream, milliseconds
    kernels                       names of the last kernels launched, the newest last
    rank, world_size              its place in a distributed job, from RANK and WORLD_SIZE or the variables of
                                  Open MPI and Slurm
    memory_bytes, pinned_bytes    what it holds on all GPUs; pinned and managed memory
    fault                         what the failed kernel did, or that the GPU is lost
    last_checkpoint, checkpoint   when it was saved last; age_seconds, dir and generation of that, error and failed when a
                                  later attempt failed, running, next, and the policy that asks for it

    pos_cli --status --json | jq '.programs[] | select(.state == "failed") | .pid, .fault'`,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, _ []string) error { return showStatus(ctx, to, *asJSON) }
	},
}

func showStatus(ctx context.Context, to verb.Streams, asJSON bool) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	reply, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		return err
	}
	view := status.Of(reply, time.Now())
	if asJSON {
		encoder := json.NewEncoder(to.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(view)
	}
	return view.Table(to.Out)
}
