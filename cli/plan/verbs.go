package plan

import "github.com/phos-gpu/phos/cli/verb"

// Verbs returns the plan verbs, in the order of the help text.
func Verbs() []*verb.Verb {
	return []*verb.Verb{
		verb.Group(
			"plan",
			"profile|templates|make|batch|fail|replay|trace",
			"plan pipeline-parallel training that survives failures",
			aboutGroup,
		),
		measureVerb(),
		{
			Name:    "plan templates",
			Word:    true,
			Summary: "cut a model into stages for each number of nodes",
			About:   aboutTemplates,
			Setup:   templatesVerb,
		},
		{
			Name:    "plan make",
			Word:    true,
			Summary: "plan pipelines and their shares of the batch",
			About:   aboutMake,
			Setup:   makeVerb,
		},
		{
			Name:    "plan batch",
			Word:    true,
			Summary: "split a batch over pipelines of different speeds",
			About:   aboutBatch,
			Setup:   batchVerb,
		},
		{
			Name:    "plan fail",
			Word:    true,
			Summary: "plan again after nodes died, joined or will leave",
			About:   aboutFail,
			Setup:   failVerb,
		},
		{
			Name:    "plan replay",
			Word:    true,
			Summary: "replay a trace of failures",
			About:   aboutReplay,
			Setup:   replayVerb,
		},
		{Name: "plan trace", Word: true, Summary: "generate a trace of failures", About: aboutTrace, Setup: traceVerb},
	}
}

const aboutGroup = `Plans training in pipelines so that the loss of nodes is answered by another plan in milliseconds,
without a restart. It needs no phosd and no GPU.

    pos_cli plan templates --profile model.json --nodes 16 --gpu-memory 80GiB --faults 2
    pos_cli plan make --profile model.json --nodes 16 --gpu-memory 80GiB --faults 2 \
        --microbatches 512 --json > plan.json
    pos_cli plan make --profile model.json --nodes 16 --faults 1 --microbatches 512 \
        --machines 0-7/8-15                        # two machines with eight GPUs, one may be lost
    pos_cli plan fail --plan plan.json --dead 2,6 --json > next.json
    pos_cli plan replay --profile model.json --nodes 16 --faults 2 --microbatches 512 \
        --trace failures.csv

pos_cli plan profile measures a model that phos.pipeline trains. A profile has the costs of each layer of the model for one microbatch on one GPU:

    {"layers": [{"name": "embedding", "forward_ms": 0.8, "backward_ms": 1.6, "state_bytes": 411041792,
                 "activation_bytes": 33554432, "allreduce_in_node_ms": {"2": 0.4, "4": 0.7},
                 "allreduce_across_ms": {"2": 3.1, "4": 4.4}}, ...]}

or the same as CSV with the columns name, forward_ms, backward_ms, state_bytes, activation_bytes,
allreduce_in_node_ms_2, allreduce_across_ms_2 and so on. state_bytes are parameters, gradients and
optimizer state together; a stage keeps activation_bytes for each microbatch in flight. Only
forward_ms and backward_ms are required. Times are exact to the nanosecond and all arithmetic is
exact, so that every node computes the same plan with the same hash.`

const aboutTemplates = `Finds, for each number of nodes that a pipeline may have, the cut of the layers into stages with
the shortest iteration. The numbers range from the fewest nodes that hold the model (n0: with
--gpu-memory, each stage is checked with its microbatches in flight) to N - F·n0, so that F+1
pipelines can be made of any number of nodes from (F+1)·n0 to N.

    pos_cli plan templates --profile model.json --nodes 8
    pos_cli plan templates --profile model.json --nodes 8 --gpus-per-node 4 --gpu-memory 40GiB \
        --faults 1 --json
    pos_cli plan templates --profile model.json --nodes 8 --svg iteration.svg

T is the time of an iteration with four microbatches for each GPU, in the schedule
one-forward-one-backward. The search is exact. --compat oobleck shows the result of Oobleck's
recursive search instead, and the time that its released planner reports. --svg draws the largest
template's iteration, stage by stage. --json: {"templates": [{"nodes": 2, "cuts": [0, 4, 6],
"t_ms": 196, ...}]}; cuts are the first layers of the stages, and the number of layers.`

const aboutMake = `Chooses the number of pipelines of each template, and the microbatches of each, for the shortest
iteration: the slowest pipeline's time plus the all-reduce among the pipelines. There are at least
--faults + 1 pipelines, so that every layer is on that many nodes. Equal pipelines get equally many
microbatches if the batch allows that for any number of pipelines; otherwise some get one more than
others. The plan is optimal; or, if a thousand nodes allow too many combinations to search, it is
near the optimum, and the output has a lower bound. Long work shows its progress; Ctrl-C ends it.

    pos_cli plan make --profile model.json --nodes 13 --gpu-memory 80GiB --faults 2 --microbatches 512
    pos_cli plan make --profile model.json --nodes 13 --faults 2 --microbatches 512 --json > plan.json

--json prints all input of: pos_cli plan fail. Equal plans have equal hashes.`

const aboutBatch = `Splits a batch over pipelines so that the slowest is as fast as possible.

    pos_cli plan batch --slices 6.1,4.8,3.8 --counts 4,1,1 --microbatches 4096

The slices are milliseconds per microbatch for each kind of pipeline, the counts are the number of
pipelines of each kind. Every pipeline of a kind gets equally many microbatches, at least one. If
that is impossible, the error names the nearest batch that can be split.`

const aboutFail = `Plans again for the present nodes, and chooses the way to go on with most iterations until the next
change, which is expected after --horizon:

- recover: a pipeline that lost nodes continues with a smaller template, or borrows nodes from
  others, or is merged with others, or is taken apart to fill others. If fewer than F+1 pipelines
  remain, one more is made of nodes that others can spare. Sizes and nodes are chosen so that least
  must be copied, without fewer copies of a layer or a longer iteration than by Oobleck's steps (a
  smaller template, else borrow, else merge).
- balance: the sizes that a new plan for these nodes would have, whatever must be copied for them.
  It is chosen if that gives more than one percent more iterations.

Each layer is copied in stripes from all nodes that have it. The batch stays the same; if equal
pipelines cannot have equally much of it, some get one microbatch more.

    pos_cli plan fail --plan plan.json --dead 2,6
    pos_cli plan fail --plan plan.json --dead 2,6 --horizon 1h --bandwidth 10GB
    pos_cli plan fail --plan plan.json --dead 2 --drain 7 --join 40,41 --json > next.json
    pos_cli plan fail --plan plan.json --dead 2,6 --svg change.svg

For nodes that fail during a recovery, name all of them with the previous plan: the order does not
matter. If a layer is lost on all nodes, it is named, and a checkpoint must supply it. Where too few
nodes are left for as many copies as the plan has, --faults plans with fewer. --json prints the new
plan like plan make, with ways (the chosen one first), steps, transfers, lost and bytes in addition.`

const aboutReplay = `Runs a trace of failures in virtual time, and prints the samples trained per second and where the
time went.

By measured throughput, with the rules of the simulation that Oobleck was published with:

    pos_cli plan replay --throughput bert.csv --trace hourly.csv --pause 2s --samples-per-step 8192

The table has the columns nodes and samples_per_s; the run starts with its largest number of nodes.
The first step begins after --ready and --pause. A step with n nodes takes
floor(1000 · samples / throughput(n)) ms. A failure starts a re-plan, which takes --pause (another
failure restarts it). Steps that end before the re-plan does count; the current one is then lost.
New nodes are used after the next failure, or at once if nothing runs. The run stops at the trace's
last event.

With --pipeline-nodes N a failure stops the step at once, and after --pause it goes on: only what
the lost node's pipeline of N nodes had computed of it is computed again, as phos.pipeline does. New
nodes are used after the step, and that takes --pause, too. With --backup TIME only what that pipeline had computed in up to TIME is computed again.

By planning, where each change is answered by a new plan at the given costs:

    pos_cli plan replay --profile model.json --nodes 16 --gpu-memory 80GiB --faults 2 \
        --microbatches 512 --trace spot.csv \
        --detect 1s --pause 2s --bandwidth 25GB --horizon 10m --checkpoint 10m --restart 60s

What pipelines without a loss have computed of an iteration counts, as in phos.pipeline. So does,
with --backup TIME, what the others had computed until up to TIME before.

A trace is CSV with the columns time_s, node and event (up or down), see: pos_cli plan trace.`

const aboutTrace = `Generates failures: nodes, or groups of --together nodes, go down independently of one another after
--between on average, and are back after --back-after on average; with --back-after 0 they stay down.
The same flags give the same trace on every machine.

    pos_cli plan trace --nodes 30 --between 200h --length 48h --out failures.csv
    pos_cli plan trace --nodes 64 --between 6h --back-after 20m --together 4 --length 24h \
        --seed 7 > spot.csv`
