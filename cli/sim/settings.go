package sim

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/compat"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// native is the profile of our own engine.
const native = "native"

// settings are the flags of a simulation. They are written to summary.json: fields may be added,
// never renamed.
type settings struct {
	machines
	Jobs   string `json:"jobs,omitempty"`
	Format string `json:"format,omitempty"`
	Beside string `json:"beside,omitempty"`

	ProcessorsPerGPU int `json:"processors_per_gpu,omitempty"`
	trace            *traceFacts

	Profile   string `json:"profile"`
	Order     string `json:"order"`
	Placement string `json:"placement,omitempty"`
	Admission string `json:"admission"`
	Backfill  string `json:"backfill,omitempty"`
	Victims   string `json:"victims,omitempty"`
	Walk      string `json:"walk,omitempty"`

	round, quantum, age, lease, until, chooseEvery time.Duration
	limits                                         []time.Duration
	track                                          sim.Track
	Promote                                        float64 `json:"promote,omitempty"`
	History                                        string  `json:"history,omitempty"`
	Caps                                           shares  `json:"caps,omitempty"`
	Quotas                                         shares  `json:"quotas,omitempty"`
	Weights                                        shares  `json:"weights,omitempty"`
	PreemptivePriority                             bool    `json:"preemptive_priority,omitempty"`

	modelSettings
	Contention     float64 `json:"contention,omitempty"`
	Pack           bool    `json:"pack,omitempty"`
	IgnorePriority bool    `json:"ignore_priority,omitempty"`
	IgnoreWeights  bool    `json:"ignore_weights,omitempty"`
	pack           choice
	promptStarts   bool // elastic policies start jobs that arrive between rounds

	Cost      string  `json:"cost,omitempty"`
	Tier      string  `json:"tier,omitempty"`
	CostShare float64 `json:"cost_share,omitempty"`
	Models    string  `json:"models,omitempty"`

	Seed                          uint64  `json:"seed"`
	EstimateError                 float64 `json:"estimate_error,omitempty"`
	jobMTBF, nodeMTBF, nodeRepair time.Duration
	NodeEvents                    string `json:"node_events,omitempty"`
	Retries                       int    `json:"retries"`
}

// configuration is the settings in summary.json, with times in seconds like all of its times.
type configuration struct {
	*settings
	Trace *traceFacts `json:"trace,omitempty"`
	// Description says what the model of speed assumes.
	Description string `json:"model_description,omitempty"`

	Round      float64   `json:"round_s,omitempty"`
	Quantum    float64   `json:"quantum_s,omitempty"`
	Age        float64   `json:"age_s,omitempty"`
	Lease      float64   `json:"lease_s,omitempty"`
	Choose     float64   `json:"choose_every_s,omitempty"`
	Until      float64   `json:"until_s,omitempty"`
	Limits     []float64 `json:"limits_s,omitempty"`
	Track      string    `json:"track,omitempty"`
	JobMTBF    float64   `json:"job_mtbf_s,omitempty"`
	NodeMTBF   float64   `json:"node_mtbf_s,omitempty"`
	NodeRepair float64   `json:"node_repair_s,omitempty"`
	Restart    float64   `json:"restart_cost_s,omitempty"`
}

// configuration leaves out intervals that have no effect with these settings.
func (s *settings) configuration() *configuration {
	c := &configuration{
		Trace:    s.trace,
		settings: s, Round: s.round.Seconds(), Quantum: s.quantum.Seconds(), Age: s.age.Seconds(), Lease: s.lease.Seconds(),
		Until: s.until.Seconds(), Track: s.track.String(), JobMTBF: s.jobMTBF.Seconds(), NodeMTBF: s.nodeMTBF.Seconds(),
		Restart: s.restartCost.Seconds(),
	}
	if s.Order == synthesizer {
		c.Choose = s.chooseEvery.Seconds()
	}
	if s.nodeMTBF > 0 {
		c.NodeRepair = s.nodeRepair.Seconds()
	}
	for _, limit := range s.limits {
		c.Limits = append(c.Limits, limit.Seconds())
	}
	return c
}

// shares are numbers by user.
type shares map[string]float64

func (s *shares) String() string { return "" }

// Set parses USER=NUMBER,USER=NUMBER.
func (s *shares) Set(text string) error {
	*s = shares{}
	for each := range strings.SplitSeq(text, ",") {
		user, number, _ := strings.Cut(each, "=")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || user == "" || !(value > 0) || value > 1e9 {
			return fmt.Errorf("%q is not USER=NUMBER with a number above 0", each)
		}
		if _, twice := (*s)[user]; twice {
			return fmt.Errorf("%s twice in %q", user, text)
		}
		(*s)[user] = value
	}
	return nil
}

// whole returns the integers among the numbers.
func (s shares) whole() map[string]int {
	numbers := map[string]int{}
	for user, share := range s {
		if share == math.Trunc(share) {
			numbers[user] = int(share)
		}
	}
	return numbers
}

// inputFlags registers the flags of jobs and machines.
func (s *settings) inputFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.Jobs, "jobs", "", "`FILE` of jobs")
	flags.StringVar(
		&s.Format,
		"format",
		"",
		"`FORMAT` of that file: "+strings.Join(formats(), ", ")+"; default: detected",
	)
	flags.StringVar(
		&s.Beside,
		"beside",
		"",
		"second `FILE` of a trace that has two; default: the usual name in the same folder",
	)
	flags.IntVar(
		&s.ProcessorsPerGPU,
		"processors-per-gpu",
		0,
		"so many processors of a log in format swf, `N`, are a GPU; default: 1",
	)
	flags.IntVar(&s.Nodes, "nodes", 0, "`N` equal nodes")
	flags.IntVar(&s.GPUsPerNode, "gpus-per-node", 0, "`N` GPUs on each")
	flags.StringVar(
		&s.GPUTypes,
		"gpu-types",
		"",
		"a cluster of several GPU types, a `LIST` of TYPE:NODESxGPUS, such as H100:16x8,A100:32x4",
	)
	flags.StringVar(
		&s.NodesFile,
		"nodes-file",
		"",
		"a cluster from a CSV `FILE`: gpus, and optionally name, gpu_type, memory_gib, rack, count",
	)
	s.Seed = 1
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "`NUMBER` that determines all random choices")
}

// timeFlags registers the flags of times and of policies' parameters.
func (s *settings) timeFlags(flags *flag.FlagSet) {
	flags.Var(
		secondsFlag{&s.round},
		"round",
		"decide every so many `SECONDS`; default: at every event (blox: 300)",
	)
	flags.Var(
		secondsFlag{&s.quantum},
		"quantum",
		"a started job works for so many `SECONDS` before it may be preempted; default: a minute under las, las2d "+
			"and others whose ranks grow while jobs run, the lease under themis, a round under optimus, pollux "+
			"and gavel, else none",
	)
	flags.Var(
		secondsFlag{&s.age},
		"age",
		"after waiting so many `SECONDS` a job goes before all others under any order, until it has worked "+
			"for as long again, and for a minute at least",
	)
	flags.Var(secondsFlag{&s.lease}, "lease", "how many `SECONDS` themis allocates GPUs for; default: 1200")
	s.chooseEvery = defaultChooseEvery
	flags.Var(secondsFlag{&s.chooseEvery}, "choose-every", "order synthesizer simulates ahead every so many `SECONDS`")
	flags.Func(
		"limits",
		"service at which jobs of dlas (`SECONDS`) and dlas-gpu (GPU-seconds) move to the next queue, such as 3250,7200",
		func(text string) (err error) {
			s.limits, err = parseSecondsList(text)
			return err
		},
	)
	flags.Func(
		"track",
		"count only jobs `LO:HI` (LO included, HI excluded), and stop when they are done",
		func(text string) (err error) {
			s.track, err = sim.ParseTrack(text)
			return err
		},
	)
	flags.Var(secondsFlag{&s.until}, "until", "stop at so many `SECONDS`, with a result marked partial")
	flags.Float64Var(
		&s.Promote,
		"promote",
		0,
		"dlas: a job that waited so many `TIMES` as long as it ran goes back to the first queue",
	)
	flags.Var(&s.Quotas, "quotas", "GPUs that users own, for order quota, as `USER=GPUS,...`")
	flags.Var(
		&s.Caps,
		"caps",
		"GPUs that users may hold at most, under any order, as `USER=GPUS,...`; "+
			"an elastic job that asks for more runs on its user's cap",
	)
	flags.StringVar(
		&s.History,
		"history",
		"",
		"`FILE` of past jobs, in any format of --jobs: gittins and gittins2d assume their lengths",
	)
	s.meaningFlags(flags)
}

// meaningFlags registers the flags of priorities, weights and single orders.
func (s *settings) meaningFlags(flags *flag.FlagSet) {
	flags.Var(&s.Weights, "weights", "users' weights for orders drf and gavel, as `USER=WEIGHT,...`; default: 1")
	flags.BoolVar(
		&s.IgnorePriority,
		"ignore-priority",
		false,
		"orders that know no priorities ignore those of the jobs, instead of refusing them",
	)
	flags.BoolVar(
		&s.IgnoreWeights,
		"ignore-weights",
		false,
		"orders that know no weights ignore --weights, beside others that know them",
	)
	flags.BoolVar(&s.PreemptivePriority, "preemptive-priority", false, "order priority preempts jobs of lower priority")
	flags.Float64Var(
		&s.Contention,
		"contention",
		0,
		"for themis, how many `JOBS` share the cluster: each has a fair share of it; default: what the job asks for",
	)
	flags.Var(
		&s.pack,
		"pack",
		"order optimus puts each job on the fewest nodes itself, as in its paper; default: under --model placed, "+
			"measured and own, where jobs on more nodes are slower; --pack=false leaves it to --placement",
	)
}

// faultFlags registers the flags of preemption costs and of failures.
func (s *settings) faultFlags(flags *flag.FlagSet) {
	flags.StringVar(
		&s.Cost,
		"cost",
		"",
		"CSV `FILE` of what preempting and resuming a job takes: save_s, load_s, and optionally model, tier, "+
			"bytes, self_save_s; default: no time",
	)
	s.modelFlags(flags)
	flags.Float64Var(
		&s.CostShare,
		"cost-share",
		0,
		"`SHARE` of a job's working time that preemptions may cost: at 0.05, one of 10 s is not done before 200 s",
	)
	flags.StringVar(&s.Tier, "tier", "", "where checkpoints are stored, a `TIER` of that file, such as ram or disk")
	flags.StringVar(
		&s.Models,
		"models",
		"",
		"`FILE` of how fast models run on which GPUs, for all orders: CSV, or Gavel's simulation_throughputs.json; "+
			"default: a built-in table",
	)
	flags.Float64Var(
		&s.EstimateError,
		"estimate-error",
		0,
		"estimates are wrong by a factor of up to 1+`ERROR`, in either direction",
	)
	flags.Var(secondsFlag{&s.jobMTBF}, "job-mtbf", "mean working time of a job until it fails, in `SECONDS`")
	flags.IntVar(&s.Retries, "retries", 1000, "a failed job is started again up to `N` times")
	flags.Var(secondsFlag{&s.nodeMTBF}, "node-mtbf", "mean time until a node fails, in `SECONDS`")
	s.nodeRepair = time.Hour
	flags.Var(secondsFlag{&s.nodeRepair}, "node-repair", "mean time until a failed node is back, in `SECONDS`")
	flags.StringVar(
		&s.NodeEvents,
		"node-events",
		"",
		"CSV `FILE` of node events: time_s, node (number or name), event (down, up, drain)",
	)
}

// check returns an error for settings that are invalid for any jobs.
func (g *flagContext) check(given map[string]bool) error {
	s := g.settings
	if s.Profile != native && !slices.Contains(compat.Names(), s.Profile) {
		return &verb.UsageError{
			Text: fmt.Sprintf(
				"--profile takes native, %s, not %q",
				strings.Join(compat.Names(), " or "),
				s.Profile,
			),
		}
	}
	for _, each := range []struct {
		wrong bool
		text  string
	}{
		{!(s.CostShare >= 0 && s.CostShare <= 1), "--cost-share takes 0 to 1"},
		{!(s.EstimateError >= 0 && s.EstimateError <= 1000), "--estimate-error takes 0 to 1000"},
		{len(s.Caps.whole()) < len(s.Caps), "--caps takes whole GPUs"},
		{s.Retries < 0, "--retries takes 0 or more"},
		{
			given["processors-per-gpu"] && (s.ProcessorsPerGPU < 1 || s.ProcessorsPerGPU > maxProcessorsPerGPU),
			fmt.Sprintf("--processors-per-gpu takes 1 to %d", maxProcessorsPerGPU),
		},
		{s.CostShare != 0 && s.Cost == "" && s.restartCost == 0, "--cost-share needs --cost FILE or --restart-cost SECONDS"},
		{s.Cost != "" && s.restartCost > 0, "--restart-cost is in --cost FILE; take one of both"},
		{!slices.Contains(models(), s.Model), fmt.Sprintf("--model takes %s, not %q", names(models()), s.Model)},
		{s.Model == measuredModel && s.Models == "", "--model measured needs --models FILE"},
		{!(s.Contention >= 0 && s.Contention <= 1e9), "--contention takes a number above 0"},
		{s.Tier != "" && s.Cost == "", "--tier needs --cost FILE"},
		{
			s.Format != "" && !slices.Contains(formats(), s.Format),
			fmt.Sprintf("--format takes %s, not %q", names(formats()), s.Format),
		},
		{s.nodeMTBF > 0 && s.nodeRepair <= 0, "--node-repair takes more than 0 s"},
	} {
		if each.wrong {
			return &verb.UsageError{Text: each.text}
		}
	}
	if err := s.checkIntervals(); err != nil {
		return err
	}
	known := orders()
	if s.Profile != native {
		known = compat.Orders(s.Profile)
	}
	if slices.ContainsFunc(g.orders, func(name string) bool { return !slices.Contains(known, name) }) {
		return nil // reported elsewhere, with the available names
	}
	return checkUnused(given, g.rules()...)
}

// minInterval is the least repetition time. Less is probably a mistake: simulating a day of it
// would take forever.
const minInterval = time.Millisecond

// checkIntervals returns an error for times that are too short.
func (s *settings) checkIntervals() error {
	for _, each := range []struct {
		flag string
		time time.Duration
	}{
		{"round", s.round},
		{"quantum", s.quantum},
		{"age", s.age},
		{"lease", s.lease},
		{"choose-every", s.chooseEvery},
		{"job-mtbf", s.jobMTBF},
		{"node-mtbf", s.nodeMTBF},
		{"node-repair", s.nodeRepair},
	} {
		if each.time > 0 && each.time < minInterval {
			return &verb.UsageError{
				Text: fmt.Sprintf(
					"--%s takes %s s or more, not %s",
					each.flag,
					sim.Seconds(minInterval),
					sim.Seconds(each.time),
				),
			}
		}
	}
	return nil
}

// defaultChooseEvery is how often the synthesizer simulates ahead by default.
const defaultChooseEvery = time.Hour
