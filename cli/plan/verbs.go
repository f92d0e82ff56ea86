package plan

import "github.com/phos-gpu/phos/cli/verb"

// Verbs are what pos_cli does with plans, in the order of the help text.
func Verbs() []*verb.Verb {
	return []*verb.Verb{
		verb.Group(
			"plan",
			"templates|make|batch|fail|replay|trace",
			"plan pipeline-parallel training that survives failures",
			aboutGroup,
		),
		{
			Name:    "plan templates",
			Word:    true,
			Summary: "cut a model into stages for each number of nodes",
			About:   aboutTemplates,
			Prepare: templatesVerb,
		},
		{
			Name:    "plan make",
			Word:    true,
			Summary: "plan pipelines and their shares of the batch",
			About:   aboutMake,
			Prepare: makeVerb,
		},
		{
			Name:    "plan batch",
			Word:    true,
			Summary: "split a batch over pipelines of different speeds",
			About:   aboutBatch,
			Prepare: batchVerb,
		},
		{
			Name:    "plan fail",
			Word:    true,
			Summary: "plan again after nodes have died, joined or are to leave",
			About:   aboutFail,
			Prepare: failVerb,
		},
		{
			Name:    "plan replay",
			Word:    true,
			Summary: "replay a trace of failures",
			About:   aboutReplay,
			Prepare: replayVerb,
		},
		{Name: "plan trace", Word: true, Summary: "make up a trace of failures", About: aboutTrace, Prepare: traceVerb},
	}
}

const aboutGroup = `Plans training in pipelines so that the loss of nodes is answered by another plan in milliseconds, without a restart. It needs
no phosd and no GPU.

    pos_cli plan templates --profile model.json --nodes 16 --gpu-memory 80GiB --faults 2
    pos_cli plan make --profile model.json --nodes 16 --gpu-memory 80GiB --faults 2 --microbatches 512 --json > plan.json
    pos_cli plan fail --plan plan.json --dead 2,6 --json > next.json
    pos_cli plan replay --profile model.json --nodes 16 --faults 2 --microbatches 512 --trace failures.csv

A profile says what each layer of the model costs for one microbatch on one GPU:

    {"layers": [{"name": "embedding", "forward_ms": 0.8, "backward_ms": 1.6, "state_bytes": 411041792,
                 "activation_bytes": 33554432, "allreduce_in_node_ms": {"2": 0.4, "4": 0.7},
                 "allreduce_across_ms": {"2": 3.1, "4": 4.4}}, ...]}

or the same as CSV with the columns name, forward_ms, backward_ms, state_bytes, activation_bytes, allreduce_in_node_ms_2,
allreduce_across_ms_2 and so on. state_bytes are parameters, gradients and optimizer together; a stage keeps
activation_bytes for each microbatch in flight. Only forward_ms and backward_ms must be there. Times are taken to the
nanosecond and all arithmetic is exact, so that every node that plans for itself gets the same plan, and the same hash.`

const aboutTemplates = `Finds for each number of nodes that a pipeline may have the cut of the layers into stages that makes an iteration shortest.
The numbers go from the fewest nodes that hold the model (n0: with --gpu-memory each stage is checked, with the microbatches
it keeps in flight) to N - F·n0, so that F+1 pipelines can be made of any number of nodes from (F+1)·n0 to N.

    pos_cli plan templates --profile model.json --nodes 8
    pos_cli plan templates --profile model.json --nodes 8 --gpus-per-node 4 --gpu-memory 40GiB --faults 1 --json
    pos_cli plan templates --profile model.json --nodes 8 --svg iteration.svg

T is the time of an iteration with four microbatches for each GPU, in the schedule one-forward-one-backward. The search is
exact. --compat oobleck shows what Oobleck's recursive search finds instead, and what its released planner says it takes.
With --svg the largest template's iteration is drawn, stage by stage. --json: {"templates": [{"nodes": 2, "cuts": [0, 4, 6],
"t_ms": 196, ...}]}; cuts are the first layers of the stages, and the number of layers.`

const aboutMake = `Chooses how many pipelines there are of each template, and how many microbatches each gets, so that an iteration takes least:
as long as the slowest pipeline, and the all-reduce among them. There are at least --faults + 1 pipelines, so that every
layer is on so many nodes. Equal pipelines get equally many microbatches. The plan is the best there is, or, where a thousand
nodes allow more combinations than can be looked at, near it; then it says which time none can be below.

    pos_cli plan make --profile model.json --nodes 13 --gpu-memory 80GiB --faults 2 --microbatches 512
    pos_cli plan make --profile model.json --nodes 13 --faults 2 --microbatches 512 --json > plan.json

--json prints all that planning on takes, for: pos_cli plan fail. Equal plans have equal hashes.`

const aboutBatch = `Splits a batch over pipelines so that the slowest is done as early as can be.

    pos_cli plan batch --slices 6.1,4.8,3.8 --counts 4,1,1 --microbatches 4096

The slices are milliseconds for a microbatch of each kind of pipeline, the counts how many there are of each. Every
pipeline of a kind gets the same number, at least one. A batch that cannot be split so is refused, with the nearest
one that can.`

const aboutFail = `Plans again for the nodes that are there now. A pipeline that lost nodes goes on with a smaller template, else borrows nodes
from the largest, else is merged; and where that leaves fewer than F+1 pipelines, one more is made of what others can
spare. The nodes are put where least has to be copied, and each layer is copied in stripes from all that have it. The batch
stays what it was; where equal pipelines cannot have equally much of it, some get one microbatch more.

    pos_cli plan fail --plan plan.json --dead 2,6
    pos_cli plan fail --plan plan.json --dead 2 --drain 7 --join 40,41 --json > next.json
    pos_cli plan fail --plan plan.json --dead 2,6 --svg change.svg

Nodes that fail while a recovery is under way are answered by naming all of them with the plan from before: the order does
not matter. Where no node has a layer any more, it is named, and a checkpoint must supply it. --json prints the new plan
as plan make does, with steps, transfers, lost and bytes besides.`

const aboutReplay = `Runs a trace of failures in virtual time and tells how many samples a second were trained, and where the time went.

By measured throughput, with the rules of the simulation that Oobleck was published with:

    pos_cli plan replay --throughput bert.csv --trace hourly.csv --pause 2s --samples-per-step 8192

The table has the columns nodes and samples_per_s; its largest number is where the run starts. After --ready and --pause the
first step begins. A step with n nodes takes floor(1000 · samples / throughput(n)) ms. A change of nodes starts a re-plan,
which takes --pause (another change starts it again); steps that end before it does count, the one under way then is lost.
The run stops at the trace's last event.

By planning, where each change is answered by a new plan that costs what it costs:

    pos_cli plan replay --profile model.json --nodes 16 --gpu-memory 80GiB --faults 2 --microbatches 512 --trace spot.csv \
        --detect 1s --pause 2s --bandwidth 25GB --checkpoint 10m --restart 60s

A trace is CSV with the columns time_s, node and event (up or down), see: pos_cli plan trace.`

const aboutTrace = `Makes up failures: nodes, or groups of --together nodes, go down independently of one another after --between on average, and
are back after --back-after on average; with --back-after 0 they stay away. The same flags make the same trace everywhere.

    pos_cli plan trace --nodes 30 --between 200h --length 48h > failures.csv
    pos_cli plan trace --nodes 64 --between 6h --back-after 20m --together 4 --length 24h --seed 7 > spot.csv`
