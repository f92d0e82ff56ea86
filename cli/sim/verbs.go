package sim

import (
	"slices"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/compat"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// Verbs returns the sim verbs, in the order of the help text.
func Verbs() []*verb.Verb {
	policies := map[string][]string{
		"order": orders(), "placement": place.Names(), "victims": victims.Names(),
		"profile": slices.Concat([]string{native}, compat.Names()),
		"walk":    {"strict", "fill"},
	}
	return []*verb.Verb{
		verb.Group("sim", "run|compare|policies|generate|check", "simulate schedulers on traces of jobs, in virtual time",
			aboutGroup),
		{
			Name: "sim run", Word: true,
			Summary: "simulate a scheduler on a trace of jobs",
			About:   aboutRun,
			Values:  policies,
			Setup:   runVerb,
		},
		{
			Name: "sim compare", Word: true,
			Summary: "simulate many schedulers side by side",
			About:   aboutCompare,
			Values:  policies,
			Setup:   compareVerb,
		},
		{
			Name: "sim policies", Word: true,
			Summary: "list the orders and what priorities and weights mean under each",
			About:   aboutPolicies,
			Setup:   policiesVerb,
		},
		{
			Name: "sim generate", Word: true,
			Summary: "generate a trace of jobs",
			About:   aboutGenerate,
			Values:  map[string][]string{"kind": generator.Names()},
			Setup:   generateVerb,
		},
		{
			Name: "sim check", Word: true,
			Summary: "check a log of events",
			About:   aboutCheck,
			Setup:   checkVerb,
		},
	}
}

const aboutGroup = `Plays a trace of jobs to a scheduler and reports when each job would have run. It needs no phosd and
no GPU: time is virtual, and a hundred thousand jobs take seconds. The policies are the same code as
for a real cluster.

    pos_cli sim generate --nodes 32 --gpus-per-node 4 --load 0.9 --count 2000 --out jobs.csv
    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order las --out results
    pos_cli sim compare --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo,srtf,las --out comparison
    pos_cli sim check --events events.jsonl

The same input gives exactly the same result on every machine.

` + aboutTraces

const aboutRun = `Simulates one scheduler on one trace. All random numbers depend on --seed.

    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order srtf --out results
    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo --backfill easy --estimate-error 1
    pos_cli sim run --jobs jobs.csv --gpu-types H100:16x8,A100:32x4 --order las --quantum 600 --placement best-fit
    pos_cli sim run --jobs cluster_job_log --nodes 300 --gpus-per-node 8 --order dlas-gpu --limits 3250,7200
    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order las --profile blox --round 300 \
        --track 1000:1301

The jobs are a CSV file whose first row names the columns, in any order: job_id, submit_s (or
arrival_s), duration_s, num_gpus, and optionally name, user, model, gpu_type, priority, estimate_s,
share, min_gpus, max_gpus, memory_gib. The published traces of Philly, Helios, Alibaba, Gavel, Pollux
and the Standard Workload Format are read as published, see: pos_cli help sim. What is assumed where
they lack something is in the result.

The orders of the native profile, where jobs of equal rank are ordered by submission, then by number:

    fifo                 by submission; the first job that does not fit blocks all behind it
                         (see --backfill, --walk fill)
    priority, sjf        the highest priority, the shortest estimate; strict as fifo, no preemption
    srtf, srsf           the shortest remaining estimate (times GPUs): a shorter job preempts longer
                         ones at once
    las, las2d           the least attained running time (times GPUs). A started job works for
                         --quantum (default 60 s) at least; then a waiting job that has attained as
                         much or less preempts it
    dlas, dlas-gpu       Tiresias: queues by attained time or GPU-time (--limits), by first start in each
    gittins, gittins2d, themis, drf, quota
                         by Gittins index, finish-time fairness, dominant share, users' quotas
    optimus, pollux, gavel
                         decide how many GPUs each job gets, every --round (default 60 s)
    synthesizer          simulates ahead and takes the best of fifo, las and srtf, with admission policies

What priorities and weights mean under each order: pos_cli sim policies. An order that knows no
priorities refuses jobs whose priorities differ, unless --ignore-priority is set.

How fast jobs run is one model for all orders, --model; the result names it:

    common       a job takes duration_s on the GPUs that it asks for, on whatever nodes. Elastic jobs on
                 more or fewer, and GPU types of a mixed cluster, scale by the job's model in a built-in
                 table or in --models; jobs of other models are like its model unknown. duration_s is on
                 the job's gpu_type, or on --reference
    placed       as common, and on more nodes than needed a job is slower, as the table says (under common
                 only jobs of models in --models are)
    measured     as placed; jobs that change their size must have a model in --models
    linear       speed is proportional to the number of GPUs, all types are alike
    own          each order's own, for checks against its paper: linear for orders with a queue; for gavel
                 and optimus as placed, with duration_s on a V100; for pollux so, too, but jobs adapt
                 their batches to their GPUs, and it assumes that a restart takes 30 s

Under all but own, the policies decide by the same model. A job's first start takes no time; to stop
it and to start it again takes what --restart-cost or --cost says, else no time. A job that arrives between rounds of optimus, pollux or gavel starts at once on free GPUs; if
--round is set, it waits for the next round under every order.

Under orders that preempt, all jobs that fit behind a blocked one start; under the others they wait
for it. Policies see estimates and never lengths; the estimate is the length if the trace has none
(see --estimate-error). A flag without effect is an error, as --limits under las, --cost without
preemption, or --seed if nothing is random; --backfill is for walks that end at the first job that
does not fit.

With --out it writes, all or nothing:

    jobs.csv       a line for each tracked job, by number; the columns are below
    summary.json   n, avg_jct_s, median_jct_s, p99_jct_s, makespan_s (from the first submission to
                   the last end), avg_start_delay_s, preemptions (of all jobs; tracked_preemptions:
                   of tracked jobs), gpu_utilisation (from the first submission to the end of the
                   simulation), the figures below, and the configuration
    timeline.csv   time_s, running, waiting, held, gpus_demanded, gpus_busy, gpus; at most 100,000 rows
    index.html     all charts in one self-contained page; each also as SVG and PNG

The columns of jobs.csv; later versions add columns at the end. What does not exist is empty:

    job_id, submit_s     number and submission
    start_s, finish_s    when the job first got GPUs (blox: the first round that begins after that), and
                         when it ended
    preemptions, name, user, priority
    class                small or large (more than 4 GPUs), short or long (more than an hour): small-short
    gpus, outcome        the GPUs that it asks for; done, failed (too often) or unfinished
    start_delay_s        from the submission to the first GPUs
    wait_s, run_s        how long it had no GPUs, and how long it had some, loading included; their sum
                         is the JCT (job completion time), finish_s - submit_s
    slowdown             JCT / length; the length is duration_s of the trace
    bounded_slowdown     max(1, JCT / max(length, 10 s)), after Feitelson
    finish_time_fairness Themis's rho = T_shared / T_independent: JCT / (length * max(1, gpus * N / G)),
                         where G is the GPUs of the cluster, and N how many jobs were in the system on
                         average while this one was. Above 1, the job would have ended earlier alone on
                         1/N of the cluster
    gpu_s_requested      length times GPUs
    gpu_s                what it held: more, if it loaded, or worked again after a failure
    runs                 how often it got GPUs: at first, on the same ones after a preemption, and:
    migrations, resizes  after a preemption on other GPUs, and on another number of GPUs
    restarts             after a failure of the job or of its node
    placement            the GPUs of the last run as NODES:GPUS;NODES:GPUS, numbers from 0: 0-3:0-7;5:0+2-3
                         is GPUs 0 to 7 of the nodes 0 to 3 each, and GPUs 0, 2, 3 of node 5

The figures, of the tracked jobs that ended: jct_s, wait_s, slowdown, bounded_slowdown and
finish_time_fairness, each with mean, median, p95, p99 and max; fairness_index, Jain's over users,
(sum x)^2 / (n * sum x^2), where x is the part that a user received of the GPU-time that its jobs asked
for while they were in the system: sum gpu_s / sum (JCT * gpus); gpu_hours_requested, gpu_hours; and
by_user, by_class and by_priority, with the same figures of these jobs. Percentiles are interpolated
between the two nearest jobs.

The profiles blox and tiresias reproduce those simulators job by job, including their quirks. blox
has the orders fifo, las, srtf and tiresias; tiresias has fifo, fjf, sjf (there: the fewest GPUs
first), srtf, srsf, dlas and dlas-gpu.

--events writes a log of every decision, a line of JSON each: when jobs arrive, are admitted, get which
GPUs, are preempted for which other job, move, fail and end. docs/events.md is the format, and
pos_cli sim check checks one.

If interrupted, it writes the results so far, marked partial. Exit status: 0 done, 1 failed or
interrupted, 2 wrong command line.`

const aboutCompare = `Simulates every combination of orders, placements, admission policies and loads, several at a
time, and prints them side by side. The result does not depend on how many run at a time.

    pos_cli sim compare --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo,srtf,las --out comparison
    pos_cli sim compare --nodes 32 --gpus-per-node 4 --generate poisson --count 2000 --load 0.6,0.8,1.0 \
        --order fifo,las,srtf
    pos_cli sim compare --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo,las \
        --placement first-free,best-fit --admission all,load:1.2

Without --jobs, jobs are generated, see: pos_cli help sim generate. With --jobs and --load, the times
between the trace's arrivals are scaled so that it needs that much of the cluster: the jobs stay the
same. LOAD is the load that was asked for. OFFERED LOAD is that of the jobs, from the first arrival
to the last; of few generated jobs, whose lengths and arrivals are random, it differs.

All rows have one model of how fast jobs run and of what restarts take (--model, see: pos_cli help
sim run). It is printed below the table, is on the page and is model in compare.json. What an order
cannot do under it is an error before anything runs.

With --out it writes compare.json and compare.csv (a row for each combination), NAME.jobs.csv,
NAME.summary.json and NAME.timeline.csv of each, and charts: index.html, and each as SVG and PNG. All
flags of one simulation apply to all, see: pos_cli help sim run. A flag for some orders only, as
--limits, needs one of them in the grid.`

const aboutPolicies = `Lists the orders of the native profile: whether jobs are preempted, what a job's priority and its
user's weight (--weights) mean, and how many GPUs a job gets.

Where a priority is refused, jobs with different priorities are an error of sim run and sim compare,
unless --ignore-priority is set. Where a weight is refused, --weights is, unless --ignore-weights is
set and another order of the comparison knows weights.

Under drf and quota, the job of highest priority is first among those that its user has waiting; no
running job of the user is preempted for it. Under priority it preempts with --preemptive-priority.
Under gavel, where jobs compete, each is due throughput in proportion to its weight: that of its user,
times two for each priority above 0, divided by two for each below, ten times at most. Under quota,
users' quotas (--quotas) are in the place of weights.`

const aboutGenerate = `Generates jobs and writes them as CSV. The same flags give the same jobs on every machine, and at
every load the same jobs, only closer together.

    pos_cli sim generate --nodes 32 --gpus-per-node 4 --load 0.9 --count 2000 --out jobs.csv
    pos_cli sim generate --jobs-per-hour 7 --count 1500 --lengths blox --sizes 1:70,2:10,4:15,8:5
    pos_cli sim generate --kind tenants --nodes 64 --gpus-per-node 8 --load 0.8 --seed 7

Kinds: poisson (independent arrivals), burst (many short jobs at regular times, on top of a steady
stream), tenants (teams with jobs of their own kinds). Lengths: blox is the distribution of Blox's
generator, from half an hour to a week.`
