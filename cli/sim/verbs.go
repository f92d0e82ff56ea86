package sim

import "github.com/phos-gpu/phos/cli/verb"

// Verbs are what pos_cli does with simulations, in the order of the help text.
func Verbs() []*verb.Verb {
	return []*verb.Verb{
		verb.Group("sim", "run|compare|generate", "try schedulers out on traces of jobs, in virtual time", aboutGroup),
		{
			Name: "sim run", Word: true,
			Summary: "simulate a scheduler on a trace of jobs",
			About:   aboutRun,
			Prepare: runVerb,
		},
		{
			Name: "sim compare", Word: true,
			Summary: "simulate many schedulers side by side",
			About:   aboutCompare,
			Prepare: compareVerb,
		},
		{
			Name: "sim generate", Word: true,
			Summary: "make up a trace of jobs",
			About:   aboutGenerate,
			Prepare: generateVerb,
		},
	}
}

const aboutGroup = `Plays a trace of jobs to a scheduler and tells when each job would have run. It needs no phosd and no GPU: time is virtual,
and a hundred thousand jobs take seconds. The policies are the same code that a real cluster would run.

    pos_cli sim generate --nodes 32 --gpus-per-node 4 --load 0.9 --count 2000 --out jobs.csv
    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order las --out results
    pos_cli sim compare --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo,srtf,las --out comparison

The same input gives the same result, to the last digit, on every machine.`

const aboutRun = `Simulates one scheduler on one trace. Nothing is drawn at random that --seed does not decide.

    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order srtf --out results
    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo --backfill easy --estimate-error 1
    pos_cli sim run --jobs jobs.csv --gpu-types H100:16x8,A100:32x4 --order las --quantum 600 --placement best-fit
    pos_cli sim run --jobs cluster_job_log --nodes 300 --gpus-per-node 8 --order dlas-gpu --limits 3250,7200
    pos_cli sim run --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order las --profile blox --round 300 --track 1000:1301

The jobs are a CSV file whose first row names the columns, in any order: job_id, submit_s (or arrival_s), duration_s,
num_gpus, and optionally name, user, model, gpu_type, priority, estimate_s, share, min_gpus, max_gpus, memory_gib. The
published traces of Philly, Helios, Alibaba, Gavel, Pollux and the Standard Workload Format are read as they are.

What the orders mean in the native profile, where jobs of equal rank go by submission and then by number:

    fifo             by submission; the first job that does not fit holds up all behind it (see --backfill, --walk fill)
    priority, sjf    the highest priority, the shortest estimate; strict as fifo, and nobody is stopped
    srtf, srsf       the shortest remaining estimate (times GPUs): a job that is shorter stops longer ones at once
    las, las2d       the least attained running time (times GPUs). A job that was started works for --quantum (60 s
                     otherwise) at least; after that whoever has had less, or as much, and waits takes its place
    dlas, dlas-gpu   Tiresias: queues by attained time or GPU-time (--limits), first come first served in each
    gittins, gittins2d, themis, drf, quota    by Gittins index, finish-time fairness, dominant share, quotas of users
    optimus, pollux, gavel                    say how many GPUs each job gets, every --round (60 s otherwise)
    synthesizer                               simulates ahead and takes the best of fifo, las and srtf, with admissions

Orders that stop jobs go on with whoever fits behind a job that does not; the others wait for it. Policies see estimates
and never lengths; the estimate is the length where the trace has none (see --estimate-error). A flag that would decide
nothing with the others is refused, as --limits under las, --cost where nobody is ever stopped, or --seed where nothing is
random; --backfill is for walks that end at the first job that does not fit.

With --out it writes, all or nothing:

    jobs.csv        job_id, submit_s, start_s, finish_s, preemptions of each job that counts, by number; start_s is when the
                    job first got its GPUs (blox: the first round that begins after that)
    summary.json    n, avg_jct_s, median_jct_s, p99_jct_s, makespan_s (from the first submission to the last end),
                    avg_start_delay_s, preemptions (of all jobs; tracked_preemptions: of those that count),
                    gpu_utilisation (from the first submission until the simulation ended), and the configuration
    timeline.csv    time_s, running, waiting, held, gpus_demanded, gpus_busy, gpus; at most 100,000 moments
    index.html      all pictures in one page that needs nothing else; each also as SVG and PNG

The profiles blox and tiresias answer as those simulators do, job by job, their habits included; blox knows the orders
fifo, las, srtf and tiresias, tiresias knows fifo, fjf, sjf (there: the fewest GPUs first), srtf, srsf, dlas and dlas-gpu.

Interrupted, it writes what there is by then, marked partial. Exit status: 0 done, 1 failed or interrupted, 2 wrong
command line.`

const aboutCompare = `Simulates every combination of orders, placements, admissions and loads, several at a time, and puts them side by side.
The result does not depend on how many run at a time.

    pos_cli sim compare --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo,srtf,las --out comparison
    pos_cli sim compare --nodes 32 --gpus-per-node 4 --generate poisson --count 2000 --load 0.6,0.8,1.0 --order fifo,las,srtf
    pos_cli sim compare --jobs jobs.csv --nodes 32 --gpus-per-node 4 --order fifo,las --placement first-free,best-fit --admission all,load:1.2

Without --jobs, jobs are made up, see: pos_cli help sim generate. With --jobs and --load, the times between the
arrivals of the trace are stretched so that it needs that much of the cluster: the jobs stay as they are.

With --out it writes compare.json and compare.csv (a row for each combination), NAME.jobs.csv, NAME.summary.json and
NAME.timeline.csv of each, and pictures: index.html, and each as SVG and PNG. All that can be told to one simulation
can be told to all, see: pos_cli help sim run. What only some orders look at, as --limits, needs one of them in the grid.`

const aboutGenerate = `Makes jobs up and writes them as CSV. The same flags make the same jobs on every machine, and at every load the jobs are
the same ones, only closer together.

    pos_cli sim generate --nodes 32 --gpus-per-node 4 --load 0.9 --count 2000 --out jobs.csv
    pos_cli sim generate --jobs-per-hour 7 --count 1500 --lengths blox --sizes 1:70,2:10,4:15,8:5
    pos_cli sim generate --kind tenants --nodes 64 --gpus-per-node 8 --load 0.8 --seed 7

Kinds: poisson (independent arrivals), burst (many short jobs at once, now and then, on top of a steady stream), tenants
(teams with jobs of their own kinds). Lengths: blox is the law of Blox's generator, from half an hour to a week.`
