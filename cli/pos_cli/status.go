package main

import (
	"context"
	"encoding/json"
	"flag"

	"github.com/phos-gpu/phos/cli/cluster/daemons"
	"github.com/phos-gpu/phos/cli/verb"
)

var statusVerb = verb.Verb{
	Name:    "status",
	Summary: "show phosd, its GPUs, and the programs that run; or the cluster",
	About: `Shows phosd, its GPUs with the memory that the programs of all users hold, and the caller's programs
(root sees the programs of all users).

STATE of a program:

    running        it runs; a call that has been pending for more than 10 seconds is named too
    starting       its handshake is not complete
    failed         a kernel faulted: the line below the table names kernel, instruction and address; every later
                   call of the program fails
    unresponsive   its worker does not answer

CHECKPOINT is the time since the program was last saved. The lines below the table say where to, why
the last attempt failed, and what the policy in its pos.yaml or in phosd.toml is.

Real GPUs have the columns of nvidia-smi: memory in use, the part of it that programs of phos use
(OURS), load, temperature, power, and processes that do not run through phos. STATE of a GPU is ok,
lost (it needs a reset, and programs with memory on it have failed), MIG, a compute mode that keeps
programs out, or the last error (Xid) that the driver reported.

With --json it prints one object with daemon, gpus and programs. Times are RFC 3339, sizes are
bytes, and a missing value is null. These fields say what a program does:

    calls_made, calls_completed   calls that arrived; calls that were answered or submitted
    calls_awaited                 calls, since the start or the last restore, that the program waited for: each
                                  costs it a round trip
    pending                       the oldest incomplete call, or work of a stream: call, stream, milliseconds
    kernels                       names of the last kernels launched, the newest last
    rank, world_size              its place in a distributed job, from RANK and WORLD_SIZE or the variables of
                                  Open MPI and Slurm
    root_pid                      the pid to name to --dump: the program's launcher, or the program (see pos_cli ps)
    memory_bytes, pinned_bytes    memory on all GPUs; pinned and managed memory
    fault                         what the failed kernel did, or that the GPU is lost
    last_checkpoint, checkpoint   time of the last checkpoint; its age_seconds, dir and generation; error and failed
                                  of a later failed attempt; running, next, and the policy

boot_restores are the programs that phosd restores after a restart of the machine, as their policies
say: dir, state (waiting, restored or failed), error, attempts and pid.

--target cluster shows the cluster instead: its controllers, its nodes, how many launches there are in
each phase, and what the caller is to it. --target agent shows whether the agent of this machine runs.

    pos_cli --status --target cluster
    pos_cli --status --json | jq '.programs[] | select(.state == "failed") | .pid, .fault'`,
	Values: map[string][]string{"target": daemons.Targets},
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		asJSON := flags.Bool("json", false, "print JSON")
		target := flags.String("target", daemons.Daemon, "`WHAT` to show: daemon, cluster or agent")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if err := daemons.CheckTarget(*target); err != nil {
				return err
			}
			switch *target {
			case daemons.Cluster:
				return daemons.ShowCluster(ctx, to, *asJSON)
			case daemons.Agent:
				return daemons.ShowAgent(to, *asJSON)
			}
			return showStatus(ctx, to, *asJSON)
		}
	},
}

// showStatus prints phosd's status as tables or as JSON.
func showStatus(ctx context.Context, to verb.Streams, asJSON bool) error {
	view, err := fetchStatus(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(to.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(view)
	}
	return view.Table(to.Out)
}
