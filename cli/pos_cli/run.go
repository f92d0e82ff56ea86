package main

import (
	"context"
	"flag"
	"os"

	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/verb"
)

var runVerb = verb.Verb{
	Name: "run", Word: true, Command: true,
	Arguments: "[--name NAME] [--gpus LIST] [--checkpoint POLICY] -- CMD ...",
	Summary:   "run a program under phos",
	About: `Runs a CUDA program under phos, from any shell, cron, a systemd unit or a container:

    pos_cli run -- python3 train.py
    pos_cli run --name digits --gpus 0,1 -- torchrun --nproc-per-node 2 train.py
    pos_cli run --checkpoint /data/ckpt,every=10m,keep=3,on=exit-signal+drain -- ./simulate

If no phosd answers, nothing is started and the exit status is 3. Otherwise one line on standard error
says which GPUs the program gets, and pos_cli is replaced by the program: the program has its pid, its
terminal and its signals, and its exit status is the program's. If CMD does not exist the status is
127, and if it cannot be executed 126, as in a shell. pos_cli --env describes the same for shells,
with env $phos.

As the first process of a container (pid 1), which cannot be saved, pos_cli stays: it starts the program
as a child with a pid above 300, forwards signals to it, collects orphans, and ends with the program's
status. So any new container has the program's pids free for a restore.

--gpus sets CUDA_VISIBLE_DEVICES. A GPU that phosd does not serve is refused; pos_cli --status lists
them.

--checkpoint is a policy as in pos.yaml: phosd saves the program, with the program's rights, and
pos_cli --status shows it. DIR may hold {pid}, {rank} and {job}. Without every and on, the program is
saved every 10 minutes. A DIR with a comma needs a pos.yaml.

    every=10m             how often
    keep=3                how many generations stay; 0: all
    bandwidth=500MiB      bytes a second, GPU and CPU half together
    on=exit-signal+drain  when phosd is told to end; at pos_cli --stop --drain
    restore=on-boot       phosd restores the program after a restart of the machine

--name and --checkpoint travel in the variable PHOS_JOB, which has the form of pos.yaml. Its keys
replace those of pos.yaml, also for processes that the program starts.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options launch.Options
		flags.StringVar(&options.Name, "name", "", "`NAME` of the job, for --status and ps")
		flags.StringVar(&options.GPUs, "gpus", "", "`LIST` of GPUs that the program sees: numbers or UUIDs")
		flags.Var(&options.Policy, "checkpoint", launch.PolicyUsage)
		flags.BoolVar(&options.Quiet, "quiet", false, "print nothing but errors")
		return func(ctx context.Context, to verb.Streams, command []string) error {
			if len(command) == 0 {
				return &verb.UsageError{Text: "name the program: pos_cli run -- CMD ..."}
			}
			var err error
			if options.Self, err = os.Executable(); err != nil {
				return err
			}
			return launch.Run(ctx, to.Err, command, options)
		}
	},
}
